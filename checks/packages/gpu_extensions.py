"""Packages with GPU code of their own: whether it covers the GPUs (GPD427)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, Manual, Severity, by_hand
from gpudoctor.frameworks.described_packages import (
    described_without_code,
    nvidia_gpus_of_torch,
    older_than_source,
    unsupported,
)
from gpudoctor.frameworks.other_frameworks import framework_of
from gpudoctor.frameworks.torch.compiled_packages import tells_its_torch
from gpudoctor.frameworks.torch.coverage import cuda_answer
from gpudoctor.frameworks.torch.gpu_coverage import arch_list, fits
from gpudoctor.isa import Runs, capability, dotted
from gpudoctor.machine import OVERRIDE, Extension, Gpu, archs_of
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.matrix.versions import local_version
from gpudoctor.situation import Situation
from gpudoctor.situation.extensions import by_package, made_for_gpus, vendor_of
from gpudoctor.situation.gpu_groups import finding, gpu_names


@check("GPD427", "ext-built-without-gpu-arch", "packages")
def ext_built_without_gpu_arch(situation: Situation) -> Verdicts:
    """A package has no code for a GPU.

    ## Why it matters
    The package (flash-attn, vllm, onnxruntime-gpu ...) dies with "no kernel image is available for execution on the
    device" at its first kernel, or computes on the CPU and does not say so.

    ## How it is judged
    Some code in the libraries of the package must run on the GPU. Helpers for chosen architectures do not count, nor
    does a library that cannot be loaded beside one that can. A package that was compiled against torch is judged for
    the GPUs that torch supports. Of a package of which no code was read the matrix says which GPUs it supports, and
    which setup.py leaves all code out if a variable says so. It is an error if no GPU is supported and the package is
    of no use without one, else a warning.

    ## Fix safety
    Nothing runs: building such a package takes long, and needs a compiler and the toolkit of its CUDA or ROCm.
    """
    for package, extensions in by_package(situation).items():
        computing = [one for one in extensions if _computes(situation, one)]
        counting = [one for one in computing if not one.missing] or computing
        gpus = _gpus(situation, counting)
        lacking = tuple(gpu for gpu in gpus if _runs(situation, counting, gpu) == "no")
        if lacking and len(lacking) < len(gpus):
            lacking = tuple(gpu for gpu in lacking if not gpu.integrated)
        if lacking:
            whole = len(lacking) == len(gpus) and made_for_gpus(package, extensions)
            yield _without_code(situation, counting, lacking, "error" if whole else "warning")
    yield from described_without_code(situation)
    yield from _not_compiled(situation)
    yield from _for_the_cpu(situation)


def _not_compiled(situation: Situation) -> Iterator[Finding]:
    """Packages whose setup.py was told to compile nothing, beside a torch for NVIDIA GPUs. For AMD's that may be
    right: flash-attn then has its kernels in Triton."""
    gpus = nvidia_gpus_of_torch(situation)
    for row in situation.matrix.tables.extension_builds if gpus else ():
        package = situation.machine.installed(row.package) if row.skip else None
        if package is not None and package.pure and not any(older_than_source(row, gpu) for gpu in gpus):
            wanted = archs_of(gpus)
            yield finding(
                "error",
                gpus,
                message=f"{package.name} {package.version} was built without its kernels ({row.skip}): it cannot be "
                "imported.",
                saw="a wheel for every platform",
                want=arch_list(wanted),
                evidence=(Evidence(f"{package.name}.pure", "py3-none-any", f"{package.path}/WHEEL"),),
                fixes=(
                    Fix(
                        f"Install another {package.name}",
                        (_rebuild(situation, package.name, package.version, wanted),),
                    ),
                ),
                refs=(row.source,),
            )


def _for_the_cpu(situation: Situation) -> Iterator[Finding]:
    """Packages compiled beside torch whose version says that they are for the CPU: torch-scatter 2.1.2+pt29cpu."""
    torch, gpus = situation.torch, tuple(fit.gpu for fit in fits(situation) if fit.served)
    if torch is None or not gpus or situation.built_for is None:
        return
    extensions = by_package(situation)
    for package in situation.machine.packages:
        own = tells_its_torch(package) or any(one.of_torch for one in extensions.get(package.name, ()))
        of_torch = own and package.name not in COMPANIONS
        if not of_torch or not re.search(r"(?<![a-z])cpu$", local_version(package.version)):
            continue
        name = package.name
        from gpudoctor.frameworks.torch.release_for_torch import own_build

        how = own_build(situation, torch, name) or f"Install a build of {name} for GPUs (see its release page)."
        yield finding(
            "warning",
            gpus,
            message=f"{name} {package.version} is a build for the CPU: its operations fail with tensors on a GPU.",
            saw=package.version,
            want=f"a build for {torch.build or 'the GPUs here'}",
            evidence=(Evidence.of_package(package),),
            fixes=(by_hand(f"Install a build of {name} for this torch", how, "replaces"),),
        )


def _computes(situation: Situation, extension: Extension) -> bool:
    """Whether a package computes with a library, wherever it runs."""
    carried = (*extension.sass, *extension.ptx, *extension.gfx)
    if not carried:
        return False
    if extension.sass and not extension.ptx and all(_is_chosen(arch, extension.loose) for arch in extension.sass):
        return False
    row = next(situation.matrix.roles_of(extension.path), None)
    return row is None or row.role not in ("part", "chosen")


def _is_chosen(arch: str, loose: bool) -> bool:
    """Whether code was written for exactly this GPU or family. The header of a loose kernel does not tell sm_90a from
    sm_90; from that generation on such kernels are."""
    found = capability(arch)
    return arch[-1] in "af" or (loose and found is not None and found >= (9, 0))


def _gpus(situation: Situation, extensions: list[Extension]) -> tuple[Gpu, ...]:
    """The GPUs that a package should compute on."""
    if any(one.of_torch for one in extensions):
        return tuple(fit.gpu for fit in fits(situation) if fit.served)
    vendors = {vendor_of(one) for one in extensions}
    return tuple(gpu for gpu in situation.usable if gpu.vendor in vendors)


def _runs(situation: Situation, extensions: list[Extension], gpu: Gpu) -> Runs:
    arch = gpu.arch.value
    if not arch:
        return "unknown"
    if gpu.vendor == "amd":
        fit = next((fit for fit in fits(situation) if fit.gpu.key == gpu.key), None)
        value = fit.carried.via_override if fit else situation.variable(OVERRIDE)
        named = situation.matrix.amd.gfx_of_override(value)
        return situation.matrix.gpus.gfx_answer(named or arch, _all(extensions, "gfx")).runs
    of_torch = any(one.of_torch for one in extensions)
    cuda = situation.torch.cuda if situation.torch and of_torch else None
    return cuda_answer(situation, arch, _all(extensions, "sass"), _all(extensions, "ptx"), cuda=cuda).runs


def _all(extensions: list[Extension], kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arch for one in extensions for arch in getattr(one, kind)))


def _without_code(
    situation: Situation, extensions: list[Extension], lacking: tuple[Gpu, ...], severity: Severity
) -> Finding:
    first = extensions[0]
    name = f"{first.package} {first.version}"
    wanted = archs_of(lacking)
    carried = tuple(arch for kind in ("sass", "ptx", "gfx") for arch in _all(extensions, kind))
    return finding(
        severity,
        lacking,
        message=f"{name} was built without code for {gpu_names(lacking)}: its "
        "first kernel will fail, or it computes on the CPU.",
        saw=arch_list(carried),
        want=arch_list(wanted),
        evidence=(
            Evidence.of("gpu.arch", lacking[0].arch),
            *(
                Evidence(f"{one.package}.archs", arch_list((*one.sass, *one.ptx, *one.gfx)), one.path)
                for one in extensions
            ),
        ),
        fixes=_another_build(situation, first, lacking)
        or (Fix(f"Install another {first.package}", (_rebuild(situation, first.package, first.version, wanted),)),),
    )


def _another_build(situation: Situation, extension: Extension, lacking: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    """Builds of a framework that has several: one of them may have code for these GPUs."""
    from gpudoctor.frameworks.gpu_builds import installs

    framework = framework_of(situation, extension.package)
    return installs(situation, framework, lacking) if framework else ()


def _rebuild(situation: Situation, package: str, version: str, wanted: tuple[str, ...]) -> Manual:
    amd = wanted[0].startswith("gfx")
    row = next((row for row in situation.matrix.tables.extension_builds if row.package == package), None)
    least = capability(row.least) if row else None
    if row and least and any(found < least for arch in wanted if (found := capability(arch))):
        return unsupported(row)
    settings = (row.build_amd if amd else row.build) if row else None
    text = f"Install a release of {package} whose wheel has code for {arch_list(wanted)} (see `gpudoctor scan WHEEL`)"
    if settings:
        capabilities = list(map(dotted, wanted))
        variables = settings.format(
            digits=";".join(capabilities).replace(".", ""), dotted=";".join(capabilities), gfx=";".join(wanted)
        )
        text += (
            f", or compile it here: {variables} pip install --no-build-isolation --no-deps --force-reinstall "
            f"--no-cache-dir --no-binary {package} {package}=={version}"
        )
    return Manual(f"{text}.", risk="replaces")
