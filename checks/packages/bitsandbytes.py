"""Whether bitsandbytes has a library for the CUDA or ROCm of this torch (GPD426)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, ReplacePackage, SetVariable, by_hand, unset
from gpudoctor.frameworks.other_frameworks import reinstall
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.runtime_libraries import major_of, release_for_torch, row_of, runtime_of, runtimes_of
from gpudoctor.machine import Distribution, Torch
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation


@check("GPD426", "bitsandbytes-no-cuda-lib", "packages")
def bitsandbytes_no_cuda_lib(situation: Situation) -> Verdicts:
    """bitsandbytes has no library for this torch's CUDA or ROCm.

    ## Why it matters
    bitsandbytes brings one library for each CUDA release and loads the one for torch's CUDA. Without it, 8-bit and
    4-bit operations fail with "Could not find the bitsandbytes CUDA binary" or "Configured CUDA binary not found".

    ## How it is judged
    BNB_CUDA_VERSION (from 0.50 on BNB_ROCM_VERSION with ROCm) names another major than torch's, a library that is not
    there, or is no number; else the libraries in its folder decide, or, where only its release is known, those of
    that release's wheel. From 0.50 on it takes the nearest one of the same major; before, only the one for that exact
    release.

    ## Fix safety
    Replaces only bitsandbytes, or sets or unsets a variable.
    """
    torch = situation.torch
    installed = situation.machine.installed("bitsandbytes")
    if torch is None or installed is None:
        return
    own = runtime_of(torch)
    runtimes, row = runtimes_of(situation, installed), row_of(situation, installed)
    there = [runtime for runtime in runtimes if runtime[:4] == own[:4]]
    name = "BNB_CUDA_VERSION" if torch.cuda else "BNB_ROCM_VERSION" if own and row and row.neighbours else ""
    if named := situation.variable(name):
        if why := _why_wrong(named, own, there):
            yield _told_wrongly(torch, installed, name, named, why)
        return
    same_major = [runtime for runtime in there if major_of(runtime) == major_of(own)]
    neighbour = row is not None and row.neighbours and bool(same_major)
    if not own or not runtimes or own in there or neighbour:
        return
    yield Finding(
        severity="error",
        message=f"bitsandbytes {installed.version} has no library for {_spelled(own)}, which torch "
        f"{torch.version} was built with; it has those for {', '.join(map(_spelled, there)) or 'others only'}.",
        saw=" ".join(there) or " ".join(runtimes),
        want=f"libbitsandbytes_{own}.so",
        subject=f"bitsandbytes {installed.version}",
        confidence="certain" if installed.runtimes else "likely",
        evidence=(Evidence.of_version(installed), Evidence.of_torch(torch)),
        fixes=_fixes(situation, torch, installed, same_major),
        refs=("bitsandbytes-foundation/bitsandbytes#1848",),
    )


def _why_wrong(named: str, own: str, there: list[str]) -> str:
    """What is wrong with a library that a variable names: bitsandbytes then takes no other one."""
    runtime = f"{own[:4]}{named}"
    if not named.isdecimal():
        return f"stops bitsandbytes: it takes digits alone, as {own[4:]}"
    if major_of(runtime) != major_of(own):
        return f"makes bitsandbytes load its library for {_spelled(runtime)}; torch was built for {_spelled(own)}"
    if there and runtime not in there:
        return f"makes bitsandbytes load libbitsandbytes_{runtime}.so, which it does not have"
    return ""


def _told_wrongly(torch: Torch, installed: Distribution, name: str, named: str, why: str) -> Finding:
    return Finding(
        severity="error",
        message=f"{name}={named} {why}.",
        saw=named,
        want=runtime_of(torch)[4:],
        subject=f"bitsandbytes {installed.version}",
        evidence=(
            Evidence(name, named, "environment"),
            Evidence.of_version(installed),
            Evidence.of_torch(torch),
        ),
        fixes=(unset(name),),
        refs=("bitsandbytes-foundation/bitsandbytes#778",),
    )


def _fixes(situation: Situation, torch: Torch, installed: Distribution, same_major: list[str]) -> tuple[Fix, ...]:
    """The same release again if its own library is gone, another one if that leaves torch alone, or one of its
    libraries for the same major."""
    own, fixes = runtime_of(torch), []
    if any(f"libbitsandbytes_{major_of(own)}" in file.path for file in installed.lost):
        fixes.append(reinstall(installed))
    from gpudoctor.frameworks.gpu_builds import builds_for

    gpus = situation.usable_of(situation.built_for) if situation.built_for else ()
    served = not gpus or bool(builds_for(situation, "bitsandbytes", gpus))
    release = release_for_torch(situation, "bitsandbytes") if served else None
    if release is not None and release != installed.version:
        other = ReplacePackage("bitsandbytes", f"=={release}", why=f"it has a library for {_spelled(own)}")
        kind = "a newer" if figures(release) > figures(installed.version) else "an older"
        fixes.append(Fix(f"Install {kind} bitsandbytes", (other,)))
    if same_major and own.startswith("cuda"):
        nearest = min(same_major, key=lambda runtime: abs(int(runtime[4:]) - int(own[4:])))
        why = f"the library for {_spelled(nearest)} works for its whole major"
        fixes.append(
            Fix(
                f"Make it load its library for {_spelled(nearest)}",
                (SetVariable("BNB_CUDA_VERSION", nearest.removeprefix("cuda"), why=why),),
            )
        )
    if not served:
        from gpudoctor.frameworks.described_packages import on_another_gpu

        return (*fixes, on_another_gpu("bitsandbytes", gpus))
    text = f"Compile bitsandbytes for {_spelled(own)}, or use a torch release that it has a library for."
    return tuple(fixes) or (by_hand("Compile bitsandbytes for this torch", text, "replaces"),)


def _spelled(runtime: str) -> str:
    major = major_of(runtime)
    return f"{'CUDA' if runtime.startswith('cuda') else 'ROCm'} {major[4:]}.{runtime.removeprefix(major)}"
