"""The torch that a text tells of."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.frameworks.torch.torch_by_version import named_torch
from gpudoctor.host import InputError
from gpudoctor.intake.described_torch import torch_of
from gpudoctor.intake.text.facts import Facts, Statement
from gpudoctor.intake.text.ranking import decided
from gpudoctor.late_regex import late
from gpudoctor.machine import UNKNOWN_VERSION, CodeArchs, ImportTrial, Machine, Torch, TorchOrigin, known
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.matrix.versions import figures, local_version, public_version, release_of

_NO = late(r"(?:none|n/?a|could not collect|false|-)\.?$", re.IGNORECASE)


_TOO_OLD = r"driver on your system is too old \(found version (\d{4,5})\)"
"""The CUDA of the driver, in torch's own words: 12020 is 12.2."""


def source(said: Statement) -> str:
    """Where a statement stands."""
    return f"text, line {said.line}"


def pasted_torch(facts: Facts, machine: Machine, matrix: Matrix) -> tuple[Torch | None, tuple[str, ...]]:
    """The torch, and what was assumed of it; None where the text does not tell which it is."""
    version, conda = decided(facts, "torch"), decided(facts, "torch conda")
    if version is None:
        version = conda
    if version is None:
        version = _asked_before_it_answered(facts) or _in_a_name(facts)
        version = version or _named_beside_a_failure(facts, machine, matrix)
    if version is None:
        return _of_unknown_version(facts, machine) or _of_index(facts, machine, matrix) or (None, ())
    torch, assumed = _torch(version, facts, machine, matrix, conda=conda is not None and conda.value == version.value)
    listed = decided(facts, "archs")
    if listed is not None:
        torch = replace(torch, archs=known(_code(listed.value), source(listed)))
    return torch, assumed


def _asked_before_it_answered(facts: Facts) -> Statement | None:
    """The version that a command asked for, where a torch of no other version answered on a later line."""
    asked, answered = decided(facts, "torch asked"), decided(facts, "available")
    of_index = decided(facts, "torch index")
    return asked if asked and answered and not of_index and asked.line < answered.line else None


def _in_a_name(facts: Facts) -> Statement | None:
    """The torch of the wheel that was downloaded; else that of the image, if no command asks for another."""
    another = decided(facts, "torch asked") or decided(facts, "torch index")
    return decided(facts, "torch wheel") or (None if another else decided(facts, "torch image"))


def _named_beside_a_failure(facts: Facts, machine: Machine, matrix: Matrix) -> Statement | None:
    """The release that a sentence names, of a text that also complains: who only talks of one may have any. Which
    build it is must be known."""
    release, available = decided(facts, "release of torch"), decided(facts, "available")
    complains = bool(facts.errors) or any(one.complains for one in facts.told)
    failed = complains or (available is not None and available.value == "False")
    if release is None or not failed or machine.system.jetson.known:
        return None
    return release if _published(release.value, machine, matrix) else None


def is_rocm(facts: Facts) -> bool:
    """Whether the torch of the text is built for AMD's GPUs."""
    version = decided(facts, "torch")
    return bool(_number(facts, "torch hip") or (version and "+rocm" in version.value))


def _torch(
    said: Statement, facts: Facts, machine: Machine, matrix: Matrix, *, conda: bool
) -> tuple[Torch, tuple[str, ...]]:
    cuda, hip = _number(facts, "torch cuda"), _number(facts, "torch hip")
    text = said.value.rstrip("+.")
    # The name of a wheel tells its build, whatever index is named beside it.
    index = None if said.what == "torch wheel" else decided(facts, "torch index")
    if index and not local_version(text) and not (cuda or hip) and index.value in _published(text, machine, matrix):
        text = f"{text}+{index.value}"
    if not local_version(text) and (cuda or hip or _is_for_cpu(facts)):
        build = f"cu{cuda.replace('.', '')}" if cuda else f"rocm{'.'.join(hip.split('.')[:2])}" if hip else "cpu"
        public = release_of(text)
        pypi = matrix.torch.pypi_build(public, machine.system.platform)
        origin: TorchOrigin = "conda" if conda else "pypi" if build == pypi else "unknown"
        return _plain(public, origin, build, cuda, hip, source(said)), ()
    if not local_version(text) and decided(
        facts, "hip printed"
    ):  # no build for CUDA prints it; which ROCm, nobody tells
        return replace(_plain(text, "unknown", None, None, "unknown", source(said)), rocm=None), ()
    unsaid = facts_foreign(facts) or (said.by == "prose" and _about_amd(facts, machine))
    if not local_version(text) and (unsaid or re.search(r"[a-z]", public_version(text).replace("post", ""))):
        return replace(_plain(text, "unknown", None, cuda, hip, source(said)), has_cuda_libraries=None), ()
    try:
        torch, assumed = torch_of(text, machine, matrix)
        if not local_version(text) and (refused := _refused_build(torch, facts, machine, matrix)):
            torch, assumed = torch_of(f"{text}+{refused}", machine, matrix)
        if not local_version(text):
            assumed = (*assumed, f"+{torch.build} build of torch {text}")
        torch = replace(torch, source=source(said))
    except InputError:
        return _of_unlisted_build(text, cuda, hip, source(said)), ()
    if torch.origin == "source" and _is_for_cpu(facts):
        torch = replace(torch, cuda=None, build="cpu", has_cuda_libraries=False)
        assumed = ()
    elif torch.origin == "source" and (cuda or hip):
        torch, assumed = replace(torch, cuda=cuda, hip=hip, rocm=hip), ()
    return torch, assumed


