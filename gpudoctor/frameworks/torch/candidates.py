"""Evaluates every installable torch build for a set of GPUs: it runs on all of them, or why it does not."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.frameworks.torch.companions import paired_versions
from gpudoctor.frameworks.torch.coverage import blas_answer, cuda_answer, without_overrides
from gpudoctor.isa import Runs, cuda_runs
from gpudoctor.machine import Gpu
from gpudoctor.matrix.nvidia import DriverVerdict
from gpudoctor.matrix.versions import figures
from gpudoctor.records import view_as
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.c_library import c_library, too_old_for
from gpudoctor.situation.driver_choice import driver_after_fix
from gpudoctor.situation.installer import refusal
from gpudoctor.situation.known_issues import against_builds, speaks_against
from gpudoctor.situation.nvidia_driver import driver_verdict
from gpudoctor.situation.rocm_driver import RocmDriver, too_far_apart, untested
from gpudoctor.situation.wsl import against_build_in_wsl

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import Basis, KnownIssue, Standing, TorchBuild
    from gpudoctor.requirement import Requirement

INSTALLABLE = ("pypi", "download.pytorch.org", "amd")
"""Origins that pip and uv install from."""

_STANDINGS: tuple[Standing, ...] = ("none", "built", "tested", "supported")


class Choice(Struct, frozen=True):
    """A build that runs on all the given GPUs."""

    version: str
    """Without local part: "2.9.1"."""
    build: str
    origin: str
    index_url: str
    """"" for the package index's own build."""
    cuda: str | None
    rocm: str | None
    level: Literal["native", "ptx", "cpu"]
    driver: DriverVerdict
    """How the driver supports its CUDA; "serves" where it needs no driver."""
    basis: Basis
    standing: Standing
    """How far its publisher supports it for these GPUs."""
    community: bool
    extra: str = ""
    """Extras that choose device code: "device-gfx1031"."""
    carries: str = ""
    """The code that runs on the GPUs: "sm_120", "sm_89 runs its sm_86 code"."""
    pythons: tuple[str, ...] = ()
    linalg: Runs = "unknown"
    """Whether its torch.linalg library has code for all the GPUs."""
    untested: bool = False
    """Whether AMD does not test its ROCm with the present kernel driver, though it may work."""
    fault: str = ""
    """A known issue that affects it on this machine."""
    fault_variables: tuple[tuple[str, str], ...] = ()
    """Variables with which it does not show."""
    fault_of_release: bool = False
    """Whether that fault affects the release whatever the GPU."""
    passed_over: str = ""
    """A nearer build that was passed over, and its fault."""
    why: tuple[str, ...] = ()


Because = Literal[
    "python", "vendor", "unknown", "code", "blas", "driver", "branch", "wsl", "libc", "installer", "required"
]


class RejectedCandidate(Struct, frozen=True):
    """A build that does not work here, and the first reason why."""

    torch: str
    build: str
    why: str
    because: Because = "code"
    """"libc", "installer" (what pip's or uv's configuration excludes) and "required" (what is no build that --require
    asks for): everything else would work."""


@answer_once
def candidates(
    situation: Situation,
    gpus: tuple[Gpu, ...],
    *,
    any_python: bool = False,
    driver: str | None = None,
    unconstrained: bool = False,
) -> tuple[tuple[Choice, ...], tuple[RejectedCandidate, ...]]:
    """Every installable build of the platform: those that run on all the GPUs, best first, and the others.

    With `any_python` the interpreter does not matter, with `unconstrained` neither what pip and uv are configured to
    refuse nor what is required.
    `driver` asks about another driver than the present one.
    Without GPUs the CPU builds are the choices.
    """
    python = None if any_python else situation.python
    bench = Bench(situation, gpus, driver or driver_after_fix(situation, gpus))
    on_windows = situation.machine.text.foreign == "windows"  # there the package index has CPU builds alone
    origins = [origin for origin in INSTALLABLE if not (on_windows and origin == "pypi")]
    rows = (row for row in situation.matrix.torch.builds(situation.platform) if row.origin in origins)
    assessed = [_assess(bench, row, python) for row in rows]
    if not unconstrained:
        assessed = [_within_limits(situation, item) for item in assessed]
    serving = (bench.with_fault(item) for item in assessed if isinstance(item, Choice))
    choices = sorted(serving, key=lambda choice: _best_first(situation.matrix, choice))
    return tuple(choices), tuple(item for item in assessed if isinstance(item, RejectedCandidate))


