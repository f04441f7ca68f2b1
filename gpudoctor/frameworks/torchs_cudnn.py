"""Builds of other frameworks whose libraries would write the cuDNN of another CUDA over torch's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpudoctor.finding import Fix, ReplacePackage, by_hand
from gpudoctor.matrix.rows.packages import FrameworkBuild
from gpudoctor.matrix.versions import major_of
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework


def cudnn_wheel(build: FrameworkBuild) -> str | None:
    """NVIDIA's wheel of the cuDNN 9 that a build loads, where its extra installs one."""
    loads = "libcudnn.so.9" in build.opens or "cudnn" in build.extra.split(",")
    return f"nvidia-cudnn-cu{major_of(build.cuda)}" if build.cuda and build.extra and loads else None


def replaces_cudnn_of_torch(situation: Situation, build: FrameworkBuild) -> bool:
    """Whether the libraries that come with a build write the cuDNN of another CUDA over torch's."""
    cuda = situation.torch_cuda
    return bool(cuda and cudnn_wheel(build)) and major_of(build.cuda) != major_of(cuda)


def beside_torch(situation: Situation, framework: InstalledFramework, fixes: Iterable[Fix]) -> Iterator[Fix]:
    """The fixes of a framework, without those that install the cuDNN of another CUDA over torch's."""
    build = framework.build
    extra = build.extra if build and replaces_cudnn_of_torch(situation, build) else None
    for fix in fixes:
        if extra is None or not any(isinstance(one, ReplacePackage) and one.extra == extra for one in fix.remedies):
            yield fix


def environment_of_its_own(
    situation: Situation, framework: InstalledFramework, build: FrameworkBuild | None = None
) -> Iterator[Fix]:
    """What a person can do where torch and a build of a framework, by default the installed one, bring cuDNN of
    different CUDAs."""
    build = build or framework.build
    if build is None or not replaces_cudnn_of_torch(situation, build):
        return
    own, theirs = major_of(build.cuda), major_of(situation.torch_cuda)
    text = (
        f"{framework.title} needs CUDA {own}, and torch here brings CUDA {theirs}: in one environment they overwrite "
        f"each other's cuDNN and NCCL. Make an environment for {framework.title} alone; or install a "
        f"torch for CUDA {own} here (`gpudoctor recommend`)."
    )
    yield by_hand(f"An environment for {framework.title} alone", text, "replaces")
