"""Outputs of the tools that people paste: every fact in them is read, whichever way they are pasted."""

from __future__ import annotations

import html

import pytest

from gpudoctor.machine import Machine
from tests.support.judged_texts import machine, problems
from tests.support.pasted import ROCMINFO

CSV = "NVIDIA GeForce RTX 4060 Ti, 550.144.03, 16380 MiB, 8.9\n"
ASKED = "$ nvidia-smi --query-gpu=index,name,driver_version --format=csv,noheader\n0, Tesla T4, 535.104.05\n"
WITHOUT_UNITS = "0, NVIDIA GeForce RTX 4090, 00000000:02:00.0, 8.9, 24564, 298.31\n"
ACCELERATORS = "- Accelerator: NVIDIA A100-SXM4-80GB, 81920 MiB\nNVIDIA A100-SXM4-80GB, 81920 MiB\n"
DEVICE_QUERY = """Device 0: "NVIDIA RTX A6000"
  CUDA Driver Version / Runtime Version          12.4 / 11.8
  CUDA Capability Major/Minor version number:    8.6
  Total amount of global memory:                 48669 MBytes (51033931776 bytes)
Device 1: "NVIDIA RTX A6000"
  CUDA Capability Major/Minor version number:    8.6
"""
GPUSTAT = """node7   Thu Mar 14 10:12:01 2024  535.154.05
[0] NVIDIA GeForce RTX 3090 | 62'C,  98 % | 20412 / 24576 MB | alice(20408M)
[1] NVIDIA GeForce RTX 3090 | 31'C,   0 % |     3 / 24576 MB |
"""
NVITOP = "│   0  A100-SXM4-80GB      On   │ 00000000:07:00.0 Off │                    0 │\n"
UNNAMED = ">>> torch.cuda.get_device_name()\n'AMD Radeon Graphics'\n"
LSPCI_VMM = """Slot:   01:00.0
Class:  VGA compatible controller [0300]
Vendor: NVIDIA Corporation [10de]
Device: TU116 [GeForce GTX 1660 SUPER] [21c4]
SDevice: Device [8752]
Driver: nouveau
"""
LSHW = """  *-display
       product: Ellesmere [Radeon RX 470/480/570/570X/580/580X/590]
       vendor: Advanced Micro Devices, Inc. [AMD/ATI]
       bus info: pci@0000:07:00.0
       configuration: driver=amdgpu latency=0
  *-multimedia
       vendor: Advanced Micro Devices, Inc. [AMD/ATI]
       bus info: pci@0000:07:00.1
"""
LSHW_JSON = """{
  "id" : "display",
  "product" : "AD104 [GeForce RTX 4070]",
  "vendor" : "NVIDIA Corporation",
  "businfo" : "pci@0000:01:00.0",
  "configuration" : {
    "driver" : "nvidia",
  }
}
"""
HWINFO = """  SysFS BusID: 0000:0a:00.0
  Vendor: pci 0x10de "nVidia Corporation"
  Device: pci 0x13c2 "GM204 [GeForce GTX 970]"
  Driver: "nouveau"
"""
INXI_LONG = """Graphics:
  Device-1: AMD Navi 23 [Radeon RX 6600/6600 XT/6600M]
    vendor: XFX Pine
    driver: amdgpu
      v: kernel
    arch: RDNA-2
      code: Navi-2x
    pcie:
      gen: 4
    bus-ID: 0a:00.0
    chip-ID: 1002:73ff
  Display: x11
"""
VULKAN = """GPU0:
    vendorID           = 0x1002
    deviceID           = 0x744c
    deviceName         = AMD Radeon RX 7900 XTX (RADV NAVI31)
    driverInfo         = Mesa 25.2.8
GPU1:
    vendorID           = 0x10de
    deviceID           = 0x1f06
    deviceName         = NVIDIA GeForce RTX 2060 SUPER
    driverInfo         = 550.54.14
GPU2:
    vendorID           = 0x10005
    deviceName         = llvmpipe (LLVM 20.1.2, 256 bits)
"""
CLINFO = """Number of devices                                 1
  Device Name                                     gfx1102
  Device Vendor ID                                0x1002
  Driver Version                                  3625.0 (HSA1.1,LC)
  Device Board Name (AMD)                         AMD Radeon RX 7600
  Device Topology (AMD)                           PCI-E, 0000:3c:00.0
Number of devices                                 1
  Device Name                                     AMD Radeon RX 7600 (radeonsi, navi33, LLVM 18.1)
  Device Vendor ID                                0x1002
"""
HIPINFO = """device#                           0
Name:                             AMD Radeon RX 7900 XTX
pciBusID:                         3
totalGlobalMem:                   23.98 GB
gcnArchName:                      gfx1100
device#                           1
Name:                             AMD Radeon(TM) Graphics
pciBusID:                         18
gcnArchName:                      gfx1036
"""
NUMBA = """id 0      b'Quadro RTX 8000'                              [SUPPORTED]
                      Compute Capability: 7.5
"""
TENSORFLOW = (
    "Created device /device:GPU:0 with 10535 MB memory: -> device: 0, name: NVIDIA GeForce RTX 3080 Ti, "
    "pci bus id: 0000:0b:00.0, compute capability: 8.6\n"
)
KOHYA = "11:20:33 INFO     Torch detected GPU: AMD Radeon RX 6800 XT VRAM 16368 Arch (10, 3) Cores 36\n"
HASHCAT = "* Device #1: NVIDIA GeForce RTX 2060, 5648/5738 MB, 30MCU\n* Device #2: NVIDIA GeForce RTX 2060, skipped\n"
GGML = "ggml_vulkan: 0 = AMD Radeon RX 6700 XT (RADV NAVI22) (radv) | uma: 0 | fp16: 1\n"
JAX = "device info: NVIDIA A100-SXM4-40GB-2, 2 local devices\n"
KUBERNETES = """                    nvidia.com/gpu.count=2
                    nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB-SHARED
"""
KUBERNETES_AMD = "amd.com/gpu.product-name=AMD_Instinct_MI300X_OAM\nCapacity:\n  amd.com/gpu:        2\n"
SLURM = "NodeName=n7 Arch=x86_64\n   Gres=gpu:h200:2(S:0-1)\n"
SINFO = "gpu[01-04]           64         512000     a100                      gpu:a100:2\n"
ENUMERATOR = "$ rocm_agent_enumerator\ngfx000\ngfx90a\ngfx90a\n"
ROCM_JSON = '{"card0": {"Device ID": "0x1900", "PCI Bus": "0000:C4:00.0", "GFX Version": "gfx1103"}}\n'
AMD_JSON = """[
    {
        "gpu": 0,
        "asic": {"market_name": "AMD Radeon RX 9070 XT", "device_id": "0x7550", "target_graphics_version": "gfx1201"},
        "bus": {"bdf": "0000:03:00.0"},
        "vram": {"size": {"value": 16304, "unit": "MB"}}
    }
]
"""
SHOWHW = (
    "============ ROCm System Management Interface ============\n"
    "0    1     0x73df  12345  gfx1031  DISABLED  DISABLED  DISABLED  113-EXT8  0000:0B:00.0  0\n"
)
LIGHTNING = "* CUDA:\n    - GPU:\n        - NVIDIA A40\n        - NVIDIA A40\n    - available:         True\n"
SWITCHEROO = """Device: 0
  Name:        Advanced Micro Devices, Inc. [AMD/ATI] Cezanne [Radeon Vega Series / Radeon Vega Mobile Series]
  Default:     yes

Device: 1
  Name:        NVIDIA Corporation GA107M [GeForce RTX 3050 Mobile]
"""
AMDGPU_TOP = """Device Name              : [AMD Radeon RX 6600 XT]
PCI (domain:bus:dev.func): 0000:03:00.0
gfx_target_version       : gfx1032
"""
MESA = """selectable devices:
  GPU 0: 1002:67df "AMD Radeon RX 580 Series (RADV POLARIS10)" discrete GPU 0000:03:00.0
  GPU 1: 1002:1638 "AMD Radeon Graphics (RADV RENOIR)" integrated GPU 0000:30:00.0
"""
PREFIXED = "SUCCESS: GPU 0: AMD Radeon RX 7900 XTX\nSUCCESS: GPU 1: AMD Radeon RX 7800 XT\n"
SHORTENED = """| AMD-SMI 26.0.0+37d158ab      amdgpu version: 6.16.13  ROCm version: 7.0.0    |
| 0000:1b:00.0 ...Instinct MI300X VF  | 0 %      46 °C   0           163/750 W |
|   0       0     N/A        SPX/NPS1 | 0 %        N/A           284/196288 MB |
"""
TRL = "- accelerator(s): NVIDIA A10G, NVIDIA A10G\n"
CHIPS = """0c:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Cezanne [Radeon Vega Series / Radeon Vega Mobile Series] (rev c8)
"""  # noqa: E501


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CSV, ["sm_89"]),
        (ASKED, ["sm_75"]),
        (WITHOUT_UNITS, ["sm_89 0000:02:00.0"]),
        ("$ nvidia-smi --query-gpu=name --format=csv\nname\nNVIDIA A10G\nNVIDIA A10G\n", ["sm_86", "sm_86"]),
        (
            "GPU 1: AMD Radeon RX 7900 XT @ 2.49 GHz (19.98 GiB) [Discrete]\nGPU 2: AMD Raphael\n",
            ["gfx1100", "gfx1036"],
        ),
        (ACCELERATORS, ["sm_80", "sm_80"]),
        (DEVICE_QUERY, ["sm_86", "sm_86"]),
        (GPUSTAT, ["sm_86", "sm_86"]),
        (NVITOP, ["sm_80 0000:07:00.0"]),
        (LSPCI_VMM, ["sm_75 0000:01:00.0 nouveau"]),
        (LSHW, ["gfx803 0000:07:00.0 amdgpu"]),
        (LSHW_JSON, ["sm_89 0000:01:00.0 nvidia"]),
        (HWINFO, ["sm_52 0000:0a:00.0 nouveau"]),
        (INXI_LONG, ["gfx1032 0000:0a:00.0 amdgpu"]),
        (VULKAN, ["gfx1100", "sm_75"]),
        (CLINFO, ["gfx1102 0000:3c:00.0"]),
        (HIPINFO, ["gfx1100 0000:03:00.0", "gfx1036 0000:12:00.0"]),
        (NUMBA, ["sm_75"]),
        (TENSORFLOW, ["sm_86 0000:0b:00.0"]),
        (KOHYA, ["gfx1030"]),
        (HASHCAT, ["sm_75"]),
        (GGML, ["gfx1031"]),
        (JAX, ["sm_80", "sm_80"]),
        (KUBERNETES, ["sm_80", "sm_80"]),
        (KUBERNETES_AMD, ["gfx942", "gfx942"]),
        (SLURM, ["sm_90", "sm_90"]),
        (SINFO, ["sm_80", "sm_80"]),
        (ENUMERATOR, ["gfx90a", "gfx90a"]),
        (ROCM_JSON, ["gfx1103 0000:c4:00.0"]),
        (AMD_JSON, ["gfx1201 0000:03:00.0"]),
        (SHOWHW, ["gfx1031 0000:0b:00.0"]),
        (LIGHTNING, ["sm_86", "sm_86"]),
        (TRL, ["sm_86", "sm_86"]),
        (MESA, ["gfx803 0000:03:00.0", "gfx90c 0000:30:00.0"]),
        (PREFIXED, ["gfx1100", "gfx1101"]),
        (SHORTENED, ["gfx942 0000:1b:00.0"]),
        (SWITCHEROO, ["gfx90c", "sm_86"]),
        (AMDGPU_TOP, ["gfx1032 0000:03:00.0"]),
        (CHIPS, ["gfx90c 0000:0c:00.0"]),
        ("OpenGL renderer string: NAVI22 (navi22, LLVM 14.0.6, DRM 3.48, 6.0.1-arch2-1)\n", ["gfx1031"]),
        (f"Framework Desktop, Ryzen AI Max+ 395\n{UNNAMED}", ["gfx1151"]),
        ("My laptop has a Radeon 780M and an NVIDIA RTX 4060.\n", ["sm_89", "gfx1103"]),
        (f"Ryzen 9 7950X, Fedora 42\n{UNNAMED}", [""]),  # it may be another GPU than the processor's
    ],
)
def test_gpus(text: str, expected: list[str]) -> None:
    found = []
    for gpu, wanted in zip(machine(text).gpus, expected, strict=True):
        parts = (gpu.arch.value, gpu.bdf, gpu.driver.value)
        found.append(" ".join(filter(None, parts[: len(wanted.split())])))
    assert found == expected


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [(CSV, 16380), (DEVICE_QUERY, 48669), (GPUSTAT, 24576), (AMD_JSON, 16304), (KOHYA, 16368), (HASHCAT, 5738)],
)
def test_memory(text: str, mebibytes: int) -> None:
    assert machine(text).gpus[0].memory.value == mebibytes << 20


