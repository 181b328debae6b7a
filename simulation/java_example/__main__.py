"""Give written files the stand-ins of today: ``python -m kraftspec.simulation.java_example FILE…``.

The files of findings follow the harness by this; their sequences stay as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kraftspec.simulation.java_example.java_file import refitted
from kraftspec.specs import kafka_release

for name in sys.argv[1:]:
    path = Path(name)
    path.write_text(refitted(path.read_text("utf-8"), kafka_release()), "utf-8")
