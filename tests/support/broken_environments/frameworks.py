"""JAX, ONNX Runtime, TensorFlow, CuPy, numba-cuda, CTranslate2 and bitsandbytes: without what they need, beside what
they do not go with, on machines that they have no code for."""

from __future__ import annotations

from collections.abc import Collection

from tests.support.broken_environments import framework_proofs as proofs
from tests.support.broken_environments.bases import NVIDIA
from tests.support.broken_environments.entries import Breaks, Catalogue
from tests.support.broken_environments.environment import Environment
from tests.support.broken_environments.requirements import installed, removed, twin, uninstalled

CATALOGUE = Catalogue("7 frameworks")

LIBRARIES = {"framework-cuda-libs-missing", "requirements-incomplete"}
DAMAGED = LIBRARIES | {"torch-install-damaged", "framework-install-damaged"}
CPU, VENDOR, VARIABLE = {"framework-cpu-only"}, {"framework-other-vendor"}, {"framework-variable"}
TWICE, NO_CODE, DRIVER = {"packages-overwrite-each-other"}, {"ext-built-without-gpu-arch"}, {"driver-too-old"}
OLDER = {"cudnn-mismatch", "framework-library-too-old", "ld-library-path-shadow"}

PROOFS = {
    "jax-12": proofs.JAX,
    "jax-13": proofs.JAX,
    "rocm": proofs.JAX_ROCM,
    "onnxruntime": "import onnxruntime\nonnxruntime.get_available_providers()",
    "onnxruntime-12": proofs.ONNXRUNTIME,
    "onnxruntime-13": proofs.ONNXRUNTIME,
    "tensorflow": proofs.TENSORFLOW,
    "cupy-12": proofs.CUPY,
    "cupy-13": proofs.CUPY,
    "numba-12": proofs.NUMBA,
    "numba-13": proofs.NUMBA,
    "ctranslate2": proofs.CTRANSLATE2,
    "bitsandbytes": proofs.BITSANDBYTES,
}


def gpu(name: str, driver: str = "580.82.07") -> tuple[str, ...]:
    return ("--gpu", name, "--driver", driver)


AMD = ("--gpu", "RX 7900 XTX")


def broken(name: str, kind: str, causes: Collection[str], breaks: Breaks, **more: object) -> None:
    CATALOGUE.add(name, kind, causes, breaks, **{"proof": PROOFS[kind], "limit": 180, **more})


def lacks(name: str, kind: str, breaks: Breaks, names: str, **more: object) -> None:
    """Something that it needs is not there; pip brings it back."""
    broken(name, kind, LIBRARIES, breaks, names=names, **{"fix": names, "repair": True, **more})


def elsewhere(name: str, kind: str, causes: Collection[str], machine: tuple[str, ...], **more: object) -> None:
    """An untouched environment for a machine that it does not serve: that shows on such a machine alone."""
    broken(name, kind, causes, untouched, machine=machine, visible=False, **more)


def untouched(environment: Environment) -> None:
    pass


def variable(name: str, value: str) -> Breaks:
    def breaks(environment: Environment) -> None:
        environment.variables[name] = value
        environment.described[name] = value

    return breaks


def all_of(*several: Breaks) -> Breaks:
    def breaks(environment: Environment) -> None:
        for one in several:
            one(environment)

    return breaks


def replaced(old: str, *new: str) -> Breaks:
    return all_of(uninstalled(old), lambda environment: environment.install(*new))


def without_nvidia_wheels(environment: Environment) -> None:
    environment.uninstall(*(path.name.split("-")[0] for path in environment.site.glob("nvidia_*.dist-info")))


def cut(pattern: str) -> Breaks:
    def breaks(environment: Environment) -> None:
        library = next(environment.site.glob(pattern))
        environment.cut(str(library.relative_to(environment.site)), 100_000)

    return breaks


def library_path(requirement: str, folder: str, only: str = "*") -> Breaks:
    return lambda environment: environment.library_path(requirement, folder, only)


# --- JAX -----------------------------------------------------------------------------------------


def without_plugin(major: str) -> Breaks:
    return all_of(uninstalled(f"jax-cuda{major}-plugin"), uninstalled(f"jax-cuda{major}-pjrt"))


DEVICES = "import jax\njax.devices()"

