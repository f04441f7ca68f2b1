"""Merges the fixes of several problems into one list of remedies: each once, and none that another makes needless.

The first problem is the cause, so its remedies take precedence; a later problem that needs the contrary is named.
Problems of a torch that is about to be replaced are left to the next check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import (
    AddContainerFlags,
    AnyRemedy,
    BlockModule,
    Finding,
    Fix,
    InstallDriver,
    InstallRocmDriver,
    InstallSystemPackage,
    Layer,
    LoadModule,
    Manual,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    UnblockModule,
    UnsetVariable,
)
from gpudoctor.matrix.versions import figures
from gpudoctor.planner.place import OVERRIDE

DRIVER, CONTAINER, RUNTIME, TORCH, PACKAGES, VARIABLES = range(6)
"""The order of a fix, from the hardware up."""

_COMPANIONS = ("torchvision", "torchaudio")
_OF_PACKAGES = (ReplacePackage, ReinstallPackage, RemovePackage)
_OF_VARIABLES = (SetVariable, UnsetVariable)

Stance = Literal["apart", "covered", "later", "conflict"]


class Choice(Struct, frozen=True):
    """A problem and the fix chosen for it."""

    finding: Finding
    fix: Fix


class Task(Struct, frozen=True):
    """A remedy, the problems that need it, and its stage."""

    remedy: AnyRemedy
    because: tuple[Finding, ...]
    stage: int
    ends: bool
    """The last remedy of its fix: a reboot after it can wait for that of the others."""


class Merged(Struct, frozen=True):
    """Tasks in order; problems that are left to the next check; conflicts as sentences."""

    tasks: tuple[Task, ...] = ()
    left: tuple[Finding, ...] = ()
    conflicts: tuple[str, ...] = ()


def merged(choices: Sequence[Choice], *, keep_all: bool = False) -> Merged:
    """One list of all fixes. With `keep_all` a person named these problems, so none is dropped as an effect."""
    taken, effects = (list(choices), []) if keep_all else _without_effects(choices)
    result = _resolved(taken)
    return replace(result, left=(*result.left, *effects))


def _resolved(choices: Sequence[Choice]) -> Merged:
    owner = next((choice for choice in choices if _torch_of(choice.fix)), None)
    result = _accept(choices, owner)
    if owner is None or any(owner.finding in task.because for task in result.tasks):
        return result
    # The owner's fix has another remedy that conflicts with an earlier one: then its torch is not installed, either.
    rest = _resolved([choice for choice in choices if choice is not owner])
    refused = tuple(line for line in result.conflicts if line.startswith(named(owner.finding)))
    return replace(rest, conflicts=(*refused, *rest.conflicts))


def named(finding: Finding) -> str:
    """How a sentence names a problem."""
    return f"{finding.slug} [{finding.id}]"


def _without_effects(choices: Sequence[Choice]) -> tuple[list[Choice], list[Finding]]:
    """Set aside the problems that vanish with an earlier one's fix; they are checked again after it."""
    taken: list[Choice] = []
    effects: list[Finding] = []
    for choice in choices:
        slug = choice.finding.slug
        if any(slug in earlier.finding.supersedes and slug != earlier.finding.slug for earlier in taken):
            effects.append(choice.finding)
        else:
            taken.append(choice)
    return taken, effects


def _torch_of(fix: Fix) -> ReplaceTorch | None:
    return next((remedy for remedy in fix.remedies if isinstance(remedy, ReplaceTorch)), None)


def _accept(choices: Sequence[Choice], owner: Choice | None) -> Merged:
    """Accept every fix as a whole or not at all: half a fix repairs nothing. The torch that `owner` will install is
    on the list from the start, so that earlier fixes are compared with it too."""
    torch = _torch_of(owner.fix) if owner else None
    tasks = [Task(torch, (), TORCH, ends=False)] if torch else []
    left: list[Finding] = []
    conflicts: list[str] = []
    for choice in choices:
        finding, fix = choice.finding, choice.fix
        found = _towards(fix, tasks)
        if any(stance == "conflict" for stance, _ in found):
            fix = next((other for other in finding.fixes if _is_covered(other, tasks)), fix)
            found = _towards(fix, tasks)
        against = next((at for stance, at in found if stance == "conflict"), None)
        if against is not None:
            conflicts.append(_refused(choice, tasks[against], owner))
        elif any(stance == "later" for stance, _ in found):
            left.append(finding)
        else:
            _add(tasks, finding, fix, [at for _, at in found])
    return Merged(tuple(sorted(tasks, key=lambda task: task.stage)), tuple(left), tuple(conflicts))


def _add(tasks: list[Task], finding: Finding, fix: Fix, covering: Sequence[int | None]) -> None:
    """Add a fix to the list; `covering` holds, for each of its remedies, the place of a task that does it already."""
    for number, (remedy, at) in enumerate(zip(fix.remedies, covering, strict=True)):
        if at is None:
            tasks.append(Task(remedy, (finding,), _stage(fix, number, finding), number == len(fix.remedies) - 1))
        else:
            because = tasks[at].because if finding in tasks[at].because else (*tasks[at].because, finding)
            tasks[at] = replace(tasks[at], remedy=_joined(tasks[at].remedy, remedy), because=because)


