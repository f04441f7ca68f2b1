"""What to install where a package was compiled for another torch: its release for this one, or the torch that it
was compiled for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gpudoctor.dependencies import normalised, parsed
from gpudoctor.finding import Fix, ReplacePackage, by_hand
from gpudoctor.frameworks.torch.agreed_release import agreed_torch, torch_of
from gpudoctor.frameworks.torch.compiled_packages import cuda_needed
from gpudoctor.frameworks.torch.installed_build import gpus_meant
from gpudoctor.frameworks.torch.nvidia_wheels import of_cuda
from gpudoctor.frameworks.torch.programs_with_torch import with_the_program
from gpudoctor.late_regex import late
from gpudoctor.machine import Distribution, Torch
from gpudoctor.matrix.rows.packages import TorchDependent
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.matrix.versions import first_of_series, major_of, minor, package_matches, public_version
from gpudoctor.situation import Situation


def for_this_torch(situation: Situation, torch: Torch, name: str, wanted: str) -> tuple[Fix, ...]:
    """The release of a package that was built for the installed torch, as far as the matrix knows one, and the torch
    `wanted` that the package was built for, if that is known. Where that torch suits other packages here, too, or the
    package chooses its torch, it comes first."""
    release = torch.release
    fixes = list(published_wheel(situation, torch, name))
    programs = (row for row in situation.matrix.tables.frameworks_on_torch if row.chooses_torch)
    chooses = any(name in row.packages for row in programs)
    agreed = agreed_torch(situation)
    others = () if agreed else torch_of(situation, torch, wanted, (name,)) if wanted else ()
    if chooses and not agreed and not others:
        others = tuple(with_the_program(situation, gpus_meant(situation), torch))
    if not fixes:
        text = own_build(situation, torch, name) or (
            f"Install a build of {name} for torch {release} (see its release page), compile it here, or uninstall "
            "it if nothing needs it."
        )
        fixes = [by_hand(f"Install a build of {name} for this torch", text, "replaces")]
    fixes = [*others, *fixes] if chooses else [*fixes, *others]
    if wanted and not others and not agreed:
        cuda = cuda_needed(situation, name)
        other = (
            f"Install torch {wanted.removeprefix('==')}{f' for CUDA {cuda}' if cuda else ''}, which this {name} was "
            "built for, if a build of it has code for the GPUs and the driver runs it."
        )
        fixes.append(by_hand("Use the torch that it was built for", other, "replaces"))
    return (*agreed, *fixes)


_LIBRARY = late(
    r"(?:site|dist)-packages/(?P<module>[A-Za-z]\w{2,40}?)(?P<folder>/)?(?:\.(?:cpython|abi3)[\w.-]*\.so|(?<=/))"
)
"""The library of an extension in the folder of its package, or beside such folders."""


def named_by_its_library(situation: Situation, text: str) -> tuple[Fix, ...]:
    """How the package whose library a message names is installed again for the torch here; none if the library does
    not tell its package."""
    found = _LIBRARY.search(text)
    if found is None:
        return ()
    stem = normalised(found["module"])
    tables = situation.matrix.tables
    known = {row.package for row in tables.torch_dependents} | {row.package for row in tables.extension_builds}
    ours = [name for name in known if stem == name or (not found["folder"] and stem.startswith(f"{name}-"))]
    name = max(ours, key=len, default=stem if found["folder"] else "")
    if not name or name == "torch":
        return ()
    torch = situation.torch
    wheels = tuple(published_wheel(situation, torch, name)) if torch else ()
    again = f"pip install --force-reinstall --no-deps --no-cache-dir --no-build-isolation {name}"
    text = (
        f"Install {name} again, so that it is compiled for the torch that is here (if it came from a folder or a "
        f"repository, with that in the place of its name):\n{again}"
    )
    return (*wheels, by_hand(f"Install {name} again for this torch", text, "replaces"))


def published_wheel(situation: Situation, torch: Torch, name: str) -> Iterator[Fix]:
    """The newest release of a package with a wheel for this torch and its CUDA, as far as the matrix knows one."""
    for row in reversed(situation.matrix.tables.torch_dependents):
        if row.package == name and row.version.startswith("==") and package_matches(row.torch, torch.release):
            index = _in_its_index(situation, row, torch)
            if index or _same_cuda(situation, row, torch):
                wheel = ReplacePackage(name, row.version, index_url=index, why=f"built for torch {torch.release}")
                number = row.version.removeprefix("==")
                yield Fix(f"Install {name} {number}, which was built for torch {torch.release}", (wheel,))
                return


def own_build(situation: Situation, torch: Torch, name: str) -> str:
    """How a person gets a build for this torch: from the sources that were installed, or from a page of wheels;
    "" where neither is known."""
    release, installed = public_version(torch.version), situation.machine.installed(name)
    if installed is not None and installed.is_of_sources:
        from urllib.parse import unquote

        folder = shlex.quote(unquote(installed.direct_url.removeprefix("file://")))
        again = f"pip install --no-build-isolation --no-deps --force-reinstall -e {folder}"
        return f"Compile {name} again beside torch {release}, or uninstall it if nothing needs it:\n{again}"
    if installed is not None and (alike := _numbered_as_torch(installed, release)):
        return f"Install the {name} numbered as torch, or uninstall it:\npip install {shlex.quote(name + alike)}"
    for row in situation.matrix.tables.wheel_pages:
        has_page = re.fullmatch(row.for_builds, torch.build or "") and package_matches(row.torch, release)
        if has_page and re.fullmatch(row.packages, name):
            page = row.page.format(torch=first_of_series(release), build=torch.build)
            wheel = f"pip install --force-reinstall --no-deps {name} -f {page}"
            return f"Install the wheel for torch {release}, or uninstall {name} if nothing needs it:\n{wheel}"
    return ""


def for_cuda_of_torch(situation: Situation, names: Iterable[str]) -> Fix | None:
    """The packages for the CUDA of torch in the place of these, whose names end in another CUDA (rmm-cu12)."""
    major = major_of(situation.torch_cuda)
    instead = {name: other for name in names if (other := of_cuda(name, major))} if major else {}
    if not instead:
        return None
    installed = filter(None, map(situation.machine.installed, instead))
    parts = (what.name for one in installed for line in one.requires if (what := parsed(line)))
    gone = dict.fromkeys((*instead, *(name for name in parts if of_cuda(name, major) and "nvidia" not in name)))
    text = (
        f"{', '.join(instead)}: this name ends in the CUDA that it is for, and torch here brings CUDA {major}. "
        f"`pip uninstall -y {' '.join(gone)}`, then `pip install {' '.join(instead.values())}`."
    )
    return by_hand(f"Install {', '.join(instead.values())}", text, "replaces")


def _numbered_as_torch(package: Distribution, release: str) -> str:
    """The specifier of its releases for a release of torch, where it has the number of the one torch that it takes:
    torch-tensorrt 2.8.0 requires torch >=2.8.0,<2.9.0."""
    asked = [what.specifier for line in package.requires if (what := parsed(line)) and what.name == "torch"]
    first, second = minor(package.version)
    admitted = {
        number for number in range(second + 3) for one in asked if package_matches(one, f"{first}.{number}.0")
    }
    return "=={}.{}.*".format(*minor(release)) if admitted == {second} else ""


def _in_its_index(situation: Situation, row: TorchDependent, torch: Torch) -> str:
    """The index of a torch's own build, where that has a wheel of the package; "" where the package index has it.
    The package index's wheel goes with the package index's own build of that torch, unless it is for another CUDA."""
    own = situation.matrix.torch.pypi_build(torch.release, situation.platform)
    build = situation.build_of(torch)
    if build is None or torch.build not in row.builds or (torch.build == own and _same_cuda(situation, row, torch)):
        return ""
    return situation.matrix.torch.index_url(replace(build, origin="download.pytorch.org"))


def _same_cuda(situation: Situation, row: TorchDependent, torch: Torch) -> bool:
    """Whether a package was compiled for the CUDA of a torch, by its major release. Where that was not measured, the
    package index's wheel goes with the package index's own build of its torch."""
    own = situation.matrix.torch.pypi_build(row.torch.removeprefix("==").removesuffix(".*"), situation.platform)
    cuda = row.cuda or cuda_of(own or "")
    return cuda is None or major_of(cuda) == major_of(torch.cuda)
