"""`gpudoctor fleet`: many nodes."""

from __future__ import annotations

import click

from gpudoctor.cli.command import Group
from gpudoctor.cli.fleet_pair import pair


@click.group(cls=Group)
def fleet() -> None:
    """Many nodes: which one is odd, and what fixes it."""


fleet.add_command(pair)
