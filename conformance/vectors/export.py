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

from kraftspec import __version__
from kraftspec.conformance.vectors import SCHEMA_VERSION, vectors_root

SCHEMAS = ("vectors", "harness", "results", "known", "node", "manifest")
_FILE_MODE = 0o644


def archive_name() -> str:
    """Return the name of the archive without its suffix, which is also its one directory."""
    return f"kraftspec-vectors-{__version__}"


def write_archive(out: Path, root: Path | None = None) -> int:
    """Write the archive; return how many files it holds.

    The tar is the same bytes for the same vectors wherever it is made; so is the gzip around it
    where the same zlib made it.

    Args:
        out: the ``.tar.gz``.
        root: where the vectors are; this package's where absent.
    """
    contents = _contents(root or vectors_root())
    contents["MANIFEST.json"] = _manifest(contents)
    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        out.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=9, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, data in sorted(contents.items()):
            member = tarfile.TarInfo(f"{archive_name()}/{name}")
            member.size, member.mode, member.mtime = len(data), _FILE_MODE, 0
            tar.addfile(member, io.BytesIO(data))
    return len(contents)


def _contents(root: Path) -> dict[str, bytes]:
    """Return the files of the archive by name, but for the manifest."""
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
    contents["README.md"] = (vectors_root() / "README.md").read_bytes()
    return contents


def _licence(name: str) -> bytes:
    """Return a file of the installed distribution's licences."""
    try:
        text = distribution("kraftspec").read_text(f"licenses/{name}")
    except PackageNotFoundError:
        text = None
    if text is None:
        raise ValueError(f"{name} is not in the installation of kraftspec; install it with pip")
    return text.encode()


def _manifest(contents: dict[str, bytes]) -> bytes:
    listed = [
        {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(contents.items())
    ]
    manifest = {"schemaVersion": SCHEMA_VERSION, "version": __version__, "files": listed}
    return (json.dumps(manifest, indent=2) + "\n").encode()