@pytest.mark.parametrize(
    "text",
    [
        "Tesla K80, 3.7\nTesla V100, 7.0\n",
        "#SBATCH --gres=gpu:a100:1\n",
        "GPU0    GPU1    CPU Affinity\nGPU0     X      NV12    0-63\n",
        "GPU0:\n    vendorID = 0x10005\n    deviceName = llvmpipe (LLVM 20.1.2, 256 bits)\n",
        "  *-multimedia\n       product: GA104 High Definition Audio Controller\n       vendor: NVIDIA Corporation\n",
        "Slot:   01:00.1\nClass:  Audio device [0403]\nVendor: NVIDIA Corporation [10de]\nDevice: TU116 [1aeb]\n",
        "gfx1030\ngfx1100\n",
    ],
)
def test_what_lists_no_gpu_of_this_machine(text: str) -> None:
    assert machine(text).gpus == ()


def test_watts_are_no_driver() -> None:
    assert _driver(machine(WITHOUT_UNITS)) is None


MODINFO = """filename:       /lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko.zst
version:        560.35.03
license:        Dual MIT/GPL
"""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (CSV, "550.144.03"),
        (ASKED, "535.104.05"),
        (GPUSTAT, "535.154.05"),
        (VULKAN, "550.54.14"),
        ("OpenGL version string: 4.6.0 NVIDIA 595.71.05\n", "595.71.05"),
        ("  Attribute 'NvidiaDriverVersion' (box:0.0): 570.153.02\n", "570.153.02"),
        (MODINFO, "560.35.03"),
        ("nvidia/535.183.01, 6.5.0-41-generic, x86_64: installed\n", "535.183.01"),
        ("nvidia, 470.103.01, 5.13.0-30-generic, x86_64: installed\n", "470.103.01"),
        ("ii  nvidia-driver-575  575.64.03-0ubuntu0.24.04.1  amd64  NVIDIA driver metapackage\n", "575.64.03"),
        ("nvidia-driver-550/jammy-updates,now 550.120-0ubuntu0.22.04.1 amd64 [installed]\n", "550.120"),
        ("nvidia-driver-535:\n  Installed: 535.183.01-0ubuntu0.22.04.1\n", "535.183.01"),
        ("akmod-nvidia-560.35.03-1.fc40.x86_64\n", "560.35.03"),
        ("kmod-nvidia-6.11.3-200.fc40.x86_64-560.35.03-1.fc40.x86_64\n", "560.35.03"),
        ("xorg-x11-drv-nvidia.x86_64   3:570.86.16-1.fc41   @rpmfusion\n", "570.86.16"),
        ("i  | nvidia-compute-G06 | package | 550.100-lp155.38.1 | x86_64 | NVIDIA\n", "550.100"),
        ("nvidia-utils 565.77-3\n", "565.77"),
        ("$ modinfo -F version nvidia\n550.120\n", "550.120"),
        ("$ cat /sys/module/nvidia/version\n550.120\n", "550.120"),
        ("$ nvidia-smi --query-gpu=driver_version --format=csv\ndriver_version\n550.54.15\n", "550.54.15"),
        ("-rw-r--r-- 1 root root 28712096 Feb 26  2025 /usr/lib/libcuda.so.550.144.03\n", "550.144.03"),
        ("rc  nvidia-driver-470  470.239.06-0ubuntu0.20.04.1 amd64 NVIDIA driver metapackage\n", None),
        ("nvidia-gpu-firmware-20240909-1.fc40.noarch\n", None),
    ],
)
def test_driver(text: str, version: str | None) -> None:
    assert _driver(machine(text)) == version


