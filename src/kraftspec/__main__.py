"""``python -m kraftspec``: the same as the command."""

from kraftspec.cli import main

main(prog_name="kraftspec")
