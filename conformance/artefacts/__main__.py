"""``python -m kraftspec.conformance.artefacts OUT``."""

from __future__ import annotations

import sys
from pathlib import Path

from kraftspec.conformance.artefacts import make_artefacts


def main(out: str = "build/artefacts") -> None:
    """Write the packages and say how large each is."""
    try:
        packages = make_artefacts(Path(out))
    except ValueError as error:
        sys.exit(str(error))
    for path in packages:
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