def _driver(found: Machine) -> str | None:
    module = found.nvidia.module
    return module.value.version if module.value and module.source.startswith("text") else None


def test_what_the_driver_says_takes_precedence_over_its_package() -> None:
    running = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  565.57.01  Thu Oct 10\n"
    assert _driver(machine(f"nvidia-utils 570.133-1\n{running}nvidia-utils 570.133-1\n")) == "565.57.01"


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "debian", "12"),
        ("Distributor ID: Ubuntu\nDescription:    Ubuntu 20.04.6 LTS\nRelease: 20.04\n", "ubuntu", "20.04.6"),
        (" ossyNMMMNyMMhsss:   OS: Ubuntu 22.04.3 LTS x86_64\n", "ubuntu", "22.04.3"),
        ("  Desktop: KDE Plasma v: 6.2.5 Distro: Arch Linux\n", "arch", ""),
        ("  OS Image:                   Ubuntu 22.04.3 LTS\n  Operating System:  linux\n", "ubuntu", "22.04.3"),
        ('NAME="Ubuntu"\nVERSION="22.04.5 LTS (Jammy Jellyfish)"\n', "ubuntu", "22.04.5"),
        (" - host os: `Linux 6.6.52, NixOS, 24.05 (Uakari), 24.05.5153.e65a`\n", "nixos", "24.05"),
    ],
)
def test_system(text: str, name: str, version: str) -> None:
    found = machine(text).system.os.value
    assert found is not None
    assert (found.id, found.version) == (name, version)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("            Kernel: Linux 5.14.0-427.13.1.el9_4.x86_64\n", "5.14.0-427.13.1.el9_4.x86_64"),
        ("[Mon Nov  3 10:02:11 2025] Linux version 6.14.0-33-generic (buildd@lcy02) #33\n", "6.14.0-33-generic"),
        ("OS       : Linux-5.4.0-117-generic-x86_64-with-glibc2.29\n", "5.4.0-117-generic"),
        ("OS                  Linux-6.1.85+-x86_64-with-glibc2.35\n", "6.1.85+"),
        ("- Platform: Linux-6.8.0-47-generic-x86\\_64-with-glibc2.35\n", "6.8.0-47-generic"),
        ("  Kernel: 6.8.0-45-generic arch: x86_64 bits: 64 Distro: Ubuntu 24.04.1 LTS\n", "6.8.0-45-generic"),
        (" Kernel: x86_64 Linux 5.15.0-91-generic \n", "5.15.0-91-generic"),
    ],
)
def test_kernel(text: str, release: str) -> None:
    assert machine(text).system.kernel.value == release


