"""A cuDNN that does not match this torch or the GPU (GPD311)."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.check import Verdicts
from gpudoctor.finding import Confidence, Evidence, Finding, Fix, ReplacePackage, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.installed_build import better_torch, build_name
from gpudoctor.frameworks.torch.nvidia_wheels import stem_of
from gpudoctor.frameworks.torch.shadowed_libraries import (
    clear_the_way,
    cudnn_in_the_way,
    judged_here,
    missing_symbols,
    pinned_and_others,
    pins,
    reinstall_pinned,
    shadow_evidence,
    two_in_one_folder,
    wanted_version,
    wheels_of,
)
from gpudoctor.machine import Distribution, Library
from gpudoctor.matrix.versions import figures, major_of, package_matches
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import finding, gpu_names
from gpudoctor.situation.issue_findings import of_slug

if TYPE_CHECKING:
    from gpudoctor.frameworks.torch.gpu_coverage import Fit


@check("GPD311", "cudnn-mismatch", "runtime")
def cudnn_mismatch(situation: Situation) -> Verdicts:
    """This torch, or the GPU, cannot use the cuDNN that is loaded.

    ## Why it matters
    torch fails with "cuDNN version incompatibility: PyTorch was compiled against (9, 10, 2) but found runtime version
    (9, 1, 0)" at the first convolution, or already at import. cuDNN also drops GPUs that torch still supports. There
    everything runs except convolutions, which fail with CUDNN_STATUS_EXECUTION_FAILED or NOT_SUPPORTED.

    ## How it is judged
    A cuDNN of another major, or older than the one that torch was compiled against, is an error. A newer one of the
    same major is fine. The check looks at a cuDNN that a load-path variable puts before the wheel's (and that really
    wins), at the installed nvidia-cudnn wheel, and at wheels for two CUDA majors in one folder. libcudnn opens its
    sublibraries only when it needs them, and there LD_LIBRARY_PATH wins over the wheel: they must be of one release,
    and must have the functions that libcudnn calls. Each release supports
    GPUs from a generation on, read from its libraries: up to 8.7 from Kepler, up to 9.10 from Maxwell, then Turing.
    That is held against the wheel that other frameworks load (JAX, TensorFlow, ONNX Runtime), too.
    Packages that load a cuDNN of another major than torch's are known issues of the matrix.

    ## Fix safety
    Removes a folder from a variable for this process, or reinstalls one package in this environment.
    """
    yield from _without_gpu(situation)
    yield from _beside_torch(situation)
    yield from of_slug(situation, "cudnn-mismatch")
    if not judged_here(situation):
        return
    replaced = tuple(_replaced(situation))
    yield from replaced
    if replaced:
        return
    pin = pins(situation).get("nvidia-cudnn")
    if pin is None:
        return
    own, others = pinned_and_others(situation, "nvidia-cudnn", pin[0])
    if own is not None and _incompatible(own.version, pin[1]):
        again = reinstall_pinned(situation, "nvidia-cudnn", pin[1], "the version that torch was built with")
        evidence = (Evidence.of_package(own), Evidence("torch needs", pin[1], "requirements of torch"))
        yield _cudnn(
            f"cuDNN {own.version} is installed, but this torch was built with {pin[1]}.",
            own.version,
            pin[1],
            evidence,
            again,
        )
        return
    alike = tuple(other for other in others if figures(other.version)[:1] == figures(pin[1])[:1])
    # Each cuDNN loads the cuBLAS of its own CUDA when it first computes, so a working import of torch proves nothing.
    if alike:
        yield two_in_one_folder(situation, "nvidia-cudnn", alike, pin[1])


def _replaced(situation: Situation) -> Verdicts:
    """A cuDNN from elsewhere that torch's own cannot work with, whole or in part."""
    wanted = wanted_version(situation, "nvidia-cudnn")
    # Where the wheel has lost its file, another one is found in its place; the damage is told elsewhere.
    lost = {posixpath.basename(file.path) for one in _installed(situation) for file in one.lost}
    foreign = tuple(one for one in cudnn_in_the_way(situation) if one.name not in lost)
    missing = next(missing_symbols(situation, "libcudnn"), None)
    lacking = next((one for one in foreign if missing and one.path in (missing.path, missing.needed_by)), None)
    other = next((one for one in foreign if wanted and one.version and _incompatible(one.version, wanted)), None)
    own = next((one.version for one in _installed(situation)), wanted)
    library = lacking or other or (_mixed(situation, foreign, own) if own else None)
    if library is None:
        return
    whole = stem_of(library.name) == "libcudnn"
    found = f"cuDNN {library.version}" if library.version else "another cuDNN"
    what = f"{found} from {library.path}" if whole else f"{library.path} of {found}"
    reason = f"but was built with {wanted}" if whole else f"beside the wheel's own libraries of {own}"
    why = (
        f", and {missing.symbols[0]} is missing in it" if lacking and missing and missing.path == lacking.path else ""
    )
    # What torch was compiled against may be older than what it pins.
    sure: Confidence = "certain" if lacking or whole else "likely"
    works = not whole and _convolves(situation)
    effect = (
        "Convolutions computed right here, others may fail." if works else "Convolutions fail or end the process."
    )
    problem = _cudnn(
        f"torch loads {what} ({library.via}), {reason}{why}. {effect}",
        library.version or library.path,
        wanted or "the cuDNN of torch",
        shadow_evidence(situation, library, wanted),
        clear_the_way(situation, library),
    )
    yield replace(problem, confidence=sure, severity="warning" if works else "error")


