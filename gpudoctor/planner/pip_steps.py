"""Packages that pip or uv changes directly, in this environment or in a new one beside a Python that is not ours."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from msgspec.structs import replace

from gpudoctor.finding import ReplaceTorch, Risk
from gpudoctor.frameworks.package_spec import EXACTLY, PackageSpec, quoted
from gpudoctor.frameworks.torch.reinstall import index_of
from gpudoctor.machine import Distribution, InstallerSettings, Machine
from gpudoctor.machine.torch import TORCH_AND_COMPANIONS
from gpudoctor.matrix.versions import public_version
from gpudoctor.planner.install_requests import (
    Wanted,
    frameworks_over,
    index_of_torch,
    is_of_another_torch,
    rivals,
    several_decide,
    torch_to_keep,
    would_stay,
)
from gpudoctor.planner.installer_obstacle import installer_obstacle, misleading
from gpudoctor.planner.leftovers import (
    cannot_be_uninstalled,
    leftovers,
    remove_file_links,
    remove_folder_links,
    remove_leftovers,
    stray_records,
)
from gpudoctor.planner.place import IN_THE_IMAGE, Place
from gpudoctor.safe_arguments import is_version
from gpudoctor.situation import Situation
from gpudoctor.step import ManualStep, RunStep, Step

NEW_VENV = ".venv-gpu"

Argv = tuple[str, ...]

_OF_WHEELS = ("pypi", "download.pytorch.org", "nightly", "amd")
"""Origins of a torch that an installer wrote into its folder."""


def install(place: Place, situation: Situation, request: Wanted) -> tuple[Step, ...]:
    """Install these versions into the environment, with what they require."""
    wanted, index, why = request.packages, request.index, request.why
    if place.tool == "nowhere":
        options = f" --index-url {index}" if index else ""
        text = f"In the environment that needs it: pip install {quoted(wanted)}{options}"
        return (ManualStep(text=text, why=why, risk="replaces"),)
    removed = leftovers(place, situation, (item.name for item in wanted))
    strays = stray_records(place, situation.machine, (item.name for item in wanted))
    links = remove_folder_links(place, situation.machine, wanted)
    cleared = (*links, *remove_leftovers((*removed, *strays)))
    if why_not := place.obstacle or installer_obstacle(place, situation, wanted, index):
        inside = _new_venv(place) if place.tool == "managed" else place
        return (once_possible(why_not, install_argvs(inside, wanted, index)[-1], why, first=cleared),)
    if place.tool == "managed":
        return _in_a_new_venv(place, situation, request)
    if place.user_site or place.pythonpath:
        return (_beside_the_environment(place, situation, request),)
    gone = {name for _, name in removed}
    again = tuple(item for item in wanted if item.name not in gone and would_stay(situation.machine, item))
    replaced = any(situation.machine.installed(item.name) for item in wanted)
    undo = restore(place, situation, wanted)
    kept = torch_to_keep(situation, wanted) if not index else ()
    commands = install_argvs(place, (*wanted, *kept), index, again=again, machine=situation.machine)
    why += _doubt_of_constraints(place, situation.machine)
    if any("===" in word for word in commands[-1]):
        why += f"; {EXACTLY}"
    last_why = "what it requires" if len(commands) > 1 and again == wanted else why
    steps = tuple(
        RunStep(
            argv=argv,
            env=variables(place),
            why=f"{why}; the same version of another build would stay" if number < len(commands) - 1 else last_why,
            risk="replaces" if replaced else "safe",
            undo=undo if number == 0 and not removed else (),
        )
        for number, argv in enumerate(commands)
    )
    first = (*pip_first(place), *cleared)
    return (*first, *_without_twins(place, situation.machine, wanted), *steps, *_in_the_image(place, request))


def once_possible(
    why_not: str, argv: Argv, why: str, risk: Risk = "replaces", first: tuple[Step, ...] = ()
) -> ManualStep:
    """A command for a person, who first has to remove what is in its way; `first` are commands before it."""
    argvs = (*(step.argv for step in first if isinstance(step, RunStep)), argv)
    return ManualStep(text=f"{why_not}. Then:\n" + "\n".join(map(shlex.join, argvs)), why=why, risk=risk)


def _without_twins(place: Place, machine: Machine, wanted: tuple[PackageSpec, ...]) -> tuple[Step, ...]:
    """Uninstall what has two records: pip replaces one of the two, and mixes the files of the other with the new
    ones. uv replaces both."""
    names = [item.name for item in wanted if (one := machine.installed(item.name)) and one.twins]
    if place.tool != "pip" or not names:
        return ()
    why = "it is installed twice, and pip replaces one of the two"
    return (RunStep(argv=uninstall_argv(place, names), why=why, risk="replaces"),)


def reinstall(place: Place, situation: Situation, request: Wanted) -> tuple[Step, ...]:
    """The same versions again, over their damaged files; what they require stays."""
    machine, wanted, index, why = situation.machine, request.packages, request.index, request.why
    if place.pythonpath and not place.obstacle:
        return (_beside_the_environment(place, situation, request),)
    remains = leftovers(place, situation, (item.name for item in wanted))
    strays = stray_records(place, machine, (item.name for item in wanted))
    links = (*remove_file_links(place, machine, wanted), *remove_folder_links(place, machine, wanted))
    cleared = (*links, *remove_leftovers((*remains, *strays)))
    argv = over_itself(place, wanted, index, None if remains else machine)
    if why_not := place.obstacle or installer_obstacle(place, situation, wanted, index, again=True):
        return (once_possible(why_not, argv, why, first=cleared),)
    step = RunStep(argv=argv, env=variables(place), why=why, risk="replaces")
    return (*pip_first(place), *cleared, step)


def pip_first(place: Place) -> tuple[Step, ...]:
    """Give an environment a pip that has none, or none that works, where no uv is at hand."""
    if not place.makes_pip:
        return ()
    argv = (place.python, "-m", "ensurepip")
    if not place.broken_pip:
        return (RunStep(argv=argv, why="this environment has no pip, and uv is not on PATH"),)
    why = "files of this pip are gone or damaged: it does not run, and ensurepip would leave it as it is"
    remove = RunStep(argv=("rm", "-rf", *place.broken_pip), why=why, risk="replaces")
    return (remove, RunStep(argv=argv, why="makes a pip that works: uv is not on PATH"))


def variables(place: Place) -> dict[str, str]:
    """Variables of a pip command, against what its configuration asks of all: packages without what they require, and
    a venv where the environment is conda's."""
    if place.tool != "pip":
        return {}
    against = {"PIP_NO_DEPS": place.settings.no_deps}
    against["PIP_REQUIRE_VIRTUALENV"] = place.settings.require_virtualenv and bool(place.conda)
    return {name: "0" for name, asked in against.items() if asked}