def test_the_container_that_a_form_offers() -> None:
    assert machine("### OS\n\nLinux, Docker\n\n### GPU\n\nNvidia\n").system.container.value == "docker"


@pytest.mark.parametrize("processor", ["x86-64", "amd64", "x86_64"])
def test_processor(processor: str) -> None:
    assert machine(f"Architecture: {processor}\n").system.arch.value == "x86_64"


@pytest.mark.parametrize(
    "text",
    [
        "Python 3.10.6 (main, Nov 14 2022, 16:10:14) [GCC 11.3.0]\n",
        "11:20:31-123456 INFO     Python 3.10.12 on Linux\n",
        "$ python --version\nPython 3.10.12\n",
        "Using Python 3.10.7 environment at: .venv\n",
        "sys.version: 3.10.3 (main, Sep 11 2024, 14:17:37) [GCC 13.2.0]\n",
        "# Name   Version   Build  Channel\n_openmp_mutex 4.5 2_gnu forge\npython 3.10.11 h9e4_1_cpython forge\n",
        "Ultralytics 8.3.75 Python-3.10.11 torch-2.5.1+cu124 CUDA:0 (NVIDIA L4, 22693MiB)\n",
    ],
)
def test_python(text: str) -> None:
    environment = machine(text).environment.value
    assert environment is not None
    assert environment.python.value == "3.10"


