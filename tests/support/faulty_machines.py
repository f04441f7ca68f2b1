"""One small machine for each fault that a check can find, by its slug.

MACHINES["driver-too-old"]      a machine of which GPD301 has something to say
"""

from __future__ import annotations

from typing import Any

from gpudoctor.machine import (
    AmdStack,
    BatchJob,
    BlockedModule,
    Board,
    CdiSpec,
    CodeArchs,
    DamagedFile,
    DeviceNode,
    Distribution,
    DkmsModule,
    Extension,
    Fabric,
    FrameworkFiles,
    Frameworks,
    ImportTrial,
    InstalledModule,
    InterruptedInstall,
    Library,
    LoadPath,
    Machine,
    MigDevice,
    MissingLibrary,
    MissingSymbols,
    ModuleImport,
    NvidiaApi,
    NvmlDevice,
    Program,
    ProgramBackend,
    ShadowingModule,
    Smoke,
    SmokeDevice,
    SmokeKernel,
    StartFault,
    SuspectFile,
    TorchCopy,
    User,
    absent,
    denied,
    known,
    unknown,
)
from tests.support.check_cases import log
from tests.support.machines import (
    LIB,
    amd_gpu,
    amd_machine,
    change,
    no_gpu_machine,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_stack,
    with_system,
    with_torch,
)
from tests.support.networks import infiniband, roce, with_limit, with_network

RUNNING, BEFORE = "6.8.0-60-generic", "6.8.0-59-generic"
SITE = "/venv/lib/python3.12/site-packages"
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"

RTX_5090 = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", chip="GB202")
GTX_1080 = nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61")
H100 = nvidia_gpu("NVIDIA H100 80GB HBM3", "sm_90", datacenter=True)
A100 = "NVIDIA A100-SXM4-80GB", "sm_80"
RX_6700_XT = amd_gpu("AMD Radeon RX 6700 XT", "gfx1031")
STRIX = amd_gpu("AMD Radeon 8060S", "gfx1151", integrated=True)


def _api(status: int, *devices: NvmlDevice) -> Any:
    return known(NvidiaApi(status=status, devices=devices), "the driver")


def _nodes(*paths: str, opened: Any = "ok", mode: int = 0o666, gid: int = 0) -> Any:
    return known(tuple(DeviceNode(path=path, opened=opened, mode=mode, uid=0, gid=gid) for path in paths), "/dev")


def _module(kernel: str = RUNNING, version: str = "580.95.05") -> InstalledModule:
    path = f"/lib/modules/{kernel}/updates/dkms/nvidia.ko"
    return InstalledModule(name="nvidia", kernel=kernel, path=path, version=version, flavour="open")


def _unbound(*modules: InstalledModule, gpu: Any = None, **parts: Any) -> Machine:
    """An NVIDIA GPU that no kernel driver has."""
    nothing: dict[str, Any] = {
        "module": absent("/proc/modules"),
        "modules_loaded": known((), "/proc/modules"),
        "modules_installed": known(modules, "/lib/modules"),
        "userland": absent("the load path"),
        "nodes": known((), "/dev"),
        "proc_gpus": absent("/proc/driver/nvidia/gpus"),
    }
    return with_stack(nvidia_machine(gpu or nvidia_gpu(driver=absent("driver"))), **{**nothing, **parts})


def _amd_unbound(gpu: Any = None, **parts: Any) -> Machine:
    nothing: dict[str, Any] = {
        "module": absent("/sys/module/amdgpu"),
        "modules_loaded": known((), "/proc/modules"),
        "kfd": absent("/dev/kfd"),
        "render_nodes": known((), "/dev/dri"),
        "topology": absent("/sys/class/kfd"),
    }
    gpu = gpu or amd_gpu(driver=absent("driver"), kfd_node=None)
    return with_stack(amd_machine(gpu), **{**nothing, **parts})


def _loads(machine: Machine, folder: str, kind: Any) -> Machine:
    """Another libcuda before the driver's own."""
    library = Library("libcuda.so.1", f"{folder}/libcuda.so.1", None, kind, "LD_LIBRARY_PATH")
    path = change(machine.load_path, found=(library, *machine.load_path.found))
    return change(machine, load_path=path, variables={"LD_LIBRARY_PATH": folder})


