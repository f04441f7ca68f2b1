"""Projects whose tool has no command for a change: lines of their files are changed with sed. hatch, pdm's sources,
and requirements.in with pip-tools or with uv in its place."""

from __future__ import annotations

import re

from gpudoctor.machine import Machine, TorchAsked
from gpudoctor.planner.install_requests import PLAIN_REQUIREMENT, Wanted
from gpudoctor.planner.pip_steps import Argv, directly, pip
from gpudoctor.planner.place import Place
from gpudoctor.planner.project_steps import edited, in_project, source_name
from gpudoctor.step import ManualStep, Step

_VARIABLES = "envs.default.env-vars"
_SOURCE, _COMPILED = "requirements.in", "requirements.txt"


def hatch(place: Place, asked: tuple[TorchAsked, ...], wanted: Wanted) -> tuple[Step, ...]:
    """pyproject.toml asks for this torch and names its index, and hatch brings its environment up to date."""
    lines = ("[tool.hatch.envs.default.env-vars]", f'PIP_EXTRA_INDEX_URL = "{wanted.index}"')
    sync = ("hatch", "run", "python", "--version")
    torch, index, why = wanted.torch, wanted.index, wanted.why
    plain = len(asked) == 1 and re.fullmatch(PLAIN_REQUIREMENT, asked[0].requirement) is not None
    unusual = {_VARIABLES, "envs.default.installer"} & set(place.project_keys)
    if torch is None or len(wanted.packages) > 1 or not plain or (index and unusual):
        text = f"In pyproject.toml, ask for {' '.join(wanted.texts)}"
        text += f", and add\n{chr(10).join(lines)}" if index else ""
        return (ManualStep(text=f"{text}\nThen: {' '.join(sync)}", why=why, risk="replaces"),)
    old = re.escape(asked[0].requirement).replace("/", r"\/")
    edits = [f's/"{old}"/"{torch.text}"/', *(f"$a\\{line}" for line in lines if index)]
    edit = edited(place, "pyproject.toml", edits, "in pyproject.toml, or hatch restores the old torch")
    return (edit, in_project(place, sync, why))


def pdm(place: Place, asked: tuple[TorchAsked, ...], wanted: Wanted) -> tuple[Step, ...]:
    """pyproject.toml names the index and these versions; the lock and the environment follow."""
    group, extra = (asked[0].group, asked[0].extra) if asked else ("", "")
    add_to = ("--dev", "--group", group) if group else ("--group", extra) if extra else ()
    add = in_project(place, ("pdm", "add", *add_to, *wanted.texts), wanted.why)
    return (*_pdm_source(place, wanted), add)


def _pdm_source(place: Place, wanted: Wanted) -> tuple[Step, ...]:
    """pdm has no command for a source of its project."""
    name = source_name(wanted.index)
    if not wanted.index or f"source.{name}" in place.project_keys:
        return ()
    names = ", ".join(f'"{item.name}"' for item in wanted.packages)
    lines = ("[[tool.pdm.source]]", f'name = "{name}"', f'url = "{wanted.index}"', f"include_packages = [{names}]")
    edits = (f"$a\\{line}" for line in lines)
    return (edited(place, "pyproject.toml", edits, "the index, for these packages only"),)


def pip_tools(place: Place, machine: Machine, wanted: Wanted) -> tuple[Step, ...]:
    """requirements.in asks for these versions and names their index. What is installed beside them stays."""
    asked = machine.examined.torch_asked
    compile, install = _commands(place, machine, wanted.index)
    if not compile:
        index = (f"--extra-index-url {wanted.index}",) if wanted.index else ()
        lines = "\n".join((*index, *wanted.texts))
        text = (
            f"{place.compiled_by[0]} is not on PATH. Make {_SOURCE} say\n{lines}\nand compile and install it again."
        )
        return (ManualStep(text=text, why=wanted.why, risk="replaces"),)
    edits = _edits(asked, wanted)
    return (
        edited(place, _SOURCE, edits, f"in {_SOURCE}, or the next compilation restores the old torch"),
        in_project(place, compile, "the pins follow"),
        in_project(place, install, wanted.why),
    )


def _commands(place: Place, machine: Machine, index: str) -> tuple[Argv, Argv]:
    """(compile, install); the first is empty where its tool is missing."""
    made = place.compiled_by
    # uv takes a package from the first index that has it, and this one has old versions of others, too.
    every = ("--index-strategy", "unsafe-best-match") if index else ()
    extra = ("--extra-index-url", index) if index else ()
    of_uv = (*extra, *every) if place.installer == "uv" else ()
    install = (*pip(directly(place), "install"), *of_uv, "-r", _COMPILED)
    if made[0] == "uv":
        return (made if set(every) <= set(made) else (*made, *every)) if place.has("uv") else (), install
    if machine.installed("pip-tools"):
        return (place.python, "-m", "piptools", "compile", *made[1:]), install
    return made if place.has("pip-compile") else (), install


def _edits(asked: tuple[TorchAsked, ...], wanted: Wanted) -> list[str]:
    """Expressions of sed: the version of each line that names one of these packages; remarks and markers stay."""
    edits = [
        rf"s/^{item.name}\(\[[^]]*\]\)\? *\([<>=!~][^#;]*[^#; ]\)\?\( *[#;].*\)\?$/{item.text}\3/I"
        for item in wanted.packages
    ]
    if wanted.torch and not any(line.file == _SOURCE for line in asked):
        edits.append(f"$a\\{wanted.torch.text}")
    return [*([f"1i\\--extra-index-url {wanted.index}"] if wanted.index else []), *edits]
