"""franz-go, kafkajs and Kafka's Java clients behind the proxy, by the code of docs/proxy.md.

Each sends a record that the proxy refuses twice: the proxy sees three requests, the broker one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import cannot_run
from tests.proxy.asked import BROKERS
from tests.proxy.test_real import TIMEOUT_S, make_topic, read

with warnings.catch_warnings():  # Of kafka-python's imports.
    warnings.simplefilter("ignore")
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

from kraftspec.cache import locked
from kraftspec.conformance.cluster import TOOLS_RELEASE, Cluster, java_command
from kraftspec.conformance.cluster.artifacts import ClusterError, cluster_cache, run_build
from kraftspec.proxy.background import BackgroundProxy
from kraftspec.proxy.security import node_security

pytestmark = [pytest.mark.kafka, pytest.mark.peers, pytest.mark.filterwarnings("ignore:::kafka")]

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "conformance" / "making" / "capture" / "clients" / "go"  # Its lock is used.
PAGE = ROOT / "docs" / "proxy.md"
KAFKAJS = "2.2.4"
CONTROL = "http://127.0.0.1:8089"  # What the page has.
CLIENT_S = 240.0
REFUSED = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}
GO = """\
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {{
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Second)
	defer cancel()
	client := connected()
	defer client.Close()
	{usage}
	if err != nil {{
		fmt.Println(err)
		os.Exit(1)
	}}
	fetched := client.PollFetches(ctx)
	fmt.Println(string(fetched.Records()[0].Value))
	fmt.Println(withRule(`{{"api": "Produse", "drop": true}}`, func() error {{ return nil }}))
}}

func connected() *kgo.Client {{
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.ConsumeTopics("orders"))
	if err != nil {{
		panic(err)
	}}
	return client
}}

{functions}
"""
JAVASCRIPT = """\
import kafkajs from "kafkajs";

{functions}

const {{ NOTHING }} = kafkajs.logLevel;
const producer = new kafkajs.Kafka({{ brokers: [process.argv[2]], logLevel: NOTHING }}).producer();
await producer.connect();
{usage}
await producer.disconnect();
console.log("1");
await withRule({{ api: "Produse", drop: true }}).catch((error) => console.log(error.message));
"""


def of_page(language: str, control: str) -> dict[str, str]:
    """Return the two pieces of code of a language, for a proxy's control port."""
    functions, usage = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert CONTROL in functions
    return {"functions": functions.replace(CONTROL, control), "usage": usage}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("clients")
    alice = ["--add-scram", "SCRAM-SHA-256=[name=alice,password=wonderland]"]
    with Cluster(
        directory, brokers=1, sasl=True, format_arguments=alice, release=BROKERS
    ) as cluster:
        make_topic(cluster.bootstrap(), "orders")
        yield cluster