SHOW = "Name: torch\nVersion: 2.6.0+cu124\nSummary: Tensors\n---\nName: numpy\nVersion: 2.2.1\n"
LOCK = """[[package]]
name = "torch"
version = "2.6.0+cu124"
[[package]]
name = "torch"
version = "2.6.0"
resolution-markers = [
    "sys_platform == 'darwin'",
]
[[package]]
name = "numpy"
version = "2.2.1"
"""
INSPECT = '"metadata": {\n  "name": "torch",\n  "version": "2.6.0+cu124"\n}\n"name": "numpy",\n"version": "2.2.1"\n'
WEB_UI = '"pip_packages": [\n    "numpy==2.2.1",\n    "torch==2.6.0+cu124"\n],\n'
POETRY = (
    "numpy                    2.2.1        Fundamental package for array computing in Python\n"
    "torch                    2.6.0+cu124  Tensors and neural networks in Python with strong GPU acceleration\n"
)
TREE = "app v0.1.0\n├── torch v2.6.0+cu124\n│   └── numpy v2.2.1\n└── torchvision v0.21.0+cu124 (*)\n"


@pytest.mark.parametrize(
    "text",
    [
        SHOW,
        LOCK,
        INSPECT,
        WEB_UI,
        POETRY,
        TREE,
        "│ numpy        │ 2.2.1        │      │\n│ torch        │ 2.6.0+cu124  │      │\n",
        '[{"name": "numpy", "version": "2.2.1"}, {"name": "torch", "version": "2.6.0+cu124"}]\n',
        "torch @ https://download.pytorch.org/whl/cu124/torch-2.6.0%2Bcu124-cp310-cp310-linux_x86_64.whl#sha256=2\n"
        "numpy==2.2.1\n",
        "numpy 2.2.1 requires x==2.4.0, but you have torch 2.6.0+cu124 which is incompatible.\n",
        "dependencies:\n  - pip:\n      - numpy==2.2.1\n      - torch==2.6.0+cu124\n",
        "numpy info ................... 2.2.1, unknown, unknown\ntorch version .................... 2.6.0+cu124\n",
        "pytorch.version:                                   2.6.0+cu124\nnumpy: 2.2.1\n",
    ],
)
def test_packages(text: str) -> None:
    found = machine(text)
    assert found.torch is not None
    assert found.torch.version == "2.6.0+cu124"
    assert {package.name: package.version for package in found.packages}["numpy"] == "2.2.1"


