"""Whether torch is built for this machine's kind of GPU (GPD405 to GPD407), and has a wheel (GPD415)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts
from gpudoctor.finding import Device, Evidence, Finding, Fix, Severity, by_hand
from gpudoctor.frameworks.torch import builds, check
from gpudoctor.frameworks.torch.installed_build import REPAIRED_WITH_TORCH, better_torch, build_name
from gpudoctor.machine import PLATFORMS, Gpu, Library, Torch, Vendor
from gpudoctor.matrix.versions import local_version
from gpudoctor.plain_text import number_of
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import gpu_names

_SYMPTOM = "torch-wrong-build-or-cpu"


@check("GPD405", "torch-cpu-only", "framework")
def torch_cpu_only(situation: Situation) -> Verdicts:
    """A CPU build of torch is installed although a GPU is usable.

    ## Why it matters
    `torch.cuda.is_available()` is False and everything runs on the processor.

    ## How it is judged
    By torch's own files. It is an error if some build supports a usable GPU. Integrated graphics alone, or a GPU that
    no build supports, is a note; so is a pasted text that names no GPU. GPUs that are reserved, not granted or
    deselected do not count.

    ## Fix safety
    Replaces torch and its companions in this environment with a GPU build, which needs several gigabytes.
    """
    torch = situation.torch
    if torch is None or situation.torch_target != "cpu" or torch.build == "xpu":
        return
    if not situation.usable:
        if "GPU" in situation.machine.text.unsaid:
            yield _whichever_gpu(torch)
        return
    gpus = builds.gpus_to_serve(situation, situation.usable)
    # NVIDIA's integrated GPUs (Jetson, GB10) are there to compute, not for a screen.
    wanted = tuple(gpu for gpu in gpus if gpu.vendor == "nvidia" or not gpu.integrated)
    served = tuple(gpu for gpu in wanted if _could_be_served(situation, gpu))
    names = gpu_names(served or gpus)
    severity: Severity = "error" if served else "note"
    why = ""
    if torch.origin in ("pypi", "unknown") and situation.platform == "linux-aarch64" and "+" not in torch.version:
        why = " For aarch64 the package index has CPU builds only, up to torch 2.10."
    message = f"{build_name(torch)} is a CPU build: it cannot use {names}.{why}"
    possible = bool(served) or any(_could_be_served(situation, gpu) for gpu in gpus)
    if not served:
        other = "A ROCm build could use it." if possible else "No build of torch supports it."
        message = f"{build_name(torch)} is a CPU build and does not use {names}. {other}"
    yield Finding(
        severity=severity,
        message=message,
        saw="CPU build",
        want="CUDA build" if (served or gpus)[0].vendor == "nvidia" else "ROCm build",
        subject=f"torch {torch.version}",
        evidence=(
            Evidence.of_torch(torch),
            Evidence("torch.build", torch.build or "no CUDA, no ROCm", torch.source),
            *(Evidence.of("gpu.arch", gpu.arch) for gpu in gpus[:2]),
        ),
        fixes=better_torch(situation) if possible else (),
        supersedes=REPAIRED_WITH_TORCH if served else (),
    )


def _whichever_gpu(torch: Torch) -> Finding:
    return Finding(
        severity="note",
        message=f"{build_name(torch)} is a CPU build: it cannot use any GPU.",
        saw="CPU build",
        want="CUDA build or ROCm build, to compute on a GPU",
        subject=f"torch {torch.version}",
        evidence=(Evidence.of_torch(torch),),
    )


def _could_be_served(situation: Situation, gpu: Gpu) -> bool:
    """Whether any build supports the GPU, with this driver, Python, C library and configuration or others."""
    if not gpu.arch.value:
        return True
    policy = situation.matrix.amd.override(gpu.arch.value) if gpu.vendor == "amd" else None
    if policy and policy.value and policy.safety == "safe-class":
        return True
    choices, rejected = builds.candidates(situation, (gpu,), any_python=True)
    repairable = any(item.because in ("driver", "libc", "installer") for item in rejected)
    return bool(choices) or repairable or situation.on_jetson


@check("GPD406", "cuda-torch-on-amd", "framework")
def cuda_torch_on_amd(situation: Situation) -> Verdicts:
    """A CUDA build of torch is installed on a machine with AMD GPUs.

    ## Why it matters
    CUDA builds see no AMD GPU: `torch.cuda.is_available()` is False. On Linux `pip install torch` installs a CUDA
    build.

    ## How it is judged
    The only usable GPUs are AMD's, and there is no NVIDIA GPU that a fix could make usable. Inside WSL, where no file
    names a GPU: ROCm is installed, and Windows' NVIDIA driver has put no libcuda there.

    ## Fix safety
    Replaces torch and its companions in this environment with a ROCm build.
    """
    torch = situation.torch
    if torch is not None and _vendor_behind_windows(situation) == "amd":
        yield _behind_windows(
            situation, torch, "a CUDA build, and this WSL system has ROCm and no libcuda", "ROCm build"
        )
        return
    yield from _beside(situation, "nvidia", "amd")
    if torch is None or situation.built_for != "nvidia" or not situation.usable_of("amd"):
        return
    from gpudoctor.situation.working_gpus import computes

    if any(computes(situation, gpu) for gpu in situation.machine.of_vendor("nvidia") if not gpu.reserved):
        return
    yield _other_vendor(situation, torch, "a CUDA build, and the GPUs are AMD's", "ROCm build")


@check("GPD407", _SYMPTOM, "framework")
def torch_wrong_build_or_cpu(situation: Situation) -> Verdicts:
    """The installed torch is built for other GPUs, or sees no GPU.

    ## Why it matters
    `torch.cuda.is_available()` is False: a ROCm or XPU build sees no NVIDIA GPU, and a build whose files name
    neither CUDA nor ROCm uses none.

    ## How it is judged
    A ROCm build where the GPUs to use are NVIDIA's (inside WSL: Windows' NVIDIA driver has put its libcuda there, and
    no ROCm is installed); an XPU build beside NVIDIA or AMD GPUs; a build whose label says CUDA or ROCm while its own
    files name neither. And an imported torch that counts no GPU although GPUs of its maker are usable, if nothing
    more exact explains it.

    ## Fix safety
    Replaces torch and its companions in this environment.
    """
    torch = situation.torch
    yield from _beside(situation, "amd", "nvidia")
    if torch is not None and _vendor_behind_windows(situation) == "nvidia":
        yield _behind_windows(situation, torch, "a ROCm build, and Windows has an NVIDIA driver here", "CUDA build")
    if torch is None or not situation.usable:
        return
    label = torch.build or local_version(torch.version)
    if torch.build == "xpu":
        yield _other_vendor(situation, torch, "a build for Intel GPUs", "CUDA build or ROCm build")
    elif re.match(r"rocm|cu\d", label) and not (torch.hip or torch.rocm or torch.cuda):
        yield _other_vendor(
            situation, torch, f"labelled {label}, but its own files name neither CUDA nor ROCm", label
        )
    elif situation.built_for == "amd" and not _serves_any(situation) and _serve_nvidia(situation):
        yield _other_vendor(situation, torch, "a ROCm build, and the GPUs are NVIDIA's", "CUDA build")
    elif situation.built_for and situation.usable_of(situation.built_for) and _sees_none(torch):
        yield _sees_nothing(situation, torch, situation.usable_of(situation.built_for))


def _beside(situation: Situation, own: Vendor, other: Vendor) -> Iterator[Finding]:
    """The other vendor's GPUs beside those that torch is built for: no torch uses both."""
    torch = situation.torch
    mine, others = (
        tuple(gpu for gpu in situation.usable_of(vendor) if not gpu.integrated) for vendor in (own, other)
    )
    left = tuple(gpu for gpu in others if _could_be_served(situation, gpu)) if mine else ()
    if torch is None or situation.built_for != own or not left:
        return
    build = PLATFORMS[other]
    yield Finding(
        severity="note",
        message=f"{build_name(torch)} uses {gpu_names(mine)}, and not {gpu_names(left)}: that needs a "
        f"{build} build, in an environment of its own.",
        subject=f"torch {torch.version}",
        device=Device.of(left[0]),
        devices=tuple(map(Device.of, left)),
        evidence=tuple(Evidence("gpu", gpu.name, gpu.source) for gpu in left[:2]),
    )


