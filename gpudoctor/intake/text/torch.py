"""The torch that a text tells of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.host import InputError
from gpudoctor.intake.described_torch import torch_of
from gpudoctor.intake.text.facts import Facts, Said
from gpudoctor.intake.text.ranking import decided
from gpudoctor.machine import CodeArchs, ImportTrial, Machine, Torch, TorchCopy, TorchOrigin, known
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.matrix.versions import figures, local_version, public_version

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_NO = re.compile(r"(?:none|n/?a|could not collect|false|-)\.?$", re.IGNORECASE)


def source(said: Said) -> str:
    """Where a statement stands."""
    return f"text, line {said.line}"


def pasted_torch(facts: Facts, machine: Machine, matrix: Matrix) -> tuple[Torch | None, tuple[str, ...]]:
    """The torch, and what was assumed of it; None where the text does not tell which it is."""
    version, conda = decided(facts, "torch"), decided(facts, "torch conda")
    if version is None:
        version = conda
    if version is None:
        return _of_its_list(facts, machine, matrix)
    torch, assumed = _torch(version, facts, machine, matrix, conda=conda is not None and conda.value == version.value)
    listed = decided(facts, "archs")
    if listed is not None:
        torch = replace(torch, archs=known(_code(listed.value), source(listed)))
    return torch, assumed


def _torch(
    said: Said, facts: Facts, machine: Machine, matrix: Matrix, *, conda: bool
) -> tuple[Torch, tuple[str, ...]]:
    cuda, hip = _number(facts, "torch cuda"), _number(facts, "torch hip")
    text = said.value.rstrip("+.")
    if not local_version(text) and (cuda or hip or _is_for_cpu(facts)):
        build = f"cu{cuda.replace('.', '')}" if cuda else f"rocm{'.'.join(hip.split('.')[:2])}" if hip else "cpu"
        public = public_version(text)
        public = f"{public}.0" if re.fullmatch(r"\d+\.\d+", public) else public
        pypi = matrix.pypi_build(public, machine.system.platform)
        origin: TorchOrigin = "conda" if conda else "pypi" if build == pypi else "unknown"
        return _plain(public, origin, build, cuda, hip, source(said)), ()
    if not local_version(text) and (facts_foreign(facts) or re.search(r"[a-z]", public_version(text).replace("post", ""))):
        return replace(_plain(text, "unknown", None, cuda, hip, source(said)), has_cuda_libraries=None), ()
    try:
        torch, assumed = torch_of(text, machine, matrix)
        if not local_version(text):
            assumed = (*assumed, f"+{torch.build} build of torch {text}")
        torch = replace(torch, source=source(said))
    except InputError:
        build = local_version(text).partition(".")[0] or None
        cuda = cuda or (cuda_of(build) if build else None)
        torch, assumed = _plain(text, "unknown", build, cuda, hip, source(said)), ()
        return replace(torch, has_cuda_libraries=None if build is None and not cuda else torch.has_cuda_libraries), assumed
    if torch.origin == "source" and _is_for_cpu(facts):
        torch = replace(torch, cuda=None, build="cpu", has_cuda_libraries=False)
        assumed = ()
    elif torch.origin == "source" and (cuda or hip):
        torch, assumed = replace(torch, cuda=cuda, hip=hip, rocm=hip), ()
    return torch, assumed


def facts_foreign(facts: Facts) -> bool:
    """Whether the text is from Windows or macOS, whose package index has other builds."""
    return decided(facts, "system windows") is not None or decided(facts, "system macos") is not None


def _plain(
    version: str, origin: TorchOrigin, build: str | None, cuda: str | None, hip: str | None, where: str
) -> Torch:
    return Torch(
        version=version,
        build=build,
        cuda=cuda,
        hip=hip,
        rocm=".".join(hip.split(".")[:2]) if hip else None,
        origin=origin,
        copies=(TorchCopy(path="torch", version=version, via="site"),),
        has_cuda_libraries=build != "cpu",
        own_hsa_runtime=True if hip else None,
        source=where,
    )


def _number(facts: Facts, what: str) -> str | None:
    """ "12.8" of "CUDA used to build PyTorch: 12.8"; None where it is none, or not said."""
    said = decided(facts, what)
    found = re.match(r"(\d{1,2}\.\d{1,2})(?:\.\d+)*", said.value) if said else None
    if found is None:
        return None
    return found[0] if what == "torch hip" else found[1]


def _is_for_cpu(facts: Facts) -> bool:
    """Whether torch itself says that it was built without CUDA and without ROCm."""
    cuda, hip = decided(facts, "torch cuda"), decided(facts, "torch hip")
    if cuda is None or not _NO.match(cuda.value) or cuda.value.upper() == "N/A":
        return False
    return hip is None or bool(_NO.match(hip.value))


def _code(text: str) -> CodeArchs:
    archs = text.split()
    return CodeArchs(
        sass=tuple(arch for arch in archs if arch.startswith("sm_")),
        ptx=tuple(arch for arch in archs if arch.startswith("compute_")),
        gfx=tuple(arch for arch in archs if arch.startswith("gfx")),
    )


def _of_its_list(facts: Facts, machine: Machine, matrix: Matrix) -> tuple[Torch | None, tuple[str, ...]]:
    """The newest build that has exactly the architectures which torch itself printed."""
    listed, cuda = decided(facts, "archs"), _number(facts, "torch cuda")
    if listed is None:
        return _of_its_cuda(facts, matrix, machine) if cuda or _number(facts, "torch hip") else (None, ())
    code = _code(listed.value)
    wanted = set(code.sass)
    rows = [
        row
        for row in matrix.builds(machine.system.platform)
        if wanted and set(row.archs or ()) == wanted and (cuda is None or row.build == f"cu{cuda.replace('.', '')}")
    ]
    row = max(rows, key=lambda row: (row.origin == "download.pytorch.org", figures(row.version)), default=None)
    if row is None:
        torch = replace(_plain("", "unknown", None, cuda or "", None, source(listed)), cuda=cuda or "unknown")
        return replace(torch, archs=known(code, source(listed))), ("version of torch",)
    version = f"{row.version}+{row.build}"
    torch = _plain(version, "download.pytorch.org", row.build, cuda_of(row.build), None, source(listed))
    said = f"torch {version}, the newest build for these architectures"
    return replace(torch, archs=known(code, source(listed))), (said,)


def _of_its_cuda(facts: Facts, matrix: Matrix, machine: Machine) -> tuple[Torch | None, tuple[str, ...]]:
    """The newest build for the CUDA that torch says it was built with."""
    cuda, said = _number(facts, "torch cuda"), decided(facts, "torch cuda")
    build = f"cu{(cuda or '').replace('.', '')}"
    rows = [row for row in matrix.builds(machine.system.platform) if row.build == build]
    row = max(rows, key=lambda row: figures(row.version), default=None)
    if row is None or said is None:
        return None, ()
    version = f"{row.version}+{row.build}"
    torch = _plain(version, "download.pytorch.org", row.build, cuda, None, source(said))
    return torch, (f"torch {version}, the newest build with CUDA {cuda}",)


def with_trial(torch: Torch, said: Said | None, gpus: int) -> Torch:
    """The torch with what it told of the GPUs that it sees."""
    if said is None:
        return torch
    count = max(gpus, 1) if said.value == "True" else 0
    trial = ImportTrial(ok=True, version=torch.version, cuda=torch.cuda or "", hip=torch.hip or "", device_count=count)
    return replace(torch, trial=known(trial, source(said)))
