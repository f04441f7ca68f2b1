"""What is compared between nodes, as a table: each fact, how it is read, and among whom it should be the same.

A value is a short text; None is unknown and compared with nothing. What differs from node to node by its nature
(addresses, UUIDs, memory in use, the GPUs that a job was given) is not here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from gpudoctor.finding import Layer, Severity
from gpudoctor.machine import Fact, Gpu, Interface, Machine

Within = Literal["role", "model"]
"""role: all nodes of one role with GPUs of one vendor; model: those with the same GPU model, platform and role."""
Read = Callable[[Machine], str | None]

_PER_JOB = frozenset((
    "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
    "OMPI_COMM_WORLD_SIZE", "RAY_JOB_ID", "ROCR_VISIBLE_DEVICES", "VIRTUAL_ENV", "CONDA_PREFIX",
))  # fmt: skip
"""Variables that a scheduler or a person sets for one job or one shell."""
_OF_THE_JOB = ("SLURM_", "GPUDOCTOR_")
_OF_CONTAINERS = r"(lo|veth|cali|docker|br-|virbr|lxc|tap|vnet|cni|flannel|tunl|nodelocaldns|kube-|ifb|dummy)"
_LOGGING = ("AMD_LOG_", "FI_LOG_", "NCCL_DEBUG", "UCX_LOG_")
_WHEELS = (
    "nvidia-", "torch", "triton", "pytorch-triton", "jax", "cupy", "onnxruntime", "tensorflow", "vllm", "sglang",
    "flash-attn", "xformers", "deepspeed", "rocm", "amd-", "transformer-engine", "apex", "bitsandbytes",
)  # fmt: skip
"""How the names of packages begin that work with GPUs."""


class ComparedFact(Struct, frozen=True):
    """One fact: `severity` is that of a difference that breaks no rule; `layers` are those of the problems that it
    brings where it breaks one."""

    name: str
    title: str
    read: Read
    within: Within = "role"
    severity: Severity = "warning"
    layers: tuple[Layer, ...] = ()
    own: bool = False
    """Whether each node may have a value of its own: a path with the number of a job, say."""


def main_model(machine: Machine) -> str:
    """The GPU model of which the node has most; "" for none."""
    models = Counter(gpu.name for gpu in computing(machine))
    return models.most_common(1)[0][0] if models else ""


def gpus(machine: Machine) -> str | None:
    """ "8 x NVIDIA H100 80GB HBM3"; None if the bus could not be read."""
    own = computing(machine)
    if not own:
        return "no GPU" if machine.buses.known else None
    models = Counter(gpu.name for gpu in own)
    return ", ".join(f"{count} x {name}" for name, count in sorted(models.items(), key=lambda row: (-row[1], row[0])))


def computing(machine: Machine) -> tuple[Gpu, ...]:
    """The GPUs that compute; a server's display chip is another thing."""
    apart = tuple(gpu for gpu in machine.gpus if not gpu.integrated)
    return apart or machine.gpus


def without_container(interface: str) -> str:
    """The name of a network interface; of one that containers bring and take, only the kind."""
    found = re.match(_OF_CONTAINERS, interface)
    return found[0] if found else interface


def own_interfaces(machine: Machine) -> Iterator[Interface]:
    """The network interfaces of the node, without those that containers bring and take."""
    for one in machine.network.interfaces.value or ():
        if not re.match(_OF_CONTAINERS, one.name):
            yield one


def value_of(fact: Fact[Any]) -> str | None:
    """A fact as a text; "none" for what is known not to exist."""
    if fact.absent:
        return "none"
    if fact.value is None:
        return None
    if isinstance(fact.value, bool):
        return "yes" if fact.value else "no"
    if isinstance(fact.value, tuple):
        return " ".join(map(str, fact.value)) or "none"
    return str(fact.value)


def each_gpu(machine: Machine, read: Callable[[Gpu], object]) -> str | None:
    """The values of a node's GPUs: one if all are equal, else each with its count; None if no GPU has one."""
    found = [value for gpu in computing(machine) if (value := read(gpu)) is not None]
    return in_all(found, "GPU")


