"""``--profile``, ``--without`` and ``--as``: which protocol a node or a quorum speaks, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

KAFKA = "kafka"
PROFILES = (KAFKA, "kip-595", "kip-853", "kip-996")

_Command = TypeVar("_Command", bound=Callable[..., Any])


def profile_option(
    *names: str, default: str = KAFKA, text: str = "The protocol: Kafka's, or the draft of a KIP."
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


def without_option() -> Callable[[_Command], _Command]:
    """Give a command with ``--profile`` the option ``--without``, its parameter ``without``."""
    return click.option(
        "--without",
        multiple=True,
        metavar="FIX",
        callback=_known_fixes,
        help="Switch off a rule that corrects a flaw of the protocol; repeatable.",
    )


def _known_fixes(
    context: click.Context, option: click.Parameter, names: Sequence[str]
) -> Sequence[str]:
    """Return the names; BadParameter for one that the profile does not have."""
    if names:
        from kraftspec.reference.profiles import profile_named

        try:
            profile_named(context.params["profile"], without=names)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return names


def release_option() -> Callable[[_Command], _Command]:
    """Give a command with ``--profile`` the option ``--as``, its parameter ``release``."""
    return click.option(
        "--as",
        "release",
        metavar="RELEASE",
        callback=_known_release,
        help="Serve the versions and register with the features of an older release of Kafka: "
        "4.3.1.",
    )


def _known_release(
    context: click.Context, option: click.Parameter, release: str | None
) -> str | None:
    """Return the release; BadParameter for one that the profile does not speak as."""
    if release is not None:
        from kraftspec.reference.profiles import profile_named

        try:
            profile_named(context.params["profile"], release=release)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return release