def _convolves(situation: Situation) -> bool:
    """Whether torch computed a convolution on a GPU, and computed it right."""
    kernels = situation.machine.kernels
    results = {one.status for one in kernels if one.name == "convolution" and one.device.startswith("cuda")}
    return results == {"pass"}


def _mixed(situation: Situation, foreign: tuple[Library, ...], own: str) -> Library | None:
    """One of several libraries that only together make up a cuDNN, if others of them are of another release."""
    rows = [row for row in situation.matrix.tables.late_libraries if row.opener == "libcudnn"]
    rows = [row for row in rows if row.version is None or package_matches(row.version, own)]
    parts = {stem for row in rows for stem in row.opens}
    replaced = [one for one in foreign if stem_of(one.name) in parts]
    if parts <= {stem_of(one.name) for one in replaced}:
        return None
    return next((one for one in replaced if one.version and figures(one.version)[:3] != figures(own)[:3]), None)


def _incompatible(version: str, wanted: str) -> bool:
    """torch's own rule requires the same major, and no older minor."""
    return figures(version)[:1] != figures(wanted)[:1] or figures(version)[:2] < figures(wanted)[:2]


def _cudnn(message: str, saw: str, want: str, evidence: tuple[Evidence, ...], fix: Fix) -> Finding:
    return Finding(
        severity="error",
        message=message,
        saw=saw,
        want=f"{want}, or a newer one of the same major",
        subject="cuDNN",
        evidence=evidence,
        fixes=(fix,),
        refs=("pytorch/pytorch#80637", "opendatalab/MinerU#2664"),
        supersedes=("torch-import-fails", "requirements-incomplete"),
    )


# --- the GPU --------------------------------------------------------------------------------------


def _without_gpu(situation: Situation) -> Verdicts:
    """GPUs that torch has code for, but the cuDNN that it loads has not."""
    loaded = _loaded(situation)
    if situation.torch is None or loaded is None:
        return
    version = loaded.value
    gpus = [
        gpu
        for gpu in situation.usable_of("nvidia")
        if situation.matrix.nvidia.cudnn_lacks(version, gpu.arch.value or "")
    ]
    if not gpus:
        return
    from gpudoctor.frameworks.torch.gpu_coverage import equal_fits, finding_about, fits, weight

    all_fits = fits(situation)
    # Another GPU may be ignored only beside GPUs that cuDNN supports.
    others = tuple(fit for fit in all_fits if fit.gpu not in gpus)
    for group in equal_fits(tuple(fit for fit in all_fits if fit.gpu in gpus and fit.carried.runs == "yes")):
        fit = group[0]
        lowest = situation.matrix.nvidia.cudnn_lacks(version, fit.gpu.arch.value or "") or ""
        severity = weight(situation, fit, others)
        yield finding_about(
            group,
            severity=severity,
            message=f"{build_name(situation.torch)} loads cuDNN {version}, which has no kernels for {fit.gpu.name} "
            f"({fit.gpu.arch.value}): convolutions fail on it, everything else runs."
            + (" The other GPUs work." if severity == "note" else ""),
            saw=f"cuDNN {version}",
            want=f"a cuDNN with kernels for {fit.gpu.arch.value}",
            confidence="likely" if loaded.source == _BY_THE_MATRIX else "certain",
            evidence=(
                Evidence.of("gpu.arch", fit.gpu.arch),
                loaded,
                Evidence("its oldest GPU", lowest, "compat_matrix: cudnn_floors"),
            ),
            fixes=_another_cudnn(situation, fit) if severity == "error" else (),
            refs=("pytorch/pytorch#162574",),
        )


_BY_THE_MATRIX = "compat_matrix: torch_builds"