def _serve_nvidia(situation: Situation) -> bool:
    """Whether all GPUs for which torch should be chosen are NVIDIA's."""
    return all(gpu.vendor == "nvidia" for gpu in builds.gpus_to_serve(situation, situation.usable))


def _sees_none(torch: Torch) -> bool:
    trial = torch.trial.value
    return bool(trial and trial.ok and trial.device_count == 0)


def _sees_nothing(situation: Situation, torch: Torch, gpus: tuple[Gpu, ...]) -> Finding:
    said = torch.trial.value.error if torch.trial.value else ""
    names = gpu_names(gpus)
    text = "Reboot and run the program again; if torch still sees no GPU, install this torch again."
    again = by_hand("Reboot, then check again", text, "reboot")
    fixes: tuple[Fix, ...] = (again,)
    if situation.machine.pasted and situation.built_for == "amd":  # nobody knows who may open the nodes
        from gpudoctor.frameworks.torch.message_circumstances import SEE_ROCMINFO

        fixes = (SEE_ROCMINFO, again)
    return Finding(
        severity="error",
        message=f"{build_name(torch)} was imported and sees no GPU, although {names} could be used"
        f"{f': {said}' if said else ''}.",
        saw=f"torch.cuda.{'is_available() is False' if situation.machine.pasted else 'device_count() is 0'}",
        want=f"torch to count {number_of(len(gpus), 'GPU')}",
        subject=f"torch {torch.version}",
        confidence="likely",
        evidence=(Evidence("torch.trial", said or "no GPU", torch.trial.source),),
        fixes=fixes,
        possible_causes=_explanations(situation, said),
    )


