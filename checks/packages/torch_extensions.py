"""Packages whose own GPU code does not cover a GPU that torch supports (GPD427)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, Manual
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.coverage import cuda_answer, gfx_answer
from gpudoctor.frameworks.torch.gpu_coverage import Fit, fits, spelled
from gpudoctor.isa import Runs, capability, dotted
from gpudoctor.machine import ExtensionCode
from gpudoctor.situation import Situation, needs
from gpudoctor.situation.gpu_groups import finding


@check("GPD427", "ext-built-without-gpu-arch", "packages", needs=needs.torch)
def ext_built_without_gpu_arch(situation: Situation) -> Verdicts:
    """A package beside torch has no code for a GPU that torch supports.

    ## Why it matters
    torch works, but the package (flash-attn, vllm, xformers ...) dies with "no kernel image is available for
    execution on the device" at its first kernel.

    ## How it is judged
    The matrix names the library that the package computes with: some of its code must run on the GPU. Helpers for one
    architecture do not count. GPUs that torch itself does not support, and packages that the matrix does not name,
    are left out (`gpudoctor scan` reads them all).

    ## Fix safety
    Nothing runs: building such a package takes long, and needs a compiler and the toolkit of torch's CUDA or ROCm.
    """
    environment = situation.environment
    served = tuple(fit for fit in fits(situation) if fit.served)
    for extension in environment.extensions if environment else ():
        lacking = tuple(fit for fit in served if _runs(situation, extension, fit) == "no")
        if lacking:
            yield _without_code(situation, extension, lacking, whole=len(lacking) == len(served))


def _runs(situation: Situation, extension: ExtensionCode, fit: Fit) -> Runs:
    arch = fit.gpu.arch.value
    if not arch:
        return "unknown"
    if fit.gpu.vendor == "amd":
        value = fit.carried.via_override
        named = situation.matrix.gfx_of_override(value) if value else None
        return gfx_answer(situation.matrix, named or arch, extension.gfx).runs
    cuda = situation.torch.cuda if situation.torch else None
    return cuda_answer(situation, arch, extension.sass, extension.ptx, cuda=cuda).runs


def _without_code(
    situation: Situation, extension: ExtensionCode, lacking: tuple[Fit, ...], *, whole: bool
) -> Finding:
    name = f"{extension.package} {extension.version}"
    gpus = ", ".join(dict.fromkeys(fit.gpu.name for fit in lacking))
    wanted = tuple(dict.fromkeys(fit.gpu.arch.value or "" for fit in lacking))
    carried = (*extension.sass, *extension.ptx, *extension.gfx)
    return finding(
        "error" if whole else "warning",
        tuple(fit.gpu for fit in lacking),
        message=f"torch supports {gpus}, but {name} was built without code for it: its first kernel will fail.",
        saw=spelled(carried),
        want=spelled(wanted),
        evidence=(
            Evidence.of("gpu.arch", lacking[0].gpu.arch),
            Evidence(f"{extension.package}.archs", spelled(carried), extension.path),
        ),
        fixes=(Fix(f"Install another {extension.package}", (_rebuild(situation, extension, wanted),)),),
    )


def _rebuild(situation: Situation, extension: ExtensionCode, wanted: tuple[str, ...]) -> Manual:
    row = next(row for row in situation.matrix.tables.extension_libraries if row.package == extension.package)
    package, amd = extension.package, wanted[0].startswith("gfx")
    least = capability(row.least)
    if least and any(found < least for arch in wanted if (found := capability(arch))):
        return Manual(
            f"No build of {package} supports this GPU: its source needs {row.least} or newer. Make the program use "
            f"torch's own kernels instead of {package}."
        )
    settings = row.build_amd if amd else row.build
    text = f"Install a release of {package} whose wheel has code for {spelled(wanted)} (see `gpudoctor scan WHEEL`)"
    if settings:
        capabilities = list(map(dotted, wanted))
        variables = settings.format(
            digits=";".join(capabilities).replace(".", ""), dotted=";".join(capabilities), gfx=";".join(wanted)
        )
        text += (
            f", or compile it here: {variables} pip install --no-build-isolation --no-deps --force-reinstall "
            f"--no-binary {package} {package}=={extension.version}"
        )
    return Manual(f"{text}.", risk="replaces")
