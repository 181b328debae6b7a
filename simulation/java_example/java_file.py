"""The Java file of a sequence: its text, and what becomes of it when it is run."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from textwrap import fill, indent
from typing import Final, NamedTuple

from kraftspec.conformance.adapters.registry import find
from kraftspec.simulation.harness.cores import FOLDER
from kraftspec.simulation.java_example.steps import Call, Step

HERE: Final = Path(__file__).parent
PROPERTIES: Final = "Properties.java"
# What speaks with the simulator: the sequence stands in its place.
_NOT_NEEDED: Final = ("Harness", "Commands", "Fields", "FixedOrder", "Events")
# The order of the nested classes: what a reader asks for first comes first.
_FIRST: Final = ("Node", "Events", "Property", "NotFollowed", "Batches", "HostedNode", "Life")
STAND_INS: Final = "    // ---- what Kafka's raft client runs on, and how the sequence reaches it"

_IMPORT = re.compile(r"^import [^;]+;\n", re.MULTILINE)
PACKAGE: Final = "org.apache.kafka.raft"
_PACKAGE: Final = f"package {PACKAGE};\n"


class JavaClass(NamedTuple):
    """A top-level class of a source file, with its comment."""

    name: str
    text: str
    imports: frozenset[str]


def _classes(text: str) -> Iterator[JavaClass]:
    """Yield the classes of a file."""
    imports = frozenset(_IMPORT.findall(text))
    body = _IMPORT.sub("", text.replace(_PACKAGE, ""))
    for block in re.split(r"(?<=^}\n)", body, flags=re.MULTILINE):
        if block.strip():
            named = re.search(r"^(?:\w+ )*(?:class|record) (\w+)", block, re.MULTILINE)
            assert named is not None, block[:80]
            yield JavaClass(named[1], block.strip() + "\n", imports)


@cache
def sources(release: str) -> dict[str, JavaClass]:
    """Return all classes as they are for a release of Kafka, by name."""
    spec = find(f"kafka@{release}", FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "kafka"
        shutil.copytree(spec.folder, copy)
        place = copy / "src/main/java/org/apache/kafka/raft"
        for path in HERE.glob("*.java"):
            shutil.copy(path, place)
        if spec.pinned:
            for step in spec.pin:
                command = [argument.replace("{version}", release) for argument in step]
                subprocess.run(command, cwd=copy, check=True)
        # Those of the sequence replace those of the harness.
        ours = {path.name for path in HERE.glob("*.java")}
        shared = [path for path in place.glob("*.java") if path.stem not in _NOT_NEEDED]
        texts = [(place / name).read_text("utf-8") for name in sorted(ours)]
        texts += [path.read_text("utf-8") for path in sorted(shared) if path.name not in ours]
    return {one.name: one for text in texts for one in _classes(text)}


def properties() -> list[str]:
    """Return the properties that a Java file can judge."""
    text = (HERE / PROPERTIES).read_text("utf-8")
    names = re.findall(r"^final class (\w+) extends Property", text, re.MULTILINE)
    return [re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in names]


def sentence_of(name: str) -> str:
    """Return what a property says, which is the comment of its class."""
    text = (HERE / PROPERTIES).read_text("utf-8")
    match = re.search(rf"/\*\* (.*) \*/\nfinal class {class_of(name)} ", text)
    assert match is not None, name
    return match[1]


def class_of(name: str) -> str:
    """Return the Java class of a property."""
    return "".join(word.capitalize() for word in name.split("_"))


# ---- the text ----------------------------------------------------------------------------------


class Origin(NamedTuple):
    """What a file is written of."""

    release: str
    property: str
    command: str  # What finds the run again; empty: nothing does.


def java_text(origin: Origin, name: str, steps: Sequence[Step], told: Sequence[str] = ()) -> str:
    """Return the file. ``told`` is what each step let happen, as the file itself says when run."""
    property_class = class_of(origin.property)
    sequence = _sequence(steps, told)
    imports, stand_ins = _stand_ins(origin.release, property_class, sequence)
    return (
        f"{_PACKAGE}\n{imports}\n{_head(origin, name)}"
        f"public final class {name} {{\n"
        f"    private static final Property PROPERTY = new {property_class}();\n"
        "    private static int stepCount;\n\n"
        f"{indent(sequence, '    ')}\n{indent(_MAIN, '    ')}\n{STAND_INS}\n\n{stand_ins}}}\n"
    )


def _stand_ins(release: str, property_class: str, sequence: str) -> tuple[str, str]:
    """Return the imports of a file, and its nested classes."""
    classes = sources(release).values()
    kept = [one for one in classes if not _is_property(one) or one.name == property_class]
    imports = frozenset[str]().union(*(one.imports for one in kept)) | imports_of(sequence)
    nested = [indent(_nested(one.text), "    ") for one in sorted(kept, key=_rank)]
    return "".join(sorted(imports)), "\n".join(nested)


_MAIN: Final = """\
private static void step(String words) {
    System.out.println(++stepCount + ". " + words);
}

