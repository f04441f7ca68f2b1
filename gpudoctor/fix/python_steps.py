"""Package remedies as commands for the tool that owns the environment: pip, uv, conda, poetry, pixi."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpudoctor.finding import (
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    UnsetVariable,
)
from gpudoctor.fix.place import Place, is_name, is_specifier, is_url, is_variable, is_version
from gpudoctor.fix.requirements import (
    Wanted,
    index_of_torch,
    installed,
    pinning_another,
    torch_and_companions,
    would_stay,
)
from gpudoctor.fix.steps import EnvStep, ManualStep, RunStep, Step
from gpudoctor.machine import Machine

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_EXTRA = r"[a-z0-9-]+(,[a-z0-9-]+)*"
_CONDA_CUDA = r"cuda-version>=\d+(\.\d+)?,<\d+"
_NEW_VENV = ".venv-gpu"


def replace_torch(place: Place, machine: Machine, matrix: Matrix, remedy: ReplaceTorch) -> tuple[Step, ...]:
    """Another build of torch, its companions in the same command."""
    if not _is_sound(remedy):
        return (_by_hand_only(f"torch {remedy.version} ({remedy.build})"),)
    had = installed(machine, "torch")
    build = f"one with code for {remedy.carries}" if remedy.carries else "a CPU build"
    why = f"torch {had.version} makes way for {build}" if had else f"torch: {build}"
    if pinned := pinning_another(machine, remedy.version):
        why += f"; these want another torch: {', '.join(pinned)}"
    if remedy.origin == "conda-forge":
        return (_conda_torch(place, remedy, why),)
    wanted = torch_and_companions(place, remedy)
    if place.tool in ("uv-project", "poetry", "pixi"):
        wanted += _from_the_same_index(matrix, remedy)
    return _install(place, machine, wanted, remedy.index_url, why, undo=_restore(place, machine, matrix, wanted))


def replace_package(place: Place, machine: Machine, matrix: Matrix, remedy: ReplacePackage) -> tuple[Step, ...]:
    """Another version of one package."""
    local = f"+{remedy.local}" if remedy.local and re.fullmatch(r"==[^,*]+", remedy.specifier) else ""
    spec = remedy.specifier + local
    if not (is_name(remedy.name) and (not spec or is_specifier(spec)) and _is_index(remedy.index_url)):
        return (_by_hand_only(remedy.name),)
    wanted = (Wanted(name=remedy.name, spec=spec),)
    undo = _restore(place, machine, matrix, wanted)
    return _install(place, machine, wanted, remedy.index_url, remedy.why, undo=undo)


def reinstall_package(place: Place, machine: Machine, matrix: Matrix, remedy: ReinstallPackage) -> tuple[Step, ...]:
    """The same version again, over damaged files; what it depends on stays."""
    index = remedy.index_url or (index_of_torch(machine, matrix) if remedy.name == "torch" else "") or ""
    if not (is_name(remedy.name) and is_version(remedy.version) and _is_index(index)):
        return (_by_hand_only(remedy.name),)
    found = installed(machine, remedy.name)
    if place.conda and found and found.installer == "conda":
        conda = ("conda", "install", "-y", "-p", place.prefix, "--force-reinstall", f"{remedy.name}={remedy.version}")
        return (RunStep(argv=conda, why=remedy.why, risk="replaces"),)
    wanted = (Wanted(name=remedy.name, spec=f"=={remedy.version}"),)
    if place.tool in ("managed", "nowhere"):
        return _install(place, machine, wanted, index, remedy.why, undo=())
    # The files are what is wrong, not the lock of a project: the environment alone is repaired.
    argv = _install_argv(place, wanted, index, again=(remedy.name,), alone=True)
    return (RunStep(argv=argv, why=remedy.why, risk="replaces"),)


def remove_package(place: Place, machine: Machine, matrix: Matrix, remedy: RemovePackage) -> tuple[Step, ...]:
    """Take a package out of the environment."""
    if not is_name(remedy.name):
        return (_by_hand_only(remedy.name),)
    found = installed(machine, remedy.name)
    if place.tool in ("managed", "nowhere", "uv-project", "poetry", "pixi"):
        command = {"uv-project": "uv remove", "poetry": "poetry remove", "pixi": "pixi remove"}.get(place.tool)
        text = f"Remove {remedy.name}" + (f" from the project: {command} {remedy.name}" if command else "")
        return (ManualStep(text=f"{text}.", why=remedy.why, risk="replaces"),)
    if place.conda and found and found.installer == "conda":
        argv: tuple[str, ...] = ("conda", "remove", "-y", "-p", place.prefix, remedy.name)
        return (RunStep(argv=argv, why=remedy.why, risk="replaces"),)
    argv = (*_pip(place, "uninstall"), *(("-y",) if place.tool == "pip" else ()), remedy.name)
    undo = _restore(place, machine, matrix, (Wanted(name=remedy.name, spec=""),))
    return (RunStep(argv=argv, why=remedy.why, risk="replaces", undo=undo),)


def set_variable(place: Place, remedy: SetVariable) -> tuple[Step, ...]:
    """A variable for this environment: kept by conda, else set for the command alone."""
    if not is_variable(remedy.name, remedy.value):
        return (_by_hand_only(f"the variable {remedy.name}"),)
    if place.conda and place.prefix:
        config = ("conda", "env", "config", "vars")
        set_it = (*config, "set", "-p", place.prefix, f"{remedy.name}={remedy.value}")
        undo = (*config, "unset", "-p", place.prefix, remedy.name)
        return (RunStep(argv=set_it, why=remedy.why, undo=(undo,)),)
    return (EnvStep(name=remedy.name, value=remedy.value, why=remedy.why),)


def unset_variable(place: Place, remedy: UnsetVariable) -> tuple[Step, ...]:
    """A variable that must go: whoever set it knows where."""
    if not is_variable(remedy.name, ""):
        return (_by_hand_only("that variable"),)
    where = "the container's start command, Dockerfile or manifest" if place.container else "the shell, unit or job"
    text = f"unset {remedy.name}\nand take it out of {where} that sets it"
    return (ManualStep(text=text, why=remedy.why),)


# --- commands --------------------------------------------------------------------------------------


def _install(
    place: Place,
    machine: Machine,
    wanted: tuple[Wanted, ...],
    index: str,
    why: str,
    *,
    undo: tuple[tuple[str, ...], ...],
) -> tuple[Step, ...]:
    if place.tool == "uv-project":
        return _uv_project(place, wanted, index, why)
    if place.tool == "poetry":
        return _poetry(place, wanted, index, why)
    if place.tool == "pixi":
        return (_pixi(wanted, index, why),)
    if place.tool == "nowhere":
        options = f" --index-url {index}" if index else ""
        text = f"In the environment that shall have it: pip install {_line(wanted)}{options}"
        return (ManualStep(text=text, why=why, risk="replaces"),)
    if place.tool == "managed":
        return _in_a_new_venv(place, wanted, index, why)
    if place.container:
        why = f"{why}; in this container only: put it into the image too".lstrip("; ")
    again = tuple(item.name for item in wanted if would_stay(machine, item))
    risk = "replaces" if any(installed(machine, item.name) for item in wanted) else "safe"
    argv = _install_argv(place, wanted, index, again=again)
    return (RunStep(argv=argv, why=why, risk="replaces" if risk == "replaces" else "safe", undo=undo),)


def _pip(place: Place, verb: str) -> tuple[str, ...]:
    if place.tool == "uv":
        return ("uv", "pip", verb, "--python", place.python)
    return (place.python, "-m", "pip", verb)


def _install_argv(
    place: Place, wanted: Iterable[Wanted], index: str, *, again: tuple[str, ...] = (), alone: bool = False
) -> tuple[str, ...]:
    """An install command. `again`: packages that must be installed although their version seems to be there."""
    options: list[str] = []
    uv = place.tool != "pip"
    if again and uv:
        options += [part for name in again for part in ("--reinstall-package", name)]
    elif again:
        options.append("--force-reinstall")
    if alone:
        options.append("--no-deps")
    if index:
        options += ["--index-url", index]
    command = ("uv", "pip", "install", "--python", place.python) if uv else _pip(place, "install")
    return (*command, *options, *(item.text for item in wanted))


def _in_a_new_venv(place: Place, wanted: tuple[Wanted, ...], index: str, why: str) -> tuple[Step, ...]:
    """The distribution owns this Python: nothing is forced into it."""
    make = RunStep(
        argv=(place.python, "-m", "venv", _NEW_VENV),
        why="the distribution manages this Python: packages of your own go into a venv",
        undo=(("rm", "-r", _NEW_VENV),),
    )
    options = ("--index-url", index) if index else ()
    argv = (f"{_NEW_VENV}/bin/python", "-m", "pip", "install", *options, *(item.text for item in wanted))
    return (make, RunStep(argv=argv, why=why, undo=()))


def _uv_project(place: Place, wanted: tuple[Wanted, ...], index: str, why: str) -> tuple[Step, ...]:
    names = [item.text for item in wanted]
    source = f"gpu-{index.rstrip('/').rpartition('/')[2]}"
    add = ("uv", "add", *(("--index", f"{source}={index}") if index else ()), *names)
    reason = f"{why}; in the project's lock, or the next sync undoes it"
    step = RunStep(argv=add, cwd=place.project, why=reason, risk="replaces")
    if not index:
        return (step,)
    sources = "\n".join(f'{item.name} = {{ index = "{source}" }}' for item in wanted)
    explicit = not _device_code_apart(wanted)
    remark = " (explicit keeps other packages off that index)" if explicit else ""
    text = (
        f"pyproject.toml then has to say{remark}:\n"
        f"[tool.uv.sources]\n{sources}\n"
        f'[[tool.uv.index]]\nname = "{source}"\nurl = "{index}"' + ("\nexplicit = true" if explicit else "")
    )
    return (step, ManualStep(text=text, why="the index is for these packages only"))


def _poetry(place: Place, wanted: tuple[Wanted, ...], index: str, why: str) -> tuple[Step, ...]:
    names = [item.text for item in wanted]
    if not index:
        return (RunStep(argv=("poetry", "add", *names), cwd=place.project, why=why, risk="replaces"),)
    source = f"gpu-{index.rstrip('/').rpartition('/')[2].replace('.', '-')}"
    declare = RunStep(
        argv=("poetry", "source", "add", "--priority=explicit", source, index),
        cwd=place.project,
        why="the index of that build",
        undo=(("poetry", "source", "remove", source),),
    )
    add = RunStep(argv=("poetry", "add", "--source", source, *names), cwd=place.project, why=why, risk="replaces")
    return (declare, add)


def _pixi(wanted: tuple[Wanted, ...], index: str, why: str) -> ManualStep:
    shared = index and _device_code_apart(wanted)
    where = f', index = "{index}"' if index and not shared else ""
    lines = "\n".join(
        f'{item.name} = {{ version = "{item.spec or "*"}"{_pixi_extras(item)}{where} }}' for item in wanted
    )
    options = f'[pypi-options]\nextra-index-urls = ["{index}"]\n' if shared else ""
    text = f"In the project's manifest, then pixi install:\n{options}[pypi-dependencies]\n{lines}"
    return ManualStep(text=text, why=why, risk="replaces")


def _pixi_extras(item: Wanted) -> str:
    return ", extras = [" + ", ".join(f'"{extra}"' for extra in item.extra.split(",")) + "]" if item.extra else ""


def _from_the_same_index(matrix: Matrix, remedy: ReplaceTorch) -> tuple[Wanted, ...]:
    """What a project must name beside a ROCm torch: its triton lies in that index alone, and a project's index
    serves direct requirements only."""
    row = matrix.companion(remedy.version)
    if not (remedy.build.startswith("rocm") and remedy.index_url and row and row.triton_rocm_package):
        return ()
    return (Wanted(row.triton_rocm_package, ""),) if not remedy.extra else ()


def _device_code_apart(wanted: Iterable[Wanted]) -> bool:
    """Whether packages that the wanted ones require lie in their index, too (device code by extras)."""
    return any(item.extra for item in wanted)


def _conda_torch(place: Place, remedy: ReplaceTorch, why: str) -> Step:
    version = remedy.version if remedy.version.startswith(">=") else f"={remedy.version}"
    packages = (f"pytorch-gpu{version}", remedy.build)
    if place.tool == "pixi":
        return ManualStep(text=f"pixi add {' '.join(repr(p) for p in packages)}", why=why, risk="replaces")
    if not place.prefix:
        return ManualStep(text=f"conda install -c conda-forge {' '.join(repr(p) for p in packages)}", why=why)
    argv = ("conda", "install", "-y", "-p", place.prefix, "-c", "conda-forge", *packages)
    return RunStep(argv=argv, why=f"{why}; conda install --revision takes it back", risk="replaces")


# --- versions --------------------------------------------------------------------------------------


def _restore(
    place: Place, machine: Machine, matrix: Matrix, wanted: tuple[Wanted, ...]
) -> tuple[tuple[str, ...], ...]:
    """Commands that bring back what is installed now; none where it cannot be had again."""
    if place.tool not in ("pip", "uv"):
        return ()
    had = [(item, found) for item in wanted if (found := installed(machine, item.name))]
    new = [item.name for item in wanted if item.spec and not installed(machine, item.name)]
    commands: list[tuple[str, ...]] = []
    if had:
        index = index_of_torch(machine, matrix) if any(item.name.startswith("torch") for item, _ in had) else ""
        lost = index is None or any(found.direct_url or found.installer == "conda" for _, found in had)
        if lost or not all(is_version(found.version) for _, found in had):
            return ()
        back = tuple(Wanted(item.name, f"=={found.version}") for item, found in had)
        same = tuple(
            item.name
            for item, found in had
            if "+" not in found.version and found.version == item.spec.removeprefix("==").partition("+")[0]
        )
        commands.append(_install_argv(place, back, index or "", again=same))
    if new:
        commands.append((*_pip(place, "uninstall"), *(("-y",) if place.tool == "pip" else ()), *new))
    return tuple(commands)


def _is_index(url: str) -> bool:
    return not url or is_url(url)


def _is_sound(remedy: ReplaceTorch) -> bool:
    """Whether nothing in it could be taken for an option or by a shell."""
    if remedy.origin == "conda-forge":
        return is_version(remedy.version.removeprefix(">=")) and re.fullmatch(_CONDA_CUDA, remedy.build) is not None
    return (
        is_version(remedy.version)
        and is_name(remedy.build)
        and _is_index(remedy.index_url)
        and (not remedy.extra or re.fullmatch(_EXTRA, remedy.extra) is not None)
        and all(is_name(name) and is_version(version) for name, version in remedy.companions)
    )


def _by_hand_only(what: str) -> ManualStep:
    shown = "".join(char if char.isprintable() else "?" for char in what)[:120]
    return ManualStep(text=f"Repair by hand: no command is made for {shown!r}: its name or value is unusual.")


def _line(wanted: tuple[Wanted, ...]) -> str:
    return " ".join(f"'{item.text}'" if set(item.text) & set("[]<>*") else item.text for item in wanted)
