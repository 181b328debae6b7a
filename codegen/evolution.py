"""May a message change like this? The rules of schema evolution, for one old and one new spec.

Bytes decide: a version that both sides have must keep its wire layout, whatever the specs look
like. On top of that stand Apache Kafka's own rules, which also protect what is not in the bytes
(defaults, ranges of versions). Sources: ``EvolutionVerifier`` and ``Unifier`` of
``org.apache.kafka.message.checker`` for the rules that upstream's tool enforces, KIP-482 for tags.
Where we judge otherwise than that tool is in ``docs/schema-evolution.md``, and held by tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kraftspec.codegen.model import Field, Message, Struct
from kraftspec.codegen.plan import FieldPlan, StructPlan, camel_case, plan_message
from kraftspec.codegen.versions import NONE, VERSION_MAX, Versions

# Both sides of one struct at each version that is compared.
Plans = dict[int, tuple[StructPlan, StructPlan]]
FieldPlans = dict[int, tuple[FieldPlan, FieldPlan]]

# Rule → how to mend a violation of it.
BREAKING: dict[str, str] = {
    "api-key-changed": "restore the key; a message with another key is another message",
    "api-key-reused": "take a number that no message has had",
    "message-type-changed": "restore the type; a message of another type needs another name",
    "message-removed": "keep the spec as long as a peer or a log has the message",
    "all-versions-removed": "keep the versions that peers and logs may still have",
    "highest-version-fell": "keep the newest version; let a field end in a newer one instead",
    "lowest-version-fell": "a dropped version may not come back; restore the lowest version",
    "released-made-unstable": "drop latestVersionUnstable, or add a version for what is unstable",
    "flexible-versions-narrowed": "let flexibleVersions contain all versions that it contained",
    "released-made-flexible": "start flexibleVersions at a version that is not released yet",
    "range-outside-valid": "reduce the range to the message's versions, or delete it",
    "live-field-removed": "keep the field and end its versions: remove it in a new version",
    "live-fields-reordered": "restore the order; a field without a tag is known by its place",
    "field-added-to-released": "let the field start at a version that is not released yet",
    "field-type-changed": "end this field's versions and add a field of the new type",
    "field-lowest-changed": "restore the first version of the field",
    "field-highest-fell": "keep the field in every released version that had it",
    "field-highest-raised": "a released version did not have the field; restore the range",
    "default-changed": "restore the default; a peer without the field means this value",
    "nullable-lowest-changed": "restore the range, or add a nullable field at a new version",
    "nullable-highest-fell": "let the field be null in every version where it could be",
    "nullable-highest-raised": "a released version has no null here; restore the range",
    "field-flexible-narrowed": "restore the field's flexibleVersions",
    "field-flexible-changed": "restore the field's flexibleVersions for released versions",
    "tag-reused": "a tag number is never free again: take the next one",
    "tag-changed": "restore the tag number",
    "tagging-changed": "a released version keeps the field where it was, in a tag or not",
    "released-layout-changed": "restore the released layout and make the change in a new version",
}
# Rule → what the reader of the report should make of it. None of these is breaking.
NOTES: dict[str, str] = {
    "versions-added": "nothing to do: peers agree on a version",
    "versions-dropped": "peers and logs with only the dropped versions cannot be read",
    "unstable-version-changed": "nothing to do: the version was not released",
    "version-made-stable": "from now on its layout must not change",
    "range-still-outside-valid": "delete the range when you can; no version has it",
    "field-added": "nothing to do: it starts at a version that is not released yet",
    "field-ended": "nothing to do: released versions keep it",
    "dead-field-removed": "nothing to do: no version that is left had it",
    "field-renamed": "same bytes, but code and JSON that use the old name break",
    "struct-renamed": "same bytes, but code that uses the old name breaks",
    "same-bytes-type-change": "same bytes in every released version, but code and JSON break",
    "tagging-added": "nothing to do: released versions keep the field where it was",
    "api-changed": "same bytes; check the code that uses the field",
    "message-changed": "same bytes; check what this means for servers",
    "no-wire-change": "nothing to do: every version has the layout that it had",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that changed. ``path`` is empty for the whole message."""

    rule: str  # a key of BREAKING or NOTES
    path: str  # topics.partitions.replicaEpoch
    what: str

    @property
    def breaking(self) -> bool:
        """Whether the rule refuses the change."""
        return self.rule in BREAKING

    @property
    def mend(self) -> str:
        """What to do about it."""
        return BREAKING[self.rule] if self.breaking else NOTES[self.rule]


