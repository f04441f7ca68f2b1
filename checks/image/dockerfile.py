"""Variables that an image sets, and its system packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.installs import system_packages
from gpudoctor.dockerfile.proposals import setting_finding
from gpudoctor.dockerfile.recipe import Recipe, about_line, change, command_of
from gpudoctor.dockerfile.rewriting import in_place
from gpudoctor.dockerfile.torch_requests import configured_from
from gpudoctor.dockerfile.unreadable_commands import copies_environment
from gpudoctor.dockerfile.variables import HIDING, NO_GPU, OVERRIDE, slip_in_devices
from gpudoctor.finding import Finding, Fix
from gpudoctor.machine import VISIBILITY

_HIDING = {"NVIDIA_VISIBLE_DEVICES": NO_GPU, **HIDING}


@check("GPD606", "image-hides-gpus", "image")
def hides_gpus(recipe: Recipe) -> Verdicts:
    """A variable in the image hides the GPUs or the driver's libraries.

    ## Why it matters
    NVIDIA_VISIBLE_DEVICES=void or none gives a container no GPU if the runtime follows the image. Without `compute`
    in NVIDIA_DRIVER_CAPABILITIES libcuda is not mounted. CUDA_VISIBLE_DEVICES=-1 hides every GPU, and so does `all`,
    which CUDA, HIP and ROCr do not know: they read numbers and UUIDs.

    ## How it is judged
    The check reads the last ENV of the built stage, and what a start script exports in any case. Values of ENV that
    hide GPUs on purpose count in images that are made for a GPU. An unset variable is fine.

    ## Fix safety
    Without the line the base image's value applies; NVIDIA's images have `all` and `compute,utility`.
    """
    for image in recipe.images:
        variables = recipe.variables(image)
        for chosen in (variables[name] for name in VISIBILITY if name in variables):
            if chosen.value is not None and (why := slip_in_devices(chosen.value)):
                yield setting_finding(
                    image,
                    chosen,
                    "error",
                    f"{chosen.name}={chosen.value} hides every GPU: {why}.",
                    "not set in the image, or numbers",
                )
        if recipe.vendor(image) is None:
            continue
        for name, values in _HIDING.items():
            setting = image.settings.get(name)
            if setting is not None and setting.value is not None and setting.value.strip() in values:
                yield setting_finding(
                    image,
                    setting,
                    "warning",
                    f"The image sets {name}={setting.value}: its containers see no GPU by default.",
                    "not set in the image",
                )
        capabilities = image.settings.get("NVIDIA_DRIVER_CAPABILITIES")
        if capabilities is None or capabilities.value is None or recipe.vendor(image) != "nvidia":
            continue
        if not {"all", "compute"} & {one.strip() for one in capabilities.value.split(",")} and capabilities.value:
            yield setting_finding(
                image,
                capabilities,
                "error",
                f"NVIDIA_DRIVER_CAPABILITIES={capabilities.value} leaves out compute: libcuda is not mounted "
                "into the container, and torch finds no driver.",
                "compute,utility",
                f"ENV NVIDIA_DRIVER_CAPABILITIES=compute,{capabilities.value}",
            )


@check("GPD607", "image-bakes-gfx-override", "image")
def bakes_override(recipe: Recipe) -> Verdicts:
    """HSA_OVERRIDE_GFX_VERSION is baked into the image.

    ## Why it matters
    The value is right for one generation of GPUs. On every other GPU it makes torch run code for the wrong GPU: wrong
    results, memory faults, or no device at all.

    ## How it is judged
    The check reads the last ENV of the built stage. With `--gpu`, `hsa-override-wrong` judges the value on these GPUs
    instead.

    ## Fix safety
    Set the variable when a container starts, for the GPUs that need it: `docker run -e`, `environment:` in compose.
    """
    if any(gpu.vendor == "amd" for gpu in recipe.gpus):
        return
    for image in recipe.images:
        for setting in image.settings.values():
            if not OVERRIDE.match(setting.name) or setting.value is None:
                continue
            yield setting_finding(
                image,
                setting,
                "warning",
                f"The image sets {setting.name}={setting.value} for every GPU it will ever run on; it is right for "
                "one generation at most.",
                "set when the container starts, for the GPU that needs it",
            )


@check("GPD610", "image-breaks-system-packages", "image")
def breaks_system_packages(recipe: Recipe) -> Verdicts:
    """pip overwrites the distribution's Python packages.

    ## Why it matters
    This works until apt and pip need the same package in different versions. A virtual environment costs one line.

    ## How it is judged
    The image installs torch with `--break-system-packages` or with ENV PIP_BREAK_SYSTEM_PACKAGES.

    ## Fix safety
    A virtual environment in front of PATH changes nothing for the programs in the image.
    """
    for image in recipe.images:
        for step in image.steps:
            if step.pip.asks_for("torch") is not None and _forced(step):
                yield Finding(
                    severity="note",
                    message="torch is installed over the distribution's Python packages.",
                    saw="--break-system-packages",
                    want="a virtual environment",
                    subject=image.place(step.command.line),
                    evidence=(command_of(image, step.command),),
                    fixes=(_in_an_environment(image, step),),
                )
                break


@check("GPD619", "image-pip-refused", "image")
def pip_refused(recipe: Recipe) -> Verdicts:
    """pip refuses to install into the Python of the distribution.

    ## Why it matters
    Debian 12, Ubuntu 24.04 and newer ones mark their Python as managed by apt (the file EXTERNALLY-MANAGED). pip and
    `uv pip install --system` then stop with `externally-managed-environment`, and so does the build of the image.

    ## How it is judged
    The tag of the base image tells the distribution, and the matrix whether it marks its Python. Nothing is said if a
    line before may bring another environment or take the mark away, nor of a command that may fail.

    ## Fix safety
    A virtual environment in front of PATH changes nothing for the programs in the image.
    """
    for image in recipe.images:
        for part in (image, *image.builders):
            for number, step in enumerate(part.steps):
                if _refused(part, step) and not any(_PERMITTING.search(_whole(one)) for one in part.steps[:number]):
                    yield _refusal(part, step)
                    break


_YES = ("1", "true", "yes", "on")
_PERMITTING = re.compile(r"EXTERNALLY-MANAGED|break-system-packages")


def _whole(step: Step) -> str:
    return f"{step.command.text} {step.command.writes}"


def _forced(step: Step) -> bool:
    """Whether a command of pip or uv is told to install into a managed Python."""
    names = ("PIP_BREAK_SYSTEM_PACKAGES", "UV_BREAK_SYSTEM_PACKAGES")
    given = (step.command.variables.get(name, "").lower() for name in names)
    return "--break-system-packages" in step.pip.flags or any(one in _YES for one in given)


def _refused(image: Image, step: Step) -> bool:
    """Whether a command surely installs into the distribution's own Python, and nothing permits it."""
    install, command = step.pip, step.command
    if not image.facts.managed or python_of(image) is None or not step.installs:
        return False
    if step.environment != "" or step.copied:
        return False
    if command.maybe or command.tolerated or install.folder or install.elsewhere or _forced(step):
        return False
    if configured_from(image).decides(command) or copies_environment(image) is not None:
        return False
    if "/" in command.argv[0].removeprefix("/usr/bin/") or "$" in command.argv[0]:
        return False
    system = "--system" in install.flags or command.variables.get("UV_SYSTEM_PYTHON", "").lower() in _YES
    return install.tool == "pip" or (install.tool == "uv" and not install.locked and system)


