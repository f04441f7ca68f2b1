"""Projects that own their environment: their requirements are changed, so that the next sync keeps the fix."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpudoctor.dependencies import parsed
from gpudoctor.finding import ReplaceTorch
from gpudoctor.frameworks.package_spec import PackageSpec, quoted
from gpudoctor.machine import Machine, ProjectPackage, TorchAsked
from gpudoctor.matrix.versions import public_version
from gpudoctor.plain_text import without_controls
from gpudoctor.planner.install_requests import Wanted, named_by_project, places_that_ask, rocm_triton, several_decide
from gpudoctor.planner.place import Place
from gpudoctor.safe_arguments import is_name
from gpudoctor.step import ManualStep, RunStep, Step

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix


_OTHER_INDEXES = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL")
"""With another index `uv add` does not record the index of each package. Empty values unset these for that step."""


def in_project(place: Place, argv: tuple[str, ...], why: str, *, env: dict[str, str] | None = None) -> RunStep:
    """A command in the project's folder, which changes what it installs."""
    return RunStep(argv=argv, cwd=place.project, env=env or {}, why=why, risk="replaces")


def edited(place: Place, file: str, edits: Iterable[str], why: str) -> RunStep:
    """Lines of a project's file that its tool has no command for; `edits` are expressions of sed."""
    return in_project(place, ("sed", "-i", *(part for edit in edits for part in ("-e", edit)), file), why)


def beside_torch(matrix: Matrix, remedy: ReplaceTorch) -> tuple[PackageSpec, ...]:
    """What a project must name beside a ROCm torch: its triton. Only that index has it, and an explicit index serves
    only direct requirements."""
    name = rocm_triton(remedy, matrix) if remedy.index_url and not remedy.extra else ""
    return (PackageSpec(name, ""),) if name else ()


def serves_only_these(matrix: Matrix, remedy: ReplaceTorch) -> bool:
    """Whether the package index has everything else that torch requires."""
    return not remedy.extra and not (remedy.build.startswith("rocm") and not rocm_triton(remedy, matrix))


def uv_project(place: Place, machine: Machine, request: Wanted, *, explicit: bool = True) -> tuple[Step, ...]:
    """pyproject.toml asks for these versions and names their index; then the lock and the environment follow.

    Without `explicit` uv would take every package that the index happens to have from it, in old versions.
    """
    index, why, asked = request.index, request.why, places_that_ask(machine, request.decisive)
    source = source_name(index)
    named = ("--index", f"{source}={index}") if index else ()
    if several_decide(machine, request.decisive):
        if option := _option_for(asked, request):
            text = f"{why}; the project has it under this option, and `uv run` needs the option as well"
            return (in_project(place, ("uv", "sync", "--inexact", *option), text),)
        where = ", ".join(_place_of(line) for line in asked)
        command = " ".join(("uv", "add", "OPTION", *named, quoted(request.packages)))
        text = (
            f"This project asks for {request.decisive} in {where}. In each place that names a version, change what "
            f"this environment is synced with; OPTION is its option:\n{command}"
        )
        return (ManualStep(text=text, why=why, risk="replaces"), *_index_table(source, request, explicit))
    group, extra = ("", "") if not asked else (asked[0].group, asked[0].extra)
    add_to = ("--group", group) if group else ("--optional", extra) if extra else ()
    sync_with = ("--group", group) if group else ("--extra", extra) if extra else ()
    add = ("uv", "add", "--frozen", *add_to, *named, *request.texts)
    declare = in_project(
        place,
        add,
        f"{why}; in pyproject.toml, or the next sync undoes it",
        env=dict.fromkeys(_OTHER_INDEXES, "") if index else {},
    )
    follow = ("uv", "sync", "--inexact", *sync_with)
    sync = in_project(place, follow, "the lock and the environment follow; other packages stay")
    # `uv add` would put the extras that are asked for beside those that stand there.
    anew = (
        in_project(place, ("uv", "remove", "--frozen", *add_to, item.name), "the old extras must go with it")
        for item in request.packages
        if item.extra and named_by_project(machine, item.name)
    )
    return (*anew, declare, *_explicit(place, source, explicit and bool(index)), sync)


