"""An image on the machine that `--gpu` and `--driver` describe: the checks of machines over the frameworks that it
installs, with fixes for its file."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gpudoctor.dependencies import normalised
from gpudoctor.dockerfile.cuda_compat import compat_library
from gpudoctor.dockerfile.frameworks import distributions
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.kept_torch import with_the_torch_of_its_base
from gpudoctor.dockerfile.proposals import install_line, package_line
from gpudoctor.dockerfile.recipe import Recipe, change, line_of
from gpudoctor.engine import judge
from gpudoctor.finding import (
    Evidence,
    Finding,
    Fix,
    Manual,
    Remedy,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    VariableRemedy,
)
from gpudoctor.host import InputError
from gpudoctor.intake.described import imagined_machine
from gpudoctor.intake.description import Description
from gpudoctor.machine import Machine
from gpudoctor.matrix.questions import Matrix
from gpudoctor.suites import machine_checks


def machine_of(recipe: Recipe, image: Image, gpus: tuple[str, ...], driver: str) -> Machine | None:
    """The described machine with the image's frameworks and Python; None where none of them is known. With a torch
    that only its base image knows, the driver and the GPUs are judged; with an override alone, that is."""
    held, overrides = recipe.torch(image), recipe.overrides(image)
    torch = f"{held.version}+{held.build}" if held is not None and held.known else ""
    packages = tuple(text for one in recipe.frameworks(image) for text in distributions(one))
    if not torch and not packages and not overrides and not (held is not None and held.asked is None):
        return None
    if held is not None:
        packages += _pinned_beside(image, held.asked.environment if held.asked else "", recipe.matrix)
    python = python_of(image) or ""
    description = Description(gpus=gpus, driver=driver, torch=torch, packages=packages, python_version=python)
    try:
        machine = imagined_machine(description, overrides, recipe.matrix)
    except InputError:  # a build that is none, which the image's own checks tell
        return None
    library = compat_library(image, recipe.matrix, machine.gpus, driver)
    if library is not None:
        path = machine.load_path
        machine = replace(machine, load_path=replace(path, found=(library, *path.found)))
    if held is not None and held.asked is None and image.facts.origin == "amd":
        return machine.with_torch_facts(origin="amd") if machine.torch else machine  # no wheel of an index
    return machine


def _pinned_beside(image: Image, environment: str | None, matrix: Matrix) -> tuple[str, ...]:
    """The exact versions beside torch of the packages of which some do not work with some torch: NumPy 2, and those
    of wheel files, whose names may tell the torch that they were compiled for."""
    names = {row.package for row in matrix.tables.package_conflicts}
    asked: dict[str, str] = {}
    for step in image.steps:
        if step.pip.elsewhere or step.environment != environment:
            continue
        exact = {one.name: one.exact for one in step.pip.requirements if one.name in names}
        files = {normalised(one.name): one.version for one in step.wheels.values()}
        exact |= {name: version for name, version in files.items() if name != "torch"}
        asked |= {name: "" if step.command.maybe else version for name, version in exact.items()}
    return tuple(f"{name}=={exact}" for name, exact in asked.items() if exact)


def findings_on(
    recipe: Recipe, image: Image, machine: Machine, gpus: tuple[str, ...], driver: str, plugins: tuple[str, ...]
) -> Iterator[Finding]:
    """What the checks of machines say of the image's frameworks on the described GPUs."""
    keep = _keep_torch(recipe, image, gpus, driver, plugins)
    for finding in judge(machine, recipe.matrix, machine_checks(plugins)).findings:
        if finding.severity != "note":
            line, what, certain = _line(recipe, image, finding)
            setting = _setting(recipe, image, finding)
            fixes = tuple(_in_the_file(recipe, image, line, fix) for fix in _for_a_file(recipe, image, finding.fixes))
            if any(isinstance(remedy, ReplaceTorch) for fix in finding.fixes for remedy in fix.remedies):
                fixes = (*keep, *fixes)
            yield replace(
                finding,
                evidence=(setting or line_of(image, line, what), *finding.evidence),
                confidence=finding.confidence if certain or setting else "likely",
                fixes=fixes,
            )


def _keep_torch(
    recipe: Recipe, image: Image, gpus: tuple[str, ...], driver: str, plugins: tuple[str, ...]
) -> tuple[Fix, ...]:
    """The fix that leaves the base image its own torch, where that runs on the described GPUs."""
    held = recipe.torch(image)
    kept = with_the_torch_of_its_base(recipe, image) if held is not None and held.asked is not None else None
    if kept is None:
        return ()
    own, machine = recipe.torch(kept[0]), machine_of(recipe, kept[0], gpus, driver)
    if machine is None or own is None or not (own.known or _is_made_for(recipe, image)):
        return ()
    found = judge(machine, recipe.matrix, machine_checks(plugins)).findings
    runs = all(one.severity == "note" for one in found)
    return (change("Keep the base image's torch", *kept[1]),) if runs else ()


