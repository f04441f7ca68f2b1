"""Fixes where pip is the wrong tool: Jetson, NGC images, conda, distributions, torch built from source."""

from __future__ import annotations

from typing import Literal

from gpudoctor.finding import Fix, ReplaceTorch, by_hand
from gpudoctor.isa import dotted
from gpudoctor.machine import Gpu, Machine, Torch, archs_of
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.nvidia_driver import driver_verdict, has_server_stack

Place = Literal["index", "jetson", "ngc", "conda", "nix", "distribution", "source"]


def place_of(machine: Machine, keep: Torch | None) -> Place:
    """The origin of this environment's torch, as far as it decides how another one is installed."""
    interpreter = f"{machine.examined.interpreter} {machine.examined.prefix}"
    os = machine.system.os.value
    origin = keep.origin if keep else "unknown"
    if machine.system.jetson.known or origin == "jetson":
        return "jetson"
    if origin == "ngc":
        return "ngc"
    if "/nix/store/" in interpreter or (os is not None and os.id == "nixos" and origin == "distribution"):
        return "nix"
    if origin in ("conda-forge", "conda"):
        return "conda"
    if origin == "distribution":
        return "distribution"
    return "source" if origin == "source" else "index"


def fixes_elsewhere(place: Place, situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None) -> tuple[Fix, ...]:
    """The right fixes for that origin, before or instead of a wheel from an index."""
    archs = archs_of(gpus)
    wanted = " and ".join(archs) or "the GPU"
    if place == "jetson":
        return (_jetson(situation, gpus),)
    if place == "ngc":
        return (by_hand("Use another tag of the NGC image", _ngc(wanted), "replaces"),)
    if place == "nix":
        return (by_hand("Choose the GPU variant in Nix", _nix(gpus), "replaces"),)
    if place == "source":
        return (by_hand(f"Build torch again for {wanted}", _source(situation.matrix, gpus, archs), "replaces"),)
    if place == "conda":
        return _conda(situation, gpus, keep)
    return ()


def _jetson(situation: Situation, gpus: tuple[Gpu, ...]) -> Fix:
    board = situation.machine.system.jetson.value
    release = f" for L4T {board.l4t}" if board and board.l4t else ""
    archs = tuple(gpu.arch.value for gpu in gpus if gpu.arch.value)
    if any(has_server_stack(situation, arch) for arch in archs):
        text = (
            "No wheel of the package index has kernels for this board. Install torch for CUDA 13 from conda-forge, "
            f'or build it from source with TORCH_CUDA_ARCH_LIST="{";".join(map(dotted, archs))}".'
        )
        return by_hand("Use a torch that is built for this board", text, "replaces")
    text = (
        f"Install the torch wheel that NVIDIA publishes{release} (JetPack){_wheels(situation, archs)}, or start "
        "NVIDIA's L4T PyTorch container: the aarch64 wheels of the package index are built for servers, not for this "
        "board."
    )
    if others := ", ".join(dict.fromkeys(gpu.name for gpu in gpus if not gpu.integrated)):
        text += f" They support the board's own GPU, not {others}: hide that (CUDA_VISIBLE_DEVICES)."
    return by_hand("Use NVIDIA's torch for Jetson", text, "replaces")


def _wheels(situation: Situation, archs: tuple[str, ...]) -> str:
    """Where these wheels are, for the board's release of Jetson Linux, and the Python that they are for."""
    board = situation.machine.system.jetson.value
    major = (board.l4t or "").partition(".")[0] if board else ""
    rows = [row for arch in archs if (row := situation.matrix.gpus.soc(arch))]
    found = [
        f"{url} for L4T {l4t}" + (f" and Python {python}" if (python := row.wheel_pythons.get(l4t)) else "")
        for row in rows
        for l4t, url in row.wheels.items()
        if major in ("", l4t)
    ]
    return f": {' or '.join(found)}" if found else ""


def _ngc(wanted: str) -> str:
    return (
        f"Start another tag of nvcr.io/nvidia/pytorch whose release notes name {wanted} and this host's "
        "driver. Do not install a torch from an index into this image: its libraries are built for its own torch."
    )


def _nix(gpus: tuple[Gpu, ...]) -> str:
    if any(gpu.vendor == "amd" for gpu in gpus):
        return "Set nixpkgs.config.rocmSupport = true (or use torchWithRocm) and rebuild the environment."
    return (
        "Set nixpkgs.config.cudaSupport = true with cudaCapabilities for this GPU (or use torch-bin) and rebuild "
        "the environment."
    )


def _source(matrix: Matrix, gpus: tuple[Gpu, ...], archs: tuple[str, ...]) -> str:
    if any(gpu.vendor == "amd" for gpu in gpus):
        return f'Build torch again with PYTORCH_ROCM_ARCH="{";".join(archs)}".'
    wanted = ";".join(map(dotted, archs))
    return f'Build torch again with TORCH_CUDA_ARCH_LIST="{wanted}"{_toolkits(matrix, archs)}.'


def _toolkits(matrix: Matrix, archs: tuple[str, ...]) -> str:
    """Which CUDA can compile for all of these GPUs: " and CUDA 11.8 to 12.9"."""
    rows = [row for arch in archs if (row := matrix.gpus.capability(arch))]
    if not rows:
        return ""
    first = max((row.first_cuda for row in rows), key=figures)
    lasts = [row.last_cuda for row in rows if row.last_cuda]
    return f" and CUDA {first} to {min(lasts, key=figures)}" if lasts else f" and CUDA {first} or newer"


def _conda(situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None) -> tuple[Fix, ...]:
    if any(gpu.vendor == "amd" for gpu in gpus):
        text = (
            "conda-forge has no ROCm builds of torch. Make a new environment with Python and pip only, and install "
            "the ROCm wheel of torch into it."
        )
        return (by_hand("Make a new environment for the ROCm build", text, "safe"),)
    cuda = conda_cuda(situation, gpus)
    if cuda is None or keep is None:
        return ()
    version = keep.release
    lacks_code = keep.cuda is not None
    # The present release may have no build for a newer CUDA: then the solver takes a newer release.
    remedy = ReplaceTorch(
        version=f">={version}" if lacks_code else version, build=cuda, origin="conda-forge", carries="by its recipe"
    )
    return (Fix(title=f"Install the CUDA build of torch from conda-forge ({cuda})", remedies=(remedy,)),)


def conda_cuda(situation: Situation, gpus: tuple[Gpu, ...]) -> str | None:
    """The CUDA releases, in conda's spelling, that know all the GPUs and that the driver runs."""
    rows = [situation.matrix.gpus.capability(gpu.arch.value) for gpu in gpus]
    known = [row for row in rows if row is not None]
    if not known or len(known) < len(rows):
        return None
    first = max((row.first_cuda for row in known), key=figures)
    lasts = [row.last_cuda for row in known if row.last_cuda]
    majors = {floor.major for floor in situation.matrix.tables.cuda_floors}
    allowed = [m for m in majors if driver_verdict(situation, f"{m}.0") != "too-old"]
    if not allowed:
        return None
    highest = max(int(m) for m in allowed)
    if lasts:
        highest = min(highest, *(figures(last)[0] for last in lasts))
    if highest < figures(first)[0]:
        return None
    return f"cuda-version>={first},<{highest + 1}"
