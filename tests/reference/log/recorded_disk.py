"""A block device whose writes are recorded, so that its power can be cut anywhere, afterwards.

The kernel's own file system (ext4) lies on a loop device, whose file is served by this process over
FUSE: so each write of sectors arrives here, and each flush of the disk's cache. What a disk may
have after a power loss follows: all that was written before the last flush that was over, and any
sectors of what was written since. (A loop device over a plain file has no cache that could be lost;
the kernel's own device for this, dm-log-writes, is often not there.)

Linux, root, /dev/fuse, loop devices and mkfs.ext4 are wanted; ``why_not`` says what is missing.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

import msgspec

SIZE_BYTES: Final = 24 << 20
SECTOR_BYTES: Final = 512
COMMAND_TIMEOUT_S: Final = 30.0

# linux/fuse.h, protocol 7.31.
_HEAD: Final = struct.Struct("<IIQQIIIHH")  # length, opcode, unique, node, uid, gid, pid, -, -
_REPLY: Final = struct.Struct("<IiQ")  # length, error, unique
_INIT: Final = struct.Struct("<IIIIHHIIHHI7I")
_ATTRIBUTES: Final = struct.Struct("<6Q10I")
_WRITE: Final = struct.Struct("<QQIIQII")
_DESTROY: Final = 38
_WITHOUT_REPLY: Final = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
_BIG_WRITES: Final = 1 << 5
_DISK: Final = 2  # The node of the file; that of the directory is 1.
_REQUEST_BYTES_MAX: Final = 1 << 20
_WRITE_BYTES_MAX: Final = 128 << 10
_ENOSYS, _ENOENT = 38, 2


class Written(msgspec.Struct, frozen=True):
    """What reached the disk: bytes at a position; or, with none, a flush of its cache."""

    position: int
    data: bytes


def why_not() -> str | None:
    """Return why there can be no recorded disk here, or None."""
    if os.name != "posix" or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "only root may mount a file system"
    for path in ("/dev/fuse", "/dev/loop-control"):
        if not Path(path).exists():
            return f"there is no {path}"
    if not shutil.which("mkfs.ext4"):
        return "there is no mkfs.ext4"
    with tempfile.TemporaryDirectory() as directory:
        try:
            _run("mount", "-t", "tmpfs", "tmpfs", directory)
            _run("umount", directory)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"may not mount a file system here: {error}"
    return None


def _run(*command: str, pass_fds: tuple[int, ...] = ()) -> None:
    subprocess.run(
        command, check=True, capture_output=True, timeout=COMMAND_TIMEOUT_S, pass_fds=pass_fds
    )


class RecordedDisk:
    """The disk: ``image`` is what it has, ``written`` all that came since it was formatted."""

    def __init__(self, first: bytes) -> None:
        self.first = first
        self.image = bytearray(first)
        self.written: list[Written] = []
        self._device = os.open("/dev/fuse", os.O_RDWR)
        self._server = threading.Thread(target=self._serve, daemon=True)

    def after_a_power_loss(self, count: int, random: Random) -> bytes:
        """Return what the disk may have when its power goes after ``count`` of ``written``."""
        image = bytearray(self.first)
        before = self.written[:count]
        flushes = (index for index in range(count - 1, -1, -1) if not before[index].data)
        flushed = next(flushes, -1) + 1
        for index, one in enumerate(before):
            for start in range(0, len(one.data), SECTOR_BYTES):
                if index < flushed or random.getrandbits(1):
                    part = one.data[start : start + SECTOR_BYTES]
                    at = one.position + start
                    image[at : at + len(part)] = part
        return bytes(image)

    # ---- FUSE ----------------------------------------------------------------------------------

    def mount(self, directory: Path) -> None:
        """Show the disk as the one file of a directory."""
        directory.mkdir()
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0"
        command = ("mount", "-i", "-t", "fuse", "-o", options, "recorded", str(directory))
        _run(*command, pass_fds=(self._device,))
        self._server.start()  # Not before: there is nothing to read from a device of no mount.

    def close(self) -> None:
        """Let go of the device: what is still mounted has no server from then on."""
        self._server.join(COMMAND_TIMEOUT_S)
        os.close(self._device)

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, _REQUEST_BYTES_MAX)
            except OSError:  # ENODEV: it is not mounted any more.
                return
            _, opcode, unique, node, *_ = _HEAD.unpack_from(request)
            if opcode in _WITHOUT_REPLY:
                continue
            error, body = self._answer(opcode, node, request[_HEAD.size :])
            with suppress(OSError):  # ENOENT: whoever asked has gone.
                os.write(self._device, _REPLY.pack(_REPLY.size + len(body), -error, unique) + body)
            if opcode == _DESTROY:
                return

    def _answer(self, opcode: int, node: int, body: bytes) -> tuple[int, bytes]:
        match opcode:
            case 26:  # INIT
                return 0, _INIT.pack(
                    7, 31, 0, _BIG_WRITES, 16, 12, _WRITE_BYTES_MAX, 1, 0, 0, 0, *[0] * 7
                )
            case 1 if body.rstrip(b"\0") == b"disk":  # LOOKUP
                return 0, struct.pack("<QQQQII", _DISK, 0, 3600, 3600, 0, 0) + self._attributes(
                    _DISK
                )
            case 1:
                return _ENOENT, b""
            case 3 | 4:  # GETATTR, SETATTR
                return 0, struct.pack("<QII", 3600, 0, 0) + self._attributes(node)
            case 14:  # OPEN
                return 0, struct.pack("<QII", 0, 0, 0)
            case 15:  # READ
                _, position, size, *_ = _WRITE.unpack_from(body)
                return 0, bytes(self.image[position : position + size])
            case 16:  # WRITE
                _, position, size, *_ = _WRITE.unpack_from(body)
                data = body[_WRITE.size : _WRITE.size + size]
                self.image[position : position + size] = data
                self.written.append(Written(position, data))
                return 0, struct.pack("<II", size, 0)
            case 20:  # FSYNC
                self.written.append(Written(0, b""))
                return 0, b""
            case 18 | 25 | 34 | 38:  # RELEASE, FLUSH, ACCESS, DESTROY
                return 0, b""
        return _ENOSYS, b""

    def _attributes(self, node: int) -> bytes:
        is_disk = node == _DISK
        mode = stat.S_IFREG | 0o600 if is_disk else stat.S_IFDIR | 0o700
        size = len(self.image) if is_disk else 0
        return _ATTRIBUTES.pack(
            node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
        )


def formatted(work: Path) -> bytes:
    """Return a disk with an empty ext4 on it."""
    image = work / "empty"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    _run("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0", str(image))
    data = image.read_bytes()
    image.unlink()
    return data


@contextmanager
def mounted(image: Path, directory: Path) -> Iterator[Path]:
    """Mount an image by a loop device, its journal replayed, as after a power loss."""
    directory.mkdir(exist_ok=True)
    _run("mount", "-o", "loop", str(image), str(directory))
    try:
        yield directory
    except BaseException:
        _run("umount", "--lazy", str(directory))  # Whatever failed may have files open there.
        raise
    _run("umount", str(directory))


@contextmanager
def recording(work: Path) -> Iterator[tuple[RecordedDisk, Path]]:
    """Yield a recorded disk and the directory where its file system is mounted."""
    disk = RecordedDisk(formatted(work))
    try:
        disk.mount(work / "fuse")
        try:
            with mounted(work / "fuse" / "disk", work / "live") as live:
                yield disk, live
        finally:
            _run("umount", str(work / "fuse"))
    finally:
        disk.close()