def _explanations(situation: Situation, said: str) -> tuple[str, ...]:
    """Possible reasons why torch sees no GPU: those its text names, else whatever makes a GPU unusable."""
    row = situation.matrix.errors.cause_of(said, situation.built_for)
    return row.causes if row else tuple(sorted(situation.matrix.errors.stopping_causes - {_SYMPTOM}))


def _serves_any(situation: Situation) -> bool:
    """Whether the build works, or may work, on a GPU of its own maker."""
    from gpudoctor.frameworks.torch.gpu_coverage import fits

    return any(fit.carried.runs != "no" for fit in fits(situation))


def _other_vendor(situation: Situation, torch: Torch, what: str, want: str) -> Finding:
    gpus = builds.gpus_to_serve(situation, situation.usable)
    names = gpu_names(gpus)
    return Finding(
        severity="error",
        message=f"{build_name(torch)} is {what}: it cannot use {names}.",
        saw=f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.rocm}" if torch.rocm else torch.build or "neither",
        want=want,
        subject=f"torch {torch.version}",
        evidence=(Evidence.of_torch(torch), *(Evidence("gpu", gpu.name, gpu.source) for gpu in gpus[:2])),
        fixes=builds.replacements(situation, gpus, keep=torch),
        supersedes=("torch-rocm-no-arch-for-gpu", "amd-igpu-interferes", *REPAIRED_WITH_TORCH),
    )


def _vendor_behind_windows(situation: Situation) -> Vendor | None:
    """The vendor whose GPUs Windows offers, where torch is built for the other's and none is usable."""
    if situation.usable or not situation.in_wsl:
        return None
    from gpudoctor.situation.wsl import of_another_vendor

    return of_another_vendor(situation)


