"""The indexes that torch is installed from: whether they have the build, and whether pip uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.frameworks import packages_of
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.image_python import oldest_python, python_of
from gpudoctor.dockerfile.proposals import (
    build_after,
    build_within,
    index_of,
    install_line,
    nearest_build,
    package_line,
    torch_finding,
)
from gpudoctor.dockerfile.recipe import Recipe, about_line, change
from gpudoctor.dockerfile.torch_requests import TorchRequest, asked_for
from gpudoctor.dockerfile.torch_wheels import outrun
from gpudoctor.finding import Finding, Fix
from gpudoctor.matrix.versions import figures
from gpudoctor.wheel_tags import misfit

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import TorchBuild

_OF_PYTORCH = "download.pytorch.org"


@check("GPD602", "image-torch-without-index", "image")
def without_index(recipe: Recipe) -> Verdicts:
    """torch is installed from an index that does not have the wanted build.

    ## Why it matters
    The package index has one build of each release. `torch==2.6.0+cu124` is not on it, so the build of the image
    fails. With `--extra-index-url` pip takes the newest version from both indexes. As soon as the package index has a
    newer one, pip no longer takes the wanted build. AMD's pages of wheels (repo.radeon.com/rocm/manylinux) are no
    index: pip finds nothing there unless `--find-links` names them.

    ## How it is judged
    The check reads the command (with requirements files of the build context), the variables of pip and uv, and the
    matrix rows of torch's builds. A mirror, a configuration file or find-links are a choice: no report.

    ## Fix safety
    `--index-url` with an exact version gives the same build tomorrow.
    """
    for image in recipe.images:
        for asked in asked_for(image):
            if asked.source == "package index" and asked.local and not _image_satisfies(recipe, image, asked):
                saw = f"torch{asked.requirement.specifier}, no index"
                yield _not_there(recipe, image, asked, "the package index", saw, "Name the index")
            elif _of_another_index(recipe, image, asked):
                place = f"the index of {asked.build}"
                yield _not_there(recipe, image, asked, place, asked.index_url, "Name its own index")
            elif asked.source == "both" and not asked.pinned:
                yield from _outrun(recipe, image, asked)
            elif any(row.flat and asked.index_url.startswith(row.base) for row in recipe.matrix.tables.wheel_indexes):
                yield torch_finding(
                    image,
                    asked,
                    "error",
                    f"{asked.index_url} is a page of wheels, not an index: {asked.tool} finds no torch there.",
                    "an index",
                    "--find-links",
                    (change("Name it as a page", f"{image.place(asked.line)}: --find-links {asked.index_url}"),),
                    certain=False,
                )


def _not_there(recipe: Recipe, image: Image, asked: TorchRequest, place: str, saw: str, title: str) -> Finding:
    """A build that is on another index than the command looks in."""
    url = index_of(recipe, asked.local)
    better = install_line(recipe, image, asked.line, asked.pinned, asked.local, url)
    return torch_finding(
        image,
        asked,
        "error",
        f"torch {asked.pinned}+{asked.local} is not on {place}: the build fails here.",
        saw,
        f"--index-url {url}" if url else "the index of that build",
        (change(title, better),) if url else (),
    )


def _of_another_index(recipe: Recipe, image: Image, asked: TorchRequest) -> bool:
    """Whether the build exists, and is on none of the indexes that the command names."""
    if not asked.local or asked.locked or asked.build in ("", asked.local) or _image_satisfies(recipe, image, asked):
        return False
    rows = recipe.matrix.torch.builds(image.platform)
    return any((row.version, row.build, row.origin) == (asked.pinned, asked.local, _OF_PYTORCH) for row in rows)


def _image_satisfies(recipe: Recipe, image: Image, asked: TorchRequest) -> bool:
    """Whether the base image already has exactly that build."""
    held = recipe.torch(image)
    return held is not None and held.source == "base" and held.build == asked.local and held.version == asked.pinned


def _outrun(recipe: Recipe, image: Image, asked: TorchRequest) -> Iterator[Finding]:
    """An extra index whose newest torch is older than the package index's."""
    held, facts = recipe.torch(image), image.facts
    if recipe.gpus:
        return  # whether that torch works there is what the checks of machines tell
    if held is None or facts.vendor not in (None, held.vendor):
        return  # image-torch-other-vendor reports it, with the same fix
    wanted = outrun(image, recipe.matrix, held, asked)
    if wanted is None:
        return
    better = install_line(recipe, image, asked.line, wanted.version, asked.build, asked.index_url)
    yield torch_finding(
        image,
        asked,
        "warning",
        f"pip takes the newest torch from both indexes: {held.version} from the package index ({held.build}), not "
        f"{wanted.version} from the index of {asked.build}.",
        f"torch {held.version} ({held.build})",
        f"torch {wanted.version}+{asked.build}",
        (change("Install torch from its own index only", better),),
        certain=False,
    )


