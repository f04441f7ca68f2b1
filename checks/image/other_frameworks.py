"""Frameworks beside torch that an image installs, compared with its base image and with each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.frameworks import (
    ImageFramework,
    InstalledPackage,
    cudnn_of,
    distributions,
    missing_libraries,
    packages_of,
)
from gpudoctor.dockerfile.image import CopyInstruction, Image
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.proposals import package_line
from gpudoctor.dockerfile.recipe import Recipe, about_line, change, command_of
from gpudoctor.dockerfile.unreadable_commands import copies_environment, installs_unread
from gpudoctor.finding import Finding, Fix, Severity
from gpudoctor.machine import PLATFORMS
from gpudoctor.matrix.questions import group_of
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.matrix.versions import major_of, package_matches

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import FrameworkBuild

_CUDA = re.compile(r"cuda|cudnn|cublas|nvidia|tensorrt|conda|mamba|spack", re.IGNORECASE)
_NO_LIBRARIES = re.compile(r"(^|/)(s?bin(/[\w.-]+)?|uvx?|dist|static|assets|public|html|www|ui|web|frontend)/?$")
_LIBRARY_PATH = re.compile(r"nvidia|site-packages|dist-packages|conda|cudnn")


@check("GPD650", "image-framework-libraries-missing", "image")
def framework_libraries_missing(recipe: Recipe) -> Verdicts:
    """A framework needs CUDA libraries that the image does not have.

    ## Why it matters
    onnxruntime-gpu, TensorFlow, CuPy and others need the CUDA of one major release, and some cuDNN. They do not bring
    it unless an extra asks for it. In an image of another release they print one line and compute on the CPU.

    ## How it is judged
    The matrix says for which CUDA a build was made and which cuDNN it opens; the name of the base image tells what
    that has. Nothing is reported if torch brings the same CUDA, or if any line may install CUDA: conda, packages of
    the distribution or of pip, a script or a file that cannot be read. It is a warning if the file leaves the version
    open, or if it installs other packages, which may bring CUDA libraries.

    ## Fix safety
    A release for the image's CUDA, or the extra that brings the libraries, changes only this package.
    """
    for image in recipe.images:
        if not image.facts.known or image.facts.musl or _may_have_cuda(image):
            continue
        for one in recipe.frameworks(image):
            missing = missing_libraries(image, one, recipe.matrix)
            if not missing or one.build is None or _torch_brings(recipe, image, one.build):
                continue
            others = {package.name for place in packages_of(image) for package in place}
            sure = one.certain and others <= set(one.row.packages)  # any other may bring torch, and with it CUDA
            have = f"CUDA {image.facts.cuda}" if image.facts.cuda else "no CUDA"
            have += f" and cuDNN {image.facts.cudnn}" if image.facts.cudnn else ""
            has = f"{image.base} has {have}{'' if image.facts.libraries or not image.facts.cuda else ' without them'}"
            torch = recipe.torch(image)
            if torch is not None and cuda_of(torch.build):
                has += f" (torch brings CUDA {cuda_of(torch.build)})"
            yield _about(
                image,
                one,
                severity="error" if sure else "warning",
                message=f"{one.text} needs {' and '.join(missing)}, and {has}: it does not use the GPU.",
                saw=have,
                want=", ".join(missing),
                fixes=tuple(_ways_to_libraries(recipe, image, one, one.build)),
                refs=(one.build.source,),
            )


def _may_have_cuda(image: Image) -> bool:
    """Whether any line may bring CUDA libraries that its text does not name."""
    if copies_environment(image) is not None or any(map(_may_hold_libraries, image.copied)):
        return True
    path = image.settings.get("LD_LIBRARY_PATH")
    if path is not None and (path.value is None or _LIBRARY_PATH.search(path.value)):
        return True
    for step in image.steps:
        if installs_unread(image, step):
            return True
        if step.installs and step.pip.tool != "conda":
            if any(one.name.startswith(("nvidia-", "cuda-")) for one in step.pip.requirements):
                return True
        elif _CUDA.search(step.command.text):
            return True
    return False


def _may_hold_libraries(copied: CopyInstruction) -> bool:
    """Whether what is copied from a stage or image may hold CUDA libraries. What an environment of a stage holds is
    known by the commands that fill it; programs and pages of a user interface are none."""
    if not copied.origin or copied.followed:
        return False
    return not _NO_LIBRARIES.search(copied.target) and not all(map(_NO_LIBRARIES.search, copied.sources))


def _torch_brings(recipe: Recipe, image: Image, build: FrameworkBuild) -> bool:
    """Whether the image's torch brings the CUDA of a build, or may do so."""
    held = recipe.torch(image)
    if held is None:
        names = {one.name for place in packages_of(image) for one in place}
        return image.facts.has_torch or "torch" in names
    return not held.known or major_of(cuda_of(held.build)) == major_of(build.cuda)


