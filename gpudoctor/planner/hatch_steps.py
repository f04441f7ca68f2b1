"""A project of hatch: it has no command that changes a dependency, so the one line that asks for torch is changed."""

from __future__ import annotations

import re

from gpudoctor.frameworks.package_spec import PackageSpec
from gpudoctor.machine import TorchAsked
from gpudoctor.planner.install_requests import PLAIN_REQUIREMENT
from gpudoctor.planner.place import Place
from gpudoctor.step import ManualStep, RunStep, Step

_VARIABLES = "envs.default.env-vars"


def hatch(
    place: Place, asked: tuple[TorchAsked, ...], wanted: tuple[PackageSpec, ...], index: str, why: str
) -> tuple[Step, ...]:
    """pyproject.toml asks for this torch and names its index, and hatch brings its environment up to date."""
    lines = (
        "[tool.hatch.envs.default.env-vars]",
        f'PIP_EXTRA_INDEX_URL = "{index}"',
    )
    sync = ("hatch", "run", "python", "--version")
    torch = next((item for item in wanted if item.name == "torch"), None)
    plain = len(asked) == 1 and re.fullmatch(PLAIN_REQUIREMENT, asked[0].requirement) is not None
    unusual = {_VARIABLES, "envs.default.installer"} & set(place.project_keys)
    if torch is None or len(wanted) > 1 or not plain or (index and unusual):
        text = f"In pyproject.toml, ask for {' '.join(item.text for item in wanted)}"
        text += f", and add\n{chr(10).join(lines)}" if index else ""
        return (ManualStep(text=f"{text}\nThen: {' '.join(sync)}", why=why, risk="replaces"),)
    old = re.escape(asked[0].requirement).replace("/", r"\/")
    edits = [f's/"{old}"/"{torch.text}"/', *(f"$a\\{line}" for line in lines if index)]
    edit = RunStep(
        argv=("sed", "-i", *(part for one in edits for part in ("-e", one)), "pyproject.toml"),
        cwd=place.project,
        why="in pyproject.toml, or hatch restores the old torch",
        risk="replaces",
    )
    return (edit, RunStep(argv=sync, cwd=place.project, why=why, risk="replaces"))