@check("GPD616", "image-torch-backend-auto", "image")
def backend_auto(recipe: Recipe) -> Verdicts:
    """uv is told to find out the GPU while the image is built.

    ## Why it matters
    `--torch-backend=auto` asks for the driver of the machine that builds. A build sees no driver, so uv takes torch
    from the index for CPUs, and says nothing.

    ## How it is judged
    A command of uv has that option, or the variable UV_TORCH_BACKEND=auto, and the image is meant for a GPU: its base
    image is, or the command installs a package that is compiled against torch for GPUs (vLLM, xformers). It is a
    warning, because an engine may give GPUs to its builds.

    ## Fix safety
    A named build is the same on every machine.
    """
    compiled = {row.package for row in recipe.matrix.tables.torch_dependents}
    for image in recipe.images:
        for step in image.steps:
            install = step.pip
            if install.tool != "uv" or install.locked or step.command.maybe:
                continue
            setting = image.variable("UV_TORCH_BACKEND")
            backend = install.backend or step.command.variables.get("UV_TORCH_BACKEND") or setting
            names = {one.name for one in install.requirements}
            of_gpus = bool(names & compiled) or (image.facts.vendor is not None and "torch" in names)
            if backend != "auto" or not of_gpus:
                continue
            place = image.place(step.command.line)
            yield about_line(
                image,
                step.command.line,
                step.command.shown,
                severity="warning",
                message="--torch-backend=auto looks for a driver while the image is built. There is none, and uv "
                "installs a torch for CPUs.",
                saw="--torch-backend=auto",
                want="the name of a build",
                fixes=(
                    change(
                        "Name the build", f"{place}: --torch-backend={_backend_for(image)}, or the build for the GPU"
                    ),
                ),
                refs=("uv 0.13.9 on a machine without a driver asks download.pytorch.org/whl/cpu",),
            )


def _backend_for(image: Image) -> str:
    """The build for the base image, else one that runs on Turing to Blackwell."""
    facts = image.facts
    if facts.rocm:
        return f"rocm{'.'.join(facts.rocm.split('.')[:2])}"
    return f"cu{facts.cuda.replace('.', '')}" if facts.cuda else "cu128"


@check("GPD605", "image-no-torch-wheel", "image")
def no_wheel(recipe: Recipe) -> Verdicts:
    """No wheel of that torch, or of another framework, exists for this image.

    ## Why it matters
    pip finds nothing, falls back to an old version, or refuses the file ("not a supported wheel on this platform"):
    the build of the image fails.

    ## How it is judged
    Alpine's musl has no wheels of torch, or of a GPU build of another framework, at all. The base image's tag tells
    its Python, which does not count if the file installs another one. A release that is missing from an index is
    reported if the matrix knows all its builds; it knows none for Intel's GPUs. A constraint of the command may
    exclude the version that it pins. Of a wheel that is named by its path or address, its name tells the Python and
    the platform.

    ## Fix safety
    The proposed line names a build that exists.
    """
    for image in recipe.images:
        for asked in asked_for(image):
            if (
                asked.maybe
                or asked.locked
                or asked.source == "elsewhere"
                or asked.requirement.specifier.startswith("@")
            ):
                continue
            yield from _missing(recipe, image, asked)
        yield from _for_another_python(image)
        yield from _before_this_python(recipe, image)
        if image.facts.musl:
            for one in recipe.frameworks(image):
                command = one.package.step.command
                if one.build is not None and not command.maybe and one.package.step.installs:
                    text = f"{image.base} is Alpine with musl, for which no wheel of {one.build.package} exists."
                    yield about_line(
                        image, command.line, command.shown, severity="error", message=text, saw="musl", want="glibc",
                        fixes=(_with_glibc(image),),
                    )  # fmt: skip


