"""The simulated disk keeps what was synced, and of the rest any part, in any order of writes."""

from __future__ import annotations

import errno
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.reference.log.memory_files import SECTOR_BYTES, MemoryFiles

WRITES = st.tuples(st.integers(0, 6000), st.integers(1, 3000))


@given(
    steps=st.lists(st.one_of(WRITES, st.sampled_from(["sync", "cut"]), st.integers(0, 7000))),
    seed=st.integers(0, 1 << 20),
)
def test_what_was_synced_stays(steps: list[object], seed: int) -> None:
    files = MemoryFiles()
    file = files.open("/file", create=True)
    files.sync_directory("/")
    model = bytearray()
    for number, step in enumerate(steps):
        if step == "sync":
            file.sync()
        elif isinstance(step, int):
            file.truncate(step)
            model = model[:step].ljust(step, b"\0")
        elif isinstance(step, tuple):
            at, size = step
            data = bytes([number % 255 + 1]) * size
            file.write_at(at, data)
            model = model.ljust(at, b"\0")
            model[at : at + size] = data
        assert file.read_at(0, 1 << 20) == bytes(model)
        assert file.size() == len(model)
    file.sync()
    files.power_loss(Random(seed))
    assert files.open("/file").read_at(0, 1 << 20) == bytes(model)


@given(writes=st.lists(WRITES, min_size=1, max_size=6), seed=st.integers(0, 1 << 20))
def test_of_what_was_not_synced_sectors_stay_whole(
    writes: list[tuple[int, int]], seed: int
) -> None:
    files = MemoryFiles()
    file = files.open("/file", create=True)
    files.sync_directory("/")
    file.write_at(0, b"\x01" * 5000)
    file.sync()
    before = file.read_at(0, 1 << 20).ljust(10_000, b"\0")
    for at, size in writes:
        file.write_at(at, b"\x02" * size)
    after = file.read_at(0, 1 << 20).ljust(10_000, b"\0")
    files.power_loss(Random(seed))
    kept = files.open("/file").read_at(0, 1 << 20).ljust(10_000, b"\0")
    for at in range(0, 10_000, SECTOR_BYTES):
        sector = slice(at, at + SECTOR_BYTES)
        assert kept[sector] in (before[sector], after[sector])


def test_names_stay_in_order() -> None:
    seen = set()
    for seed in range(200):
        files = MemoryFiles()
        files.open("/old", create=True).write_at(0, b"old")
        files.open("/old").sync()
        files.sync_directory("/")
        new = files.open("/new.tmp", create=True)
        new.write_at(0, b"new")
        new.sync()
        files.rename("/new.tmp", "/old")
        files.open("/other", create=True)
        files.power_loss(Random(seed))
        names = tuple(files.names("/"))
        seen.add((names, files.content("/old")))
    assert seen == {
        (("old",), b"old"),
        (("new.tmp", "old"), b"old"),
        (("old",), b"new"),
        (("old", "other"), b"new"),
    }


def test_a_sync_that_fails_may_lose_what_was_written() -> None:
    files = MemoryFiles()
    file = files.open("/file", create=True)
    file.write_at(0, b"first")
    file.sync()

    def fail(operation: str, _: str, __: int) -> None:
        if operation == "sync":
            raise OSError(errno.EIO, "no")

    files.hook = fail
    file.write_at(0, b"later")
    with pytest.raises(OSError, match="no"):
        file.sync()
    files.hook = None
    file.sync()  # Now it says that all is well.
    assert file.read_at(0, 9) == b"later"
    file.settle()
    assert file.read_at(0, 9) == b"first"


@given(
    before=st.lists(WRITES, max_size=4),
    during=st.lists(st.one_of(WRITES, st.integers(0, 7000)), max_size=4),
    ends=st.sampled_from(["in time", "after the power", "with the process"]),
    seed=st.integers(0, 1 << 20),
)
def test_a_sync_that_takes_time_has_what_was_there_when_it_began(
    before: list[tuple[int, int]], during: list[object], ends: str, seed: int
) -> None:
    files = MemoryFiles()
    file = files.open("/file", create=True)
    files.sync_directory("/")
    file.write_at(0, b"\x01" * 4000)
    file.sync()
    for at, size in before:
        file.write_at(at, b"\x02" * size)
    begun = file.read_at(0, 1 << 20).ljust(10_000, b"\0")
    files.begin_sync("/file")
    versions = [b"\x01" * 4000 + bytes(6_000), begun]
    for step in during:
        if isinstance(step, tuple):
            file.write_at(step[0], b"\x03" * step[1])
        elif isinstance(step, int):
            file.truncate(step)
            # It is there at once, and may cut a sector whose last write is lost.
            versions += [version[:step].ljust(10_000, b"\0") for version in versions]
        versions.append(file.read_at(0, 1 << 20).ljust(10_000, b"\0"))
    if ends == "in time":
        file.sync()
        del versions[0]  # Unless it was cut since, nothing of before is left.
    elif ends == "with the process":
        files.kill()
        files.open("/file").sync()  # Whoever comes next syncs it all.
        del versions[:-1]
    files.power_loss(Random(seed))
    kept = files.open("/file").read_at(0, 1 << 20).ljust(10_000, b"\0")
    for at in range(0, 10_000, SECTOR_BYTES):
        sector = slice(at, at + SECTOR_BYTES)
        assert kept[sector] in [version[sector] for version in versions]
    if not during and ends == "in time":
        assert kept == begun


def test_a_full_disk_takes_what_fits() -> None:
    files = MemoryFiles(capacity_bytes=100)
    file = files.open("/file", create=True)
    file.write_at(0, bytes(60))
    with pytest.raises(OSError, match="no space") as caught:
        file.write_at(60, b"x" * 60)
    assert caught.value.errno == errno.ENOSPC
    assert file.read_at(60, 99) == b"x" * 40
    file.write_at(0, b"y" * 100)
    files.remove("/file")
    files.open("/other", create=True).write_at(0, bytes(100))


def test_the_same_seed_gives_the_same_disk() -> None:
    def run() -> bytes:
        files = MemoryFiles()
        file = files.open("/file", create=True)
        files.sync_directory("/")
        file.write_at(0, bytes(range(256)) * 100)
        files.power_loss(Random(7))
        return files.content("/file")

    assert run() == run()