def compare_messages(old: Message, new: Message) -> list[Change]:
    """Return all that changed between two specs of one message that differ; never nothing."""
    comparison = _Comparison(old, new)
    comparison.run()
    return comparison.changes


def matched_fields(old: Message, new: Message, before: str, after: str) -> list[tuple[str, str]]:
    """Pair the fields of two structs by name, place and tag, as a comparison does.

    The structs are given by their names, the message itself by an empty one.
    """
    pairs = _Comparison(old, new).match(old.struct(before), new.struct(after))
    return [(was.name, entry.name) for was, entry in pairs]


def released_versions(message: Message) -> Versions:
    """Return the versions whose layout is frozen: all but an unstable latest one."""
    valid = message.valid_versions
    if not message.latest_version_unstable:
        return valid
    stable = Versions(valid.lowest, valid.highest - 1)
    return NONE if stable.empty else stable


def wire_form(struct: StructPlan) -> tuple[object, ...]:
    """Return what decides the bytes of a struct, and nothing else: no names.

    A struct that is neither nullable nor flexible leaves no trace of its own, so its fields stand
    in its place; that makes an array of one-field structs equal to an array of primitives there.
    """
    items = [item for plan in struct.fields for item in _field_form(plan)]
    if struct.flexible:
        tags = tuple((plan.tag, repr(plan.default), _field_form(plan)) for plan in struct.tagged)
        items.append(("tags", tags))
    return tuple(items)


def _field_form(plan: FieldPlan) -> tuple[object, ...]:
    if isinstance(plan.element, StructPlan):
        inner = wire_form(plan.element)
        if plan.wire == "struct":
            return ((plan.wire, inner),) if plan.nullable else inner
        return ((plan.wire, plan.nullable, inner),)
    if plan.element is not None:
        return ((plan.wire, plan.nullable, ((plan.element, False),)),)
    return ((plan.wire, plan.nullable),)


