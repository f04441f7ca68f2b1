"""Whether this container was given a GPU that works (GPD201, GPD202, GPD204, GPD213)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AddContainerFlags, Evidence, Finding, Fix, Manual, NotJudged, by_hand
from gpudoctor.machine import Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import cpu_task, without_request
from gpudoctor.situation.container_start import AS_OPTIONS, started_again
from gpudoctor.situation.device_nodes import amd_nodes, gpu_nodes, nvidia_nodes, owning_group
from gpudoctor.situation.driver_library import baked_in, beside_the_path, put_on_path
from gpudoctor.situation.gpu_groups import VENDORS
from gpudoctor.situation.nvidia_driver import cuda_status, driver_answers
from gpudoctor.situation.usable_gpus import awaits_nodes, jetson_is_given
from gpudoctor.situation.working_gpus import gpus_without_driver

_SMALL = 1 << 30
_EFFECTS = ("no-driver", "nvidia-uvm-missing", "libcuda-stub", "amd-kfd-missing")
"""What a container without the GPU looks like from inside."""
_AWAITED = (
    "/dev has no NVIDIA GPU, although this container has the driver's library, which makes the device nodes for root "
    "when CUDA starts (`--level driver` starts it)"
)


def _given(situation: Situation, vendor: Vendor) -> bool | None:
    """Whether this container was given any GPU of the vendor; None if nobody could look."""
    if vendor == "nvidia" or situation.in_wsl:
        nodes = nvidia_nodes(situation)
        if nodes is None:
            return None
        if situation.in_wsl:
            return "/dev/dxg" in nodes
        if situation.on_jetson:
            return jetson_is_given(situation.machine)
        return "/dev/nvidiactl" in nodes and bool(gpu_nodes(situation))
    amd = amd_nodes(situation)
    return None if amd is None else amd[0] is not None and bool(amd[1])


def _host_has(situation: Situation, vendor: Vendor) -> bool | None:
    """Whether the host has a GPU of the vendor with its driver; None if the container does not show it."""
    machine = situation.machine
    if machine.of_vendor(vendor):
        return not gpus_without_driver(situation, vendor)
    driver = machine.nvidia.module if vendor == "nvidia" else machine.amd.topology
    if driver.known or situation.in_wsl or situation.on_jetson:
        return True
    return None if machine.buses.undecided else False


@check("GPD201", "container-no-gpu", "access")
def container_no_gpu(situation: Situation) -> Verdicts:
    """The container was started without a GPU.

    ## Why it matters
    A container sees the host's PCI bus, but can use only the device nodes and libraries that it was given.

    ## How it is judged
    A GPU build of torch is installed or a GPU is required, but the container lacks the device nodes of its vendor
    (NVIDIA: nvidiactl and a GPU; AMD: /dev/kfd and a render node; WSL: /dev/dxg) or the driver's libraries. For root,
    NVIDIA's mounted library makes missing nodes, so that only level driver tells. It is a note if nothing needs a
    GPU. The variable NVIDIA_VISIBLE_DEVICES is no evidence: CDI and Kubernetes set it to void.

    ## Fix safety
    The container must be started again with access to more devices; nothing inside it changes.
    """
    vendor = situation.expected_vendor
    if not situation.in_container or cpu_task(situation):
        return
    asked = bool(situation.usable) or not without_request(situation)  # else the job is why, not the container
    if vendor == "nvidia" and asked and _given(situation, vendor):
        yield from _without_libraries(situation)
    present = dict.fromkeys(gpu.vendor for gpu in situation.machine.gpus)
    asked_for = situation.machine.pasted is not None and bool(situation.machine.errors)
    for wanted in (vendor,) if vendor else present:
        yield from _without_nodes(situation, wanted, needed=vendor is not None or asked_for)


def _without_nodes(situation: Situation, vendor: Vendor, *, needed: bool) -> Verdicts:
    """The host has GPUs of the vendor, and the container was given no device node of theirs, or too few."""
    if _given(situation, vendor) is not False or _host_has(situation, vendor) is False:
        return
    if vendor == "nvidia" and awaits_nodes(situation.machine) and cuda_status(situation) is None:
        yield NotJudged(_AWAITED, matters=needed)
    if situation.usable:
        return
    gpus = gpu_nodes(situation) if vendor == "nvidia" else ()
    if without_request(situation) or (vendor == "nvidia" and needed and _names_gpus(situation) and not gpus):
        return
    name = VENDORS[vendor]
    framework = situation.gpu_framework
    need = f"{framework.title} is built for {name}" if framework else "a GPU is required" if needed else ""
    have = amd_nodes(situation) if vendor == "amd" and not situation.in_wsl else None
    partly = bool(gpus) or (have is not None and (have[0] is not None or have[1]))
    saw = "no GPU device nodes"
    if gpus:
        saw = f"{gpus[0].path} without /dev/nvidiactl"
    elif have is not None and partly:
        saw = "/dev/kfd without /dev/dri" if have[0] else "/dev/dri without /dev/kfd"
    group = owning_group(node for node in (have[0], *have[1]) if node) if have else None
    flags: AddContainerFlags | Manual = AddContainerFlags(vendor, group_id=group, why=need)
    if vendor == "amd" and situation.in_wsl:
        flags = Manual("Start the container with `--device /dev/dxg -v /usr/lib/wsl:/usr/lib/wsl`.")
    again = None if situation.on_jetson else started_again(situation.machine.text.container_command, vendor)
    evident = bool(_host_has(situation, vendor))
    lack = "are incomplete" if partly else "are missing"
    yield Finding(
        severity="error" if needed else "note",
        message=f"This container was started without a GPU: {need}, but the device nodes of {name} GPUs {lack}."
        if needed
        else f"This container cannot use the host's {name} GPUs: their device nodes {lack} ({saw}). "
        f"`{'--runtime nvidia' if situation.on_jetson else AS_OPTIONS[vendor]}` gives them to it.",
        saw=saw,
        want="/dev/dxg"
        if situation.in_wsl
        else "/dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0"
        if vendor == "nvidia"
        else "/dev/kfd and /dev/dri/renderD*",
        subject="container",
        confidence="certain" if evident else "likely",
        evidence=(
            Evidence.of("system.container", situation.machine.system.container),
            Evidence.of("nvidia.nodes", situation.machine.nvidia.nodes)
            if vendor == "nvidia"
            else Evidence.of("amd.kfd", situation.machine.amd.kfd),
            *(Evidence("gpu", gpu.name, gpu.source) for gpu in situation.machine.of_vendor(vendor)[:2]),
        ),
        fixes=(again or Fix("Start the container with the GPU", (flags,)),),
        supersedes=(*_EFFECTS, *(() if needed else ("no-gpu",))),
    )


def _without_libraries(situation: Situation) -> Verdicts:
    """The device nodes are here, but the driver's libraries were not mounted."""
    path = situation.machine.load_path
    if path.first("libcuda.so.1") or not path.complete.value or not path.searched or cuda_status(situation) == 0:
        return
    capabilities = situation.variable("NVIDIA_DRIVER_CAPABILITIES")
    named = capabilities is not None and not {"all", "compute"} & set(capabilities.split(","))
    flags = AddContainerFlags("utility" if named else "nvidia", why="mounts libcuda of the host's driver")
    library = beside_the_path(situation)
    start = Fix("Start the container with the driver's compute libraries", (flags,))
    yield Finding(
        severity="error",
        message=f"The loader does not look for the driver's CUDA library where it is ({library.path})."
        if library
        else "The container has the GPU's device nodes but not the driver's libraries: libcuda.so.1 is missing"
        + (f" (NVIDIA_DRIVER_CAPABILITIES={capabilities} leaves out compute)." if named else "."),
        saw=f"NVIDIA_DRIVER_CAPABILITIES={capabilities}" if named else "no libcuda.so.1 on the load path",
        want="libcuda.so.1 of the host's driver",
        subject="container",
        confidence="likely",
        evidence=(Evidence("load_path.searched", " ".join(path.searched), "load path"),),
        fixes=(put_on_path(situation, library),) if library else (start,),
        supersedes=("no-driver", "container-toolkit-missing"),
    )


