"""Bytes by range reads: of local files, and of a real object-store server on loopback."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow.fs
import pytest

from kraftspec.pipeline import Report, discover, plan_splits, read_split, scan
from kraftspec.pipeline.files import resolve, store_of

from .segment_files import batch, write_index, write_segment

RSS_BYTES_MAX = 160 << 20  # Python with pyarrow takes 60 MB of it.
KEYS = {"access_key": "testing", "secret_key": "testing"}
RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class ObjectStore:
    """Moto's S3 server, and the requests that it got: (method, path, requested bytes)."""

    def __init__(self) -> None:
        moto, werkzeug = import_module("moto.server"), import_module("werkzeug.serving")
        self.requests: list[tuple[str, str, int | None]] = []
        app = moto.DomainDispatcherApplication(moto.create_backend_app)

        def counted(environ: dict[str, Any], start: Any) -> Any:
            match = RANGE.fullmatch(environ.get("HTTP_RANGE", ""))
            size = int(match[2]) - int(match[1]) + 1 if match else None
            self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], size))
            return app(environ, start)

        self.server = werkzeug.make_server(
            "127.0.0.1", 0, counted, True, request_handler=moto.MotoRequestHandler
        )
        self.thread = Thread(target=self.server.serve_forever)
        self.thread.start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def reads(self) -> list[int | None]:
        """The sizes of all reads of segments since the last call; None is a whole object."""
        sizes = [size for method, path, size in self.requests
                 if method == "GET" and path.endswith(".log")]  # fmt: skip
        self.requests.clear()
        return sizes

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    started = ObjectStore()
    yield started
    started.stop()


def by_pyarrow(store: ObjectStore) -> Any:
    return pyarrow.fs.S3FileSystem(
        endpoint_override=store.endpoint,
        region="us-east-1",
        allow_bucket_creation=True,
        connect_timeout=60,
        request_timeout=60,
        **KEYS,
    )


def by_s3fs(store: ObjectStore) -> Any:
    return import_module("fsspec").filesystem(
        "s3", key="testing", secret="testing", endpoint_url=store.endpoint,
        client_kwargs={"region_name": "us-east-1"}, skip_instance_cache=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, store: ObjectStore) -> Path:
    """Two partitions of several MB, in a local directory and in the bucket ``logs``."""
    directory = tmp_path_factory.mktemp("broker")
    for partition in range(2):
        path = write_segment(
            directory / f"orders-{partition}", [batch(10 * at, 10, 900) for at in range(200)]
        )
        write_index(path)
        write_segment(directory / f"orders-{partition}", [batch(2_000 + at, 1) for at in range(9)],
                      2_000)  # fmt: skip
    (directory / f"orders-1.{'0' * 32}-delete").mkdir()
    target = by_pyarrow(store)
    target.create_dir("logs")
    for path in directory.rglob("*.*"):
        if path.is_file():
            with target.open_output_stream(f"logs/{path.relative_to(directory)}") as out:
                out.write(path.read_bytes())
    return directory


REMOTE = pytest.mark.parametrize("connect", [by_pyarrow, by_s3fs])
COLUMNS = ["topic", "partition", "offset", "value", "position"]


@REMOTE
def test_an_object_store_gives_what_the_directory_does(
    store: ObjectStore, logs: Path, connect: Any
) -> None:
    filesystem = connect(store)
    local = scan(logs, COLUMNS).read_all()
    assert local.num_rows == 4_018
    report = Report()
    store.reads()
    assert scan("logs", COLUMNS, filesystem=filesystem, report=report).read_all() == local
    sizes = store.reads()
    assert len(sizes) == report.reads == 4  # A window each file.
    assert sum(size or 0 for size in sizes) == report.bytes_read
    assert report.bytes_read == sum(path.stat().st_size for path in logs.rglob("*.log"))
    # Splits cross a process border, and windows are ranges of the object.
    splits = plan_splits(discover("logs", filesystem), 1 << 19)
    assert len(splits) > 3
    store.reads()
    rows = [
        offset
        for split in pickle.loads(pickle.dumps(splits))
        for record_batch in read_split(split, ["offset"], window_bytes=300_000)
        for offset in record_batch["offset"].to_pylist()
    ]
    assert rows == local["offset"].to_pylist()
    sizes = store.reads()
    assert all(size is not None and size <= 300_000 for size in sizes)
    assert len(sizes) > 12