def _for_another_python(image: Image) -> Iterator[Finding]:
    """Wheels that commands name by a path or an address, and that pip does not install into this image."""
    python, (_, _, machine) = python_of(image), image.platform.partition("-")
    for step in image.steps if python is not None else ():
        if step.pip.elsewhere or step.command.maybe:
            continue
        for word, wheel in step.wheels.items():
            made_for = misfit(*wheel.tags, python=python or "", machine=machine, musl=image.facts.musl)
            if made_for:
                name, tag = word.rpartition("/")[2], f"cp{(python or '').replace('.', '')}"
                own = made_for.startswith("Python")
                text = f"{image.place(step.command.line)}: the file whose name says {tag}-{tag}"
                fixes = (
                    change(f"Take the wheel for Python {python}", text),
                    change("Use another Python", image.on_base(f"a base with {made_for}")),
                )
                yield about_line(
                    image, step.command.line, step.command.shown, severity="error",
                    message=f"{name} is a wheel for {made_for}; {image.base} has "
                    f"{f'Python {python}' if own else image.platform}: pip refuses it.",
                    saw=made_for, want=f"Python {python}" if own else image.platform,
                    fixes=fixes if own else (),
                )  # fmt: skip


def _before_this_python(recipe: Recipe, image: Image) -> Iterator[Finding]:
    """Exact releases of other frameworks that are older than the first one with wheels for the image's Python."""
    python = python_of(image) or ""
    rows = recipe.matrix.tables.frameworks
    firsts = {name: by_python.get(python, "") for row in rows for name, by_python in row.wheels_from.items()}
    for one in (one for place in packages_of(image) for one in place):
        first = firsts.get(one.name, "")
        if not first or not one.pinned or figures(one.pinned) >= figures(first):
            continue
        asked, step = one.requirement, one.step
        newer = package_line(image, step, asked, f"{one.name}{asked.extras}=={first}")
        older = image.on_base("a base with an older Python")
        yield about_line(
            image, step.command.line, step.command.shown, severity="error",
            message=f"{one.name} {one.pinned} has no wheel for Python {python}: {first} is the first with one.",
            saw=f"Python {python}", want=f"{one.name} {first} or newer",
            fixes=(change(f"Ask for {one.name} {first}", newer), change("Use another Python", older)),
        )  # fmt: skip


def _with_glibc(image: Image) -> Fix:
    return change("Use a base image with glibc", image.on_base(f"python:{python_of(image) or '3.12'}-slim"))


def _missing(recipe: Recipe, image: Image, asked: TorchRequest) -> Iterator[Finding]:
    if asked.requirement.excluded_by:
        yield _excluded(image, asked, asked.requirement.excluded_by)
        return
    if image.facts.musl:
        yield torch_finding(
            image, asked, "error",
            f"{image.base} is Alpine with musl, for which no torch wheel exists.", "musl", "glibc",
            (_with_glibc(image),),
        )  # fmt: skip
        return
    wanted, of_platform = asked.local or asked.build, recipe.matrix.torch.builds(image.platform)
    if wanted.startswith("rocm") and asked.source != "both" and not any(row.rocm for row in of_platform):
        yield torch_finding(
            image, asked, "error", f"No release of torch has a build for ROCm on {image.platform}.",
            wanted, "linux-x86_64, or another build", (), certain=False,
        )  # fmt: skip
        return
    kind = wanted.rstrip("0123456789.")
    if not any(row.build.startswith(kind) for row in of_platform):
        return  # Intel's builds (xpu), of which the matrix has none
    rows = [row for row in of_platform if row.version == asked.pinned]
    if rows and not image.facts.has_torch:
        yield from _missing_build(recipe, image, asked, rows, wanted)


