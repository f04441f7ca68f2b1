"""Imports beside that of torch fail, and the failing file tells whose fault it is; and what stops a repair."""

from __future__ import annotations

import shutil

from tests.support.broken_environments.entries import NOT_TORCH, Catalogue, imports
from tests.support.broken_environments.environment import Environment

CATALOGUE = Catalogue("8 imports beside torch")
FAILS = {"framework-import-fails", "framework-install-damaged", "requirements-incomplete"}
VISION = imports("torchvision")
ONNXRUNTIME = imports("onnxruntime") + "\nonnxruntime.get_available_providers()"

entry = CATALOGUE.entry


@entry("PIL/Image.py empty", "cuda-new", FAILS, names="(?i)pil", fix=NOT_TORCH, proof=VISION, repair=True)
def _(environment: Environment) -> None:
    environment.write("PIL/Image.py", b"")


@entry(
    "a module of torch.compile empty",
    "cuda-new",
    {"torch-install-damaged"},
    names="compile_fx",
    proof="from torch._inductor.compile_fx import compile_fx",
    warning=True,
)
def _(environment: Environment) -> None:
    environment.write("torch/_inductor/compile_fx.py", b"")


@entry("a merge conflict in onnxruntime", "onnxruntime", FAILS, names="__init__", proof=ONNXRUNTIME, repair=True)
def _(environment: Environment) -> None:
    text = (environment.site / "onnxruntime/__init__.py").read_text()
    environment.write("onnxruntime/__init__.py", f"<<<<<<< HEAD\n{text}")


@entry("NumPy's folder without its files", "onnxruntime", FAILS, names="numpy", proof=ONNXRUNTIME, repair=True)
def _(environment: Environment) -> None:
    environment.uninstall("numpy")
    environment.write("numpy/__pycache__/left.cpython-311.pyc", b"")


@entry("a file onnxruntime.py on PYTHONPATH", "onnxruntime", {"module-shadowed", *FAILS}, proof=ONNXRUNTIME)
def _(environment: Environment) -> None:
    environment.module(environment.beside / "own", "onnxruntime", "raise ImportError('mine')\n")
    environment.variables["PYTHONPATH"] = str(environment.beside / "own")


@entry(
    "a link that leads nowhere in place of cuDNN",
    "cuda-new",
    {"requirements-incomplete", "torch-import-fails"},
    names="cudnn",
    fix="rm -f .*cudnn",
)
def _(environment: Environment) -> None:
    environment.remove("nvidia/cudnn")
    (environment.site / "nvidia/cudnn").symlink_to("/mnt/gone/cudnn")


@entry(
    "torchvision of another torch, and a pip without its files",
    "cuda-new",
    {"torchvision-mismatch"},
    fix="ensurepip",
    proof=VISION,
    repair=True,
)
def _(environment: Environment) -> None:
    environment.install("torchvision==0.22.1")
    shutil.rmtree(environment.site / "pip/_vendor")