def _joined(remedy: AnyRemedy, other: AnyRemedy) -> AnyRemedy:
    """Two replacements of torch with one build, with the companions of both."""
    if isinstance(remedy, ReplaceTorch) and isinstance(other, ReplaceTorch):
        return replace(remedy, companions=tuple({**dict(other.companions), **dict(remedy.companions)}.items()))
    return remedy


def _refused(choice: Choice, task: Task, owner: Choice | None) -> str:
    first = task.because or ((owner.finding,) if owner else ())
    return (
        f'{named(choice.finding)} is not fixed in this run: "{choice.fix.title}" conflicts with what '
        f"{', '.join(named(finding) for finding in first)} needs."
    )


# --- how two remedies relate -------------------------------------------------------------------------


def _is_covered(fix: Fix, tasks: Sequence[Task]) -> bool:
    return bool(fix.remedies) and all(stance == "covered" for stance, _ in _towards(fix, tasks))


def _towards(fix: Fix, tasks: Sequence[Task]) -> list[tuple[Stance, int | None]]:
    """How each remedy of a fix relates to the list, and the place of the task that decides it. A fix that brings
    torch itself also knows what goes with it: none of its remedies waits."""
    weights: tuple[Stance, ...] = ("conflict", "covered") if _torch_of(fix) else ("conflict", "covered", "later")
    found: list[tuple[Stance, int | None]] = []
    for remedy in fix.remedies:
        by_stance: dict[Stance, int] = {}
        for at, task in enumerate(tasks):
            by_stance.setdefault(_stance(remedy, task.remedy), at)
        stance: Stance = next((stance for stance in weights if stance in by_stance), "apart")
        found.append((stance, None if stance == "apart" else by_stance[stance]))
    return found


def _stance(new: AnyRemedy, old: AnyRemedy) -> Stance:
    if _aim(new) == _aim(old):
        return "covered"
    if isinstance(old, ReplaceTorch):
        return _towards_torch(new, old)
    if isinstance(new, _OF_VARIABLES) and isinstance(old, _OF_VARIABLES):
        return "conflict" if new.name == old.name else "apart"
    if isinstance(new, _OF_PACKAGES) and isinstance(old, _OF_PACKAGES):
        return _of_one_package(new, old)
    if isinstance(new, InstallDriver) and isinstance(old, InstallDriver):
        enough = figures(old.minimum or old.branch) >= figures(new.minimum or new.branch)
        return "covered" if enough and new.flavour == old.flavour else "conflict"
    if isinstance(new, InstallRocmDriver) and isinstance(old, InstallRocmDriver):
        return "conflict"
    if isinstance(new, LoadModule | UnblockModule | BlockModule) and isinstance(
        old, LoadModule | UnblockModule | BlockModule
    ):
        rivals = isinstance(new, BlockModule) != isinstance(old, BlockModule)
        return "conflict" if rivals and new.module == old.module else "apart"
    return "apart"


def _aim(remedy: AnyRemedy) -> AnyRemedy:
    """A remedy without its reason."""
    if isinstance(remedy, ReplaceTorch):
        return replace(remedy, carries="", community=False, companions=())
    if isinstance(remedy, ReplacePackage):
        return replace(remedy, why="", indirect=False)
    return replace(remedy, why="")


def _towards_torch(new: AnyRemedy, torch: ReplaceTorch) -> Stance:
    if isinstance(new, ReplaceTorch):
        return "conflict"
    brought = {"torch", *(name for name, _ in torch.companions)}
    if isinstance(new, ReplacePackage | ReinstallPackage) and new.name in brought:
        return "covered"
    if isinstance(new, _OF_PACKAGES) and new.name != "torch":
        return "later"  # what fits the old torch need not fit the new one
    if isinstance(new, SetVariable) and new.name.startswith(OVERRIDE):
        return "later"  # a build with code for the GPU needs none
    return "apart"


def _of_one_package(
    new: ReplacePackage | ReinstallPackage | RemovePackage, old: ReplacePackage | ReinstallPackage | RemovePackage
) -> Stance:
    if new.name != old.name:
        return "apart"
    again = isinstance(new, ReinstallPackage) and isinstance(old, ReplacePackage)
    return "covered" if again else "conflict"


# --- stages ----------------------------------------------------------------------------------------------


def _stage(fix: Fix, number: int, finding: Finding) -> int:
    """The stage of a fix. Instructions stay with their remedy; alone, they belong to the problem's layer."""
    before, after = fix.remedies[number::-1], fix.remedies[number:]
    for remedy in (*before, *after):
        if not isinstance(remedy, Manual):
            return _stage_of(remedy)
    layers: dict[Layer, int] = {"driver": DRIVER, "access": CONTAINER, "runtime": RUNTIME, "framework": TORCH}
    return layers.get(finding.layer, PACKAGES)


def _stage_of(remedy: AnyRemedy) -> int:
    if isinstance(remedy, ReplaceTorch):
        return TORCH
    if isinstance(remedy, _OF_PACKAGES):
        return TORCH if remedy.name == "torch" else PACKAGES
    if isinstance(remedy, _OF_VARIABLES):
        return VARIABLES
    if isinstance(remedy, AddContainerFlags):
        return CONTAINER
    if isinstance(remedy, InstallSystemPackage):
        kinds = {"nvidia-container-toolkit": CONTAINER, "linux-firmware": DRIVER}
        return kinds.get(remedy.purpose, RUNTIME)
    return DRIVER
