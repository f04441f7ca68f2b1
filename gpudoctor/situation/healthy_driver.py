"""A machine as it is with a healthy kernel driver: one that a person describes, or one that a fix installs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.machine import (
    AmdStack,
    DeviceNode,
    Gpu,
    KfdNode,
    Library,
    LoadPath,
    Machine,
    NvidiaApi,
    NvidiaModule,
    NvidiaStack,
    known,
)

if TYPE_CHECKING:
    from gpudoctor.finding import ModuleFlavour
    from gpudoctor.matrix.questions import Matrix

_LIBRARIES, _WSL_LIBRARIES = "/usr/lib", "/usr/lib/wsl/lib"
_STEMS = ("libcuda", "libnvidia-ml")


def nvidia_stack(
    machine: Machine, version: str, flavour: ModuleFlavour | None, matrix: Matrix, source: str
) -> NvidiaStack:
    """The stack of a driver that is loaded and opens its nodes. Under WSL it is that of Windows."""
    if machine.system.wsl.known:  # only the driver itself tells its version
        answer = NvidiaApi(status=0, driver_version=version, cuda_version=matrix.nvidia.cuda_served(version))
        nodes = known((DeviceNode(path="/dev/dxg", opened="ok"),), source)
        return replace(machine.nvidia, nvml=known(answer, source), nodes=nodes)
    gpus = machine.of_vendor("nvidia")
    paths = ("/dev/nvidiactl", "/dev/nvidia-uvm", *(node for gpu in gpus for node in gpu.nodes))
    return NvidiaStack(
        module=known(NvidiaModule(version=version, flavour=flavour), source),
        modules_loaded=known(("nvidia", "nvidia_uvm"), source),
        userland=known(version, source),
        nodes=known(tuple(DeviceNode(path=path, opened="ok") for path in paths), source),
        proc_gpus=known(tuple(gpu.bdf for gpu in gpus if gpu.bdf), source),
    )


def driver_libraries(machine: Machine, version: str, source: str) -> LoadPath:
    """The load path with the libraries of that driver, and no others."""
    wsl = machine.system.wsl.known
    folder = _WSL_LIBRARIES if wsl else _LIBRARIES
    libraries = tuple(
        Library(
            name=f"{stem}.so.1",
            path=f"{folder}/{stem}.so.1" if wsl else f"{folder}/{stem}.so.{version}",
            version=None if wsl else version,
            kind="wsl" if wsl else "driver",
            via="default",
            mounted=True if machine.system.container.known else None,
        )
        for stem in _STEMS
    )
    return LoadPath(found=libraries, searched=(folder,), complete=known(True, source))


def amd_stack(gpus: tuple[Gpu, ...], module: str, source: str) -> AmdStack:
    """The stack of an amdgpu that is loaded and opens its nodes."""
    nodes = tuple(DeviceNode(path=node, opened="ok") for gpu in gpus for node in gpu.nodes)
    topology = tuple(KfdNode(node=gpu.kfd_node or 0, gfx=gpu.arch.value, bdf=gpu.bdf, simd_count=1) for gpu in gpus)
    return AmdStack(
        module=known(module, source),
        modules_loaded=known(("amdgpu",), source),
        kfd=known(DeviceNode(path="/dev/kfd", opened="ok"), source),
        render_nodes=known(nodes, source),
        topology=known((KfdNode(node=0), *topology), source),
        rocm=known((), source),
    )
