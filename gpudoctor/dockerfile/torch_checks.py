"""Checks of the torch that an image installs, against its base image and the builds that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.case import ImageCase, change, line_of
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.torch import Asked, Held, asked_for, candidates, python_of
from gpudoctor.finding import Finding, WayOut
from gpudoctor.matrix.versions import figures, minor

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import TorchBuild

_COMPILED = ("flash-attn", "apex", "mamba-ssm", "causal-conv1d", "deepspeed", "xformers", "pytorch3d", "detectron2",
             "natten", "tinycudann", "torch-scatter", "torch-sparse", "auto-gptq")  # fmt: skip


@check("GPD602", "image-torch-without-index")
def without_index(case: ImageCase) -> Verdicts:
    """torch is installed without the index that holds the wanted build, or with one that is not used.

    ## Why it matters
    The package index has one build of each release. `torch==2.6.0+cu124` is not on it: the build fails. With
    `--extra-index-url` pip takes the newest version of both indexes: as soon as the package index is ahead, the
    chosen build is not taken.

    ## How it is judged
    From the command (requirements files of the build context included), the variables of pip and uv, and the rows of
    torch's builds. A mirror, a configuration file or a find-links says that somebody has chosen: silent.

    ## Fix safety
    `--index-url` with an exact version gives the same build tomorrow.
    """
    for image in case.images:
        for asked in asked_for(image):
            if asked.source == "package index" and asked.local and not image_satisfies(case, image, asked):
                url = index_of(case, asked.local)
                yield _finding(
                    image,
                    asked,
                    "error",
                    f"torch {asked.pinned}+{asked.local} is not on the package index: the build stops here.",
                    f"torch{asked.requirement.specifier}, no index",
                    f"--index-url {url}" if url else "the index of that build",
                    (change("Name the index", _line(image, asked, asked.pinned, asked.local, url)),) if url else (),
                )
            elif asked.source == "both" and not asked.pinned:
                yield from _outrun(case, image, asked)


def image_satisfies(case: ImageCase, image: Image, asked: Asked) -> bool:
    """Whether the base image already has that very build."""
    held = case.torch(image)
    return held is not None and held.source == "base" and held.build == asked.local and held.version == asked.pinned


def _outrun(case: ImageCase, image: Image, asked: Asked) -> Iterator[Finding]:
    """An extra index whose newest torch is older than the package index's."""
    held = case.torch(image)
    if held is None or held.asked != asked or not held.build or held.build == asked.build:
        return
    rows = [row for row in candidates(case.matrix, image.platform, python_of(image)) if row.build == asked.build]
    if not rows or figures(rows[0].version) >= figures(held.version):
        return
    yield _finding(
        image,
        asked,
        "warning",
        f"pip takes the newest torch of both indexes: {held.version} of the package index ({held.build}), not "
        f"{rows[0].version} of {asked.build}.",
        f"torch {held.version} ({held.build})",
        f"torch {rows[0].version}+{asked.build}",
        (
            change(
                "Use torch's index alone for torch",
                _line(image, asked, rows[0].version, asked.build, asked.index_url),
            ),
        ),
        certain=False,
    )


@check("GPD603", "image-cuda-older-than-wheel")
def older_cuda(case: ImageCase) -> Verdicts:
    """The CUDA of the base image is older than that of the torch wheel.

    ## Why it matters
    Wheels bring their own CUDA runtime: torch itself does not use the base image's. But the image then starts on
    hosts whose driver serves the base and not torch (another major); an extension cannot be compiled with an nvcc of
    another major; and an older /usr/local/cuda/lib64 on LD_LIBRARY_PATH comes between the wheel's libraries.

    ## How it is judged
    An error where something is compiled against torch with an nvcc of another major version; a warning where the
    major differs without a driver that is known to serve the wheel, and for LD_LIBRARY_PATH; else a note.

    ## Fix safety
    Either side may be changed: a base image of the wheel's CUDA, or a wheel of the base's.
    """
    for image in case.images:
        held, facts = case.torch(image), image.facts
        wheel = cuda_of(held.build) if held else ""
        if held is None or facts is None or not facts.cuda or not wheel or held.source == "base":
            continue
        majors = figures(facts.cuda)[0], figures(wheel)[0]
        compiled = _compiles(image, held)
        if majors[0] != majors[1] and facts.compiler and compiled:
            yield _older(
                case, image, held, wheel, "error",
                f"{compiled} is compiled with the base image's nvcc {facts.cuda} against a torch for CUDA {wheel}: "
                "torch refuses another major version.",
            )  # fmt: skip
        elif minor(facts.cuda) >= minor(wheel):
            continue
        elif facts.libraries and majors[0] == majors[1] and _base_libraries_first(image):
            yield _older(
                case, image, held, wheel, "warning",
                f"LD_LIBRARY_PATH puts the libraries of CUDA {facts.cuda} before those that the wheel brings (CUDA "
                f"{wheel}): a mixture of both may not load.",
            )  # fmt: skip
        elif majors[0] != majors[1] and case.matrix.driver_for_cuda(case.driver, wheel) not in (
            "serves",
            "minor-version",
        ):
            floor = case.matrix.floor(wheel)
            yield _older(
                case, image, held, wheel, "warning",
                f"The image is made for hosts that serve CUDA {facts.cuda}, its torch needs a driver for CUDA {wheel}"
                + (f" ({floor} or newer)." if floor else "."),
            )  # fmt: skip
        else:
            yield _older(
                case, image, held, wheel, "note",
                f"torch brings CUDA {wheel}; the base image's {facts.cuda} is not what it uses.",
            )  # fmt: skip


