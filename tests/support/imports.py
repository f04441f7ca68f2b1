"""A made environment as it is examined where its frameworks are imported, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from gpudoctor.host import LiveHost
from gpudoctor.machine import Machine
from gpudoctor.survey import survey
from tests.support.check_cases import matrix
from tests.support.judging import told


def examined(root: Path, level: str | None = None, **variables: str) -> Machine:
    """The venv below `root`, its frameworks imported unless the level is static; no driver is asked."""
    return survey(
        LiveHost(variables),
        matrix(),
        python=str(root / "venv/bin/python"),
        level=level,  # type: ignore[arg-type]
        drivers=False,
        kernels=False,
    ).machine


def problems(machine: Machine) -> list[str]:
    """The slugs of its errors, except that there is no GPU."""
    return [slug for slug, severity in told(machine) if severity == "error" and slug != "no-gpu"]
