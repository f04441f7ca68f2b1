"""Proposed lines for a Dockerfile, and findings about a torch that it requests or a variable that it sets."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.dockerfile.image import Image, ImageVariable, Step
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.installs import PipInstall
from gpudoctor.dockerfile.project_lines import project_lines
from gpudoctor.dockerfile.recipe import Recipe, change, line_of
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.dockerfile.rewriting import (
    TorchIndex,
    changed_lines,
    in_place,
    install_words,
    rewritten,
    without_conda,
)
from gpudoctor.dockerfile.torch_dependents import pins_torch, release_for, required_torch
from gpudoctor.dockerfile.torch_requests import TorchRequest, build_of_index
from gpudoctor.dockerfile.torch_wheels import wheels_for
from gpudoctor.finding import Evidence, Finding, Fix, ReplaceTorch, Severity
from gpudoctor.frameworks.package_spec import PackageSpec, quoted, torch_and_companions
from gpudoctor.isa import cuda_runs
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.matrix.versions import figures, major_of, minor

if TYPE_CHECKING:
    from gpudoctor.machine import Gpu
    from gpudoctor.matrix.rows import TorchBuild

_OF_TORCH = re.compile(r"(pytorch-)?triton(-rocm|-xpu)?$|nvidia-[a-z-]+-cu\d\d$")
"""What a torch of an index requires by its exact version."""
_MOST = 8
"""Commands of companions that one proposal writes anew."""


def install_line(recipe: Recipe, image: Image, line: int, version: str, build: str, url: str, extra: str = "") -> str:
    """The lines to write: torch and the companions that the file installs, from one index, each where it stands. All
    other words of a command stay. A package that requires its torch has to be another release."""
    requests = [one for one in image.steps if one.command.line == line and one.pip.asks_for("torch")]
    step = requests[-1] if requests else None  # with environment.yml, that of pip comes after that of conda
    named = step.pip.asks_for("torch") if step else None
    row = recipe.matrix.torch.companion(version)
    matching = {"torchvision": row and row.torchvision, "torchaudio": row and row.torchaudio}
    beside = [name for name in matching if any(one.pip.asks_for(name) for one in image.steps)]
    remedy = ReplaceTorch(
        version=version,
        build=build,
        origin="",
        index_url=url,
        extra=extra,
        companions=tuple((name, release) for name in beside if (release := matching[name])),
    )
    wanted = torch_and_companions(remedy, image.platform.partition("-")[2])
    if named is not None and named.extras and not extra:
        wanted = (replace(wanted[0], extra=named.extras.strip("[]")), *wanted[1:])
    unknown = [name for name in beside if not matching[name]]
    every = (*wanted, *(PackageSpec(name, "") for name in unknown))
    held = recipe.torch(image)
    if step is None and held is not None and held.asked is not None and held.asked.by and held.line == line:
        return _beside(recipe, image, held.asked, every, TorchIndex(url, build))
    place, tool = named.file if named else "", step.pip.tool if step else "pip"
    file = os.path.basename(place.rpartition(":")[0])
    index = [f"--index-url {url}"] if url else []
    if file.endswith((".yml", ".yaml")):
        lines = [f"- --extra-index-url {url}"] if url else []
        lines += [f"- {one.text}" for one in wanted]
        where = "in place of conda's pytorch, last of the dependencies" if tool == "conda" else "in the list of pip"
        return "\n".join(
            (f"{place}: {where}:", *(["  - pip:"] * (tool == "conda")), *(f"    {one}" for one in lines))
        )
    if tool == "poetry":
        source = f"poetry source add --priority explicit torch-{build} {url} && " if url else ""
        return f"{place}: {source}poetry add {f'--source torch-{build} ' if url else ''}{quoted(wanted)}"
    if tool in ("pdm", "pipenv", "pixi") or (file in ("uv.lock", "pyproject.toml") and tool == "uv"):
        if step is not None and step.pip.channel and cuda_of(build):  # pixi then takes conda-forge's build for it
            locked = ", and run `pixi lock`" if file.endswith(".lock") else ""
            option = f'cuda = "{major_of(cuda_of(build))}"'
            return f"{image.place(line)}: in pixi.toml below [system-requirements]: {option}{locked}"
        sourced = step is not None and step.pip.sourced
        first, *rest = project_lines(tool, version, build, url, wanted, file.endswith(".lock"), sourced)
        return "\n".join((f"{image.place(line)}: {first}", *rest))
    if file.endswith((".txt", ".in")) and step is not None:
        own = _in_requirements(step.pip, place, wanted, url)
        return "\n".join(dict.fromkeys((*own, *_of_dependents(recipe, image, wanted[0].text))))
    words = (*index, quoted(every))
    if step is None:
        return f"{image.place(line)}: {image.written_run(' '.join(('pip install', *words)))}"
    if tool == "conda":
        return in_place(image, step.command, without_conda(step, words))
    if file in ("pyproject.toml", "setup.py", "setup.cfg"):
        before = " ".join((*install_words(step), *words))
        return in_place(image, step.command, f"{before} && {step.command.written or step.command.text}")
    return "\n".join(dict.fromkeys(_in_commands(recipe, image, step, every, TorchIndex(url, build))))


def _beside(
    recipe: Recipe, image: Image, asked: TorchRequest, wanted: tuple[PackageSpec, ...], index: TorchIndex
) -> str:
    """What to write where a package brings torch along: torch in the same command. A package that requires another
    torch has to be another release."""
    name = asked.by.partition(" ")[0]
    texts = {one.name: quoted([one]) for one in wanted}
    step, _ = step_of(image, asked.line, name)
    place, rocm = image.place(asked.line), index.build.startswith("rocm")
    if rocm and pins_torch(name, recipe.matrix):
        return f"{place}: leave out {name}, or install its ROCm build, for {texts['torch']}"
    if name not in texts and asked.requirement.specifier:
        version = wanted[0].spec.strip("=").partition("+")[0]
        if not (release := release_for(name, version, recipe.matrix)):
            return f"{place}: another release of {asked.by}, for {texts['torch']}"
        return _before(image, step, asked.requirement, texts["torch"], f"{name}=={release}", index)
    there = {one for one in texts if (found := step.pip.asks_for(one)) and not found.file}
    also = [text for one, text in texts.items() if one not in there]
    return in_place(image, step.command, rewritten(step, {one: texts[one] for one in there}, index, also))


def _before(image: Image, step: Step, asked: Requirement, torch: str, package: str, index: TorchIndex) -> str:
    """What to write where the index of torch does not have the package that brings torch: torch comes first."""
    if asked.file and asked.file != step.command.script:
        lines = companion_lines(image, step, {asked: package}, index)
        return f"{lines}\n{asked.file}: below it: {torch}"
    option = ("--index-url", index.url) if index.url else ()
    first = " ".join((*install_words(step), *option, torch))
    return in_place(image, step.command, f"{first} && {rewritten(step, {package.partition('=')[0]: package})}")


def step_of(image: Image, line: int, name: str) -> tuple[Step, Requirement]:
    """The command of a line that asks for a package."""
    found = (
        (step, asked)
        for step in image.steps
        if step.command.line == line and (asked := step.pip.asks_for(name)) is not None
    )
    return next(found)


def _in_commands(
    recipe: Recipe, image: Image, step: Step, wanted: tuple[PackageSpec, ...], index: TorchIndex
) -> Iterator[str]:
    """The command that installs torch, the first ones that install its companions, and those after it that ask for
    torch again, as they should be written."""
    companions, own = tuple(one for one in wanted if one.name != "torch"), image.steps.index(step)
    dependents = [_dependents(recipe, one, wanted[0].text) for one in image.steps]
    asked = [wanted if number >= own else companions for number in range(len(image.steps))]
    others = (
        number
        for number, one in enumerate(image.steps)
        if number != own and (dependents[number] or _installs(one, asked[number]))
    )
    for number in sorted((own, *islice(others, _MOST))):
        one, names = image.steps[number], asked[number]
        brought = dict.fromkeys(_brought_by_torch(one.pip), "")
        new = {**dependents[number], **brought, **{each.name: quoted([each]) for each in names}}
        ours = index if number == own or _installs(one, names) else None
        yield from changed_lines(image, one.command, rewritten(one, new, ours))
    for one in islice((one for one in image.steps if _installs(one, companions, in_file=True)), _MOST):
        files = (found.file for each in companions if (found := one.pip.asks_for(each.name)) is not None)
        yield from _in_requirements(one.pip, next(filter(None, files)), companions, index.url)


def _of_dependents(recipe: Recipe, image: Image, torch: str) -> Iterator[str]:
    """The lines of packages that require another torch, each with the release that is for this one."""
    for step in image.steps:
        named = _dependents(recipe, step, torch)
        if named:
            yield from changed_lines(image, step.command, rewritten(step, named))
        for name, text in _dependents(recipe, step, torch, in_file=True).items():
            asked = step.pip.asks_for(name)
            yield f"{asked.file}: {text}" if asked is not None else text


def _dependents(recipe: Recipe, step: Step, torch: str, in_file: bool = False) -> dict[str, str]:
    """The packages of a command that require another torch, each with the release that is for this one."""
    install, version = step.pip, torch.partition("==")[2].partition("+")[0]
    if install.tool not in ("pip", "uv") or install.locked or install.elsewhere:
        return {}
    found = {}
    for one in install.requirements:
        needs = required_torch(one, recipe.matrix) if bool(one.file) is in_file else ""
        release = release_for(one.name, version, recipe.matrix) if needs and needs != f"=={version}" else ""
        if release:
            found[one.name] = f"{one.name}=={release}"
    return found


def _installs(step: Step, companions: tuple[PackageSpec, ...], in_file: bool = False) -> bool:
    """Whether a command of pip or uv installs one of these, which its words or a requirements file name."""
    install = step.pip
    if install.locked or install.elsewhere or install.tool not in ("pip", "uv"):
        return False
    files = [found.file for one in companions if (found := install.asks_for(one.name)) is not None]
    if in_file:
        return any(file.rpartition(":")[0].endswith((".txt", ".in")) for file in files)
    return any(file in ("", step.command.script) for file in files)


def _in_requirements(install: PipInstall, place: str, wanted: Iterable[PackageSpec], url: str) -> Iterator[str]:
    """The lines of requirements files: torch and its companions, each where it stands, and the index above them."""
    other = next((one for one in (*install.extra_urls, *install.index_urls) if build_of_index(one)), "")
    if url and url not in (*install.extra_urls, *install.index_urls):
        where = f"in place of {other}" if other else f"{place.rpartition(':')[0]}:1: above it"
        option = "--index-url" if other in install.index_urls else "--extra-index-url"
        yield f"{where}: {option} {url}"
    for one in wanted:
        requirement = install.asks_for(one.name)
        if requirement is not None and requirement.file:
            yield f"{requirement.file}: {one.text}"
    for name in _brought_by_torch(install):
        requirement = install.asks_for(name)
        if requirement is not None and requirement.file:
            yield f"{requirement.file}: leave out {name}, which torch brings"


def _brought_by_torch(install: PipInstall) -> tuple[str, ...]:
    """The packages that a command pins and that every torch requires in a release of its own."""
    if install.asks_for("torch") is None:
        return ()
    pinned = (one.name for one in install.requirements if "==" in one.specifier)
    return tuple(name for name in pinned if _OF_TORCH.match(name))


def package_line(image: Image, step: Step, asked: Requirement, package: str, index: TorchIndex | None = None) -> str:
    """The line to write for another requirement in place of one, or beside the others if no word names that one."""
    if asked.file and asked.file != step.command.script:
        return f"{asked.file}: {package}"
    written = f"'{package}'" if set(package) & set("[]<>*") else package
    new = rewritten(step, {asked.name: written}, index)
    return in_place(image, step.command, new if written in new.split() else f"{new} {written}")


def companion_lines(image: Image, step: Step, wanted: Mapping[Requirement, str], index: TorchIndex) -> str:
    """The lines that take packages of one command from the index of a torch, or from the package index, where the
    file asks for them."""
    texts = {asked.name: text for asked, text in wanted.items() if asked.file in ("", step.command.script)}
    lines = [in_place(image, step.command, rewritten(step, texts, index))] if texts else []
    urls = (*step.pip.extra_urls, *step.pip.index_urls)
    for asked, text in wanted.items():
        if asked.name not in texts:
            file = asked.file.rpartition(":")[0]
            lines += (
                [f"{file}:1: above it: --extra-index-url {index.url}"] if index.url and index.url not in urls else []
            )
            lines += [f"{file}: leave out {url}" for url in urls if not index.url and build_of_index(url)]
            lines.append(f"{asked.file}: {text}")
    return "\n".join(dict.fromkeys(lines))


def keep_torch(image: Image, asked: TorchRequest, version: str) -> Fix:
    """The fix that names the torch that is there, so that pip looks for a release of the package that is for it."""
    step, _ = step_of(image, asked.line, asked.by)
    text = package_line(image, step, Requirement("torch"), f"torch=={version}")
    return change(f"Keep torch {version}: name it with {asked.by}", text)


def index_of(recipe: Recipe, build: str) -> str:
    """The index that holds a build."""
    rows = (
        row
        for row in recipe.matrix.tables.torch_builds
        if row.build == build and row.origin == "download.pytorch.org"
    )
    row = next(rows, None)
    return recipe.matrix.torch.index_url(row) if row else ""


def build_within(recipe: Recipe, image: Image, cuda: str, version: str = "") -> TorchBuild | None:
    """A build of that version, else the newest of all, whose CUDA the base image's hosts support; one that works on
    the described GPUs with the described driver."""
    rows = [
        row
        for row in wheels_for(recipe.matrix, image.platform, python_of(image))
        if row.cuda and row.origin != "pypi" and major_of(row.cuda) == major_of(cuda) and _works(recipe, row)
    ]
    if version:
        rows = [row for row in rows if row.version == version]

    def rank(row: TorchBuild) -> tuple[tuple[int, ...], bool, tuple[int, ...]]:
        own = minor(row.cuda or "")
        return figures(row.version), own <= minor(cuda), own

    return max(rows, key=rank, default=None)


def build_after(recipe: Recipe, image: Image, version: str, wanted: str) -> TorchBuild | None:
    """The build of the first later release that has one for the image's Python: near to the wanted build, or the
    package index's own if none is named. One that works on the described GPUs comes before that."""
    rows = [
        row
        for row in wheels_for(recipe.matrix, image.platform, python_of(image))
        if figures(row.version) > figures(version)
    ]
    for release in sorted({row.version for row in rows}, key=figures):
        build = _build_of(recipe, [row for row in rows if row.version == release], wanted)
        if build is not None:
            return build
    return None


