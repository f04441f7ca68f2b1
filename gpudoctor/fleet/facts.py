"""What is compared between nodes, as a table: each fact, how it is read, and among whom it should be the same.

What differs from node to node by its nature (addresses, UUIDs, memory in use, the GPUs that a job was given) is not
here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from gpudoctor.fleet.platform_facts import PLATFORM_FACTS
from gpudoctor.fleet.readers import (
    DRIVER,
    RUNTIME,
    ComparedFact,
    fact_text,
    gpus,
    on_gpus,
    own_interfaces,
    value_of,
    value_text,
)
from gpudoctor.machine import Gpu, Machine, PythonEnvironment
from gpudoctor.situation.gpu_reset import awaits_mig

_PER_JOB = frozenset((
    "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
    "OMPI_COMM_WORLD_SIZE", "RAY_JOB_ID", "ROCR_VISIBLE_DEVICES", "VIRTUAL_ENV", "CONDA_PREFIX",
))  # fmt: skip
"""Variables that a scheduler or a person sets for one job or one shell."""
_OF_THE_JOB = ("SLURM_", "GPUDOCTOR_")
_LOGGING = ("AMD_LOG_", "FI_LOG_", "NCCL_DEBUG", "UCX_LOG_")
_WHEELS = (
    "nvidia-", "torch", "triton", "pytorch-triton", "jax", "cupy", "onnxruntime", "tensorflow", "vllm", "sglang",
    "flash-attn", "xformers", "deepspeed", "rocm", "amd-", "transformer-engine", "apex", "bitsandbytes",
)  # fmt: skip
"""How the names of packages begin that work with GPUs."""


# --- NVIDIA ----------------------------------------------------------------------------------------

_nvidia_driver = fact_text("nvidia.module", lambda module: module.version)
_nvidia_flavour = value_text("nvidia.module", lambda module: module.flavour)
_manager, _manager_runs = (fact_text(f"nvidia.fabric.manager_{name}") for name in ("version", "running"))
_peers = on_gpus(lambda gpu: None if gpu.asked.peers is None else len(gpu.asked.peers))


def _mig(gpu: Gpu) -> str | None:
    if gpu.asked.mig is None:
        return None
    if awaits_mig(gpu):
        return "off, on after a reset" if gpu.asked.mig_pending else "on, off after a reset"
    profiles = Counter(slice.profile for slice in gpu.asked.mig_devices)
    slices = " ".join(f"{count}x{profile}" for profile, count in sorted(profiles.items()))
    return f"on {slices}".strip() if gpu.asked.mig else "off"


def _ecc(gpu: Gpu) -> str | None:
    """Whether a GPU counts uncorrectable errors or waits for a remap; the numbers differ by their nature."""
    nvml = gpu.asked
    if nvml.ecc_uncorrectable is None:
        return None
    if nvml.remap_failed:
        return "row remap failed"
    if nvml.remap_pending:
        return "row remap pending"
    return "uncorrectable errors" if nvml.ecc_uncorrectable else "no errors"


# --- AMD -------------------------------------------------------------------------------------------

_amd_firmware = on_gpus(lambda gpu: " ".join(f"{one.name} {one.version:#x}" for one in gpu.firmware) or None)
_rocm = fact_text("amd.rocm", lambda installed: " ".join(sorted(one.version for one in installed)) or "none")

# --- the system and the environment ----------------------------------------------------------------

_os = value_text("system.os", lambda own: f"{own.id} {own.version}".strip())
_shm = fact_text("system.shm", lambda size: f"{size / (1 << 20):.0f} MiB")
_python = value_text("environment", lambda environment: environment.python.value)


def _memory(size: int) -> str:
    """The size of the memory, rounded to an eighth: firmware and crash kernels take a little of it."""
    step = max(1, 1 << max(size.bit_length() - 4, 0))
    return f"about {round(size / step) * step / (1 << 30):.0f} GiB"


def _torch(environment: PythonEnvironment) -> str | None:
    return environment.torch.value.version if environment.torch.value else value_of(environment.torch)


FACTS: tuple[ComparedFact, ...] = (
    ComparedFact("gpus", "GPUs", gpus, "model", layers=("driver", "access")),
    ComparedFact("mig", "MIG mode", on_gpus(_mig), "model"),
    ComparedFact("ecc", "GPU memory errors", on_gpus(_ecc), "model", layers=DRIVER),
    ComparedFact("peers", "GPUs that each GPU reaches directly", _peers, "model"),
    ComparedFact("nvidia.driver", "NVIDIA driver", _nvidia_driver, layers=("driver", "runtime", "framework")),
    ComparedFact("nvidia.modules", "NVIDIA kernel modules", _nvidia_flavour, "model", layers=DRIVER),
    ComparedFact("nvidia.libraries", "NVIDIA driver libraries", fact_text("nvidia.userland"), layers=DRIVER),
    ComparedFact("nvidia.fabric_manager", "fabric manager", _manager, "model", layers=DRIVER),
    ComparedFact("nvidia.fabric_manager_running", "fabric manager runs", _manager_runs, "model", layers=DRIVER),
    ComparedFact("nvidia.nvswitches", "NVSwitches", fact_text("nvidia.fabric.switches"), "model", layers=DRIVER),
    ComparedFact("amd.driver", "amdgpu driver", fact_text("amd.module"), "model", layers=DRIVER),
    ComparedFact("amd.firmware", "firmware of the GPUs", _amd_firmware, "model"),
    ComparedFact("amd.rocm", "ROCm of the system", _rocm, layers=RUNTIME),
    ComparedFact("torch.version", "torch", value_text("environment", _torch), layers=("runtime", "framework")),
    ComparedFact("python", "Python", _python),
    ComparedFact("kernel", "kernel", fact_text("system.kernel"), severity="note", layers=DRIVER),
    ComparedFact("kernel.options", "kernel options", fact_text("system.kernel_options"), "model"),
    ComparedFact("os", "distribution", _os, severity="note"),
    ComparedFact("memory", "memory", value_text("system.memory", _memory), "model"),
    ComparedFact("shm", "/dev/shm", _shm, "model"),
    ComparedFact("virtual_machine", "virtual machine", fact_text("system.virtual_machine"), severity="note"),
    ComparedFact("container", "container", fact_text("system.container")),
    *PLATFORM_FACTS,
)
"""Facts that every machine has at most once; packages and variables come beside them, by name."""


def compared_values(machine: Machine) -> Iterator[tuple[ComparedFact, str]]:
    """Each known fact of a machine with its value."""
    for fact in FACTS:
        if (value := fact.read(machine)) is not None:
            yield fact, value
    yield from _packages(machine)
    yield from _variables(machine)
    yield from _mtus(machine)


def _packages(machine: Machine) -> Iterator[tuple[ComparedFact, str]]:
    """Versions of packages that work with GPUs, NCCL's among them."""
    for one in machine.packages:
        if one.name.startswith(_WHEELS) and one.name != "torch":
            yield _fact_of(f"package.{one.name}", one.name, layers=("packages", "runtime")), one.version


def _variables(machine: Machine) -> Iterator[tuple[ComparedFact, str]]:
    for name, value in machine.variables.items():
        if name.startswith(_LOGGING):  # it only makes libraries say more, and brings no problem
            yield _fact_of(f"variable.{name}", name, severity="note", own=True), value or "empty"
        elif name not in _PER_JOB and not name.startswith(_OF_THE_JOB):
            yield _fact_of(f"variable.{name}", name, layers=("runtime", "framework"), own=True), value or "empty"


def _mtus(machine: Machine) -> Iterator[tuple[ComparedFact, str]]:
    """The MTU of each network interface that is up; RDMA ports have a fact of their own. Nodes that disagree hang as
    soon as they send much."""
    ports = {port.interface for device in machine.network.rdma.value or () for port in device.ports}
    for one in own_interfaces(machine):
        if one.mtu and one.state != "down" and one.name not in ports:
            yield _fact_of(f"mtu.{one.name}", f"MTU of {one.name}", within="model"), str(one.mtu)


@cache
def _fact_of(name: str, title: str, **more: Any) -> ComparedFact:
    """The fact of one package, variable or interface: one record for all nodes."""
    return ComparedFact(name, title, lambda machine: None, **more)
