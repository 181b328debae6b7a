"""Which interpreters `make test-all` has beside the one that runs this.

python tests/interpreters.py              # tox environments: py312 py313
python tests/interpreters.py --pyenv      # a PYENV_VERSION that shows all that pyenv has
python tests/interpreters.py --untested   # names those that the project supports and nobody ran
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


def pyenv_version() -> str:
    """Return a PYENV_VERSION of the present choice and of every supported version that is there."""
    if shutil.which("pyenv") is None:
        return os.environ.get("PYENV_VERSION", "")
    chosen = _output("pyenv", "version-name").split(":")
    there = [line.strip() for line in _output("pyenv", "versions", "--bare").splitlines()]
    more = [name for name in there if re.match(r"(3\.\d+)\.\d+$", name) and supported(name)]
    return ":".join(dict.fromkeys([*chosen, *more]))


def supported(version: str) -> bool:
    """Whether the project supports the minor version of a full one."""
    return version.rpartition(".")[0] in SUPPORTED


def others() -> list[str]:
    """Return the minor versions that start, without this one."""
    environment = os.environ | {"PYENV_VERSION": pyenv_version()}
    return [
        version
        for version in SUPPORTED
        if version != OWN
        and (program := shutil.which(f"python{version}"))
        and subprocess.run(
            [program, "-c", ""], env=environment, capture_output=True, check=False
        ).returncode == 0
    ]  # fmt: skip


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    if "--pyenv" in sys.argv:
        print(pyenv_version())
    elif "--untested" in sys.argv:
        missing = sorted(set(SUPPORTED) - {OWN, *others()})
        if missing:
            print(f"Untested, because this machine has none: Python {', '.join(missing)}")
    else:
        print(" ".join("py" + version.replace(".", "") for version in others()))