@REMOTE
def test_filters_save_requests_and_bytes(store: ObjectStore, logs: Path, connect: Any) -> None:
    filters = [("partition", "=", 1), ("offset", ">=", 1_950), ("offset", "<", 2_005)]
    report = Report()
    store.reads()
    actual = scan("logs", ["offset"], filters, filesystem=connect(store), report=report).read_all()
    assert actual["offset"].to_pylist() == list(range(1_950, 2_005))
    sizes = store.reads()
    assert None not in sizes
    everything = sum(path.stat().st_size for path in logs.rglob("*.log"))
    assert sum(size or 0 for size in sizes) < everything / 25


@REMOTE
def test_an_object_that_is_deleted_meanwhile(store: ObjectStore, logs: Path, connect: Any) -> None:
    filesystem = by_pyarrow(store)
    filesystem.create_dir("gone")
    with filesystem.open_output_stream("gone/t-0/00000000000000000000.log") as out:
        out.write((logs / "orders-0/00000000000000000000.log").read_bytes()[:10_000])
    (split,) = plan_splits(discover("gone", connect(store)))
    filesystem.delete_file("gone/t-0/00000000000000000000.log")
    ((row,),) = [record_batch.to_pylist() for record_batch in read_split(split)]
    assert (row["_error"]["class"], row["_error"]["size"]) == ("gone", 10_000)


def test_uris(store: ObjectStore, logs: Path) -> None:
    assert resolve(logs.as_uri()) == (None, str(logs))
    assert resolve("/a b/t-0") == (None, "/a b/t-0")
    filesystem, path = resolve("memory://a/t-0")
    assert (type(filesystem).__name__, path) == ("MemoryFileSystem", "/a/t-0")
    endpoint = store.endpoint.removeprefix("http://").replace(":", "%3A")
    options = f"scheme=http&region=us-east-1&endpoint_override={endpoint}"
    uri = f"s3://testing:testing@logs/orders-0?{options}"
    assert scan(uri, ["offset"]).read_all().num_rows == 2_009
    with pytest.raises(FileNotFoundError, match="nowhere"):
        scan(logs / "nowhere")
    with pytest.raises(TypeError, match="int"):
        store_of(5)


@pytest.mark.parametrize("window", [61, 1_000, 4_096, 70_000])
def test_reads_are_windows(logs: Path, window: int) -> None:
    report = Report()
    actual = scan(logs, COLUMNS, report=report, window_bytes=window).read_all()
    assert actual == scan(logs, COLUMNS).read_all()
    whole = sum(path.stat().st_size for path in logs.rglob("*.log"))
    assert report.reads >= whole // max(window, 10_000)


@pytest.mark.rss
def test_memory_does_not_grow_with_the_segment(tmp_path: Path) -> None:
    """A segment larger than what the process may take, batches first and then zeros."""
    batches = [batch(100 * at, 100, 10_000) for at in range(32)]
    path = write_segment(tmp_path / "t-0", batches)
    data = sum(map(len, batches))
    with path.open("r+b") as file:
        file.truncate(RSS_BYTES_MAX * 2)  # A hole: it takes no space.
    program = (
        "import re, sys\n"
        "from kraftspec.pipeline import Report, scan\n"
        "report = Report()\n"
        "rows = sum(batch.num_rows for batch in scan(sys.argv[1], report=report))\n"
        # Not getrusage: that starts with what the parent took.
        "peak = int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) << 10\n"
        "print(rows, report.tails[0].position, report.tails[0].size, peak)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, os.fspath(path)],
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    rows, position, tail, peak_bytes = map(int, done.stdout.split())
    assert (rows, position, tail) == (3_200, data, RSS_BYTES_MAX * 2 - data)
    assert peak_bytes < RSS_BYTES_MAX
