"""Packages with GPU code of their own: whether it covers the GPUs, and whether it can be loaded (GPD427, GPD445,
GPD446)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Literal

from gpudoctor.check import Verdicts, check
from gpudoctor.dependencies import parsed
from gpudoctor.finding import Evidence, Finding, Fix, Manual, ReinstallPackage, ReplacePackage, Severity
from gpudoctor.frameworks.described_packages import described_without_code, unsupported
from gpudoctor.frameworks.others import framework_of, in_one_folder, on_the_loaders_path
from gpudoctor.frameworks.torch.compiled_packages import (
    built_for,
    for_this_torch,
    symbol_evidence,
    torch_mismatch,
    unloadable,
)
from gpudoctor.frameworks.torch.coverage import cuda_answer, gfx_answer
from gpudoctor.frameworks.torch.gpu_coverage import fits, spelled
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, family_of, stem_of, without_cuda
from gpudoctor.isa import Runs, capability, dotted
from gpudoctor.machine import Extension, Gpu, MissingLibrary
from gpudoctor.situation import Situation
from gpudoctor.situation.extensions import alternatives, by_package, file_of, made_for_gpus, place_of, vendor_of
from gpudoctor.situation.gpu_groups import finding

# --- code for the GPUs -----------------------------------------------------------------------------


@check("GPD427", "ext-built-without-gpu-arch", "packages")
def ext_built_without_gpu_arch(situation: Situation) -> Verdicts:
    """A package has no code for a GPU.

    ## Why it matters
    The package (flash-attn, vllm, onnxruntime-gpu ...) dies with "no kernel image is available for execution on the
    device" at its first kernel, or computes on the CPU and does not say so.

    ## How it is judged
    Some code in the libraries of the package must run on the GPU. Helpers for chosen architectures do not count, nor
    does a library that cannot be loaded beside one that can. A package that was compiled against torch is judged for
    the GPUs that torch supports. Of a package that is only described the matrix says which GPUs it supports. It is an
    error if no GPU is supported and the package is of no use without one, else a warning.

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


def _computes(situation: Situation, extension: Extension) -> bool:
    """Whether a package computes with a library, wherever it runs."""
    carried = (*extension.sass, *extension.ptx, *extension.gfx)
    if not carried:
        return False
    if extension.sass and not extension.ptx and all(_is_chosen(arch, extension.loose) for arch in extension.sass):
        return False
    roles = situation.matrix.tables.library_roles
    role = next((row.role for row in roles if re.search(f"/{row.library}$", extension.path)), "")
    return role not in ("part", "chosen")


def _is_chosen(arch: str, loose: bool) -> bool:
    """Whether code was written for exactly this GPU or family. The header of a loose kernel does not tell sm_90a from
    sm_90; from that generation on such kernels are."""
    found = capability(arch)
    return arch[-1] in "af" or (loose and found is not None and found >= (9, 0))


def _gpus(situation: Situation, extensions: list[Extension]) -> tuple[Gpu, ...]:
    """The GPUs that a package is meant to compute on."""
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
        value = fit.carried.via_override if fit else situation.variable("HSA_OVERRIDE_GFX_VERSION")
        named = situation.matrix.gfx_of_override(value) if value else None
        return gfx_answer(situation.matrix, named or arch, _all(extensions, "gfx")).runs
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
    wanted = tuple(dict.fromkeys(gpu.arch.value or "" for gpu in lacking))
    carried = tuple(arch for kind in ("sass", "ptx", "gfx") for arch in _all(extensions, kind))
    return finding(
        severity,
        lacking,
        message=f"{name} was built without code for {', '.join(dict.fromkeys(gpu.name for gpu in lacking))}: its "
        "first kernel will fail, or it computes on the CPU.",
        saw=spelled(carried),
        want=spelled(wanted),
        evidence=(
            Evidence.of("gpu.arch", lacking[0].arch),
            *(
                Evidence(f"{one.package}.archs", spelled((*one.sass, *one.ptx, *one.gfx)), one.path)
                for one in extensions
            ),
        ),
        fixes=_another_build(situation, first, lacking)
        or (Fix(f"Install another {first.package}", (_rebuild(situation, first, wanted),)),),
    )


