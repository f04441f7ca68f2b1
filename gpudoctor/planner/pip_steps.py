"""Packages that pip or uv changes directly, in this environment or in a new one beside a Python that is not ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpudoctor.machine import Distribution, Machine
from gpudoctor.planner.place import Place
from gpudoctor.planner.requirements import Wanted, index_of_torch, rivals, several_decide, would_stay
from gpudoctor.situation import Situation
from gpudoctor.spelling import is_version
from gpudoctor.step import ManualStep, RunStep, Step

if TYPE_CHECKING:
    from gpudoctor.finding import ReplaceTorch

NEW_VENV = ".venv-gpu"

Argv = tuple[str, ...]


def install(place: Place, situation: Situation, wanted: tuple[Wanted, ...], index: str, why: str) -> tuple[Step, ...]:
    """Install these versions into the environment, with what they require."""
    if place.tool == "nowhere":
        options = f" --index-url {index}" if index else ""
        text = f"In the environment that needs it: pip install {quoted(wanted)}{options}"
        return (ManualStep(text=text, why=why, risk="replaces"),)
    if place.tool == "managed":
        return _in_a_new_venv(place, wanted, index, why)
    if place.user_site:
        return (_in_the_users_own_site(place, wanted, index, why),)
    again = tuple(item for item in wanted if would_stay(situation.machine, item))
    replaced = any(situation.machine.installed(item.name) for item in wanted)
    undo = restore(place, situation, wanted)
    commands = (
        *_recorded_first(place, situation, wanted, again),
        *install_argvs(place, wanted, index, again=again, machine=situation.machine),
    )
    why += _constrained(place, situation.machine)
    steps: tuple[Step, ...] = tuple(
        RunStep(
            argv=argv,
            why=why if number == len(commands) - 1 else _why_before(argv),
            risk="replaces" if replaced else "safe",
            undo=undo if number == 0 else (),
        )
        for number, argv in enumerate(commands)
    )
    return (*steps, *_in_the_image(place, wanted, index))


def _recorded_first(
    place: Place, situation: Situation, wanted: tuple[Wanted, ...], again: tuple[Wanted, ...]
) -> tuple[Argv, ...]:
    """Write what has no RECORD over itself: pip can then uninstall it for another version."""
    machine = situation.machine
    stuck = [item for item in wanted if item not in again and has_no_record(machine, item.name)]
    had = [found for item in stuck if (found := machine.installed(item.name)) and is_version(found.version)]
    if place.tool != "pip" or not had:
        return ()
    index = index_of_torch(situation) if any(found.name == "torch" for found in had) else ""
    return (
        over_itself(place, tuple(Wanted(found.name, f"=={found.version}") for found in had), index or "", machine),
    )


def _why_before(argv: Argv) -> str:
    if "--ignore-installed" in argv:
        return "its RECORD is gone: pip writes one, and can then uninstall it"
    return "the same version of another build: it would stay"


def _constrained(place: Place, machine: Machine) -> str:
    """Images set this to keep their own versions: the command then fails, and a person has to decide."""
    name = "PIP_CONSTRAINT" if place.tool == "pip" else "UV_CONSTRAINT"
    file = machine.variables.get(name, "")
    return f"; {name}={file} is set: where that file pins another version, the command fails" if file else ""


def install_argvs(
    place: Place,
    wanted: Iterable[Wanted],
    index: str,
    *,
    again: tuple[Wanted, ...] = (),
    machine: Machine | None = None,
) -> tuple[Argv, ...]:
    """Install commands. `again`: packages that must be installed although their version seems to be there. pip's
    --force-reinstall alone would reinstall every dependency, in other versions and from this index."""
    names = tuple(item.text for item in wanted)
    options = _from(place, index)
    if place.tool != "pip":
        afresh = tuple(part for item in again for part in ("--reinstall-package", item.name))
        return ((*_uv(place, "install"), *afresh, *options, *names),)
    plain = (*pip(place, "install"), *options, *names)
    return (over_itself(place, again, index, machine), plain) if again else (plain,)


def over_itself(place: Place, wanted: tuple[Wanted, ...], index: str, machine: Machine | None = None) -> Argv:
    """The command that writes the files of these packages again, and nothing else. pip refuses to uninstall what has
    no RECORD, so that is written over."""
    options = _from(place, index)
    names = tuple(item.text for item in wanted)
    if place.tool != "pip":
        afresh = tuple(part for item in wanted for part in ("--reinstall-package", item.name))
        return (*_uv(place, "install"), *afresh, "--no-deps", *options, *names)
    unrecorded = machine is not None and any(has_no_record(machine, item.name) for item in wanted)
    afresh = ("--ignore-installed",) if unrecorded else ("--force-reinstall",)
    return (*pip(place, "install"), *afresh, "--no-deps", *options, *names)


def has_no_record(machine: Machine, name: str) -> bool:
    """Whether pip can neither uninstall nor replace a package: its RECORD is gone."""
    found = machine.installed(name)
    return found is not None and "RECORD" in found.lacks


def uninstall_argv(place: Place, names: Iterable[str]) -> Argv:
    """The command that removes packages."""
    return (*pip(place, "uninstall"), *(("-y",) if place.tool == "pip" else ()), *names)


def clear_the_way(place: Place, situation: Situation, remedy: ReplaceTorch) -> tuple[Step, ...]:
    """Remove what owns files of the new build under another name, before that is installed. A later removal would
    take these files along."""
    if place.tool not in ("pip", "uv", "uv-project") or place.user_site:
        return ()
    if place.tool == "uv-project" and several_decide(situation.machine):
        return ()  # a person changes the project first
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


def _bring_back(place: Place, situation: Situation, removed: tuple[Distribution, ...]) -> tuple[Argv, ...]:
    # NVIDIA's libraries are in the package index; a triton under another name only with its torch.
    index = index_of_torch(situation) if any("triton" in d.name for d in removed) else ""
    if index is None or any(d.direct_url for d in removed):
        return ()
    exact = tuple(Wanted(d.name, f"=={d.version}") for d in removed)
    return (over_itself(place, exact, index),)


def restore(place: Place, situation: Situation, wanted: tuple[Wanted, ...]) -> tuple[Argv, ...]:
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
        back = tuple(Wanted(item.name, f"=={found.version}") for item, found in had)
        same = tuple(
            Wanted(item.name, f"=={found.version}")
            for item, found in had
            if "+" not in found.version and found.version == item.spec.removeprefix("==").partition("+")[0]
        )
        commands += install_argvs(place, back, index or "", again=same)
    if new:
        commands.append(uninstall_argv(place, new))
    return tuple(commands)


def pip(place: Place, verb: str) -> Argv:
    """`pip VERB` for this environment, with pip or uv."""
    return _uv(place, verb) if place.tool != "pip" else (place.python, "-m", "pip", verb)


def quoted(wanted: Iterable[Wanted]) -> str:
    """Requirements as a person types them in a shell."""
    return " ".join(f"'{item.text}'" if set(item.text) & set("[]<>*") else item.text for item in wanted)


def _from(place: Place, index: str) -> Argv:
    """uv reads UV_DEFAULT_INDEX even if --index-url is given, but not if its own option is."""
    return (("--index-url" if place.tool == "pip" else "--default-index"), index) if index else ()


def _uv(place: Place, verb: str) -> Argv:
    return ("uv", "pip", verb, "--python", place.python)


def _in_the_users_own_site(place: Place, wanted: tuple[Wanted, ...], index: str, why: str) -> Step:
    """Every environment of this Python sees that folder: a person decides between changing it and a venv."""
    options = f" --index-url {index}" if index else ""
    text = (
        f"{place.python} -m pip install --user{options} {quoted(wanted)}\n"
        f"or, better, in a venv of its own: {place.python} -m venv {NEW_VENV}, and the same there without --user"
    )
    return ManualStep(text=text, why=f"{why}; the old torch lies in the user's own site folder", risk="replaces")


def _in_a_new_venv(place: Place, wanted: tuple[Wanted, ...], index: str, why: str) -> tuple[Step, ...]:
    """The distribution owns this Python: nothing is forced into it."""
    needs = "; its venv module is the package python3-venv" if place.family in ("debian", "ubuntu") else ""
    make = RunStep(
        argv=(place.python, "-m", "venv", NEW_VENV),
        why=f"the distribution manages this Python: packages of your own go into a venv{needs}",
        undo=(("rm", "-r", NEW_VENV),),
    )
    options = ("--index-url", index) if index else ()
    argv = (f"{NEW_VENV}/bin/python", "-m", "pip", "install", *options, *(item.text for item in wanted))
    return (make, RunStep(argv=argv, why=why, undo=()))


def _in_the_image(place: Place, wanted: tuple[Wanted, ...], index: str) -> tuple[Step, ...]:
    """A package installed into a running container is lost with it."""
    if not place.container or place.container in ("lxc", "systemd-nspawn", "wsl"):
        return ()
    options = f" --index-url {index}" if index else ""
    text = f"In the Dockerfile of the image:\nRUN python -m pip install --no-cache-dir{options} {quoted(wanted)}"
    return (ManualStep(text=text, why="what is installed into a running container is lost with it"),)
