"""Which usable GPUs the installed torch has code for, and how severe it is if it has none.

Holds no checks itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from gpudoctor.finding import (
    Confidence,
    Evidence,
    Finding,
    Fix,
    NotJudged,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    Severity,
    UnsetVariable,
    VariableRemedy,
)
from gpudoctor.frameworks.torch import builds
from gpudoctor.frameworks.torch.coverage import GpuCoverage, carries, natively, toolkit_knows
from gpudoctor.frameworks.torch.installed_build import better_torch, build_name
from gpudoctor.machine import Gpu, Torch, Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_choice import runs_some_build
from gpudoctor.situation.gpu_groups import finding, gpu_names, group_by
from gpudoctor.situation.nvidia_driver import refusal
from gpudoctor.situation.usable_gpus import in_process_order, runtime_order
from gpudoctor.situation.visibility import select
from gpudoctor.situation.wsl import never_in_wsl

_MADE_FOR_ITS_PLACE = ("source", "conda", "conda-forge", "ngc", "jetson", "distribution")
"""Origins whose builds are made for the machines they run on: no list of an index can contradict them."""


CUDA_ORDER = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
"""The variable that makes CUDA number GPUs by their PCI addresses, as NVML does. Else the fastest comes first."""


class Fit(Struct, frozen=True):
    """A usable GPU of the vendor that torch is built for, and torch's code for it."""

    gpu: Gpu
    carried: GpuCoverage

    @property
    def served(self) -> bool:
        return self.carried.runs == "yes" and self.carried.blas != "no"

    @property
    def fails(self) -> bool:
        """Whether the build certainly does not work on the GPU: it has no code, or no BLAS for it."""
        return self.carried.runs == "no" or (self.carried.runs == "yes" and self.carried.blas == "no")


def fits(situation: Situation) -> tuple[Fit, ...]:
    """One per usable GPU of the vendor that the installed torch is built for; none for other torches, and for GPUs
    that no torch reaches inside WSL."""
    vendor = situation.built_for
    if vendor is None:
        return ()
    gpus = (gpu for gpu in situation.usable_of(vendor) if not never_in_wsl(situation, gpu))
    return tuple(Fit(gpu, carries(situation, gpu)) for gpu in gpus)


def has_code(situation: Situation, gpus: Collection[Gpu] | None = None) -> bool:
    """Whether torch has code for all of these GPUs, or of those that it is meant for; not if it is meant for none.
    PTX alone does not count if CUDA's libraries are older than the GPU."""
    ours = [fit for fit in fits(situation) if gpus is None or fit.gpu in gpus]
    return bool(ours) and all(fit.served and not only_old_ptx(situation, fit) for fit in ours)


def only_old_ptx(situation: Situation, fit: Fit) -> bool:
    """Whether a GPU can only use PTX, of a CUDA that is older than the GPU."""
    torch, only_ptx = situation.torch, fit.served and fit.gpu.vendor == "nvidia" and not fit.carried.native
    return only_ptx and torch is not None and toolkit_knows(situation.matrix, torch, fit.gpu) == "not-yet"


def lacks_code(situation: Situation) -> bool:
    """Whether torch certainly works on none of the GPUs that it is meant for, whatever the driver."""
    ours = fits(situation)
    return bool(ours) and all(fit.fails for fit in ours)


def weight(situation: Situation, fit: Fit, all_fits: tuple[Fit, ...]) -> Severity:
    """How severe it is that torch has no code for an NVIDIA GPU: a note for one that does not disturb beside another
    that works, else an error."""
    others = (other.gpu for other in all_fits if other.served and other.gpu.key != fit.gpu.key)
    working = any(not refusal(situation, gpu) for gpu in others)
    return "note" if working and not disturbs(situation, fit.gpu) else "error"


def disturbs(situation: Situation, gpu: Gpu) -> bool:
    """Whether a GPU without code makes programs fail beside one that works: they meet it first, or they may want to
    use it, too. The driver shows them none that it refuses."""
    if refusal(situation, gpu):
        return False
    first = in_process_order(situation.machine, gpu.vendor)[:1]
    if first and first[0].key == gpu.key:
        return True
    return not gpu.integrated if gpu.vendor == "amd" else not _for_the_screen(situation, gpu)


def _for_the_screen(situation: Situation, gpu: Gpu) -> bool:
    """Whether nothing speaks for computing on an NVIDIA GPU beside a better one."""
    matrix = situation.matrix
    return gpu.integrated or matrix.nvidia.is_display_chip(gpu.chip) or not runs_some_build(matrix, gpu)


