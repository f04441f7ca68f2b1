"""Checks of what an image holds: drivers, torch, variables. Pure functions over an `ImageCase`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.case import ImageCase, change, line_of
from gpudoctor.dockerfile.image import Image, Setting
from gpudoctor.dockerfile.installs import system_packages
from gpudoctor.finding import Finding

_DRIVER = re.compile(
    r"(lib)?nvidia-(driver|headless|compute|utils|kernel|dkms|gl|cfg1|open)(-|$)|nvidia-(driver|open|headless)$"
    r"|cuda-drivers(-|$)|libcuda1$|libnvidia-(compute|gl|cfg1|decode|encode|ml1)|xserver-xorg-video-nvidia"
)
_WITH_DRIVER = re.compile(r"cuda$|cuda-\d+-\d+$|cuda-runtime-\d+-\d+$|cuda-demo-suite-\d+-\d+$")
_OVERRIDE = re.compile(r"HSA_OVERRIDE_GFX_VERSION(_\d+)?$")
_HIDING = {"NVIDIA_VISIBLE_DEVICES": ("void", "none", ""), "CUDA_VISIBLE_DEVICES": ("", "-1", "none", "NoDevFiles"),
           "HIP_VISIBLE_DEVICES": ("-1",), "ROCR_VISIBLE_DEVICES": ("-1",)}  # fmt: skip


@check("GPD601", "image-installs-driver")
def installs_driver(case: ImageCase) -> Verdicts:
    """The image brings a GPU driver of its own.

    ## Why it matters
    The driver belongs to the host: its kernel module and its libcuda must be of one version. The container toolkit
    mounts the host's libcuda into the container; one that was built into the image hides it or mixes with it, and
    works only on hosts with that very version. Kernel modules in an image are never loaded.

    ## How it is judged
    Packages that hold libcuda, NVML or a kernel module, packages that pull those in (`cuda`, `cuda-12-4`), NVIDIA's
    .run installer, and a COPY of libcuda. nvidia-container-toolkit is no driver.

    ## Fix safety
    Leaving the driver out of the image takes nothing away: it comes from the host. `cuda-toolkit-X-Y` has no driver.
    """
    for image in case.images:
        yield from _drivers_in(image)


def _drivers_in(image: Image) -> Iterator[Finding]:
    for step in image.steps:
        names = list(system_packages(step.command))
        whole = [name for name in names if _DRIVER.match(name)]
        pulled = [name for name in names if _WITH_DRIVER.match(name)]
        if re.search(r"NVIDIA-Linux-[\w.-]+\.run", step.command.argv[0]):
            whole.append(step.command.argv[0])
        if step.command.maybe or not (whole or pulled):
            continue
        said = ", ".join(whole or pulled)
        instead = [
            re.sub(r"^cuda-(runtime-|demo-suite-)?", "cuda-toolkit-", name) for name in pulled if name != "cuda"
        ]
        better = f"Install {', '.join(instead) or 'cuda-toolkit-X-Y'} instead: the toolkit without the driver."
        plain = f"{image.at(step.command.line)}: leave {said} out; the driver comes from the host."
        yield Finding(
            severity="error" if whole else "warning",
            confidence="likely",
            message=f"The image installs a driver ({said}). Driver and libcuda must be the host's: one in the image "
            "works only on a host with the same version.",
            saw=said,
            want="no driver in the image",
            subject=image.at(step.command.line),
            evidence=(line_of(image, step.command.line, step.command.text),),
            ways_out=(
                change(
                    "Leave the driver to the host", plain if whole else f"{image.at(step.command.line)}: {better}"
                ),
            ),
        )
    for copied in image.copied:
        names = [source for source in copied.sources if re.search(r"lib(cuda|nvidia-ml)\.so[\w.*]*$", source)]
        if names and "stubs" not in names[0]:
            yield Finding(
                severity="error",
                confidence="likely",
                message="The image holds a libcuda of its own: it hides the host's, and works only on a host with "
                "the same driver.",
                saw=names[0],
                want="the host's libcuda",
                subject=image.at(copied.line),
                evidence=(line_of(image, copied.line, " ".join(copied.sources)),),
                ways_out=(change("Leave libcuda to the host", f"{image.at(copied.line)}: take this line out."),),
            )


@check("GPD606", "image-hides-gpus")
def hides_gpus(case: ImageCase) -> Verdicts:
    """A variable that is baked into the image hides the GPUs, or the driver's libraries.

    ## Why it matters
    NVIDIA_VISIBLE_DEVICES=void or none gives a container no card where the runtime follows the image; without
    `compute` in NVIDIA_DRIVER_CAPABILITIES libcuda is not mounted; CUDA_VISIBLE_DEVICES=-1 hides every card.

    ## How it is judged
    The last ENV of the stage that is built, in images that are made for a GPU. An unset variable says nothing.

    ## Fix safety
    Without the line the base image's value counts; those of NVIDIA's images are `all` and `compute,utility`.
    """
    for image in case.images:
        if case.vendor(image) is None:
            continue
        for name, values in _HIDING.items():
            setting = image.settings.get(name)
            if setting is not None and setting.value is not None and setting.value.strip() in values:
                yield _setting(
                    image,
                    setting,
                    "warning",
                    f"The image sets {name}={setting.value}: its containers see no GPU unless told otherwise.",
                    "not set in the image",
                )
        capabilities = image.settings.get("NVIDIA_DRIVER_CAPABILITIES")
        if capabilities is None or capabilities.value is None or case.vendor(image) != "nvidia":
            continue
        if not {"all", "compute"} & {one.strip() for one in capabilities.value.split(",")} and capabilities.value:
            yield _setting(
                image,
                capabilities,
                "error",
                f"NVIDIA_DRIVER_CAPABILITIES={capabilities.value} leaves compute out: libcuda is not mounted "
                "into the container, and torch finds no driver.",
                "compute,utility",
                f"ENV NVIDIA_DRIVER_CAPABILITIES=compute,{capabilities.value}",
            )


@check("GPD607", "image-bakes-gfx-override")
def bakes_override(case: ImageCase) -> Verdicts:
    """HSA_OVERRIDE_GFX_VERSION is baked into the image.

    ## Why it matters
    The value fits one generation of cards. On every other card the image makes torch run code that is not for it:
    wrong results, memory faults, or no device at all.

    ## How it is judged
    The last ENV of the stage that is built. Silent where every card that `--gpu` describes needs this value.

    ## Fix safety
    Set it when a container is started, for the cards that need it: `docker run -e`, `environment:` of compose.
    """
    for image in case.images:
        for setting in image.settings.values():
            if not _OVERRIDE.match(setting.name) or setting.value is None:
                continue
            policies = [case.matrix.override(gpu.arch.value) for gpu in case.gpus if gpu.arch.value]
            if policies and all(policy is not None and policy.value == setting.value for policy in policies):
                continue
            yield _setting(
                image,
                setting,
                "warning",
                f"The image sets {setting.name}={setting.value} for every card it will ever run on; it is right for "
                "one generation at most.",
                "set at start, for the card that needs it",
            )


@check("GPD608", "image-stub-libcuda")
def stub_libcuda(case: ImageCase) -> Verdicts:
    """The stub of libcuda is on the load path of the image.

    ## Why it matters
    The stub in .../cuda/lib64/stubs has names and no driver behind them: it is for linking. A program that loads it
    gets error 34 (CUDA driver is a stub library) in place of the GPU.

    ## How it is judged
    ENV LD_LIBRARY_PATH of the stage that is built. LIBRARY_PATH and a variable of one RUN are the right places.

    ## Fix safety
    Linking needs LIBRARY_PATH only.
    """
    for image in case.images:
        setting = image.settings.get("LD_LIBRARY_PATH")
        stubs = [part for part in _paths(setting) if part.rstrip("/").endswith("/stubs")]
        if setting is not None and stubs:
            yield _setting(
                image,
                setting,
                "error",
                f"LD_LIBRARY_PATH of the image names {stubs[0]}: programs load the stub of libcuda in place of the "
                "host's driver.",
                "no stubs in LD_LIBRARY_PATH",
                f"ENV LIBRARY_PATH={stubs[0]}",
            )


@check("GPD609", "image-compat-library")
def compat_library(case: ImageCase) -> Verdicts:
    """CUDA's forward-compatibility libcuda is forced onto the load path.

    ## Why it matters
    cuda-compat works on data-centre cards only, and only where it is newer than the host's driver. On a GeForce, or
    on a newer host, CUDA does not start (error 803 or 804).

    ## How it is judged
    ENV LD_LIBRARY_PATH of the stage that is built names .../compat: an error where a described card takes no part in
    forward compatibility, else a warning. That the base image only holds the package says nothing.

    ## Fix safety
    The container toolkit adds the compat library by itself where it helps.
    """
    for image in case.images:
        setting = image.settings.get("LD_LIBRARY_PATH")
        found = [part for part in _paths(setting) if re.search(r"/compat/?$", part)]
        if setting is None or not found:
            continue
        others = [gpu.name for gpu in case.gpus if gpu.vendor == "nvidia" and not gpu.datacenter]
        if case.gpus and not others:
            continue
        yield _setting(
            image,
            setting,
            "error" if others else "warning",
            f"LD_LIBRARY_PATH of the image names {found[0]}: the compatibility libcuda is loaded on every host"
            + (f", and {others[0]} cannot use it." if others else ", also where it cannot work."),
            "left to the container toolkit",
        )


@check("GPD610", "image-breaks-system-packages")
def breaks_system_packages(case: ImageCase) -> Verdicts:
    """pip writes over the distribution's Python packages.

    ## Why it matters
    It works, until apt and pip want the same package in different versions. A virtual environment costs one line.

    ## How it is judged
    `--break-system-packages`, or ENV PIP_BREAK_SYSTEM_PACKAGES, where torch is installed.

    ## Fix safety
    A virtual environment in front of PATH changes nothing for what runs in the image.
    """
    for image in case.images:
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
                    subject=image.at(step.command.line),
                    evidence=(line_of(image, step.command.line, step.command.text),),
                    ways_out=(
                        change(
                            "Use a virtual environment",
                            f"{image.at(step.command.line)}: before it",
                            "RUN python3 -m venv /opt/venv",
                            "ENV PATH=/opt/venv/bin:$PATH",
                        ),
                    ),
                )
                break


def _paths(setting: Setting | None) -> list[str]:
    return (setting.value or "").split(":") if setting else []


def _setting(image: Image, setting: Setting, severity: str, message: str, want: str, instead: str = "") -> Finding:
    written = f"{setting.name}={setting.value}"
    advice = f"write {instead}" if instead else "take this variable out"
    return Finding(
        severity=severity,  # type: ignore[arg-type]
        message=message,
        saw=written,
        want=want,
        subject=image.at(setting.line),
        evidence=(line_of(image, setting.line, f"ENV {written}"),),
        ways_out=(change(f"Change line {setting.line}", f"{image.at(setting.line)}: {advice}."),),
    )
