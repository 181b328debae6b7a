"""``kraftspec conform export``: the golden vectors in an archive that stands alone."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

from kraftspec.conformance.vectors import SCHEMA_VERSION, vectors_root, vectors_version
from kraftspec.specs import specs_root

SCHEMAS = ("vectors", "harness", "results", "known", "node", "manifest")
_FILE_MODE = 0o644


def archive_name(root: Path | None = None) -> str:
    """Return the name of the archive without its suffix, which is also its one directory."""
    return f"kraftspec-vectors-{vectors_version(root or vectors_root())}"


def write_archive(out: Path, root: Path | None = None) -> int:
    """Write the archive; return how many files it holds.

    The tar is the same bytes for the same vectors wherever it is made; so is the gzip around it
    where the same zlib made it.

    Args:
        out: the ``.tar.gz``.
        root: where the vectors are; this package's where absent.
    """
    root = root or vectors_root()
    contents = archive_contents(root)
    out.parent.mkdir(parents=True, exist_ok=True)
    directory = archive_name(root)
    write_tar(out, {f"{directory}/{name}": data for name, data in contents.items()})
    return len(contents)


def write_tar(out: Path, contents: dict[str, bytes]) -> None:
    """Write files by name into a ``.tar.gz`` that has nothing of a machine or an hour in it."""
    with (
        out.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=9, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, data in sorted(contents.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(data), _FILE_MODE, 0
            tar.addfile(member, io.BytesIO(data))


def archive_contents(root: Path) -> dict[str, bytes]:
    """Return the files of the archive by name."""
    vectors = sorted(root.glob("*/*.json"))
    if not vectors:
        raise ValueError(f"{root}: there are no vectors in it")
    contents = {
        f"vectors/{path.relative_to(root).as_posix()}": path.read_bytes() for path in vectors
    }
    for name in SCHEMAS:
        schema = files("kraftspec.conformance") / "schemas" / f"{name}.schema.json"
        contents[f"schemas/{name}.schema.json"] = schema.read_bytes()
    for name in ("LICENSE", "NOTICE"):
        contents[name] = _licence(name)
    readme = files("kraftspec.conformance") / "vectors" / "README.md"
    contents["README.md"] = readme.read_bytes()
    contents["MANIFEST.json"] = _manifest(contents, vectors_version(root))
    return contents


def _licence(name: str) -> bytes:
    """Return a licence: the checkout's, elsewhere the installed distribution's."""
    committed = specs_root().resolve().parent / name
    if committed.with_name("pyproject.toml").is_file():
        return committed.read_bytes()
    try:
        text = distribution("kraftspec").read_text(f"licenses/{name}")
    except PackageNotFoundError:
        text = None
    if text is None:
        raise ValueError(f"{name} is not in the installation of kraftspec; install it with pip")
    return text.encode()


def _manifest(contents: dict[str, bytes], version: str) -> bytes:
    listed = [
        {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(contents.items())
    ]
    manifest = {"schemaVersion": SCHEMA_VERSION, "version": version, "files": listed}
    return (json.dumps(manifest, indent=2) + "\n").encode()
