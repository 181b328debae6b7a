"""Commands of the pages that take minutes, each typed as it stands: the campaign ``commands``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIVE = "kraftspec conform live --target kafka --filter tagged-fields-without-end"
REPRODUCE = "python -m kraftspec.interop.reproduce"
# What is typed, in this order → its exit code; of a scene, 1 says that the fault is there.
LONG = {
    "make bench ARGS=--quick": 0,
    "make bench-pipeline ARGS=--quick": 0,
    "python -m venv job && job/bin/pip install 'kraftspec[spark]' venv-pack": 0,
    "job/bin/venv-pack -p job -o job.tar.gz": 0,
    f"KAFKA_RELEASE=4.3.1 {LIVE}": 1,
    f"{REPRODUCE} fetch-snapshot-rejected --release 4.4.0": 1,
    f"{REPRODUCE} fetch-snapshot-without-topic --release 4.3.1": 1,
    f"{REPRODUCE} fetch-snapshot-without-topic --release 4.4.0": 0,
    f"{REPRODUCE} busy-observer --release 4.4.0": 1,
    f"{REPRODUCE} gridlock --release 4.4.0 --observe 300": 1,
    f"{REPRODUCE} gridlock --release kraftspec --observe 60": 0,
    f"{REPRODUCE} new-disk --release 4.4.0": 1,
}


def main() -> int:
    """Type each; return how many ended otherwise. pip gets a wheel, for no registry has one."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder, "wheels")
        build = [
            sys.executable,
            "-m",
            "uv",
            "build",
            "--quiet",
            "--wheel",
            "--out-dir",
            str(wheels),
        ]
        subprocess.run([*build, str(ROOT)], check=True)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PIP_FIND_LINKS": str(wheels)}
        for command, wanted in LONG.items():
            print(f"$ {command}", flush=True)
            where = ROOT if command.startswith("make ") else folder
            ended = subprocess.run(["bash", "-c", command], cwd=where, env=environment, check=False)
            if ended.returncode != wanted:
                print(f"ended with {ended.returncode}, and not with {wanted}", flush=True)
                failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
