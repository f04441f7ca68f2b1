"""GPUs that a hypervisor lends in parts: NVIDIA vGPU (GPD133 to GPD136)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, by_hand
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import called, finding, group_by
from gpudoctor.situation.kernel_log import log_evidence
from gpudoctor.situation.no_kernel_driver import because
from gpudoctor.situation.nvidia_driver import cuda_status, driver_answers
from gpudoctor.situation.virtual_gpu import guest_driver, hosts_vgpus, is_vgpu, refused_in_guest, series_of


@check("GPD133", "vgpu-without-cuda", "driver")
def vgpu_without_cuda(situation: Situation) -> Verdicts:
    """The type of the vGPU does not support CUDA.

    ## Why it matters
    The last letter of a vGPU's type says what it is for. On virtual workstations (Q) and compute vGPUs (C) CUDA
    works. Virtual desktops (B) and streamed applications (A) get graphics only.

    ## How it is judged
    The check compares the GPU's name ("NVIDIA A40-2B") with NVIDIA's list of the series. Nothing is reported if CUDA
    starts. Beside another NVIDIA GPU it is a note.

    ## Fix safety
    The hypervisor's administrator gives the virtual machine another type of vGPU; nothing inside it changes.
    """
    usable = situation.usable_of("nvidia")
    series = {gpu.key: row for gpu in usable if (row := series_of(situation, gpu))}
    graphics = tuple(gpu for gpu in usable if gpu.key in series and not series[gpu.key].cuda)
    if cuda_status(situation) == 0:
        return
    alone = len(graphics) == len(usable) and situation.expected_vendor == "nvidia"
    for group in group_by(graphics, lambda gpu: gpu.name).values():
        row = series[group[0].key]
        text = (
            "Ask the hypervisor's administrator for a vGPU of the series C or Q, or for the whole GPU (pass-through)."
        )
        yield finding(
            "error" if alone else "note",
            group,
            message=f"{called(group)} is a vGPU of the series {row.series}, for {row.use}: it does not support CUDA.",
            saw=f"series {row.series}",
            want="a vGPU of the series C or Q",
            confidence="certain" if cuda_status(situation) else "likely",
            evidence=(Evidence("gpu.name", group[0].name, group[0].source), *driver_answers(situation)),
            fixes=(by_hand("Get a vGPU of the series C or Q", text),),
            refs=(row.source,),
            supersedes=("no-driver", "no-gpu"),
        )


@check("GPD134", "vgpu-guest-driver", "driver")
def vgpu_guest_driver(situation: Situation) -> Verdicts:
    """The GPU is a vGPU, and the installed driver is not the guest driver.

    ## Why it matters
    A vGPU has the PCI id of the whole GPU, but only the guest driver of NVIDIA's vGPU software works with it. Every
    other NVIDIA driver says that the GPU is not supported and does not load.

    ## How it is judged
    The kernel log says that the driver does not support the GPU, although that driver supports the GPU's chip, and
    this is a virtual machine. If nothing tells whether it is one, the cause is possible.

    ## Fix safety
    Needs root and a reboot. The guest driver replaces the present one.
    """
    for severity, gpus in because(situation, "vgpu-guest-driver"):
        lines = refused_in_guest(situation, gpus[0])
        guest = situation.machine.system.virtual_machine.known
        whole = "Ask the hypervisor's administrator to pass the whole GPU through; the present driver supports it."
        yield finding(
            severity,
            gpus,
            message=f"The installed NVIDIA driver refuses {called(gpus)} in this virtual machine, though it supports "
            "the chip: the GPU is a vGPU and needs the vGPU guest driver."
            if guest
            else f"The installed NVIDIA driver refuses {called(gpus)}, though it supports the chip. In a virtual "
            "machine the GPU is a vGPU and needs the vGPU guest driver; else it did not come up properly: "
            "power-cycle the machine.",
            saw=lines[-1].line,
            want="the vGPU guest driver",
            confidence="certain" if any(map(is_vgpu, gpus)) else "likely" if guest else "possible",
            evidence=(
                Evidence.of("system.virtual_machine", situation.machine.system.virtual_machine),
                *log_evidence(situation, lines),
            ),
            fixes=(guest_driver(), by_hand("Get the whole GPU by pass-through", whole)),
            refs=("NVIDIA/gpu-operator#1371", "flatcar/Flatcar#1283"),
            supersedes=("no-driver",),
        )


@check("GPD135", "vgpu-host-driver", "driver")
def vgpu_host_driver(situation: Situation) -> Verdicts:
    """This machine lends its GPUs as vGPUs: its driver has no CUDA.

    ## Why it matters
    The vGPU manager for KVM is a driver without libcuda: nvidia-smi works, CUDA programs find no driver. CUDA
    libraries of the ordinary driver do not fit it.

    ## How it is judged
    NVML calls the GPUs vGPU hosts, or the module nvidia_vgpu_vfio is loaded, and there is no libcuda of a driver.

    ## Fix safety
    Computing in a virtual machine changes nothing here. The ordinary driver ends the lending of vGPUs.
    """
    machine, path = situation.machine, situation.machine.load_path
    if not hosts_vgpus(situation) or situation.in_container or situation.expected_vendor != "nvidia":
        return
    if path.first("libcuda.so.1") or not path.searched or cuda_status(situation) == 0:
        return
    yield Finding(
        severity="error",
        message="The NVIDIA driver of this machine is the vGPU manager, which lends the GPUs to virtual machines: it "
        "has no CUDA.",
        saw="a vGPU host without libcuda.so.1",
        want="a driver with libcuda.so.1",
        subject="NVIDIA driver",
        confidence="likely",
        evidence=(
            Evidence.of("nvidia.module", machine.nvidia.module),
            Evidence.of("nvidia.modules_loaded", machine.nvidia.modules_loaded),
        ),
        fixes=(
            by_hand("Compute in a virtual machine", "Run torch in a virtual machine that gets a vGPU."),
            by_hand(
                "Install the ordinary driver",
                "Install NVIDIA's ordinary driver. This machine then lends no vGPUs.",
                "reboot",
            ),
        ),
        refs=("DualCoder/vgpu_unlock#51",),
        supersedes=("no-driver",),
    )


@check("GPD136", "vgpu-unlicensed", "driver")
def vgpu_unlicensed(situation: Situation) -> Verdicts:
    """The vGPU has no software licence.

    ## Why it matters
    A vGPU starts with full speed. Without a licence it becomes slower after some minutes, and later it limits what
    programs may allocate, so that some fail.

    ## How it is judged
    At level driver: NVML (or nvidia-smi) calls the GPU a vGPU, and says that its licensed product is not licensed.

    ## Fix safety
    A licence changes no program and no file of the environment.
    """
    gpus = tuple(gpu for gpu in situation.usable_of("nvidia") if gpu.asked.licensed is False)
    for group in group_by((gpu for gpu in gpus if is_vgpu(gpu)), lambda gpu: gpu.name).values():
        text = (
            "Give this machine its licence: put the client token into /etc/nvidia/ClientConfigToken (or the licence "
            "server into /etc/nvidia/gridd.conf), then `sudo systemctl restart nvidia-gridd`. `nvidia-smi -q | grep "
            "-i license` must say Licensed; otherwise `journalctl -u nvidia-gridd` says why not."
        )
        yield finding(
            "warning",
            group,
            message=f"{called(group)} is a vGPU without a licence: it becomes slow after some minutes.",
            saw="not licensed",
            want="a licence of NVIDIA's vGPU software",
            evidence=(Evidence("nvml.licensed", "false", "NVML"),),
            fixes=(by_hand("Get a licence for the vGPU", text, "root"),),
            refs=("NVIDIA vGPU software: client licensing user guide",),
        )