broken(
    "JAX without its plugin, and a driver for CUDA 12",
    "jax-12",
    CPU,
    without_plugin("12"),
    machine=gpu("RTX 4090", "570.86.15"),
    names="CPU build",
    fix=r"jax\[cuda12\]==0\.12",
    warning=True,
    repair=True,
)
broken(
    "JAX without its plugin, and a GPU that CUDA 13 dropped",
    "jax-12",
    CPU,
    without_plugin("12"),
    machine=gpu("GTX 1080"),
    fix=r"jax\[cuda12\]==0\.12",
    warning=True,
)
broken(
    "JAX with its plugin's library alone",
    "jax-13",
    CPU | LIBRARIES,
    uninstalled("jax-cuda13-plugin"),
    fix=r"jax\[cuda13\]|jax-cuda13-plugin",
    warning=True,
    repair=True,
)
lacks("JAX without its plugin's library", "jax-13", uninstalled("jax-cuda13-pjrt"), "jax-cuda13-pjrt")
lacks("JAX without cuDNN", "jax-12", uninstalled("nvidia-cudnn-cu12"), r"cudnn|jax\[cuda12\]")
lacks("JAX without cuSPARSE", "jax-12", uninstalled("nvidia-cusparse-cu12"), r"cusparse|jax\[cuda12\]")
lacks("JAX with cuDNN deleted by hand", "jax-13", removed("nvidia/cudnn"), "cudnn")
lacks("JAX after cuDNN of cu13 came and went", "jax-12", twin("nvidia-cudnn-cu13==9.13.0.50"), "cudnn")
lacks("JAX without ml_dtypes", "jax-12", uninstalled("ml_dtypes"), "ml.dtypes")
lacks("JAX without NumPy", "jax-13", uninstalled("numpy"), "numpy")
broken("JAX with cuBLAS cut short", "jax-13", DAMAGED, cut("nvidia/cu13/lib/libcublas.so.13"), names="cublas")
broken("JAX with cuDNN emptied", "jax-12", DAMAGED, cut("nvidia/cudnn/lib/libcudnn_ops.so.9"), names="cudnn")
broken(
    "JAX with a plugin of an older release",
    "jax-12",
    {"jax-plugin-mismatch"},
    installed("jax-cuda12-plugin==0.10.2"),
    names="jax-cuda12-plugin",
    fix=r"jax-cuda12-plugin==0\.12\.0\.1",
    repair=True,
)
broken(
    "JAX with an older cuDNN",
    "jax-12",
    OLDER,
    installed("nvidia-cudnn-cu12==9.1.0.70"),
    names="cudnn",
    fix="nvidia-cudnn-cu12",
    repair=True,
)
broken(
    "JAX with an nvJitLink older than cuSPARSE needs",
    "jax-12",
    OLDER | LIBRARIES,
    installed("nvidia-nvjitlink-cu12==12.1.105"),
    names="nvjitlink",
    fix="nvidia-nvjitlink-cu12",
    repair=True,
)
broken(
    "JAX with an older jaxlib",
    "jax-13",
    LIBRARIES | {"jax-plugin-mismatch"},
    installed("jaxlib==0.10.2"),
    names="jaxlib",
    fix="jaxlib",
    repair=True,
)
broken(
    "cuDNN of CUDA 12 and of CUDA 13 with JAX",
    "jax-12",
    TWICE,
    installed("nvidia-cudnn-cu13==9.13.0.50"),
    names="cudnn",
    fix="Keep only nvidia-cudnn-cu12",
    warning=True,
    visible=False,
    repair=True,
)
broken("JAX_PLATFORMS=cpu", "jax-13", VARIABLE, variable("JAX_PLATFORMS", "cpu"), warning=True, visible=False)
broken(
    "JAX_PLATFORMS=cuda without a plugin",
    "jax-12",
    VARIABLE | CPU,
    all_of(without_plugin("12"), variable("JAX_PLATFORMS", "cuda")),
    proof=DEVICES,
)
elsewhere("JAX for CUDA 13 on a driver for CUDA 12", "jax-13", DRIVER, gpu("RTX 4090", "570.86.15"))
elsewhere("JAX for CUDA 12 on driver 470", "jax-12", DRIVER, gpu("RTX 3090", "470.256.02"))
elsewhere("JAX for CUDA 13 on a GTX 1080", "jax-13", NO_CODE, gpu("GTX 1080"), fix=r"jax\[cuda12\]", repair=True)
elsewhere("JAX for CUDA 13 on a V100", "jax-13", NO_CODE, gpu("Tesla V100"), fix=r"jax\[cuda12\]")
elsewhere("JAX for CUDA on an AMD GPU", "jax-12", VENDOR, AMD, fix="rocm")
elsewhere("JAX for ROCm on an NVIDIA GPU", "rocm", VENDOR, gpu("RTX 4090"), fix=r"jax\[cuda13\]")