def _names_gpus(situation: Situation) -> bool:
    """Whether NVIDIA_VISIBLE_DEVICES names GPUs, as people and device plugins do; images set it to "all"."""
    return (situation.variable("NVIDIA_VISIBLE_DEVICES") or "void") not in ("all", "none", "void")


@check("GPD202", "container-toolkit-missing", "access")
def container_toolkit_missing(situation: Situation) -> Verdicts:
    """The host gives containers no NVIDIA GPU: the toolkit is missing.

    ## Why it matters
    Only NVIDIA's container toolkit (or a CDI description that it made) puts GPUs and driver libraries into
    containers. Without it nothing answers a request for a GPU.

    ## How it is judged
    The container asks for certain GPUs (NVIDIA_VISIBLE_DEVICES names them, as device plugins do) but has no device
    node. The host's packages cannot be seen from inside, so the result is likely, not certain.

    ## Fix safety
    Needs root on the host and a restart of its container engine.
    """
    if (
        not situation.in_container
        or situation.framework_vendor != "nvidia"
        or cpu_task(situation)
        or not _names_gpus(situation)
    ):
        return
    if (
        _given(situation, "nvidia") is not False
        or gpu_nodes(situation)
        or situation.usable
        or _host_has(situation, "nvidia") is False
    ):
        return
    if without_request(situation):
        return
    wanted = situation.variable("NVIDIA_VISIBLE_DEVICES") or ""
    text = (
        "On the host: install nvidia-container-toolkit, then `sudo nvidia-ctk runtime configure --runtime=docker` "
        "(or containerd, crio) and restart the engine; in Kubernetes use the nvidia runtime class."
    )
    yield Finding(
        severity="error",
        message="The container asks for an NVIDIA GPU (NVIDIA_VISIBLE_DEVICES) but got none: on the host, "
        "nvidia-container-toolkit is missing or not in use.",
        saw=f"NVIDIA_VISIBLE_DEVICES={wanted}, no /dev/nvidia*",
        want="the nvidia container runtime",
        subject="container host",
        confidence="likely",
        evidence=(
            Evidence("variables.NVIDIA_VISIBLE_DEVICES", wanted, "environment"),
            Evidence.of("nvidia.nodes", situation.machine.nvidia.nodes),
        ),
        fixes=(
            by_hand("Set up nvidia-container-toolkit on the host", text, "root"),
            Fix("Start the container with the GPU", (AddContainerFlags("nvidia"),)),
        ),
        supersedes=("no-driver",),
    )