def _pinned(requirement: str, packages: dict[str, str]) -> Machine:
    """torch says which version of a package it needs, and others are there."""
    machine = nvidia_machine(torch=torch("2.9.1", cuda="12.8", build="cu128"), packages=packages)
    listed = machine.environment.value.distributions  # type: ignore[union-attr]
    own = tuple(change(d, requires=(requirement,)) if d.name == "torch" else d for d in listed.value or ())
    return with_environment(machine, distributions=known(own, listed.source))


def _requires(name: str, version: str, *requires: str) -> Machine:
    machine = nvidia_machine(packages={name: version})
    listed = machine.environment.value.distributions  # type: ignore[union-attr]
    own = tuple(change(d, requires=requires) if d.name == name else d for d in listed.value or ())
    return with_environment(machine, distributions=known(own, listed.source))


def _wsl(*libraries: Library, version: str = "2.9.1+cu128", dxg: bool = True, **variables: str) -> Machine:
    nodes = _nodes("/dev/dxg") if dxg else known((), "/dev")
    stack = with_stack(nvidia_machine(torch=torch(version)), module=absent("/proc"), userland=absent(""), nodes=nodes)
    load_path = LoadPath(libraries, (LIB,), known(True, "ld.so.cache"))
    machine = change(stack, gpus=(), amd=AmdStack(), load_path=load_path, variables=variables)
    return with_system(machine, wsl=known("5.15.153.1-microsoft-standard-WSL2", "uname"))


def _ran(machine: Machine, **result: Any) -> Machine:
    """A kernel of the smoke test, the matmul unless named, ended like this."""
    gpu = machine.gpus[0]
    kernel = SmokeKernel(**{"name": "matmul", "device": "cuda:0", "dtype": "float32", **result})
    device = SmokeDevice(name="cuda:0", product=gpu.name, bdf=gpu.bdf)
    return change(machine, smoke=Smoke(level="quick", devices=(device,), kernels=(kernel,)))


def _linked(*up: int) -> Machine:
    """Eight-link GPUs of one model, each with so many NVLinks up."""
    devices = (NvmlDevice(index=place, board=Board(links=18, links_up=count)) for place, count in enumerate(up))
    gpus = (change(H100, index=device.index, bdf=f"0000:0{device.index}:00.0", nvml=device) for device in devices)
    return nvidia_machine(*gpus)


def _beside_torch(packages: dict[str, str], **parts: Any) -> Machine:
    """Frameworks without torch."""
    return nvidia_machine(torch=None, packages=packages, **parts)


def _computed(**facts: Any) -> Smoke:
    """JAX multiplied matrices on the CPU."""
    kernel = SmokeKernel("matmul", "cpu", "float32")
    return Smoke(**{"level": "quick", "framework": "jax", "kernels": (kernel,), **facts})


_JAX_CPU = {"jax": "0.12.0.1", "jaxlib": "0.12.0.1"}
_JAX = {**_JAX_CPU, "jax-cuda12-plugin": "0.12.0.1", "jax-cuda12-pjrt": "0.12.0.1"}
_DOCKER = nvidia_machine(container="docker")
_LINUX_LIBCUDA = Library("libcuda.so.1", f"{LIB}/libcuda.so.535.183.01", "535.183.01", "driver", "ld.so.cache")
_WSL_LIBCUDA = Library("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", None, "wsl", "ld.so.cache")
_WSL_COPY = Library("libcuda.so", "/usr/lib/wsl/lib/libcuda.so", None, "wsl", "ld.so.cache")
_BAKED = Library("libcuda.so.1", f"{LIB}/libcuda.so.550.54.15", "550.54.15", "driver", "ld.so.cache", False)

