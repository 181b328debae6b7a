"""What is captured: the bytes of each socket, as TCP connections of a pcap."""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.proxy.peers import request_frame, stage
from tests.proxy.test_rules import HEARTBEAT

from kraftspec.proxy.capture import ACK, FIN, RST, SYN, Capture, Tcp, end_of
from kraftspec.proxy.rules import Rule

End = tuple[str, int]


class Read:
    """A pcap read again: of each direction the bytes, by sequence numbers, and the flags."""

    def __init__(self, data: bytes) -> None:
        assert struct.unpack("<IHHiIII", data[:24]) == (0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 101)
        self.sent: dict[tuple[End, End], bytearray] = defaultdict(bytearray)
        self.flags: dict[tuple[End, End], list[int]] = defaultdict(list)
        first: dict[tuple[End, End], int] = {}
        at = 24
        while at < len(data):
            _, micros, size, whole = struct.unpack_from("<IIII", data, at)
            assert size == whole
            assert micros < 1_000_000
            packet = data[at + 16 : at + 16 + size]
            at += 16 + size
            assert (packet[0], int.from_bytes(packet[2:4], "big"), packet[9]) == (0x45, size, 6)
            ports = struct.unpack_from(">HH", packet, 20)
            hosts = [".".join(map(str, packet[at : at + 4])) for at in (12, 16)]
            way = (hosts[0], ports[0]), (hosts[1], ports[1])
            sequence, flags = int.from_bytes(packet[24:28], "big"), packet[33]
            self.flags[way].append(flags)
            if flags & SYN:
                first[way] = sequence + 1
            else:
                assert sequence == first[way] + len(self.sent[way])
            self.sent[way] += packet[40:]


def captured(rules: list[Rule], path: Path, talk: Any) -> tuple[Read, Any, End, bytes]:
    """Run a client's talk; return what was captured, its result, the listener, the node's bytes."""

    async def run() -> tuple[Any, End, bytes]:
        with path.open("wb", buffering=0) as file:
            async with stage(rules) as scene:
                scene.proxy.capture_to(file)
                result = await talk(scene)
                await scene.proxy.close()
                return result, scene.link.address, scene.node.received

    result, address, received = asyncio.run(run())
    return Read(path.read_bytes()), result, address, received


def test_each_socket_has_its_own_bytes(tmp_path: Path) -> None:
    """The client's connection has what it sent, the node's what a rule has made of it."""

    async def talk(scene: Any) -> tuple[End, bytes]:
        client = await scene.client()
        client.writer.write(request_frame(HEARTBEAT, 4, 1))
        answer = await client.frame()
        return client.writer.get_extra_info("sockname"), answer

    rules = [Rule(api="Heartbeat", set={"generationId": 99})]
    read, (client, answer), proxy, received = captured(rules, tmp_path / "a.pcap", talk)
    assert bytes(read.sent[client, proxy]) == request_frame(HEARTBEAT, 4, 1)
    assert bytes(read.sent[proxy, client])[4:] == answer
    (to_node,) = [way for way in read.sent if proxy not in way and client not in way
                  and bytes(read.sent[way]) == received]  # fmt: skip
    assert bytes(read.sent[to_node]) != bytes(read.sent[client, proxy])
    assert bytes(read.sent[to_node[::-1]]) == bytes(read.sent[proxy, client])
    assert len(read.sent) == 4
    for way, flags in read.flags.items():
        opens = way in ((client, proxy), to_node)
        assert flags[0] == (SYN if opens else SYN | ACK)
        assert sum(bool(each & FIN) for each in flags) <= 1
    assert any(each & FIN for each in read.flags[proxy, client])


def test_a_reset_is_one(tmp_path: Path) -> None:
    async def talk(scene: Any) -> tuple[End, str]:
        client = await scene.client()
        client.send(HEARTBEAT, 4)
        return client.writer.get_extra_info("sockname"), await client.end()

    rules = [Rule(api="Heartbeat", close="reset")]
    read, (client, end), proxy, received = captured(rules, tmp_path / "a.pcap", talk)
    assert (end, received) == ("reset", b"")
    assert read.flags[proxy, client][-1] & RST


def test_a_full_disk_ends_the_capture_alone() -> None:
    """/dev/full refuses every write; the head of the file is refused at once."""
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="space"):
        Capture(full, print)
    reports: list[str] = []
    with Path("/dev/null").open("wb", buffering=0) as null:
        capture = Capture(null, reports.append)
    with Path("/dev/full").open("wb", buffering=0) as full:
        capture._file = full
        for _ in range(3):
            capture.write(b"packet")
    assert reports == ["the capture ends: No space left on device"]


def test_ipv6() -> None:
    """The head of an IPv6 packet (RFC 8200): version, payload length, next header, addresses."""
    ends = end_of(("::1", 9092, 0, 0)), end_of(("fe80::2%eth0", 20_000, 0, 2))
    packet = Tcp(ends).packet(0, b"kafka")
    assert struct.unpack(">IHBB", packet[:8]) == (6 << 28, 25, 6, 64)
    assert packet[8:24] == bytes(15) + b"\1"
    assert packet[24:40] == bytes.fromhex("fe80000000000000 0000000000000002")
    assert packet[60:] == b"kafka"