def _build_of(recipe: Recipe, rows: list[TorchBuild], wanted: str) -> TorchBuild | None:
    if wanted:
        return nearest_build(recipe, rows, wanted)
    fitting = [row for row in rows if _works(recipe, row)]
    own = next((row for row in fitting if row.origin == "pypi"), None)
    return own or (max(fitting, key=_toolkit, default=None) if recipe.gpus else None)


def nearest_build(recipe: Recipe, rows: Iterable[TorchBuild], wanted: str) -> TorchBuild | None:
    """The build of the same kind as a wanted one, with the newest CUDA or ROCm that is not newer, else the oldest."""
    limit = minor(cuda_of(wanted) or wanted.removeprefix("rocm"))
    fitting = [
        row
        for row in rows
        if row.origin != "pypi" and _kind(row.build) == _kind(wanted) and (row.build == "cpu" or _works(recipe, row))
    ]
    older = [row for row in fitting if _toolkit(row) <= limit]
    return max(older, key=_toolkit) if older else min(fitting, key=_toolkit, default=None)


def _kind(build: str) -> str:
    return build.rstrip("0123456789.")


def _toolkit(row: TorchBuild) -> tuple[int, ...]:
    return minor(row.cuda or row.rocm or "")


def _works(recipe: Recipe, row: TorchBuild) -> bool:
    """Whether a build has code for the described GPUs, and their driver supports it."""
    if row.cuda and recipe.driver and recipe.matrix.nvidia.driver_for_cuda(recipe.driver, row.cuda) == "too-old":
        return False
    return all(_has_code(recipe, row, gpu) for gpu in recipe.gpus)


