"""``--profile``: which protocol a node, a directory or a quorum speaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

KAFKA = "kafka"
PROFILES = (KAFKA, "kip-595", "kip-853", "kip-996")

_Command = TypeVar("_Command", bound=Callable[..., Any])


def profile_option(
    *names: str, default: str = KAFKA, text: str = "What is spoken: Kafka's, or a draft of a KIP."
) -> Callable[[_Command], _Command]:
    """Give a command ``--profile``; of all profiles, or of those that are named."""
    return click.option(
        "--profile",
        type=click.Choice(names or PROFILES),
        default=default,
        show_default=True,
        is_eager=True,  # What else is asked for may depend on it.
        help=text,
    )