public static void main(String[] arguments) {
    System.exit(judge());
}

private static int judge() {
    try {
        sequence();
    } catch (Property.Broken breach) {
        System.out.println("The fault is there: " + breach.getMessage());
        return 1;
    } catch (NotFollowed difference) {
        System.out.println("The sequence cannot be followed: " + difference.getMessage());
        return 3;
    } catch (RuntimeException | Error error) { // Of the stand-ins, or of a message.
        error.printStackTrace(System.out);
        return 3;
    }
    System.out.println("The fault is not there.");
    return 0;
}
"""


def _head(origin: Origin, name: str) -> str:
    paragraphs = [
        f"{sentence_of(origin.property)} Here it is not so, with Apache Kafka {origin.release}.",
        "It calls {@code KafkaRaftClient} itself, as its thread and its network would. Disk, clock "
        "and network are stand-ins in memory: see the end of this file. Other nodes are played by "
        "the sequence.",
        "Run it by {@code mvn -q compile exec:java}. It says what happens in each step, and ends "
        "with 1 where the fault is there, 0 where it is not, and 3 where the sequence cannot be "
        "followed. {@code -Dkafka.version} names another release of the same interfaces.",
        f"Written by {{@code {origin.command}}}." if origin.command else "Written by hand.",
    ]
    blocks = [fill(text, 97, initial_indent=" * ", subsequent_indent=" * ") for text in paragraphs]
    for at in range(1, len(blocks)):
        blocks[at] = blocks[at].replace(" * ", " * <p>", 1)
    return "/**\n" + "\n *\n".join(blocks) + "\n */\n"


def trial_text(origin: Origin, name: str, calls: Sequence[Call]) -> str:
    """Return a class that makes those of the calls that it is told, over the classes of a file."""
    nodes = [f"node{node}" for node in sorted({call.node for call in calls})]
    bodies = ",\n".join(f"() -> {{\n{call.java}\n}}" for call in calls)
    imports = imports_of(bodies) | _COMMON | {f"import {PACKAGE}.{name}.*;\n"}
    text = _TRIAL % {
        "property": class_of(origin.property), "nodes": ", ".join(nodes), "calls": bodies,
        "forgets": " = ".join(nodes),
    }  # fmt: skip
    return _PACKAGE + "".join(sorted(imports)) + text


_COMMON: Final = frozenset(
    f"import {name};\n"
    for name in ("java.nio.ByteBuffer", "java.util.List", "org.apache.kafka.common.Uuid")
)
# Each line names the calls to be made; the answer is what a file of them would exit with.
_TRIAL: Final = """
final class Trial {
    static Property PROPERTY; // Anew for each attempt: it remembers what it saw.
    static Node %(nodes)s;
    static final Runnable[] CALLS = {
%(calls)s
    };

    public static void main(String[] arguments) {
        java.io.PrintStream out = System.out;
        System.setOut(new java.io.PrintStream(java.io.OutputStream.nullOutputStream()));
        java.util.Scanner lines = new java.util.Scanner(System.in);
        while (lines.hasNextLine()) {
            out.println(attempt(lines.nextLine().split(" ")));
            out.flush();
        }
    }

