"""``python -m kraftspec.simulation.compiled``: build the compiled simulator."""

from __future__ import annotations

import sys

from kraftspec.simulation.compiled.build import BuildError, build


def main() -> None:
    """Build it, and say where it is."""
    try:
        print(build())
    except BuildError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
