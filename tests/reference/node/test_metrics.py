"""The metrics of a node, scraped as Prometheus scrapes them; and what it writes of what happens."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import math
import re
import threading
import urllib.request
import zipfile
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kraftspec.conformance.cluster import class_path
from kraftspec.conformance.cluster.node import HOST
from kraftspec.reference.node import logs
from kraftspec.reference.node.metrics import AT_ONCE_MAX, PREFIX, STATES, MetricsServer, _Handler
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.node.sensors import SAMPLE_S, Window

from .quorum import WAIT_S, Quorum, run, seen

# What Kafka's own KafkaRaftMetrics registers (those of a leader alone apart).
NAMES = {
    "current-state", "current-leader", "current-vote", "current-vote-directory-id",
    "current-epoch", "high-watermark", "log-end-offset", "log-end-epoch", "number-of-voters",
    "number-unknown-voter-connections", "commit-latency-avg", "commit-latency-max",
    "election-latency-avg", "election-latency-max", "fetch-records-rate", "append-records-rate",
    "poll-idle-ratio-avg",
}  # fmt: skip
OF_LEADERS = {"number-of-observers", "uncommitted-voter-change"}


@pytest.mark.kafka
def test_the_names_are_those_of_kafka() -> None:
    """All words of Kafka's class that look like names of metrics, and no others."""
    (jar,) = [path for path in class_path() if path.name.startswith("kafka-raft-")]
    with zipfile.ZipFile(jar) as classes:
        class_file = classes.read("org/apache/kafka/raft/internals/KafkaRaftMetrics.class")
    # Constants of a class file: tag 1, how many bytes, the bytes.
    constants = re.finditer(rb"\x01(..)([a-z]+(?:-[a-z]+)+)", class_file, re.DOTALL)
    words = {it[2].decode() for it in constants if int.from_bytes(it[1], "big") == len(it[2])}
    sensors = {"commit-latency", "election-latency", "fetch-records", "append-records",
               "poll-idle-ratio", "raft-metrics"}  # fmt: skip
    assert words - sensors - set(STATES) == NAMES | OF_LEADERS


def scrape(port: int) -> dict[str, dict[tuple[str, ...], float]]:
    """Return each metric's samples by the values of their labels."""
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    return {
        family.name: {tuple(one.labels.values()): one.value for one in family.samples}
        for family in text_string_to_metric_families(text)
    }


async def scraped(node: Node) -> dict[str, dict[tuple[str, ...], float]]:
    server = MetricsServer(node, HOST, 0)
    try:
        return await asyncio.to_thread(scrape, server.port)
    finally:
        await asyncio.to_thread(server.close)