def _ways_to_libraries(recipe: Recipe, image: Image, one: ImageFramework, build: FrameworkBuild) -> Iterator[Fix]:
    step, asked = one.package.step, one.package.requirement
    for row in recipe.matrix.builds_of(one.row.framework):
        if row.install == one.package.name == row.package and row.newest and _fits(row, image):
            text = package_line(image, step, asked, f"{row.install}=={row.newest}")
            yield change(f"Use a release for CUDA {row.cuda}", text)
            break
    needs = " and ".join(missing_libraries(image, one, recipe.matrix))
    example = _image_with(recipe, build.cuda, one.cudnn)
    such_as = f", such as {example}" if example else ""
    base = change("Use another base image", image.on_base(f"an image with {needs}{such_as}"))
    wanted = build.with_extra + (f"=={one.version}" if one.version else "")
    own = change("Install the libraries with it", package_line(image, step, asked, wanted))
    if not (build.extra and build.install):
        yield base
    else:  # what opens its libraries itself looks in these packages, too
        yield from (own, base) if build.opens else (base, own)


def _image_with(recipe: Recipe, cuda: str | None, cudnn: str | None) -> str:
    """NVIDIA's image with the libraries of that CUDA, and with that cuDNN; "" if no row names one."""
    for row in recipe.matrix.tables.base_images:
        name = row.example.replace("-devel", "-runtime")
        facts = recipe.matrix.images.base_image(name)
        if facts is None or facts.vendor != "nvidia" or facts.has_torch or not facts.libraries:
            continue
        if major_of(facts.cuda) == major_of(cuda) and cudnn in (None, facts.cudnn):
            return name
    return ""


def _fits(build: FrameworkBuild, image: Image) -> bool:
    """Whether the base image has all that a build needs, and the Python for its newest release."""
    facts, python = image.facts, python_of(image)
    if not facts.libraries or not facts.cuda or major_of(build.cuda) != major_of(facts.cuda):
        return False
    return cudnn_of(build) in (None, facts.cudnn) and (python is None or not build.pythons or python in build.pythons)


@check("GPD651", "image-framework-other-vendor", "image")
def framework_other_vendor(recipe: Recipe) -> Verdicts:
    """A framework is built for another vendor's GPUs than the base image.

    ## Why it matters
    A CUDA build finds no GPU in a container for ROCm, a ROCm build none in one for CUDA: the framework computes on
    the CPU and says little.

    ## How it is judged
    By the package's name or extra, and the vendor of the base image. A package that serves machines without a GPU as
    well is not reported. If GPUs are described, it is checked against them instead.

    ## Fix safety
    The base image or the package changes; nothing else does.
    """
    for image in recipe.images:
        if image.facts.vendor is None:
            continue
        for one in recipe.frameworks(image):
            if (
                (recipe.gpus and distributions(one))
                or one.build is None
                or one.build.vendor == image.facts.vendor
                or one.build.default
            ):
                continue
            own, needed = PLATFORMS[one.build.vendor], PLATFORMS[image.facts.vendor]
            yield _about(
                image,
                one,
                severity="error",
                message=f"{image.base} is made for {needed}, but {one.text} ({one.build.package}) is built for "
                f"{own}: it finds no GPU.",
                saw=one.build.package,
                want=f"a {needed} build",
                fixes=_build_for(recipe, image, one, needed)
                or (change("Use another base image", image.on_base(f"an image for {own}")),),
            )