def _behind_windows(situation: Situation, torch: Torch, what: str, want: str) -> Finding:
    """The build is for another vendor's GPUs than those behind Windows, which no file here names."""
    text = (
        f"Install a {want} of torch in its place: `gpudoctor recommend` asks the driver for the GPU, and names "
        "the build and the command."
    )
    return Finding(
        severity="error",
        message=f"{build_name(torch)} is {what}: it cannot use the GPU.",
        saw=f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.rocm}",
        want=want,
        subject=f"torch {torch.version}",
        confidence="likely",
        evidence=(
            Evidence.of_torch(torch),
            Evidence.of("system.wsl", situation.machine.system.wsl),
            *(Evidence("load_path", library.path, library.via) for library in _windows_own(situation)[:1]),
            *(Evidence("amd.rocm", rocm.path, "files") for rocm in (situation.machine.amd.rocm.value or ())[:1]),
        ),
        fixes=(by_hand(f"Install a {want} of torch", text, "replaces"),),
        supersedes=("no-gpu", *REPAIRED_WITH_TORCH),
    )


def _windows_own(situation: Situation) -> tuple[Library, ...]:
    path = situation.machine.load_path
    return tuple(library for library in (*path.found, *path.beside) if library.kind == "wsl")


@check("GPD415", "torch-wheel-missing", "framework")
def torch_wheel_missing(situation: Situation) -> Verdicts:
    """No wheel of the described torch exists, or none for this Python.

    ## Why it matters
    pip says "no matching distribution found", or takes another release.

    ## How it is judged
    Only for a torch that is described, not installed: the matrix lists the builds of each release, and the Pythons of
    each build. An installed torch may have been built by its user. Of a release that is newer than the matrix, and of
    nightlies, nothing is known to be missing.

    ## Fix safety
    Names another release or another build of torch; installs nothing.
    """
    torch = situation.torch
    if torch is None or torch.source != "description":
        return
    from gpudoctor.frameworks.torch.coverage import never_published

    if never_published(situation):
        yield _never_published(situation, torch)
        return
    python = situation.python
    if not python or f"Python {python}" in situation.machine.assumed:
        return
    row = situation.build_of(torch)
    if row is None or not row.pythons or python in row.pythons:
        return
    usual = [version for version in row.pythons if not version.endswith("t")] or row.pythons
    yield Finding(
        severity="error",
        message=f"{build_name(torch)} has no wheel for Python {python}.",
        saw=f"Python {python}",
        want=f"Python {usual[0]} to {usual[-1]}",
        subject=f"torch {torch.version}",
        evidence=(Evidence("torch_builds.pythons", " ".join(row.pythons), row.source),),
        fixes=better_torch(situation),
    )


def _never_published(situation: Situation, torch: Torch) -> Finding:
    from gpudoctor.frameworks.torch.coverage import rocm_exists

    version = torch.release
    builds_of_it = situation.matrix.torch.published_builds(version, situation.platform)
    alike = sorted(build for build in builds_of_it if build[:2] == (torch.build or "")[:2])
    what = f"has no build {torch.build} for {situation.platform}" if builds_of_it else "was never released"
    if torch.rocm and not rocm_exists(situation):
        what = f"has no build for ROCm on {situation.platform}, nor has any other release"
    elif builds_of_it and torch.rocm and torch.rocm.count(".") < 2:
        what += f" on PyTorch's index. A wheel of AMD's own has all three numbers of its ROCm (+rocm{torch.rocm}.1)"
    return Finding(
        severity="error",
        message=f"There is no torch {torch.version}: torch {version} {what}.",
        saw=f"torch {torch.version}",
        want=", ".join(alike or builds_of_it) or "a release that exists",
        subject=f"torch {torch.version}",
        evidence=(Evidence("torch_builds", ", ".join(builds_of_it) or f"no torch {version}", "compat_matrix"),),
        fixes=better_torch(situation),
        supersedes=_JUDGED_BY_ITS_BUILD,
    )


_JUDGED_BY_ITS_BUILD = (
    *("torch-no-arch-for-gpu", "torch-dropped-old-gpu", "torch-rocm-no-arch-for-gpu", "rocblas-no-arch"),
    *("driver-too-old", "cuda-torch-on-amd", "torch-cpu-only", *REPAIRED_WITH_TORCH),
)
