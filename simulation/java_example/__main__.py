"""``python -m kraftspec.simulation.java_example FILE [DIR]``: a finding's sequence as a whole file.

Beside a finding stands the sequence alone. With DIR, FILE is written there with the stand-ins that
it runs on, and a pom. Without, FILE becomes the sequence of what ``--java`` wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kraftspec.simulation.java_example.java_file import bare, refitted, write_whole
from kraftspec.specs import kafka_release

path, *folders = map(Path, sys.argv[1:])
text = path.read_text("utf-8")
if folders:
    release = kafka_release()
    print(write_whole(refitted(text, release), path.stem, release, folders[0]))
else:
    path.write_text(bare(text), "utf-8")
