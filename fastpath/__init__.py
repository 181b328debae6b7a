"""What every codec stands on: primitives, errors, and the machinery that runs plans.

This is the bottom of the house and imports nothing above it, so that using a codec loads no more
than it needs. A number on the wire is checked here, once: its range, its length against the bytes
that are really left, and the offset that an error will name.
"""
