"""What torch and its companions need: absent, old, emptied, of another version."""

from __future__ import annotations

from pathlib import Path

from tests.support.broken_environments.entries import COMPILE, TORCH, Breaks, Catalogue, imports
from tests.support.broken_environments.environment import Environment

CATALOGUE = Catalogue("1 requirements")
NEEDED = {"requirements-not-met", "torch-import-fails", "torch-install-damaged", "framework-cuda-libs-missing"}
OTHER_VERSION = NEEDED | {"cudnn-mismatch", "ld-library-path-shadow", "triton-too-old"}


def uninstalled(name: str) -> Breaks:
    return lambda environment: environment.uninstall(name)


def installed(requirement: str) -> Breaks:
    return lambda environment: environment.install(requirement)


def twin(other: str) -> Breaks:
    """Install a wheel that writes into the same folder, and take it away again."""

    def breaks(environment: Environment) -> None:
        environment.install(other)
        environment.uninstall(other.partition("==")[0])

    return breaks


def removed(*patterns: str) -> Breaks:
    return lambda environment: environment.remove(*patterns)


PIP_CHECK = "import runpy, sys\nsys.argv = ['pip', 'check']\nrunpy.run_module('pip', run_name='__main__')"
"""For what only some function of torch imports: pip says that it is broken."""

add = CATALOGUE.add
add(
    "typing_extensions uninstalled",
    "cpu",
    NEEDED,
    uninstalled("typing_extensions"),
    names="typing.extensions",
    repair=True,
)
add(
    "typing_extensions 3.7",
    "cpu",
    NEEDED,
    installed("typing_extensions==3.7.4.3"),
    names="typing.extensions",
    repair=True,
)
add("sympy uninstalled", "cpu", NEEDED, uninstalled("sympy"), names="sympy", proof=COMPILE, warning=True, repair=True)
add("sympy 1.5", "cpu", NEEDED, installed("sympy==1.5.1"), names="sympy", proof=COMPILE, warning=True, repair=True)
add("sympy emptied", "cpu", NEEDED, removed("sympy"), names="sympy", proof=COMPILE, warning=True, repair=True)
add("mpmath uninstalled", "cpu", NEEDED, uninstalled("mpmath"), names="mpmath", proof=COMPILE, warning=True)
add("networkx uninstalled", "cpu", NEEDED, uninstalled("networkx"), names="networkx", proof=COMPILE, warning=True)
add(
    "jinja2 uninstalled",
    "cpu",
    NEEDED,
    uninstalled("jinja2"),
    names="jinja2",
    proof=imports("jinja2"),
    warning=True,
)
add(
    "markupsafe uninstalled",
    "cpu",
    NEEDED,
    uninstalled("markupsafe"),
    names="markupsafe",
    proof=imports("jinja2"),
    warning=True,
)
add(
    "filelock emptied",
    "cpu",
    NEEDED,
    removed("filelock"),
    names="filelock",
    proof=imports("torch.utils.cpp_extension", "filelock"),
    warning=True,
)
add(
    "fsspec uninstalled",
    "cpu",
    NEEDED,
    uninstalled("fsspec"),
    names="fsspec",
    proof=imports("torch.distributed.checkpoint", "fsspec"),
    warning=True,
)
add("networkx 2.4", "cpu", NEEDED, installed("networkx==2.4"), names="networkx", proof=PIP_CHECK, warning=True)

add("triton uninstalled", "cuda-new", NEEDED, uninstalled("triton"), names="triton", proof=PIP_CHECK, warning=True)
add(
    "triton emptied",
    "cuda-new",
    NEEDED,
    removed("triton"),
    names="triton",
    proof=imports("triton.language"),
    warning=True,
)
add(
    "triton of an older torch",
    "cuda-new",
    OTHER_VERSION,
    installed("triton==3.3.0"),
    names="triton",
    proof=PIP_CHECK,
    warning=True,
)
add(
    "nvidia-cublas uninstalled",
    "cuda-new",
    NEEDED,
    uninstalled("nvidia-cublas-cu12"),
    names="cublas",
    repair=True,
)
add("nvidia-cudnn uninstalled", "cuda-new", NEEDED, uninstalled("nvidia-cudnn-cu12"), names="cudnn")
add(
    "nvidia-cusparselt uninstalled",
    "cuda-new",
    NEEDED,
    uninstalled("nvidia-cusparselt-cu12"),
    names="cusparselt",
    repair=True,
)
add(
    "cuDNN of cu13 came and went",
    "cuda-new",
    NEEDED,
    twin("nvidia-cudnn-cu13==9.13.0.50"),
    names="cudnn",
)
add(
    "NCCL of cu13 came and went",
    "cuda-new",
    NEEDED,
    twin("nvidia-nccl-cu13==2.27.7"),
    names="nccl",
    repair=True,
)
add(
    "cuSPARSELt of cu13 came and went",
    "cuda-new",
    NEEDED,
    twin("nvidia-cusparselt-cu13==0.8.0"),
    names="cusparselt",
    repair=True,
)
add(
    "nvJitLink 12.1 under cuSPARSE 12.5",
    "cuda-new",
    OTHER_VERSION,
    installed("nvidia-nvjitlink-cu12==12.1.105"),
    names="nvjitlink",
    repair=True,
)
add(
    "cuDNN 9.1 under a torch of cuDNN 9.10",
    "cuda-new",
    OTHER_VERSION,
    installed("nvidia-cudnn-cu12==9.1.0.70"),
    names="cudnn",
)
add(
    "torchvision of an older torch",
    "cuda-new",
    {"torchvision-mismatch"},
    installed("torchvision==0.20.1"),
    names="torchvision",
    proof="import torchvision; import torch; torchvision.ops.nms(torch.rand(4, 4), torch.rand(4), 0.5)",
    repair=True,
)
add(
    "torchvision of a newer torch",
    "cuda-old",
    {"torchvision-mismatch"},
    installed("torchvision==0.24.1"),
    names="torchvision",
    proof="import torchvision; import torch; torchvision.ops.nms(torch.rand(4, 4), torch.rand(4), 0.5)",
)
add(
    "xformers of a newer torch",
    "cuda-old",
    {"xformers-mismatch"},
    installed("xformers==0.0.33.post1"),
    names="xformers",
    proof="import torch, xformers.ops as x; q = torch.rand(1, 8, 1, 8); import xformers._C",
)
add(
    "pillow uninstalled",
    "cuda-new",
    NEEDED,
    uninstalled("pillow"),
    names="pillow",
    proof=imports("torchvision"),
    warning=True,
)
add("jaxlib of an older jax", "rocm", NEEDED, installed("jaxlib==0.6.2"), names="jaxlib", proof=imports("jax"))
add("ml_dtypes uninstalled", "rocm", NEEDED, uninstalled("ml_dtypes"), names="ml.dtypes", proof=imports("jax"))
add(
    "the ROCm plugin's PJRT library uninstalled",
    "rocm",
    NEEDED,
    uninstalled("jax-rocm7-pjrt"),
    names="pjrt",
    proof=imports("jax_plugins.xla_rocm7"),
)


@CATALOGUE.entry("numpy half deleted", "cpu", NEEDED, names="numpy", proof=f"{TORCH}\nimport numpy", repair=True)
def _(environment: Environment) -> None:
    environment.remove("numpy/_core/*.py")


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


def site_of(base: Path) -> Path:
    return next(base.glob("lib/python3*/site-packages"))
