"""Random valid specs: the whole schema language, as a hypothesis strategy.

What the strategy avoids, it avoids because Kafka's generator turns it into Java that does not
compile (names that Java keeps for itself, arrays of bytes, tagged bytes that are zeroCopy, uint32
defaults over 2^31-1), not because the language forbids it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from kraftspec.codegen.model import PRIMITIVES
from kraftspec.codegen.versions import NONE, VERSION_MAX, Versions
from kraftspec.fastpath.plan import INTEGER_RANGE

Spec = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

KEYED = ("request", "response", "metadata", "coordinator-key", "coordinator-value")
KINDS = (*KEYED, "header", "data")
SCALARS = tuple(kind for kind in PRIMITIVES if kind != "records")
ENTITIES = {
    "string": ("transactionalId", "groupId", "topicName"),
    "int64": ("producerId",),
    "int32": ("brokerId",),
}
# Plain names, acronyms, and names that mean something in Python or in our classes.
NAMES = (
    "Alpha", "BetaCount", "gammaDelta", "ISRWithEpochs", "HTTPPort2", "X1Y2", "A", "V", "D",
    "From", "Lambda", "Pass", "Is", "Async", "Nonlocal", "None", "Def", "Encode", "EncodeInto",
    "DecodeFrom", "ToJson", "HeaderVersion", "List", "Tuple", "Bool", "Number", "Str", "Bytes",
    "Memoryview", "Range", "Msgspec", "Uuid", "Self", "Type", "Codec", "Struct", "Len",
    "IPAddress", "IpAddress",
)  # fmt: skip
STRUCT_NAMES = (
    "TopicData", "Partition", "ISR", "X", "Inner", "Voter", "ISRs", "V2", "HTTPPort",
    "Default", "Self", "Integral", "Range", "Enums", "Codec", "TYPE", "None", "UnknownTags",
    "TopicName",
)  # fmt: skip
TEXTS = ("x", "default text", "é漢", "null ", "0", "-", "it's")
ABOUTS = ("What it is.", 'says "it" \\ and """ ends', "é漢 */ }} {% x %} #", "a\nb\tc", "x" * 300)
WIDEST = 3  # The highest valid version is at most so much above the lowest.


def ranges(first: int, last: int, top: int) -> st.SearchStrategy[Versions]:
    """Draw a range that starts in ``first`` to ``last``: open, closed, or of one version."""
    return st.integers(first, max(first, last)).flatmap(
        lambda low: st.one_of(
            st.just(Versions(low, VERSION_MAX)),
            st.just(Versions(low, VERSION_MAX)),
            st.integers(low, max(low, top)).map(lambda high: Versions(low, high)),
        )
    )


