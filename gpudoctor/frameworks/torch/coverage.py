"""Which GPUs the installed torch has code for: read from its files, from its own answer, or from the matrix."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.isa import Answer, Runs, capability, cuda_runs
from gpudoctor.machine import OVERRIDE, Gpu, Torch, Vendor
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows.gpus import GfxTarget
from gpudoctor.matrix.rows.torch import TorchBuild
from gpudoctor.matrix.versions import figures, minor
from gpudoctor.records import view_as
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.nvidia_driver import driver_verdict, has_server_stack

DEVICE_WHEEL = "amd-torch-device-"
_FAMILY = r"rocm-sdk-libraries-(gfx[0-9a-f]+)(x?)(?:-(\w+))?$"
_ONE_TARGET = r"gfx\d+[0-9a-f]{2}$"


class GpuCoverage(Struct, frozen=True):
    """Whether the installed torch has code for a GPU."""

    runs: Runs
    rule: str
    """The rule of isa that decided; else cpu-build, other-vendor, no-torch, no-list, no-arch,
    toolkit-dropped-gpu, toolkit-too-old, override-out-of-generation."""
    code: tuple[str, ...] = ()
    """All architectures that the build has code for."""
    source: str = ""
    """Where these architectures were read."""
    via_override: str | None = None
    """Value of the override in force for this GPU, if any."""
    blas: Runs = "unknown"
    """Whether the BLAS of the build has kernels for the GPU."""
    partial: bool = False
    """Only a few kernels of the build are for this GPU."""
    native: bool = False
    """Ready machine code, not PTX that the driver compiles."""


class Code(Struct, frozen=True):
    """Architectures that a build has code for, and where they were read. `archs` holds SASS or gfx."""

    archs: tuple[str, ...]
    ptx: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    blas: tuple[str, ...] | None = None
    source: str = ""
    more: bool = False
    """The list may be incomplete: it names a family, or the least that a publisher supports."""
    unsure: tuple[str, ...] = ()
    """Architectures that the build may have, although they are not in the list."""


@answer_once
def carries(situation: Situation, gpu: Gpu) -> GpuCoverage:
    """Whether the torch of the examined environment has code for this GPU, including overrides."""
    torch = situation.torch
    if torch is None:
        return GpuCoverage(runs="unknown", rule="no-torch")
    target = situation.torch_target
    if target == "cpu":
        return GpuCoverage(runs="no", rule="cpu-build", blas="no", source=torch.source)
    if target is not None and target != gpu.vendor:
        return GpuCoverage(runs="no", rule="other-vendor", blas="no", source=torch.source)
    code = code_of(situation, torch, gpu.vendor)
    if code is None and toolkit_knows(situation.matrix, torch, gpu) == "dropped":
        return GpuCoverage(runs="no", rule="toolkit-dropped-gpu", blas="no", source=torch.source)
    if code is None and _toolkit_too_old(situation.matrix, torch, gpu):
        return GpuCoverage(runs="no", rule="toolkit-too-old", blas="no", source=torch.source)
    if code is None:
        return GpuCoverage(runs="unknown", rule="no-list")
    if not gpu.arch.value:
        return GpuCoverage(runs="unknown", rule="no-arch", code=code.archs, source=code.source)
    if gpu.vendor == "nvidia":
        return _carries_cuda(situation, torch, gpu.arch.value, code)
    return _carries_gfx(situation, torch, gpu, code)


def code_of(situation: Situation, torch: Torch, vendor: Vendor) -> Code | None:
    """The code of an installed torch for one vendor's GPUs; None where nothing tells.

    Sources in order of trust: its own libraries and archives; the device distributions beside a multi-arch host
    wheel, whose libraries hold no code (a distribution for a whole family does not tell its targets); the list that
    the build prints; the row of the matrix; for AMD's own wheels without a row, what AMD supports with that ROCm.
    """
    own = torch.archs.value
    wheels = [*(one.name for one in situation.machine.packages), *(own.device_packages if own else ())]
    devices = sorted({name.removeprefix(DEVICE_WHEEL) for name in wheels if name.startswith(DEVICE_WHEEL)})
    return (
        _read_code(torch, vendor, devices)
        or (_code_of_device_wheels(devices) if vendor == "amd" and devices else None)
        or _printed_code(torch)
        or (_published_code(situation, torch) if vendor == "nvidia" else None)
        or _code_of_row(situation, torch, vendor, wheels)
    )


def _read_code(torch: Torch, vendor: Vendor, devices: list[str]) -> Code | None:
    own = torch.archs.value
    if own is None or not (own.gfx if vendor == "amd" else own.sass or own.ptx):
        return None
    library = "libtorch_hip.so" if vendor == "amd" else "libtorch_cuda.so"
    return Code(
        archs=own.gfx if vendor == "amd" else own.sass,
        ptx=own.ptx,
        partial=own.partial,
        blas=_targets(devices) or None if own.blas_gfx is None else own.blas_gfx,
        source=torch.archs.source or library,
    )


def _targets(devices: list[str]) -> tuple[str, ...]:
    """The targets among the names of device distributions; the others are whole families."""
    return tuple(name for name in devices if re.match(_ONE_TARGET, name))


def _code_of_device_wheels(devices: list[str]) -> Code:
    targets = _targets(devices)
    families = len(targets) < len(devices)
    source = f"device distributions ({DEVICE_WHEEL}*)"
    return Code(archs=targets, blas=None if families else targets, source=source, more=families)


def _printed_code(torch: Torch) -> Code | None:
    trial, own = torch.trial.value, torch.archs.value
    if trial is None or not trial.ok or not trial.arch_list:
        return None
    return Code(
        archs=tuple(arch for arch in trial.arch_list if not arch.startswith("compute_")),
        ptx=tuple(arch for arch in trial.arch_list if arch.startswith("compute_")),
        blas=own.blas_gfx if own else None,
        source="torch.cuda.get_arch_list()",
    )


def _published_code(situation: Situation, torch: Torch) -> Code | None:
    published = situation.matrix.torch.published_archs(torch)
    if published is None:
        return None
    source = f"compat_matrix: published_archs of {published.origin} ({published.basis})"
    return Code(archs=published.archs, ptx=published.ptx, source=source)


def _code_of_row(situation: Situation, torch: Torch, vendor: Vendor, wheels: list[str]) -> Code | None:
    row = situation.build_of(torch)
    basis = row.basis if row else "derived"
    row = row or situation.matrix.torch.kin_of(torch, situation.platform)
    if row is None and vendor == "amd" and torch.origin == "amd":
        return _of_amd(situation.matrix, torch, wheels)
    if row is None or not row.archs:
        return None
    if row.extra and torch.source != "description":
        return None  # it lists what is available, not what was installed
    late, own = _perhaps_later(row, torch), torch.archs.value
    return Code(
        archs=tuple(arch for arch in row.archs if arch not in late),
        ptx=row.ptx or (),
        partial=row.partial,
        blas=own.blas_gfx if own else None,
        source=f"compat_matrix: torch {row.version} {row.build} ({basis})",
        unsure=late,
    )


def _perhaps_later(row: TorchBuild, torch: Torch) -> tuple[str, ...]:
    """Architectures of a release that this nightly of it may be too old for."""
    day = re.search(r"\.dev(\d{8})", torch.version)
    return row.late_archs if day and row.late_from and day[1] < row.late_from else ()


def _of_amd(matrix: Matrix, torch: Torch, wheels: list[str]) -> Code | None:
    """The code of AMD's own wheels without a row in the matrix.

    For a one-family wheel the ROCm libraries beside it tell (rocm-sdk-libraries-gfx103x-dgpu). A wheel that names its
    commit has code for what AMD supports with that ROCm, or more. The torch of AMD's images is only described.
    """
    family = next((found for name in wheels if (found := re.match(_FAMILY, name))), None)
    if family is not None:
        prefix, kind = family[1], family[3]
        targets = matrix.tables.gfx_targets
        archs = tuple(row.gfx for row in targets if _in_family(row, prefix, bool(family[2]), kind))
        return Code(archs=archs, blas=archs, source=f"derived: {family[0]}")
    sure, unsure = matrix.amd.image_targets(torch.rocm) if torch.source == "description" and torch.rocm else ((), ())
    if sure:
        return Code(sure, blas=(*sure, *unsure), source=f"derived: rocBLAS of ROCm {torch.rocm}", unsure=unsure)
    release = matrix.amd.rocm_release(torch.rocm) if torch.rocm and "git" in torch.version else None
    if release is None or not release.gfx:
        return None
    blas = torch.archs.value.blas_gfx if torch.archs.value else None
    return Code(archs=release.gfx, blas=blas, source=f"derived: what AMD supports with ROCm {torch.rocm}", more=True)


def _in_family(row: GfxTarget, prefix: str, open_ended: bool, kind: str | None) -> bool:
    """Whether a target belongs to "gfx1151", "gfx103x-dgpu" or "gfx110x-all"."""
    if kind in ("dgpu", "apu", "dcgpu") and row.kind != kind:
        return False
    return row.gfx == prefix or (open_ended and row.gfx[:-1] == prefix)


# --- NVIDIA ----------------------------------------------------------------------------------------


def never_published(situation: Situation) -> bool:
    """Whether the torch is described, and the matrix knows that there is no such build."""
    torch = situation.torch
    if torch is None or torch.source != "description":
        return False
    if torch.origin in ("download.pytorch.org", "amd") and torch.rocm and not rocm_exists(situation):
        return True
    if torch.origin not in ("pypi", "download.pytorch.org"):
        return False
    version, build = torch.release, torch.build or ""
    return build != "xpu" and situation.matrix.torch.is_published(version, build, situation.platform) is False


def rocm_exists(situation: Situation) -> bool:
    """Whether any release of torch has a ROCm build for this platform."""
    return any(row.rocm for row in situation.matrix.torch.builds(situation.platform))


def toolkit_knows(matrix: Matrix, torch: Torch, gpu: Gpu) -> Literal["yes", "not-yet", "dropped", "unknown"]:
    """Whether the CUDA that torch was built with can compile for a GPU. "not-yet" leaves PTX of an older
    architecture, which runs on the GPU; "dropped" leaves nothing."""
    row = matrix.gpus.capability(gpu.arch.value) if gpu.vendor == "nvidia" and gpu.arch.value else None
    if row is None or not torch.cuda or not figures(torch.cuda):
        return "unknown"
    if row.last_cuda is not None and minor(torch.cuda) > minor(row.last_cuda):
        return "dropped"
    return "yes" if minor(torch.cuda) >= minor(row.first_cuda) else "not-yet"


def _toolkit_too_old(matrix: Matrix, torch: Torch, gpu: Gpu) -> bool:
    """Whether the CUDA of an index's build can compile nothing that runs on a GPU: neither for the GPU itself nor for
    a lower one of its generation. The indexes' builds carry no PTX that would stand in."""
    if torch.origin not in ("pypi", "download.pytorch.org", "nightly"):
        return False
    if toolkit_knows(matrix, torch, gpu) != "not-yet":
        return False
    own = capability(gpu.arch.value) or (0, 0)
    rows = (row for row in matrix.tables.capabilities if figures(row.capability)[:1] == own[:1])
    able = (row for row in rows if minor(torch.cuda or "") >= minor(row.first_cuda))
    return not any(figures(row.capability) <= own for row in able)