# --- ONNX Runtime --------------------------------------------------------------------------------

BOTH = {"ort-cpu-and-gpu-both"}
WITHOUT_GPU = {"gpu": False, "level": "static"}
lacks("a CPU build of ONNX Runtime without NumPy", "onnxruntime", uninstalled("numpy"), "numpy", **WITHOUT_GPU)
broken(
    "a CPU build of ONNX Runtime cut short",
    "onnxruntime",
    DAMAGED,
    cut("onnxruntime/capi/onnxruntime_pybind11_state*.so"),
    names="onnxruntime_pybind11_state",
    fix="--force-reinstall --no-deps onnxruntime==",
    warning=True,
    repair=True,
    **WITHOUT_GPU,
)
elsewhere("a CPU build of ONNX Runtime that was asked for", "onnxruntime", CPU, NVIDIA, warning=True)
broken(
    "onnxruntime over onnxruntime-gpu in one release",
    "onnxruntime-12",
    BOTH,
    installed("onnxruntime==1.22.0"),
    fix="Keep only onnxruntime-gpu",
    repair=True,
)
broken(
    "onnxruntime-gpu over onnxruntime",
    "onnxruntime-13",
    BOTH,
    all_of(replaced("onnxruntime-gpu", "onnxruntime==1.30.0"), installed("onnxruntime-gpu==1.31.1")),
    fix="Keep only onnxruntime-gpu",
    visible=False,
    repair=True,
)
broken(
    "onnxruntime came and went",
    "onnxruntime-12",
    DAMAGED,
    twin("onnxruntime==1.22.0"),
    names="onnxruntime",
    fix="onnxruntime-gpu==1.22.0",
    repair=True,
)
broken(
    "onnxruntime that was asked for, on a GPU",
    "onnxruntime-12",
    CPU,
    replaced("onnxruntime-gpu", "onnxruntime==1.22.0"),
    fix="onnxruntime-gpu",
    warning=True,
)
lacks("ONNX Runtime without cuDNN", "onnxruntime-12", uninstalled("nvidia-cudnn-cu12"), "cudnn|onnxruntime-gpu")
lacks(
    "ONNX Runtime with cuBLAS deleted by hand", "onnxruntime-12", removed("nvidia/cublas"), "cublas|onnxruntime-gpu"
)
lacks("ONNX Runtime without NumPy", "onnxruntime-12", uninstalled("numpy"), "numpy")
lacks(
    "ONNX Runtime without flatbuffers",
    "onnxruntime-13",
    uninstalled("flatbuffers"),
    "flatbuffers",
    warning=True,
    proof="import flatbuffers",
)
broken(
    "ONNX Runtime for CUDA 13 beside libraries of CUDA 12",
    "onnxruntime-12",
    LIBRARIES,
    installed("onnxruntime-gpu==1.31.1"),
    names=r"\.so\.13",
    fix="onnxruntime-gpu",
)
broken(
    "ONNX Runtime for CUDA 12 beside libraries of CUDA 13",
    "onnxruntime-13",
    LIBRARIES,
    installed("onnxruntime-gpu==1.22.0"),
    names=r"\.so\.12",
    fix="onnxruntime-gpu",
)
broken(
    "an ONNX Runtime that does not look into NVIDIA's wheels",
    "onnxruntime-12",
    LIBRARIES,
    installed("onnxruntime-gpu==1.20.2"),
    names="libcu",
    fix="LD_LIBRARY_PATH",
)
broken(
    "an ONNX Runtime for NumPy 1",
    "onnxruntime-12",
    {"numpy2-old-torch", "numpy-mismatch", "requirements-incomplete"},
    installed("onnxruntime-gpu==1.18.1"),
    names="numpy",
    fix="numpy",
)
broken(
    "the CUDA provider of ONNX Runtime deleted",
    "onnxruntime-12",
    DAMAGED,
    removed("onnxruntime/capi/libonnxruntime_providers_cuda.so"),
    names="onnxruntime",
    fix="onnxruntime-gpu==1.22.0",
    repair=True,
)
broken(
    "ONNX Runtime for AMD GPUs on an NVIDIA GPU",
    "onnxruntime-12",
    VENDOR,
    replaced("onnxruntime-gpu", "onnxruntime-migraphx"),
    fix="onnxruntime-gpu",
)
elsewhere("ONNX Runtime on a GB10", "onnxruntime-13", NO_CODE, gpu("GB10", "580.95.05"))
elsewhere("ONNX Runtime on a B200", "onnxruntime-13", NO_CODE, gpu("B200"))
elsewhere("ONNX Runtime for CUDA 13 on a V100", "onnxruntime-13", NO_CODE, gpu("Tesla V100"))
elsewhere("ONNX Runtime for CUDA 13 on driver 550", "onnxruntime-13", DRIVER, gpu("A100", "550.54.15"))
elsewhere("ONNX Runtime for CUDA 12 on driver 470", "onnxruntime-12", DRIVER, gpu("RTX 3060", "470.256.02"))
elsewhere("ONNX Runtime for CUDA on an AMD GPU", "onnxruntime-12", VENDOR, AMD, fix="onnxruntime-migraphx")