def _has_code(recipe: Recipe, row: TorchBuild, gpu: Gpu) -> bool:
    arch, archs = gpu.arch.value or "", row.archs or ()
    if gpu.vendor == "amd":
        return bool(row.rocm) and recipe.matrix.gpus.gfx_answer(arch, archs).runs != "no"
    return bool(row.cuda) and cuda_runs(arch, archs, row.ptx or (), ptx_readable=True).runs != "no"


def torch_finding(
    image: Image,
    asked: TorchRequest,
    severity: Severity,
    message: str,
    saw: str,
    want: str,
    fixes: tuple[Fix, ...],
    certain: bool = True,
) -> Finding:
    """A finding about the command that requests torch. `certain` means that nothing in it was guessed."""
    where = [line_of(image, asked.line, asked.text)]
    if asked.requirement.file:
        path, _, line = asked.requirement.file.rpartition(":")
        where.append(line_of(image, asked.line, f"{path}, line {line}: torch{asked.requirement.specifier}"))
    return Finding(
        severity=severity,
        confidence="certain" if certain else "likely",
        message=message,
        saw=saw,
        want=want,
        subject=image.place(asked.line),
        evidence=tuple(where),
        fixes=fixes,
    )


def setting_finding(
    image: Image, setting: ImageVariable, severity: Severity, message: str, want: str, instead: str = ""
) -> Finding:
    """A finding about a variable of the image. `instead` is the line to write in its place; "" removes it."""
    written, place = f"{setting.name}={setting.value}", image.place_of(setting)
    if image.form == "definition" or setting.script:
        instead = instead.replace("ENV ", "export ", 1)
    elif not image.alone(setting):
        instead = instead.removeprefix("ENV ")
    advice = f"write {instead}" if instead else "remove this variable"
    return Finding(
        severity=severity,
        message=message,
        saw=written,
        want=want,
        subject=place,
        evidence=(Evidence("instruction", image.written(setting), place),),
        fixes=(change(f"Change line {place.rpartition(':')[2]}", f"{place}: {advice}."),),
    )