def _has_no_libraries(recipe: Recipe, image: Image, build: FrameworkBuild) -> bool:
    """Whether a build that serves CPUs, too, finds no CUDA in an image that is not made for it."""
    without = image.facts.known and image.facts.cuda is None and image.facts.vendor is None
    return build.default and without and not _may_have_cuda(image) and not _torch_brings(recipe, image, build)


def _without_extra(image: Image, one: ImageFramework) -> Finding:
    names, step = ", ".join(one.lacks), one.package.step
    kind = "rocm" if "rocm" in names else "cuda"
    there = [
        name
        for name, releases in one.row.extras.items()
        if kind in name and package_matches(releases, one.package.pinned or "999")
    ]
    asked = " or ".join(f"{one.package.name}[{name}]" for name in there)
    advice = f"{image.place(one.line)}: ask for {asked}, or leave the extra out"
    if len(there) == 1:
        wanted = f"{one.package.name}[{there[0]}]{one.package.requirement.specifier}"
        advice = package_line(image, step, one.package.requirement, wanted)
    title = f"Ask for an extra that {one.row.title} has" if there else "Install a release with that extra"
    if not there:
        advice = f"{image.place(one.line)}: take a release of {one.package.name} with GPU support"
    return _about(
        image,
        one,
        severity="warning",
        message=f"{one.text} has no extra {names}: pip leaves it out, and {one.row.title} does not use the GPU.",
        saw=f"{one.package.name}{one.package.requirement.extras}",
        want=asked or "a GPU build",
        fixes=(change(title, advice),),
        refs=(one.row.source,),
    )


def _about(image: Image, one: ImageFramework, **parts: Any) -> Finding:
    """A likely finding about the command that installs a framework."""
    return about_line(image, one.line, one.package.step.command.shown, framework=one.row.framework, **parts)


def _build_for(recipe: Recipe, image: Image, one: ImageFramework, kind: str) -> tuple[Fix, ...]:
    """The line that installs the best build of that kind; none if no index has one."""
    return tuple(
        change(
            f"Install the {kind} build",
            package_line(image, one.package.step, one.package.requirement, row.with_extra),
        )
        for row in _builds_for(recipe, image, one)[:1]
    )


def _builds_for(recipe: Recipe, image: Image, one: ImageFramework) -> list[FrameworkBuild]:
    """The builds for the base image's GPUs that an index has: those that bring their libraries, or are for its CUDA
    or ROCm. That of its CUDA comes first."""
    facts = image.facts
    rows = [row for row in recipe.matrix.builds_of(one.row.framework) if row.vendor == facts.vendor and row.install]

    def same(row: FrameworkBuild) -> bool:
        return major_of(row.cuda or row.rocm) == major_of(facts.cuda or facts.rocm)

    fitting = [row for row in rows if row.extra or (row.cuda or row.rocm) is None or same(row)]
    return sorted(fitting, key=lambda row: not same(row))


@check("GPD652", "image-packages-overwrite", "image")
def packages_overwrite(recipe: Recipe) -> Verdicts:
    """Two packages of the image own the same files.

    ## Why it matters
    onnxruntime and onnxruntime-gpu both write the folder onnxruntime. pip installs both, and the one that comes last
    overwrites the other: the GPU build may be gone.

    ## How it is judged
    The matrix names packages that share files. It is an error if the CPU package is installed by a later command, a
    warning if one command installs both, because their order is chance. A GPU package that comes last, or an
    uninstall before it, is in order.

    ## Fix safety
    Leaving one of them out takes nothing from the other: they hold the same modules.
    """
    for image in recipe.images:
        for place in packages_of(image):
            for row in recipe.matrix.tables.shared_files:
                groups: dict[str, list[InstalledPackage]] = {}
                for one in place:
                    if group := group_of(row, one.name):
                        groups.setdefault(group, []).append(one)
                builds = {build.package for build in recipe.matrix.tables.framework_builds if not build.default}
                for found_ in groups.values():
                    yield from _overwriting(image, found_, builds, row.severity, row.what)


