"""Proposed lines for a Dockerfile, and findings about a torch that it requests or a variable that it sets."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator

from gpudoctor.dockerfile.image import Image, ImageVariable
from gpudoctor.dockerfile.installs import PipInstall
from gpudoctor.dockerfile.recipe import Recipe, change, line_of
from gpudoctor.dockerfile.torch import TorchRequest, build_of_index
from gpudoctor.finding import Finding, Fix, ReplaceTorch, Severity
from gpudoctor.frameworks.wanted import Wanted, quoted, torch_and_companions

_UV_SOURCE = """
[tool.uv.sources]
torch = {{ index = "torch-{0}" }}
[[tool.uv.index]]
name = "torch-{0}"
url = "{1}"
explicit = true"""


def install_line(recipe: Recipe, image: Image, line: int, version: str, build: str, url: str, extra: str = "") -> str:
    """The lines to write: torch and the companions that the file installs, from one index, in the file that names
    them. Other packages of the same command stay in a command of their own. A package that requires its torch has to
    be another release."""
    held = recipe.torch(image)
    if held is not None and held.asked is not None and held.asked.by and held.line == line:
        return f"{image.place(line)}: another release of {held.asked.by}, for torch {version}+{build}"
    requests = [one for one in image.steps if one.pip and one.command.line == line and one.pip.asks_for("torch")]
    step = requests[-1] if requests else None  # with environment.yml, that of pip comes after that of conda
    named = step.pip.asks_for("torch") if step and step.pip else None
    row = recipe.matrix.companion(version)
    matching = {"torchvision": row and row.torchvision, "torchaudio": row and row.torchaudio}
    beside = [name for name in matching if any(one.pip and one.pip.asks_for(name) for one in image.steps)]
    remedy = ReplaceTorch(
        version=version,
        build=build,
        origin="",
        index_url=url,
        extra=extra,
        companions=tuple((name, release) for name in beside if (release := matching[name])),
    )
    wanted = torch_and_companions(remedy, image.platform.partition("-")[2])
    place, tool = named.file if named else "", step.pip.tool if step and step.pip else "pip"
    file = os.path.basename(place.rpartition(":")[0])
    index = [f"--index-url {url}"] if url else []
    unknown = [name for name in beside if not matching[name]]
    if file.endswith((".yml", ".yaml")):
        lines = [f"- --extra-index-url {url}"] if url else []
        lines += [f"- {one.text}" for one in wanted]
        where = "in place of conda's pytorch, last of the dependencies" if tool == "conda" else "in the list of pip"
        return "\n".join(
            (f"{place}: {where}:", *(["  - pip:"] * (tool == "conda")), *(f"    {one}" for one in lines))
        )
    if tool == "conda":
        at = f"{image.place(line)}: leave out conda's pytorch; after it, in the same environment:"
        return f"{at}\nRUN {' '.join(('pip install', *index, quoted(wanted), *unknown))}"
    if tool == "poetry":
        source = f"poetry source add --priority explicit torch-{build} {url} && " if url else ""
        return f"{place}: {source}poetry add {f'--source torch-{build} ' if url else ''}{quoted(wanted)}"
    if file in ("uv.lock", "pyproject.toml") and tool == "uv":
        text = f"take torch {version} from {url or 'the package index'} in pyproject.toml ([tool.uv.sources])"
        text += ", and run `uv lock`" * (file == "uv.lock")
        return "\n".join(
            (f"{image.place(line)}: {text}", *(_UV_SOURCE.format(build, url).split("\n") if url else ()))
        )
    if file.endswith((".txt", ".in")) and step is not None and step.pip is not None:
        return "\n".join(_in_requirements(step.pip, place, wanted, url))
    words = " ".join(("uv pip install" if tool == "uv" else "pip install", *index, quoted(wanted), *unknown))
    if step is not None and step.command.script:
        return f"{step.command.script}: {words}"
    before = "before it, " if file == "pyproject.toml" else ""
    return f"{image.place(line)}: {before}RUN {words}"


def _in_requirements(install: PipInstall, place: str, wanted: Iterable[Wanted], url: str) -> Iterator[str]:
    """The lines of requirements files: torch and its companions, each where it stands, and the index above them."""
    other = next((one for one in install.extra_urls if build_of_index(one)), "")
    if url and url not in install.extra_urls:
        where = f"in place of {other}" if other else f"{place.rpartition(':')[0]}:1: above it"
        yield f"{where}: --extra-index-url {url}"
    for one in wanted:
        requirement = install.asks_for(one.name)
        if requirement is not None and requirement.file:
            yield f"{requirement.file}: {one.text}"


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
