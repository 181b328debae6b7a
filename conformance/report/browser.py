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

from kraftspec.conformance.registry import cache_directory, locked

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
INSTALL_TIMEOUT_S = 600.0
SCREENSHOT_TIMEOUT_S = 60.0
SCREENSHOT_ATTEMPTS = 3  # On a loaded machine a Chromium now and then hangs at its start.
# Nothing of a desktop, nothing over the network; root has no sandbox.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip


class BrowserError(Exception):
    """There is no browser, or it failed; says what to do."""


def chromium() -> str:
    """Return the path of a Chromium; installed first where this is root's Debian.

    Any number of processes may call this at once: one installs, the others wait for it.

    Raises:
        BrowserError: there is none; names the command that installs it.
    """
    if found := _found():
        return found
    if sys.platform == "darwin":
        raise BrowserError("no Chromium was found; install it with: brew install --cask chromium")
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise BrowserError(f"no Chromium was found; install it with: sudo {' '.join(install)}")
    with locked(cache_directory() / "chromium.lock"):
        if found := _found():
            return found
        for command in (["apt-get", "update", "-q"], install):
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
            )
            if done.returncode:
                raise BrowserError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    if found := _found():
        return found
    raise BrowserError(f"{' '.join(install)} installed no Chromium that is on PATH")


def _found() -> str | None:
    return next(filter(None, map(shutil.which, (*_NAMES, _MAC))), None)


def screenshot(page: Path, out: Path, *, width_px: int = 1400, height_px: int = 900) -> None:
    """Draw the top of a page, in light colours, as a PNG. Raises ``BrowserError``."""
    path = chromium()
    said = ""
    for _ in range(SCREENSHOT_ATTEMPTS):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            picture = Path(profile, "picture.png")
            command = [
                path, "--headless", *FLAGS, f"--user-data-dir={profile}",
                f"--window-size={width_px},{height_px}", f"--screenshot={picture}",
                page.resolve().as_uri(),
            ]  # fmt: skip
            said = _run(command)
            if picture.exists():
                out.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(picture, out)
                return
    raise BrowserError(f"{path} drew nothing of {page}: {said}")


def _run(command: list[str]) -> str:
    """Run a browser to its end, or end it and all its children; return what it said last."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            _, said = process.communicate(timeout=SCREENSHOT_TIMEOUT_S)
            return said.decode(errors="replace")[-500:].strip()
        except subprocess.TimeoutExpired:
            return f"no end within {SCREENSHOT_TIMEOUT_S:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
