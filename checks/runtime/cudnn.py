"""A cuDNN that this torch or the GPU can use (GPD311)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, Manual
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.gpu_coverage import Fit, about, alike, better_torch, build_name, fits, weight
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
    """The cuDNN that is loaded is not one that this torch can use.

    ## Why it matters
    torch ends with "cuDNN version incompatibility: PyTorch was compiled against (9, 10, 2) but found runtime version
    (9, 1, 0)" at the first convolution or already at import. cuDNN also drops GPUs that torch still has code for:
    there everything runs but convolutions, which end with CUDNN_STATUS_EXECUTION_FAILED, or NOT_SUPPORTED.

    ## How it is judged
    Of another major, or older than the one that torch was compiled against: an error. A newer one of the same major
    is fine. Looked at are a cuDNN that a load-path variable puts before the wheel's (and that really wins), the
    installed nvidia-cudnn wheel, and wheels for two CUDA majors that lie in one folder. Which GPUs a release has
    kernels for is read from its libraries: up to 8.7 from Kepler on, up to 9.10 from Maxwell on, then from Turing on.

    ## Fix safety
    Takes a folder out of a variable for this process, or installs one package again in this environment.
    """
    yield from _without_gpu(situation)
    if not judged_here(situation):
        return
    wanted = wanted_version(situation, "nvidia-cudnn")
    library = in_the_way(situation, "libcudnn")
    if library is not None and wanted and library.version and _unfit(library.version, wanted):
        yield _cudnn(
            f"{library.via} has torch load cuDNN {library.version} from {library.path}; it was built with {wanted}.",
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
    if own is not None and _unfit(own.version, pin[1]):
        again = pinned_again(situation, "nvidia-cudnn", pin[1], "the version that torch was built with")
        evidence = (
            Evidence(own.name, own.version, own.path),
            Evidence("torch needs", pin[1], "requirements of torch"),
        )
        yield _cudnn(
            f"cuDNN {own.version} is installed; this torch was built with {pin[1]}.",
            own.version,
            pin[1],
            evidence,
            again,
        )
        return
    others = tuple(d for d in found if d.name != name and figures(d.version)[:1] == figures(pin[1])[:1])
    # Each cuDNN loads the cuBLAS of its own CUDA, when it first computes: that torch can be imported proves nothing.
    if others:
        yield two_in_one_folder(situation, "nvidia-cudnn", others, pin[1])


def _unfit(version: str, wanted: str) -> bool:
    """torch's own rule: the same major, and no older minor."""
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
    """GPUs that torch has code for, and the cuDNN that it loads has not."""
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
    # Only GPUs that cuDNN serves count as those beside which another may be left aside.
    others = tuple(fit for fit in all_fits if fit.gpu not in gpus)
    for group in alike(tuple(fit for fit in all_fits if fit.gpu in gpus and fit.carried.runs == "yes")):
        fit = group[0]
        lowest = situation.matrix.cudnn_lacks(version, fit.gpu.arch.value or "") or ""
        severity = weight(fit, (fit, *others))
        yield about(
            group,
            severity=severity,
            message=f"{build_name(situation.torch)} loads cuDNN {version}, which has no kernels for {fit.gpu.name} "
            f"({fit.gpu.arch.value}): convolutions fail there, all else runs."
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
    """The cuDNN that torch loads, as far as can be told: a variable's, the installed one, the one that it pins."""
    library = in_the_way(situation, "libcudnn")
    if library is not None and library.version:
        return Evidence(library.name, library.version, library.path)
    own = next(iter(_own(situation)), None)
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


def _own(situation: Situation) -> tuple[Distribution, ...]:
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
    """The cuDNN that torch pins, where that serves the GPU; else another torch."""
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
        return (Fix("Take a cuDNN that has kernels for the GPU", (Manual(text, risk="replaces"),)),) if rows else ()
    return better_torch(situation)
