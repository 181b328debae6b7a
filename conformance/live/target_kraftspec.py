"""A node of this project as a target."""

from __future__ import annotations

import sys

from kraftspec.conformance.live.target_verbs import main

if __name__ == "__main__":
    own = [sys.executable, "-m", "kraftspec"]
    main(
        lambda arguments: [*own, "storage", *arguments],
        lambda path: [*own, "node", "-c", str(path), "--transfer-leadership", "never"],
    )
