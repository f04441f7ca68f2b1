"""What torch and its companions need: absent, old, emptied, of another version."""

from __future__ import annotations

import subprocess

from tests.support.broken_environments.entries import COMPILE, TORCH, Breaks, Catalogue, imports
from tests.support.broken_environments.environment import Environment

CATALOGUE = Catalogue("1 requirements")
NEEDED = {"requirements-incomplete", "torch-import-fails", "framework-cuda-libs-missing"}
OTHER_VERSION = NEEDED | {
    *("cudnn-mismatch", "ld-library-path-shadow", "triton-too-old", "programs-not-executable"),
}
NMS = "import torch, torchvision; torchvision.ops.nms(torch.rand(4, 4), torch.rand(4), 0.5)"
PTXAS = "triton/backends/nvidia/bin/ptxas"
ASSEMBLES = f"""import subprocess, sys, triton
from pathlib import Path
subprocess.run([Path(triton.__file__).parent.parent / '{PTXAS}', '--version'], check=True)
"""
PIP_CHECK = """import importlib.util, subprocess, sys
has_pip = importlib.util.find_spec('pip') is not None
words = [sys.executable, '-m', 'pip', 'check'] if has_pip else ['uv', 'pip', 'check', '-p', sys.executable]
ran = subprocess.run(words, capture_output=True, text=True)
if ran.returncode:
    sys.exit(ran.stdout + ran.stderr)
"""
"""For what only some function of torch imports: pip, or uv in its environments, says that it is broken."""


def uninstalled(name: str) -> Breaks:
    return lambda environment: environment.uninstall(name)


def installed(requirement: str) -> Breaks:
    return lambda environment: environment.install(requirement)


def removed(*patterns: str) -> Breaks:
    return lambda environment: environment.remove(*patterns)


def locked(program: str) -> Breaks:
    """As after a copy that keeps no permissions."""
    return lambda environment: environment.own(program).chmod(0o644)


def twin(other: str) -> Breaks:
    """Install a wheel that writes into the same folder, and take it away again."""

    def breaks(environment: Environment) -> None:
        environment.install(other)
        environment.uninstall(other.partition("==")[0])

    return breaks


def cpu(name: str, breaks: Breaks, names: str, proof: str = COMPILE, **more: object) -> None:
    """Something that torch's CPU build needs; without `proof` of its import the import of torch still works."""
    CATALOGUE.add(
        name, "cpu", NEEDED, breaks, names=names, fix=names, proof=proof, warning=proof != TORCH, repair=True, **more
    )


def cuda(name: str, breaks: Breaks, names: str, proof: str = TORCH, **more: object) -> None:
    more = {"fix": names, "warning": proof != TORCH, **more}
    CATALOGUE.add(name, "cuda-new", OTHER_VERSION, breaks, names=names, proof=proof, **more)


cpu("typing_extensions uninstalled", uninstalled("typing_extensions"), "typing.extensions", TORCH)
cpu("typing_extensions 3.7", installed("typing_extensions==3.7.4.3"), "typing.extensions", TORCH)
cpu("sympy uninstalled", uninstalled("sympy"), "sympy")
cpu("sympy 1.5", installed("sympy==1.5.1"), "sympy")
cpu("sympy emptied", removed("sympy"), "sympy")
cpu("mpmath uninstalled", uninstalled("mpmath"), "mpmath")
cpu("networkx uninstalled", uninstalled("networkx"), "networkx")
cpu("networkx 2.4", installed("networkx==2.4"), "networkx", PIP_CHECK)
cpu("jinja2 uninstalled", uninstalled("jinja2"), "jinja2", imports("jinja2"))
cpu("markupsafe uninstalled", uninstalled("markupsafe"), "markupsafe", imports("jinja2"))
cpu("filelock emptied", removed("filelock"), "filelock", imports("filelock"))
cpu("fsspec uninstalled", uninstalled("fsspec"), "fsspec", imports("torch.distributed.checkpoint", "fsspec"))
cpu("sympy half deleted", removed("sympy/core"), "sympy")
cpu("numpy half deleted", removed("numpy/_core/*.py"), "numpy", "import numpy")