class Bench:
    """What builds are evaluated for: the GPUs of a machine, and the driver that they will have."""

    def __init__(self, situation: Situation, gpus: tuple[Gpu, ...], driver: str | None) -> None:
        self.situation = situation
        self.matrix = situation.matrix
        self.gpus = gpus
        self.driver = driver
        """The present driver, or the nearest one that the GPUs need; None: unknown."""
        self.libc = c_library(situation)
        self._plain = without_overrides(situation)  # a build with code for the GPU needs no override
        self._issues = against_builds(self._plain, gpus) if gpus else ()

    def with_fault(self, choice: Choice) -> Choice:
        """A choice with the known issue that affects it; one about these very GPUs takes precedence."""
        held = (issue for issue in self._issues if speaks_against(issue, self._plain, choice))
        issue = min(held, key=_of_release, default=None)
        if issue is None:
            return choice
        fault = f"{issue.symptom} ({issue.source.partition(';')[0]})"
        why = (
            *choice.why,
            f"known issue: {fault}",
            *([f"workaround: {issue.workaround}"] if issue.variables else ()),
        )
        variables = tuple(issue.variables.items())
        return replace(choice, fault=fault, fault_variables=variables, fault_of_release=_of_release(issue), why=why)


def _of_release(issue: KnownIssue) -> bool:
    """Whether an issue names no GPUs, and leaves something to work: some operations, or some machines."""
    whole = issue.severity == "error" and issue.trigger == "facts"
    return not (issue.when.gfx or issue.when.sm or whole)


def _assess(bench: Bench, row: TorchBuild, python: str | None) -> Choice | RejectedCandidate:
    """Evaluate one build for the GPUs of a bench, and then for its C library."""
    found = _assess_code(bench, row, python)
    glibc = bench.matrix.torch.glibc_of(row)
    if isinstance(found, Choice) and too_old_for(bench.libc, glibc):
        return _rejected(row, "libc", f"needs glibc{f' {glibc}' if glibc else ''}, and this system has {bench.libc}")
    return found


def _within_limits(situation: Situation, found: Choice | RejectedCandidate) -> Choice | RejectedCandidate:
    """A choice, unless another build is required, or the installer's configuration excludes it or a companion that
    comes with it."""
    if not isinstance(found, Choice):
        return found
    if unmet := next((one for one in situation.required if not _meets(found, one)), None):
        return RejectedCandidate(found.version, found.build, f"{unmet.text} is required", "required")
    wanted = (("torch", (found.version,)), *paired_versions(situation, found))
    for name, versions in wanted:
        local = f"+{found.build}" if found.index_url else ""
        refused = [refusal(situation, name, f"{version}{local}") for version in versions]
        if all(refused):
            what = "" if name == "torch" else f"its {name} {versions[0]}: "
            return RejectedCandidate(found.version, found.build, f"{what}{refused[0]}", "installer")
    return found


def _meets(choice: Choice, requirement: Requirement) -> bool:
    """Whether a build is what is required. Of the other vendor's builds nothing is: they do not have that runtime."""
    if requirement.name == "torch":
        return requirement.admits(choice.version)
    if requirement.name == "torch.cuda":
        return bool(choice.rocm) or requirement.admits(choice.cuda or "")
    return requirement.name != "rocm" or bool(choice.cuda) or requirement.admits(choice.rocm or "")


def _assess_code(bench: Bench, row: TorchBuild, python: str | None) -> Choice | RejectedCandidate:
    vendor = "amd" if row.rocm else "nvidia" if row.cuda else "cpu"
    if python and _tag(python) not in row.pythons:
        span = f" ({_span(row.pythons)})" if row.pythons else ""
        return _rejected(row, "python", f"no wheel for Python {python}{span}")
    if vendor == "cpu" and not bench.gpus:
        return _chosen(bench.matrix, row, level="cpu", carries="")
    if vendor == "cpu" or not bench.gpus or {gpu.vendor for gpu in bench.gpus} != {vendor}:
        kind = {"cpu": "a CPU build", "amd": "a ROCm build: NVIDIA GPUs cannot use it"}
        return _rejected(row, "vendor", kind.get(vendor, "a CUDA build: AMD GPUs cannot use it"))
    if any(not gpu.arch.value for gpu in bench.gpus):
        return _rejected(row, "unknown", "the architecture of a GPU is unknown")
    return _assess_rocm(bench, row) if vendor == "amd" else _assess_cuda(bench, row)