def _doubt_of_constraints(place: Place, machine: Machine) -> str:
    """Constraints that could not be read: the command may fail, and a person has to decide."""
    settings = place.settings
    named = machine.variables.get("PIP_CONSTRAINT" if place.tool == "pip" else "UV_CONSTRAINT", "")
    read = "constraint" in settings.sources
    files = ", ".join(settings.unread if read or settings.unread else filter(None, (named,)))
    return f"; the constraints of {files} were not read: where they pin others, it fails" if files else ""


def install_argvs(
    place: Place,
    wanted: Iterable[PackageSpec],
    index: str,
    *,
    again: tuple[PackageSpec, ...] = (),
    machine: Machine | None = None,
) -> tuple[Argv, ...]:
    """Install commands. `again`: packages that must be installed although their version seems to be there. pip's
    --force-reinstall alone would reinstall every dependency, in other versions and from this index."""
    wanted = tuple(wanted)
    options, names = _options(place, index), _requirements(place, wanted, index)
    if place.tool != "pip":
        afresh = tuple(part for item in again for part in ("--reinstall-package", item.name))
        return ((*_uv(place, "install", index), *afresh, *options, *names),)
    plain = (*pip(place, "install"), *options, *names)
    return (over_itself(place, again, index, machine), plain) if again else (plain,)


def over_itself(place: Place, wanted: tuple[PackageSpec, ...], index: str, machine: Machine | None = None) -> Argv:
    """The command that writes the files of these packages again, and nothing else. What pip cannot
    uninstall is written over."""
    options, names = _options(place, index), _requirements(place, wanted, index)
    if place.tool != "pip":
        afresh = tuple(part for item in wanted for part in ("--reinstall-package", item.name))
        return (*_uv(place, "install", index), *afresh, "--no-deps", *options, *names)
    stuck = machine is not None and any(cannot_be_uninstalled(machine, item.name) for item in wanted)
    afresh = ("--ignore-installed",) if stuck else ("--force-reinstall",)
    return (*pip(place, "install"), *afresh, "--no-deps", *options, *names)


