"""Completion of the command line in bash, zsh and fish: commands, options, ids and slugs, names of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from gpudoctor.cli.command import command

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_GPUDOCTOR_COMPLETE"


@command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the shell lines that make Tab complete commands, options, ids, slugs and GPU names.

    \b
    Put one of these into the start-up file of your shell:
      eval "$(gpudoctor completion bash)"       ~/.bashrc
      eval "$(gpudoctor completion zsh)"        ~/.zshrc
      gpudoctor completion fish | source        ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "gpudoctor", _VARIABLE).source())
    return 0


def _found(incomplete: str, values: Iterable[tuple[str, str]]) -> list[CompletionItem]:
    start = incomplete.lower()
    return [CompletionItem(value, help=help) for value, help in values if value.lower().startswith(start)]


def checks(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids and slugs of checks."""
    from gpudoctor.suites import image_checks, machine_checks, pair_checks

    rows = [check for suite in (machine_checks(), image_checks(), pair_checks()) for check in suite]
    ids = ((check.id, check.slug) for check in rows)
    return _found(incomplete, (*ids, *((check.slug, check.id) for check in rows)))


def gpus(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of GPUs; "RTX-50" is completed as "RTX 50" is, and needs no quotes."""
    from gpudoctor.matrix.load import load_matrix

    tables = load_matrix(()).tables
    found = (*(row.name for row in tables.nvidia_gpus), *(row.name for row in tables.amd_gpus))
    names = dict.fromkeys(map(_short, found))
    plain = (name for name in sorted(names) if re.fullmatch(r"[\w.+-]+", name))
    return _found(incomplete.replace(" ", "-"), ((name, "") for name in plain))


def _short(name: str) -> str:
    """The name of a GPU as people type it, in one word."""
    for maker in ("NVIDIA ", "GeForce ", "AMD ", "Radeon "):
        name = name.removeprefix(maker)
    return name.replace(" ", "-")


def tables(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tables of the matrix."""
    from gpudoctor.matrix.rows import Tables

    return _found(incomplete, ((name, "") for name in Tables.__struct_fields__))


COMPLETED: dict[str, Any] = {"gpus": gpus, "select": checks, "ignore": checks, "only": checks}
"""What completes an option, by the name of its parameter."""