@lru_cache(maxsize=16)  # asked for every build
def _tag(python: str) -> str:
    """ "3.13t" of "3.13.1t", as the rows name the Pythons that a build has wheels for."""
    match = re.match(r"(\d+\.\d+)(?:\.\d+)?(t?)", python)
    return match[1] + match[2] if match else ""


def _assess_cuda(bench: Bench, row: TorchBuild) -> Choice | RejectedCandidate:
    cuda, matrix = row.cuda or "", bench.matrix
    if row.archs is None:
        return _rejected(row, "unknown", "the architectures it has code for are unknown")
    for gpu in bench.gpus:
        last = matrix.nvidia.last_branch(gpu.arch.value)
        floor = matrix.nvidia.floor(cuda)
        if last and floor and figures(floor)[:1] > figures(last)[:1]:
            return _rejected(
                row, "branch", f"CUDA {cuda} needs a driver from {floor} on; {last} is the last branch for {gpu.name}"
            )
    verdict = driver_verdict(bench.situation, cuda, bench.driver)
    if verdict == "too-old":
        floor = matrix.nvidia.floor(cuda)
        return _rejected(row, "driver", f"driver {bench.driver or ''} is too old for CUDA {cuda} (from {floor} on)")
    cudnn = matrix.torch.cudnn_of(row)
    native, linalg = True, list[Runs]()
    found: list[str] = []
    for gpu in bench.gpus:
        sm = gpu.arch.value or ""
        answer = cuda_answer(bench.situation, sm, row.archs, row.ptx or (), cuda=cuda, driver=bench.driver)
        if answer.runs != "yes":
            return _rejected(row, "code", f"no code for {sm} ({gpu.name}); it has code for {' '.join(row.archs)}")
        if not answer.native and matrix.gpus.came_after(cuda, sm):
            return _rejected(row, "code", f"the libraries of CUDA {cuda} are older than {sm} ({gpu.name})")
        if cudnn and matrix.nvidia.cudnn_lacks(cudnn, sm):
            return _rejected(row, "code", f"no code for {sm} ({gpu.name}) in the cuDNN that comes with it ({cudnn})")
        native = native and answer.native
        linalg.append(cuda_runs(sm, row.linalg, ()).runs if row.linalg else "unknown")
        found.append(sm if answer.native and answer.by == sm else f"{sm} runs its {answer.by} code")
    return _chosen(
        matrix,
        row,
        level="native" if native else "ptx",
        carries=", ".join(dict.fromkeys(found)),
        driver=verdict,
        linalg="no" if "no" in linalg else "unknown" if "unknown" in linalg else "yes",
    )


def _assess_rocm(bench: Bench, row: TorchBuild) -> Choice | RejectedCandidate:
    targets = tuple(dict.fromkeys(gpu.arch.value or "" for gpu in bench.gpus))
    if row.archs is None:
        return _rejected(row, "unknown", "the architectures it has code for are unknown")
    for gfx in targets:
        if bench.matrix.gpus.gfx_answer(gfx, row.archs).runs != "yes":
            return _rejected(row, "code", f"no code for {gfx}; it has code for {' '.join(row.archs)}")
        blas = blas_answer(bench.matrix, gfx, row.rocm, row.archs if row.extra else None)
        if blas != "yes":
            lacks = "has no kernels" if blas == "no" else "is not known to have kernels"
            return _rejected(row, "blas", f"rocBLAS of ROCm {row.rocm} {lacks} for {gfx}")
    if why := against_build_in_wsl(bench.situation, row.rocm or "", bench.gpus):
        return _rejected(row, "wsl", why)
    if driver := too_far_apart(bench.situation, row.rocm or ""):
        why = f"the kernel driver is {driver.text}, and AMD does not test ROCm {row.rocm} with it"
        return _rejected(row, "driver", why)
    carries = ", ".join(targets)
    old = untested(bench.situation, row.rocm or "")
    if not row.extra:
        return _chosen(bench.matrix, row, level="native", carries=carries, old=old)
    # A multi-arch build: its device code comes in separate wheels, chosen by extras.
    extra = ",".join(row.extra.format(gfx=gfx) for gfx in targets)
    standing = min((_device_level(bench.matrix, gfx) for gfx in targets), key=_STANDINGS.index)
    return _chosen(bench.matrix, row, level="native", carries=carries, old=old, extra=extra, standing=standing)