def _requirements(place: Place, wanted: tuple[PackageSpec, ...], index: str) -> Argv:
    """What is asked for, so that only that is installed: "==2.9.1" is met by 2.9.1+cpu of an extra index, too, and
    installers prefer it."""
    exactly = place.undecided and not index
    return tuple(
        replace(item, spec=f"={item.spec}").text
        if exactly and item.name in TORCH_AND_COMPANIONS and re.fullmatch(r"==[^*,+]+", item.spec)
        else item.text
        for item in wanted
    )


def uninstall_argv(place: Place, names: Iterable[str]) -> Argv:
    """The command that removes packages."""
    return (*pip(place, "uninstall"), *(("-y",) if place.tool == "pip" else ()), *names)


def clear_the_way(place: Place, situation: Situation, remedy: ReplaceTorch) -> tuple[Step, ...]:
    """Remove what owns files of the new build under another name, before that is installed. A later removal would
    take these files along."""
    if place.follows_lock or place.tool in ("managed", "nowhere") or place.user_site:
        return ()
    if place.tool not in ("pip", "uv") and several_decide(situation.machine):
        return ()  # a person changes the project first
    place = directly(place)
    found = tuple(d for d in rivals(situation, remedy) if is_version(d.version))
    if not found:
        return ()
    return (
        RunStep(
            argv=uninstall_argv(place, (d.name for d in found)),
            why="they belong to the old build, and own files that the new one brings under another name",
            risk="replaces",
            undo=_bring_back(place, situation, found),
        ),
    )


def directly(place: Place) -> Place:
    """The environment itself, whatever project it belongs to."""
    return place if place.tool in ("pip", "uv") else replace(place, tool=place.installer)


def _bring_back(place: Place, situation: Situation, removed: tuple[Distribution, ...]) -> tuple[Argv, ...]:
    # NVIDIA's libraries are in the package index; a triton under another name only with its torch.
    index = index_of_torch(situation) if any("triton" in d.name for d in removed) else ""
    if index is None or any(d.direct_url for d in removed):
        return ()
    exact = tuple(PackageSpec(d.name, f"=={d.version}") for d in removed)
    return (over_itself(place, exact, index),)


def restore(place: Place, situation: Situation, wanted: tuple[PackageSpec, ...]) -> tuple[Argv, ...]:
    """Commands that restore what is installed now; none if it is no longer available."""
    if place.tool not in ("pip", "uv"):
        return ()
    had = [(item, found) for item in wanted if (found := situation.machine.installed(item.name))]
    new = [item.name for item in wanted if item.spec and not situation.machine.installed(item.name)]
    commands: list[Argv] = []
    if had:
        index = index_of_torch(situation) if any(item.name.startswith("torch") for item, _ in had) else ""
        lost = index is None or any(found.direct_url or found.installer == "conda" for _, found in had)
        if lost or not all(is_version(found.version) for _, found in had):
            return ()
        alone = [found for _, found in had if is_of_another_torch(situation, found)]
        together = [(item, found) for item, found in had if found not in alone]
        same = tuple(
            _as_it_is(found)
            for item, found in together
            if "+" not in found.version and found.version == public_version(item.spec.removeprefix("=="))
        )
        if together:
            back = (_as_it_is(found) for _, found in together)
            commands += install_argvs(place, back, index or "", again=same)
        for found in alone:  # its requirements would bring another torch
            own = index_of(situation, found.version, found.name)
            if own is None:
                return ()
            commands.append(over_itself(place, (_as_it_is(found),), own))
    if new:
        commands.append(uninstall_argv(place, new))
    return tuple(commands)


def _as_it_is(found: Distribution) -> PackageSpec:
    return PackageSpec(found.name, f"=={found.version}")


def pip(place: Place, verb: str) -> Argv:
    """`pip VERB` for this environment, with pip or uv."""
    if place.tool != "pip":
        return _uv(place, verb)
    itself = ("--python", place.python) if place.settings.python else ()
    return (place.python, "-m", "pip", *itself, verb)


def _options(place: Place, index: str) -> Argv:
    """The index of a command, and what takes back the configuration that would lead it elsewhere."""
    settings = place.settings
    if place.tool != "pip":
        return _uv_index(settings, index)
    here = {"root": "/", "prefix": place.prefix}  # with an empty one pip would install below / or the working folder
    elsewhere = tuple(f"--{option}={here.get(option, '')}" for option in settings.elsewhere)
    user = ("--no-user",) if settings.user else ()
    wheels = ("--only-binary=:all:",) if settings.no_binary else ()
    return (*(("--index-url", index) if index and not settings.no_index else ()), *elsewhere, *user, *wheels)


