"""What commands print as JSON, as types: the contract beside the report (`gpudoctor.report`).

`gpudoctor schema` prints the JSON Schemas that `python -m tests.schemas` makes of these.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from gpudoctor.finding import Verdict
from gpudoctor.fix.run import RunState
from gpudoctor.planner.planned_steps import State
from gpudoctor.planner.repair import Predicted
from gpudoctor.recommend import Out, Recommended
from gpudoctor.recommend.variants import Installer, VariantProperty
from gpudoctor.step import EnvStep, ManualStep, PlannedFix, RunStep

# --- fix ---------------------------------------------------------------------------------------------------


class RunInPlan(RunStep, frozen=True, kw_only=True, tag="run", tag_field="kind"):
    """A command of the plan, the ids of the findings that it fixes, and whether `fix` runs it."""

    because: tuple[str, ...]
    state: State


class EnvInPlan(EnvStep, frozen=True, kw_only=True, tag="env", tag_field="kind"):
    """A variable of the plan."""

    because: tuple[str, ...]
    state: State


class ManualInPlan(ManualStep, frozen=True, kw_only=True, tag="manual", tag_field="kind"):
    """Something that a person does."""

    because: tuple[str, ...]
    state: State


IN_PLAN: dict[type[Struct], type[Struct]] = {RunStep: RunInPlan, EnvStep: EnvInPlan, ManualStep: ManualInPlan}


class SecondLook(Struct, frozen=True):
    """Ids of findings after a run: gone, left, new, gone once the variables of `gpudoctor env` are set."""

    repaired: tuple[str, ...]
    left: tuple[str, ...]
    new: tuple[str, ...]
    by_variables: tuple[str, ...]
    verdict: Verdict
    unforeseen: tuple[str, ...] = ()
    """Problems of `left` and `new` that the plan did not predict."""


class Result(Struct, frozen=True):
    """How a run went, and what the second look found; null where there was none."""

    run: str | None
    ok: bool
    failed_step: int | None
    problem: str
    proof: SecondLook | None
    exit_code: int


class Plan(Struct, frozen=True):
    """What `fix` prints: the plan, and after a run its result."""

    schema: int = 1
    steps: tuple[RunInPlan | EnvInPlan | ManualInPlan, ...] = ()
    after: str = ""
    predicted: Predicted | UnsetType = UNSET
    result: Result | UnsetType = UNSET


class PackageChange(Struct, frozen=True):
    """Versions of a package before and after a run; null: not installed."""

    name: str
    before: str | None
    after: str | None


class PastRun(Struct, frozen=True):
    """A run of the journal."""

    id: str
    at: str
    prefix: str
    state: RunState
    findings: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    kept_bytes: int
    packages: tuple[PackageChange, ...]


class History(Struct, frozen=True, kw_only=True):
    """What `fix --history` prints, the newest run last."""

    schema: int = 1
    runs: tuple[PastRun, ...]


class Undo(Struct, frozen=True, kw_only=True):
    """What `fix --undo` prints."""

    schema: int = 1
    run: str
    ok: bool
    restored: int
    removed: int
    aside: tuple[tuple[str, str], ...]
    stays: tuple[str, ...]
    earlier: tuple[tuple[str, str], ...]
    lost: tuple[str, ...]
    interrupted: bool
    problem: str


class Forgotten(Struct, frozen=True, kw_only=True):
    """What `fix --forget` prints."""

    schema: int = 1
    run: str
    forgotten: bool = True
    freed_bytes: int


class Variables(Struct, frozen=True, kw_only=True):
    """What `env --shell json` prints."""

    schema: int = 1
    set: dict[str, str]
    unset: tuple[str, ...]


# --- explain -----------------------------------------------------------------------------------------------


class Match(Struct, frozen=True):
    """A known message of a text, or the problem that a name names."""

    pattern: str
    """Id of the row of the matrix, or of the check."""
    meaning: str
    causes: tuple[str, ...]
    """Slugs, most likely first; none: it is harmless, or the program's own fault."""
    ask: str
    """The question or command that decides between the causes."""


class Explanation(Struct, frozen=True, kw_only=True):
    """What `explain` prints; no match: gpudoctor knows no message of the text."""

    schema: int = 1
    matches: tuple[Match, ...]


# --- scan and recommend ------------------------------------------------------------------------------------


class ScannedLibrary(Struct, frozen=True):
    """The GPU code of one library; `share` is the part of its containers that an architecture is in."""

    path: str
    sass: tuple[str, ...]
    ptx: tuple[str, ...]
    gfx: tuple[str, ...]
    relocatable: tuple[str, ...]
    share: dict[str, float]
    reason: str | None
    """Why it was not read whole."""


class LibrariesWithoutCode(Struct, frozen=True):
    """Libraries that are judged as one, and what is wrong with them for a GPU."""

    distribution: str | None
    libraries: tuple[str, ...]
    why: str


class ScannedFor(Struct, frozen=True):
    """A GPU, and what has no code for it or may have none."""

    name: str
    arch: str | None
    missing: tuple[LibrariesWithoutCode, ...]
    unknown: tuple[LibrariesWithoutCode, ...]


class Scan(Struct, frozen=True, kw_only=True):
    """What `scan` prints; `gpus` is there only where GPUs were judged."""

    schema: int = 1
    libraries: tuple[ScannedLibrary, ...]
    gpus: tuple[ScannedFor, ...] | UnsetType = UNSET


class Recommendations(Struct, frozen=True, kw_only=True):
    """What `recommend` prints, the best choice first."""

    schema: int = 1
    framework: str = "torch"
    choices: tuple[Recommended, ...]
    rejected: tuple[Out, ...]
    notes: tuple[str, ...]
    otherwise: tuple[PlannedFix, ...]


class AskedOfMachine(Struct, frozen=True, kw_only=True):
    """What `variants` prints."""

    schema: int = 1
    installers: tuple[Installer, ...]
    properties: tuple[VariantProperty, ...]
    disagreements: tuple[str, ...]
    unknown: tuple[str, ...]


# --- what gpudoctor has ------------------------------------------------------------------------------------


class ListedCheck(Struct, frozen=True):
    """A row of `list`."""

    id: str
    slug: str
    title: str


class ListedKernel(Struct, frozen=True):
    """A row of `smoke --list`: `seconds` is its time limit, `devices` how many GPUs it takes."""

    name: str
    level: str
    dtypes: tuple[str, ...]
    seconds: float
    devices: int
    title: str


class Kernels(Struct, frozen=True, kw_only=True):
    """What `smoke --list` prints."""

    schema: int = 1
    kernels: tuple[ListedKernel, ...]