def _excluded(image: Image, asked: TorchRequest, limit: str) -> Finding:
    place = asked.requirement.file or image.place(asked.line)
    return torch_finding(
        image, asked, "error",
        f"A constraint says torch{limit}, and the same command asks for {asked.pinned}: {asked.tool} finds no "
        "solution, and the build fails here.",
        f"torch{asked.requirement.specifier}", f"torch{limit}",
        (change("Ask for one torch", f"{place}: ask for torch{limit}, or change the constraint"),),
    )  # fmt: skip


def _missing_build(
    recipe: Recipe, image: Image, asked: TorchRequest, rows: list[TorchBuild], wanted: str
) -> Iterator[Finding]:
    """The finding where a release has other builds (`rows`) than the wanted one, or no wheel for this Python."""
    held = recipe.torch(image)
    if recipe.gpus and held is not None and held.known and held.asked == asked:
        return  # the checks of machines tell it, with a fix for GPU, driver and Python together
    python = python_of(image)
    if wanted:
        rows_here = [row for row in rows if row.build == wanted]
        if not rows_here and (asked.source != "both" or asked.local):
            builds = sorted({row.build for row in rows if row.origin == _OF_PYTORCH})
            yield torch_finding(
                image, asked, "error",
                f"torch {asked.pinned} has no build for {wanted}; its builds are {', '.join(builds)}.",
                wanted, ", ".join(builds), tuple(_nearest(recipe, image, asked, rows, wanted)), certain=False,
            )  # fmt: skip
            return
        rows = rows_here or rows
    if python is not None and not any(python in row.pythons for row in rows):
        yield _without_python(recipe, image, asked, rows, wanted, python)
    oldest = oldest_python(image) if python is None else None
    if oldest and all(figures(one) < figures(oldest) for row in rows for one in row.pythons):
        yield _without_python(recipe, image, asked, rows, wanted, oldest, " or newer")


def _without_python(
    recipe: Recipe,
    image: Image,
    asked: TorchRequest,
    rows: list[TorchBuild],
    wanted: str,
    python: str,
    more: str = "",
) -> Finding:
    span = [one for one in rows[0].pythons if one.endswith("t") == python.endswith("t")]
    nearest = min(span, key=lambda one: abs(figures(one)[-1] - figures(python)[-1]), default="")
    facts = image.facts
    build = build_after(recipe, image, asked.pinned, wanted or (f"rocm{facts.rocm}" if facts.rocm else ""))
    if build is None and facts.cuda:
        build = build_within(recipe, image, facts.cuda)
    fixes = [_use(recipe, image, asked, build, f"Use torch {build.version}")] if build and not more else []
    if nearest:
        fixes.append(change("Use another Python", image.on_base(f"a base with Python {nearest}")))
    return torch_finding(
        image, asked, "error",
        f"torch {asked.pinned} has no wheel for Python {python}{more}, which {image.base} has.",
        f"Python {python}", f"Python {span[0]} to {span[-1]}" if span else "another Python", tuple(fixes),
    )  # fmt: skip


def _nearest(recipe: Recipe, image: Image, asked: TorchRequest, rows: list[TorchBuild], wanted: str) -> Iterator[Fix]:
    """The fix that takes the nearest build of the same release."""
    python = python_of(image)
    build = nearest_build(recipe, (row for row in rows if python is None or python in row.pythons), wanted)
    if build is not None:
        yield _use(recipe, image, asked, build, f"Use its build for {build.build}")


def _use(recipe: Recipe, image: Image, asked: TorchRequest, build: TorchBuild, title: str) -> Fix:
    url = recipe.matrix.torch.index_url(build)
    return change(title, install_line(recipe, image, asked.line, build.version, build.build, url))
