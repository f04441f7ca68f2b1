"""Other modules and other libraries are found first."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable

from tests.support.broken_environments.entries import NOT_TORCH, TORCH, Breaks, Catalogue
from tests.support.broken_environments.environment import Environment

CATALOGUE = Catalogue("5 shadowing")
SHADOWED = {"torch-shadowed", "module-shadowed"}


def working_folder(module: str, content: str) -> Breaks:
    return lambda environment: environment.module(environment.folder, module, content)


def python_path(module: str, content: str) -> Breaks:
    def breaks(environment: Environment) -> None:
        environment.module(environment.beside / "scripts", module, content)
        environment.variables["PYTHONPATH"] = str(environment.beside / "scripts")

    return breaks


def named(module: str) -> str:
    return rf"{re.escape(module)}(\.py|/)"


def shadow(where: Callable[[str, str], Breaks], module: str, place: str, content: str = "VALUE = 1\n") -> None:
    """The working folder counts for `python -c`, `-m` and notebooks, not for a script elsewhere."""
    name, mild = f"{module}.py {place}", where is working_folder
    CATALOGUE.add(name, "cpu", SHADOWED, where(module, content), names=named(module), fix=NOT_TORCH, warning=mild)


for name in ("queue", "numbers", "random", "types", "copy"):
    shadow(working_folder, name, "in the working folder")
for name in ("typing", "logging", "inspect", "platform"):
    shadow(python_path, name, "on PYTHONPATH")
shadow(working_folder, "torch", "in the working folder", "print('my first network')\n")
CATALOGUE.add(
    "numpy.py in the working folder",
    "cpu",
    SHADOWED,
    working_folder("numpy", "def array(*values): return values\n"),
    names=named("numpy"),
    fix=NOT_TORCH,
    proof=TORCH + "torch.ones(2).numpy()",
    warning=True,
)


@CATALOGUE.entry("a checkout of torch is the working folder", "cpu", SHADOWED, names="torch", warning=True)
def _(environment: Environment) -> None:
    folder = environment.folder / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_bytes((environment.torch / "__init__.py").read_bytes())
    (folder / "version.py.tpl").write_text("")


@CATALOGUE.entry(
    "a .pth file puts a folder first", "cpu", SHADOWED | {"torch-import-fails"}, names=named("queue"), fix=NOT_TORCH
)
def _(environment: Environment) -> None:
    environment.module(environment.beside / "mine", "queue")
    environment.write("mine.pth", f"import sys; sys.path.insert(0, {str(environment.beside / 'mine')!r})\n")


@CATALOGUE.entry(
    "PYTHONPATH names the packages of another Python",
    "cuda-new",
    SHADOWED | {"torch-import-fails"},
    names="numpy|PYTHONPATH",
    proof=TORCH + "import numpy",
)
def _(environment: Environment) -> None:
    other = environment.beside / "lib" / "python3.11" / "site-packages"
    other.mkdir(parents=True)
    wheel = ("--python-version", "3.11", "--only-binary=:all:", "--target", str(other))
    environment.pip("install", "-q", "--no-deps", *wheel, "numpy==2.2.6")
    environment.variables["PYTHONPATH"] = str(other)


@CATALOGUE.entry(
    "PYTHONPATH names a damaged copy of the venv's torch",
    "cpu",
    {"torch-import-fails", "torch-install-damaged"},
    names="/other/",
    fix="[Uu]nset PYTHONPATH",
)
def _(environment: Environment) -> None:
    other = environment.beside / "other"
    other.mkdir()
    for part in (environment.torch, environment.dist_info("torch")):
        shutil.copytree(part, other / part.name, copy_function=os.link)
    (other / "torch/functional.py").unlink()
    environment.variables["PYTHONPATH"] = str(other)


@CATALOGUE.entry(
    "the user site has an older typing_extensions",
    "cpu",
    SHADOWED | {"torch-import-fails", "requirements-incomplete"},
    names="typing.extensions",
    fix=NOT_TORCH,
)
def _(environment: Environment) -> None:
    environment.setting("include-system-site-packages", "true")
    environment.uninstall("typing_extensions")
    user = environment.beside / "home" / ".local" / "lib" / environment.site.parent.name / "site-packages"
    environment.pip("install", "-q", "--no-deps", "--target", str(user), "typing_extensions==3.7.4.3")
    environment.variables["HOME"] = str(environment.beside / "home")


@CATALOGUE.entry(
    "a venv above the system's torch has an older typing_extensions",
    "cpu",
    SHADOWED | {"torch-import-fails", "requirements-incomplete"},
    names="typing.extensions",
    fix=NOT_TORCH,
)
def _(environment: Environment) -> None:
    older = environment.beside / "older"
    environment.pip("install", "-q", "--no-deps", "--target", str(older), "typing_extensions==3.7.4.3")
    environment.into_the_system()
    for part in older.iterdir():
        part.rename(environment.site / part.name)


LATE = Catalogue("6 libraries opened late")
LIBRARY = {"ld-library-path-shadow", "cudnn-mismatch", "torch-import-fails"}
NVRTC = """
import ctypes, torch, glob, os
root = os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "nvidia/cuda_nvrtc/lib")
nvrtc = ctypes.CDLL(os.path.join(root, "libnvrtc.so.12"))
program, code = ctypes.c_void_p(), b"__global__ void f(float *x) { *x = 1; }"
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), code, b"f", 0, None, None) == 0
assert nvrtc.nvrtcCompileProgram(program, 0, None) == 0, "NVRTC cannot compile"
"""

WHEELS_CUBLAS = (
    TORCH
    + """
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "libcublas.so" in line}
assert all("site-packages" in path for path in loaded), f"{loaded} is loaded, not the wheel's"
"""
)


def library_path(requirement: str, folder: str, only: str = "*") -> Breaks:
    return lambda environment: environment.library_path(requirement, folder, only)


CUDNN_91 = "nvidia-cudnn-cu12==9.1.0.70"
late = LATE.add
late("cuDNN 9.1 on LD_LIBRARY_PATH", "cuda-new", LIBRARY, library_path(CUDNN_91, "cudnn"), names="cudnn")
late(
    "sublibraries of cuDNN 9.1 on LD_LIBRARY_PATH",
    "cuda-new",
    LIBRARY,
    library_path(CUDNN_91, "cudnn", "libcudnn_*"),
    names="cudnn",
)
late(
    "nvJitLink 12.1 on LD_LIBRARY_PATH",
    "cuda-old",
    LIBRARY,
    library_path("nvidia-nvjitlink-cu12==12.1.105", "nvjitlink"),
    names="nvjitlink",
)


@LATE.entry(
    "cuBLAS 12.1 on LD_PRELOAD",
    "cuda-new",
    LIBRARY,
    names="cublas|LD_PRELOAD",
    proof=WHEELS_CUBLAS,
    warning=True,
)
def _(environment: Environment) -> None:
    place = environment.unpacked("nvidia-cublas-cu12==12.1.3.1") / "nvidia" / "cublas" / "lib"
    environment.variables["LD_PRELOAD"] = f"{place}/libcublasLt.so.12:{place}/libcublas.so.12"


@LATE.entry(
    "NVRTC without its builtins",
    "cuda-new",
    LIBRARY | {"requirements-incomplete", "torch-install-damaged"},
    names="nvrtc",
    proof=NVRTC,
)
def _(environment: Environment) -> None:
    environment.remove("nvidia/cuda_nvrtc/lib/libnvrtc-builtins*")


@LATE.entry(
    "a sublibrary of cuDNN deleted",
    "cuda-new",
    LIBRARY | {"requirements-incomplete"},
    names="cudnn",
)
def _(environment: Environment) -> None:
    environment.remove("nvidia/cudnn/lib/libcudnn_graph.so.9")