def equal_fits(some: tuple[Fit, ...]) -> tuple[tuple[Fit, ...], ...]:
    """Groups of fits with the same GPU name and the same answer."""
    return tuple(group_by(some, lambda fit: (fit.gpu.name, fit.gpu.arch.value, fit.carried)).values())


def finding_about(group: tuple[Fit, ...], severity: Severity, **parts: Any) -> Finding:
    """A finding about the GPUs of such a group; `parts` are the other fields of a Finding."""
    return finding(severity, tuple(fit.gpu for fit in group), **parts)


def evidence(torch: Torch, fit: Fit) -> tuple[Evidence, ...]:
    """What a judgement about code is based on."""
    return (
        Evidence.of("gpu.arch", fit.gpu.arch),
        Evidence.of_torch(torch),
        Evidence("torch.archs", arch_list(fit.carried.code), fit.carried.source),
    )


def confidence(fit: Fit) -> Confidence:
    """Certain if the code was read, or the list is of this very build; likely if the list was derived from others."""
    drawn = "derived" in fit.carried.source or "published" in fit.carried.source
    return "likely" if drawn else "certain"


def arch_list(archs: tuple[str, ...]) -> str:
    """ "sm_50 sm_60 ... sm_90"."""
    return " ".join(archs) or "none"


def torch_for_all(situation: Situation) -> tuple[Fix, ...]:
    """The torch that supports all GPUs that can be used, where the present one leaves some out; none if there is no
    such build."""
    vendor = situation.built_for
    usable = tuple(gpu for gpu in situation.usable if gpu.vendor == vendor)
    served = builds.gpus_to_serve(situation, usable)
    if not all(gpu in served for gpu in usable):
        return ()
    return tuple(
        fix
        for fix in builds.replacements(situation, usable, keep=situation.torch)[:1]
        if all(isinstance(remedy, ReplaceTorch | ReplacePackage) for remedy in fix.remedies) and not _for_the_cpu(fix)
    )


def without_variable(fix: Fix, name: str) -> Fix:
    """The fix with the variable unset as well, unless it sets or unsets that already."""
    if any(isinstance(remedy, VariableRemedy) and remedy.name == name for remedy in fix.remedies):
        return fix
    return Fix(fix.title, (*fix.remedies, UnsetVariable(name, why="the GPU's own target then counts")))


def without_override(situation: Situation, fit: Fit) -> Fit:
    """The build's code for a GPU where no override is in force."""
    return Fit(fit.gpu, natively(situation, fit.gpu))


def broken_by_override(situation: Situation, fit: Fit) -> bool:
    """Whether the build supports the GPU, but an override makes it fail."""
    return fit.fails and fit.carried.via_override is not None and without_override(situation, fit).served


def override_misfits(fit: Fit) -> bool:
    """Whether an override makes the GPU run code of another generation: that is a problem of its own."""
    return fit.carried.rule == "override-out-of-generation"


def is_secondary(situation: Situation, fit: Fit, all_fits: tuple[Fit, ...]) -> bool:
    """Whether an AMD GPU does not decide about this environment. That is integrated graphics beside a compute GPU, or
    a GPU beside a working one that a process meets first."""
    if fit.gpu.integrated and (situation.usable_of("nvidia") or any(not other.gpu.integrated for other in all_fits)):
        return True
    first = process_order(situation)[:1]
    return any(other.served for other in all_fits) and bool(first and first[0].key != fit.gpu.key)


def fixes_beside(situation: Situation, fit: Fit, all_fits: tuple[Fit, ...]) -> tuple[Fix, ...]:
    """Fixes for a GPU that the build does not support: another build, and showing only others to a process, if the
    build supports some. Those that a variable hides come first where it can only be a mistake."""
    gpus = builds.gpus_to_serve(situation, situation.usable_of(fit.gpu.vendor))
    others = tuple(other.gpu for other in all_fits if other.served and other.gpu.key != fit.gpu.key)
    show = show_only(situation, others or gpus) if others or fit.gpu not in gpus else None
    if show is None:
        hidden = _hidden(situation, fit.gpu.vendor)
        instead = show_only(situation, hidden) if hidden else None
        if instead is None:
            return better_torch(situation)
        by_mistake = not disturbs(situation, fit.gpu) or fit.gpu.integrated
        return (instead, *better_torch(situation)) if by_mistake else (*better_torch(situation), instead)
    fixes = tuple(fix for fix in better_torch(situation) if not _for_the_cpu(fix))
    if fit.gpu in gpus:
        return (*fixes, show)
    return (show,) if others else fixes


