"""Package remedies as steps of the tool that owns the environment: pip, uv, conda, or a project's."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gpudoctor.dependencies import requirements_here
from gpudoctor.finding import (
    AllowExecution,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    UnsetVariable,
    VariableRemedy,
)
from gpudoctor.frameworks.package_spec import PackageSpec, torch_and_companions
from gpudoctor.machine import UNKNOWN_VERSION
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.planner import conda_steps, edited_projects, pip_steps, project_steps
from gpudoctor.planner.install_requests import (
    Wanted,
    in_a_named_index,
    index_of_torch,
    named_by_project,
    pinning_another,
    places_that_ask,
    several_decide,
)
from gpudoctor.planner.installer_obstacle import installer_obstacle, project_obstacle
from gpudoctor.planner.leftovers import leftovers, remove_leftovers, stray_records
from gpudoctor.planner.place import Place, is_path, is_variable, risk_of
from gpudoctor.safe_arguments import is_index, is_name, is_specifier, is_version
from gpudoctor.situation import Situation
from gpudoctor.situation.import_order import remedy_for_path
from gpudoctor.situation.nvidia_driver import cuda_driver, driver_verdict
from gpudoctor.step import EnvStep, ManualStep, RunStep, Step

_EXTRA = r"[a-z0-9-]+(,[a-z0-9-]+)*"
_CONDA_CUDA = r"cuda-version>=\d+(\.\d+)?,<\d+"
_PROJECTS = ("uv-project", "poetry", "pdm", "pipenv", "hatch", "pip-tools", "pixi")


def replace_torch(place: Place, situation: Situation, remedy: ReplaceTorch) -> tuple[Step, ...]:
    """Another build of torch, its companions in the same command."""
    if not _is_sound(remedy):
        return (_by_hand_only(f"torch {remedy.version} ({remedy.build})"),)
    why = _why(situation, remedy)
    if remedy.origin == "conda-forge":
        return _if_possible(place, conda_steps.torch(place, remedy, why))
    if place.tool in _PROJECTS:
        remedy = in_a_named_index(situation, remedy)
    wanted = Wanted(torch_and_companions(remedy, place.arch), remedy.index_url, why)
    after = project_steps.files_that_bring_it_back(place, situation.machine, wanted)
    if place.tool in _PROJECTS:
        beside = project_steps.beside_torch(situation.matrix, remedy)
        wanted = replace(wanted, packages=(*wanted.packages, *beside))
    if place.tool == "uv-project":
        explicit = project_steps.serves_only_these(situation.matrix, remedy)
        steps = project_steps.uv_project(place, situation.machine, wanted, explicit=explicit)
        steps = _with_tool(place, "uv", steps, project_obstacle(place, situation, wanted.packages, wanted.index))
    else:
        steps = _install(place, situation, wanted)
    runs = any(isinstance(step, RunStep) for step in steps)
    first = pip_steps.clear_the_way(place, situation, remedy) if runs else ()
    return (*_environment_first(place, situation, wanted.packages), *first, *steps, *after)


def replace_packages(place: Place, situation: Situation, remedies: Sequence[ReplacePackage]) -> tuple[Step, ...]:
    """Other versions of packages from one index, in one command. Those that no project names itself are installed
    into its environment alone."""
    wanted = tuple(PackageSpec(name=remedy.name, spec=_spec(remedy), extra=remedy.extra) for remedy in remedies)
    index, why = remedies[0].index_url, _reasons(remedies)
    for item in wanted:
        if item.extra and not re.fullmatch(_EXTRA, item.extra):
            return (_by_hand_only(item.name),)
        if not (is_name(item.name) and (not item.spec or is_specifier(item.spec)) and _is_index(index)):
            return (_by_hand_only(item.name),)
    if all(remedy.indirect for remedy in remedies) and place.tool in _PROJECTS:
        place = pip_steps.directly(place)
    return (*_environment_first(place, situation, wanted), *_install(place, situation, Wanted(wanted, index, why)))


def _environment_first(place: Place, situation: Situation, wanted: tuple[PackageSpec, ...]) -> tuple[Step, ...]:
    """What a variable puts before the environment stays before it, whatever is installed there."""
    remedy = standing_before(place, situation, (item.name for item in wanted))
    if remedy is None:
        return ()
    return set_variable(place, remedy) if isinstance(remedy, SetVariable) else unset_variable(place, remedy)


def standing_before(place: Place, situation: Situation, names: Iterable[str]) -> VariableRemedy | None:
    """The variable that keeps Python from the first of these packages that stands before the environment."""
    first = situation.torch.copies[0].path if situation.torch and situation.torch.copies else ""
    beside = place.user_site or (place.pythonpath and place.tool in ("pip", "uv"))
    if beside or isinstance(remedy_for_path(situation, first, ""), SetVariable):
        return None  # the environment is meant to be there
    for name in names:
        found = situation.machine.installed(name)
        path = first if name == "torch" and first else found.path if found else ""
        version = f" {found.version}" if found else ""
        why = f"Python finds {name}{version} before that of this environment"
        if remedy := remedy_for_path(situation, path, why):
            return remedy
    return None


def _spec(remedy: ReplacePackage) -> str:
    exact = remedy.local and re.fullmatch(r"==[^,*]+", remedy.specifier)
    return f"{remedy.specifier}+{remedy.local}" if exact else remedy.specifier


def _reasons(remedies: Sequence[ReplacePackage | ReinstallPackage]) -> str:
    return "; ".join(dict.fromkeys(remedy.why for remedy in remedies if remedy.why))


def reinstall_packages(place: Place, situation: Situation, remedies: Sequence[ReinstallPackage]) -> tuple[Step, ...]:
    """The same versions again, over damaged files, in one command; their dependencies stay."""
    first, why = remedies[0], _reasons(remedies)
    index = first.index_url or (index_of_torch(situation) if first.name == "torch" else "") or ""
    for remedy in remedies:
        if not (is_name(remedy.name) and is_version(remedy.version) and _is_index(index)):
            return (_by_hand_only(remedy.name),)
    of_conda = [remedy for remedy in remedies if _is_of_condas(place, situation, remedy.name)]
    again = tuple(PackageSpec(name=one.name, spec=f"=={one.version}") for one in remedies if one not in of_conda)
    conda = (conda_steps.reinstall(place, one.name, one.version, one.why) for one in of_conda)
    steps = tuple(step for one in conda for step in _if_possible(place, one))
    if not again:
        return steps
    if place.tool in ("managed", "nowhere"):
        return (*steps, *pip_steps.install(place, situation, Wanted(again, index, why)))
    steps = (*steps, *_environment_first(place, situation, again))
    # The files are wrong, not the lock of a project: only the environment is fixed.
    return (*steps, *pip_steps.reinstall(pip_steps.directly(place), situation, Wanted(again, index, why)))


def _if_possible(place: Place, step: Step) -> tuple[Step, ...]:
    """A step, or what keeps it from running."""
    if not isinstance(step, RunStep):
        return (step,)
    why_not = _obstacle(place, place.conda if step.argv[0] == place.conda else "")
    if not why_not:
        return (step,)
    return (pip_steps.once_possible(why_not, step.argv, step.why, step.risk),)


def _obstacle(place: Place, program: str) -> str:
    """Why a step that needs this program cannot run; "" if it can."""
    missing = f"{program} is not on PATH" if program and not place.has(program) else ""
    return place.obstacle or missing


def _is_of_condas(place: Place, situation: Situation, name: str) -> bool:
    found = situation.machine.installed(name)
    return bool(place.conda and place.prefix and found and found.installer == "conda")


def remove_package(place: Place, situation: Situation, remedy: RemovePackage) -> tuple[Step, ...]:
    """Remove a package from the environment."""
    if not is_name(remedy.name):
        return (_by_hand_only(remedy.name),)
    if place.tool in ("managed", "nowhere"):
        return (ManualStep(text=f"Remove {remedy.name}.", why=remedy.why, risk="replaces"),)
    if place.tool in _PROJECTS:
        return _remove_from_project(place, situation, remedy)
    if _is_of_condas(place, situation, remedy.name):
        return _if_possible(place, conda_steps.remove(place, remedy.name, remedy.why))
    if remains := leftovers(place, situation, (remedy.name,)):
        return tuple(step for one in remove_leftovers(remains) for step in _if_possible(place, one))
    undo = pip_steps.restore(place, situation, (PackageSpec(name=remedy.name, spec=""),))
    argv = pip_steps.uninstall_argv(place, (remedy.name,))
    if why_not := installer_obstacle(place, situation, ()):  # what takes its place could not be installed
        return (pip_steps.once_possible(why_not, argv, remedy.why),)
    step = RunStep(argv=argv, why=remedy.why, risk="replaces", undo=undo)
    strays = remove_leftovers(stray_records(place, situation.machine, (remedy.name,)))
    removed = (one for first in strays for one in _if_possible(place, first))
    return (*pip_steps.pip_first(place), *removed, *_if_possible(place, step))


def allow_execution(place: Place, remedy: AllowExecution) -> tuple[Step, ...]:
    """Give programs of packages back the right to be executed."""
    if not all(map(is_path, remedy.paths)):
        return (_by_hand_only("the right to execute these programs"),)
    step = RunStep(argv=("chmod", "a+x", *remedy.paths), why=remedy.why)
    if place.tool == "managed":
        return (ManualStep(text=shlex.join(step.argv), why=remedy.why),)
    return _if_possible(place, step)


def _remove_from_project(place: Place, situation: Situation, remedy: RemovePackage) -> tuple[Step, ...]:
    """What a project names is removed from it. What came with another package goes when that is replaced: of itself
    where the tool removes what its lock no longer has, else from the environment alone."""
    named = named_by_project(situation.machine, remedy.name)
    if not named and remedy.indirect:
        return () if place.follows_lock else remove_package(pip_steps.directly(place), situation, remedy)
    others = _requiring(situation, remedy.name)
    kept_out = project_steps.keep_out(place, remedy.name, remedy.why) if others else ()
    own = project_steps.remove(place, named[0], remedy.why) if len(named) == 1 else None
    if (own and (kept_out or not others)) or (kept_out and not named):
        steps = tuple(one for one in (own, *kept_out) if one is not None)
        # A sync of uv would also remove what its lock never had.
        alone = place.tool == "uv-project"
        after = remove_package(pip_steps.directly(place), situation, remedy) if alone else ()
        return (*_with_tool(place, steps[-1].argv[0], steps), *after)
    text = f"Remove {remedy.name} from the project"
    if others:
        text += f"{', and' if named else ', or'} what requires it: {', '.join(others)}"
    return (ManualStep(text=f"{text}.", why=remedy.why, risk="replaces"),)


def _requiring(situation: Situation, name: str) -> tuple[str, ...]:
    packages, markers = situation.machine.packages, situation.markers
    return tuple(one.name for one in packages if any(what.name == name for what in requirements_here(one, markers)))


def set_variable(place: Place, remedy: SetVariable) -> tuple[Step, ...]:
    """Set a variable for this environment: in conda's settings, else for the command alone."""
    if not is_variable(remedy.name, remedy.value):
        return (_by_hand_only(f"the variable {remedy.name}"),)
    if remedy.name in place.set_in:
        text = f"In {place.set_in[remedy.name]}, which runs whenever this Python starts: set {remedy.name} to "
        return (ManualStep(text=f"{text}{remedy.value!r} there.", why=remedy.why),)
    kept = conda_steps.set_variable(place, remedy)
    file = place.files_of_variables.get(remedy.name)
    why = f"{remedy.why}; today {file} sets it" if file else remedy.why
    return (kept or EnvStep(name=remedy.name, value=remedy.value, why=why, risk=risk_of(remedy.name)),)