def _older(case: ImageCase, image: Image, held: Held, wheel: str, severity: str, message: str) -> Finding:
    facts, asked = image.facts, held.asked
    assert facts is not None and facts.cuda is not None and asked is not None
    ways = [
        change("Take a base image of the wheel's CUDA", f"{image.at(image.base_line)}: FROM an image of CUDA {wheel}")
    ]
    fitting = _build_within(case, image, held, facts.cuda)
    if fitting is not None:
        url = case.matrix.index_url(fitting)
        ways.insert(
            0, change("Take the wheel of the base's CUDA", _line(image, asked, fitting.version, fitting.build, url))
        )
    return _finding(
        image, asked, severity, message, f"CUDA {facts.cuda} in {image.base}", f"CUDA {wheel}",
        tuple(ways) if severity != "note" else (), certain=severity == "note",
    )  # fmt: skip


def _build_within(case: ImageCase, image: Image, held: Held, cuda: str) -> TorchBuild | None:
    """A build of the same version, or else the newest of all, whose CUDA the base's hosts serve."""
    rows = [
        row
        for row in candidates(case.matrix, image.platform, python_of(image))
        if row.cuda and row.origin != "pypi" and figures(row.cuda)[0] == figures(cuda)[0]
    ]
    if held.certain:
        rows = [row for row in rows if row.version == held.version]
    rows.sort(
        key=lambda row: (figures(row.version), minor(row.cuda or "") <= minor(cuda), minor(row.cuda or "")),
        reverse=True,
    )
    return next(iter(rows), None)


def _compiles(image: Image, held: Held) -> str:
    """What is compiled against torch after it was installed; "" for nothing."""
    for step in image.steps:
        if step.command.line < held.line or step.command.maybe:
            continue
        if step.pip is not None and "--no-build-isolation" in step.pip.flags:
            found = [one.name for one in step.pip.requirements if one.name in _COMPILED]
            if found or not step.pip.requirements:
                return found[0] if found else "a package"
        if re.search(r"setup\.py (install|develop|build_ext)", step.command.text):
            return "an extension"
    return ""


def _base_libraries_first(image: Image) -> bool:
    setting = image.settings.get("LD_LIBRARY_PATH")
    parts = (setting.value or "").split(":") if setting else []
    return any(re.match(r"/usr/local/cuda(-[\d.]+)?/(lib64|targets/.*/lib)/?$", part) for part in parts)


@check("GPD604", "image-torch-other-vendor")
def other_vendor(case: ImageCase) -> Verdicts:
    """torch is built for the cards of another vendor than the base image.

    ## Why it matters
    The package index's torch is a CUDA build: in a ROCm image it finds no GPU. A ROCm build finds none in a CUDA
    image.

    ## How it is judged
    The vendor that the base image is made for, and the build that the last command brings. A requirement that the
    base's own torch satisfies changes nothing.

    ## Fix safety
    The proposed index holds the same release for the base's vendor.
    """
    for image in case.images:
        held, facts = case.torch(image), image.facts
        if held is None or held.asked is None or facts is None or facts.vendor is None or held.vendor is None:
            continue
        if held.vendor == facts.vendor:
            continue
        kind = {"nvidia": "CUDA", "amd": "ROCm"}
        row = _of_vendor(case, image, held)
        keep = "leave torch out of the command: the base image has one." if facts.has_torch else ""
        ways = (
            (change("Keep the base's torch", f"{image.at(held.line)}: {keep}"),)
            if keep
            else (
                change(
                    f"Install the {kind[facts.vendor]} build",
                    _line(image, held.asked, row.version, row.build, case.matrix.index_url(row)),
                ),
            )
            if row
            else ()
        )
        yield _finding(
            image, held.asked, "error",
            f"{image.base} is made for {kind[facts.vendor]}, and torch {held.version} of the {_place(held)} is built "
            f"for {kind[held.vendor]}: it finds no GPU.",
            f"{held.build}", f"a {kind[facts.vendor]} build", ways,
        )  # fmt: skip


def _place(held: Held) -> str:
    return "package index" if held.source == "package index" else f"index for {held.build}"