def test_modules_and_packages_of_conda() -> None:
    loaded = machine("  1) gcc/12.2.0   5) PyTorch/2.1.2-foss-2023a-CUDA-12.1.1\n").torch
    assert loaded is not None
    assert (loaded.version, loaded.cuda) == ("2.1.2", "12.1")
    as_json = '"build_string": "cuda126_py312_h1",\n"name": "pytorch",\n"platform": "x",\n"version": "2.5.1"\n'
    found = machine(as_json).torch
    assert found is not None
    assert (found.version, found.cuda, found.origin) == ("2.5.1", "12.6", "conda")
    pixi = "pytorch        2.5.1         cuda126_py312_h1a7f5ac_305     35.2 MiB   conda  conda-forge\n"
    listed = machine(pixi).torch
    assert listed is not None
    assert (listed.version, listed.cuda) == ("2.5.1", "12.6")


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("pytorch.cuda:                                      available\n", 1),
        ("pytorch.cuda:                                      not available\n", 0),
        ("torch cuda    : 11.0 / is available\n", 1),
        ("torch cuda    : 11.0 / is **Not available**\n", 0),
        ("GPU available           Yes\n", 1),
        (LIGHTNING, 2),
        (KOHYA, 1),
    ],
)
def test_whether_torch_sees_a_gpu(text: str, devices: int) -> None:
    torch = machine(f"torch: 2.6.0\n{text}").torch
    assert torch is not None
    assert torch.trial.value is not None
    assert torch.trial.value.device_count == devices


PRINTS = """$ python -c "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
2.5.1+cu124 12.4 False
"""
PRINTS_APART = """>>> print(1, torch.__version__); print(torch.cuda.is_available()); print(torch.cuda.device_count())
1 2.5.1+cu124
True
1
"""


def test_what_several_calls_of_print_answer() -> None:
    one, apart = machine(PRINTS).torch, machine(PRINTS_APART).torch
    assert one is not None
    assert one.trial.value is not None
    assert (one.version, one.cuda, one.trial.value.device_count) == ("2.5.1+cu124", "12.4", 0)
    assert apart is not None
    assert apart.trial.value is not None
    assert (apart.version, apart.trial.value.device_count) == ("2.5.1+cu124", 1)