def unset_variable(place: Place, remedy: UnsetVariable) -> tuple[Step, ...]:
    """Unset a variable: whoever set it knows where."""
    if not is_variable(remedy.name, ""):
        return (_by_hand_only("that variable"),)
    if remedy.name in place.set_in:
        text = (
            f"Remove the line that sets {remedy.name} from {place.set_in[remedy.name]}: it runs whenever this Python "
        )
        return (ManualStep(text=f"{text}starts.", why=remedy.why),)
    where = "the container's start command, Dockerfile or manifest" if place.container else "the shell, unit or job"
    text = f"unset {remedy.name}\n"
    if file := place.files_of_variables.get(remedy.name):
        of_conda = file.endswith("/conda-meta/state")
        text += conda_steps.unset_variable(place, remedy.name) if of_conda else f"and remove it from {file}"
    else:
        text += f"and remove it from {where} that sets it"
    return (ManualStep(text=text, why=remedy.why),)


def _install(place: Place, situation: Situation, wanted: Wanted) -> tuple[Step, ...]:
    if place.tool in ("pip", "uv", "managed", "nowhere"):
        return pip_steps.install(place, situation, wanted)
    if place.tool == "pixi":
        return (project_steps.pixi(wanted),)
    machine, name = situation.machine, wanted.decisive
    asked = places_that_ask(machine, name)
    if place.tool == "pip-tools":
        return _with_tool(place, "", edited_projects.pip_tools(place, machine, wanted))
    if place.tool == "uv-project":
        steps = project_steps.uv_project(place, machine, wanted)
        return _with_tool(place, "uv", steps, project_obstacle(place, situation, wanted.packages, wanted.index))
    if place.tool == "poetry":
        return _with_tool(place, "poetry", project_steps.poetry(place, machine, wanted))
    # For pdm a package with other extras is another one.
    extended = (item for item in wanted.packages if item.extra and named_by_project(machine, item.name))
    beside = place.tool == "pdm" and any(extended)
    if several_decide(machine, name) or beside:
        return (project_steps.by_a_person(machine, wanted),)
    if place.tool == "pipenv":
        return _with_tool(place, "pipenv", (project_steps.pipenv(place, asked, wanted),))
    edit = edited_projects.pdm if place.tool == "pdm" else edited_projects.hatch
    return _with_tool(place, place.tool, edit(place, asked, wanted))


