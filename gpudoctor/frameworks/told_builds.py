"""Which GPU build of a framework helps where a person saw that it finds no library of CUDA or ROCm."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from gpudoctor.finding import Fix, by_hand
from gpudoctor.frameworks.gpu_builds import builds_for, release_for, runs_here, target_of, version_for
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of
from gpudoctor.frameworks.torchs_cudnn import environment_of_its_own
from gpudoctor.machine import Gpu
from gpudoctor.matrix.questions import group_of
from gpudoctor.matrix.rows import ErrorPattern
from gpudoctor.matrix.rows.packages import FrameworkBuild
from gpudoctor.matrix.versions import major_of, public_version
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework

_ASKED = re.compile(r"lib(?:cublas|cublasLt|cudart|nvrtc)\.so\.(\d+)")
"""The libraries whose number is that of their CUDA."""


def fixes_of_framework(situation: Situation, row: ErrorPattern, text: str, gpus: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    """The release of the framework that printed a message which goes with the CUDA here; where that is not told, the
    release for each, and what decides between them."""
    return fixes_of(situation, row.framework, text, gpus) if row.framework else ()


def fixes_of(situation: Situation, name: str, text: str, gpus: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    """The same for the framework of this name."""
    own = next((one for one in situation.others if one.name == name), None)
    tables = situation.matrix.tables
    rows = (*tables.frameworks, *tables.frameworks_on_torch)
    title = next(one.title for one in rows if one.framework == name)
    builds = _builds(situation, name, gpus or situation.machine.gpus, own)
    asked = int(found[1]) if (found := _ASKED.search(text)) else None
    commands = [(build, _command(situation, build, own, asked)) for build in builds]
    if len(commands) > 1:
        which = (
            "the ROCm that is installed (`cat /opt/rocm/.info/version`)"
            if builds[0].vendor == "amd"
            else "the newest CUDA that the driver runs, beside torch for torch's own (torch.version.cuda)"
        )
        each = (f"{_needs(situation, build)}: {command}" for build, command in commands)
        how = f"Install the build of {title} for {which}. {'; '.join(each)}"
        return (by_hand(how, how, "replaces"),)
    for build, command in commands:
        how = f"Install {title}'s build for {target_of(build)}: {command}"
        return (by_hand(how, how, "replaces"),)
    return tuple(environment_of_its_own(situation, own)) if own else ()


def _needs(situation: Situation, build: FrameworkBuild) -> str:
    number = _major(build)
    if build.vendor == "amd":
        return f"ROCm {number}"
    return f"CUDA {number} (driver {situation.matrix.nvidia.floor(str(number))} or newer)"


def _major(build: FrameworkBuild) -> int:
    return major_of(build.cuda or build.rocm)


def _builds(
    situation: Situation, name: str, gpus: tuple[Gpu, ...], own: InstalledFramework | None
) -> tuple[FrameworkBuild, ...]:
    """The builds that can be installed for these GPUs, one for each CUDA; where torch is here, only that of its CUDA,
    or one that shares no files with it. Of a vendor that nothing names, those for NVIDIA's GPUs. Builds of the
    release that is here go before others."""
    vendor = situation.built_for or (gpus[0].vendor if gpus else "nvidia")
    found: dict[int, FrameworkBuild] = {}
    rows = builds_for(situation, name, gpus) if gpus else situation.matrix.builds_of(name)
    for build in [one for one in rows if _is_of_release(situation, one, own)] or rows:
        here = build.vendor == vendor and bool(build.install) and situation.platform in build.platforms
        if here and runs_here(situation, build) and _release(situation, build, own):
            found.setdefault(_major(build), build)
    own_cuda = major_of(situation.torch_cuda)
    return tuple(one for cuda, one in found.items() if own_cuda in (0, cuda) or one.looks == "loader")


def _release(situation: Situation, build: FrameworkBuild, own: InstalledFramework | None) -> str | None:
    keeps = own is not None and (own.build == build or _is_of_release(situation, build, own))
    return public_version(own.version) if own and keeps else release_for(situation, build)


def _is_of_release(situation: Situation, build: FrameworkBuild, own: InstalledFramework | None) -> bool:
    """Whether the CPU build that is here has this build for GPUs in its own release."""
    cpu = own if own is not None and own.build is None else None
    return cpu is not None and version_for(situation, cpu, build) == public_version(cpu.version)


def _command(situation: Situation, build: FrameworkBuild, own: InstalledFramework | None, asked: int | None) -> str:
    """What a person types. A build that looks into no wheels gets those with the libraries that it opens."""
    release = _release(situation, build, own)
    if build.looks != "loader":
        # Without an extra nothing pulls in what has to be of the same release.
        rest = "" if build.extra else "".join(f" {name}=={release}" for name in (*build.parts, *build.beside))
        others = " ".join(dict.fromkeys(_replaced(situation, build, asked)))
        before = f"`pip uninstall -y {others}`, then " if others else ""
        return f"{before}`pip install {shlex.quote(f'{build.with_extra}=={release}')}{rest}`"
    wheels = [f"{base}-cu{_major(build)}" for name in build.opens if (base := distribution_of(name))]
    if build.cudnn and not (situation.torch and situation.torch.cuda):  # torch brings its own
        wheels.append(f'"nvidia-cudnn-cu{_major(build)}=={build.cudnn}.*"')
    itself = [] if asked == _major(build) else [f"{build.install}=={release}"]
    folders = "site-packages/nvidia/cublas/lib and nvidia/cudnn/lib"
    return f"`pip install {' '.join(dict.fromkeys((*itself, *wheels)))}`, with {folders} on LD_LIBRARY_PATH"


def _replaced(situation: Situation, build: FrameworkBuild, asked: int | None) -> Iterator[str]:
    """Packages that own the same files as a build and are here, or printed the message: that of another vendor, or
    of the CUDA that is asked for."""
    for row in situation.matrix.tables.shared_files:
        if row.framework == build.framework:
            here = (one.name for one in situation.machine.packages if group_of(row, one.name))
            printed = (
                other.package
                for other in situation.matrix.builds_of(build.framework)
                if other.install and (other.vendor != build.vendor == "amd" or (asked and _major(other) == asked))
            )
            yield from (name for name in (*here, *printed) if name != build.install)