def in_all(values: Iterable[object], of: str) -> str | None:
    """The value of all of them, else each with its count: "18 up (7 GPUs), 17 up (1 GPU)"; None without values."""
    rows = sorted(Counter(map(str, values)).items(), key=lambda row: (-row[1], row[0]))
    if len(rows) <= 1:
        return rows[0][0] if rows else None
    return ", ".join(f"{value} ({count} {of}{'s' * (count != 1)})" for value, count in rows)


# --- NVIDIA ----------------------------------------------------------------------------------------


def _nvidia_driver(machine: Machine) -> str | None:
    module = machine.nvidia.module
    return module.value.version if module.value else value_of(module)


def _nvidia_flavour(machine: Machine) -> str | None:
    return machine.nvidia.module.value.flavour if machine.nvidia.module.value else None


def _mig(machine: Machine) -> str | None:
    def mode(gpu: Gpu) -> str | None:
        if gpu.nvml is None or gpu.nvml.mig is None:
            return None
        profiles = Counter(slice.profile for slice in gpu.nvml.mig_devices)
        slices = " ".join(f"{count}x{profile}" for profile, count in sorted(profiles.items()))
        return f"on {slices}".strip() if gpu.nvml.mig else "off"

    return each_gpu(machine, mode)


def _ecc(machine: Machine) -> str | None:
    """Whether a GPU counts uncorrectable errors or waits for a remap; the numbers differ by their nature."""

    def state(gpu: Gpu) -> str | None:
        nvml = gpu.nvml
        if nvml is None or nvml.ecc_uncorrectable is None:
            return None
        if nvml.remap_failed:
            return "row remap failed"
        if nvml.remap_pending:
            return "row remap pending"
        return "uncorrectable errors" if nvml.ecc_uncorrectable else "no errors"

    return each_gpu(machine, state)


def _peers(machine: Machine) -> str | None:
    return each_gpu(machine, lambda gpu: None if gpu.nvml is None or gpu.nvml.peers is None else len(gpu.nvml.peers))


# --- AMD -------------------------------------------------------------------------------------------


def _amd_firmware(machine: Machine) -> str | None:
    def versions(gpu: Gpu) -> str | None:
        return " ".join(f"{one.name} {one.version:#x}" for one in gpu.firmware) or None

    return each_gpu(machine, versions)


def _rocm(machine: Machine) -> str | None:
    rocm = machine.amd.rocm
    return value_of(rocm) if rocm.value is None else " ".join(sorted(one.version for one in rocm.value)) or "none"


# --- the system and the environment ----------------------------------------------------------------


def _os(machine: Machine) -> str | None:
    own = machine.system.os.value
    return f"{own.id} {own.version}".strip() if own else None


def _memory(machine: Machine) -> str | None:
    """The size of the memory, rounded to an eighth: firmware and crash kernels take a little of it."""
    size = machine.system.memory.value
    if size is None:
        return None
    step = max(1, 1 << max(size.bit_length() - 4, 0))
    return f"about {round(size / step) * step / (1 << 30):.0f} GiB"


def _shm(machine: Machine) -> str | None:
    size = machine.system.shm.value
    return value_of(machine.system.shm) if size is None else f"{size / (1 << 20):.0f} MiB"


def _torch(machine: Machine) -> str | None:
    environment = machine.environment.value
    if environment is None:
        return None
    return environment.torch.value.version if environment.torch.value else value_of(environment.torch)


def _python(machine: Machine) -> str | None:
    return machine.environment.value.python.value if machine.environment.value else None