def _with_tool(place: Place, program: str, steps: tuple[Step, ...], excluded: str = "") -> tuple[Step, ...]:
    """The steps of a project; what a person does where its tool is missing or stops, or nothing can be changed."""
    commands = "\n".join(shlex.join(step.argv) for step in steps if isinstance(step, RunStep))
    why_not = _obstacle(place, program) or excluded
    if not why_not or not commands:
        return steps
    text = f"{why_not}. Where it can be changed, in {place.project}:\n{commands}"
    others = (step for step in steps if not isinstance(step, RunStep))
    return (ManualStep(text=text, why=steps[-1].why, risk="replaces"), *others)


def _why(situation: Situation, remedy: ReplaceTorch) -> str:
    had = situation.machine.installed("torch")
    build = f"a build for the GPUs here ({remedy.carries})" if remedy.carries else "a CPU build"
    old = "the installed torch" if had and had.version == UNKNOWN_VERSION else f"torch {had.version}" if had else ""
    why = f"{build} replaces {old}" if had else f"torch: {build}"
    why += _for_the_driver(situation, remedy)
    if pinned := pinning_another(situation, remedy.version):
        why += f"; these need another torch: {', '.join(pinned)}"
    return why


def _for_the_driver(situation: Situation, remedy: ReplaceTorch) -> str:
    """A note that the driver decided: it is too old for the present build, and runs the new one."""
    had, cuda, number = situation.torch, cuda_of(remedy.build), cuda_driver(situation.machine)
    if had is None or not had.cuda or not cuda:
        return ""
    if driver_verdict(situation, had.cuda) != "too-old" or driver_verdict(situation, cuda) == "too-old":
        return ""
    driver = f"driver {number}" if number else "the driver"
    return f"; {driver} is too old for CUDA {had.cuda} and runs CUDA {cuda}"


def _is_index(url: str) -> bool:
    return not url or is_index(url)


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
    return ManualStep(text=f"Fix this by hand: no command is made for {what[:120]!r}: its name or value is unusual.")