def cuda_answer(
    situation: Situation,
    sm: str,
    sass: Collection[str],
    ptx: Collection[str] = (),
    *,
    cuda: str | None = None,
    driver: str | None = None,
) -> Answer:
    """`isa.cuda_runs` on this machine, for code of that CUDA; under `driver`, where another one is meant.

    A driver compiles the PTX of a CUDA only if it serves that fully. Code for desktop GPUs is not promised to run on
    a Tegra.
    """
    verdict = driver_verdict(situation, cuda, driver) if cuda else "unknown"
    readable = None if verdict == "unknown" else verdict == "serves"
    return cuda_runs(sm, sass, ptx, ptx_readable=readable, tegra=_tegra(situation, sm))


def _tegra(situation: Situation, sm: str) -> bool | None:
    """Whether code for desktop chips does not run because the GPU is a Tegra's. With the CUDA stack of servers it is
    not known: reports differ (nvidia-holoscan/holohub#1687, conda-forge/pytorch-cpu-feedstock#527)."""
    row = situation.matrix.gpus.capability(sm)
    if not situation.on_jetson and not (row and row.tegra):
        return False
    return None if has_server_stack(situation, sm) else True


def _carries_cuda(situation: Situation, torch: Torch, sm: str, code: Code) -> GpuCoverage:
    answer = cuda_answer(situation, sm, code.archs, code.ptx, cuda=torch.cuda)
    few = answer.runs != "yes" and cuda_answer(situation, sm, code.partial).runs == "yes"
    archs = (*code.archs, *code.ptx)
    return view_as(GpuCoverage, answer, code=archs, source=code.source, blas=answer.runs, partial=few)