def _another_build(situation: Situation, extension: Extension, lacking: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    """Builds of a framework that has several: one of them may have code for these GPUs."""
    from gpudoctor.frameworks.gpu_builds import installs

    framework = framework_of(situation, extension.package)
    return installs(situation, framework, lacking) if framework else ()


def _rebuild(situation: Situation, extension: Extension, wanted: tuple[str, ...]) -> Manual:
    package, amd = extension.package, wanted[0].startswith("gfx")
    row = next((row for row in situation.matrix.tables.extension_builds if row.package == package), None)
    least = capability(row.least) if row else None
    if row and least and any(found < least for arch in wanted if (found := capability(arch))):
        return unsupported(package, row.least or "")
    settings = (row.build_amd if amd else row.build) if row else None
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


# --- the libraries that it needs -------------------------------------------------------------------

_ESSENTIAL = (
    "libcudart", "libcublas", "libcublasLt", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnvrtc",
    "libnvJitLink", "libcudnn", "libtorch_cuda", "libc10_cuda", "libtorch_hip", "libc10_hip",
    "libamdhip64", "libhipblas", "libhipblaslt", "librocblas", "libMIOpen",
)  # fmt: skip
"""Libraries that GPU work itself needs; others are for some operations, or for several GPUs."""


@check("GPD445", "framework-cuda-libs-missing", "packages")
def framework_cuda_libs_missing(situation: Situation) -> Verdicts:
    """A package needs libraries of CUDA or ROCm that are not there.

    ## Why it matters
    The package cannot be imported ("libcudart.so.12: cannot open shared object file"), or it cannot load its GPU part
    and computes on the CPU without saying so.

    ## How it is judged
    By the names in the headers of its libraries, major release included. A name is missing if neither the environment
    nor the system's load path has it, or if its file is cut short. So is a part that one of NVIDIA's libraries opens
    from its own wheel, such as NVRTC's builtins. A package that was compiled against torch shares torch's CUDA: a
    runtime of another major counts only on its own search path. cuda-pathfinder, which CuPy uses, takes CUDA 13's
    library where both are there. Of libraries that differ only in numbers one must load. What only some operations
    need (NCCL, TensorRT ...) matters if the whole package needs it, or if another major release of it is installed.
    A package that a check of its own calls built for another torch is not judged here, nor are alternatives of which
    one is gone. Packages that also compute on the CPU get a warning.

    ## Fix safety
    Installs the packages that the package itself names for them, if it names some; torch stays as it is.
    """
    for package, extensions in by_package(situation).items():
        if _hangs_on_a_cpu_torch(situation, package, extensions) or _is_of_another_torch(situation, package):
            continue
        if in_one_folder(situation, package):
            continue  # whose libraries these are is told there
        installed = situation.machine.installed(package)
        incomplete = {place_of(file.path) for file in installed.lost} if installed else set()
        groups = [
            group
            for place, group in alternatives(extensions).items()
            if place not in incomplete and _needs_libraries(situation, group)
        ]
        lacking = [group[0] for group in groups if all(one.missing for one in group)]
        missing = _that_matter(lacking, whole=len(lacking) == len(groups))
        if not missing.keys() <= _told_of_the_framework(situation, package):
            essential = len(lacking) == len(groups) or any(map(_is_essential, missing.values()))
            severity: Severity = "error" if essential and made_for_gpus(package, extensions) else "warning"
            yield _not_loaded(situation, lacking, missing, severity)


def _told_of_the_framework(situation: Situation, package: str) -> frozenset[str]:
    """Libraries that its framework does not find, which another check tells, with where it looks."""
    framework = framework_of(situation, package)
    files = framework.files if framework else None
    return frozenset((files.not_found.value if files else None) or ())


def _is_of_another_torch(situation: Situation, package: str) -> bool:
    """Whether another check says so: the right release of the package asks for other libraries."""
    for companion in _COMPANIONS:
        if package == companion:
            from gpudoctor.frameworks.torch.companions import mismatch

            return mismatch(situation, companion) is not None
    return package in _OWN_CHECKS and torch_mismatch(situation, package) == "error"


def _hangs_on_a_cpu_torch(situation: Situation, package: str, extensions: tuple[Extension, ...]) -> bool:
    """Whether it computes with torch, and that is missing or cannot use a GPU: a problem of its own."""
    installed = situation.machine.installed(package)
    asked = (parsed(line) for line in (installed.requires if installed else ()))
    with_torch = any(one.of_torch for one in extensions) or any(one and one.name == "torch" for one in asked)
    return with_torch and situation.built_for is None


def _needs_libraries(situation: Situation, group: tuple[Extension, ...]) -> bool:
    """Whether one of these is for a GPU that can be used here, and names libraries for that."""
    named = [one for one in group if one.needs or one.opens or one.missing]
    if any(one.of_torch for one in named):
        return bool(situation.built_for and situation.usable_of(situation.built_for))
    vendors = {vendor_of(one) for one in named}
    return any(gpu.vendor in vendors for gpu in situation.usable)


def _that_matter(lacking: list[Extension], *, whole: bool) -> dict[str, MissingLibrary]:
    """Missing libraries by name. What only some operations need is left out beside an essential one, and where the
    package works without and no release of it is installed."""
    missing = {one.name: one for extension in lacking for one in extension.missing}
    chosen = {name: one for name, one in missing.items() if _is_essential(one)}
    return chosen or {name: one for name, one in missing.items() if whole or one.instead}


def _is_essential(missing: MissingLibrary) -> bool:
    return not {stem_of(missing.name), family_of(missing.name)}.isdisjoint(_ESSENTIAL)


def _not_loaded(
    situation: Situation, lacking: list[Extension], missing: dict[str, MissingLibrary], severity: Severity
) -> Finding:
    concerned = [one for one in lacking if any(each.name in missing for each in one.missing)]
    first = concerned[0]
    files = ", ".join(dict.fromkeys(map(file_of, concerned[:3]))) + (" ..." if len(concerned) > 3 else "")
    there = tuple(dict.fromkeys(posixpath.basename(one.instead) for one in missing.values() if one.instead))
    beside = f" The environment has {', '.join(there)}." if there else ""
    later = all(one.opens and not one.needs for one in concerned)
    package = situation.machine.installed(first.package)
    if package is not None and package.built_for_torch:
        beside += f" It was built for torch {package.built_for_torch}."
    state = "missing"
    passed_over = tuple(one.passed_over for one in missing.values() if one.passed_over)
    if passed_over:
        state = "passed over"
        beside = f" cuda-pathfinder, which loads them for it, takes {', '.join(there)} instead."
    return Finding(
        severity=severity,
        message=f"{first.package} {first.version} cannot {'use a GPU through' if later else 'load'} {files}: "
        f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} {state}.{beside}",
        saw=", ".join(there) or "none of them",
        want=", ".join(missing),
        subject=f"{first.package} {first.version}",
        confidence="likely" if later else "certain",
        evidence=tuple(
            Evidence("needs", " ".join(each.name for each in one.missing), one.path) for one in concerned[:5]
        ),
        fixes=tuple(_ways(situation, first, missing, passed_over)),
    )


