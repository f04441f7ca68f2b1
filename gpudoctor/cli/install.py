"""Installing a framework where a usable GPU is and none is installed: told by --install, or asked at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.command_line.running import tell
from gpudoctor.render.steps import command_line

if TYPE_CHECKING:
    from gpudoctor.cli.fix_options import FixRequest
    from gpudoctor.command_line.arguments import ReportOptions
    from gpudoctor.finding import Finding
    from gpudoctor.machine import Machine

_MISSING = "torch-missing"


def wanted(
    request: FixRequest, machine: Machine, findings: Sequence[Finding], shown: ReportOptions, target: tuple[str, ...]
) -> tuple[str, ...]:
    """The id of the note whose fix installs torch, if a person wants that; `target` are the options that name this
    machine. Raises InputError where --install asks for what cannot be installed."""
    missing = next((one for one in findings if one.slug == _MISSING), None)
    can = missing is not None and any(fix.remedies for fix in missing.fixes)
    if request.install:
        _check(request.install, machine, can=can)
    if missing is None or not can:
        return ()
    asks = sys.stdin.isatty() and sys.stdout.isatty() and shown.style == "text"
    may_ask = asks and not (request.dry_run or request.yes or request.only)
    if request.install or missing.severity != "note" or may_ask:
        return (missing.id,)
    if not request.only:
        command = command_line(("gpudoctor", "fix", "--install", "torch", *target))
        tell(f"PyTorch is not installed: `{command}` installs the best build.")
    return ()


def _check(name: str, machine: Machine, *, can: bool) -> None:
    from gpudoctor.host import InputError

    if machine.torch is not None:
        tell(f"torch {machine.torch.version} is installed already.")
    elif not can:
        raise InputError(
            f"--install {name}: no usable GPU was found, or no Python environment; `gpudoctor recommend` names the "
            "best build"
        )
