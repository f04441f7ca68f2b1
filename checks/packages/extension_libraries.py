"""Libraries of CUDA or ROCm that packages with GPU code need (GPD445)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.dependencies import parsed
from gpudoctor.finding import Evidence, Finding, Fix, Manual, ReinstallPackage, ReplacePackage, Severity
from gpudoctor.frameworks.other_frameworks import framework_of, in_one_folder, on_the_loaders_path
from gpudoctor.frameworks.torch.compiled_packages import has_own_check, torch_mismatch
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, family_of, stem_of, without_cuda
from gpudoctor.frameworks.torch.unmet_dependencies import required_here
from gpudoctor.machine import Extension, MissingLibrary
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation
from gpudoctor.situation.extensions import alternatives, by_package, file_of, made_for_gpus, place_of, vendor_of

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
    need (NCCL, TensorRT, CuPy's cuDNN) matters if the whole package needs it, or if another major release of it is
    installed, and not only for torch.
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
        missing = _that_matter(situation, lacking, whole=len(lacking) == len(groups))
        if not missing.keys() <= _told_elsewhere(situation, package):
            needed = _essential(situation, lacking)
            essential = len(lacking) == len(groups) or not needed.isdisjoint(missing)
            severity: Severity = "error" if essential and made_for_gpus(package, extensions) else "warning"
            yield _not_loaded(situation, lacking, missing, severity)


def _told_elsewhere(situation: Situation, package: str) -> frozenset[str]:
    """Libraries that its framework does not find, with the places where it looks, and those that torch has lost:
    other checks report them."""
    framework = framework_of(situation, package)
    files = framework.files if framework else None
    lost = (posixpath.basename(file.path) for file in (situation.torch.damaged if situation.torch else ()))
    return frozenset((*((files.not_found.value if files else None) or ()), *lost))


def _is_of_another_torch(situation: Situation, package: str) -> bool:
    """Whether another check reports that the package is for another torch: its right release asks for other
    libraries."""
    for companion in COMPANIONS:
        if package == companion:
            from gpudoctor.frameworks.torch.companions import mismatch

            return mismatch(situation, companion) is not None
    return has_own_check(situation, package) and torch_mismatch(situation, package) == "error"


def _hangs_on_a_cpu_torch(situation: Situation, package: str, extensions: tuple[Extension, ...]) -> bool:
    """Whether it computes with a torch that is missing or cannot use a GPU: that is a problem of its own."""
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


def _is_part(situation: Situation, extension: Extension) -> bool:
    """Whether the package does without this library: it is for a few operations, which name it themselves."""
    return any(row.role == "part" for row in situation.matrix.roles_of(extension.path))


def _that_matter(situation: Situation, lacking: list[Extension], *, whole: bool) -> dict[str, MissingLibrary]:
    """Missing libraries by name. Beside an essential one, those for only some operations are left out; so are they
    where the package works without them and nobody installed a release of them for it."""
    missing = {one.name: one for extension in lacking for one in extension.missing}
    needed = _essential(situation, lacking)
    chosen = {name: one for name, one in missing.items() if name in needed}
    return chosen or {name: one for name, one in missing.items() if whole or _is_wanted(situation, one)}


def _essential(situation: Situation, lacking: list[Extension]) -> set[str]:
    """Names of the missing libraries that GPU work itself needs, and not only a part of the package."""
    whole = (one for one in lacking if not _is_part(situation, one))
    names = {missing.name for one in whole for missing in one.missing}
    return {name for name in names if not {stem_of(name), family_of(name)}.isdisjoint(_ESSENTIAL)}


def _is_wanted(situation: Situation, missing: MissingLibrary) -> bool:
    """Whether another release of the library is there, and not only because torch requires it."""
    base = distribution_of(missing.name)
    pinned = (one.what.name for one in required_here(situation) if one.by.name == "torch")
    return bool(missing.instead) and not (base and any(without_cuda(name) == base for name in pinned))


def _not_loaded(
    situation: Situation, lacking: list[Extension], missing: dict[str, MissingLibrary], severity: Severity
) -> Finding:
    concerned = [one for one in lacking if any(each.name in missing for each in one.missing)]
    first = concerned[0]
    files = enumeration(list(dict.fromkeys(map(file_of, concerned))), 3)
    libraries = (posixpath.basename(one.instead) for one in missing.values())
    there = tuple(dict.fromkeys(name for name in libraries if ".so" in name))  # else the folder of torch
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
    from gpudoctor.frameworks.gpu_builds import for_the_cuda_here
    from gpudoctor.frameworks.torchs_cudnn import beside_torch, environment_of_its_own

    framework = framework_of(situation, extension.package)
    if framework and not extension.of_torch:
        yield from for_the_cuda_here(situation, framework, newer=bool(passed_over))
    if passed_over:
        yield on_the_loaders_path(dict.fromkeys(map(posixpath.dirname, passed_over)))
    else:
        provided = (_provide(situation, extension, missing),)
        yield from beside_torch(situation, framework, provided) if framework else provided
    if framework:
        yield from environment_of_its_own(situation, framework)


def _provide(situation: Situation, extension: Extension, missing: dict[str, MissingLibrary]) -> Fix:
    """What the package itself names as the source of these libraries; else a package for what is there. Beside
    another release of CUDA only what has a folder of its own: two overwrite each other's cuDNN and NCCL."""
    owners = dict.fromkeys(one.owner for one in missing.values())
    if all(owners):  # the installer takes them for installed
        why = f"its files are gone, and {extension.package} needs them"
        listed = filter(None, map(situation.machine.installed, owners))
        again = tuple(ReinstallPackage(owner.name, owner.version, why=why) for owner in listed)
        return Fix("Install these packages again", again)
    if extension.of_torch and (wheel := next(_wheels(situation, extension.package), None)):
        return wheel
    package = situation.machine.installed(extension.package)
    asked = [one for line in (package.requires if package else ()) if (one := parsed(line))]
    of_nvidia = [one for one in asked if one.name.startswith("nvidia-")]
    always = {one.name: one for one in of_nvidia if "extra" not in one.marker}
    sources = {one.name: one for one in of_nvidia} | always
    brought = {distribution_of(name) for name in missing}
    other_release = extension.of_torch or any(one.instead for one in missing.values())
    framework = framework_of(situation, extension.package)
    if framework and not extension.of_torch:
        from gpudoctor.frameworks.gpu_builds import install_again

        if (fix := install_again(situation, framework)) is not None:
            return fix
    absent = {without_cuda(name) for name in always if situation.machine.installed(name) is None}
    apart = not extension.of_torch and not any(map(situation.matrix.shared_folder, always))
    named = sources if not other_release else always if apart and brought <= absent else {}
    if any(without_cuda(name) in brought for name in named):
        why = f"{extension.package} names it as a source of its libraries"
        remedies = tuple(ReplacePackage(one.name, one.specifier, why=why) for one in named.values())
        return Fix(f"Install the libraries that {extension.package} names", remedies)
    from gpudoctor.frameworks.torch.release_for_torch import for_cuda_of_torch

    if instead := for_cuda_of_torch(situation, (extension.package,)):
        return instead
    title = f"Install a build of {extension.package} for this {_runtime(situation, extension)}"
    toolkit = next((one.marker for one in asked if one.name == "cuda-toolkit" and "extra" in one.marker), "")
    extra = re.search(r"extra\s*==\s*[\"']([\w-]+)", toolkit)
    if extra and not other_release:
        why = "with this extra it brings its libraries"
        whole = ReplacePackage(extension.package, f"=={extension.version}", extra=extra[1], why=why)
        return Fix(f"Install the libraries that {extension.package} names", (whole,))
    return Fix(title, (Manual(_advice(situation, extension, tuple(missing)), risk="replaces"),))


