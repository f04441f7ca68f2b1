"""Whether bitsandbytes has a library for the CUDA or ROCm of this torch (GPD426)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, Manual, ReplacePackage, SetVariable, UnsetVariable
from gpudoctor.frameworks.others import installed_again
from gpudoctor.frameworks.torch import check
from gpudoctor.machine import Distribution, Torch
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation

_TAKES_A_NEIGHBOUR = "0.50"
"""From this release on it takes the nearest library of the same major (bitsandbytes/cextension.py of 0.50.2)."""
_NEEDS = {"torch": "2.4", "python": "3.10"}
"""The torch that this release requires."""


@check("GPD426", "bitsandbytes-no-cuda-lib", "packages")
def bitsandbytes_no_cuda_lib(situation: Situation) -> Verdicts:
    """bitsandbytes has no library for this torch's CUDA or ROCm.

    ## Why it matters
    bitsandbytes brings one library for each CUDA release and loads the one for torch's CUDA. Without it, 8-bit and
    4-bit operations fail with "Could not find the bitsandbytes CUDA binary" or "Configured CUDA binary not found".

    ## How it is judged
    BNB_CUDA_VERSION names another CUDA major than torch's; else the libraries in its folder decide. From 0.50 on it
    takes the nearest one of the same major; before, only the one for that exact release.

    ## Fix safety
    Replaces only bitsandbytes, or sets or unsets a variable.
    """
    torch = situation.torch
    installed = situation.machine.installed("bitsandbytes")
    if torch is None or installed is None:
        return
    named = situation.variable("BNB_CUDA_VERSION") or ""
    own = _runtime(torch)
    if named.isdecimal() and torch.cuda:
        if _major(f"cuda{named}") != _major(own):
            yield _told_wrongly(torch, installed, named)
        return
    kind = own.rstrip("0123456789")
    there = [runtime for runtime in installed.runtimes if runtime.startswith(kind)] if own else []
    same_major = [runtime for runtime in there if _major(runtime) == _major(own)]
    neighbour = figures(installed.version) >= figures(_TAKES_A_NEIGHBOUR) and bool(same_major)
    if not own or not installed.runtimes or own in there or neighbour:
        return
    yield Finding(
        severity="error",
        message=f"bitsandbytes {installed.version} has no library for {_spelled(own)}, which torch "
        f"{torch.version} was built with; it has those for {', '.join(map(_spelled, there)) or 'others only'}.",
        saw=" ".join(there) or " ".join(installed.runtimes),
        want=f"libbitsandbytes_{own}.so",
        subject=f"bitsandbytes {installed.version}",
        evidence=(
            Evidence("bitsandbytes.version", installed.version, installed.path),
            Evidence("torch.version", torch.version, torch.source),
        ),
        fixes=_fixes(situation, torch, installed, same_major),
        refs=("bitsandbytes-foundation/bitsandbytes#1848",),
    )


def _told_wrongly(torch: Torch, installed: Distribution, named: str) -> Finding:
    return Finding(
        severity="error",
        message=f"BNB_CUDA_VERSION={named} makes bitsandbytes load its library for {_spelled(f'cuda{named}')}; torch "
        f"was built with CUDA {torch.cuda}.",
        saw=named,
        want=_runtime(torch).removeprefix("cuda"),
        subject=f"bitsandbytes {installed.version}",
        evidence=(
            Evidence("BNB_CUDA_VERSION", named, "environment"),
            Evidence("bitsandbytes.version", installed.version, installed.path),
            Evidence("torch.version", torch.version, torch.source),
        ),
        fixes=(Fix("Unset BNB_CUDA_VERSION", (UnsetVariable("BNB_CUDA_VERSION"),)),),
        refs=("bitsandbytes-foundation/bitsandbytes#778",),
    )


def _fixes(situation: Situation, torch: Torch, installed: Distribution, same_major: list[str]) -> tuple[Fix, ...]:
    """The same release again if its own library is gone, a newer one if that leaves torch alone, or one of its
    libraries for the same major."""
    own, fixes = _runtime(torch), []
    major = own.rstrip("0123456789") + _major(own)
    if any(f"libbitsandbytes_{major}" in file.path for file in installed.lost):
        fixes.append(installed_again(installed))
    python = (situation.environment.python.value or "") if situation.environment else ""
    newest = figures(installed.version) >= figures(_TAKES_A_NEIGHBOUR)
    if (
        not newest
        and figures(torch.version) >= figures(_NEEDS["torch"])
        and figures(python) >= figures(_NEEDS["python"])
    ):
        newer = ReplacePackage("bitsandbytes", f">={_TAKES_A_NEIGHBOUR}", why=f"it has a library for {_spelled(own)}")
        fixes.append(Fix("Install a newer bitsandbytes", (newer,)))
    if same_major and own.startswith("cuda"):
        nearest = min(same_major, key=lambda runtime: abs(int(runtime[4:]) - int(own[4:])))
        why = f"the library for {_spelled(nearest)} works for its whole major"
        fixes.append(
            Fix(
                f"Make it load its library for {_spelled(nearest)}",
                (SetVariable("BNB_CUDA_VERSION", nearest.removeprefix("cuda"), why=why),),
            )
        )
    text = f"Compile bitsandbytes for {_spelled(own)}, or use a torch release that it has a library for."
    return tuple(fixes) or (Fix("Compile bitsandbytes for this torch", (Manual(text, risk="replaces"),)),)


def _runtime(torch: Torch) -> str:
    """ "cuda128", "rocm64"; "" for a CPU build."""
    if torch.cuda:
        return "cuda" + "".join(torch.cuda.split(".")[:2])
    return "rocm" + "".join(torch.rocm.split(".")[:2]) if torch.rocm else ""


def _major(runtime: str) -> str:
    """CUDA has two digits for the major before one for the minor, ROCm one before the rest."""
    number = runtime.lstrip("cudarom")
    return number[:2] if runtime.startswith("cuda") else number[:1]


def _spelled(runtime: str) -> str:
    major, number = _major(runtime), runtime.lstrip("cudarom")
    return f"{'CUDA' if runtime.startswith('cuda') else 'ROCm'} {major}.{number[len(major) :]}"
