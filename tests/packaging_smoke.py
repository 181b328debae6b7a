"""Run by tox: the sdist builds a wheel, and installs where there is no C compiler."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SMOKE = ROOT / "tests/wheel_smoke.py"
LARGEST = 5_000_000  # Bytes of the codec's wheel.
BUILT = ("*.so", "*.pyd", "*/fastpath/_*.c")


def run(*command: str | Path, **environment: str) -> str:
    """Run a command and return its output; show all of it if the command fails."""
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def install(package: Path, where: Path, **environment: str) -> Path:
    """Make an environment with the package in it; return its interpreter."""
    venv.create(where, with_pip=True)
    python = where / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", package, **environment)
    return python


def judge(python: Path, wheel: Path, out: Path) -> None:
    """Judge our codec by the vectors' own package, in an environment that has not seen a checkout.

    Without the package the command says what to install.
    """
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[conformance]", "setuptools>=80")
    command: list[str | Path] = [python, "-P", "-m", "kraftspec"]
    command += ["conform", "run", "--adapter", "kraftspec"]
    environment = os.environ | {"XDG_CACHE_HOME": str(out / "cache")}
    lacking = subprocess.run(
        command, env=environment, cwd=out, capture_output=True, text=True, check=False
    )
    assert lacking.returncode == 3, lacking.stdout
    assert "pip install 'kraftspec[vectors]'" in lacking.stderr, lacking.stderr

    packages = out / "packages"
    run(python, "-m", "kraftspec.conformance.artefacts", packages, PYTHONPATH=str(ROOT / "src"))
    (vectors,) = packages.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--no-index", vectors)
    judged = run(*command, "--filter", "VoteRequest", XDG_CACHE_HOME=environment["XDG_CACHE_HOME"])
    assert "passed" in judged, judged
    print(f"{vectors.name}: {vectors.stat().st_size:,} bytes; our codec passes VoteRequest")


def type_installs(wheels: Path, sources: Path, out: Path) -> None:
    """Type each `pip install` of the pages, by uv, whose cache has the packages that it brings.

    No registry has kraftspec: it is that of ``wheels``, or the unpacked sdist.
    """
    uv = shutil.which("uv") or ROOT / ".venv/bin/uv"
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    lines = {
        line
        for page in pages
        for line in re.findall(r"^pip install (.*kraftspec\[.*)$", page.read_text("utf-8"), re.M)
    }
    assert len(lines) >= 4, lines
    for line in sorted(lines):
        words = shlex.split(line.replace("/path/to/kraftspec", str(sources)))
        run(uv, "venv", "--clear", out)
        install = [uv, "pip", "install", "--python", out, *words]
        run(*install, UV_FIND_LINKS=str(wheels), CC="false", CXX="false")  # No need to compile.
        run(out / "bin/kraftspec", "--version")
        print(f"pip install {line}: kraftspec starts")


def main() -> None:
    """Build both distributions as `python -m build` does, and use each as a stranger would."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        run(sys.executable, "-m", "build", "--outdir", out, ROOT)
        (sdist,) = out.glob("*.tar.gz")
        (wheel,) = out.glob("*.whl")

        with tarfile.open(sdist) as archive:
            sources = archive.getnames()
        built = [name for name in sources if any(fnmatch(name, kind) for kind in BUILT)]
        assert not built, f"the sdist holds what a build makes: {built}"
        outside = [name for name in sources if "embargoed" in name or "/tests/" in name]
        assert not outside, f"the sdist holds what stays in the repository: {outside}"
        compiled = {Path(name).stem for name in sources if name.endswith(".pyx")}
        with zipfile.ZipFile(wheel) as files:
            native = {Path(name).name.split(".")[0] for name in files.namelist() if ".so" in name}
            assert not [name for name in files.namelist() if "embargoed" in name]
        assert native == compiled, f"the wheel has {native} of {compiled}"
        assert not wheel.name.endswith("any.whl"), f"{wheel.name} does not name its platform"

        size = wheel.stat().st_size
        assert size <= LARGEST, f"{wheel.name} has {size:,} bytes, more than {LARGEST:,}"
        began = time.monotonic()
        python = install(wheel, out / "built")
        took = time.monotonic() - began
        print(f"{wheel.name}: {size:,} bytes; a venv with it was ready in {took:.1f} s")
        print(run(python, "-P", SMOKE, "native"), end="")
        judge(python, wheel, out)
        with tarfile.open(sdist) as archive:
            archive.extractall(out / "sources", filter="data")
        (unpacked,) = (out / "sources").iterdir()
        type_installs(out, unpacked, out / "typed")
        # setuptools goes on when an optional module does not compile; `false` is no compiler.
        pure = install(sdist, out / "pure", CC="false", CXX="false")
        print(run(pure, "-P", SMOKE, "pure"), end="")


if __name__ == "__main__":
    main()