def _ways(
    situation: Situation, extension: Extension, missing: dict[str, MissingLibrary], passed_over: tuple[str, ...]
) -> Iterator[Fix]:
    """A build for the CUDA that is here comes first. What cuda-pathfinder passes over may lie where the loader
    looks."""
    from gpudoctor.frameworks.gpu_builds import environment_of_its_own, for_the_cuda_here

    framework = framework_of(situation, extension.package)
    if framework and not extension.of_torch:
        yield from for_the_cuda_here(situation, framework, newer=bool(passed_over))
    if passed_over:
        yield on_the_loaders_path(dict.fromkeys(map(posixpath.dirname, passed_over)))
    else:
        yield _provide(situation, extension, missing)
    if framework:
        yield from environment_of_its_own(situation, framework)


def _provide(situation: Situation, extension: Extension, missing: dict[str, MissingLibrary]) -> Fix:
    """What the package itself names as the source of these libraries; else a package for what is there. Two releases
    of CUDA in one environment overwrite each other's cuDNN and NCCL."""
    owners = dict.fromkeys(one.owner for one in missing.values())
    if all(owners):  # the installer takes them for installed
        why = f"its files are gone, and {extension.package} needs them"
        listed = filter(None, map(situation.machine.installed, owners))
        again = tuple(ReinstallPackage(owner.name, owner.version, why=why) for owner in listed)
        return Fix("Install these packages again", again)
    package = situation.machine.installed(extension.package)
    asked = [one for line in (package.requires if package else ()) if (one := parsed(line))]
    sources = {one.name: one for one in asked if one.name.startswith("nvidia-")}
    brought = {distribution_of(name) for name in missing}
    other_release = extension.of_torch or any(one.instead for one in missing.values())
    framework = framework_of(situation, extension.package)
    if framework and framework.build and framework.build.extra and not extension.of_torch:
        from gpudoctor.frameworks.gpu_builds import install

        fix = install(situation, framework, framework.build)
        if fix is not None:
            return fix
    if not other_release and any(without_cuda(name) in brought for name in sources):
        why = f"{extension.package} names it as a source of its libraries"
        remedies = tuple(ReplacePackage(one.name, one.specifier, why=why) for one in sources.values())
        return Fix(f"Install the libraries that {extension.package} names", remedies)
    title = f"Install a {extension.package} for this {'ROCm' if vendor_of(extension) == 'amd' else 'CUDA'}"
    toolkit = next((one.marker for one in asked if one.name == "cuda-toolkit" and "extra" in one.marker), "")
    extra = re.search(r"extra\s*==\s*[\"']([\w-]+)", toolkit)
    if extra and not other_release:
        why = "with this extra it brings its libraries"
        whole = ReplacePackage(extension.package, f"=={extension.version}", extra=extra[1], why=why)
        return Fix(f"Install the libraries that {extension.package} names", (whole,))
    return Fix(title, (Manual(_advice(extension, tuple(missing)), risk="replaces"),))