def _refused_build(torch: Torch, facts: Facts, machine: Machine, matrix: Matrix) -> str:
    """The build to assume where the driver was too old for torch: within a CUDA major no driver is, so it is one for
    the next major; "" where nothing speaks against the usual build."""
    found = next((said for line in facts.errors if (said := re.search(_TOO_OLD, line.text))), None)
    if found is None or torch.cuda is None or figures(torch.cuda)[0] > int(found[1]) // 1000:
        return ""
    builds = {
        figures(cuda): build for build in _published(torch.version, machine, matrix) if (cuda := cuda_of(build))
    }
    return next((build for cuda, build in sorted(builds.items()) if cuda[0] > int(found[1]) // 1000), "")


def _about_amd(facts: Facts, machine: Machine) -> bool:
    """Whether the text is about AMD's GPUs: which build of torch a sentence then means, it does not tell."""
    told = decided(facts, "for amd") is not None or bool(machine.of_vendor("amd"))
    return told and not machine.of_vendor("nvidia")


def _published(version: str, machine: Machine, matrix: Matrix) -> tuple[str, ...]:
    return matrix.torch.published_builds(public_version(version), machine.system.platform)


def _of_unlisted_build(text: str, cuda: str | None, hip: str | None, where: str) -> Torch:
    """A torch whose build the matrix does not know: what its label and the text say of it."""
    label = re.match(r"rocm\d+\.\d+|[^.]*", local_version(text))
    build = label[0] if label else ""
    torch = _plain(text, "unknown", build or None, cuda or cuda_of(build), hip, where)
    if build.startswith("rocm") and not hip:
        return replace(torch, hip="unknown", rocm=build.removeprefix("rocm") if "." in build else None)
    return torch if build or cuda else replace(torch, has_cuda_libraries=None)


def facts_foreign(facts: Facts) -> bool:
    """Whether the text is from Windows or macOS, whose package index has other builds."""
    return decided(facts, "system windows") is not None or decided(facts, "system macos") is not None


def _plain(
    version: str, origin: TorchOrigin, build: str | None, cuda: str | None, hip: str | None, where: str
) -> Torch:
    rocm = ".".join(hip.split(".")[:2]) if hip else None
    torch = named_torch(version, origin, where, build=build, cuda=cuda, rocm=rocm)
    return replace(torch, hip=hip, has_cuda_libraries=build != "cpu")


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


def _of_index(facts: Facts, machine: Machine, matrix: Matrix) -> tuple[Torch, tuple[str, ...]] | None:
    """The torch that the person took from an index: the version that the command asks for, else the newest."""
    index = decided(facts, "torch index")
    if index is None:
        return None
    builds = [row for row in matrix.torch.builds(machine.system.platform) if row.build == index.value]
    if not builds:
        return None
    asked = decided(facts, "torch asked")
    given = asked is not None and asked.line == index.line and any(row.version == asked.value for row in builds)
    newest = max((row.version for row in builds), key=figures)
    version = f"{asked.value if asked and given else newest}+{index.value}"
    torch, assumed = torch_of(version, machine, matrix)
    why = "which the command asks for" if given else "the newest of that index"
    return replace(torch, source=source(index)), (*assumed, f"torch {version}, {why}")


def _of_unknown_version(facts: Facts, machine: Machine) -> tuple[Torch, tuple[str, ...]] | None:
    """A torch of which only its architectures, its CUDA or its kind are told."""
    listed, cuda, hip = decided(facts, "archs"), _number(facts, "torch cuda"), _number(facts, "torch hip")
    kind = decided(facts, "torch kind")
    said = listed or decided(facts, "torch cuda") or decided(facts, "torch hip") or kind
    code = _code(listed.value) if listed else CodeArchs()
    of_nvidia = bool(machine.gpus) and not machine.of_vendor("amd")
    for_cpu = _is_for_cpu(facts) and (of_nvidia or decided(facts, "torch hip") is not None)
    if said is None or not (code != CodeArchs() or cuda or hip or kind or for_cpu):
        return None
    amd = bool(hip or code.gfx or (kind and kind.value == "rocm"))
    build = f"cu{cuda.replace('.', '')}" if cuda else "cpu" if for_cpu or (kind and kind.value == "cpu") else None
    torch = _plain(UNKNOWN_VERSION, "unknown", build, cuda, hip, source(said))
    if build is None:
        torch = replace(torch, cuda=None if amd else "unknown", hip=hip or ("unknown" if amd else None))
    if listed is not None:
        torch = replace(torch, archs=known(code, source(listed)))
    return torch, ("version of torch",)


def with_trial(torch: Torch, said: Statement | None, gpus: int) -> Torch:
    """The torch with what it told of the GPUs that it sees."""
    if said is None:
        return torch
    count = max(gpus, 1) if said.value == "True" else 0
    trial = ImportTrial(
        ok=True, version=torch.version, cuda=torch.cuda or "", hip=torch.hip or "", device_count=count
    )
    return replace(torch, trial=known(trial, source(said)))