def _is_made_for(recipe: Recipe, image: Image) -> bool:
    """Whether a base image with an unknown torch is one of AMD that has code for all described GPUs."""
    facts = image.facts
    if facts.origin != "amd":
        return False
    targets = {*facts.archs, *(recipe.matrix.amd.image_targets(facts.rocm)[0] if facts.rocm else ())}
    return all(gpu.arch.value in targets for gpu in recipe.gpus)


def _setting(recipe: Recipe, image: Image, finding: Finding) -> Evidence | None:
    """The line that sets the variable that a finding is about; None if it is about none."""
    variables = recipe.variables(image)
    setting = next((variables[one.fact] for one in finding.evidence if one.fact in variables), None)
    return Evidence("instruction", image.written(setting), image.place_of(setting)) if setting else None


def _line(recipe: Recipe, image: Image, finding: Finding) -> tuple[int, str, bool]:
    """The line that installs what a finding is about, what it installs, and whether that is certain."""
    held, others = recipe.torch(image), recipe.frameworks(image)
    other = next((one for one in others if one.row.framework == finding.framework), None)
    if other is None and (held is None or not held.known) and others:
        other = others[0]
    if other is not None:
        return other.line, other.text, other.certain
    if held is None:
        return image.base_line, image.base or "", True
    what = image.base or "" if held.asked is None else "the torch of the image"
    return held.line, what, held.certain


def _for_a_file(recipe: Recipe, image: Image, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """Fixes of a machine in the order in which a file takes them: a variable comes before another environment, and
    before another base image, which may not exist."""
    held = recipe.torch(image)
    of_base = held is not None and held.asked is None
    if not fixes or not (of_base or all(isinstance(remedy, Manual) for remedy in fixes[0].remedies)):
        return fixes
    return tuple(sorted(fixes, key=lambda fix: not all(isinstance(one, SetVariable) for one in fix.remedies)))


def _in_the_file(recipe: Recipe, image: Image, line: int, fix: Fix) -> Fix:
    """The fix as a person writes it into the file."""
    torch = next((remedy for remedy in fix.remedies if isinstance(remedy, ReplaceTorch)), None)
    variables = [_variable(recipe, image, one) for one in fix.remedies if isinstance(one, VariableRemedy)]
    if torch is not None:
        return _change_torch(recipe, image, line, torch, variables)
    if variables and len(variables) == len(fix.remedies):
        return change(fix.title, *variables)
    packages = [text for remedy in fix.remedies for text in _package_lines(image, line, remedy)]
    return change(fix.title, *packages) if packages and len(packages) == len(fix.remedies) else fix


def _variable(recipe: Recipe, image: Image, remedy: VariableRemedy) -> str:
    """Where to set or leave out a variable: the ENV of the image, or a service."""
    name, value = remedy.name, remedy.value if isinstance(remedy, SetVariable) else None
    services = [started.service for started in recipe.services if started.image is image]
    service = next((one for one in services if name in one.environment), None)
    setting = recipe.variables(image).get(name)
    if setting is not None and service is None:
        what = f"leave out {name}" if value is None else image.written(replace(setting, value=value))
        return f"{image.place_of(setting)}: {what}"
    service = service or next(iter(services), None)
    if service is not None:
        if value is not None:
            return "\n".join(service.giving(name, value))
        return f"{service.place_of_variable(name)}: leave out {name} in the environment of {service.name}"
    if value is None:
        return f"unset {name}"
    line = image.written_env(name, value)
    if image.form == "definition":
        return f"{image.file}: in %environment: {line}, or apptainer run --env {name}={value} ..."
    return f"{image.place(image.base_line)}: below it: {line}, or docker run -e {name}={value} ..."


def _package_lines(image: Image, line: int, remedy: Remedy) -> Iterator[str]:
    """The line that leaves a package out or takes another release of it: where it is asked for, if it is."""
    if isinstance(remedy, RemovePackage):
        yield f"{image.place(line)}: leave out {remedy.name}"
    elif isinstance(remedy, ReplacePackage):
        extra = f"[{remedy.extra}]" if remedy.extra else ""
        package = f"{remedy.name}{extra}{remedy.specifier}"
        for step in reversed(image.steps) if not remedy.index_url else ():
            if (asked := step.pip.asks_for(remedy.name)) is not None:
                yield package_line(image, step, asked, package)
                return
        index = f"--index-url {remedy.index_url} " if remedy.index_url else ""
        command = image.written_run(f"pip install {index}'{package}'")
        yield f"{image.place(line)}: {command}"


def _change_torch(recipe: Recipe, image: Image, line: int, remedy: ReplaceTorch, also: list[str]) -> Fix:
    """The fix that writes another torch into the file: where it is installed, or where its base image is named."""
    build = f"{remedy.version}+{remedy.build}"
    held = recipe.torch(image)
    if line == image.base_line and (held is None or held.asked is None):
        text = image.on_base(f"an image with torch {build}")
        return change(f"Use a base image with torch {build}", text, *also)
    text = install_line(recipe, image, line, remedy.version, remedy.build, remedy.index_url, remedy.extra)
    asked = held.asked if held is not None else None
    declared = asked is not None and asked.tool == "pixi" and asked.channel and remedy.build.startswith("cu")
    return change("Tell pixi which CUDA there will be" if declared else f"Install torch {build}", text, *also)
