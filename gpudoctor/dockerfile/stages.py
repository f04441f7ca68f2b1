"""The image that a Dockerfile builds: its last (or chosen) stage, with the stages that this one is built from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from gpudoctor.dockerfile.apptainer import is_definition, parse_definition
from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.build import Build, Stage, with_line
from gpudoctor.dockerfile.definitions import Definitions, names_in
from gpudoctor.dockerfile.image import CopyInstruction, Image, Later, Read, Step
from gpudoctor.dockerfile.scripts import INSTALLER
from gpudoctor.dockerfile.syntax import Instruction, RecipeError, parse
from gpudoctor.dockerfile.variables import expanded
from gpudoctor.matrix.rows.images import BaseImage

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_LONGEST_LIST = 200
_ENVIRONMENT = re.compile(
    r"(^|/)(\.?v?env|site-packages|dist-packages|(mini)?conda\d?|\.local|usr/local(/lib)?|\.pixi(/envs(/[\w-]+)?)?|envs/[\w.-]+)/?$"
)
"""A Python environment, or what is installed in one."""
_INTO_FOLDER = re.compile(r" (--prefix|--target|--root|-t)[= ]")
_FROM = re.compile(r"\bfrom=([^,\s]+)")
"""What COPY --from and RUN --mount=type=bind,from= name."""


def read_dockerfile(
    file: str,
    text: str,
    matrix: Matrix,
    read: Read,
    arguments: Mapping[str, str] = {},
    target: str = "",
    bounds: Bounds | None = None,
    later: Later | None = None,
    given_in: Mapping[str, str] = {},
) -> Image:
    """The image of a Dockerfile, or of a definition file of Apptainer. `arguments` are those of --build-arg, and
    `given_in` says where else they stand; `target` is a stage ("": the last one).
    Stages that it is not built from are ignored, as a builder does. `later` runs in a container of the image.

    Raises RecipeError for a text that no builder accepts, or if a bound is exceeded.
    """
    bounds = bounds or Bounds()
    build = Build(arguments, read, bounds, [row.name for row in matrix.tables.gpu_lists])
    definition = is_definition(text)
    found = parse_definition(text, arguments, bounds) if definition else parse(text, bounds)
    stages = _stages(found, build, bounds)
    in_from = frozenset(name for one in found if one.name == "FROM" for name in names_in(one.text))
    chain = _chain(_chosen(stages, target))
    build.run(chain)
    if later is not None:
        build.run_later(later, chain[0])
    origins = _origins(stages)
    form: Literal["dockerfile", "definition"] = "definition" if definition else "dockerfile"
    source = tuple(text.removeprefix("\ufeff").splitlines())

    def defined(by: Build) -> Definitions:
        return Definitions(tuple(by.definitions), arguments, given_in, in_from)

    builders = []
    for stage in _copied_stages(origins, chain):
        other = build.another()
        other.run(_chain(stage))
        builders.append(_image(file, _chain(stage), other, tuple(other.copied), matrix, source, form, defined(other)))
    copied = _followed(origins, chain, build, matrix)
    own = _image(file, chain, build, copied, matrix, source, form, defined(build))
    return replace(own, bases=tuple(_bases(origins, chain[0])), builders=tuple(builders))


_UNKNOWN = BaseImage(pattern="", example="")


def _image(
    file: str,
    chain: list[Stage],
    build: Build,
    copied: tuple[CopyInstruction, ...],
    matrix: Matrix,
    source: tuple[str, ...],
    form: Literal["dockerfile", "definition"],
    definitions: Definitions,
) -> Image:
    """The image of a stage whose instructions are applied."""
    base = chain[-1].image
    facts = (matrix.images.base_image(base) if base else None) or _UNKNOWN
    return Image(
        file=file,
        name=chain[0].name,
        base=base,
        base_line=chain[-1].line,
        facts=facts,
        platform=facts.platform or chain[-1].platform,
        settings=build.settings,
        steps=tuple(build.steps),
        copied=copied,
        folder=build.folder,
        user=build.user,
        made=build.made,
        entrypoint=build.entrypoint,
        command=build.command,
        source=source,
        form=form,
        definitions=definitions,
    )


def _chain(stage: Stage) -> list[Stage]:
    """A stage and those that it is built from, the first one last."""
    chain = [stage]
    while (parent := chain[-1].parent) is not None:
        chain.append(parent)
    return chain


def _followed(
    origins: Mapping[str, Stage], chain: list[Stage], build: Build, matrix: Matrix
) -> tuple[CopyInstruction, ...]:
    """What was copied. The commands that fill a Python environment in another stage become commands of this image, if
    the environment is copied as a whole, and the stage's base image is known to bring no torch."""
    copied = list(build.copied)
    others: dict[int, list[Step]] = {}
    for number, one in enumerate(copied):
        origin = origins.get((one.origin or "").lower())
        if origin is None or origin in chain:
            continue
        whole = any(_ENVIRONMENT.search(source) for source in one.sources)
        if not whole and not any(_INTO_FOLDER.search(each.text) for each in origin.instructions):
            continue
        base = _chain(origin)[-1].image
        facts = matrix.images.base_image(base) if base else None
        if facts is None or facts.has_torch:
            continue
        if id(origin) not in others:
            other = build.another()
            other.run(_chain(origin))
            others[id(origin)] = [step for step in other.steps if _fills_an_environment(step)]
        folders = {step.pip.folder.rstrip("/") for step in others[id(origin)] if step.pip.folder}
        if whole or any(source.rstrip("/") in folders for source in one.sources):
            copied[number] = replace(one, followed=True)
            own, others[id(origin)] = others[id(origin)], []
            here = (_installed_here(step, one) for step in own)
            build.steps[:] = sorted((*build.steps, *here), key=lambda step: step.command.line)
    return tuple(copied)


