"""Driver libraries in an image: a driver of its own, the stub of libcuda, CUDA's compatibility library."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from fnmatch import fnmatch

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.commands import Command, found_in_turn
from gpudoctor.dockerfile.cuda_compat import compat_cuda, named_folders
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.installs import system_packages
from gpudoctor.dockerfile.proposals import setting_finding
from gpudoctor.dockerfile.recipe import Recipe, change, command_of, line_of
from gpudoctor.dockerfile.toolkit import without_stubs
from gpudoctor.finding import Evidence, Finding, Severity
from gpudoctor.matrix.versions import figures

_DRIVER = re.compile(
    r"(lib)?nvidia-(driver|headless|compute|utils|kernel|dkms|gl|cfg1|open)(-|$)|nvidia-(driver|open|headless)$"
    r"|cuda-drivers(-|$)|libcuda1$|libnvidia-(compute|gl|cfg1|decode|encode|ml1)|xserver-xorg-video-nvidia"
)
_WITH_DRIVER = re.compile(r"cuda$|cuda-\d+-\d+$|cuda-runtime-\d+-\d+$")
_INSTALLER = re.compile(r"NVIDIA-Linux-\w"), re.compile(r"\.run\b")
_LIBRARY = re.compile(r"lib(cuda|nvidia-ml)\.so[\w.*]*$")
_MOST_NAMED = 20
_PATTERNS = 50
"""How many patterns of `rm` are compared with a path; nobody writes more."""
_JETSON = re.compile(r"l4t|jetson|tegra")
_KERNEL_MODULE = re.compile(r"(amdgpu|rocm)-dkms$")


@check("GPD601", "image-installs-driver", "image")
def installs_driver(recipe: Recipe) -> Verdicts:
    """The image contains a GPU driver of its own.

    ## Why it matters
    The driver belongs to the host: its kernel module and its libcuda must have the same version. The container
    toolkit mounts the host's libcuda into the container. A libcuda built into the image hides or mixes with it, and
    works only on hosts with exactly that version. Kernel modules in an image are never loaded.

    ## How it is judged
    The check finds packages that contain libcuda, NVML or a kernel module, packages that install those (`cuda`,
    `cuda-12-4`), NVIDIA's .run installer, a COPY of libcuda, amdgpu-dkms, and amdgpu-install without `--no-dkms`.
    nvidia-container-toolkit is not a driver.

    ## Fix safety
    The image loses nothing without the driver: the host provides it. `cuda-toolkit-X-Y` contains no driver.
    """
    for image in recipe.images:
        for step in image.steps:
            if not step.command.maybe:
                yield from _driver_of(image, step.command)
        for copied in image.copied:
            held = [source for source in copied.sources if _LIBRARY.match(os.path.basename(source))]
            if held and "stubs" not in held[0]:
                where = line_of(image, copied.line, " ".join(copied.sources))
                text = "The image contains its own libcuda: it hides the host's, and works only on a host with the "
                yield _driver(where, "error", text + "same driver.", held[0], "remove this line.")


def _driver_of(image: Image, command: Command) -> Iterator[Finding]:
    """The parts of a driver that one command installs."""
    names = list(dict.fromkeys(system_packages(command)))
    where = command_of(image, command)
    whole = [name for name in names if _DRIVER.match(name)][:_MOST_NAMED]
    if found_in_turn(command.argv[0], *_INSTALLER):
        whole.append(command.argv[0])
    pulled = [name for name in names if _WITH_DRIVER.match(name)][:_MOST_NAMED]
    modules = [name for name in names if _KERNEL_MODULE.match(name)]
    if os.path.basename(command.argv[0]) == "amdgpu-install" and not {"--no-dkms", "--uninstall"} & set(command.argv):
        modules.append("amdgpu-install without --no-dkms")
    if whole or pulled:
        packages = ", ".join(whole or pulled)
        instead = [re.sub(r"^cuda-(runtime-)?", "cuda-toolkit-", name) for name in pulled if name != "cuda"]
        advice = f"install {', '.join(instead) or 'cuda-toolkit-X-Y'} instead, the toolkit without the driver."
        yield _driver(
            where,
            "error" if whole else "warning",
            f"The image installs a driver ({packages}). Driver and libcuda must be the host's: a driver in the "
            "image works only on a host with the same version.",
            packages,
            f"leave out {packages}; the host provides the driver." if whole else advice,
        )
    elif modules:
        advice = "add --no-dkms." if "install" in modules[0] else f"leave out {modules[0]}."
        text = f"The image installs a kernel module ({modules[0]}) that is never loaded; the host's driver counts."
        yield _driver(where, "warning", text, modules[0], advice)


def _driver(where: Evidence, severity: Severity, text: str, saw: str, advice: str) -> Finding:
    return Finding(
        severity=severity,
        confidence="likely",
        message=text,
        saw=saw,
        want="no driver in the image",
        subject=where.source,
        evidence=(where,),
        fixes=(change("Leave the driver to the host", f"{where.source}: {advice}"),),
    )


@check("GPD608", "image-stub-libcuda", "image")
def stub_libcuda(recipe: Recipe) -> Verdicts:
    """The stub of libcuda is on the load path of the image.

    ## Why it matters
    The stub in .../cuda/lib64/stubs exists for linking; no driver is behind it. A program that loads it gets error 34
    (CUDA driver is a stub library) instead of the GPU.

    ## How it is judged
    The check reads LD_LIBRARY_PATH of ENV, and of a start script: a warning, because the stub's name there is
    libcuda.so, and most programs open libcuda.so.1. It is an error if the stub is linked or copied as libcuda.so.1
    to another folder, or its folder written to ld.so.conf, unless a later command removes it. LIBRARY_PATH, or a
    variable of one RUN, are the right places for the stub. An image without the toolkit (`runtime`, `base`) has none.

    ## Fix safety
    Linking needs only LIBRARY_PATH.
    """
    for image in recipe.images:
        setting = recipe.variables(image).get("LD_LIBRARY_PATH")
        folders = (setting.value or "").split(":") if setting else []
        stubs = [one for one in folders if one.rstrip("/").endswith("/stubs") and not without_stubs(image, one)]
        if setting is not None and stubs:
            yield setting_finding(
                image,
                setting,
                "warning",
                f"LD_LIBRARY_PATH of the image names {stubs[0]}: programs that open libcuda.so (Numba, Warp) load "
                "the stub instead of the host's driver.",
                "no stubs in LD_LIBRARY_PATH",
                f"ENV LIBRARY_PATH={stubs[0]}" + (", and LD_LIBRARY_PATH without it" if len(folders) > 1 else ""),
            )
        for where, path in _stubs_in(image):
            yield Finding(
                severity="error",
                confidence="likely",
                message=f"{path} makes programs load the stub of libcuda instead of the host's driver.",
                saw=path,
                want="the stub only where it is linked against",
                subject=where.source,
                evidence=(where,),
                fixes=(change("Remove the stub", f"{where.source}: at the end of this RUN, rm -f {path}"),),
            )


def _stubs_in(image: Image) -> Iterator[tuple[Evidence, str]]:
    """Files that stay in the image and let the loader find the stub, each with the place that creates it."""
    yield from reversed(list(_stubs_from_the_end(image)))
    for copied in image.copied:
        for source in copied.sources:
            path = _loaded_stub(source, copied.target)
            if path:
                yield line_of(image, copied.line, source), path


def _stubs_from_the_end(image: Image) -> Iterator[tuple[Evidence, str]]:
    removed: set[str] = set()
    patterns: set[str] = set()
    later = None
    for step in reversed(image.steps):
        command = step.command
        if os.path.basename(command.argv[0]) == "rm":
            removed.update(command.argv)
            patterns.update(word for word in command.argv if re.search(r"[*?[]", word) and len(patterns) < _PATTERNS)
        path = _stub_made_by(command, later)
        later = command
        if path and not command.maybe and path not in removed and not any(fnmatch(path, one) for one in patterns):
            yield command_of(image, command), path


def _stub_made_by(command: Command, later: Command | None) -> str:
    name, words = os.path.basename(command.argv[0]), [word for word in command.argv[1:] if word[:1] != "-"]
    if name in ("ln", "cp", "mv") and len(words) == 2:
        return _loaded_stub(words[0], words[1])
    if name in ("echo", "printf") and "/stubs" in command.text:
        teed = later.argv[-1] if later and os.path.basename(later.argv[0]) == "tee" else ""
        return next((file for file in (command.writes, teed) if file.startswith("/etc/ld.so.conf")), "")
    return ""


def _loaded_stub(source: str, target: str) -> str:
    """The path where the loader would find this stub; "" for a stub that is only there for linking."""
    if not re.search(r"/stubs/libcuda\.so[\d.]*$", source):
        return ""
    path = target if ".so" in os.path.basename(target) else os.path.join(target, os.path.basename(source))
    return path if path.endswith("libcuda.so.1") and "/stubs/" not in path else ""


@check("GPD609", "image-compat-library", "image")
def compat_library(recipe: Recipe) -> Verdicts:
    """CUDA's forward-compatibility libcuda is forced onto the load path.

    ## Why it matters
    cuda-compat works only on data-centre GPUs, and only if it is newer than the host's driver. On a GeForce, or on a
    newer host, CUDA does not start (error 803 or 804).

    ## How it is judged
    ENV LD_LIBRARY_PATH of the stage that is built names .../compat. It is an error if a described GPU does not
    support forward compatibility, or if the described driver is of a newer branch than the library, else a warning.
    A base image that merely contains the package is not reported, nor one for Jetson, where the library works, or one
    that is not known.

    ## Fix safety
    The container toolkit adds the compat library by itself where it helps.
    """
    for image in recipe.images:
        setting, found = image.settings.get("LD_LIBRARY_PATH"), named_folders(image)
        if setting is None or not found or image.base is None or _JETSON.search(image.base):
            continue
        others = [gpu.name for gpu in recipe.gpus if gpu.vendor == "nvidia" and not gpu.datacenter]
        older = recipe.matrix.nvidia.bundled_driver(compat_cuda(image) or "") if recipe.driver else None
        outrun = older is not None and figures(recipe.driver)[:1] > figures(older)[:1]
        if recipe.gpus and not others and not outrun:
            continue
        why = f"and {others[0]} cannot use it" if others else "even where it cannot work"
        if outrun and not others:
            why = f"and it is older ({older}) than driver {recipe.driver}: CUDA does not start"
        yield setting_finding(
            image,
            setting,
            "error" if others or outrun else "warning",
            f"LD_LIBRARY_PATH of the image names {found[0]}: every host loads the compatibility libcuda, {why}.",
            "left to the container toolkit",
        )
