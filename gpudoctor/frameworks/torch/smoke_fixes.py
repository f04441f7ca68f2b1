"""Fixes for a failed smoke kernel, where no problem found on the machine offers one.

Holds no checks itself.
"""

from __future__ import annotations

import shlex

from msgspec.structs import replace

from gpudoctor.finding import (
    AddContainerFlags,
    Fix,
    InstallSystemPackage,
    Manual,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    UnsetVariable,
    by_hand,
)
from gpudoctor.frameworks.torch.companions import of_this_torch
from gpudoctor.frameworks.torch.gpu_coverage import fits, fixes_beside
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX, better_torch
from gpudoctor.frameworks.torch.reinstall import reinstall_torch
from gpudoctor.frameworks.torch.replacements import without_fault
from gpudoctor.frameworks.torch.shadowed_libraries import (
    clear_the_way,
    in_the_way,
    judged_here,
    pins,
    reinstall_pinned,
)
from gpudoctor.frameworks.torch.smoke_faults import CRASH, NO_CODE, WRONG, Fault
from gpudoctor.machine import LISTING, Gpu
from gpudoctor.matrix.versions import figures, local_version, public_version
from gpudoctor.plain_text import for_vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.circumstances import for_these_gpus
from gpudoctor.situation.driver_choice import driver_to_install, install_driver
from gpudoctor.situation.nvidia_driver import cudas_too_new
from gpudoctor.situation.wsl import NO_AMDGPU_HERE, UPDATE_WINDOWS

_SWITCHES = {
    "attention-memory-efficient": "torch.backends.cuda.enable_mem_efficient_sdp(False)",
    "attention-flash": "torch.backends.cuda.enable_flash_sdp(False)",
    "attention-cudnn": "torch.backends.cuda.enable_cudnn_sdp(False)",
}
"""How a program avoids one backend of scaled_dot_product_attention."""

_OF_THE_DRIVER = frozenset(
    ("no-driver", "driver-too-old", "driver-lib-mismatch", "nvidia-uvm-missing", "nvidia-uvm-after-suspend")
)
"""Causes that are mended in Linux' own driver."""

_SHADOWED, _MOST_NAMED = "ld-library-path-shadow", 3
_COMPANIONS = ("torchvision-mismatch", "torchaudio-mismatch")

_MATH = (
    "Use the math backend for attention: torch.backends.cuda.enable_flash_sdp(False) and "
    "torch.backends.cuda.enable_mem_efficient_sdp(False), from torch 2.5 on also enable_cudnn_sdp(False). It is "
    "slower and needs more memory."
)
_CONVOLUTION = "Set torch.backends.cudnn.enabled = False, which avoids cuDNN (on AMD GPUs MIOpen). It is slower."


def fixes(situation: Situation, fault: Fault) -> tuple[Fix, ...]:
    """Best first; never empty."""
    if fault.slug in NO_CODE:
        return _with_code(situation, fault) or _as_told(situation, fault)
    if not fault.kernels:  # a text that a person saw: which kernel printed it is unknown
        return _of_cause(situation, fault) or _as_told(situation, fault)
    if fault.slug in (CRASH, WRONG):
        return (*_as_told(situation, fault), *_around(fault), *_found_out(situation, fault))
    return _of_cause(situation, fault) or _as_told(situation, fault)


