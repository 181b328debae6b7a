"""A headless Chromium: for the picture of the report, and for the tests of its page."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from kraftspec.cache import cache_directory, locked

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
INSTALL_TIMEOUT_S = 600.0
SCREENSHOT_TIMEOUT_S = 60.0
SCREENSHOT_ATTEMPTS = 3  # On a loaded machine Chromium sometimes hangs at its start.
# What page.css gives a column of the matrix, and the messages' names with the margins.
COLUMN_PX, NAMES_PX = 124, 300
WIDTH_PX, HEIGHT_PX = 1400, 900
# No desktop, no network; there is no sandbox for root.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip


class BrowserError(Exception):
    """There is no browser, or it failed; the message says what to do."""


def chromium() -> str:
    """Return the path of a Chromium; install it first if this is Debian and the user is root.

    Any number of processes may call this at once: one installs, the others wait for it.

    Raises:
        BrowserError: there is none; the message has the command that installs it.
    """
    if path := _installed():
        return path
    if sys.platform == "darwin":
        raise BrowserError("no Chromium was found; install it with: brew install --cask chromium")
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise BrowserError(f"no Chromium was found; install it with: sudo {' '.join(install)}")
    with locked(cache_directory() / "chromium.lock"):
        if path := _installed():
            return path
        for command in (["apt-get", "update", "-q"], install):
            completed = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
            )
            if completed.returncode:
                raise BrowserError(f"{' '.join(command)} failed: {completed.stderr.strip()}")
    if path := _installed():
        return path
    raise BrowserError(f"{' '.join(install)} installed no Chromium that is on PATH")


def _installed() -> str | None:
    return next(filter(None, map(shutil.which, (*_NAMES, _MAC))), None)


def size_px_of(columns: int) -> tuple[int, int]:
    """Return width and height of a picture that shows a matrix of so many columns."""
    width = max(WIDTH_PX, NAMES_PX + columns * COLUMN_PX)
    return width, width * HEIGHT_PX // WIDTH_PX


def screenshot(
    page: Path, out: Path, *, width_px: int = WIDTH_PX, height_px: int = HEIGHT_PX
) -> None:
    """Draw the top of a page, in light colours, as a PNG. Raises ``BrowserError``."""
    path = chromium()
    output = ""
    for _ in range(SCREENSHOT_ATTEMPTS):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            picture = Path(profile, "picture.png")
            command = [
                path, "--headless", *FLAGS, f"--user-data-dir={profile}",
                f"--window-size={width_px},{height_px}", f"--screenshot={picture}",
                page.resolve().as_uri(),
            ]  # fmt: skip
            output = _run(command)
            if picture.exists():
                out.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(picture, out)
                return
    raise BrowserError(f"{path} drew nothing of {page}: {output}")


def _run(command: list[str]) -> str:
    """Run a browser, or kill it with its children at the timeout; return its last output."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            _, output = process.communicate(timeout=SCREENSHOT_TIMEOUT_S)
            return output.decode(errors="replace")[-500:].strip()
        except subprocess.TimeoutExpired:
            return f"no end within {SCREENSHOT_TIMEOUT_S:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