def _uv_index(settings: InstallerSettings, index: str) -> Argv:
    """uv reads UV_DEFAULT_INDEX even if --index-url is given, but not if its own option is. It takes a package from
    the first index that has it: extra ones come before the default, and those of --index before them."""
    if settings.no_index:
        return ()
    if not index:
        return ("--index-strategy", "unsafe-best-match") if settings.extra_indexes else ()
    return ("--index" if settings.extra_indexes else "--default-index", index)


def _uv(place: Place, verb: str, index: str = "") -> Argv:
    """uv refuses empty values of the variables that mislead it, and has no option that takes them back."""
    sources = (place.settings.sources.get(name, "") for name in misleading(place.settings, index))
    unset = tuple(word for source in sources if source.startswith("UV_") for word in ("-u", source))
    return (*(("env", *unset) if unset else ()), "uv", "pip", verb, "--python", place.python)


def _beside_the_environment(place: Place, situation: Situation, wanted: Wanted) -> Step:
    """Every environment that searches that folder sees it: a person decides between changing it and a venv. In a
    folder with a torch that no wheel brought, sources say, nothing is written over it."""
    torch, folder = situation.torch, place.pythonpath
    there = f"--upgrade --target {shlex.quote(folder)}" if folder else "--user"
    lies = f"in {folder}, by PYTHONPATH" if folder else "in the user's own site folder"
    packages = f"--index-url {wanted.index} {quoted(wanted.packages)}" if wanted.index else quoted(wanted.packages)
    inside = (
        f"{place.python} -m venv {NEW_VENV}",
        *(("unset PYTHONPATH",) if folder else ()),
        f"{NEW_VENV}/bin/python -m pip install {packages}",
    )
    if folder and torch and torch.origin not in _OF_WHEELS:
        lines = ("In a venv of its own:", *inside)
    else:
        over = f"{place.python} -m pip install {there} {packages}"
        lines = (over, "or, better, in a venv of its own:", *inside)
    return ManualStep(text="\n".join(lines), why=f"{wanted.why}; the old torch lies {lies}", risk="replaces")


def _in_a_new_venv(place: Place, situation: Situation, wanted: Wanted) -> tuple[Step, ...]:
    """The distribution, or uv, owns this Python: nothing is forced into it. The frameworks that need the packages go
    into the new environment, too."""
    of_distribution = place.prefix in ("", "/usr")
    debian = of_distribution and place.family in ("debian", "ubuntu")
    needs = "; its venv module is the package python3-venv" if debian else ""
    owner = "the distribution" if of_distribution else "another tool"
    make = RunStep(
        argv=(place.python, "-m", "venv", NEW_VENV),
        why=f"{owner} manages this Python (EXTERNALLY-MANAGED): packages of your own go into a venv{needs}",
        undo=(("rm", "-r", NEW_VENV),),
    )
    inside, index = _new_venv(place), index_of_torch(situation)
    over = frameworks_over(situation, wanted.packages)
    first = tuple(one for one in over if one.name == "torch" and index != wanted.index)
    beside = tuple(one for one in over if one not in first)
    steps = [RunStep(argv=install_argvs(inside, (*beside, *wanted.packages), wanted.index)[-1], why=wanted.why)]
    if first and index is not None:
        steps.insert(0, RunStep(argv=install_argvs(inside, first, index)[-1], why="as it is here"))
    return (*_venv_module(place), make, *steps)


def _new_venv(place: Place) -> Place:
    return replace(place, tool="pip", python=f"{NEW_VENV}/bin/python", prefix=NEW_VENV)


def _venv_module(place: Place) -> tuple[Step, ...]:
    """Debian and its relatives leave the venv module to a package of its own."""
    if not place.no_venv or place.family not in ("debian", "ubuntu"):
        return ()
    return (RunStep(argv=("apt-get", "install", "-y", "python3-venv"), why="the venv module needs it", risk="root"),)


def _in_the_image(place: Place, wanted: Wanted) -> tuple[Step, ...]:
    """A package installed into a running container is lost with it."""
    if not place.container or place.container in ("lxc", "systemd-nspawn", "wsl"):
        return ()
    options = f" --index-url {wanted.index}" if wanted.index else ""
    text = f"{IN_THE_IMAGE}\nRUN python -m pip install --no-cache-dir{options} {quoted(wanted.packages)}"
    return (ManualStep(text=text, why="what is installed into a running container is lost with it"),)