def _refusal(image: Image, step: Step) -> Finding:
    forced = re.sub(
        r"\binstall\b", "install --break-system-packages", step.command.written or step.command.text, count=1
    )
    return about_line(
        image,
        step.command.line,
        step.command.shown,
        severity="error",
        message=f"{step.pip.tool} refuses to install into the Python of {image.base}, which the distribution manages "
        "(externally-managed-environment): the build fails here.",
        saw="the distribution's Python",
        want="a virtual environment",
        fixes=(
            _in_an_environment(image, step),
            change("Install over the distribution's packages", in_place(image, step.command, forced)),
        ),
        refs=("PEP 668", "nvidia-holoscan/holohub#918"),
    )


def _in_an_environment(image: Image, step: Step) -> Fix:
    return change(
        "Use a virtual environment",
        f"{image.place(step.command.line)}: before it",
        image.written_run(" && ".join(_making_one(image))),
        image.written_env("PATH", "/opt/venv/bin:$PATH"),
    )


def _making_one(image: Image) -> Iterator[str]:
    """The commands that make an environment; Debian and Ubuntu have venv in a package of its own."""
    brought = {name for step in image.steps for name in system_packages(step.command)}
    if not brought & {"python3-venv", "python3-full"} and image.facts.managed:
        yield "apt-get update && apt-get install -y python3-venv"
    yield "python3 -m venv /opt/venv"
