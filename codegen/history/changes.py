"""From one spec of a message to the next: the changes that make the one from the other, in order.

A change is a line of ``specs/history.json``: a JSON object with ``release`` and these keys.

=================================  =============================================================
``added``                          a message (the whole spec), or with ``at`` a field or a struct
``removed``                        a message (true), or with ``at`` what the field was
``key``, ``from``, ``to``          a fact of the message, or with ``at`` of a field; null: absent
``was``                            the field at ``at`` had this name
``fields from``                    the fields of a struct moved: from where it was used to the
                                   common structs, or back
``after``                          the field is behind this one (null: the first); absent: the last
=================================  =============================================================

``at`` is a path as in the schemas, ``Topics.Partitions.LeaderId``. A common struct is its name in
angle brackets, ``<Voter>``, and its fields are ``<Voter>.VoterId``. Fields are matched as ``spec
diff`` matches them, so that a field with a new name is not another field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from kraftspec.codegen.evolution import matched_fields
from kraftspec.codegen.importer import (
    FIELD_KEYS,
    MESSAGE_KEYS,
    STRUCT_KEYS,
    Spec,
    normalize,
    render,
    without_zookeeper,
)
from kraftspec.codegen.model import Message
from kraftspec.codegen.reader import check_text

Change = dict[str, Any]
MODULE: Final = "module"  # The jar that a schema is in; a fact of a spec here, not in its file.
_LISTS: Final = ("name", "fields", "commonStructs")
_FACTS: Final = tuple(
    dict.fromkeys(
        key for key in (MODULE, *MESSAGE_KEYS, *STRUCT_KEYS, *FIELD_KEYS) if key not in _LISTS
    )
)


class HistoryError(ValueError):
    """A history cannot be made or read; the text names the message and the reason."""


def changes_between(old: Spec, new: Spec) -> list[Change]:
    """Return the changes, without ``release``, that ``applied`` makes ``new`` from ``old`` by."""
    step = _Step(old, new)
    step.run()
    if applied(old, step.changes) != new:
        raise HistoryError(f"{new['name']}: its changes do not give the new spec")
    return step.changes


def applied(spec: Spec, changes: Sequence[Change]) -> Spec:
    """Return the spec that changes make of another."""
    result = deepcopy(spec)
    for change in changes:
        _apply(result, change)
    module = {MODULE: result.pop(MODULE)} if MODULE in result else {}
    return {**module, **normalize(result, "history")}  # The keys in their order.


def message_of(spec: Spec) -> Message:
    """Return the model of a spec. Raises ``HistoryError``."""
    bare = {key: value for key, value in without_zookeeper(spec).items() if key != MODULE}
    message, mistakes = check_text(render(bare), str(spec["name"]))
    if message is None:
        raise HistoryError("\n".join(map(str, mistakes)))
    return message


# Places in a spec.


def join(path: str, name: str) -> str:
    """Return the path of a field of the struct at ``path``."""
    return f"{path}.{name}" if path else name


def _siblings(spec: Spec, at: str) -> tuple[list[Spec], str]:
    """Return the list that has the field or struct of a path, and its name there."""
    if at.startswith("<") and at.endswith(">"):
        return spec.setdefault("commonStructs", []), at[1:-1]
    parent, _, name = at.rpartition(".")
    return fields_at(spec, parent), name


def fields_at(spec: Spec, path: str) -> list[Spec]:
    """Return the fields of the struct at a path; of the message for an empty one."""
    fields: list[Spec] = (_find(spec, path) if path else spec).setdefault("fields", [])
    return fields


def _find(spec: Spec, at: str) -> Spec:
    siblings, name = _siblings(spec, at)
    return siblings[_index(siblings, name)]


def _index(siblings: Sequence[Spec], name: str) -> int:
    return [entry["name"] for entry in siblings].index(name)


def _apply(spec: Spec, change: Change) -> None:
    at = change.get("at", "")
    if "key" in change:
        _set(_find(spec, at) if at else spec, change["key"], change["to"])
        return
    siblings, name = _siblings(spec, at)
    if "removed" in change:
        del siblings[_index(siblings, name)]
    elif "was" in change:
        siblings[_index(siblings, change["was"])]["name"] = name
    elif "fields from" in change:
        _move_fields(spec, change["fields from"], at)
    else:
        moved = change.get("added") or siblings.pop(_index(siblings, name))
        where = len(siblings)
        if "after" in change:
            where = 0 if change["after"] is None else _index(siblings, change["after"]) + 1
        siblings.insert(where, deepcopy({"name": name, **moved}))
    if not spec.get("commonStructs", True):
        del spec["commonStructs"]


def _set(entry: Spec, key: str, value: Any) -> None:
    if value is None:
        entry.pop(key, None)
    else:
        entry[key] = deepcopy(value)


def _move_fields(spec: Spec, source: str, target: str) -> None:
    if target.startswith("<"):
        fields = _find(spec, source).pop("fields")
        structs, name = _siblings(spec, target)
        structs.append({"name": name, "fields": fields})
    else:
        structs, name = _siblings(spec, source)
        _find(spec, target)["fields"] = structs.pop(_index(structs, name))["fields"]


class _Step:
    """Collects changes. ``work`` is the old spec with those that were found so far."""

    def __init__(self, old: Spec, new: Spec) -> None:
        self.old, self.new = old, new
        self.models = (message_of(old), message_of(new))
        self.work = deepcopy(old)
        self.changes: list[Change] = []
        self.partners: dict[str, str] = {}  # Common structs: old path → new path.

    def do(self, at: str, change: Change) -> None:
        placed = {"at": at, **change} if at else change
        self.changes.append(placed)
        _apply(self.work, placed)

    def run(self) -> None:
        self.facts("", self.old, self.new)
        self.struct("", "")
        for name in _structs(self.new):
            if name in _structs(self.old) and name not in self.partners.values():
                self.pair(name, name)
        for name in _structs(self.old):
            if name in _structs(self.work) and name not in _structs(self.new):
                self.do(name, {"removed": _facts(_find(self.old, name))})
        self.places("", "commonStructs", "<{}>")
        if "fields" not in self.new and "fields" in self.work:
            self.do("", {"key": "fields", "from": [], "to": None})

    def facts(self, at: str, old: Spec, new: Spec) -> None:
        for key in _FACTS:
            if old.get(key) != new.get(key):
                self.do(at, {"key": key, "from": old.get(key), "to": new.get(key)})

    def pair(self, old: str, new: str) -> None:
        """Go on into two common structs, or one that was or becomes one."""
        if old.startswith("<"):
            self.partners[old] = new
        if new.startswith("<"):
            self.facts(new, _find(self.work, new), _find(self.new, new))
        self.struct(old, new)

    def struct(self, old: str, new: str) -> None:
        """Find what happened to the fields of a struct that both specs have."""
        befores, afters = _fields(self.old, old), _fields(self.new, new)
        if any(model.valid_versions.empty for model in self.models):
            pairs = [(name, name) for name in befores if name in afters]
        else:
            names = (_struct_name(self.old, old), _struct_name(self.new, new))
            pairs = matched_fields(*self.models, *names)
        kept = {before for before, _ in pairs}
        for name, before in befores.items():
            if name not in kept:
                self.do(join(new, name), {"removed": _facts(before)})
        for name, after in pairs:
            if name != after:
                self.do(join(new, after), {"was": name})
        for name, after in pairs:
            self.facts(join(new, after), befores[name], afters[after])
        self.places(new, "fields", "{}")
        for name, after in pairs:
            self.inside(join(old, name), join(new, after), befores[name], afters[after])

    def places(self, path: str, key: str, form: str) -> None:
        """Add what is new to a list, and put the entries in order."""
        wanted = (_find(self.new, path) if path else self.new).get(key, ())
        for index, entry in enumerate(wanted):
            present = (_find(self.work, path) if path else self.work).get(key, ())
            names = [other["name"] for other in present]
            here = join(path, form.format(entry["name"]))
            before = wanted[index - 1]["name"] if index else None
            if entry["name"] not in names:
                added = {key: value for key, value in entry.items() if key != "name"}
                place = {} if index == len(names) else {"after": before}
                self.do(here, {"added": added, **place})
            elif names[index] != entry["name"]:
                self.do(here, {"after": before})

    def inside(self, old: str, new: str, before: Spec, after: Spec) -> None:
        """Go on into the structs that two fields have."""
        source, target = _home(self.old, old, before), _home(self.new, new, after)
        from_common = source != old and source not in (None, *_structs(self.new))
        to_common = target != new and target not in (None, *_structs(self.work))
        if source == old and target == new:
            self.struct(old, new)
        elif from_common and to_common:
            self.do(str(target), {"was": str(source)[1:-1]})
            self.pair(str(source), str(target))
        elif from_common and target == new and source not in self.partners:
            self.do(new, {"fields from": source})
            self.pair(str(source), new)
        elif to_common and source == old:
            self.do(str(target), {"fields from": new})
            self.pair(old, str(target))
        else:
            own = {"from": before.get("fields"), "to": after.get("fields")}
            if own["from"] != own["to"]:
                self.do(new, {"key": "fields", **own})


def _fields(spec: Spec, path: str) -> dict[str, Spec]:
    fields = (_find(spec, path) if path else spec).get("fields", ())
    return {field["name"]: field for field in fields}


def _structs(spec: Spec) -> list[str]:
    return [f"<{struct['name']}>" for struct in spec.get("commonStructs", ())]


def _struct_name(spec: Spec, path: str) -> str:
    """Return the name of the struct at a path; an empty one for the message."""
    if not path or (path.startswith("<") and path.endswith(">")):
        return path.strip("<>")
    return str(_find(spec, path)["type"]).removeprefix("[]")


def _home(spec: Spec, at: str, field: Spec) -> str | None:
    """Return the path of the struct that a field is of: its own, a common one's, or none."""
    if "fields" in field:
        return at
    name = f"<{field['type'].removeprefix('[]')}>"
    return name if name in _structs(spec) else None


def _facts(entry: Mapping[str, Any]) -> Spec:
    return {key: value for key, value in entry.items() if key not in _LISTS}


def added_fields(change: Change) -> Iterator[tuple[str, Spec]]:
    """Yield every field that a change adds, with its path, those inside of structs too."""

    def walk(path: str, entry: Spec) -> Iterator[tuple[str, Spec]]:
        for field in entry.get("fields", ()):
            here = join(path, field["name"])
            yield here, field
            yield from walk(here, field)
        for struct in entry.get("commonStructs", ()):
            yield from walk(f"<{struct['name']}>", struct)

    at = change.get("at", "")
    if at and not at.endswith(">"):
        yield at, change["added"]
    yield from walk(at, change["added"])