FACTS: tuple[ComparedFact, ...] = (
    ComparedFact("gpus", "GPUs", gpus, "model", layers=("driver", "access")),
    ComparedFact("mig", "MIG mode", _mig, "model"),
    ComparedFact("ecc", "GPU memory errors", _ecc, "model", layers=("driver",)),
    ComparedFact("peers", "GPUs that each GPU reaches directly", _peers, "model"),
    ComparedFact("nvidia.driver", "NVIDIA driver", _nvidia_driver, layers=("driver", "runtime", "framework")),
    ComparedFact("nvidia.modules", "NVIDIA kernel modules", _nvidia_flavour, "model", layers=("driver",)),
    ComparedFact(
        "nvidia.libraries", "NVIDIA driver libraries", lambda m: value_of(m.nvidia.userland), layers=("driver",)
    ),
    ComparedFact(
        "nvidia.fabric_manager",
        "fabric manager",
        lambda m: value_of(m.nvidia.fabric.manager_version),
        "model",
        layers=("driver",),
    ),
    ComparedFact(
        "nvidia.fabric_manager_running",
        "fabric manager runs",
        lambda m: value_of(m.nvidia.fabric.manager_running),
        "model",
        layers=("driver",),
    ),
    ComparedFact(
        "nvidia.nvswitches", "NVSwitches", lambda m: value_of(m.nvidia.fabric.switches), "model", layers=("driver",)
    ),
    ComparedFact("amd.driver", "amdgpu driver", lambda m: value_of(m.amd.module), "model", layers=("driver",)),
    ComparedFact("amd.firmware", "firmware of the GPUs", _amd_firmware, "model"),
    ComparedFact("amd.rocm", "ROCm of the system", _rocm, layers=("runtime",)),
    ComparedFact("torch.version", "torch", _torch, layers=("runtime", "framework")),
    ComparedFact("python", "Python", _python),
    ComparedFact("kernel", "kernel", lambda m: value_of(m.system.kernel), severity="note", layers=("driver",)),
    ComparedFact("kernel.options", "kernel options", lambda m: value_of(m.system.kernel_options), "model"),
    ComparedFact("os", "distribution", _os, severity="note"),
    ComparedFact("memory", "memory", _memory, "model"),
    ComparedFact("shm", "/dev/shm", _shm, "model"),
    ComparedFact("virtual_machine", "virtual machine", lambda m: value_of(m.system.virtual_machine), severity="note"),
    ComparedFact("container", "container", lambda m: value_of(m.system.container)),
)
"""Facts that every machine has at most once; packages and variables come beside them, by name."""


@cache
def table() -> tuple[ComparedFact, ...]:
    """These, and the rows of `platform_facts`, which takes its types from here."""
    from gpudoctor.fleet.platform_facts import PLATFORM_FACTS

    return (*FACTS, *PLATFORM_FACTS)


def compared(machine: Machine) -> Iterator[tuple[ComparedFact, str]]:
    """Each known fact of a machine with its value."""
    for fact in table():
        if (value := fact.read(machine)) is not None:
            yield fact, value
    yield from _packages(machine)
    yield from _variables(machine)
    yield from _mtus(machine)


def _packages(machine: Machine) -> Iterator[tuple[ComparedFact, str]]:
    """Versions of packages that work with GPUs, NCCL's among them."""
    listed = machine.environment.value.distributions.value if machine.environment.value else None
    for one in listed or ():
        if one.name.startswith(_WHEELS) and one.name != "torch":
            yield _named(f"package.{one.name}", one.name, layers=("packages", "runtime")), one.version


def _variables(machine: Machine) -> Iterator[tuple[ComparedFact, str]]:
    for name, value in machine.variables.items():
        if name not in _PER_JOB and not name.startswith(_OF_THE_JOB):
            yield _variable(name), value or "empty"


def _variable(name: str) -> ComparedFact:
    """A variable that only makes libraries say more brings no problem."""
    if name.startswith(_LOGGING):
        return _named(f"variable.{name}", name, severity="note", own=True)
    return _named(f"variable.{name}", name, layers=("runtime", "framework"), own=True)


def _mtus(machine: Machine) -> Iterator[tuple[ComparedFact, str]]:
    """The MTU of each network interface that is up; RDMA ports have a fact of their own. Nodes that disagree hang as
    soon as they send much."""
    ports = {port.interface for device in machine.network.rdma.value or () for port in device.ports}
    for one in own_interfaces(machine):
        if one.mtu and one.state != "down" and one.name not in ports:
            yield _named(f"mtu.{one.name}", f"MTU of {one.name}", within="model"), str(one.mtu)


@cache
def _named(name: str, title: str, **more: Any) -> ComparedFact:
    """The fact of one package, variable or interface: one record for all nodes."""
    return ComparedFact(name, title, lambda machine: None, **more)
