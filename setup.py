"""The compiled modules of fastpath; all else about the package is in pyproject.toml."""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

ROOM = "src/kraftspec/fastpath"  # Through the symlink, so that an sdist has the same paths.
# A change of any of these builds all again.
HEADERS = sorted(str(path) for way in ("c/*.h", "*.pxd") for path in Path(ROOM).glob(way))
# Debug information is four fifths of a module. Who asks for it, as tests/sanitize.sh does, gets it.
WANTED = "-g" in os.environ.get("CFLAGS", "").split()
LEAN = ["-Wl,--strip-debug"] if sys.platform == "linux" and not WANTED else []


def compiled(name: str) -> Extension:
    """Describe one compiled module.

    Optional: where there is no C compiler the installation goes on, and pure Python does its work.
    """
    module = Extension(
        f"kraftspec.fastpath.{name}",
        [f"{ROOM}/{name}.pyx"],
        depends=HEADERS,
        include_dirs=[ROOM],
        extra_compile_args=["-O3"],
        extra_link_args=LEAN,
        optional=True,
    )
    module.cython_directives = {
        "language_level": 3,
        "boundscheck": False,
        "wraparound": False,
        "cdivision": True,
        "initializedcheck": False,
    }
    return module


setup(
    ext_modules=[compiled(path.stem) for path in sorted(Path(ROOM).glob("_*.pyx"))],
    options={"build_ext": {"parallel": True}},
)