def _device_level(matrix: Matrix, gfx: str) -> Standing:
    target = matrix.gpus.target(gfx)
    return target.device_level if target else "none"


def _chosen(
    matrix: Matrix,
    row: TorchBuild,
    *,
    level: Literal["native", "ptx", "cpu"],
    carries: str,
    driver: DriverVerdict = "serves",
    old: RocmDriver | None = None,
    extra: str = "",
    standing: Standing = "supported",
    linalg: Runs = "unknown",
) -> Choice:
    runs_older = " runs its " in carries
    why = [carries if runs_older else f"has code for {carries}" if carries else "runs without a GPU"]
    if carries and row.basis in ("derived", "unknown"):
        why[0] += " (list not read from the wheel)"
    if row.cuda:
        said = {
            "serves": f"the driver supports CUDA {row.cuda}",
            "minor-version": f"CUDA {row.cuda} by minor-version compatibility",
            "too-old": "",
            "unknown": f"needs a driver from {matrix.nvidia.floor(row.cuda)} on",
        }
        why.append(said[driver])
    if level == "ptx":
        why.append("compiled from PTX at the first start")
    if linalg == "no":
        why.append("torch.linalg has no code for the GPU")
    if standing in ("tested", "built"):
        why.append(f"device code only {standing}, not supported")
    if old:
        why.append(f"the kernel driver is {old.text}, older than what AMD tests with ROCm {row.rocm}")
    if row.community:
        why.append("built by the community")
    return view_as(
        Choice,
        row,
        index_url=matrix.torch.index_url(row),
        level=level,
        driver=driver,
        untested=old is not None,
        standing=standing,
        extra=extra,
        carries=carries,
        linalg=linalg,
        why=tuple(why),
    )


def _rejected(row: TorchBuild, because: Because, why: str) -> RejectedCandidate:
    return RejectedCandidate(row.version, row.build, why, because)


def _span(pythons: tuple[str, ...]) -> str:
    usual = [python for python in pythons if not python.endswith("t")] or pythons
    return f"{usual[0]} to {usual[-1]}" if len(usual) > 1 else usual[0]


def _best_first(matrix: Matrix, choice: Choice) -> tuple[object, ...]:
    return (
        merely_built(choice),
        bool(choice.fault),
        choice.untested,
        _newest_first(choice.version),
        *within_version(matrix, choice),
    )


def _newest_first(version: str) -> tuple[int, ...]:
    return tuple(-n for n in (*figures(version), 0, 0, 0, 0)[:4])


def merely_built(choice: Choice) -> bool:
    """Whether nobody supports it: community builds, and device code that was built and never tested."""
    return choice.community or choice.standing in ("none", "built")


def within_version(matrix: Matrix, choice: Choice) -> tuple[object, ...]:
    """Rank among the builds of one torch version, best lowest.

    Full driver support for its CUDA comes before minor-version compatibility, machine code before PTX, all of torch
    before a build without torch.linalg. Then comes the CUDA nearest to the driver: the newest that it supports, or
    else the oldest. With an unknown driver it is the release's default CUDA; for ROCm the newest. Last, a list that
    was read or documented comes before a derived one.
    """
    release = matrix.torch.release(choice.version)
    cuda = choice.cuda or choice.rocm or "0"
    nearness: tuple[object, ...] = _newest_first(cuda)
    if choice.driver == "minor-version":
        nearness = figures(cuda)
    elif choice.driver == "unknown":
        nearness = (choice.cuda != (release.cuda if release else None), *nearness)
    return (
        ("serves", "unknown", "minor-version", "too-old").index(choice.driver),
        choice.level == "ptx",
        choice.linalg == "no",
        choice.origin == "amd",  # torch's own index comes before the vendor's
        nearness,
        ("measured", "documented", "derived", "unknown").index(choice.basis),
        choice.index_url != "",
    )
