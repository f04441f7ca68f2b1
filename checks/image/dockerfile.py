"""Variables that an image sets, and its system packages."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.proposals import setting_finding
from gpudoctor.dockerfile.recipe import Recipe, change, command_of
from gpudoctor.dockerfile.variables import OVERRIDE, VISIBLE, slip_in_devices
from gpudoctor.finding import Finding

_HIDING = {"NVIDIA_VISIBLE_DEVICES": ("void", "none", ""), "CUDA_VISIBLE_DEVICES": ("", "-1", "none", "NoDevFiles"),
           "HIP_VISIBLE_DEVICES": ("-1",), "ROCR_VISIBLE_DEVICES": ("-1",)}  # fmt: skip


@check("GPD606", "image-hides-gpus", "image")
def hides_gpus(recipe: Recipe) -> Verdicts:
    """A variable in the image hides the GPUs or the driver's libraries.

    ## Why it matters
    NVIDIA_VISIBLE_DEVICES=void or none gives a container no GPU if the runtime follows the image. Without `compute`
    in NVIDIA_DRIVER_CAPABILITIES libcuda is not mounted. CUDA_VISIBLE_DEVICES=-1 hides every GPU, and so does `all`,
    which CUDA, HIP and ROCr do not know: they read numbers and UUIDs.

    ## How it is judged
    The check reads the last ENV of the built stage. Values that hide GPUs on purpose count in images that are made
    for a GPU. An unset variable is fine.

    ## Fix safety
    Without the line the base image's value applies; NVIDIA's images have `all` and `compute,utility`.
    """
    for image in recipe.images:
        for chosen in (image.settings[name] for name in VISIBLE if name in image.settings):
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
            install = step.pip
            if install is None or install.asks_for("torch") is None:
                continue
            if "--break-system-packages" in install.flags or image.variable("PIP_BREAK_SYSTEM_PACKAGES") == "1":
                yield Finding(
                    severity="note",
                    message="torch is installed over the distribution's Python packages.",
                    saw="--break-system-packages",
                    want="a virtual environment",
                    subject=image.place(step.command.line),
                    evidence=(command_of(image, step.command),),
                    fixes=(
                        change(
                            "Use a virtual environment",
                            f"{image.place(step.command.line)}: before it",
                            image.written_run("python3 -m venv /opt/venv"),
                            image.written_env("PATH", "/opt/venv/bin:$PATH"),
                        ),
                    ),
                )
                break
