"""``python -m kraftspec.simulation.java_example FILE [DIR]``: a finding's sequence as a whole file.

Beside a finding stands the sequence alone. With DIR, FILE is written there with the stand-ins that
it runs on, and a pom, for the release of the specs or another. Without, FILE becomes the sequence
of what ``--java`` wrote.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kraftspec.conformance.adapters.registry import find
from kraftspec.simulation.harness.cores import FOLDER
from kraftspec.simulation.java_example.java_file import bare, refitted, write_whole
from kraftspec.specs import kafka_release

parser = argparse.ArgumentParser("python -m kraftspec.simulation.java_example", description=__doc__)
parser.add_argument("file", type=Path, metavar="FILE")
parser.add_argument("folder", type=Path, nargs="?", metavar="DIR")
parser.add_argument("--release", choices=find("kafka", FOLDER).releases, default=kafka_release())
options = parser.parse_args()
if not options.file.is_file():
    parser.error(f"there is no file {options.file}")
text = options.file.read_text("utf-8")
if options.folder:
    whole = refitted(text, options.release)
    print(write_whole(whole, options.file.stem, options.release, options.folder))
else:
    options.file.write_text(bare(text), "utf-8")
