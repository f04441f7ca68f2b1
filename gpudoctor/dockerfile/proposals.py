"""Proposed lines for a Dockerfile, and findings about a torch that it requests or a variable that it sets."""

from __future__ import annotations

from gpudoctor.dockerfile.image import Image, ImageVariable
from gpudoctor.dockerfile.recipe import Recipe, change, line_of
from gpudoctor.dockerfile.torch import TorchRequest, asked_for
from gpudoctor.finding import Finding, Fix, ReplaceTorch, Severity
from gpudoctor.frameworks.wanted import quoted, torch_and_companions


def install_line(recipe: Recipe, image: Image, line: int, version: str, build: str, url: str, extra: str = "") -> str:
    """The line to write: torch and the companions that the file installs, from one index. Other packages of the same
    command stay in a command of their own. A package that requires its torch has to be another release."""
    held = recipe.torch(image)
    if held is not None and held.asked is not None and held.asked.by and held.line == line:
        return f"{image.place(line)}: another release of {held.asked.by}, for torch {version}+{build}"
    if any(asked.locked for asked in asked_for(image) if asked.line == line):
        wanted = f"take torch {version} from {url or 'the package index'} in pyproject.toml ([tool.uv.sources])"
        return f"{image.place(line)}: {wanted}, and run `uv lock`"
    tool = next((step.pip.tool for step in image.steps if step.pip and step.command.line == line), "pip")
    words = ["uv pip install" if tool == "uv" else "pip install"]
    words += [f"--index-url {url}"] if url else []
    row = recipe.matrix.companion(version)
    matching = {"torchvision": row and row.torchvision, "torchaudio": row and row.torchaudio}
    beside = [name for name in matching if any(step.pip and step.pip.asks_for(name) for step in image.steps)]
    remedy = ReplaceTorch(
        version=version,
        build=build,
        origin="",
        index_url=url,
        extra=extra,
        companions=tuple((name, release) for name in beside if (release := matching[name])),
    )
    words.append(quoted(torch_and_companions(remedy, image.platform.partition("-")[2])))
    words += [name for name in beside if not matching[name]]
    return f"{image.place(line)}: RUN {' '.join(words)}"


def index_of(recipe: Recipe, build: str) -> str:
    """The index that holds a build."""
    rows = (
        row
        for row in recipe.matrix.tables.torch_builds
        if row.build == build and row.origin == "download.pytorch.org"
    )
    row = next(rows, None)
    return recipe.matrix.index_url(row) if row else ""


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
    written = f"{setting.name}={setting.value}"
    advice = f"write {instead}" if instead else "remove this variable"
    return Finding(
        severity=severity,
        message=message,
        saw=written,
        want=want,
        subject=image.place(setting.line),
        evidence=(line_of(image, setting.line, f"ENV {written}"),),
        fixes=(change(f"Change line {setting.line}", f"{image.place(setting.line)}: {advice}."),),
    )
