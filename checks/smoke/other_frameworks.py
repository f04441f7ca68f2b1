"""What a framework beside torch computed, and where (GPD466 to GPD468)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Evidence, Finding, NotJudged, by_hand
from gpudoctor.machine import Smoke, SmokeKernel
from gpudoctor.situation import Situation, needs
from gpudoctor.situation.gpu_groups import gpu_names

_CAUSES = (
    "environment-broken", "ort-cpu-and-gpu-both", "jax-plugin-mismatch", "framework-cpu-only",
    "framework-other-vendor", "framework-cuda-libs-missing", "cudnn-mismatch", "packages-overwrite-each-other",
    "requirements-incomplete", "framework-variable", "driver-too-old", "cuda-visible-devices", "no-driver",
    "no-gpu",
)  # fmt: skip
"""What takes a GPU away from a framework, most exact first."""


def _smoke(situation: Situation) -> Smoke | None:
    """What another framework than torch computed."""
    return situation.machine.smoke if needs.other_kernels(situation) else None


@check("GPD466", "framework-fell-back", "smoke")
def framework_fell_back(situation: Situation) -> Verdicts:
    """A framework computed on the CPU although a GPU is usable.

    ## Why it matters
    Frameworks fall back to the CPU and say nothing, or print one line. Programs then take ten to a hundred times as
    long.

    ## How it is judged
    A child of the examined interpreter imports the framework, and multiplies matrices and computes a convolution on
    each of its devices. It is an error if a GPU is usable, or one was asked for, and the framework lists none, or
    computed elsewhere than asked.

    ## Fix safety
    That of the cause. If the cause is unknown there is nothing to fix yet.
    """
    smoke = _smoke(situation)
    if smoke is None or not (situation.usable or smoke.gpu_asked):
        return
    elsewhere = [kernel for kernel in smoke.kernels if kernel.status == "error" and kernel.detail]
    sees_none = bool(smoke.devices) and all(device.name == "cpu" for device in smoke.devices)
    if not elsewhere and not sees_none:
        return
    said = (elsewhere[0].message if elsewhere else smoke.why) or ""
    names = gpu_names(situation.usable) or "the GPU that was asked for"
    yield Finding(
        severity="error",
        message=f"{_title(situation, smoke)} computes on the CPU and does not use {names}."
        + (f" It says: {said[-400:]}" if said else ""),
        saw="computed on the CPU",
        want="computed on a GPU",
        subject=_title(situation, smoke),
        devices=tuple(map(Device.of, situation.usable)),
        framework=smoke.framework,
        evidence=tuple(Evidence(f"smoke.{one.name}", one.detail or one.device) for one in smoke.kernels[:4]),
        fixes=(_FIND_OUT,),
        possible_causes=_CAUSES,
    )


@check("GPD467", "framework-computes-wrong", "smoke")
def framework_computes_wrong(situation: Situation) -> Verdicts:
    """A framework failed, crashed or computed wrong values.

    ## Why it matters
    Programs that use the framework fail in the same way, or give wrong results and say nothing.

    ## How it is judged
    A product of two matrices, and a convolution where the framework has them, are compared with what Python itself
    computed. An error that the framework raised,
    a crash and a missing answer count, too; so does an import that fails.

    ## Fix safety
    That of the cause. If the cause is unknown there is nothing to fix yet.
    """
    smoke = _smoke(situation)
    for kernel in smoke.kernels if smoke else ():
        if smoke is None or not (_failed(kernel) or kernel.status == "wrong"):
            continue
        wrong = kernel.status == "wrong"
        row = situation.matrix.errors.cause_of(kernel.message, situation.framework_vendor) if kernel.message else None
        what = "computed wrong values" if wrong else f"failed: {kernel.message.rpartition(' | ')[2][-400:]}"
        yield Finding(
            severity="error",
            message=f"{_title(situation, smoke)} {what}"[:700] + ("." if wrong else ""),
            saw=kernel.status,
            want="the right result",
            subject=_title(situation, smoke),
            framework=smoke.framework,
            slug="smoke-wrong-result" if wrong else row.slug if row else "smoke-crash",
            evidence=(Evidence(f"smoke.{kernel.name}", kernel.message or kernel.detail, f"on {kernel.device}"),),
            fixes=(_FIND_OUT,),
            possible_causes=(*(row.causes if row else ()), *_CAUSES),
        )


@check("GPD468", "framework-missing", "smoke")
def framework_missing(situation: Situation) -> Verdicts:
    """The framework that should compute is not installed.

    ## Why it matters
    Nothing can be computed with it. Often another environment was intended: `--python` names it.

    ## How it is judged
    None of its packages is installed in the examined environment.

    ## Fix safety
    Nothing is changed.
    """
    smoke, environment = _smoke(situation), situation.environment
    if smoke is None or any(one.name == smoke.framework for one in situation.others):
        return
    if environment.distributions.undecided:
        yield NotJudged(why=f"whether {smoke.framework} is installed is not known", matters=True)
        return
    text = f"Install {smoke.framework} into this environment, or name the one that has it with `--python PATH`."
    yield Finding(
        severity="error",
        message=f"There is no {smoke.framework} in {environment.prefix or 'the examined environment'}.",
        saw=f"no {smoke.framework}",
        want=smoke.framework,
        subject="Python environment",
        framework=smoke.framework,
        evidence=(Evidence.of("environment.distributions", environment.distributions),)
        if environment.distributions.value is None
        else (),
        fixes=(by_hand("Install it, or name the environment that has it", text),),
        supersedes=("framework-fell-back", "smoke-crash"),
    )


_FIND_OUT = by_hand(
    "Find out why", "Run `gpudoctor check --level driver`: it looks for what keeps programs from the GPU."
)


def _failed(kernel: SmokeKernel) -> bool:
    """Whether it gave no result; one that ran elsewhere than asked did."""
    return kernel.status in ("crash", "timeout") or (kernel.status == "error" and not kernel.detail)


def _title(situation: Situation, smoke: Smoke) -> str:
    one = next((one for one in situation.others if one.name == smoke.framework), None)
    return one.named if one else smoke.framework