def _origins(stages: list[Stage]) -> dict[str, Stage]:
    """The stages by what COPY --from calls them: their names, or else their numbers. Of one name the first counts."""
    numbered = {str(number): stage for number, stage in enumerate(stages)}
    return {**numbered, **{stage.name.lower(): stage for stage in reversed(stages) if stage.name}}


def _copied_stages(origins: Mapping[str, Stage], chain: list[Stage]) -> list[Stage]:
    """The stages from which something is copied into a stage, or into one that is copied from."""
    found: list[Stage] = []
    open_ = list(chain)
    while open_:
        for one in open_.pop().instructions:
            for name in _FROM.findall(" ".join(one.flags)):
                origin = origins.get(name.lower())
                if origin is not None and not any(origin is each for each in (*chain, *found)):
                    found.append(origin)
                    open_.extend(_chain(origin))
    return found


def _bases(origins: Mapping[str, Stage], wanted: Stage) -> Iterator[tuple[str, int]]:
    """The images that a stage needs. A builder skips the stages that it does not."""
    open_, done = [wanted], set[int]()
    while open_:
        stage = open_.pop()
        if id(stage) in done:
            continue
        done.add(id(stage))
        if stage.parent is not None:
            open_.append(stage.parent)
        elif stage.image:
            yield stage.image, stage.line
        for one in stage.instructions:
            for name in _FROM.findall(" ".join(one.flags)):
                origin = origins.get(name.lower())
                if origin is not None:
                    open_.append(origin)
                elif ":" in name and "$" not in name:
                    yield name, one.line


def _installed_here(step: Step, copied: CopyInstruction) -> Step:
    """A step of another stage, whose environment or folder was copied to where the image's own Python looks."""
    pip = replace(step.pip, elsewhere=False) if step.pip.folder else step.pip
    if step.environment:
        return replace(step, pip=pip, environment=copied.moved(step.environment), copied=True)
    return replace(step, pip=pip, copied=True)


def _fills_an_environment(step: Step) -> bool:
    """Whether a step installs something, or configures what installs."""
    words = f"{step.command.text} {step.command.writes}"
    return step.installs or step.script is not None or INSTALLER.search(words) is not None


def _stages(instructions: tuple[Instruction, ...], build: Build, bounds: Bounds) -> list[Stage]:
    stages: list[Stage] = []
    named: dict[str, Stage] = {}
    for one in instructions:
        with with_line(one):
            if one.name == "FROM":
                stage = _from(one, build.general, named, bounds)
                stages.append(stage)
                if stage.name:
                    named.setdefault(stage.name.lower(), stage)
            elif stages:
                stages[-1].instructions.append(one)
            else:
                build.declare(one, build.general)
    return stages


def _chosen(stages: list[Stage], target: str) -> Stage:
    if not target:
        return stages[-1]
    for number, stage in enumerate(stages):
        if target.lower() == stage.name.lower() or target == str(number):
            return stage
    names = ", ".join(stage.name for stage in stages if stage.name) or "none has a name"
    raise RecipeError(f"has no stage {target!r} (stages: {names[:_LONGEST_LIST]})")


def _from(one: Instruction, general: Mapping[str, str], named: Mapping[str, Stage], bounds: Bounds) -> Stage:
    words = one.text.split()
    if not words or (len(words) != 1 and (len(words) != 3 or words[1].upper() != "AS")):
        raise RecipeError(f"line {one.line}: FROM needs an image, and may add AS and a name")
    image = expanded(words[0], general, bounds)
    platform = expanded(one.flag("platform") or "", general, bounds) or ""
    arch = "linux-aarch64" if re.search(r"arm64|aarch64", platform) else "linux-x86_64"
    name = words[2] if len(words) == 3 else ""
    return Stage(one.line, name, image or None, arch, named.get((image or "").lower()), [])