class Proxy:
    """The command, with a control port."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.bootstrap = process.stdout.readline().split()[0]
        self.control = process.stdout.readline().split()[1]

    def get(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.control + path, data, timeout=60) as answer:
            return json.load(answer)

    def produced(self) -> dict[str, int]:
        """Return how many Produce requests came, and how many answers of the broker."""
        rows = self.get("/stats")["messages"]
        return {row["direction"]: row["count"] for row in rows if row["api"] == "Produce"}


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    command = [sys.executable, "-m", "kraftspec", "proxy", "--listen", "127.0.0.1:0"]
    command += ["--to", cluster.bootstrap(), "--control", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Proxy(process)
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def saying_what_lacks() -> Iterator[None]:
    try:
        yield
    except ClusterError as error:
        cannot_run(str(error))


def run(command: list[str], **options: Any) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=CLIENT_S, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    output: str = done.stdout
    return output


def refused_twice(proxy: Proxy) -> None:
    assert proxy.produced() == {"request": 3, "response": 1}
    assert proxy.get("/rules") == []
    assert proxy.get("/stats")["reports"] == {}


MISTAKE = "there is no API 'Produse'; did you mean Produce?"


def test_franz_go(proxy: Proxy, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        cannot_run("go was not found")
    for name in ("go.mod", "go.sum"):
        shutil.copy(SOURCES / name, tmp_path / name)
    (tmp_path / "main.go").write_text(GO.format(**of_page("go", proxy.control)))
    with saying_what_lacks():
        build = ["go", "build", "-mod=readonly", "-o", "client", "."]
        run_build(build, "the page's code in Go did not build", cwd=tmp_path)
    lines = run([str(tmp_path / "client"), proxy.bootstrap]).splitlines()
    assert lines == ["1", f"the rule was refused: {MISTAKE}"]
    refused_twice(proxy)


def test_kafkajs(proxy: Proxy, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        cannot_run("npm was not found")
    modules = cluster_cache() / f"kafkajs-{KAFKAJS}"
    with locked(modules.with_suffix(".lock")), saying_what_lacks():
        if not (modules / "done").exists():
            modules.mkdir(parents=True, exist_ok=True)
            install = ["npm", "install", "--no-audit", "--no-fund", f"kafkajs@{KAFKAJS}"]
            run_build(install, "kafkajs was not installed", cwd=modules)
            (modules / "done").touch()
    (tmp_path / "node_modules").symlink_to(modules / "node_modules")
    (tmp_path / "client.mjs").write_text(JAVASCRIPT.format(**of_page("javascript", proxy.control)))
    lines = run(["node", "client.mjs", proxy.bootstrap], cwd=tmp_path).splitlines()
    assert lines == ["1", MISTAKE]
    refused_twice(proxy)


def test_kafkas_own_client(cluster: Cluster, proxy: Proxy) -> None:
    """The console's producer and consumer: Java, whose requests have topic ids."""

    def tool(name: str, *arguments: str, typed: str | None = None) -> str:
        where = ["--bootstrap-server", proxy.bootstrap, "--topic", "java"]
        quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command = java_command(name, *where, *arguments, release=TOOLS_RELEASE, options=quiet)
        return run(command, input=typed)

    make_topic(cluster.bootstrap(), "java")
    rule = proxy.get("/rules", {**REFUSED, "where": {"topicData.name": "java"}})["name"]
    tool("org.apache.kafka.tools.ConsoleProducer", typed="one\n")
    assert proxy.get(f"/rules/{rule}")["acted"] == 2
    assert proxy.produced() == {"request": 3, "response": 1}
    closed = {
        "name": "closed",
        "api": "Fetch",
        "direction": "response",
        "where": {"request.topics.topic": "java"},
        "close": "before",
        "nth": 1,
    }
    proxy.get("/rules", closed)
    consume = ["--from-beginning", "--max-messages", "1"]
    output = tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *consume)
    assert output.splitlines() == ["one"]
    assert proxy.get("/rules/closed")["acted"] == 1
    assert proxy.get("/stats")["reports"] == {}


@pytest.mark.parametrize("password", ["wonderland", "wrong"])
def test_the_proxy_logs_in_for_a_client(cluster: Cluster, tmp_path: Path, password: str) -> None:
    """kafka-python speaks no SASL here, and the broker's listener wants SCRAM."""
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="alice" password="{password}";\n'
    )
    topic = f"login-{password}"
    with BackgroundProxy(node_security=node_security(str(properties))) as proxy:
        bootstrap = proxy.listen(cluster.bootstrap("SASL"))
        if password == "wrong":
            with pytest.raises(KafkaError):
                make_topic(bootstrap, topic)
            assert any("does not take 'alice'" in text for text in proxy.reports)
            return
        make_topic(bootstrap, topic)
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        with proxy.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2) as rule:
            producer.send(topic, b"1").get(TIMEOUT_S)
        producer.close()
        assert rule.acted == 2
        assert read(bootstrap, topic, 1) == [b"1"]
        assert proxy.reports == []
