"""A cuDNN that does not match this torch or the GPU (GPD311)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, Manual
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.gpu_coverage import (
    Fit,
    better_torch,
    build_name,
    equal_fits,
    finding_about,
    fits,
    weight,
)
from gpudoctor.frameworks.torch.shadowed_libraries import (
    clear_the_way,
    in_the_way,
    judged_here,
    pinned_again,
    pins,
    shadow_evidence,
    two_in_one_folder,
    wanted_version,
    wheels_of,
)
from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation, needs


@check("GPD311", "cudnn-mismatch", "runtime", needs=needs.torch)
def cudnn_mismatch(situation: Situation) -> Verdicts:
    """This torch, or the GPU, cannot use the cuDNN that is loaded.

    ## Why it matters
    torch fails with "cuDNN version incompatibility: PyTorch was compiled against (9, 10, 2) but found runtime version
    (9, 1, 0)" at the first convolution, or already at import. cuDNN also drops GPUs that torch still supports. There
    everything runs except convolutions, which fail with CUDNN_STATUS_EXECUTION_FAILED or NOT_SUPPORTED.

    ## How it is judged
    A cuDNN of another major, or older than the one that torch was compiled against, is an error. A newer one of the
    same major is fine. The check looks at a cuDNN that a load-path variable puts before the wheel's (and that really
    wins), at the installed nvidia-cudnn wheel, and at wheels for two CUDA majors in one folder. Each release supports
    GPUs from a generation on, read from its libraries: up to 8.7 from Kepler, up to 9.10 from Maxwell, then Turing.

    ## Fix safety
    Removes a folder from a variable for this process, or reinstalls one package in this environment.
    """
    yield from _without_gpu(situation)
    if not judged_here(situation):
        return
    wanted = wanted_version(situation, "nvidia-cudnn")
    library = in_the_way(situation, "libcudnn")
    if library is not None and wanted and library.version and _incompatible(library.version, wanted):
        yield _cudnn(
            f"torch loads cuDNN {library.version} from {library.path} ({library.via}), but was built with {wanted}.",
            library.version,
            wanted,
            shadow_evidence(situation, library, wanted),
            clear_the_way(situation, library),
        )
        return
    pin = pins(situation).get("nvidia-cudnn")
    found = wheels_of(situation, "nvidia-cudnn")
    if pin is None or not found:
        return
    name = f"nvidia-cudnn-cu{pin[0]}" if pin[0] else "nvidia-cudnn"
    own = next((d for d in found if d.name == name), None)
    if own is not None and _incompatible(own.version, pin[1]):
        again = pinned_again(situation, "nvidia-cudnn", pin[1], "the version that torch was built with")
        evidence = (
            Evidence(own.name, own.version, own.path),
            Evidence("torch needs", pin[1], "requirements of torch"),
        )
        yield _cudnn(
            f"cuDNN {own.version} is installed, but this torch was built with {pin[1]}.",
            own.version,
            pin[1],
            evidence,
            again,
        )
        return
    others = tuple(d for d in found if d.name != name and figures(d.version)[:1] == figures(pin[1])[:1])
    # Each cuDNN loads the cuBLAS of its own CUDA when it first computes, so a working import of torch proves nothing.
    if others:
        yield two_in_one_folder(situation, "nvidia-cudnn", others, pin[1])


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
        refs=("pytorch/pytorch#80637",),
        supersedes=("torch-import-fails",),
    )


# --- the GPU --------------------------------------------------------------------------------------


def _without_gpu(situation: Situation) -> Verdicts:
    """GPUs that torch has code for, but the cuDNN that it loads has not."""
    loaded = _loaded(situation)
    if situation.torch is None or loaded is None:
        return
    version = loaded.value
    gpus = [
        gpu for gpu in situation.usable_of("nvidia") if situation.matrix.cudnn_lacks(version, gpu.arch.value or "")
    ]
    if not gpus:
        return
    all_fits = fits(situation)
    # Another GPU may be ignored only beside GPUs that cuDNN supports.
    others = tuple(fit for fit in all_fits if fit.gpu not in gpus)
    for group in equal_fits(tuple(fit for fit in all_fits if fit.gpu in gpus and fit.carried.runs == "yes")):
        fit = group[0]
        lowest = situation.matrix.cudnn_lacks(version, fit.gpu.arch.value or "") or ""
        severity = weight(fit, (fit, *others))
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
    library = in_the_way(situation, "libcudnn")
    if library is not None and library.version:
        return Evidence(library.name, library.version, library.path)
    own = next(iter(_installed(situation)), None)
    if own is not None:
        return Evidence(own.name, own.version, own.path)
    if situation.torch is None or not judged_here(situation):
        return None
    pin = pins(situation).get("nvidia-cudnn")
    if pin and pin[0] in ("", _cuda_major(situation)):
        return Evidence("torch needs", pin[1], "requirements of torch")
    build = situation.matrix.build_of(situation.torch, situation.platform)
    version = situation.matrix.cudnn_of(build) if build else None
    return Evidence("torch needs", version, _BY_THE_MATRIX) if version else None


def _installed(situation: Situation) -> tuple[Distribution, ...]:
    """The installed cuDNN for the CUDA of this torch: a wheel's, or in a conda environment conda's."""
    if situation.torch is None or not situation.torch.cuda:
        return ()
    if situation.torch.origin in ("conda", "conda-forge"):
        listed = situation.environment.distributions.value if situation.environment else None
        return tuple(d for d in listed or () if d.name in ("cudnn", "libcudnn"))
    if not judged_here(situation):
        return ()
    names = (f"nvidia-cudnn-cu{_cuda_major(situation)}", "nvidia-cudnn")
    return tuple(d for d in wheels_of(situation, "nvidia-cudnn") if d.name in names)


def _cuda_major(situation: Situation) -> str:
    return (situation.torch.cuda or "").partition(".")[0] if situation.torch else ""


def _another_cudnn(situation: Situation, fit: Fit) -> tuple[Fix, ...]:
    """The cuDNN that torch pins, if it supports the GPU; otherwise another torch."""
    sm = fit.gpu.arch.value or ""
    library = in_the_way(situation, "libcudnn")
    if library is not None and library.version:
        return (clear_the_way(situation, library),)
    pin = pins(situation).get("nvidia-cudnn") if judged_here(situation) else None
    if pin and not situation.matrix.cudnn_lacks(pin[1], sm):
        return (pinned_again(situation, "nvidia-cudnn", pin[1], f"it has kernels for {sm}"),)
    if situation.torch and situation.torch.origin in ("conda", "conda-forge"):
        rows = [row for row in situation.matrix.tables.cudnn_floors if figures(row.lowest) <= figures(sm)]
        newest = rows[-1].cudnn.rpartition(",")[2] if rows else ""
        text = f"conda install -c conda-forge 'cudnn{newest}' in this environment."
        return (
            (Fix("Install a cuDNN that has kernels for the GPU", (Manual(text, risk="replaces"),)),) if rows else ()
        )
    return better_torch(situation)