def _advice(extension: Extension, names: tuple[str, ...]) -> str:
    package, runtime = extension.package, "ROCm" if vendor_of(extension) == "amd" else "CUDA"
    if extension.of_torch:
        return (
            f"Install a build of {package} for the {runtime} of the installed torch (see its release page, or "
            f"`gpudoctor scan WHEEL`), or uninstall {package} if nothing needs it."
        )
    return (
        f"Install the release of {runtime} that has {', '.join(names)}, so that the loader finds it (ld.so.conf, "
        f"LD_LIBRARY_PATH), or a build of {package} for the release that is there."
    )


# --- the torch that it was compiled against --------------------------------------------------------

_COMPANIONS: tuple[Literal["torchvision", "torchaudio"], ...] = ("torchvision", "torchaudio")
_OWN_CHECKS = ("torchvision", "torchaudio", "xformers", "flash-attn", "vllm", "torchcodec")
"""Packages whose torch has a check of its own."""


@check("GPD446", "extension-torch-mismatch", "packages", framework="torch")
def extension_torch_mismatch(situation: Situation) -> Verdicts:
    """A package was compiled against another torch.

    ## Why it matters
    Its library cannot be loaded: "undefined symbol: _ZN3c10..." at import, or at the first use.

    ## How it is judged
    By the symbols of torch that its libraries need: each must be defined by the installed torch. A package that pins
    this very torch is not read.

    ## Fix safety
    Replaces only the package, if a release of it is known that was built for this torch.
    """
    torch = situation.torch
    for package in by_package(situation) if torch else ():
        lacking = unloadable(situation, package) if package not in _OWN_CHECKS else ()
        installed = situation.machine.installed(package)
        if torch is None or not lacking or installed is None:
            continue
        wanted, source = built_for(situation, installed)
        told = f" It was built for torch {wanted.removeprefix('==')}." if wanted else ""
        yield Finding(
            severity="error",
            message=f"{package} {installed.version} was compiled against another torch than {torch.version}: "
            f"{file_of(lacking[0])} needs {lacking[0].undefined[0]}, which this torch does not define.{told}",
            saw=f"torch {torch.version}",
            want=f"torch {wanted}" if wanted else f"a torch with {lacking[0].undefined[0]}",
            subject=f"{package} {installed.version}",
            evidence=(
                *symbol_evidence(lacking),
                Evidence("torch.version", torch.version, torch.source),
                *((Evidence(f"{package} was built for", f"torch {wanted}", source),) if wanted else ()),
            ),
            fixes=for_this_torch(situation, torch, package, wanted),
        )
