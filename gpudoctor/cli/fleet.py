"""`gpudoctor fleet`: many nodes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import click

from gpudoctor.cli.command import Group
from gpudoctor.cli.fleet_check import check, fleet_options, node, show
from gpudoctor.cli.fleet_pair import pair
from gpudoctor.cli.options import matrix_option, option
from gpudoctor.command_line.arguments import ReportOptions
from gpudoctor.command_line.options import EXPECT, GOLDEN, ROLES
from gpudoctor.exit_codes import FailOn
from gpudoctor.fleet.names import expanded
from gpudoctor.host import InputError

if TYPE_CHECKING:
    from gpudoctor.fleet.documents import Document


@click.group(cls=Group)
def fleet() -> None:
    """Compare many nodes: which one is odd, and what fixes it."""


fleet.add_command(check)
fleet.add_command(node)
fleet.add_command(pair)


@fleet.command()
@click.argument("paths", nargs=-1, required=True, metavar="DIR|FILE|-...", type=click.Path())
@option(EXPECT)
@option(GOLDEN)
@option(ROLES)
@matrix_option
@fleet_options
def report(
    paths: tuple[str, ...],
    expect: str | None,
    golden: str | None,
    roles: str | None,
    overlays: tuple[str, ...],
    shown: ReportOptions,
) -> int:
    """Merge snapshots and reports of nodes, and name the odd ones.

    Each document is what `gpudoctor snapshot` or `gpudoctor check --format json` printed on one node: a folder of
    files, single files, or JSON lines. A node is named by its file. Nothing is run and no network is used.

    A value that more than half of at least three nodes have is the norm; two nodes that differ accuse nobody. Exit
    codes: 0 no error, 1 a node has one, 3 a node is unknown or missing.

    \b
    Examples:
      gpudoctor fleet report results/
      gpudoctor fleet report results/ --expect 'gpu[01-64]' \\
          --format html --report-file fleet.html
      cat *.json | gpudoctor fleet report -
    """
    from gpudoctor.fleet.documents import documents
    from gpudoctor.fleet.merge import merge
    from gpudoctor.matrix.load import load_matrix

    made = merge(
        documents(paths),
        load_matrix(overlays),
        expected=_names(expect),
        golden=_good(golden),
        fail_on=cast("FailOn", shown.fail_on),
        roles=_roles(roles),
    )
    return show(made, shown)


def _names(expect: str | None) -> tuple[str, ...]:
    if not expect:
        return ()
    if os.path.exists(expect):
        return tuple(name for line in _lines(expect) for name in expanded(line))
    if os.sep in expect:
        raise InputError(f"--expect {expect}: no such file")
    return expanded(expect)


def _good(path: str | None) -> Document | None:
    from gpudoctor.fleet.documents import document
    from gpudoctor.intake.snapshot import read_content

    if path is None:
        return None
    read = document(read_content(path), path)
    if read.failure:
        raise InputError(f"--golden {path}: {read.failure}")
    return read


def _roles(path: str | None) -> dict[str, str]:
    roles: dict[str, str] = {}
    for line in _lines(path) if path else ():
        nodes, equals, role = line.rpartition("=")
        if not equals or not role.strip():
            raise InputError(f"--roles {path}: {line!r} is no line such as gpu[01-32]=train")
        roles.update(dict.fromkeys(expanded(nodes.strip()), role.strip()))
    return roles


def _lines(path: str) -> list[str]:
    from gpudoctor.intake.snapshot import read_content

    text = read_content(path).decode("utf-8", "replace")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
