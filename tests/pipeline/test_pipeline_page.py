"""The guide to ``kafkalog`` does what it says, example after example."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kraftspec.pipeline.files import LOCAL_WINDOW_BYTES, REMOTE_WINDOW_BYTES

END = "\x1e"  # Between what one example prints and the next.
PAGE = Path(__file__).resolve().parents[2] / "docs/pipeline.md"
# Python, and the block right after it, if there is one, with what it prints.
EXAMPLE = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.mark.kafka
def test_examples_run(tmp_path: Path) -> None:
    # In a process of its own: a Spark that runs already looks for "logs" where it was started.
    text = PAGE.read_text("utf-8")
    matches = list(EXAMPLE.finditer(text))
    assert len(matches) >= 7
    end = f"print({END!r})\n"
    program = end.join(example[1] for example in matches)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert done.stdout.split(END + "\n") == [example[2] or "" for example in matches]


def test_every_option_is_in_the_guide() -> None:
    source = PAGE.parents[1] / "pipeline/source/options.py"
    options = re.findall(r'read\(\s*"([\w.]+)"', source.read_text("utf-8"))
    sides = [f"{side}{rest}" for side in ("starting", "ending")
             for rest in ("Offsets", "Timestamp", "OffsetsByTimestamp")]  # fmt: skip
    text = PAGE.read_text("utf-8")
    assert len(options) > 12
    assert [name for name in [*options, *sides] if f"`{name}`" not in text and name != "path"] == []


def test_the_windows_are_those_of_the_code() -> None:
    for page in (PAGE, PAGE.with_name("arrow.md")):
        text = page.read_text("utf-8")
        assert f"windows of {LOCAL_WINDOW_BYTES >> 20} MiB" in text
        assert f"{REMOTE_WINDOW_BYTES >> 20} MiB" in text