def _loaded(situation: Situation) -> Evidence | None:
    """The cuDNN that torch loads, as far as known: a variable's, the installed one, or the one that torch pins."""
    library = _foreign(situation)
    if library is not None and library.version:
        return Evidence(library.name, library.version, library.path)
    own = next(iter(_installed(situation)), None)
    if own is not None:
        return Evidence.of_package(own)
    if situation.torch is None or not judged_here(situation):
        return None
    pin = pins(situation).get("nvidia-cudnn")
    if pin and pin[0] in ("", str(major_of(situation.torch_cuda))):
        return Evidence("torch needs", pin[1], "requirements of torch")
    build = situation.build_of(situation.torch)
    version = situation.matrix.torch.cudnn_of(build) if build else None
    return Evidence("torch needs", version, _BY_THE_MATRIX) if version else None


def _foreign(situation: Situation) -> Library | None:
    """The cuDNN from elsewhere, or what computes of it."""
    return next((one for one in cudnn_in_the_way(situation) if one.version), None)


def _installed(situation: Situation) -> tuple[Distribution, ...]:
    """The installed cuDNN for the CUDA of this torch: a wheel's, or in a conda environment conda's."""
    if situation.torch is None or not situation.torch.cuda:
        return ()
    if situation.torch.origin in ("conda", "conda-forge"):
        return tuple(d for d in situation.machine.packages if d.name in ("cudnn", "libcudnn"))
    if not judged_here(situation):
        return ()
    names = (f"nvidia-cudnn-cu{major_of(situation.torch_cuda)}", "nvidia-cudnn")
    return tuple(d for d in wheels_of(situation, "nvidia-cudnn") if d.name in names)


def _another_cudnn(situation: Situation, fit: Fit) -> tuple[Fix, ...]:
    """The cuDNN that torch pins, if it supports the GPU; otherwise another torch."""
    sm = fit.gpu.arch.value or ""
    library = _foreign(situation)
    if library is not None:
        return (clear_the_way(situation, library),)
    pin = pins(situation).get("nvidia-cudnn") if judged_here(situation) else None
    if pin and not situation.matrix.nvidia.cudnn_lacks(pin[1], sm):
        return (reinstall_pinned(situation, "nvidia-cudnn", pin[1], f"it has kernels for {sm}"),)
    if situation.torch and situation.torch.origin in ("conda", "conda-forge"):
        newest = situation.matrix.nvidia.cudnn_with(sm)
        text = f"In this environment:\nconda install -c conda-forge 'cudnn{newest}'"
        return (by_hand("Install a cuDNN that has kernels for the GPU", text, "replaces"),) if newest else ()
    return better_torch(situation)


# --- other frameworks -------------------------------------------------------------------------------


def _beside_torch(situation: Situation) -> Verdicts:
    """GPUs that a framework beside torch computes on, and for which NVIDIA's wheel of its cuDNN has no kernels."""
    ours, usable, listed = _installed(situation), situation.usable_of("nvidia"), situation.machine.packages
    wheels = {one.name: one for one in listed if one.name.startswith("nvidia-cudnn-cu") and one not in ours}
    if not wheels or not usable:
        return
    from gpudoctor.frameworks.torchs_cudnn import cudnn_wheel

    tables = situation.matrix.tables
    titles = {row.framework: row.title for row in (*tables.frameworks, *tables.frameworks_on_torch)}
    for build in tables.framework_builds:
        name, package = cudnn_wheel(build), situation.machine.installed(build.package)
        wheel = wheels.get(name or "")
        if name is None or package is None or wheel is None:
            continue
        if build.version and not package_matches(build.version, package.version):
            continue
        nvidia = situation.matrix.nvidia
        gpus = tuple(gpu for gpu in usable if nvidia.cudnn_lacks(wheel.version, gpu.arch.value or ""))
        if not gpus:
            continue
        sm = min((gpu.arch.value or "" for gpu in gpus), key=figures)
        newest, archs = nvidia.cudnn_with(sm), " and ".join(sorted({gpu.arch.value or "" for gpu in gpus}))
        older = ReplacePackage(name, newest, why=f"it has kernels for {archs}")
        yield finding(
            "error" if len(gpus) == len(usable) else "warning",
            gpus,
            message=f"{titles[build.framework]} ({package.name} {package.version}) loads cuDNN {wheel.version}, "
            f"which has no kernels for {gpu_names(gpus)} ({archs}): convolutions fail on it.",
            saw=f"cuDNN {wheel.version}",
            want=f"a cuDNN with kernels for {archs}",
            framework=build.framework,
            evidence=(
                Evidence.of_version(package),
                Evidence.of_package(wheel),
                Evidence(
                    "its oldest GPU", nvidia.cudnn_lacks(wheel.version, sm) or "", "compat_matrix: cudnn_floors"
                ),
            ),
            fixes=(Fix(f"Install {name} {newest}", (older,)),) if newest else (),
            refs=("pytorch/pytorch#162574",),
        )
