"""``python -m kraftspec.simulation.compiled``: build the compiled simulator."""

from __future__ import annotations

import argparse
import sys

from kraftspec.simulation.compiled.build import BuildError, build


def main() -> None:
    """Build it, and say where it is."""
    parser = argparse.ArgumentParser("python -m kraftspec.simulation.compiled", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="no training run: built in a third of the time, up to a third slower (if none yet)",
    )
    options = parser.parse_args()
    try:
        print(build(profiled=not options.quick))
    except BuildError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
