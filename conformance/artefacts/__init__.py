"""The golden vectors as packages of Python, npm, Cargo, Go and Maven, each with a small reader.

``python -m kraftspec.conformance.artefacts OUT`` writes all of them and the tarball. Every package
has the same files: the vectors, one gzip each, their schemas, manifest, licence and words. The
readers are the directories beside this module.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path

from kraftspec.conformance.vectors import REVISION, vectors_release, vectors_root, vectors_version
from kraftspec.conformance.vectors.export import archive_contents, write_archive, write_tar

NAME = "kraftspec-vectors"
# Go needs a host with a dot in it, and the major version. The project has no address yet.
GO_PATH = "kraftspec.example/vectors"
_EPOCH = "315532800"  # 1980, the earliest that a zip can hold.
_JAVA = "11"  # The oldest Java that the jar is for.


def make_artefacts(out: Path, root: Path | None = None) -> list[Path]:
    """Write the tarball and the packages; return the files.

    Args:
        out: a directory. Go's and Maven's packages go below it as ``GOPROXY`` and a repository of
            Maven lay them out.
        root: where the vectors are; those of the checkout or the installation where absent.

    Raises:
        ValueError: there is no ``javac``, or a tool failed; what it printed is within.
    """
    root = root or vectors_root()
    out.mkdir(parents=True, exist_ok=True)
    words = _words(root)
    contents = _packed(archive_contents(root))
    tarball = out / f"{NAME}-{words['VERSION']}.tar.gz"
    write_archive(tarball, root)
    return [
        tarball,
        _wheel(out, contents, words),
        _npm(out, contents, words),
        _crate(out, contents, words),
        *_go(out, contents, words),
        *_maven(out, contents, words),
    ]


def _words(root: Path) -> dict[str, str]:
    """Return what stands between @ in the readers: one version, as each registry writes it."""
    release = vectors_release(root)
    major = release.partition(".")[0]
    return {
        "VERSION": vectors_version(root),
        "PYTHON_VERSION": f"{release}.{REVISION}",
        "SEMVER": f"{release}-v{REVISION}",
        "GO_MODULE": f"{GO_PATH}/v{major}",
    }


def _packed(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Return the same files, each of the vectors as a gzip of its own."""
    return {
        **{name: data for name, data in contents.items() if not name.startswith("vectors/")},
        **{
            f"{name}.gz": gzip.compress(data, mtime=0)
            for name, data in contents.items()
            if name.startswith("vectors/")
        },
    }


def _names(contents: dict[str, bytes]) -> list[str]:
    """Return the names that readers take, in order."""
    paths = [name for name in contents if name.startswith("vectors/")]
    return sorted(name.removeprefix("vectors/").removesuffix(".json.gz") for name in paths)


def _reader(language: str, words: dict[str, str]) -> dict[str, bytes]:
    """Return the files of a reader by name, with the words put in."""
    home = Path(str(files(__name__) / language))
    texts = {}
    for path in sorted(home.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            text = path.read_text(encoding="utf-8")
            for word, value in words.items():
                text = text.replace(f"@{word}@", value)
            texts[path.relative_to(home).as_posix()] = text.encode()
    return texts


def _write(folder: Path, contents: dict[str, bytes]) -> None:
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _zip(path: Path, contents: dict[str, bytes]) -> Path:
    """Write a zip whose bytes depend on its contents alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in contents.items():
            out.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return path


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"SOURCE_DATE_EPOCH": _EPOCH},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _wheel(out: Path, contents: dict[str, bytes], words: dict[str, str]) -> Path:
    """Let setuptools build the wheel."""
    home = "kraftspec_vectors"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, _reader("python", words))
        _write(folder, {"VERSION": words["PYTHON_VERSION"].encode()})
        _write(folder / home, {"py.typed": b"", **contents})
        for top in ("LICENSE", "NOTICE", "README.md"):
            shutil.copy(folder / home / top, folder / top)
        build = (
            "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
        )
        _run([sys.executable, "-c", build, str(out.resolve())], folder)
    return out / f"{home}-{words['PYTHON_VERSION']}-py3-none-any.whl"


def _npm(out: Path, contents: dict[str, bytes], words: dict[str, str]) -> Path:
    """Write what ``npm pack`` writes."""
    path = out / f"{NAME}-{words['SEMVER']}.tgz"
    everything = {**contents, **_reader("npm", words)}
    write_tar(path, {f"package/{name}": data for name, data in everything.items()})
    return path


def _crate(out: Path, contents: dict[str, bytes], words: dict[str, str]) -> Path:
    """Write what ``cargo package`` writes; a table of the files is a module of the crate."""
    rows = [
        f"    ({json.dumps(name)}, include_bytes!({json.dumps(f'../vectors/{name}.json.gz')})),\n"
        for name in _names(contents)
    ]
    table = f"pub static FILES: &[(&str, &[u8])] = &[\n{''.join(rows)}];\n".encode()
    path = out / f"{NAME}-{words['SEMVER']}.crate"
    everything = {**contents, **_reader("crate", words), "src/files.rs": table}
    directory = f"{NAME}-{words['SEMVER']}"
    write_tar(path, {f"{directory}/{name}": data for name, data in everything.items()})
    return path


def _go(out: Path, contents: dict[str, bytes], words: dict[str, str]) -> list[Path]:
    """Write what ``GOPROXY=file://OUT/go`` serves."""
    module, version = words["GO_MODULE"], f"v{words['SEMVER']}"
    served = out / "go" / module / "@v"
    everything = {**contents, **_reader("go", words)}
    info = {"Version": version, "Time": "1980-01-01T00:00:00Z"}
    served.mkdir(parents=True, exist_ok=True)
    (served / "list").write_text(f"{version}\n", encoding="utf-8")
    (served / f"{version}.info").write_text(json.dumps(info), encoding="utf-8")
    (served / f"{version}.mod").write_bytes(everything["go.mod"])
    files_ = {f"{module}@{version}/{name}": data for name, data in everything.items()}
    return [_zip(served / f"{version}.zip", files_)]


def _maven(out: Path, contents: dict[str, bytes], words: dict[str, str]) -> list[Path]:
    """Write a jar and its POM below ``OUT/maven``, which is a repository."""
    javac = shutil.which("javac")
    if javac is None:
        raise ValueError("there is no javac for the jar: sudo apt-get install openjdk-17-jdk")
    reader = _reader("maven", words)
    home = "kraftspec/vectors"
    jar = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, reader)
        _run([javac, "--release", _JAVA, "-d", ".", "Vectors.java"], folder)
        jar[f"{home}/Vectors.class"] = (folder / home / "Vectors.class").read_bytes()
    index = "".join(f"{name}\n" for name in _names(contents)).encode()
    for name, data in {**contents, "names.txt": index}.items():
        top = name in ("LICENSE", "NOTICE", "README.md")
        jar[f"META-INF/{name}" if top else f"{home}/{name}"] = data
    place = out / "maven" / "kraftspec" / NAME / words["SEMVER"]
    path = _zip(place / f"{NAME}-{words['SEMVER']}.jar", jar)
    pom = path.with_suffix(".pom")
    pom.write_bytes(reader["pom.xml"])
    return [path, pom]