@pytest.mark.soak
def test_a_quorum_that_is_scraped(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            for number in range(5):
                await quorum.append([bytes([1, 20, 0, 0])] * (number + 1))
            leader = await quorum.leader()
            await quorum.all_have(leader.core.high_watermark)
            # To a node that does not lead, no other may have a connection.
            ports = quorum.ports.values()
            writers = [(await asyncio.open_connection(HOST, port))[1] for port in ports]
            await seen(lambda: all(node.server.connections for node in quorum.nodes.values()))
            samples_by_node = {id: await scraped(node) for id, node in quorum.nodes.items()}
            for writer in writers:
                writer.close()
            leader_id = leader.config.node_id
            core = leader.core
            for node_id, families in samples_by_node.items():
                names = NAMES | (OF_LEADERS if node_id == leader_id else set())
                ours = {name for name in families if name.startswith(PREFIX)}
                assert ours == {PREFIX + name.replace("-", "_") for name in names}
                values = {
                    name.removeprefix(PREFIX): samples[()]
                    for name, samples in families.items()
                    if () in samples
                }
                assert values["current_leader"] == leader_id
                assert values["current_epoch"] == core.epoch
                assert values["high_watermark"] == core.high_watermark
                assert values["log_end_offset"] == core.log.end_offset
                assert values["log_end_epoch"] == core.epoch
                assert values["number_of_voters"] == 3
                assert 0 < values["poll_idle_ratio_avg"] <= 1
                assert families["kraftspec_node_connections"][()] > 0
                states = families[f"{PREFIX}current_state"]
                assert {state for (state,) in states} == set(STATES)
                expected = "leader" if node_id == leader_id else "follower"
                assert [state for (state,), is_so in states.items() if is_so] == [expected]
                if node_id == leader_id:
                    assert values["current_vote"] == leader_id
                    own = str(core.config.directory_id)
                    assert families[f"{PREFIX}current_vote_directory_id"] == {(own,): 1.0}
                    assert values["append_records_rate"] * 2 * SAMPLE_S >= 15
                    assert 0 < values["commit_latency_avg"] <= values["commit_latency_max"]
                    assert 0 < values["election_latency_avg"] <= values["election_latency_max"]
                    assert values["number_of_observers"] == 0
                    assert values["uncommitted_voter_change"] == 0
                else:
                    assert values["fetch_records_rate"] * 2 * SAMPLE_S >= 15
                    assert values["append_records_rate"] == 0
                    assert math.isnan(values["commit_latency_max"])

    run(main())


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        quorum = Quorum(tmp_path, 1)
        async with quorum.running():
            node = await quorum.start(1)
            with pytest.raises(OSError, match=r"no metrics at 127\.0\.0\.1:.*another process"):
                MetricsServer(node, HOST, quorum.ports[1])

    run(main())


@pytest.mark.soak
def test_a_crowd_at_the_metrics_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that say nothing a few stay, and these not for long; then it serves again."""
    monkeypatch.setattr(_Handler, "timeout", 1.0)

    async def main() -> None:
        async with Quorum(tmp_path, 1) as quorum:
            server = MetricsServer(await quorum.leader(), HOST, 0)
            crowd = [await asyncio.open_connection(HOST, server.port) for _ in range(40)]
            ended = [asyncio.ensure_future(reader.read()) for reader, _ in crowd]
            async with asyncio.timeout(WAIT_S):
                while sum(one.done() for one in ended) < len(crowd) - AT_ONCE_MAX:
                    await asyncio.sleep(0.01)
                assert threading.active_count() < len(crowd)
                await asyncio.gather(*ended)
            for _, writer in crowd:
                writer.close()
            assert scraped_epoch(await asyncio.to_thread(scrape, server.port)) > 0
            await asyncio.to_thread(server.close)

    run(main())


def scraped_epoch(samples: dict[str, dict[tuple[str, ...], float]]) -> float:
    return samples[f"{PREFIX}current_epoch"][()]


def test_a_window_forgets() -> None:
    now_s = [0.0]
    window = Window(lambda: now_s[0])
    assert math.isnan(window.average)
    assert window.rate == 0
    for value in (1, 2, 6):
        window.record(value)
    assert (window.average, window.maximum, window.total) == (3, 6, 9)
    assert window.rate == 9 / SAMPLE_S  # As if it had begun one sample ago.
    now_s[0] = SAMPLE_S
    window.record(1)
    assert (window.average, window.maximum, window.rate) == (2.5, 6, 10 / SAMPLE_S)
    now_s[0] = 2 * SAMPLE_S
    window.record(3)
    assert (window.average, window.maximum) == (2, 3)
    assert window.rate == 4 / SAMPLE_S
    now_s[0] = 5 * SAMPLE_S
    assert math.isnan(window.maximum)
    assert window.rate == 0


# ---- logs --------------------------------------------------------------------------------------


def written(form: logs.Form, level: str = "INFO") -> str:
    stream = io.StringIO()
    log = logging.getLogger("kraftspec.node.test")
    with logs.written(form, level, stream):
        log.info("leader changed", extra={"epoch": 3, "leader": 1})
        log.debug("nobody asked")
        log.warning(
            "a peer says\nodd things",
            extra={"peer": 'a "b"\n\x1b[31mc', "sasl_password": "hunter2", "reason": "x" * 5000},
        )
        try:
            raise ValueError("a bug")
        except ValueError:
            log.exception("it failed", extra={"empty": ""})
    log.warning("nobody listens any more")
    return stream.getvalue()


def test_lines_for_people() -> None:
    lines = written("text").splitlines()
    assert lines[0][24:] == "INFO leader changed epoch=3 leader=1"
    assert lines[1][24:].startswith(
        r'WARNING a peer says\nodd things peer="a \"b\"\\n\\x1b[31mc" sasl_password=[hidden]'
    )
    assert len(lines[1]) < 1200
    assert lines[2][24:] == 'ERROR it failed empty=""'
    assert lines[-1] == "ValueError: a bug"


def test_an_object_a_line() -> None:
    lines = [json.loads(line) for line in written("json", "DEBUG").splitlines()]
    assert [(one["level"], one["event"]) for one in lines] == [
        ("info", "leader changed"), ("debug", "nobody asked"),
        ("warning", "a peer says\nodd things"), ("error", "it failed"),
    ]  # fmt: skip
    assert (lines[0]["epoch"], lines[0]["leader"], lines[0]["logger"]) == (
        3,
        1,
        "kraftspec.node.test",
    )
    assert lines[2]["sasl_password"] == "[hidden]"
    assert len(lines[2]["reason"]) == logs.VALUE_CHARS_MAX
    assert "hunter2" not in written("json")
    assert lines[3]["exception"].endswith("ValueError: a bug")
    assert lines[0]["at"].endswith("Z")


def test_asyncio_events_have_the_same_form_and_are_rate_limited() -> None:
    stream = io.StringIO()
    with logs.written("json", "DEBUG", stream):
        for number in range(100):
            logging.getLogger("asyncio").error("socket.accept() failed %d", number)
            logging.getLogger("asyncio").debug("a selector")
        logging.getLogger("asyncio").error("something else")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["logger"], one["event"]) for one in lines] == [
        ("asyncio", "socket.accept() failed 0"),
        ("asyncio", "something else"),
    ]


def test_what_was_left_out_is_counted() -> None:
    now_s = 0.0
    rate_limit = logs.RateLimitFilter(lambda: now_s)
    record = logging.makeLogRecord({"msg": "again"})
    assert rate_limit.filter(record)
    assert [rate_limit.filter(record) for _ in range(3)] == [False] * 3
    now_s = logs.RATE_LIMIT_S
    assert rate_limit.filter(record)
    assert logs.fields_of(record) == {"left_out": 3}
