"""The commands that install one build of a framework, for every common tool, not only the one at hand."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import Enum
from typing import Literal

from msgspec.structs import replace

from gpudoctor.finding import AnyRemedy, RemovePackage, ReplacePackage, ReplaceTorch
from gpudoctor.frameworks.package_spec import torch_and_companions
from gpudoctor.machine import InstallerSettings, Machine, unknown
from gpudoctor.planner import conda_steps, pip_steps, project_steps, python_steps
from gpudoctor.planner.install_requests import Wanted
from gpudoctor.planner.place import Place, Tool, place
from gpudoctor.situation import Situation
from gpudoctor.step import ManualStep, RunStep, Step


class Way(str, Enum):
    """A way to install a build, by its key in `recommend --format json`: a command as an argument list, or the lines
    of a file."""

    VENV = "venv", "venv", "always"
    PIP_FIRST = "pip_first", "pip", "always"
    PIP = "pip", "pip", "always"
    PIP_THEN = "pip_then", "pip", "always"
    UV_VENV = "uv_venv", "uv", "best"
    UV_FIRST = "uv_first", "uv", "best"
    UV = "uv", "uv", "best"
    UV_THEN = "uv_then", "uv", "best"
    UV_ADD = "uv_add", "uv", "verbose"
    CONDA = "conda", "conda", "always"
    PIXI = "pixi", "pixi", "best"
    PYPROJECT_TOML = "pyproject_toml", "pyproject.toml", "verbose", True
    PIXI_TOML = "pixi_toml", "pixi.toml", "verbose", True
    ENVIRONMENT_YML = "environment_yml", "environment.yml", "verbose", True
    DOCKERFILE = "dockerfile", "Dockerfile", "best", True

    label: str
    """The tool, or the name of the file."""
    shown: Literal["always", "best", "verbose"]
    """When it is shown: for every choice, for the best one, or only with --verbose."""
    is_file: bool

    def __new__(cls, key: str, label: str, shown: Literal["always", "best", "verbose"], is_file: bool = False) -> Way:
        way = str.__new__(cls, key)
        way._value_ = key
        way.label, way.shown, way.is_file = label, shown, is_file
        return way


Commands = dict[Way, tuple[str, ...]]
"""In the order in which they run."""


def commands_for(
    remedies: tuple[AnyRemedy, ...], situation: Situation, *, env: dict[str, str] | None = None, apart: bool = False
) -> Commands:
    """The commands that carry out a ReplaceTorch and what goes with it. `env` holds the variables to set with it.
    `apart` uses a new venv, because something else owns the torch of this environment."""
    torch = next((remedy for remedy in remedies if isinstance(remedy, ReplaceTorch)), None)
    if torch is None:
        return {}
    here = _reader(situation.machine)
    if torch.origin == "conda-forge":
        return _conda_forge(here, situation, torch)
    here, closed = _writable(here)
    own_venv = apart or closed
    packages = tuple(remedy for remedy in remedies if isinstance(remedy, ReplacePackage))
    commands: Commands = {}
    in_pip = replace(here, tool="managed" if own_venv else "pip")
    commands[Way.PIP_FIRST] = () if own_venv else _clearing(in_pip, situation, torch)
    ways = (Way.VENV, Way.PIP) if own_venv else (Way.PIP, Way.PIP_THEN)
    commands.update(zip(ways, _argvs(in_pip, situation, torch), strict=False))
    inside = replace(here, tool="uv", python=f"{pip_steps.NEW_VENV}/bin/python" if own_venv else here.python)
    if own_venv:
        commands[Way.UV_VENV] = ("uv", "venv", pip_steps.NEW_VENV)
    commands[Way.UV_FIRST] = () if own_venv else _clearing(inside, situation, torch)
    commands[Way.UV] = next(iter(_argvs(inside, situation, torch)), ())
    for package in packages:
        for way, there in ((Way.PIP_THEN, replace(inside, tool="pip")), (Way.UV_THEN, inside)):
            steps = python_steps.replace_packages(there, situation, (package,))
            commands.setdefault(way, next(iter(_runs(steps)), ()))
    commands.update(_project_files(here, situation, torch, env or {}))
    return {way: _plain(argv) for way, argv in commands.items() if argv}


def package_commands(remedies: Sequence[RemovePackage | ReplacePackage], situation: Situation) -> Commands:
    """The commands that remove and install packages beside torch, in this environment or in a new venv."""
    here, own_venv = _writable(_reader(situation.machine))
    packages = tuple(remedy for remedy in remedies if isinstance(remedy, ReplacePackage))
    removed = [] if own_venv else [remedy.name for remedy in remedies if isinstance(remedy, RemovePackage)]
    in_pip = replace(here, tool="managed" if own_venv else "pip")
    inside = replace(here, tool="uv", python=f"{pip_steps.NEW_VENV}/bin/python" if own_venv else here.python)
    commands: Commands = {
        Way.PIP_FIRST: pip_steps.uninstall_argv(in_pip, removed) if removed else (),
        Way.UV_FIRST: pip_steps.uninstall_argv(inside, removed) if removed else (),
        Way.UV_VENV: ("uv", "venv", pip_steps.NEW_VENV) if own_venv else (),
        Way.UV: next(iter(_runs(python_steps.replace_packages(inside, situation, packages))), ()),
    }
    argvs = _runs(python_steps.replace_packages(in_pip, situation, packages))
    commands.update(zip((Way.VENV, Way.PIP) if own_venv else (Way.PIP,), argvs, strict=False))
    return {way: _plain(commands[way]) for way in Way if commands.get(way)}


def _writable(here: Place) -> tuple[Place, bool]:
    """Where a person may install, and whether that is a new venv: another tool owns this environment, or no command
    can change it."""
    own_venv = here.tool == "managed" or here.user_site or bool(here.obstacle)
    return replace(here, user_site=False, pythonpath="", obstacle="", makes_pip=False), own_venv


def _reader(machine: Machine) -> Place:
    """The place as the reader types in it: the active environment's interpreter is just "python"."""
    here = place(machine)
    prefix = machine.examined.prefix
    active = {machine.variables.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    if not here.python or (prefix and prefix in active):
        here = replace(here, python="python")
    return replace(here, container="")


def _clearing(there: Place, situation: Situation, torch: ReplaceTorch) -> tuple[str, ...]:
    """Removes packages that own files of the new build under another name; () if there are none."""
    return next(iter(_runs(pip_steps.clear_the_way(there, situation, torch))), ())


def _argvs(there: Place, situation: Situation, torch: ReplaceTorch) -> list[tuple[str, ...]]:
    """The install commands."""
    argvs = _runs(python_steps.replace_torch(there, situation, torch))
    return [argv for argv in argvs if "uninstall" not in argv and argv[0] != "rm"]


def _runs(steps: tuple[Step, ...]) -> list[tuple[str, ...]]:
    return [step.argv for step in steps if isinstance(step, RunStep)]


def _plain(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Without `--python python`: uv finds the active environment by itself."""
    if argv[3:5] == ("--python", "python"):
        return argv[:3] + argv[5:]
    return argv


def _conda_forge(here: Place, situation: Situation, torch: ReplaceTorch) -> Commands:
    commands: Commands = {}
    # Without a prefix the step is a line for a person.
    tools: tuple[tuple[Way, Tool], ...] = ((Way.CONDA, "pip"), (Way.PIXI, "pixi"))
    for way, tool in tools:
        for step in python_steps.replace_torch(replace(here, tool=tool), situation, torch)[:1]:
            argv = step.argv if isinstance(step, RunStep) else ()
            commands[way] = tuple(shlex.split(step.text.splitlines()[-1])) if isinstance(step, ManualStep) else argv
    if line := conda_steps.cuda_requirement(torch.build):
        commands[Way.PIXI_TOML] = ("[system-requirements]", line)
    return commands


def _project_files(here: Place, situation: Situation, torch: ReplaceTorch, env: dict[str, str]) -> Commands:
    """The lines of a project, an environment file or an image: a fresh place, where nothing is installed yet."""
    files: Commands = {}
    wanted = torch_and_companions(torch, here.arch)
    in_project = Wanted((*wanted, *project_steps.beside_torch(situation.matrix, torch)), torch.index_url)
    explicit = project_steps.serves_only_these(situation.matrix, torch)
    files[Way.UV_ADD], files[Way.PYPROJECT_TOML] = project_steps.project_lines(in_project, explicit=explicit)
    files[Way.PIXI_TOML] = project_steps.pixi_lines(in_project)
    index = (f"    - --index-url {torch.index_url}",) if torch.index_url else ()
    files[Way.ENVIRONMENT_YML] = (
        "dependencies:",
        "  - pip",
        "  - pip:",
        *index,
        *(f"    - {item.text}" for item in wanted),
    )
    fresh = situation.on(replace(situation.machine, environment=unknown("a fresh environment")))
    plain = InstallerSettings()  # an image has a configuration of its own
    image = _argvs(
        replace(here, tool="pip", python="python", user_site=False, pythonpath="", pip=plain), fresh, torch
    )
    settings = tuple(f"ENV {name}={value}" for name, value in env.items())
    run = tuple(f"RUN {shlex.join((*argv[:4], '--no-cache-dir', *argv[4:]))}" for argv in image)
    files[Way.DOCKERFILE] = (*settings, *run)
    return files
