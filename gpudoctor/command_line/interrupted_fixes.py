"""Fixes of the examined environment that were cut off: a kill, a lost connection, a power cut."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from gpudoctor.command_line.running import tell
from gpudoctor.host.input_file import WITHOUT_WAITING

if TYPE_CHECKING:
    from gpudoctor.fix.run import Run
    from gpudoctor.machine import Machine

_HEAD = 64 << 10
"""Bytes: a journal names its environment in its first line."""


def journal_home() -> str:
    """Where the journal is kept ($XDG_STATE_HOME, else ~/.local/state). RepairError for want of a home."""
    from gpudoctor.fix.account import account_home
    from gpudoctor.fix.errors import RepairError

    state = os.environ.get("XDG_STATE_HOME", "")
    home = account_home()
    if not os.path.isabs(state) and not home:
        raise RepairError(
            "The journal has no place, since this account has no home folder: XDG_STATE_HOME names one."
        )
    return os.path.join(state if os.path.isabs(state) else os.path.join(home, ".local", "state"), "gpudoctor")


def tell_if_cut_off(machine: Machine) -> None:
    """Tell a reader of a report that a fix of this environment was cut off. `gpudoctor fix` says what is wrong with a
    journal that cannot be read."""
    from gpudoctor.fix.errors import RepairError

    prefix = machine.examined.prefix
    try:
        home = journal_home()
        if not prefix or not _may_have_runs(home, prefix):
            return
        from gpudoctor.fix.journal import unfinished

        run = unfinished(home, prefix)
    except RepairError:
        return
    if run is not None:
        tell_cut_off(run)


def _may_have_runs(home: str, prefix: str) -> bool:
    """Whether a journal names this environment at all: to read journals takes as long as a tenth of a check."""
    try:
        folders = os.listdir(os.path.join(home, "runs"))
    except OSError:
        return False
    named = msgspec.json.encode(os.path.realpath(prefix))
    return any(_names(os.path.join(home, "runs", folder, "journal.jsonl"), named) for folder in folders)


def _names(journal: str, text: bytes) -> bool:
    """True also for a journal that cannot be read: its reader tells why."""
    try:
        with open(os.open(journal, os.O_RDONLY | WITHOUT_WAITING), "rb") as file:
            return text in file.read(_HEAD)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def tell_cut_off(run: Run) -> None:
    """Tell that a run was cut off, and what to do about it."""
    from gpudoctor.render.journal import when

    what = "undo of a fix" if run.state == "undoing" else "fix"
    fixes = "--undo goes on with it" if run.state == "undoing" else "--continue or --undo"
    tell(
        f"A {what} of this environment was cut off ({run.id}, {when(run.when)}): "
        f"`gpudoctor fix` {fixes}, before anything else is changed."
    )
