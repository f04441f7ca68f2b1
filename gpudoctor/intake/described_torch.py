"""The torch, the Python and the packages that a person names."""

from __future__ import annotations

import re

from gpudoctor.dependencies import normalised
from gpudoctor.frameworks.torch.coverage import DEVICE_WHEEL
from gpudoctor.frameworks.torch.torch_by_version import named_torch, torch_of_build
from gpudoctor.host import InputError
from gpudoctor.intake.described_gpus import SOURCE
from gpudoctor.machine import Distribution, Gpu, Machine, Torch, TorchOrigin
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.torch_builds import cuda_of, rocm_of
from gpudoctor.matrix.versions import figures, local_version, minor, public_version
from gpudoctor.situation import Situation
from gpudoctor.situation.nvidia_driver import driver_verdict

USUAL_PYTHON = "3.12"
_VERSION = r"\d+(?:\.[0-9A-Za-z]+)*(?:[-+~_][0-9A-Za-z.+~_-]*)?"
_NGC = r"(?:^|\.)nv(\d\d\.\d\d)"
_ALPHA = r"\da\d+$"
_NIGHTLY_OF_ROCM = r"rocm\d+\.\d+\.\d+a20\d{6}$"
"""AMD's nightlies are of ROCm releases that may never come out."""


def plain_version(option: str, text: str) -> str:
    """The text, if it is a version. Raises InputError."""
    if not re.fullmatch(_VERSION, text) or len(text) > 100:
        raise InputError(f"{option} {text!r}: not a version")
    return text


def torch_of(text: str, machine: Machine, matrix: Matrix) -> tuple[Torch, tuple[str, ...]]:
    """The torch that a version names, and what had to be assumed of it. Without a local part it is the package
    index's build for the platform. Raises InputError for one that there cannot be."""
    said = re.sub(r"[ _-](?=(?:cu|rocm)\d|cpu$|xpu$)", "+", text.lower().removeprefix("torch==").removeprefix("v"))
    version = plain_version("--torch", said)
    public, local = public_version(version), local_version(version)
    if re.fullmatch(r"\d+\.\d+", public):
        public += ".0"  # as pip reads it
    if image := re.search(_NGC, local):
        return _from_nvidia(f"{public}+{local}", image[1], machine, matrix)
    if local.startswith("git") or (re.search(_ALPHA, public) and not local.startswith("rocm")):
        return _from_source(f"{public}+{local}".rstrip("+"), machine, matrix)
    local = local or _index_build(text, public, machine.system.platform, matrix)
    # Some builds have an appendix: cpu.cxx11.abi, cu124.pypi.cudnn, and a commit in AMD's own.
    form = re.match(r"(cpu|xpu|cu\d{2,}|rocm\d+(?:\.\d+)+)(?=$|[.-]|rc|a\d)", local)
    build = form[1] if form else ""
    if not re.match(_NIGHTLY_OF_ROCM, local):
        _check_build(text, public, build, machine.system.platform, matrix)
    return torch_of_build(f"{public}+{local}", _origin(version), SOURCE, build), ()


def _origin(version: str) -> TorchOrigin:
    public, local = public_version(version), local_version(version)
    if not local:
        return "pypi"
    if ".dev" in public:
        return "nightly"
    # AMD's own wheels name a commit, or all three numbers of their ROCm; the index did so for few.
    release = re.match(r"rocm([\d.]+)", local)
    spelled_out = release is not None and release[1].count(".") > 1
    named = re.search(r"git|lw|\da\d|rc", local) or re.search(_ALPHA, public)
    amd = local.startswith("rocm") and (named or (spelled_out and figures(local) >= (6, 3)))
    return "amd" if amd else "download.pytorch.org"


def _index_build(text: str, public: str, platform: str, matrix: Matrix) -> str:
    build = matrix.torch.pypi_build(public, platform)
    if build is None:
        raise InputError(
            f"--torch {text}: the package index's build of it for {platform} is unknown (newest known release: "
            f"{matrix.torch.newest_torch()}); name the build, such as {public}+cu128"
        )
    return build


