"""Published Kafka jars → ``specs/kafka``: the facts of each schema, in one normal form.

Facts are names, types, versions, tags, defaults and flags. Licence headers, comments and upstream's
sentences are left behind; ``about`` texts that our own file has are kept, field by field.
Source: the schemas that ``org.apache.kafka.message.MessageGenerator`` reads.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MESSAGE_KEYS: Final = (
    "apiKey", "type", "name", "validVersions", "deprecatedVersions", "flexibleVersions",
    "listeners", "latestVersionUnstable", "fields", "commonStructs",
)  # fmt: skip
STRUCT_KEYS: Final = ("name", "versions", "deprecatedVersions", "fields")
FIELD_KEYS: Final = (
    "name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "default",
    "ignorable", "mapKey", "entityType", "about", "flexibleVersions", "zeroCopy", "fields",
)  # fmt: skip
# Flags that mean the same when false as when absent.
FLAGS: Final = ("latestVersionUnstable", "ignorable", "mapKey", "zeroCopy")

RELEASE: Final = "RELEASE"  # The file of a set that names its release.
LINE_LENGTH_MAX: Final = 100  # As in the code, so that diffs fit side by side.

_JAR = re.compile(
    r"kafka-(?P<module>.+?)-(?P<release>\d.*)\.jar|kafka_[\d.]+-(?P<broker>\d.*)\.jar"
)
_SCHEMA = re.compile(r"(?:common/message|common/metadata|message)/[^/]+\.json")
_DECODER = json.JSONDecoder(parse_float=str)
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')

Spec = dict[str, Any]


class SpecImportError(ValueError):
    """A jar or a schema in it cannot be imported; the text names it, the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did, as sorted paths relative to ``out``; ``len()`` of each is its count.

    ``removed`` names files of an imported module that its jar no longer has. They are left on disk:
    whether a message that upstream dropped should go is for a person to decide.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]


def import_jars(jars: Sequence[Path], out: Path) -> ImportReport:
    """Write ``out/<module>/<Message>.json`` for each schema in the jars; say what moved.

    ``out/RELEASE`` names the release, which is in the names of the jars. All jars are read before
    anything is written, so a jar that is refused changes nothing. A second import of the same jars
    writes nothing. Raises ``SpecImportError`` and ``OSError``.
    """
    specs: dict[str, Spec] = {}
    releases: dict[str, Path] = {}
    for jar in jars:
        module, release = _module_and_release(jar)
        releases.setdefault(release, jar)
        for spec in map(without_zookeeper, read_jar(jar)):
            path = f"{module}/{spec['name']}.json"
            if path in specs:
                raise SpecImportError(f"{jar}: {path} was already imported; give each jar once")
            specs[path] = spec
    if len(releases) > 1:
        names = ", ".join(str(jar) for jar in releases.values())
        raise SpecImportError(f"{names}: jars of different releases; import those of one")
    return _write_set(specs, next(iter(releases)), out)


def import_specs(directory: Path, out: Path) -> ImportReport:
    """Write the specs of ``directory``, which were imported before, as ``import_jars`` does."""
    specs = {
        path.relative_to(directory).as_posix(): read_schema(path.read_text("utf-8"), str(path))
        for path in directory.glob("*/*.json")
    }
    return _write_set(specs, (directory / RELEASE).read_text("utf-8").strip(), out)


def _write_set(specs: Mapping[str, Spec], release: str, out: Path) -> ImportReport:
    added: list[str] = []
    changed: list[str] = []
    unchanged: list[str] = []
    for path, spec in sorted(specs.items()):
        target = out / path
        old = target.read_text(encoding="utf-8") if target.exists() else None
        if old is not None:
            keep_abouts(spec, read_schema(old, str(target)))
        text = render(spec)
        (added if old is None else unchanged if text == old else changed).append(path)
        if text != old:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")
    (out / RELEASE).write_text(f"{release}\n", encoding="utf-8")
    on_disk = {
        f"{module}/{file.name}"
        for module in {path.split("/")[0] for path in specs}
        for file in (out / module).glob("*.json")
    }
    return ImportReport(
        tuple(added), tuple(changed), tuple(unchanged), tuple(sorted(on_disk - specs.keys()))
    )


def module_of(jar: Path) -> str:
    """Return ``raft`` for ``kafka-raft-4.3.1.jar``, and ``core`` for ``kafka_2.13-3.8.1.jar``."""
    return _module_and_release(jar)[0]


def _module_and_release(jar: Path) -> tuple[str, str]:
    match = _JAR.fullmatch(jar.name)
    if match is None:
        raise SpecImportError(
            f"{jar}: not named like a published Kafka jar; expected kafka-<module>-<version>.jar"
        )
    return match["module"] or "core", match["release"] or match["broker"]


def read_jar(jar: Path) -> list[Spec]:
    """Return the normal form of every schema in a jar, in order of message name."""
    specs = []
    try:
        with zipfile.ZipFile(jar) as archive:
            for name in filter(_SCHEMA.fullmatch, archive.namelist()):
                where = f"{jar.name}!/{name}"
                specs.append(normalize(read_schema(archive.read(name).decode(), where), where))
    except zipfile.BadZipFile as error:
        raise SpecImportError(f"{jar}: {error}; is the download complete?") from error
    if not specs:
        raise SpecImportError(f"{jar}: no schema under common/message, common/metadata or message")
    return sorted(specs, key=lambda spec: str(spec["name"]))


