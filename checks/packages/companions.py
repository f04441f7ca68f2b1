"""Whether torchvision, torchaudio and Triton match the installed torch (GPD420, GPD421, GPD431)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts
from gpudoctor.dependencies import find_one
from gpudoctor.finding import Finding, Fix, ReplacePackage, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX, version_evidence
from gpudoctor.machine import Torch
from gpudoctor.machine.torch import CompanionName
from gpudoctor.matrix.versions import figures, local_version
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import TorchBuild


@check("GPD420", "torchvision-mismatch", "packages")
def torchvision_mismatch(situation: Situation) -> Verdicts:
    """The installed torchvision does not match the installed torch.

    ## Why it matters
    torchvision is compiled for one torch. With another, `import torchvision` fails with "operator
    torchvision::nms does not exist" or an undefined symbol.

    ## How it is judged
    By the pairs in the matrix. From 0.29.1 on one torchvision works with all later torch releases. A build for
    another GPU maker or another CUDA major than torch's does not match either. Pairs from conda, NGC images or own
    builds are not compared; a wheel of the package index beside conda's torch, a distribution's or a nightly one is.

    ## Fix safety
    Replaces only torchvision.
    """
    yield from _companion(situation, "torchvision")


@check("GPD421", "torchaudio-mismatch", "packages")
def torchaudio_mismatch(situation: Situation) -> Verdicts:
    """The installed torchaudio does not match the installed torch.

    ## Why it matters
    torchaudio is compiled for one torch. With another, its library fails to load (undefined symbol).

    ## How it is judged
    By the pairs in the matrix. 2.11, the last release, works with every torch from 2.11 on. A build for another GPU
    maker or another CUDA than torch's does not match either (major and minor: torchaudio compares both). Pairs from
    conda, NGC images or own builds are not compared; a wheel of the package index beside conda's torch, a
    distribution's or a nightly one is.

    ## Fix safety
    Replaces only torchaudio.
    """
    yield from _companion(situation, "torchaudio")


@check("GPD431", "triton-too-old", "packages")
def triton_too_old(situation: Situation) -> Verdicts:
    """The installed Triton is older than the one that this torch pins.

    ## Why it matters
    torch.compile imports names that an older Triton does not have; everything else runs.

    ## How it is judged
    By the release (major and minor) that the matrix says torch pins. A newer Triton is accepted: people install one
    for a new GPU. Triton from conda, NGC images or own builds is not compared.

    ## Fix safety
    Replaces only Triton.
    """
    torch, installed = situation.torch, find_one("triton", situation.machine.installed)
    release = situation.matrix.torch.release(torch.version) if torch else None
    if torch is None or installed is None or release is None or release.triton is None:
        return
    if torch.origin not in FROM_AN_INDEX or situation.built_for != "nvidia" or installed.installer == "conda":
        return
    if figures(installed.version)[:2] >= figures(release.triton)[:2]:
        return
    pin = release.triton
    remedy = ReplacePackage("triton", pin, why=f"torch {torch.release} pins it")
    yield Finding(
        severity="warning",
        message=f"triton {installed.version} is older than the one torch {torch.version} pins ({pin}): "
        "torch.compile may fail.",
        saw=f"triton {installed.version}",
        want=f"triton {pin}",
        subject=f"triton {installed.version}",
        confidence="likely",
        evidence=version_evidence(torch, installed),
        fixes=(Fix(f"Install triton {pin}", (remedy,)),),
    )


def _companion(situation: Situation, package: CompanionName) -> Verdicts:
    torch, installed = situation.torch, situation.machine.installed(package)
    if torch is None or installed is None:
        return
    from gpudoctor.frameworks.torch.companions import matching_release, mismatch

    reason = mismatch(situation, package)
    if reason is None:
        return
    from gpudoctor.frameworks.torch.agreed_release import agreed_torch

    row = situation.matrix.torch.companion(torch.version)
    wanted = matching_release(situation, row, package) if row else ""
    message = f"{package} {installed.version} was not built for torch {torch.version}"
    message += f": {reason}." if reason else f"; {wanted} matches it." if wanted else "."
    yield Finding(
        severity="error",
        message=message,
        saw=f"{package} {installed.version}",
        want=f"{package} {wanted or 'of this torch'}{_build_text(torch)}",
        subject=f"{package} {installed.version}",
        evidence=version_evidence(torch, installed),
        fixes=(*(() if reason else agreed_torch(situation)), _pair(situation, torch, package, wanted)),
        refs=("PyTorch release compatibility table",),
    )


def _build_text(torch: Torch) -> str:
    return f" for {torch.build}" if torch.build and local_version(torch.version) else ""


def _offered(situation: Situation, version: str, build: TorchBuild) -> bool:
    """Whether the index of a build has this torchaudio: it is released with the torch of its number."""
    return any(
        row.version == version and row.build == build.build for row in situation.matrix.torch.builds(build.platform)
    )


def _pair(situation: Situation, torch: Torch, package: CompanionName, wanted: str) -> Fix:
    if not wanted:
        text = f"Install the {package} that was released with torch {torch.release}."
        return by_hand(f"Install the {package} of this torch", text, "replaces")
    row = situation.build_of(torch)
    local = torch.build or ""
    url = situation.matrix.torch.index_url(row) if row else ""
    if not url:
        local = ""
    if (
        package == "torchaudio"
        and row
        and row.origin == "download.pytorch.org"
        and not _offered(situation, wanted, row)
    ):
        text = (
            f"There is no {package} {wanted} for {row.build}: uninstall {package}, or install torch "
            f"{torch.release} and {package} {wanted} for a CUDA that has both."
        )
        return by_hand(f"Do without {package}, or use another CUDA", text, "replaces")
    remedy = ReplacePackage(
        package, f"=={wanted}", index_url=url, local=local, why=f"it matches torch {torch.release}"
    )
    return Fix(f"Install {package} {wanted}", (remedy,))