def test_what_torch_says_it_was_built_with() -> None:
    built = """  - CUDA Runtime 11.8
  - NVCC architecture flags: -gencode;arch=compute_50,code=sm_50;-gencode;arch=compute_90,code=sm_90
  - Build settings: BUILD_TYPE=Release, CUDA_VERSION=11.8, TORCH_VERSION=2.1.0, USE_CUDA=ON, USE_ROCM=OFF,
"""
    torch = machine(built).torch
    assert torch is not None
    assert (torch.version.partition("+")[0], torch.cuda) == ("2.1.0", "11.8")
    assert torch.archs.value is not None
    assert torch.archs.value.sass == ("sm_50", "sm_90")
    hip = machine("  - HIP Runtime 6.0.32830\n  - Build settings: TORCH_VERSION=2.3.1, USE_ROCM=ON,\n").torch
    assert hip is not None
    assert hip.rocm == "6.0"


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1\n", "CUDA_VISIBLE_DEVICES", "0,1"),
        ("I set CUDA_VISIBLE_DEVICES=1, and it works\n", "CUDA_VISIBLE_DEVICES", "1"),
        ('    "CUDA_VISIBLE_DEVICES": "0",\n', "CUDA_VISIBLE_DEVICES", "0"),
    ],
)
def test_variables(text: str, name: str, value: str) -> None:
    assert machine(text).variables[name] == value


@pytest.mark.parametrize(
    "text",
    [
        "HIP_PLATFORM : amd\n",
        "======= ROCm System Management Interface =======\nGPU  Temp   AvgPwr  SCLK\n0    41.0c  6.0W    808Mhz\n",
        "crw-rw---- 1 root render 511,   0 Nov  3 10:02 /dev/kfd\n",
    ],
)
def test_what_only_a_machine_with_an_amd_gpu_prints(text: str) -> None:
    assert [gpu.vendor for gpu in machine(text).gpus] == ["amd"]


def test_a_node_that_the_user_may_not_open() -> None:
    node = "crw-rw---- 1 root render 511,   0 Nov  3 10:02 /dev/kfd\n"
    assert problems(f"{node}$ id\nuid=1000(alice) gid=1000(alice) groups=1000(alice),27(sudo)\n") == [
        "amd-device-permission"
    ]
    assert problems(f"{node}$ id\nuid=1000(alice) gid=1000(alice) groups=1000(alice),109(render)\n") == []


def test_the_groups_of_a_user() -> None:
    node = "$ ls -l /dev/kfd\ncrw-rw---- 1 root render 235, 0 Nov  3 10:02 /dev/kfd\n"
    assert problems(f"$ groups\nalice adm sudo\n{node}") == ["amd-device-permission"]
    assert problems(f"$ groups\nalice adm sudo render\n{node}") == []


@pytest.mark.parametrize(
    "text",
    [
        "OS Name:  Microsoft Windows 10\nOS Version: 10.0.19042 N/A Build 19042\n",
        "C:> wmic path Win32_VideoController\n",
        "- **ComfyUI Version:** 0.3.61\n- **OS:** nt\n- **Embedded Python:** true\n",
    ],
)
def test_windows(text: str) -> None:
    pasted = machine(text).pasted
    assert pasted is not None
    assert pasted.foreign == "windows"


def test_what_python_calls_linux_and_macos_names_neither() -> None:
    pasted = machine("- **ComfyUI Version:** 0.3.61\n- **OS:** posix\n- **Embedded Python:** false\n").pasted
    assert pasted is not None
    assert pasted.foreign == ""
    assert machine("- **OS:** posix\n").system.os.source == "assumed"


def test_every_way_to_paste_an_output() -> None:
    lines = ROCMINFO.split("\n")
    for pasted in (
        "See:\n\n" + "\n".join(f"    {line}" for line in lines) + "\n\nand now?",
        "- output:\n\n" + "\n".join(f"  {line}" for line in lines),
        "\n".join(f"> {line}" for line in lines),
        "\n".join(f"&gt; {html.escape(line)}" for line in lines),
        "\n".join(f"{number:6}  {line}" for number, line in enumerate(lines, start=1)),
    ):
        (gpu,) = machine(pasted).gpus
        assert (gpu.arch.value, gpu.bdf) == ("gfx1031", "0000:0b:00.0"), pasted[:40]