@dataclass
class _Writer:
    """Writes one spec: what it has drawn so far decides what it may draw next."""

    draw: Draw
    valid: Versions
    flexible: Versions
    struct_names: list[str]
    commons: list[Spec] = field(default_factory=list)
    in_common: bool = False  # Inside a common struct every struct must be a common one.

    def chance(self, percent: int) -> bool:
        """Draw true in about so many cases; false is the simpler one."""
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)

    def pick(self, options: Any) -> Any:
        """Draw one of some options."""
        return self.draw(st.sampled_from(options))

    def known(self) -> set[str]:
        """Return the types that need no declaration any more."""
        return {*PRIMITIVES, *(struct["name"] for struct in self.commons)}

    def fields(self, around: Versions, depth: int) -> list[Spec]:
        """Write the fields of a struct that exists in the versions ``around``."""
        count = self.draw(st.integers(0 if self.chance(5) else 1, 5 if depth == 0 else 3))
        names = self.draw(
            st.lists(
                st.sampled_from(NAMES), min_size=count, max_size=count,
                unique_by=lambda name: name[0].lower() + name[1:],
            )
        )  # fmt: skip
        written = [self.field(name, around, depth) for name in names]
        tagged = [entry for entry in written if "taggedVersions" in entry]
        for tag, entry in enumerate(self.draw(st.permutations(tagged))):
            entry["tag"] = str(tag) if self.chance(10) else tag
        return written

    def field(self, name: str, around: Versions, depth: int) -> Spec:
        """Write one field."""
        element = self.element(depth)
        array = element not in ("records", "bytes") and self.chance(25)
        out: Spec = {"name": name, "type": f"[]{element}" if array else element}
        last = self.valid.highest if around.empty else min(around.highest, self.valid.highest)
        versions = self.draw(ranges(0, last, self.valid.highest + 1))
        if element not in PRIMITIVES and (versions & around).empty:
            versions = Versions(versions.lowest, VERSION_MAX)  # A struct must be of use.
        tagged, compact = NONE, self.flexible
        if element in ("string", "bytes") and not array and self.chance(10):
            compact = self.override(out)
        if element != "records" and not compact.empty and self.chance(30):
            tagged, versions = self.tagged(out, compact, last)
        inline = element not in self.known()
        if tagged.empty or inline or versions != tagged or self.chance(50):
            out["versions"] = str(versions)
        nullable = NONE
        if array or element not in SCALARS or element in ("string", "bytes"):
            nullable = self.nullable(out, versions, tagged)
        self.default(out, array, element, not nullable.empty and nullable.covers(versions))
        self.flags(out, array, element, depth, untagged=tagged.empty)
        self.inside(out, element, versions, around, depth)
        return out

    def element(self, depth: int) -> str:
        """Choose a type; a struct is a new one, or one of the common ones."""
        kinds = ["scalar"] * 6 + ["records"]
        if depth < 3 and self.struct_names:
            kinds += ["struct"] * 3
        kind = self.pick(kinds)
        if kind == "struct":
            # One that exists in all versions can be used again, whatever the field's are.
            known = [entry["name"] for entry in self.commons if entry["versions"] == "0+"]
            return str(self.pick(known)) if known and self.chance(30) else self.struct_names.pop()
        return str(self.pick(SCALARS)) if kind == "scalar" else "records"

    def override(self, out: Spec) -> Versions:
        """Give a field flexible versions of its own."""
        if self.flexible.empty or self.chance(50):
            out["flexibleVersions"] = "none"
            return NONE
        low = self.draw(st.integers(self.flexible.lowest, self.flexible.lowest + 2))
        out["flexibleVersions"] = f"{low}+"
        return Versions(low, VERSION_MAX)

    def tagged(self, out: Spec, compact: Versions, last: int) -> tuple[Versions, Versions]:
        """Make a field tagged, in all of its versions or from a later one on."""
        low = self.draw(st.integers(compact.lowest, max(compact.lowest, self.valid.highest)))
        tagged = Versions(low, VERSION_MAX)
        out["taggedVersions"] = str(tagged)
        start = min(low, max(last, 0))
        if start < low or self.chance(25):
            return tagged, Versions(self.draw(st.integers(0, start)), VERSION_MAX)
        return tagged, tagged

    def nullable(self, out: Spec, versions: Versions, tagged: Versions) -> Versions:
        """Make a field nullable: never, always, or, where it is not tagged, for some versions."""
        options = [NONE, Versions(0, VERSION_MAX), versions]
        if tagged.empty:
            options += [self.draw(ranges(0, self.valid.highest, self.valid.highest + 1))]
        chosen = self.pick(options)
        if not chosen.empty or self.chance(10):
            out["nullableVersions"] = str(chosen)
        return Versions(chosen.lowest, chosen.highest)

    def default(self, out: Spec, array: bool, element: str, nullable: bool) -> None:
        """Give a field a default, in one of the ways to write it."""
        if nullable and self.chance(50):
            out["default"] = "null"
        elif not array and element in SCALARS and self.chance(40):
            out["default"] = self.scalar_default(element)
        elif self.chance(5):
            out["default"] = None  # Says that there is none.

    def scalar_default(self, element: str) -> Any:
        """Write a default of a primitive."""
        if element in INTEGER_RANGE:
            low, high = INTEGER_RANGE["int32" if element == "uint32" else element]
            low = 0 if element == "uint32" else low
            number = self.draw(st.integers(low, high) | st.sampled_from((low, high, 0, 1)))
            forms = [str(number), number] + ([hex(number)] if number >= 0 else [])
            return self.pick(forms)
        match element:
            case "bool":
                return self.pick(("true", "false", True, False, "True"))
            case "float64":
                number = self.draw(st.floats(allow_nan=False, allow_infinity=False))
                return self.pick((repr(number), number, "NaN", "1e3"))
            case "uuid":
                raw = self.draw(st.binary(min_size=16, max_size=16))
                return base64.urlsafe_b64encode(raw).decode().rstrip("=")
            case "string":
                return self.pick(TEXTS)
        return ""  # bytes

    def flags(self, out: Spec, array: bool, element: str, depth: int, *, untagged: bool) -> None:
        """Set what does not move bytes, or only says what becomes of a field in memory."""
        if self.chance(40):
            out["ignorable"] = self.chance(80)
        if depth and untagged and self.chance(20):
            out["mapKey"] = True
        if element in ENTITIES and self.chance(20):
            out["entityType"] = self.pick(ENTITIES[element])
        if element == "bytes" and not array and untagged and self.chance(30):
            out["zeroCopy"] = True
        if self.chance(20):
            out["about"] = self.pick(ABOUTS)

    def inside(
        self, out: Spec, element: str, versions: Versions, around: Versions, depth: int
    ) -> None:
        """Declare the struct that a field names: here, or in the common ones."""
        if element in self.known():
            return
        around_common, common = self.in_common, self.in_common or self.chance(25)
        self.in_common = common
        fields = self.fields(versions & around, depth + 1)
        self.in_common = around_common
        if common:
            # Kafka's generator fails on a common struct that begins late and holds another one
            # that is used before too.
            flat = all(entry["type"].removeprefix("[]") in PRIMITIVES for entry in fields)
            own = str(versions) if flat and self.chance(40) else "0+"
            self.commons.append({"name": element, "versions": own, "fields": fields})
        else:
            out["fields"] = fields[0] if len(fields) == 1 and self.chance(10) else fields