def _of_vendor(case: ImageCase, image: Image, held: Held) -> TorchBuild | None:
    """The nearest build for the base image: of the same version, and of the base's CUDA or ROCm or older."""
    facts = image.facts
    assert facts is not None
    limit = facts.rocm if facts.vendor == "amd" else facts.cuda
    rows = [row for row in candidates(case.matrix, image.platform, python_of(image)) if row.origin != "pypi"]
    rows = [row for row in rows if (row.rocm if facts.vendor == "amd" else row.cuda)]
    same = [row for row in rows if row.version == held.version] or rows

    def fits(row: TorchBuild) -> tuple[bool, tuple[int, ...]]:
        own = row.rocm or row.cuda or ""
        return not limit or minor(own) <= minor(limit), figures(own)

    return max(same, key=fits, default=None)


@check("GPD605", "image-no-torch-wheel")
def no_wheel(case: ImageCase) -> Verdicts:
    """There is no wheel of that torch for the image: for its C library, its Python, or on the named index.

    ## Why it matters
    pip finds nothing, or falls back to something old; the build stops.

    ## How it is judged
    Alpine's musl has no torch wheels at all. The Python of the base image is known by its tag, and not asked where
    another one is installed. A release that an index does not hold is told where the matrix knows all its builds.

    ## Fix safety
    The proposed line names a build that exists.
    """
    for image in case.images:
        for asked in asked_for(image):
            if asked.maybe or asked.source == "elsewhere" or asked.requirement.specifier.startswith("@"):
                continue
            yield from _missing(case, image, asked)


def _missing(case: ImageCase, image: Image, asked: Asked) -> Iterator[Finding]:
    python = python_of(image)
    if image.facts is not None and image.facts.musl:
        glibc = f"python:{python or '3.12'}-slim"
        yield _finding(
            image, asked, "error",
            f"{image.base} is Alpine with musl: no torch wheel exists for it.", "musl", "glibc",
            (change("Take a base with glibc", f"{image.at(image.base_line)}: FROM {glibc}"),),
        )  # fmt: skip
        return
    rows = [row for row in case.matrix.builds(image.platform) if row.version == asked.pinned]
    if not rows or (image.facts is not None and image.facts.has_torch):
        return
    wanted = asked.local or asked.build
    if wanted:
        rows_here = [row for row in rows if row.build == wanted]
        if not rows_here and asked.source != "both":
            builds = sorted({row.build for row in rows if row.origin == "download.pytorch.org"})
            yield _finding(
                image, asked, "error",
                f"torch {asked.pinned} was not built for {wanted}: its builds are {', '.join(builds)}.",
                wanted, ", ".join(builds), (), certain=False,
            )  # fmt: skip
            return
        rows = rows_here or rows
    if python is not None and not any(python in row.pythons for row in rows):
        span = rows[0].pythons
        newer = next((row for row in reversed(candidates(case.matrix, image.platform, python))
                      if figures(row.version) > figures(asked.pinned)), None)  # fmt: skip
        ways: list[WayOut] = []
        if newer is not None:
            own = [
                row
                for row in case.matrix.builds(image.platform)
                if row.version == newer.version and row.build == wanted
            ]
            build = own[0] if own else newer
            ways.append(change(
                f"Take torch {newer.version}",
                _line(image, asked, newer.version, build.build, case.matrix.index_url(build)),
            ))  # fmt: skip
        ways.append(change("Take another Python", f"{image.at(image.base_line)}: FROM a base with Python {span[-1]}"))
        yield _finding(
            image, asked, "error",
            f"torch {asked.pinned} has no wheel for Python {python} of {image.base}.",
            f"Python {python}", f"Python {span[0]} to {span[-1]}", tuple(ways),
        )  # fmt: skip


def cuda_of(build: str) -> str:
    """ "12.8" of cu128; "" for other builds."""
    found = re.fullmatch(r"cu(\d+)(\d)", build)
    return f"{found[1]}.{found[2]}" if found else ""


def index_of(case: ImageCase, build: str) -> str:
    """The index that holds a build."""
    rows = (
        row for row in case.matrix.tables.torch_builds if row.build == build and row.origin == "download.pytorch.org"
    )
    row = next(rows, None)
    return case.matrix.index_url(row) if row else ""


def _line(image: Image, asked: Asked, version: str, build: str, url: str) -> str:
    """The line to write: only torch; what else the command installs stays in a command of its own."""
    tool = "uv pip install" if asked.tool == "uv" else "pip install"
    index = f" --index-url {url}" if url else ""
    local = f"+{build}" if url else ""
    return f"{image.at(asked.line)}: RUN {tool}{index} torch=={version}{local}"


def _finding(
    image: Image,
    asked: Asked,
    severity: str,
    message: str,
    saw: str,
    want: str,
    ways: tuple[WayOut, ...],
    certain: bool = True,
) -> Finding:
    where = [line_of(image, asked.line, asked.text)]
    if asked.requirement.file:
        path, _, line = asked.requirement.file.rpartition(":")
        where.append(line_of(image, asked.line, f"{path}, line {line}: torch{asked.requirement.specifier}"))
    return Finding(
        severity=severity,  # type: ignore[arg-type]
        confidence="certain" if certain else "likely",
        message=message,
        saw=saw,
        want=want,
        subject=image.at(asked.line),
        evidence=tuple(where),
        ways_out=ways,
    )