MACHINES: dict[str, Machine] = {
    "no-gpu": no_gpu_machine(torch=torch()),
    "error-seen": change(nvidia_machine(), errors=("RuntimeError: CUDA error: operation not supported",)),
    "nvml-not-answering": change(
        with_stack(nvidia_machine(), nvml=unknown("nvmlInit: crashed (SIGSEGV)", "libnvidia-ml.so.1"), cuda=_api(0)),
        level="driver",
    ),
    "gpu-reset-needed": nvidia_machine(
        **log(
            "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
        )  # type: ignore[arg-type]
    ),
    "nvlink-error": nvidia_machine(
        **log("NVRM: Xid (PCI:0000:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000)")  # type: ignore[arg-type]
    ),
    "nvlink-down": _linked(18, 18, 18, 17),
    "pcie-acs-redirects": with_system(
        nvidia_machine(nvidia_gpu(), nvidia_gpu(index=1, bdf="0000:02:00.0")),
        acs=known(("0000:00:01.0",), "/sys/bus/pci/devices"),
    ),
    "rdma-port-down": with_network(nvidia_machine(H100), infiniband(state="INIT")),
    "rdma-mtu-differs": with_network(
        nvidia_machine(H100, variables={"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}),
        *(roce("mlx5_0"), roce("mlx5_1")),
        interfaces={"eth0": 1500, "eth_mlx5_0": 9000, "eth_mlx5_1": 1500},
    ),
    "rdma-memlock-small": with_limit(with_network(nvidia_machine(H100), infiniband()), 8 << 20),
    "nccl-interface-missing": with_network(nvidia_machine(H100, variables={"NCCL_SOCKET_IFNAME": "ens"})),
    "nccl-rdma-device-missing": with_network(
        nvidia_machine(H100, variables={"NCCL_IB_HCA": "=mlx5_7"}), infiniband()
    ),
    "nccl-gid-index-wrong": with_network(nvidia_machine(H100, variables={"NCCL_IB_GID_INDEX": "5"}), roce()),
    "gpudirect-unavailable": with_stack(
        with_network(
            nvidia_machine(H100, flavour="proprietary", variables={"NCCL_NET_GDR_LEVEL": "PHB"}), infiniband()
        ),
        gpudirect_modules=known((), "/proc/modules"),
    ),
    "amd-gpu-hang": amd_machine(
        **log("amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=3, emitted seq=5")  # type: ignore[arg-type]
    ),
    "system-memory-error": nvidia_machine(
        **log("Memory failure: 0x4c3a21: Sending SIGBUS to python3:41822 due to hardware memory corruption")  # type: ignore[arg-type]
    ),
    "kernel-lockdown": with_system(_unbound(_module()), lockdown=known("integrity", "/sys/kernel/security/lockdown")),
    "gpu-off-bus": nvidia_machine(nvidia_gpu(off_bus=True)),
    "gpu-ecc": nvidia_machine(nvidia_gpu(*A100, nvml=NvmlDevice(index=0, ecc_uncorrectable=2))),
    "driver-init-failed-bios": nvidia_machine(
        **log("NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)")  # type: ignore[arg-type]
    ),
    "driver-init-failed-hw": nvidia_machine(
        **log("NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x65:1792)")  # type: ignore[arg-type]
    ),
    "nvidia-firmware-missing": with_stack(
        nvidia_machine(
            **log("nvidia 0000:01:00.0: Direct firmware load for nvidia/580.95.05/gsp_ga10x.bin failed with error -2")  # type: ignore[arg-type]
        ),
        nvml=_api(0),
    ),
    "amd-pcie-atomics": amd_machine(
        amd_gpu("AMD Radeon RX 580", "gfx803", pci_id="1002:67df", kfd_node=None),
        **log("kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0"),  # type: ignore[arg-type]
    ),
    "nouveau-conflict": _unbound(gpu=nvidia_gpu(driver=known("nouveau", "driver"))),
    "module-blacklisted": _unbound(
        _module(), blocked=known((BlockedModule("nvidia", "blacklist nvidia", "/etc/modprobe.d/no.conf"),), "/etc")
    ),
    "secure-boot-module-rejected": with_system(_unbound(_module()), secure_boot=known(True, "efivars")),
    "nvidia-dkms-kernel-mismatch": _unbound(_module(BEFORE)),
    "amd-dkms-kernel-mismatch": _amd_unbound(
        dkms=known((DkmsModule("amdgpu", "6.12.12", BEFORE, "installed", "dkms"),), "/var/lib/dkms")
    ),
    "amd-kernel-or-runtime-too-old": with_system(
        _amd_unbound(amd_gpu("AMD Radeon RX 9070 XT", "gfx1201", driver=absent("driver"), kfd_node=None)),
        kernel=known("6.5.0-45-generic", "uname"),
    ),
    "amd-firmware-regression": with_stack(amd_machine(STRIX), firmware_package=known("20251125-1", "dpkg")),
    "no-driver": _unbound(),
    "wsl-driver": _wsl(_LINUX_LIBCUDA, _WSL_LIBCUDA),
    "rocm-wsl-unsupported": change(
        _wsl(version="2.12.0+rocm7.2", HSA_ENABLE_DXG_DETECTION="1"),
        gpus=(change(RX_6700_XT, bdf=None, kfd_node=None),),
    ),
    "driver-installed-no-reboot": with_stack(
        nvidia_machine(driver="575.64.03"),
        userland=known("580.95.05", LIB),
        modules_installed=known((_module(),), "/lib/modules"),
    ),
    "driver-lib-mismatch": with_stack(
        nvidia_machine(driver="575.64.03"),
        userland=known("580.95.05", LIB),
        modules_installed=known((_module(version="575.64.03"),), "/lib/modules"),
    ),
    "nvidia-driver-dropped-gpu": nvidia_machine(GTX_1080, driver="590.48.01", flavour="proprietary"),
    "blackwell-open-module": nvidia_machine(RTX_5090, driver="570.144", flavour="proprietary"),
    "open-module-unsupported-gpu": nvidia_machine(GTX_1080),
    "fabric-manager-not-running": with_stack(
        nvidia_machine(H100), fabric=Fabric(switches=known(4, "pci"), manager_version=absent("/usr/bin"))
    ),
    "vgpu-without-cuda": nvidia_machine(nvidia_gpu("NVIDIA A40-2B", "sm_86")),
    "vgpu-guest-driver": with_system(
        with_stack(
            change(
                nvidia_machine(
                    nvidia_gpu("NVIDIA L40S", "sm_89", driver=absent("/sys/bus/pci")),
                    **log(
                        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:26b9) installed in this system is not "
                        "supported by the NVIDIA 570.86.15 driver release."
                    ),
                ),
                load_path=LoadPath(),
            ),
            module=absent("/proc/driver/nvidia"),
            userland=absent("/usr/lib"),
            modules_loaded=known((), "/proc/modules"),
        ),
        virtual_machine=known("kvm", "/sys/class/dmi/id"),
    ),
    "vgpu-host-driver": with_stack(
        change(nvidia_machine(), load_path=LoadPath(searched=(LIB,), complete=known(True, "ld.so.cache"))),
        modules_loaded=known(("nvidia", "nvidia_vgpu_vfio"), "/proc/modules"),
    ),
    "vgpu-unlicensed": nvidia_machine(
        nvidia_gpu("NVIDIA A40-48C", "sm_86", nvml=NvmlDevice(index=0, virtualization="vgpu", licensed=False))
    ),
    "cdi-spec-stale": with_stack(
        nvidia_machine(), cdi=known((CdiSpec(path="/etc/cdi/nvidia.yaml", versions=("550.54.14",)),), "/etc/cdi")
    ),
    "cuda-init-hmm-kaslr": with_stack(nvidia_machine(), cuda=_api(802)),
    "nvidia-uvm-after-suspend": with_system(
        with_stack(nvidia_machine(), cuda=_api(999), nvml=_api(0)), suspends=known(2, "/sys/power")
    ),
    "container-no-gpu": with_stack(_DOCKER, nodes=known((), "/dev")),
    "container-toolkit-missing": with_stack(
        nvidia_machine(container="kubernetes", variables={"NVIDIA_VISIBLE_DEVICES": "GPU-1f2e3d4c"}),
        nodes=known((), "/dev"),
    ),
    "container-cgroup-revoked": with_stack(
        _DOCKER, nodes=_nodes("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", opened="EPERM")
    ),
    "container-libcuda-baked-in": with_stack(
        change(_DOCKER, load_path=LoadPath((_BAKED,), (LIB,), known(True, "ld.so.cache"))),
        userland=known("550.54.15", _BAKED.path),
    ),
    "job-without-gpu": with_system(
        with_stack(nvidia_machine(), nodes=_nodes("/dev/nvidiactl", opened="EPERM")),
        job=known(BatchJob(kind="slurm", gpus=0), "SLURM_JOB_ID"),
    ),
    "gpu-device-permission": with_system(
        with_stack(nvidia_machine(), nodes=_nodes("/dev/nvidiactl", opened="EACCES", mode=0o660, gid=44)),
        user=User(uid=1000, gids=(1000,)),
    ),
    "amd-device-permission": with_system(
        with_stack(amd_machine(), render_nodes=_nodes("/dev/dri/renderD128", opened="EACCES", mode=0o660, gid=992)),
        user=User(uid=1000, gids=(1000,)),
    ),
    "amd-kfd-missing": with_stack(amd_machine(), kfd=absent("/dev/kfd")),
    "nvidia-uvm-missing": with_stack(_DOCKER, nodes=_nodes("/dev/nvidiactl", "/dev/nvidia0")),
    "cuda-visible-devices": nvidia_machine(variables={"CUDA_VISIBLE_DEVICES": "2"}),
    "mig-confusion": nvidia_machine(
        nvidia_gpu(
            *A100, nvml=NvmlDevice(index=0, mig=True, mig_devices=(MigDevice(profile="1g.10gb", uuid="MIG-aaaa"),))
        ),
        variables={"CUDA_VISIBLE_DEVICES": "MIG-cccc"},
    ),
    "torch-wheel-missing": nvidia_machine(torch=torch("2.8.0+cu128", source="description"), python="3.14"),
    "triton-overwritten": _pinned("triton==3.5.1", {"triton": "3.5.1", "pytorch-triton-rocm": "3.5.1"}),
    "amdsmi-mismatch": with_environment(
        amd_machine(packages={"amdsmi": "7.0.2"}),
        missing_symbols=(
            MissingSymbols(
                library="libamd_smi.so",
                path="/opt/rocm-6.4.0/lib/libamd_smi.so",
                needed_by=f"{SITE}/amdsmi/amdsmi_wrapper.py",
                symbols=("amdsmi_get_cpu_affinity_with_scope",),
            ),
        ),
    ),
    "triton-too-old": nvidia_machine(packages={"triton": "3.1.0"}),
    "compute-mode-prohibited": nvidia_machine(nvidia_gpu(nvml=NvmlDevice(index=0, compute_mode="prohibited"))),
    "shm-small": with_system(_DOCKER, shm=known(64 << 20, "/dev/shm")),
    "rocm-wsl-dxg-env": _wsl(version="2.12.0+rocm7.2"),
    "driver-too-old": nvidia_machine(RTX_5090, driver="570.133.07", torch=torch("2.13.0+cu130")),
    "cuda-compat-on-geforce": _loads(nvidia_machine(driver="550.163.01"), "/usr/local/cuda/compat", "compat"),
    "libcuda-stub": _loads(nvidia_machine(), "/usr/local/cuda/lib64/stubs", "stub"),
    "ld-library-path-shadow": _pinned("nvidia-nvjitlink-cu12==12.8.93", {"nvidia-nvjitlink-cu12": "12.4.127"}),
    "rocm-version-mismatch": with_stack(
        amd_machine(torch=torch("2.6.0+rocm6.1")), module=known("30.10", "/sys/module/amdgpu/version")
    ),
    "hsa-override-wrong": amd_machine(RX_6700_XT, variables={OVERRIDE: "11.0.0"}),
    "amd-igpu-interferes": amd_machine(amd_gpu("AMD Radeon Graphics", "gfx1036", integrated=True), amd_gpu(index=1)),
    "amd-unsupported-second-gpu": amd_machine(amd_gpu(), change(RX_6700_XT, index=1, kfd_node=2, bdf="0000:04:00.0")),
    "wsl-libcuda-symlink": _wsl(_WSL_LIBCUDA, _WSL_COPY),
    "nccl-shadowed": _pinned("nvidia-nccl-cu12==2.27.5", {"nvidia-nccl-cu12": "2.19.3"}),
    "cudnn-mismatch": _pinned("nvidia-cudnn-cu12==9.10.2.21", {"nvidia-cudnn-cu12": "9.1.0.70"}),
    "nccl-p2p-hang": nvidia_machine(
        nvidia_gpu(), nvidia_gpu(index=1), driver="525.60.13", torch=torch("2.1.2+cu121"), python="3.11"
    ),
    "amd-sdma-hang": amd_machine(
        amd_gpu("AMD Radeon Graphics", "gfx90c", integrated=True), torch=torch("2.2.2+rocm5.7")
    ),
    "alloc-conf-expandable-segments-rocm": amd_machine(
        variables={"PYTORCH_ALLOC_CONF": "max_split_size_mb:512,expandable_segments:True"}
    ),
    "rocm-runtime-bug": amd_machine(
        amd_gpu("AMD Radeon RX 6800 XT", "gfx1030"), torch=torch("2.1.0+rocm5.6"), python="3.11"
    ),
    "libstdcxx-too-old": with_environment(
        with_torch(nvidia_machine(), needs_glibcxx=known("3.4.30", "libtorch_cpu.so")),
        libstdcxx=known("3.4.29", "/opt/conda/lib/libstdc++.so.6"),
        libstdcxx_path="/opt/conda/lib/libstdc++.so.6",
        kind="conda",
    ),
    "torch-missing": nvidia_machine(torch=None),
    "torch-no-arch-for-gpu": nvidia_machine(
        RTX_5090, torch=torch("2.6.0+cu124"), packages={"torchvision": "0.21.0+cu124", "torchaudio": "2.6.0+cu124"}
    ),
    "torch-dropped-old-gpu": nvidia_machine(GTX_1080, flavour="proprietary", torch=torch("2.13.0+cu130")),
    "torch-rocm-no-arch-for-gpu": amd_machine(RX_6700_XT, packages={"torchvision": "0.24.1+rocm6.4"}),
    "torch-cpu-only": nvidia_machine(torch=torch("2.13.0+cpu"), packages={"torchaudio": "2.11.0+cpu"}),
    "cuda-torch-on-amd": amd_machine(torch=torch("2.9.1+cu128")),
    "torch-wrong-build-or-cpu": nvidia_machine(torch=torch("2.9.1+rocm6.4")),
    "rocblas-no-arch": amd_machine(amd_gpu("AMD Instinct MI50", "gfx906")),
    "hipblaslt-unsupported-arch": amd_machine(
        amd_gpu("AMD Radeon RX 6800", "gfx1030"), variables={"TORCH_BLAS_PREFER_HIPBLASLT": "1"}
    ),
    "torch-import-fails": with_torch(
        nvidia_machine(), trial=known(ImportTrial(ok=False, signal="SIGABRT", error="terminate called"), "child")
    ),
    "requirements-incomplete": with_environment(
        nvidia_machine(),
        distributions=known(
            (
                Distribution(name="torch", version="2.9.1", installer="pip", requires=("typing-extensions>=4.10.0",)),
                Distribution(name="typing-extensions", version="4.5.0", installer="pip"),
            ),
            "/venv",
        ),
    ),
    "packages-for-another-python": with_environment(
        nvidia_machine(),
        distributions=known(
            (
                Distribution(name="torch", version="2.9.1", installer="pip", made_for="Python 3.11"),
                Distribution(name="triton", version="3.5.1", installer="pip", made_for="Python 3.11"),
            ),
            "/venv",
        ),
    ),
    "programs-not-executable": with_environment(
        nvidia_machine(),
        distributions=known(
            (
                Distribution(
                    name="triton",
                    version="3.5.1",
                    installer="pip",
                    damaged=(DamagedFile(f"{SITE}/triton/backends/nvidia/bin/ptxas", "not-executable"),),
                ),
            ),
            "/venv",
        ),
    ),
    "environment-broken": with_environment(
        nvidia_machine(torch=None),
        start_faults=(
            StartFault(
                kind="interpreter-gone",
                path="/venv/bin/python",
                prefix="/venv",
                detail="/opt/python3.11/bin/python3.11",
                python="3.12",
                links=("/venv/bin/python",),
                other="/usr/bin/python3.12",
            ),
        ),
    ),
    "package-install-interrupted": with_environment(
        nvidia_machine(),
        interrupted=(InterruptedInstall("torchvision", "0.23.0", f"{SITE}/~orchvision-0.23.0.dist-info"),),
    ),
    "package-installed-twice": with_environment(
        nvidia_machine(),
        distributions=known(
            (
                Distribution(name="torch", version="2.9.1", installer="pip"),
                Distribution(
                    name="numpy",
                    version="1.26.4",
                    path="/venv/lib/numpy-1.26.4.dist-info",
                    installer="pip",
                    twins=(Distribution("numpy", "2.3.5", path="/venv/lib/numpy-2.3.5.dist-info"),),
                ),
            ),
            "/venv",
        ),
    ),
    "package-links-lead-nowhere": with_environment(
        nvidia_machine(torch=None),
        distributions=known(
            tuple(
                Distribution(name=name, version=version, path=f"{SITE}/{name}-{version}.dist-info", unlinked=True)
                for name, version in (("jax", "0.6.2"), ("jaxlib", "0.6.2"), ("numpy", "2.4.6"))
            ),
            "/venv",
        ),
    ),
    "torch-install-interrupted": with_environment(
        nvidia_machine(torch=None),
        torch_remains=(TorchCopy(path="/venv/lib/torch", version="2.9.1", via="left-over files"),),
    ),
    "module-shadowed": with_environment(
        nvidia_machine(),
        shadows=(
            ShadowingModule(
                name="queue",
                path="/srv/own/queue.py",
                via="PYTHONPATH",
                hides="/usr/lib/python3.12/queue.py",
                standard=True,
            ),
        ),
    ),
    "environment-unreadable": with_environment(nvidia_machine(), torch=denied(SITE)),
    "torch-install-damaged": with_torch(
        nvidia_machine(), damaged=(DamagedFile(path=f"{SITE}/torch/lib/libtorch_cuda.so", problem="truncated"),)
    ),
    "torch-shadowed": with_torch(
        nvidia_machine(),
        copies=(
            TorchCopy(path="/srv/old/torch", version="1.13.1+cu117", via="PYTHONPATH"),
            TorchCopy(path=f"{SITE}/torch", version="2.9.1+cu128", via="site"),
        ),
    ),
    "torch-linalg-no-arch": nvidia_machine(
        nvidia_gpu("NVIDIA GeForce RTX 2080", "sm_75"), torch=torch("2.13.0", cuda="13.0", build="cu130")
    ),
    "amd-card-not-listed": amd_machine(
        amd_gpu("AMD Radeon RX 6800 XT", "gfx1030", chip="Navi 21"),
        torch=torch("2.10.0+rocm7.1", archs=known(CodeArchs(gfx=("gfx1030",), blas_gfx=("gfx1030",)), "libtorch")),
    ),
    "torchvision-mismatch": nvidia_machine(packages={"torchvision": "0.21.0+cu124"}),
    "torchaudio-mismatch": nvidia_machine(packages={"torchaudio": "2.6.0+cu124"}),
    "numpy2-old-torch": nvidia_machine(torch=torch("2.2.2+cu121"), packages={"numpy": "2.1.3"}),
    "flash-attn-abi": nvidia_machine(torch=torch("2.3.0+cu121"), packages={"flash-attn": "2.5.7"}),
    "xformers-mismatch": _requires("xformers", "0.0.99", "torch==2.5.1"),
    "vllm-torch-abi": nvidia_machine(packages={"vllm": "0.20.2"}),
    "ort-cpu-and-gpu-both": nvidia_machine(packages={"onnxruntime": "1.23.0", "onnxruntime-gpu": "1.22.0"}),
    "jax-plugins-of-two-cudas": nvidia_machine(
        packages={**_JAX, "jax-cuda13-plugin": "0.12.0.1", "jax-cuda13-pjrt": "0.12.0.1"}
    ),
    "jax-plugin-mismatch": nvidia_machine(
        packages={"jaxlib": "0.12.0.1", "jax-cuda12-plugin": "0.11.2", "jax-cuda12-pjrt": "0.12.0.1"}
    ),
    "torchcodec-mismatch": nvidia_machine(packages={"torchcodec": "0.7.0"}),
    "framework-cpu-only": _beside_torch(_JAX_CPU),
    "framework-other-vendor": amd_machine(torch=None, packages={"onnxruntime-gpu": "1.31.1"}),
    "framework-variable": _beside_torch(_JAX, variables={"JAX_PLATFORMS": "cpu"}),
    "framework-install-damaged": with_environment(
        nvidia_machine(torch=None),
        distributions=known(
            (
                Distribution(
                    name="onnxruntime-gpu",
                    version="1.31.1",
                    installer="pip",
                    damaged=(DamagedFile(path=f"{SITE}/onnxruntime/__init__.py", problem="missing"),),
                ),
            ),
            "/venv",
        ),
    ),
    "framework-import-fails": with_environment(
        nvidia_machine(torch=None),
        distributions=known(
            (
                Distribution(
                    name="onnxruntime-gpu", version="1.31.1", path=f"{SITE}/onnxruntime_gpu-1.31.1.dist-info"
                ),
            ),
            "/venv",
        ),
        frameworks=Frameworks(
            torch=absent("/venv"),
            imports=(
                ModuleImport(
                    "onnxruntime",
                    "onnxruntime-gpu",
                    "1.31.1",
                    "onnxruntime",
                    known(
                        ImportTrial(
                            ok=False,
                            error="SyntaxError: invalid syntax (__init__.py, line 1)",
                            suspects=(
                                SuspectFile(
                                    f"{SITE}/onnxruntime/__init__.py",
                                    owner="onnxruntime-gpu",
                                    version="1.31.1",
                                    problem="changed",
                                ),
                            ),
                        ),
                        "import onnxruntime in /venv/bin/python",
                    ),
                ),
            ),
        ),
    ),
    "framework-rocblas-no-arch": with_environment(
        amd_machine(torch=None, packages={"jax": "0.12.0", "jaxlib": "0.12.0", "jax-rocm7-plugin": "0.12.0"}),
        frameworks=Frameworks(
            others=(FrameworkFiles("jax", "0.12.0", "jax-rocm7-plugin", blas_gfx=("gfx942",), source="/site"),)
        ),
    ),
    "packages-of-different-releases": nvidia_machine(
        packages={"flashinfer-python": "0.7.2", "flashinfer-cubin": "0.6.13"}
    ),
    "packages-overwrite-each-other": _beside_torch({"tensorflow": "2.21.0", "tensorflow-cpu": "2.21.0"}),
    "framework-fell-back": change(_beside_torch(_JAX), smoke=_computed(devices=(SmokeDevice("cpu"),))),
    "framework-missing": change(_beside_torch({}), smoke=_computed(kernels=(), why="jax is not installed")),
    "bitsandbytes-no-cuda-lib": nvidia_machine(
        packages={"bitsandbytes": "0.48.2"}, variables={"BNB_CUDA_VERSION": "118"}
    ),
    "framework-cuda-libs-missing": with_environment(
        nvidia_machine(torch=None),
        extensions=(
            Extension(
                "onnxruntime-gpu",
                "1.31.1",
                "/site/onnxruntime/capi/libonnxruntime_providers_cuda.so",
                needs=("libcublasLt.so.13",),
                missing=(MissingLibrary("libcublasLt.so.13"),),
            ),
        ),
    ),
    "extension-torch-mismatch": with_environment(
        nvidia_machine(),
        distributions=known((Distribution("gsplat", "1.5.3", "/site/gsplat.dist-info"),), "test"),
        extensions=(
            Extension("gsplat", "1.5.3", "/site/gsplat/csrc.so", of_torch=True, undefined=("_ZN3c105ErrorC2E",)),
        ),
    ),
    "ext-built-without-gpu-arch": with_environment(
        nvidia_machine(RTX_5090, driver="580.95.05"),
        extensions=(Extension("flash-attn", "2.7.4", "/site/flash_attn_2_cuda.so", sass=("sm_80", "sm_90")),),
    ),
    "ptxas-too-old": nvidia_machine(
        nvidia_gpu("NVIDIA GB10", "sm_121", integrated=True, unified_memory=True),
        torch=torch("2.9.1+cu130"),
        packages={"triton": "3.5.1"},
    ),
    "python-dev-missing": with_environment(
        nvidia_machine(packages={"triton": "3.5.1"}), python_headers=known(False, "/usr/include")
    ),
    "miopen-kdb-missing": amd_machine(
        amd_gpu("AMD Radeon RX 6800 XT", "gfx1030"), torch=torch("2.0.1+rocm5.4.2", rocm="5.4.2"), python="3.11"
    ),
    "rocm-mem-efficient-attention": amd_machine(torch=torch("2.4.0+rocm6.1")),
    "known-issue": amd_machine(RX_6700_XT, torch=torch("2.10.0+rocm7.0"), variables={OVERRIDE: "10.3.0"}),
    "smoke-crash": _ran(nvidia_machine(), status="crash", signal="SIGSEGV", message=""),
    "smoke-wrong-result": _ran(nvidia_machine(), status="wrong", error=0.5, tolerance=0.015),
    "matrix-older-than-torch": nvidia_machine(torch=torch("2.99.0", cuda="13.2", build="cu132")),
    "program-on-cpu": change(
        nvidia_machine(), programs=(Program("ollama", "/usr/bin/ollama", folder="/usr/lib/ollama"),)
    ),
    "program-variable": change(
        nvidia_machine(),
        programs=(
            Program(
                "ollama",
                "/usr/local/bin/ollama",
                folder="/usr/local/lib/ollama",
                backends=(ProgramBackend("cuda", "/usr/local/lib/ollama/cuda_v13/libggml-cuda.so"),),
                variables={"OLLAMA_LLM_LIBRARY": "cuda"},
                service="/etc/systemd/system/ollama.service",
            ),
        ),
    ),
    "sglang-torch-mismatch": with_environment(
        nvidia_machine(torch=torch("2.9.1+cu128")),
        distributions=known((Distribution("sglang", "0.5.23", "/sglang", requires=("torch==2.14.1",)),), "test"),
    ),
    "gpu-slow": _ran(
        nvidia_machine(
            nvidia_gpu("NVIDIA H100 80GB HBM3", "sm_90", pci_id="10de:2330", memory=known(80 << 30, "nvml"))
        ),
        status="pass",
        name="memory-rate",
        measures={"gb_per_s": 700.0},
    ),
}