@check("GPD204", "container-libcuda-baked-in", "access")
def container_libcuda_baked_in(situation: Situation) -> Verdicts:
    """The image contains an NVIDIA driver library that is not the host's.

    ## Why it matters
    libcuda and libnvidia-ml must match the host's kernel module, so they are mounted when the container starts. A
    copy in the image that comes first on the load path and has another version fails (CUDA 803, NVML 18).

    ## How it is judged
    The first such library on the load path is not mounted, and its version is not that of the loaded module.
    cuda-compat, and a library with exactly the module's version, are not reported.

    ## Fix safety
    The image is built again without the driver packages; toolkits and frameworks do not need them. A system container
    (LXC, nspawn) keeps its own packages, in the host's version.
    """
    library = baked_in(situation)
    module = situation.machine.nvidia.module.value
    if library is None or module is None or cuda_status(situation) == 0 or _given(situation, "nvidia") is False:
        return
    build = (
        f"Build the image without {library.path}. Leave out the packages libnvidia-compute-*, nvidia-driver-*, "
        "libcuda1 (remove them in the layer that installs them). The container toolkit mounts the host's own."
    )
    install = (
        f"In the container, install the libraries in the host's version, {module.version}, without kernel modules: "
        f"`sh NVIDIA-Linux-{situation.machine.system.arch.value or 'x86_64'}-{module.version}.run "
        "--no-kernel-modules`, or the packages libnvidia-compute-* of that version. Repeat this when its driver "
        "changes."
    )
    system_container = situation.in_system_container
    install_fix = by_hand("Install the host's version in the container", install, "root")
    image = "container" if system_container else "image"
    yield Finding(
        severity="error",
        message=f"The {image} contains {library.path} ({library.version}), but the host's driver is "
        f"{module.version}: the library in the {image} comes first and does not match the driver.",
        saw=f"{library.name} {library.version} in the {image}",
        want=f"{library.name} {module.version}" + ("" if system_container else ", mounted from the host"),
        subject="container" if system_container else "container image",
        evidence=(
            Evidence("load_path", f"{library.path} {library.version}", library.via),
            *driver_answers(situation),
        ),
        fixes=(install_fix if system_container else by_hand("Build the image without driver libraries", build),),
        supersedes=("driver-lib-mismatch", "driver-too-old", "no-driver"),
    )


@check("GPD213", "shm-small", "access")
def shm_small(situation: Situation) -> Verdicts:
    """The container's /dev/shm is too small for data loaders.

    ## Why it matters
    Data-loader workers and NCCL pass tensors through /dev/shm. Container engines make it 64 MiB: workers die with
    "bus error", NCCL fails with "no space left on device".

    ## How it is judged
    The container has torch and a usable GPU, and its /dev/shm is smaller than 1 GiB.

    ## Fix safety
    The container must be started again; shared memory takes up memory only as it is used.
    """
    size = situation.machine.system.shm
    if (
        not situation.in_container
        or situation.torch is None
        or not situation.usable
        or size.value is None
        or size.value >= _SMALL
    ):
        return
    yield Finding(
        severity="warning",
        message=f"/dev/shm of this container is {size.value >> 20} MiB: data loaders and NCCL need more.",
        saw=f"{size.value >> 20} MiB",
        want="1 GiB or more",
        subject="container",
        confidence="likely",
        evidence=(Evidence.of("system.shm", size),),
        fixes=(Fix("Start the container with more shared memory", (AddContainerFlags("shm"),)),),
    )