class _Comparison:
    """Collects the changes for one message. ``shared``: released, and still valid."""

    def __init__(self, old: Message, new: Message) -> None:
        self.old = old
        self.new = new
        self.released = released_versions(old)
        self.shared = self.released & new.valid_versions
        self.changes: list[Change] = []

    def find(self, rule: str, path: str, what: str) -> None:
        self.changes.append(Change(rule, path, what))

    def run(self) -> None:
        self.identity()
        if self.new.valid_versions.empty:
            if not self.released.empty:
                self.find("all-versions-removed", "", f"versions {self.old.valid_versions} → none")
        else:
            self.versions()
            self.flexibility()
            self.stability()
            self.ranges()
            plans = {
                version: (
                    plan_message(self.old, version).struct,
                    plan_message(self.new, version).struct,
                )
                for version in self.shared
            }
            self.structs("", self.old.top, self.new.top, plans)
            self.layouts(plans)
        if not self.changes:
            self.find("no-wire-change", "", "written differently, with the same layout")

    # The message as a whole.

    def identity(self) -> None:
        old, new = self.old, self.new
        if old.api_key != new.api_key:
            self.find("api-key-changed", "", f"apiKey {old.api_key} → {new.api_key}")
        if old.type != new.type:
            self.find("message-type-changed", "", f"type {old.type} → {new.type}")
        if old.listeners != new.listeners:
            self.find(
                "message-changed",
                "",
                f"listeners {_names(old.listeners)} → {_names(new.listeners)}",
            )
        if old.deprecated_versions != new.deprecated_versions:
            self.find(
                "message-changed",
                "",
                f"deprecatedVersions {old.deprecated_versions} → {new.deprecated_versions}",
            )

    def versions(self) -> None:
        old, new = self.old.valid_versions, self.new.valid_versions
        moved = f"versions {old} → {new}"
        if new.highest < self.released.highest:
            self.find("highest-version-fell", "", moved)
        if not old.empty and new.lowest < old.lowest:
            self.find("lowest-version-fell", "", moved)
        dropped = self.released & Versions(0, new.lowest - 1)
        if not dropped.empty:
            self.find("versions-dropped", "", f"drops versions {dropped}: {moved}")
        added = new & Versions(old.highest + 1, new.highest)
        if not added.empty:
            self.find("versions-added", "", f"adds versions {added}: {moved}")

    def flexibility(self) -> None:
        old, new = self.old.flexible_versions, self.new.flexible_versions
        moved = f"flexibleVersions {old} → {new}"
        if not new.covers(old):
            self.find("flexible-versions-narrowed", "", moved)
        elif new & self.shared != old & self.shared:
            self.find("released-made-flexible", "", moved)

    def stability(self) -> None:
        old, new = self.old, self.new
        latest = old.valid_versions.highest
        if old.valid_versions.empty:
            return
        unstable = new.latest_version_unstable and new.valid_versions.highest <= latest
        if not old.latest_version_unstable:
            if unstable:
                self.find("released-made-unstable", "", f"version {latest} was released")
        elif latest not in new.valid_versions:
            self.find("unstable-version-changed", "", f"version {latest} is gone")
        else:
            if plan_message(old, latest) != plan_message(new, latest):
                self.find("unstable-version-changed", "", f"version {latest} is laid out anew")
            if not unstable:
                self.find("version-made-stable", "", f"version {latest}")

    def ranges(self) -> None:
        """Refuse ranges that meet no version; one that was so before is only named."""
        before = set(_dead_ranges(self.old))
        for path, key, versions in _dead_ranges(self.new):
            inherited = (path, key, versions) in before
            self.find(
                "range-still-outside-valid" if inherited else "range-outside-valid",
                path,
                f"{key} {versions} meets none of versions {self.new.valid_versions}",
            )

    def layouts(self, plans: Plans) -> None:
        """Catch what no rule above has a name for: the bytes have the last word."""
        changed = [v for v, (old, new) in plans.items() if wire_form(old) != wire_form(new)]
        if changed and not any(change.breaking for change in self.changes):
            self.find("released-layout-changed", "", f"other bytes in versions {_spans(changed)}")

    # Structs: which old field is which new one?

    def live(self, entry: Field) -> bool:
        """Whether the field is in versions that were released and in versions that are left."""
        left = entry.versions & self.new.valid_versions
        return self.had(entry) and not left.empty

    def had(self, entry: Field) -> bool:
        """Whether released versions had the field."""
        return not (entry.versions & self.released).empty

    def structs(self, path: str, old: Struct, new: Struct, plans: Plans) -> None:
        pairs = self.match(old, new)
        self.order(path, new, pairs)
        kept_old = {before.name for before, _ in pairs}
        kept_new = {after.name for _, after in pairs}
        for before in old.fields:
            if before.name not in kept_old:
                rule = "live-field-removed" if self.live(before) else "dead-field-removed"
                what = f"{before.type} in versions {before.versions} is gone"
                self.find(rule, _join(path, before), what)
        for before, after in pairs:
            self.pair(_join(path, after), before, after, plans)
        for after in new.fields:
            if after.name not in kept_new:
                rule = "field-added-to-released" if self.live(after) else "field-added"
                tag = "" if after.tag is None else f" with tag {after.tag}"
                what = f"{after.type}{tag} in versions {after.versions} is new"
                self.find(rule, _join(path, after), what)

    def match(self, old: Struct, new: Struct) -> list[tuple[Field, Field]]:
        """Pair fields by name, then by place between fields paired by name, then by tag.

        A name that released versions had and only new ones have now is another field's, unless
        nothing else has taken the place.
        """
        by_name = {entry.name: entry for entry in new.fields}
        partner = {
            entry.name: by_name[entry.name]
            for entry in old.fields
            if entry.name in by_name and self.live(entry) == self.live(by_name[entry.name])
        }
        named = set(partner)
        fresh = [entry for entry in new.fields if entry.name not in named]
        by_tag = {entry.tag: entry for entry in fresh if entry.tag is not None}
        by_place = self.gaps(new, named)
        for anchor, unnamed in self.gaps(old, named).items():
            places = by_place.get(anchor, [])
            for before in unnamed:
                after = next((entry for entry in places if _same_shape(before, entry)), None)
                if after is not None:
                    places.remove(after)
                    partner[before.name] = after
        for before in old.fields:
            if before.name in partner:
                continue
            after = by_name.get(before.name)
            if after is None and before.tag is not None and self.had(before):
                after = by_tag.get(before.tag)
            if after is not None and after not in partner.values():
                partner[before.name] = after
        return [(before, partner[before.name]) for before in old.fields if before.name in partner]

    def gaps(self, struct: Struct, named: set[str]) -> dict[str, list[Field]]:
        """Return live fields that have no namesake, by the namesake before them ("" for none)."""
        gaps: dict[str, list[Field]] = {}
        anchor = ""
        for entry in struct.fields:
            if entry.tag is None and self.live(entry):
                if entry.name in named:
                    anchor = entry.name
                else:
                    gaps.setdefault(anchor, []).append(entry)
        return gaps

    def order(self, path: str, new: Struct, pairs: list[tuple[Field, Field]]) -> None:
        placed = [
            after
            for before, after in pairs
            if before.tag is None and after.tag is None and self.live(before) and self.live(after)
        ]
        moved = sorted(placed, key=new.fields.index)
        if moved != placed:
            was = _names(entry.name for entry in placed)
            self.find(
                "live-fields-reordered", path, f"{was} → {_names(entry.name for entry in moved)}"
            )

    # One field.

    def pair(self, path: str, old: Field, new: Field, plans: Plans) -> None:
        if old.tag is not None and old.tag == new.tag and old.name != new.name:
            self.find("tag-reused", path, f"tag {old.tag} was {old.name}: {old.type}")
            return
        if old.name != new.name:
            self.find("field-renamed", path, f"{old.name} → {new.name}")
        for key in ("ignorable", "map_key", "entity_type", "zero_copy"):
            before, after = getattr(old, key), getattr(new, key)
            if before != after:
                self.find("api-changed", path, f"{camel_case(_camel(key))} {before} → {after}")
        if not self.live(old) and not self.live(new):
            return
        both = {
            version: (before, after)
            for version, (left, right) in plans.items()
            if (before := _planned(left, old)) and (after := _planned(right, new))
        }
        if self.presence(path, old, new):
            self.nullability(path, old, new)
        self.tagging(path, old, new, both)
        self.field_flexibility(path, old, new)
        self.field_type(path, old, new, both)
        if old.type == new.type and not _same_value(old.default, new.default):
            self.find("default-changed", path, f"default {old.default!r} → {new.default!r}")

    def presence(self, path: str, old: Field, new: Field) -> bool:
        """Say whether the field is still where it was; its other ranges follow from that one."""
        moved = f"versions {old.versions} → {new.versions}"
        valid = self.new.valid_versions
        # A lower last version of the message is reported once, not for each field.
        last = min(self.released.highest, valid.highest)
        first_old = max(old.versions.lowest, valid.lowest)
        first_new = max(new.versions.lowest, valid.lowest)
        last_old = min(old.versions.highest, last)
        last_new = min(new.versions.highest, valid.highest)
        if first_old != first_new:
            self.find("field-lowest-changed", path, moved)
        elif last_new < last_old:
            self.find("field-highest-fell", path, moved)
        elif old.versions & self.shared != new.versions & self.shared:
            self.find("field-highest-raised", path, moved)
        elif last_new < valid.highest and last_old == last:
            self.find("field-ended", path, moved)
            return True
        else:
            return True
        return False

    def nullability(self, path: str, old: Field, new: Field) -> None:
        moved = f"nullableVersions {old.nullable_versions} → {new.nullable_versions}"
        valid = self.new.valid_versions
        lives = Versions(valid.lowest, VERSION_MAX)
        before = old.nullable_versions & old.versions & lives
        after = new.nullable_versions & new.versions & lives
        last_old = min(before.highest, self.released.highest, valid.highest)
        last_new = min(after.highest, valid.highest)
        if after.empty and not before.empty:
            self.find("nullable-highest-fell", path, moved)
        elif before.lowest != after.lowest or before.empty != after.empty:
            self.find("nullable-lowest-changed", path, moved)
        elif last_new < last_old:
            self.find("nullable-highest-fell", path, moved)
        elif before & self.shared & new.versions != after & self.shared & old.versions:
            self.find("nullable-highest-raised", path, moved)

    def tagging(self, path: str, old: Field, new: Field, both: FieldPlans) -> None:
        was = f"tag {old.tag} in {old.tagged_versions} → tag {new.tag} in {new.tagged_versions}"
        changed = {v: pair for v, pair in both.items() if pair[0].tag != pair[1].tag}
        if not changed:
            if (old.tag, old.tagged_versions) != (new.tag, new.tagged_versions):
                self.find("tagging-added", path, was)
        elif any(None in (before.tag, after.tag) for before, after in changed.values()):
            self.find("tagging-changed", path, was)
        else:
            self.find("tag-changed", path, was)

    def field_flexibility(self, path: str, old: Field, new: Field) -> None:
        if old.flexible_versions is None and new.flexible_versions is None:
            return
        before = _or(old.flexible_versions, self.old.flexible_versions)
        after = _or(new.flexible_versions, self.new.flexible_versions)
        moved = f"flexibleVersions {before} → {after}"
        if not after.covers(before):
            self.find("field-flexible-narrowed", path, moved)
        elif before & self.shared != after & self.shared:
            self.find("field-flexible-changed", path, moved)

    def field_type(self, path: str, old: Field, new: Field, both: FieldPlans) -> None:
        if _same_shape(old, new):
            if old.type != new.type:
                self.find("struct-renamed", path, f"{old.type} → {new.type}")
            if old.type.struct:
                elements = {
                    version: (before.element, after.element)
                    for version, (before, after) in both.items()
                    if isinstance(before.element, StructPlan)
                    and isinstance(after.element, StructPlan)
                }
                before, after = old.type.element, new.type.element
                self.structs(path, self.old.structs[before], self.new.structs[after], elements)
            return
        what = f"{old.type} → {new.type}"
        if both and all(
            _field_form(before) == _field_form(after) for before, after in both.values()
        ):
            self.find("same-bytes-type-change", path, what)
        elif old.tag is not None and old.tag == new.tag:
            self.find("tag-reused", path, f"tag {old.tag}: {what}")
        else:
            self.find("field-type-changed", path, what)