# --- AMD -------------------------------------------------------------------------------------------


def override_in_force(situation: Situation, gpu: Gpu) -> str | None:
    """The HSA_OVERRIDE_GFX_VERSION for this GPU; the form with a KFD node's number takes precedence."""
    own = situation.variable(f"{OVERRIDE}_{gpu.kfd_node}") if gpu.kfd_node is not None else None
    return own or situation.variable(OVERRIDE) or None


def natively(situation: Situation, gpu: Gpu) -> GpuCoverage:
    """What the build has for the GPU itself, without overrides."""
    return carries(without_overrides(situation), gpu)


@answer_once
def without_overrides(situation: Situation) -> Situation:
    """The same without any form of HSA_OVERRIDE_GFX_VERSION."""
    variables = situation.machine.variables
    others = {name: value for name, value in variables.items() if not name.startswith(OVERRIDE)}
    return situation if others == variables else situation.on(replace(situation.machine, variables=others))


def same_generation(gpu: GfxTarget | None, other: GfxTarget | None) -> bool:
    """Whether two targets are of one generation: gfx1031 and gfx1030 are, gfx1010 and gfx1030 are not."""
    if gpu is None or other is None:
        return False
    return gpu.gfx[:-1] == other.gfx[:-1] and gpu.family.split()[0] == other.family.split()[0]


