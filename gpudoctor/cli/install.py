"""Installing a framework where a usable GPU is and none is installed: told by --install, or asked at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.command_line.running import tell
from gpudoctor.host import InputError
from gpudoctor.machine import Machine

if TYPE_CHECKING:
    from gpudoctor.cli.fix_options import FixRequest
    from gpudoctor.command_line.arguments import ReportOptions
    from gpudoctor.finding import Finding

_MISSING = "torch-missing"


def note_to_fix(
    request: FixRequest, machine: Machine, findings: Sequence[Finding], shown: ReportOptions
) -> tuple[str, ...]:
    """The id of the note whose fix installs torch, if a person wants that. InputError where --install asks for
    what cannot be installed."""
    missing = installable(findings)
    if request.install:
        _check(request.install, machine, can=missing is not None)
    if missing is None:
        return ()
    asks = sys.stdin.isatty() and sys.stdout.isatty() and shown.style == "text"
    may_ask = asks and not (request.dry_run or request.yes or request.only)
    if request.install or missing.severity != "note" or may_ask:
        return (missing.id,)
    if not request.only:
        tell("PyTorch is not installed: `gpudoctor fix --install torch` installs the best build.")
    return ()


def installable(findings: Sequence[Finding]) -> Finding | None:
    """The note that no torch is installed, where a fix can install it."""
    return next((one for one in findings if is_missing(one) and any(fix.remedies for fix in one.fixes)), None)


def is_missing(finding: Finding) -> bool:
    """Whether it says that no torch is installed."""
    return finding.slug == _MISSING


def _check(name: str, machine: Machine, *, can: bool) -> None:
    if machine.torch is not None:
        tell(f"torch {machine.torch.version} is installed already.")
    elif not can:
        raise InputError(
            f"--install {name}: no usable GPU was found, or no Python environment; `gpudoctor recommend` names the "
            "best build"
        )