def _option_for(asked: tuple[TorchAsked, ...], wanted: Wanted) -> tuple[str, ...]:
    """The option by which uv installs the extra or group that asks for this very torch; empty if none does."""
    torch, index = public_version(wanted.torch.spec.removeprefix("==")) if wanted.torch else "", wanted.index
    for line in asked if torch and index else ():
        option = ("--extra", line.extra) if line.extra else ("--group", line.group) if line.group else ()
        what = parsed(line.requirement) if option and line.index.rstrip("/") == index.rstrip("/") else None
        if what and what.admits(torch):
            return option
    return ()


def _explicit(place: Place, source: str, wanted: bool) -> tuple[Step, ...]:
    """Add the line below the name that `uv add` wrote; `uv add` has no option for it."""
    if not wanted:
        return ()
    name = re.escape(source)
    once = f'/^name = "{name}"$/,/^\\[/{{/^explicit = /d}}'
    add = f'/^name = "{name}"$/a explicit = true'
    why = "the index is for these packages only: others would come from it in old versions"
    return (edited(place, "pyproject.toml", (once, add), why),)


def project_lines(wanted: Wanted, *, explicit: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(argument list of uv add, lines of pyproject.toml) for an unknown project."""
    source = source_name(wanted.index)
    named = ("--index", f"{source}={wanted.index}") if wanted.index else ()
    return ("uv", "add", *named, *wanted.texts), tuple(_table_lines(source, wanted, explicit)) if named else ()


def _index_table(source: str, wanted: Wanted, explicit: bool) -> tuple[Step, ...]:
    if not wanted.index:
        return ()
    lines = "\n".join(_table_lines(source, wanted, explicit))
    return (ManualStep(text=f"Make pyproject.toml say:\n{lines}", why="the index is for these packages only"),)


def _table_lines(source: str, wanted: Wanted, explicit: bool) -> list[str]:
    lines = ["[tool.uv.sources]", *(f'{item.name} = {{ index = "{source}" }}' for item in wanted.packages)]
    lines += ["[[tool.uv.index]]", f'name = "{source}"', f'url = "{wanted.index}"']
    return [*lines, "explicit = true"] if explicit else lines


def poetry(place: Place, machine: Machine, wanted: Wanted) -> tuple[Step, ...]:
    """The index as a source for these packages only; poetry rewrites pyproject.toml and its lock."""
    asked = places_that_ask(machine, wanted.decisive)
    group = ("--group", asked[0].group) if len(asked) == 1 and asked[0].group else ()
    if not wanted.index:
        return (in_project(place, ("poetry", "add", *group, *wanted.texts), wanted.why),)
    source = source_name(wanted.index).replace(".", "-")
    declare = RunStep(
        argv=("poetry", "source", "add", "--priority=explicit", source, wanted.index),
        cwd=place.project,
        why="the index of that build",
        undo=(("poetry", "source", "remove", source),),
    )
    return (declare, in_project(place, ("poetry", "add", *group, "--source", source, *wanted.texts), wanted.why))


def pipenv(place: Place, asked: tuple[TorchAsked, ...], wanted: Wanted) -> RunStep:
    """The Pipfile names these versions and their index; its lock and the environment follow."""
    group = ("--categories", asked[0].group) if asked and asked[0].group else ()
    source = ("--index", wanted.index) if wanted.index else ()
    argv = ("pipenv", "install", *group, *source, *wanted.texts)
    return in_project(place, argv, f"{wanted.why}; in the Pipfile, or the next sync undoes it")


def remove(place: Place, named: ProjectPackage, why: str) -> RunStep | None:
    """The project no longer asks for a package; None where its tool has no command for that, or a name could be taken
    for an option."""
    kind = "group" if named.group else "extra" if named.extra else ""
    option = _REMOVED_FROM.get((place.tool, kind)) if kind else ""
    plain = all(is_name(name) for name in (named.name, named.group, named.extra) if name)
    if place.tool not in _REMOVING or option is None or not plain:
        return None
    where = (option, named.group or named.extra) if option else ()
    return in_project(place, (*_REMOVING[place.tool], *where, named.name), why)


def keep_out(place: Place, name: str, why: str) -> tuple[RunStep, ...]:
    """uv never installs a package, whatever requires it; empty where uv's table is written in another way, or the
    project's tool cannot be told so."""
    keys = place.project_keys
    if place.tool != "uv-project" or "uv.override-dependencies" in keys or not is_name(name):
        return ()
    line = f"override-dependencies = [\"{name}; sys_platform == 'never'\"]"
    edits: tuple[str, ...]
    if "uv" in keys:
        edits = (rf"/^\[tool\.uv\]$/a {line}",)
    elif not any(key.startswith("uv.") for key in keys):
        edits = ("$a\\[tool.uv]", f"$a\\{line}")
    else:
        return ()
    kept = f"{why}; what requires {name} would bring it back with the next sync"
    return (edited(place, "pyproject.toml", edits, kept), in_project(place, ("uv", "lock"), "the lock follows"))


_REMOVING = {
    "uv-project": ("uv", "remove", "--no-sync"),
    "poetry": ("poetry", "remove"),
    "pdm": ("pdm", "remove"),
    "pipenv": ("pipenv", "uninstall"),
}
_REMOVED_FROM = {
    ("uv-project", "group"): "--group",
    ("uv-project", "extra"): "--optional",
    ("poetry", "group"): "--group",
    ("poetry", "extra"): "--optional",
    ("pdm", "group"): "--group",
    ("pdm", "extra"): "--group",
    ("pipenv", "group"): "--categories",
}


def by_a_person(machine: Machine, wanted: Wanted) -> ManualStep:
    """Where several places of a project name a package, or its tool would keep what stands there."""
    name, source = wanted.decisive, f", from {wanted.index}" if wanted.index else ""
    where = ", ".join(_place_of(line) for line in places_that_ask(machine, name))
    text = f"This project asks for {name} in {where}. In each that this environment has, ask for "
    text += quoted(wanted.packages) + source
    return ManualStep(text=f"{text}; then lock and install it again.", why=wanted.why, risk="replaces")


def pixi(wanted: Wanted) -> ManualStep:
    """The lines of pixi's manifest."""
    lines = "\n".join(pixi_lines(wanted))
    return ManualStep(text=f"In the project's manifest, then pixi install:\n{lines}", why=wanted.why, risk="replaces")


def pixi_lines(wanted: Wanted) -> tuple[str, ...]:
    """The lines that pixi.toml needs."""
    index = wanted.index
    shared = bool(index) and any(item.extra for item in wanted.packages)
    where = f', index = "{index}"' if index and not shared else ""
    head = ("[pypi-options]", f'extra-index-urls = ["{index}"]') if shared else ()
    lines = (f'{i.name} = {{ version = "{i.spec or "*"}"{_pixi_extras(i)}{where} }}' for i in wanted.packages)
    return (*head, "[pypi-dependencies]", *lines)


def _pixi_extras(item: PackageSpec) -> str:
    return ", extras = [" + ", ".join(f'"{extra}"' for extra in item.extra.split(",")) + "]" if item.extra else ""


def files_that_bring_it_back(place: Place, machine: Machine, wanted: Wanted) -> tuple[Step, ...]:
    """Requirements files beside the environment that pin another torch: they are a person's own, so only reported."""
    torch = wanted.torch
    if torch is None:
        return ()
    steps: list[Step] = []
    for line in machine.examined.torch_asked:
        ours = bool(place.project) and line.file.rpartition("/")[2] in _OWN.get(place.tool, ("pyproject.toml",))
        pinned = re.search(r"==|^pytorch.*=", line.requirement)
        if ours or not pinned or line.requirement.replace(" ", "") == torch.text:
            continue
        text = f"In {_one_line(line.file)}, replace {_one_line(line.requirement)} by {torch.text}"
        if wanted.index and line.file.endswith(".txt"):
            text += f", and above it the line --extra-index-url {wanted.index}"
        if line.hashed:
            text += "; its hashes are those of the old wheels, so compile the file again"
        steps.append(ManualStep(text=f"{text}.", why="the next installation from it would restore the old build"))
    return tuple(steps)


_OWN = {"pip-tools": ("requirements.in", "requirements.txt"), "pipenv": ("Pipfile",)}
"""Files that the steps of a project change."""


def _place_of(line: TorchAsked) -> str:
    if "/" in line.file:
        return f"{_one_line(line.file)} (--package with the name in it)"
    if line.group:
        return f"--group {line.group}"
    return f"--optional {line.extra}" if line.extra else "the project's own dependencies"


def source_name(index: str) -> str:
    """A name for an index: "gpu-cu128". Indexes of other sites with the same ending have the same name."""
    tail = index.rstrip("/").rpartition("/")[2]
    return f"gpu-{tail}" if is_name(tail) else "gpu"


def _one_line(text: str) -> str:
    return without_controls(text)[:120]