def _check_build(text: str, public: str, build: str, platform: str, matrix: Matrix) -> None:
    """Raise InputError for a build that there cannot be: of no CUDA or ROCm release, or of another form."""
    cuda, rocm = cuda_of(build), rocm_of(build)
    if build in ("cpu", "xpu") or (cuda and matrix.torch.is_cuda(cuda)) or (rocm and matrix.torch.is_rocm(rocm)):
        return
    maker = "CUDA" if cuda else "ROCm" if rocm else ""
    what = f"{maker} {cuda or rocm} is not known" if maker else f"+{local_version(text)} is no build that is known"
    published = matrix.torch.published_builds(public, platform)
    of = f"torch {public} has" if published else "builds are named"
    raise InputError(f"--torch {text}: {what}; {of} {', '.join(published) or 'cpu, cu128, rocm6.4 ...'}")


def _from_nvidia(version: str, image: str, machine: Machine, matrix: Matrix) -> tuple[Torch, tuple[str, ...]]:
    """A torch of NVIDIA's: of an NGC image, or for Jetson."""
    cuda = matrix.images.ngc_cuda(image)
    origin: TorchOrigin = "jetson" if machine.system.jetson.known else "ngc"
    return torch_of_build(version, origin, SOURCE, f"cu{cuda.replace('.', '')}" if cuda else ""), ()


def _from_source(version: str, machine: Machine, matrix: Matrix) -> tuple[Torch, tuple[str, ...]]:
    """A torch that its user built: for the GPUs that are here, with a toolkit that the driver runs."""
    vendors = {gpu.vendor for gpu in machine.gpus}
    if vendors == {"amd"}:
        release = matrix.tables.rocm_releases[-1].version
        return named_torch(version, "source", SOURCE, rocm=release), (f"ROCm {release} of that torch",)
    if vendors == {"nvidia"}:
        cuda = _toolkit(machine.gpus, machine, matrix)
        return named_torch(version, "source", SOURCE, cuda=cuda), (f"CUDA {cuda} of that torch",) if cuda else ()
    return named_torch(version, "source", SOURCE), ()


def _toolkit(gpus: tuple[Gpu, ...], machine: Machine, matrix: Matrix) -> str | None:
    """The newest CUDA that the driver runs and that compiles for the GPUs."""
    rows = [row for gpu in gpus if (row := matrix.gpus.capability(gpu.arch.value))]
    releases = {row.cuda for row in matrix.tables.cuda_toolkits if not row.update}
    able = [
        cuda
        for cuda in releases
        if all(minor(row.first_cuda) <= minor(cuda) <= minor(row.last_cuda or cuda) for row in rows)
        and driver_verdict(Situation(machine, matrix), cuda) in ("serves", "unknown")
    ]
    return max(able, key=figures, default=None)


def device_packages(torch: Torch, machine: Machine, matrix: Matrix) -> tuple[Distribution, ...]:
    """The packages with the code for the machine's GPUs, of a build that has it in a package for each gfx target. Who
    installs such a build chooses them by an extra, torch[device-gfx1031], and --torch cannot name it."""
    row = matrix.torch.build_of(torch, machine.system.platform)
    if row is None or not row.extra:
        return ()
    targets = sorted({gpu.arch.value.partition(":")[0] for gpu in machine.of_vendor("amd") if gpu.arch.value})
    version = torch.release
    return tuple(
        Distribution(f"{DEVICE_WHEEL}{gfx}", version, path=SOURCE) for gfx in targets if gfx in (row.archs or ())
    )


def python_of(text: str) -> str:
    """The described Python. Raises InputError."""
    if not re.fullmatch(r"3\.\d{1,2}t?", text):
        raise InputError(f"--python-version {text!r}: write it like 3.12 (3.13t for a free-threaded one)")
    return text


def python_for(torch: Torch | None, matrix: Matrix, platform: str) -> str:
    """The Python to assume: the usual one, or the nearest that the torch has a wheel for."""
    row = matrix.torch.build_of(torch, platform) if torch else None
    plain = [python for python in row.pythons if not python.endswith("t")] if row else []
    if not plain or USUAL_PYTHON in plain:
        return USUAL_PYTHON
    return min(plain, key=lambda python: abs(figures(python)[1] - figures(USUAL_PYTHON)[1]))


def packages_of(texts: tuple[str, ...]) -> tuple[Distribution, ...]:
    """The described packages. Raises InputError."""
    found = {}
    for text in texts:
        name, equals, version = (part.strip() for part in text.partition("=="))
        if not equals or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise InputError(f"--package {text!r}: write NAME==VERSION, such as numpy==2.1.0")
        name = normalised(name)
        if name == "torch":
            raise InputError(f"--package {text!r}: --torch {version} describes the torch")
        found[name] = Distribution(name=name, version=plain_version("--package", version), path=SOURCE)
    return tuple(found.values())
