"""The packages of vectors, each installed into an empty project: its reader reads them all."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.consoles import lines

from kraftspec.conformance import artefacts
from kraftspec.conformance.artefacts import GO_PATH, make_artefacts
from kraftspec.conformance.vectors import vectors_root, vectors_version

pytestmark = pytest.mark.peers

SEMVER = "4.4.0-v1"
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "packages.md").read_text("utf-8")
NODE = """
import { VERSION, names, read, readText } from "kraftspec-vectors";
if (read("kafka/VoteRequest").tests.length < 50) throw new Error("few tests");
process.stdout.write(VERSION + "\\n");
for (const name of names()) process.stdout.write(name + "\\n" + readText(name));
"""
PYTHON = """
import sys
from kraftspec_vectors import VERSION, names, read, read_bytes
assert len(read("kafka/VoteRequest")["tests"]) >= 50
sys.stdout.buffer.write(VERSION.encode() + b"\\n")
for name in names():
    sys.stdout.buffer.write(name.encode() + b"\\n" + read_bytes(name))
"""
RUST = """
fn main() {
    assert!(kraftspec_vectors::read("kafka/Nothing").is_none());
    println!("{}", kraftspec_vectors::VERSION);
    for name in kraftspec_vectors::names() {
        print!("{name}\\n{}", kraftspec_vectors::read(name).unwrap());
    }
}
"""
GO = """
package main

import (
	"fmt"

	vectors "MODULE"
)

func main() {
	if _, err := vectors.Read("kafka/Nothing"); err == nil {
		panic("a file that there is not")
	}
	fmt.Println(vectors.Version)
	for _, name := range vectors.Names() {
		text, err := vectors.Read(name)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\\n%s", name, text)
	}
}
"""
JAVA = """
import kraftspec.vectors.Vectors;

public class Reads {
    public static void main(String[] arguments) throws Exception {
        System.out.print(Vectors.VERSION + "\\n");
        for (String name : Vectors.names()) {
            System.out.print(name + "\\n" + Vectors.read(name));
        }
    }
}
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All packages, as `make artefacts` makes them."""
    out = tmp_path_factory.mktemp("artefacts")
    for path in make_artefacts(out):
        assert path.stat().st_size < 5_000_000, path
    return out


def all_vectors() -> str:
    """The SHA-256 of what each program below must print: every committed file, by its name."""
    digest = hashlib.sha256(f"{vectors_version(vectors_root())}\n".encode())
    paths = {path.relative_to(vectors_root()): path for path in vectors_root().glob("*/*.json")}
    for name in sorted(path.with_suffix("").as_posix() for path in paths):
        digest.update(f"{name}\n".encode() + (vectors_root() / f"{name}.json").read_bytes())
    return digest.hexdigest()


def run(*command: str | Path, cwd: Path, **environment: str) -> bytes:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-2000:] + done.stderr[-2000:]).decode()
    return done.stdout


def example(language: str) -> str:
    """The page's example in a language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(block)


def typed(language: str, made: Path, cwd: Path, **environment: str) -> None:
    """Type what the page has before its example in a language, beside the packages."""
    (found,) = re.findall(rf"^```sh\n([^`]*?)^```\n\n```{language}$", PAGE, re.MULTILINE)
    (cwd / "build").mkdir()
    (cwd / "build" / "artefacts").symlink_to(made)
    run("bash", "-e", "-c", "\n".join(lines(found)), cwd=cwd, **environment)


def assert_all(printed: bytes) -> None:
    assert hashlib.sha256(printed).hexdigest() == all_vectors(), printed[:200]


def test_the_name_of_this_set() -> None:
    assert vectors_version(vectors_root()) == f"kafka-{SEMVER}"


def test_python(packages: Path, tmp_path: Path) -> None:
    (wheel,) = packages.glob("*.whl")
    assert wheel.name == "kraftspec_vectors-4.4.0.1-py3-none-any.whl"
    run(sys.executable, "-m", "venv", "empty", cwd=tmp_path)
    python = tmp_path / "empty" / "bin" / "python"
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    typed("py", packages, tmp_path, PATH=path, PIP_NO_INDEX="1")
    assert_all(run(python, "-I", "-c", PYTHON, cwd=tmp_path))
    shown = run(python, "-I", "-c", example("py"), cwd=tmp_path)
    assert shown.count(b"\n") > 90_000


def test_npm(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "empty", "private": true}', "utf-8")
    typed("js", packages, tmp_path, NPM_CONFIG_OFFLINE="true")
    (tmp_path / "reads.mjs").write_text(NODE, "utf-8")
    assert_all(run("node", "reads.mjs", cwd=tmp_path))
    (tmp_path / "shown.mjs").write_text(example("js"), "utf-8")
    assert run("node", "shown.mjs", cwd=tmp_path).count(b"\n") > 90_000


def test_cargo(packages: Path, tmp_path: Path) -> None:
    """Cargo installs no archive by its path: it is unpacked, as a registry's are."""
    (tmp_path / "Cargo.toml").write_text(
        '[package]\nname = "empty"\nversion = "0.0.0"\nedition = "2021"\n', "utf-8"
    )
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text(RUST, "utf-8")
    typed("rust", packages, tmp_path)
    assert_all(run("cargo", "run", "--quiet", cwd=tmp_path, CARGO_TARGET_DIR=str(tmp_path / "to")))


def test_go(packages: Path, tmp_path: Path) -> None:
    module = f"{GO_PATH}/v4"
    (tmp_path / "main.go").write_text(GO.replace("MODULE", module), "utf-8")
    environment = {"GOFLAGS": "-modcacherw", "GOMODCACHE": str(tmp_path / "modules")}
    run("go", "mod", "init", "empty", cwd=tmp_path, **environment)
    typed("go", packages, tmp_path, **environment)
    assert_all(run("go", "run", ".", cwd=tmp_path, GOPROXY="off", **environment))


def test_java(packages: Path, tmp_path: Path) -> None:
    """By the class path: Maven itself would fetch its plugins first."""
    jar = packages / f"maven/kraftspec/kraftspec-vectors/{SEMVER}/kraftspec-vectors-{SEMVER}.jar"
    assert jar.with_suffix(".pom").is_file()
    with zipfile.ZipFile(jar) as archive:
        assert archive.namelist()[0] == "META-INF/MANIFEST.MF"
    (tmp_path / "Reads.java").write_text(JAVA, "utf-8")
    assert_all(run("java", "-cp", jar, "Reads.java", cwd=tmp_path))
    (tmp_path / jar.name).symlink_to(jar)
    body = f"public static void main(String[] a) throws Exception {{ {example('java')} }}"
    (tmp_path / "Tests.java").write_text(f"class Tests {{ {body} }}", "utf-8")
    typed("java", packages, tmp_path)


def test_the_same_vectors_are_the_same_packages(packages: Path, tmp_path: Path) -> None:
    again = make_artefacts(tmp_path)
    for path in again:
        assert path.read_bytes() == (packages / path.relative_to(tmp_path)).read_bytes(), path


def test_a_machine_without_a_compiler_of_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(ValueError, match="there is no javac"):
        artefacts._maven(tmp_path, {}, {"SEMVER": SEMVER, "VERSION": ""})