@st.composite
def specs(draw: Draw, name: str) -> Spec:
    """Draw a valid spec of the message ``name``."""
    kind = draw(st.sampled_from(KINDS))
    low = 0 if kind == "coordinator-key" else draw(st.integers(0, 2))
    high = low if kind == "coordinator-key" else low + draw(st.integers(0, WIDEST))
    start = draw(st.integers(0, high + 1) | st.none())
    flexible = NONE
    if start is not None and kind != "coordinator-key":
        flexible = Versions(start, VERSION_MAX)
    structs = draw(st.lists(st.sampled_from(STRUCT_NAMES), unique=True, max_size=5))
    writer = _Writer(draw, Versions(low, high), flexible, structs)
    out: Spec = {"name": name, "type": kind}
    if kind in KEYED or writer.chance(20):
        out["apiKey"] = draw(st.integers(0, VERSION_MAX))
    out["validVersions"] = str(writer.valid)
    out["flexibleVersions"] = str(flexible)
    if high > low and writer.chance(20):
        out["deprecatedVersions"] = f"{low}-{high - 1}"
    if kind == "request":
        listeners = ("broker", "controller")
        out["listeners"] = writer.pick((list(listeners), [listeners[1]], listeners[0]))
        if writer.chance(10):
            out["latestVersionUnstable"] = True
    out["fields"] = writer.fields(writer.valid, 0)
    if writer.commons:
        out["commonStructs"] = writer.commons
    return out
