"""The kraftspec command."""
