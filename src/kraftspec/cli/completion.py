"""``kraftspec completion``: the script that a shell loads to complete our commands."""

from __future__ import annotations

import click

_INSTALL = {
    "bash": 'eval "$(kraftspec completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(kraftspec completion zsh)"    # in ~/.zshrc',
    "fish": "kraftspec completion fish > ~/.config/fish/completions/kraftspec.fish",
}


@click.command(epilog="\b\n" + "\n".join(_INSTALL.values()))
@click.argument("shell", type=click.Choice(sorted(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, f"click has no completion for {shell}"
    root = ctx.find_root().command
    click.echo(kind(root, {}, "kraftspec", "_KRAFTSPEC_COMPLETE").source())