def within_generation(matrix: Matrix, real: str, named: str) -> bool:
    """Whether an override to `named` stays in the GPU's generation, or the matrix knows that it works."""
    policy = matrix.amd.override(real)
    if policy and policy.value and matrix.amd.gfx_of_override(policy.value) == named:
        return policy.within_generation
    target = matrix.gpus.target(real)
    if target is None:  # a GPU newer than the matrix: its number tells the generation
        return real[:-1] == named[:-1]
    return real == named or same_generation(target, matrix.gpus.target(named))


def blas_answer(matrix: Matrix, gfx: str, rocm: str | None, shipped: tuple[str, ...] | None) -> Runs:
    """Whether rocBLAS has kernels for a target, by the files found, else by what that ROCm ships."""
    if shipped is None:
        row = matrix.amd.blas(rocm) if rocm else None
        shipped = row.rocblas if row and gfx not in row.rocblas_open else None
    if shipped is None:
        return "unknown"
    return "yes" if gfx in {name.partition(":")[0] for name in shipped} else "no"


def _carries_gfx(situation: Situation, torch: Torch, gpu: Gpu, code: Code) -> GpuCoverage:
    real = gpu.arch.value or ""
    value = override_in_force(situation, gpu)
    named = situation.matrix.amd.gfx_of_override(value)
    if named and not within_generation(situation.matrix, real, named):
        return GpuCoverage(
            runs="no",
            rule="override-out-of-generation",
            code=code.archs,
            source=code.source,
            via_override=value,
            blas="no",
        )
    gfx = named or real
    answer = situation.matrix.gpus.gfx_answer(gfx, code.archs)
    open_ended = answer.runs == "no" and (code.more or gfx in code.unsure)
    carried = GpuCoverage(
        runs="unknown" if open_ended else answer.runs,
        rule="no-list" if open_ended else answer.rule,
        code=code.archs,
        source=code.source,
        blas=blas_answer(situation.matrix, gfx, torch.rocm, code.blas),
        native=answer.native,
    )
    return replace(carried, via_override=value) if named else carried