    static int attempt(String[] kept) {
        %(forgets)s = null;
        PROPERTY = new %(property)s();
        try {
            for (String call : kept) {
                CALLS[Integer.parseInt(call)].run();
            }
        } catch (Property.Broken breach) {
            return 1;
        } catch (RuntimeException | Error error) {
            return 3;
        }
        return 0;
    }
}
"""


def _sequence(steps: Sequence[Step], told: Sequence[str]) -> str:
    lines = ["private static void sequence() {"]
    first, rest = _nodes_first(steps)
    lines += [indent(java, "    ") for java in first]
    for at, step in enumerate(rest):
        lines += ["", f"    step({_java_string(step.words)});"]
        lines += [indent(call.java, "    ") for call in step.calls]
        if at < len(told) and told[at]:
            text = f"→ {told[at]}"
            lines.append(fill(text, 92, initial_indent="    // ", subsequent_indent="    //   "))
    return "\n".join([*lines, "}"]) + "\n"


def _nodes_first(steps: Sequence[Step]) -> tuple[list[str], list[Step]]:
    """Take each node's first making out of the steps, and drop steps that have no call left."""
    constructors: dict[int, str] = {}
    rest = []
    for step in steps:
        calls = []
        for call in step.calls:
            if call.makes and call.node not in constructors:
                constructors[call.node] = f"Node {call.java}"
            else:
                calls.append(call)
        if calls:
            rest.append(Step(step.words, tuple(calls)))
    return list(constructors.values()), rest


def _java_string(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    parts = fill(quoted, 82, break_long_words=False, break_on_hyphens=False).split("\n")
    return ' "\n        + "'.join(parts).join('""')


def imports_of(sequence: str) -> frozenset[str]:
    """Return the imports of what a sequence names; the stand-ins import the rest."""
    messages = re.findall(r"new (\w+Data|LeaderChangeMessage|\w+Record)(?:\.\w+)?\(", sequence)
    names = [f"common.message.{name}" for name in messages]
    names += [f"common.protocol.{name}" for name in ("ApiKeys", "Errors") if name in sequence]
    return frozenset(f"import org.apache.kafka.{name};\n" for name in names)


def _nested(text: str) -> str:
    return re.sub(r"^(?=(?:abstract |final )*class )", "static ", text, count=1, flags=re.MULTILINE)


def _is_property(one: JavaClass) -> bool:
    return " extends Property {" in one.text


def _rank(one: JavaClass) -> tuple[int, str]:
    if _is_property(one):
        return -1, one.name
    return (_FIRST.index(one.name) if one.name in _FIRST else len(_FIRST)), one.name


def write_whole(text: str, name: str, release: str, folder: Path) -> Path:
    """Write a file and its pom; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    pom = (HERE / "pom.xml").read_text("utf-8")
    pom = pom.replace("{release}", release).replace("{name}", name)
    (folder / "pom.xml").write_text(pom, "utf-8")
    path = folder / f"{name}.java"
    path.write_text(text, "utf-8")
    return path


def bare(text: str) -> str:
    """Return the sequence of a file: all but the stand-ins, which are the same in each."""
    before, _, _ = _IMPORT.sub("", text).partition(STAND_INS)
    made_by = "    // python -m kraftspec.simulation.java_example FILE DIR adds them, and a pom."
    return f"{before}{STAND_INS}\n{made_by}\n}}\n"


def refitted(text: str, release: str) -> str:
    """Return a written file, or its sequence, with the stand-ins for a release of Kafka."""
    named = re.search(r"PROPERTY = new (\w+)\(", text)
    assert named is not None
    before, _, _ = text.partition(STAND_INS)
    imports, stand_ins = _stand_ins(release, named[1], before)
    head = _IMPORT.sub("", before).replace(f"{_PACKAGE}\n", f"{_PACKAGE}\n{imports}", 1)
    return f"{head}{STAND_INS}\n\n{stand_ins}}}\n"