def _overwriting(
    image: Image, packages: list[InstalledPackage], builds: set[str], worst: Severity, what: str
) -> Iterator[Finding]:
    ordered = sorted(packages, key=lambda one: one.order)
    last = ordered[-1]
    together = [one for one in ordered if one.order == last.order]
    gpu = [one for one in ordered if one.name in builds]
    if len(ordered) < 2 or not gpu or (len(together) == 1 and last in gpu and len(gpu) == 1):
        return
    surely = len(together) == 1 and last not in gpu
    names = " and ".join(one.name for one in ordered)
    others = [one for one in ordered if one is not gpu[-1]]
    places = ((one.requirement.file or image.place(one.step.command.line), one.name) for one in others)
    advice = ", ".join(dict.fromkeys(f"{place}: leave out {name}" for place, name in places))
    yield Finding(
        severity=worst if surely else "warning",
        confidence="likely",
        message=f"{names} own the same files ({what}): "
        + (
            f"{last.name} is installed last and overwrites {gpu[-1].name}."
            if surely
            else "which one stays is chance."
        ),
        saw=names,
        want=f"{gpu[-1].name} alone",
        subject=image.place(last.step.command.line),
        evidence=tuple(command_of(image, one.step.command) for one in ordered),
        fixes=(change(f"Install {gpu[-1].name} alone", f"{advice}."),),
    )


@check("GPD653", "image-framework-cpu-only", "image")
def framework_cpu_only(recipe: Recipe) -> Verdicts:
    """The image is made for GPUs, and its framework is a CPU build.

    ## Why it matters
    `pip install jax` installs a CPU build. In a container for CUDA or ROCm it computes on the processor and says so
    in one line. So does `jax[rocm61]`: pip leaves out an extra that the release does not have, with a warning.

    ## How it is judged
    Only for frameworks that people install for GPU work as a rule, in an image whose base is made for GPUs, if no
    torch and no unread file may be what the GPUs are for. It is a warning: the GPU may be for another program. If
    GPUs are described, the framework is checked against them instead. An extra for GPUs that the matrix does not know
    of the framework, or not of its release, is told in every image.

    ## Fix safety
    The extra adds the GPU build's packages; the framework keeps its version.
    """
    for image in recipe.images:
        facts = image.facts
        for one in recipe.frameworks(image):
            if one.lacks and (one.build is None or _has_no_libraries(recipe, image, one.build)):
                yield _without_extra(image, one)
        if facts.vendor is None or facts.has_torch or recipe.torch(image) is not None:
            continue
        if facts.cuda is None and facts.rocm is None:  # it may hold the framework itself
            continue
        if copies_environment(image) is not None or any(installs_unread(image, step) for step in image.steps):
            continue
        found = recipe.frameworks(image)
        kind = PLATFORMS[facts.vendor]
        for one in found:
            if (
                (recipe.gpus and distributions(one))
                or not one.cpu
                or one.lacks
                or one.row.gpu != "usually"
                or one.package.name == one.row.cpu != one.row.packages[0]
            ):
                continue
            if any(other.build is not None for other in found):
                continue
            yield _about(
                image,
                one,
                severity="warning",
                message=f"{image.base} is made for {kind}, and {one.text} is a CPU build: it does not use the GPU.",
                saw="a CPU build",
                want=f"a {kind} build",
                fixes=_build_for(recipe, image, one, kind),
            )
