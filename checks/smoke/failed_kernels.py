"""What the smoke kernels showed on the GPUs (GPD501 to GPD504)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts
from gpudoctor.finding import Confidence, Evidence, Finding, NotJudged, by_hand, gpu_subject
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.gpu_coverage import arch_list, fits
from gpudoctor.frameworks.torch.gpu_coverage import evidence as code_evidence
from gpudoctor.frameworks.torch.installed_build import build_name
from gpudoctor.frameworks.torch.smoke_faults import (
    CRASH,
    NO_CODE,
    WRONG,
    Fault,
    busy,
    error_text,
    evidence,
    faults,
    severity,
    subject_of_devices,
    summary,
    wrong_results,
)
from gpudoctor.machine import Smoke, SmokeKernel
from gpudoctor.situation import ESSENTIAL, Situation, needs
from gpudoctor.situation.gpu_groups import called, finding

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import GpuRates

_DEFECTS = ("gpu-ecc", "gpu-off-bus")
_OVERRIDES = ("hsa-override-wrong", "torch-rocm-no-arch-for-gpu")
"""These GPUs run code for another GPU: the check of the build warns of it."""

_BROKEN_FILES = ("torch-install-damaged", "torch-shadowed")


@check("GPD501", "smoke-not-run", "smoke")
def smoke_not_run(situation: Situation) -> Verdicts:
    """Some or all smoke kernels could not run.

    ## Why it matters
    Then it is not proved that the GPUs compute, and compute correctly.

    ## How it is judged
    This is never a fault by itself: nothing could be started, other programs use a GPU, or the time for all kernels
    was over. The verdict stays open if kernels were asked for and none ran, or the first ones did not. A kernel that
    a torch or a device does not have leaves nothing open.

    ## Fix safety
    There is nothing to fix.
    """
    smoke, trial = situation.machine.smoke, situation.torch_trial
    no_torch = situation.environment.torch.absent
    if smoke is None or not needs.kernels(situation) or no_torch or (trial is not None and not trial.ok):
        return  # another problem tells why
    ran = [kernel for kernel in smoke.kernels if kernel.status != "skipped"]
    taken = dict(busy(situation))
    computed = any(kernel.status in ("pass", "wrong") for kernel in ran)
    if not ran:
        details = list(dict.fromkeys(kernel.detail for kernel in smoke.kernels))
        why = smoke.why or "; ".join(details[:3]) or "none was chosen"
        yield NotJudged(why=f"no smoke kernel ran: {why}", matters=smoke.asked)
        return
    for device, why in taken.items():
        yield NotJudged(why=f"{_named(situation, device)}: {why}", matters=smoke.asked and not computed)
    yield from _idle(situation, smoke, matters=smoke.asked and not computed)
    if smoke.gpu_asked and not any(kernel.device.startswith("cuda") for kernel in ran):
        yield NotJudged(why=f"no smoke kernel ran on a GPU: {smoke.why}", matters=True)
    late = [kernel for kernel in smoke.kernels if kernel.status == "skipped" and kernel.detail == smoke.why]
    if smoke.why and late:
        names = ", ".join(dict.fromkeys(kernel.name for kernel in late))
        missing = any(kernel.name in ESSENTIAL for kernel in late)
        yield NotJudged(why=f"not all smoke kernels ran ({names}): {smoke.why}", matters=smoke.asked and missing)


def _idle(situation: Situation, smoke: Smoke, *, matters: bool) -> Verdicts:
    """Devices on which no kernel ran, beside others."""
    for device in smoke.devices:
        kernels = [kernel for kernel in smoke.kernels if kernel.device == device.name]
        if device.name != "cpu" and kernels and all(kernel.status == "skipped" for kernel in kernels):
            why = kernels[0].detail
            if why != smoke.why:
                yield NotJudged(why=f"{_named(situation, device.name)}: no smoke kernel ran: {why}", matters=matters)


def _named(situation: Situation, device: str) -> str:
    return gpu_subject(situation.behind[device]) if device in situation.behind else device


@check("GPD502", CRASH, "smoke")
def smoke_crash(situation: Situation) -> Verdicts:
    """A smoke kernel raised an error, crashed or hung.

    ## Why it matters
    Programs that do the same fail in the same way.

    ## How it is judged
    Real kernels run in a child of the examined interpreter. Their error text and the machine's facts tell the cause.
    The problem then has that cause's name, or is merged with what was found of it without running anything. If
    nothing tells the cause, it keeps the name smoke-crash. A GPU that is busy or full is not checked.

    ## Fix safety
    That of the cause. If the cause is unknown there is nothing to fix yet: the steps find out whether software or
    hardware is at fault, and change nothing.
    """
    for fault in faults(situation):
        yield _finding(situation, fault, _causes(situation, fault))


@check("GPD503", WRONG, "smoke")
def smoke_wrong_result(situation: Situation) -> Verdicts:
    """A smoke kernel ran and computed wrong values.

    ## Why it matters
    Nothing raises an error: images are corrupted, training diverges, answers are nonsense.

    ## How it is judged
    Results are compared with a float64 reference on the CPU, within a tolerance for the dtype. Outputs are poisoned
    first, so that elements that nobody wrote are noticed. Known faults of the machine explain wrong values:
    uncorrectable memory errors, an override of the gfx target, an attention backend that is known to be wrong.

    ## Fix safety
    Avoiding one backend costs speed. The other steps find out whether software or hardware is at fault, and change
    nothing.
    """
    for fault in wrong_results(situation):
        attention = all(k.name.startswith("attention") and k.name != "attention-math" for k in fault.kernels)
        backend = ("rocm-mem-efficient-attention",) if attention else ()
        known = (*backend, *_DEFECTS[:1], *_OVERRIDES) if fault.devices != ("cpu",) else _BROKEN_FILES
        yield _finding(situation, fault, known)


@check("GPD504", "gpu-slow", "smoke")
def gpu_slow(situation: Situation) -> Verdicts:
    """A GPU reaches less than half of the speed that its vendor states.

    ## Why it matters
    Everything on it takes twice as long or longer.

    ## How it is judged
    At level full, the rates of copying in its memory and of large matrix products are compared with the vendor's
    documents for that exact product. Slices and virtual GPUs are not compared. It is a note: boards, power limits and
    cooling differ, and other programs may have used the GPU.

    ## Fix safety
    Measuring changes nothing; a higher power limit makes more heat.
    """
    smoke = situation.machine.smoke
    for name, gpu in situation.behind.items():
        row, slow = situation.matrix.rates.rates_of(gpu), []
        for kernel in smoke.kernels if smoke and row else ():
            figure = _figure(kernel, row) if row and kernel.device == name and kernel.status == "pass" else None
            if figure and figure[0] < _SLOW * figure[1]:
                slow.append((kernel, *figure))
        if not slow or row is None:
            continue
        figures = ", ".join(
            f"{kernel.name} {kernel.dtype}".rstrip() + f" {_rounded(got)} of {_rounded(known)} {unit}"
            for kernel, got, known, unit in slow
        )
        yield finding(
            "note",
            (gpu,),
            message=f"{gpu.name} reaches less than half of what its vendor states for {row.product}: {figures}.",
            saw=figures,
            want="half of the vendor's figures or more",
            confidence="possible",
            evidence=tuple(
                Evidence(f"smoke.{name}.{kernel.name}", f"{got:.3g} {unit}, stated {known:.3g}", row.source)
                for kernel, got, known, unit in slow
            ),
            fixes=(by_hand("Find out what slows it down", _SLOWED[gpu.vendor]),),
        )


_SLOW = 0.5
_SLOWED = {
    "nvidia": "While it computes, check `nvidia-smi -q -d PERFORMANCE,POWER,CLOCK,TEMPERATURE`: power limit "
    "(laptops and small boards have a low one), heat, and other programs on the GPU.",
    "amd": "While it computes, check `amd-smi metric` (or `rocm-smi`): power cap, heat, clocks, and other programs "
    "on the GPU.",
}


def _rounded(figure: float) -> str:
    """Three digits, and no exponent: 0.123, 3350."""
    return f"{float(f'{figure:.3g}'):g}"


def _figure(kernel: SmokeKernel, row: GpuRates) -> tuple[float, float, str] | None:
    """The rate that a kernel measured, the rate stated for the GPU, and the unit."""
    measures = kernel.measures
    if kernel.name == "memory-rate" and "gb_per_s" in measures:
        return measures["gb_per_s"], row.gb_per_s, "GB/s"
    stated = {"matmul-rate": kernel.dtype, "matmul-fp8-rate": "float8"}.get(kernel.name, "")
    if stated in row.tflops and "tflops" in measures:
        return measures["tflops"], row.tflops[stated], "TFLOPS"
    return None


def _causes(situation: Situation, fault: Fault) -> tuple[str, ...]:
    """Possible causes, likeliest first."""
    texts = tuple(slug for row in fault.causes for slug in row.causes)
    own = tuple(slug for slug in dict.fromkeys(texts) if slug != CRASH)
    if fault.slug != CRASH:
        return tuple(dict.fromkeys((fault.slug, *own)))
    if set(fault.devices) == {"cpu"}:
        return (*own, *_BROKEN_FILES)
    if all(kernel.name.startswith("linalg") for kernel in fault.kernels):
        own = (*own, "torch-linalg-no-arch")
    # If other kernels passed, nothing that stops the whole GPU can be the cause.
    stopping = () if fault.mixed else tuple(sorted(situation.matrix.errors.stopping_causes))
    return tuple(dict.fromkeys((*own, *_OVERRIDES, *_DEFECTS, *stopping)))


def _finding(situation: Situation, fault: Fault, causes: tuple[str, ...]) -> Finding:
    from gpudoctor.frameworks.torch.smoke_fixes import fixes

    line = error_text(situation, fault)
    where = called(fault.gpus) if fault.gpus else subject_of_devices(fault)
    row = fault.causes[0] if fault.causes else None
    named = row is not None and fault.slug == row.slug
    sure: Confidence = "likely" if named and row and row.stops and fault.mixed else "certain"
    wrong = fault.slug == WRONG
    parts = {
        "message": f"On {where}, {summary(fault)}{'. First' if len(fault.kernels) > 1 else ''}: {line}."
        + (f" It means: {row.meaning}." if row else "")
        + (_code(situation, fault) if fault.slug in NO_CODE else ""),
        "saw": f"{summary(fault)}: {line}",
        "want": "results within their tolerance" if wrong else "kernels that run",
        "confidence": sure,
        "evidence": (*_facts(situation, fault), *evidence(fault)),
        "fixes": fixes(situation, fault),
        "refs": row.refs if row else (),
        "possible_causes": causes,
        "slug": fault.slug,
    }
    if fault.gpus:
        return finding(severity(situation, fault), fault.gpus, **parts)
    return Finding(severity=severity(situation, fault), subject=subject_of_devices(fault), **parts)  # type: ignore[arg-type]


def _code(situation: Situation, fault: Fault) -> str:
    """The GPU's target, and the code that the build has."""
    for fit in fits(situation):
        if situation.torch and fit.gpu in fault.gpus:
            code = arch_list(fit.carried.code) if fit.carried.code else "an unknown list"
            return f" The GPU is {fit.gpu.arch.value}; {build_name(situation.torch)} was built for {code}."
    return ""


def _facts(situation: Situation, fault: Fault) -> tuple[Evidence, ...]:
    if fault.slug not in NO_CODE or situation.torch is None:
        return tuple(Evidence.of("gpu.arch", gpu.arch) for gpu in fault.gpus[:1])
    fit = next((fit for fit in fits(situation) if fit.gpu in fault.gpus), None)
    return code_evidence(situation.torch, fit) if fit else ()