def _wheels(situation: Situation, package: str) -> Iterator[Fix]:
    from gpudoctor.frameworks.torch.release_for_torch import published_wheel

    if situation.torch is not None:
        yield from published_wheel(situation, situation.torch, package)


def _runtime(situation: Situation, extension: Extension) -> str:
    """What a build of it is for: a library beside torch shares torch's runtime, whatever it was compiled for."""
    if extension.of_torch and situation.torch is not None:
        return "ROCm" if situation.torch.rocm else "CUDA"
    return "ROCm" if vendor_of(extension) == "amd" else "CUDA"


def _advice(situation: Situation, extension: Extension, names: tuple[str, ...]) -> str:
    package, runtime = extension.package, _runtime(situation, extension)
    if extension.of_torch:
        from gpudoctor.frameworks.torch.release_for_torch import own_build

        how = own_build(situation, situation.torch, package) if situation.torch else ""
        return how or (
            f"Install a build of {package} for the {runtime} of the installed torch (see its release page, or "
            f"`gpudoctor scan WHEEL`), or uninstall {package} if nothing needs it."
        )
    framework = framework_of(situation, package)
    page = framework.build.instructions if framework and framework.build else ""
    where = f" ({page})" if page else ""
    return (
        f"Install a build of {package} for the {runtime} of this machine{where}, or the release of {runtime} that "
        f"has {', '.join(names)}, so that the loader finds it (ld.so.conf, LD_LIBRARY_PATH)."
    )
