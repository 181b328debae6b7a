"""The archive of golden vectors: unpacked elsewhere, and held to what it brings along."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.conformance.vectors import vectors_root
from kraftspec.conformance.vectors.export import archive_name, write_archive

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "deep" / "vectors.tar.gz"
    result = CliRunner().invoke(main, ["conform", "export", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "files" in result.output
    return out


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as tar:
        tar.extractall(where, filter="data")
    [directory] = where.iterdir()
    assert directory.name == archive_name()
    return directory


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


@pytest.mark.soak
def test_the_manifest_lists_every_file(unpacked: Path) -> None:
    manifest = read(unpacked / "MANIFEST.json")
    jsonschema.validate(manifest, read(unpacked / "schemas" / "manifest.schema.json"))
    there = {
        path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()
    }
    assert {one["path"] for one in manifest["files"]} == there - {"MANIFEST.json"}
    for one in manifest["files"]:
        data = (unpacked / one["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (one["bytes"], one["sha256"])


def test_every_vector_file_is_there_as_it_was_validated(unpacked: Path) -> None:
    """Each is the committed one, which test_vectors.py holds to the schema that is here too."""
    committed = {path.relative_to(vectors_root()) for path in vectors_root().glob("*/*.json")}
    vectors = unpacked / "vectors"
    assert {path.relative_to(vectors) for path in vectors.rglob("*.json")} == committed
    assert len(committed) > 280
    for name in committed:
        assert (vectors / name).read_bytes() == (vectors_root() / name).read_bytes()
    for schema in (unpacked / "schemas").iterdir():
        assert schema.read_bytes() == (ROOT / "conformance" / "schemas" / schema.name).read_bytes()


def test_the_schema_within_is_enough_to_validate(unpacked: Path) -> None:
    """The smallest file of each set, by nothing but what was unpacked."""
    for directory in (unpacked / "vectors").iterdir():
        kind = "node" if directory.name == "node" else "vectors"
        schema = read(unpacked / "schemas" / f"{kind}.schema.json")
        jsonschema.Draft202012Validator.check_schema(schema)
        smallest = min(directory.glob("*.json"), key=lambda path: path.stat().st_size)
        jsonschema.Draft202012Validator(schema).validate(read(smallest))


def test_the_licence_and_the_words_are_with_it(unpacked: Path) -> None:
    for name in ("LICENSE", "NOTICE"):
        assert (unpacked / name).read_text("utf-8") == (ROOT / name).read_text("utf-8")
    readme = (unpacked / "README.md").read_text("utf-8")
    assert all(name in readme for name in ("MANIFEST.json", "schemas/vectors.schema.json"))


def test_the_same_vectors_are_the_same_bytes(tmp_path: Path) -> None:
    root = tmp_path / "vectors"
    (root / "kafka").mkdir(parents=True)
    for name in ("VoteRequest", "FetchRequest"):
        (root / "kafka" / f"{name}.json").write_bytes(
            (vectors_root() / "kafka" / f"{name}.json").read_bytes()
        )
    first, second = tmp_path / "first.tar.gz", tmp_path / "second.tgz"
    assert write_archive(first, root) == write_archive(second, root)
    for path in root.rglob("*.json"):
        path.chmod(0o600)
        path.touch()
    assert first.read_bytes() == second.read_bytes()
    write_archive(second, root)
    assert first.read_bytes() == second.read_bytes()


def test_nothing_of_a_machine_is_in_it(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    names = [member.name for member in members]
    assert names == sorted(names)
    assert {(one.uid, one.gid, one.uname, one.gname, one.mtime, one.mode) for one in members} == {
        (0, 0, "", "", 0, 0o644)
    }
    header = archive.read_bytes()[:10]
    assert header[3] == 0  # No name of a file in it.
    assert header[4:8] == b"\0\0\0\0"  # No time.
    assert gzip.decompress(archive.read_bytes())[257:263] == b"ustar\0"


def test_an_archive_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are no vectors"):
        write_archive(tmp_path / "out.tar.gz", tmp_path)