def _as_told(situation: Situation, fault: Fault) -> tuple[Fix, ...]:
    """Fixes from the row that matched the text. Inside WSL the driver is Windows'."""
    found = []
    for row in fault.causes[:1]:
        of_driver = not _OF_THE_DRIVER.isdisjoint(row.causes)
        of_rocm = "rocm-wsl-unsupported" in row.also and (fault.vendor == "amd" or not of_driver)
        if situation.in_wsl and (of_rocm or of_driver) and not row.mended_in_wsl:
            return (NO_AMDGPU_HERE if of_rocm else UPDATE_WINDOWS,)
        if row.slug == _SHADOWED and (folders := _shadowing(situation)):
            why = row.meaning if len(folders) == 1 else f"{row.meaning}, from one of these folders"
            title = f"Take {', '.join(folders)} out of LD_LIBRARY_PATH"
            return (Fix(title, (UnsetVariable("LD_LIBRARY_PATH", why=why),)),)
        settings = tuple(SetVariable(name, value, why=row.meaning) for name, value in row.variables.items())
        words = for_these_gpus(for_vendor(row.workaround, fault.vendor), situation)
        found.append(Fix(words, settings or (Manual(words),)))
    return tuple(found)


def _shadowing(situation: Situation) -> tuple[str, ...]:
    """The folders of LD_LIBRARY_PATH, whose libraries come before those of the wheels; none with the driver's of WSL,
    which has to stay."""
    parts = (situation.variable("LD_LIBRARY_PATH") or "").split(":")
    folders = tuple(part for part in parts if part.startswith(("/", "~/")))
    return () if any("/wsl/" in folder for folder in folders) else folders[:_MOST_NAMED]


def _with_code(situation: Situation, fault: Fault) -> tuple[Fix, ...]:
    """Builds for the GPU, without the one that just failed on it; none if the GPU is unknown, or if another program
    failed."""
    if not fault.gpus or not all(row.of_torch for row in fault.causes):
        return ()
    all_fits = fits(situation)
    fit = next((fit for fit in all_fits if fit.gpu in fault.gpus), None)
    fixes = fixes_beside(situation, fit, all_fits) if fit else better_torch(_with_only(situation, fault.gpus))
    others = tuple(fix for fix in fixes if not _changes_nothing(situation, fix))
    torch = situation.torch
    if torch is None or others == fixes:
        return others
    # The build as released has code for the GPU. Where its files were not read, they may be others, or damaged.
    another = without_fault(situation, lambda choice: torch.is_build(choice.version, choice.build))[:1]
    read = fit is not None and not fit.carried.source.startswith("compat_matrix")
    again = reinstall_torch(situation, torch)
    return tuple(dict.fromkeys((*another, again, *others) if read else (again, *another, *others)))


def _with_only(situation: Situation, gpus: tuple[Gpu, ...]) -> Situation:
    """The machine as if it had these GPUs alone: a build for another one does not help them."""
    alone = situation.machine.pasted is None or len(gpus) == len(situation.machine.gpus)
    return situation if alone else Situation(replace(situation.machine, gpus=gpus), situation.matrix)


def _changes_nothing(situation: Situation, fix: Fix) -> bool:
    torch = situation.torch
    return torch is not None and all(
        isinstance(remedy, ReplaceTorch) and torch.is_build(remedy.version, remedy.build) and not remedy.extra
        for remedy in fix.remedies
    )


def _of_cause(situation: Situation, fault: Fault) -> tuple[Fix, ...]:
    """Fixes for a cause that the machine's facts confirm, though they did not reveal the problem."""
    if fault.slug in _COMPANIONS:
        return _companion(situation, fault.slug.partition("-")[0])
    library = {"cudnn-mismatch": "libcudnn", "nccl-shadowed": "libnccl", "ld-library-path-shadow": "libnvJitLink"}
    if fault.slug in library:
        other = in_the_way(situation, library[fault.slug])
        base = f"nvidia-{library[fault.slug].removeprefix('lib').lower()}"
        pin = pins(situation).get(base) if judged_here(situation) else None
        cleared = (clear_the_way(situation, other),) if other else ()
        return (
            *cleared,
            *((reinstall_pinned(situation, base, pin[1], "the version that torch pins"),) if pin else ()),
        )
    if fault.slug == "python-dev-missing":
        python = (situation.environment.python.value or "").rstrip("t")
        remedy = InstallSystemPackage("python-headers", version=python, why="Triton compiles against Python.h")
        return (Fix("Install Python's headers", (remedy,)),)
    if fault.slug == "driver-too-old" and all("no-driver" in row.also for row in fault.causes):
        return newer_driver(situation)
    if fault.slug == "shm-small" and situation.in_container:
        return (Fix("Start the container with more shared memory", (AddContainerFlags("shm"),)),)
    return ()