def _hidden(situation: Situation, vendor: Vendor) -> tuple[Gpu, ...]:
    """The GPUs that a visibility variable hides, and that the build supports. In a batch job they are not ours."""
    if situation.machine.system.job.known:
        return ()
    hidden = (one.gpu for one in situation.standings if one.selected == "no" and one.granted != "no")
    ours = (gpu for gpu in hidden if gpu.vendor == vendor and not refusal(situation, gpu))
    return tuple(gpu for gpu in ours if Fit(gpu, carries(situation, gpu)).served)


def _for_the_cpu(fix: Fix) -> bool:
    return any(isinstance(remedy, ReplaceTorch) and remedy.build == "cpu" for remedy in fix.remedies)


def show_only(situation: Situation, wanted: tuple[Gpu, ...], unserved: tuple[Gpu, ...] = ()) -> Fix | None:
    """The fix that shows only `wanted` of a vendor's GPUs to a process; None if the variables' values are unknown.
    `unserved` are those that the build which comes with it does not support."""
    settings = visible_as(situation, wanted)
    if not settings:
        return None
    names = gpu_names(wanted)
    others = gpu_names(unserved)
    why = f"only {names} is visible then" + (f"; the build does not support {others}" if others else "")
    whys = {CUDA_ORDER[0]: "numbers then follow the PCI addresses"}
    remedies = (SetVariable(*one, why=whys.get(one[0], why)) for one in settings)
    return Fix(f"Show only {names} to the process", tuple(remedies))


def process_order(situation: Situation) -> tuple[Gpu, ...]:
    """AMD GPUs as a HIP process numbers them, with visibility variables applied; empty if that is unknown."""
    return in_process_order(situation.machine, "amd")


def visible_as(situation: Situation, wanted: tuple[Gpu, ...]) -> tuple[tuple[str, str], ...]:
    """The variables and values that show only `wanted` of a vendor's GPUs to a process; empty if that is unknown.
    HIP_VISIBLE_DEVICES counts the GPUs that ROCR_VISIBLE_DEVICES leaves."""
    vendor = wanted[0].vendor
    gpus = runtime_order(situation.machine, vendor)
    if vendor == "nvidia":
        gpus = tuple(gpu for gpu in gpus if not refusal(situation, gpu))
        known = all(gpu.index is not None and not gpu.asked.mig for gpu in gpus)
        places = [str(place) for place, gpu in enumerate(gpus) if gpu in wanted]
        return (CUDA_ORDER, ("CUDA_VISIBLE_DEVICES", ",".join(places))) if known and places else ()
    rocr = situation.variable("ROCR_VISIBLE_DEVICES")
    if rocr is not None:
        selection = select(rocr, gpus)
        if not selection.certain:
            return ()
        gpus = selection.gpus
    places = [str(place) for place, gpu in enumerate(gpus) if gpu in wanted]
    return (("HIP_VISIBLE_DEVICES", ",".join(places)),) if places else ()


def not_told(situation: Situation, fit: Fit, all_fits: tuple[Fit, ...]) -> NotJudged:
    """The open question whether a build supports a GPU. It does not matter for integrated graphics beside a working
    GPU, nor for a build made for its place by a toolkit that can compile for the GPU."""
    torch = situation.torch
    assert torch is not None
    beside = fit.gpu.integrated and any(other.served for other in all_fits)
    trusted = fit.carried.rule == "no-list" and torch.origin in _MADE_FOR_ITS_PLACE
    able = toolkit_knows(situation.matrix, torch, fit.gpu) != "not-yet"
    return NotJudged(why=why_unknown(torch, fit), matters=not (beside or (trusted and able)))


def why_unknown(torch: Torch, fit: Fit) -> str:
    """Why it is unknown whether a build supports a GPU."""
    if fit.carried.rule == "no-arch":
        return f"the architecture of {fit.gpu.name} is unknown, and so is whether {build_name(torch)} has code for it"
    if fit.carried.rule == "no-list" and torch.origin == "amd" and not torch.archs.why:
        return (
            f"{build_name(torch)} holds no device code itself, and no amd-torch-device-* distribution beside it says "
            f"that it is for {fit.gpu.arch.value}"
        )
    if fit.carried.rule == "no-list":
        why = torch.archs.why if torch.archs.why not in ("", "not read") else "no list of it is known"
        return f"which GPUs {build_name(torch)} has code for is unknown: {why}"
    return (
        f"whether the code of {build_name(torch)} ({arch_list(fit.carried.code)}) runs on {fit.gpu.name} "
        f"({fit.gpu.arch.value}) is unknown"
    )