# --- TensorFlow ----------------------------------------------------------------------------------

lacks("TensorFlow without its extra", "tensorflow", without_nvidia_wheels, "cud", fix=r"tensorflow\[and-cuda\]")
lacks("TensorFlow without cuDNN", "tensorflow", uninstalled("nvidia-cudnn-cu12"), r"cudnn|tensorflow\[and-cuda\]")
lacks("TensorFlow with cuDNN deleted by hand", "tensorflow", removed("nvidia/cudnn"), "cudnn")
lacks("TensorFlow with cuSOLVER deleted by hand", "tensorflow", removed("nvidia/cusolver"), "cusolver")
lacks("TensorFlow without protobuf", "tensorflow", uninstalled("protobuf"), "protobuf")
lacks("TensorFlow without NumPy", "tensorflow", uninstalled("numpy"), "numpy")
broken(
    "TensorFlow with an older cuDNN",
    "tensorflow",
    OLDER,
    installed("nvidia-cudnn-cu12==9.1.0.70"),
    names="cudnn",
    fix="nvidia-cudnn-cu12",
    repair=True,
)
broken(
    "TensorFlow, and LD_LIBRARY_PATH names an older cuDNN",
    "tensorflow",
    OLDER,
    library_path("nvidia-cudnn-cu12==9.1.0.70", "cudnn"),
    names="cudnn",
    fix="LD_LIBRARY_PATH",
)
broken(
    "tensorflow-cpu over tensorflow",
    "tensorflow",
    TWICE,
    installed("tensorflow-cpu==2.21.0"),
    fix="Keep only tensorflow",
)
broken(
    "tensorflow-cpu on a GPU",
    "tensorflow",
    CPU,
    replaced("tensorflow", "tensorflow-cpu==2.21.0"),
    fix=r"tensorflow\[and-cuda\]",
    warning=True,
)
elsewhere("TensorFlow on driver 470", "tensorflow", DRIVER, gpu("RTX 3090", "470.256.02"))
elsewhere("TensorFlow on a GTX 960", "tensorflow", NO_CODE, gpu("GTX 960"), fix=r"tensorflow.*2\.17", warning=True)
elsewhere("TensorFlow on an AMD GPU", "tensorflow", VENDOR, AMD)

# --- CuPy ----------------------------------------------------------------------------------------