def newer_driver(situation: Situation) -> tuple[Fix, ...]:
    """A driver that runs at least one more CUDA; none where the GPUs have none, or the present one runs all."""
    oldest = next((driver for _, driver in cudas_too_new(situation)), None)
    driver = driver_to_install(situation, at_least=oldest) if oldest else None
    if oldest is None or driver is None or figures(driver.branch)[:1] < figures(oldest)[:1]:
        return ()
    return (install_driver(situation, at_least=oldest),)


def _companion(situation: Situation, package: str) -> tuple[Fix, ...]:
    found = of_this_torch(situation, package)
    if found is None or situation.torch is None or situation.torch.origin not in FROM_AN_INDEX:
        return ()
    version, local = public_version(found[0]), local_version(found[0])
    remedy = ReplacePackage(package, f"=={version}", index_url=found[1], local=local, why="it belongs to this torch")
    return (Fix(f"Install {package} {version}", (remedy,)),)


def _around(fault: Fault) -> tuple[Fix, ...]:
    """How a program avoids what failed, if torch has a setting for it."""
    names = {kernel.name for kernel in fault.kernels}
    if len(names) == 1 and (switch := _SWITCHES.get(next(iter(names)))):
        return (by_hand("Use another attention backend", f"Call {switch} before the model runs."),)
    if all(name.startswith("attention") and name != "attention-math" for name in names):
        return (by_hand("Use the math backend of attention", _MATH),)
    if all(name.startswith("conv") for name in names):
        return (by_hand("Compute convolutions without cuDNN or MIOpen", _CONVOLUTION),)
    return ()


def _found_out(situation: Situation, fault: Fault) -> tuple[Fix, ...]:
    """The steps that tell software from hardware, in order."""
    kernel, device = fault.kernels[0], fault.devices[0] if fault.devices else ""
    level = situation.machine.smoke.level if situation.machine.smoke else "quick"
    alone = f"gpudoctor smoke --level {level}"
    if device and kernel.name != LISTING:
        alone += f" --kernel {kernel.name} --device {device}"
    if situation.environment.prefix:
        alone += f" --python {shlex.quote(situation.environment.prefix)}"
    again = (
        f"Run it again alone: `{alone}`. If it sometimes passes, the fault comes and goes: check heat, "
        "power supply and overclocking, and `dmesg`."
    )
    vendor = fault.gpus[0].vendor if fault.gpus else situation.built_for if device != "cpu" else None
    memory = {
        "nvidia": "Check `nvidia-smi -q -d ECC,ROW_REMAPPER,TEMPERATURE`; on servers run `dcgmi diag -r 3`.",
        "amd": "Check `amd-smi metric --ecc --temperature` and `dmesg | grep amdgpu`.",
        None: "Test the computer's memory (memtest86+).",
    }[vendor]
    other = (
        "Run the same kernel with another torch build in a new environment (`gpudoctor recommend` names builds), and "
        "with another driver release. Whatever changes the result is at fault."
        if vendor
        else "Run the same kernel in a new environment with the same torch: if it passes there, this one is at fault."
    )
    report = "Report it with `gpudoctor snapshot > machine.json` and the output of the run above."
    fixes = [
        by_hand("Run it again alone", again),
        by_hand("Check the hardware", memory),
        by_hand("Try another torch build or driver" if vendor else "Try a new environment", other),
        by_hand("Report it", report),
    ]
    if vendor is None and situation.torch and device == "cpu":
        fixes.insert(1, reinstall_torch(situation, situation.torch))
    return tuple(fixes)