cuda("triton uninstalled", uninstalled("triton"), "triton", PIP_CHECK)
cuda("triton emptied", removed("triton"), "triton", imports("triton.language"))
cuda("Triton's ptxas deleted", removed(PTXAS), "triton", ASSEMBLES, repair=True)
cuda("Triton's ptxas without its permission", locked(PTXAS), "triton", ASSEMBLES, repair=True)
cuda("triton of an older torch", installed("triton==3.3.0"), "triton", PIP_CHECK)
cuda("nvidia-cublas uninstalled", uninstalled("nvidia-cublas-cu12"), "cublas", repair=True)
cuda("nvidia-cudnn uninstalled", uninstalled("nvidia-cudnn-cu12"), "cudnn")
cuda("nvidia-cusparselt uninstalled", uninstalled("nvidia-cusparselt-cu12"), "cusparselt", repair=True)
cuda("cuDNN of cu13 came and went", twin("nvidia-cudnn-cu13==9.13.0.50"), "cudnn")
cuda("NCCL of cu13 came and went", twin("nvidia-nccl-cu13==2.27.7"), "nccl", repair=True)
cuda("cuSPARSELt of cu13 came and went", twin("nvidia-cusparselt-cu13==0.8.0"), "cusparselt", repair=True)
cuda("nvJitLink 12.1 under cuSPARSE 12.5", installed("nvidia-nvjitlink-cu12==12.1.105"), "nvjitlink", repair=True)
cuda("cuDNN 9.1 under a torch of cuDNN 9.10", installed("nvidia-cudnn-cu12==9.1.0.70"), "cudnn")
cuda("cuBLAS deleted by hand", removed("nvidia/cublas"), "cublas", repair=True)
cuda("pillow uninstalled", uninstalled("pillow"), "pillow", imports("torchvision"), repair=True)

add = CATALOGUE.add
VISION = {"torchvision-mismatch"}
OWN = {"framework-install-damaged"}
add("torchvision's own library deleted", "cuda-new", OWN, removed("torchvision/_C.so"), proof=NMS, repair=True)
add("torchvision of an older torch", "cuda-new", VISION, installed("torchvision==0.20.1"), proof=NMS, repair=True)
add("torchvision of a newer torch", "cuda-old", VISION, installed("torchvision==0.24.1"), proof=NMS)
add(
    "xformers of a newer torch",
    "cuda-old",
    {"xformers-mismatch"},
    installed("xformers==0.0.33.post1"),
    proof="import torch, xformers.ops, xformers._C",
)
add("jaxlib of an older jax", "rocm", NEEDED, installed("jaxlib==0.6.2"), names="jaxlib", proof=imports("jax"))
add(
    "the ROCm plugin of an older jax",
    "rocm",
    NEEDED,
    installed("jax-rocm7-plugin==0.9.2"),
    names="jax.rocm7",
    proof=PIP_CHECK,
    warning=True,
)
add("ml_dtypes uninstalled", "rocm", NEEDED, uninstalled("ml_dtypes"), names="ml.dtypes", proof=imports("jax"))
add(
    "the ROCm plugin's PJRT library uninstalled",
    "rocm",
    NEEDED,
    uninstalled("jax-rocm7-pjrt"),
    names="pjrt",
    proof=imports("jax_rocm7_plugin", "jax_plugins.xla_rocm7"),
)


@CATALOGUE.entry(
    "onnxruntime over onnxruntime-gpu",
    "cuda-new",
    {"ort-cpu-and-gpu-both"},
    names="onnxruntime",
    proof="import onnxruntime as o; assert 'CUDAExecutionProvider' in o.get_available_providers()",
)
def _(environment: Environment) -> None:
    environment.install("onnxruntime-gpu==1.22.0")
    environment.install("onnxruntime==1.22.0", "flatbuffers", "coloredlogs", "humanfriendly", "protobuf")


@CATALOGUE.entry(
    "Triton for ROCm over Triton",
    "cuda-new",
    OTHER_VERSION | {"triton-overwritten"},
    names="triton",
    warning=True,
    proof="import triton\nfrom importlib.metadata import version\nassert triton.__version__ == version('triton')",
)
def _(environment: Environment) -> None:
    """torch's index has the wheel; here an older Triton gets its name."""
    other = environment.unpacked("triton==3.3.0")
    environment.remove("triton")
    subprocess.run(["cp", "-al", other / "triton", environment.site], check=True)
    info = "pytorch_triton_rocm-3.3.0.dist-info"
    for name in ("METADATA", "RECORD", "WHEEL"):
        text = (other / "triton-3.3.0.dist-info" / name).read_text()
        text = text.replace("Name: triton", "Name: pytorch-triton-rocm").replace("triton-3.3.0.dist-info", info)
        environment.write(f"{info}/{name}", text)


@CATALOGUE.entry(
    "numpy 2 with a torch for numpy 1", "cuda-old", {"numpy2-old-torch"}, proof="import torch; torch.ones(2).numpy()"
)
def _(environment: Environment) -> None:
    environment.uninstall("torchvision", "xformers")
    environment.install("torch==2.2.2", "triton==2.2.0", "nvidia-cudnn-cu12==8.9.2.26", "nvidia-nccl-cu12==2.19.3")