broken(
    "cupy-cuda13x beside cupy-cuda12x",
    "cupy-12",
    TWICE,
    installed("cupy-cuda13x==14.2.0"),
    names="cupy-cuda12x",
    fix="Keep only cupy-cuda12x",
    warning=True,
    repair=True,
)
broken(
    "cupy-cuda13x beside cupy-cuda12x on a driver for CUDA 12",
    "cupy-12",
    TWICE | DRIVER,
    installed("cupy-cuda13x==14.2.0"),
    machine=gpu("RTX 4090", "550.54.15"),
    fix=r"uninstall -y cupy-cuda13x;.*--force-reinstall --no-deps cupy-cuda12x",
    warning=True,
    repair=True,
)
broken(
    "cupy-cuda12x beside libraries of CUDA 13",
    "cupy-13",
    LIBRARIES,
    replaced("cupy-cuda13x", "cupy-cuda12x==14.2.0"),
    names=r"\.so\.12|libcufft\.so\.11",
    fix="cupy-cuda1",
)
broken(
    "CuPy for CUDA 12 beside a library of CUDA 13",
    "cupy-12",
    LIBRARIES,
    installed("nvidia-cufft==12.*"),
    names=r"libcufft\.so\.11",
    fix="cupy-cuda13x",
)
lacks("CuPy without NVRTC", "cupy-12", uninstalled("nvidia-cuda-nvrtc-cu12"), r"nvrtc|cupy-cuda12x\[ctk\]")
lacks("CuPy with cuBLAS deleted by hand", "cupy-12", removed("nvidia/cublas"), r"cublas|cupy-cuda12x\[ctk\]")
lacks("CuPy without NumPy", "cupy-13", uninstalled("numpy"), "numpy")
lacks(
    "CuPy with NVRTC and without its builtins",
    "cupy-12",
    removed("nvidia/cuda_nvrtc/lib/libnvrtc-builtins*"),
    "nvrtc",
)
broken(
    "CuPy for ROCm on an NVIDIA GPU",
    "cupy-12",
    VENDOR,
    replaced("cupy-cuda12x", "cupy-rocm-7-0==14.2.0"),
    fix="cupy-cuda1",
)
elsewhere("CuPy for CUDA 13 on driver 550", "cupy-13", DRIVER, gpu("RTX 4090", "550.54.15"))
elsewhere("CuPy for CUDA 13 on a V100", "cupy-13", NO_CODE, gpu("Tesla V100"), fix="cupy-cuda12x", repair=True)
elsewhere("CuPy for CUDA on an AMD GPU", "cupy-12", VENDOR, AMD, fix="cupy-rocm")

# --- numba-cuda, CTranslate2, bitsandbytes -------------------------------------------------------

lacks("numba-cuda without NVRTC", "numba-12", uninstalled("nvidia-cuda-nvrtc-cu12"), r"nvrtc|numba-cuda\[cu12\]")
lacks("numba-cuda without cuda-bindings", "numba-12", uninstalled("cuda-bindings"), r"cuda-bindings|numba-cuda\[")
lacks("numba-cuda without Numba", "numba-13", uninstalled("numba"), "numba")
broken("NUMBA_ENABLE_CUDASIM=1", "numba-12", VARIABLE, variable("NUMBA_ENABLE_CUDASIM", "1"), warning=True)
broken("NUMBA_DISABLE_CUDA=1", "numba-12", VARIABLE, variable("NUMBA_DISABLE_CUDA", "1"), warning=True)
elsewhere("numba-cuda for CUDA 13 on driver 550", "numba-13", DRIVER, gpu("A100", "550.54.15"))
broken(
    "CTranslate2, which does not look into NVIDIA's wheels",
    "ctranslate2",
    LIBRARIES,
    untouched,
    names="libcublas",
    fix="LD_LIBRARY_PATH",
    warning=True,
)
broken(
    "CTranslate2 without cuBLAS",
    "ctranslate2",
    LIBRARIES,
    uninstalled("nvidia-cublas-cu12"),
    names="libcublas",
    fix="cublas|CUDA 12",
    warning=True,
)
broken(
    "bitsandbytes without a library for this CUDA",
    "bitsandbytes",
    {"bitsandbytes-no-cuda-lib"} | DAMAGED,
    removed("bitsandbytes/libbitsandbytes_cuda12*.so"),
    names="bitsandbytes",
    fix="bitsandbytes",
    repair=True,
)
broken(
    "bitsandbytes with its library for this CUDA cut short",
    "bitsandbytes",
    DAMAGED,
    cut("bitsandbytes/libbitsandbytes_cuda128.so"),
    names="bitsandbytes",
    fix="bitsandbytes==",
    repair=True,
)
broken(
    "a bitsandbytes that is older than this CUDA",
    "bitsandbytes",
    {"bitsandbytes-no-cuda-lib"},
    installed("bitsandbytes==0.43.3"),
    names="bitsandbytes",
    fix="bitsandbytes",
    repair=True,
)
broken(
    "xformers for the next torch",
    "bitsandbytes",
    {"xformers-mismatch"},
    installed("xformers==0.0.35"),
    names="xformers",
    fix="xformers",
    proof="import torch, xformers.ops, xformers._C",
)