def _same_shape(old: Field, new: Field) -> bool:
    """Whether both are (arrays of) the same primitive, or both (arrays of) structs."""
    if old.type.array != new.type.array:
        return False
    return (old.type.struct and new.type.struct) or old.type == new.type


def _planned(struct: StructPlan, entry: Field) -> FieldPlan | None:
    name = camel_case(entry.name)
    return next((plan for plan in (*struct.fields, *struct.tagged) if plan.name == name), None)


def _dead_ranges(message: Message) -> Iterator[tuple[str, str, Versions]]:
    """Yield (path, key, range) for each range of a field that meets no version of its message."""
    for path, entry in _fields(message, message.top):
        for key, versions in (
            ("versions", entry.versions),
            ("nullableVersions", entry.nullable_versions),
            ("taggedVersions", entry.tagged_versions),
            ("flexibleVersions", entry.flexible_versions or NONE),
        ):
            written = key == "versions" or not versions.empty
            if written and (versions & message.valid_versions).empty:
                yield path, key, versions


def _fields(message: Message, struct: Struct, path: str = "") -> Iterator[tuple[str, Field]]:
    """Yield every field with its path, the fields of a struct after the field that holds it."""
    for entry in struct.fields:
        here = _join(path, entry)
        yield here, entry
        if entry.type.struct:
            yield from _fields(message, message.structs[entry.type.element], here)


def _join(path: str, entry: Field) -> str:
    return f"{path}.{camel_case(entry.name)}" if path else camel_case(entry.name)


def _camel(key: str) -> str:
    return "".join(word.capitalize() for word in key.split("_"))


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _or(versions: Versions | None, otherwise: Versions) -> Versions:
    return otherwise if versions is None else versions


def _same_value(old: object, new: object) -> bool:
    return repr(old) == repr(new)  # NaN is the same default as NaN.


def _spans(versions: list[int]) -> str:
    """Write version numbers as ranges: ``0-2, 5``."""
    spans: list[Versions] = []
    for version in versions:
        if spans and spans[-1].highest == version - 1:
            spans[-1] = Versions(spans[-1].lowest, version)
        else:
            spans.append(Versions(version, version))
    return ", ".join(map(str, spans))
