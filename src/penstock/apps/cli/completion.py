"""`penstock completion`: prints the completion script for a shell. Never changes the shell's own files."""

from __future__ import annotations

import click

_HOW_TO = {
    "bash": 'eval "$(penstock completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(penstock completion zsh)" in ~/.zshrc',
    "fish": "penstock completion fish > ~/.config/fish/completions/penstock.fish",
}


@click.command(epilog="\b\n" + "\n".join(f"{shell}: {line}" for shell, line in _HOW_TO.items()))
@click.argument("shell", type=click.Choice(list(_HOW_TO)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options, settings, and the topics and groups of the broker in --bootstrap or
    PENSTOCK_BOOTSTRAP.

    \b
    eval "$(penstock completion bash)"
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    name = root.info_name if root.info_name in ("penstock", "broker") else "penstock"
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root.command, {}, name, f"_{name.upper()}_COMPLETE").source())