def read_schema(text: str, where: str) -> Spec:
    """Parse JSON with ``//`` comments; floats stay as written, for a default is kept exactly.

    What follows the object is passed over, as Jackson does: ``DescribeProducersRequest`` of Kafka
    2.8 ends with brackets too many.
    """
    bare = _STRING_OR_COMMENT.sub(lambda match: match[1] or "", text)
    try:
        spec, _ = _DECODER.raw_decode(bare, len(bare) - len(bare.lstrip()))
    except json.JSONDecodeError as error:
        raise SpecImportError(f"{where}:{error.lineno}:{error.colno}: {error.msg}") from error
    if not isinstance(spec, dict) or "name" not in spec:
        raise SpecImportError(f'{where}: a message is a JSON object with a "name"')
    return spec


def normalize(spec: Mapping[str, Any], where: str) -> Spec:
    """Return a schema's facts in the normal form: keys in order, no prose, one way to say a thing.

    Raises ``SpecImportError`` for a key that the schema language does not have.
    """
    if spec.get("validVersions") != "none":  # Before Kafka 3.0 the key could be left out.
        spec = {"flexibleVersions": "none", **spec}
    known = _known(spec, MESSAGE_KEYS, where)
    where = f"{where}: {spec['name']}"
    if "listeners" in known:
        known["listeners"] = _list(spec["listeners"])
    if "fields" in known:
        known["fields"] = [_field(field, where) for field in _list(spec["fields"])]
    if "commonStructs" in known:
        known["commonStructs"] = [_struct(entry, where) for entry in _list(spec["commonStructs"])]
    return known


def without_zookeeper(spec: Spec) -> Spec:
    """Leave out the listener of brokers that use ZooKeeper, which is none since Kafka 4.0."""
    listeners = [name for name in spec.get("listeners", ()) if name != "zkBroker"]
    if listeners:
        return {**spec, "listeners": listeners}
    return {key: value for key, value in spec.items() if key != "listeners"}


def _list(value: Any) -> list[Any]:
    """A single value is read as a list of one."""
    return value if isinstance(value, list) else [value]


def _known(entry: Mapping[str, Any], keys: Sequence[str], where: str) -> Spec:
    """Put the keys in order; drop flags that are false. Jackson takes ``"true"`` for true."""
    if unknown := sorted(entry.keys() - set(keys)):
        raise SpecImportError(
            f"{where}: unknown key {', '.join(unknown)}; "
            "if the schema language has grown, teach the importer and message.schema.json"
        )
    flags = {key: True for key in FLAGS if entry.get(key) in (True, "true")}
    return {
        key: flags.get(key, entry[key])
        for key in keys
        if key in entry and (key in flags or key not in FLAGS)
    }


def _struct(struct: Mapping[str, Any], where: str) -> Spec:
    known = _known(struct, STRUCT_KEYS, where)
    where = f"{where}.{struct['name']}"
    known["fields"] = [_field(field, where) for field in _list(struct["fields"])]
    return known


def _field(field: Mapping[str, Any], where: str) -> Spec:
    where = f"{where}.{field.get('name', '?')}"
    entry = dict(field)
    entry.pop("about", None)
    # FieldSpec reads an absent "versions" as the tagged versions, and a JSON null default as none.
    if "taggedVersions" in entry:
        entry.setdefault("versions", entry["taggedVersions"])
    default = entry.get("default")
    if default is None:
        entry.pop("default", None)
    elif not isinstance(default, str):  # Jackson turns a bare 5 or true into its text.
        entry["default"] = json.dumps(default)
    if "tag" in entry:
        entry["tag"] = int(entry["tag"])
    known = _known(entry, FIELD_KEYS, where)
    if "fields" in known:
        known["fields"] = [_field(inner, where) for inner in _list(field["fields"])]
    return known


def fields_by_path(spec: Mapping[str, Any]) -> Iterator[tuple[str, Spec]]:
    """Yield ``("Topics.Partitions.LeaderId", field)`` for each field, in order.

    Fields of a common struct have its name in angle brackets first: ``<Voter>.VoterId``.
    """

    def walk(fields: Sequence[Spec], prefix: str) -> Iterator[tuple[str, Spec]]:
        for field in fields:
            path = f"{prefix}{field['name']}"
            yield path, field
            yield from walk(field.get("fields", ()), f"{path}.")

    yield from walk(spec.get("fields", ()), "")
    for struct in spec.get("commonStructs", ()):
        yield from walk(struct["fields"], f"<{struct['name']}>.")


def keep_abouts(spec: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """Give each field of ``spec`` the ``about`` of the field at the same path in ``old``."""
    abouts = {path: field["about"] for path, field in fields_by_path(old) if "about" in field}
    for path, field in fields_by_path(spec):
        if path in abouts:
            known = {**field, "about": abouts[path]}
            field.clear()  # Refilled in place, for its parent holds it.
            field.update((key, known[key]) for key in FIELD_KEYS if key in known)


def render(spec: Mapping[str, Any]) -> str:
    """Write the normal form's text: two-space JSON that ends in a newline.

    A value with no object inside is written on one line where it fits; any other is opened up, one
    entry a line. So a changed field is a changed line.
    """
    return render_value(spec, 0, 0) + "\n"


def render_value(value: Any, indent: int, used: int) -> str:
    """Render at ``indent`` columns, ``used`` of the first line being taken by key and comma."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, Mapping | list) or not value:
        return line
    inner = list(value.values()) if isinstance(value, Mapping) else value
    nested = any(isinstance(entry, dict) or (isinstance(entry, list) and entry) for entry in inner)
    if indent and not nested and indent + used + len(line) + 1 <= LINE_LENGTH_MAX:
        return line
    pad = " " * (indent + 2)
    if isinstance(value, Mapping):
        lines = []
        for key, entry in value.items():
            head = f"{json.dumps(key)}: "
            lines.append(f"{pad}{head}{render_value(entry, indent + 2, len(head))}")
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    lines = [pad + render_value(entry, indent + 2, 0) for entry in value]
    return "[\n" + ",\n".join(lines) + "\n" + " " * indent + "]"
