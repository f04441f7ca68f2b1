"""Healthy environments that look odd: gpudoctor must say no more of them than of their base."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.broken_environments.entries import Catalogue
from tests.support.broken_environments.environment import Environment

CATALOGUE = Catalogue("control")
control = CATALOGUE.entry


@control("an untouched copy", "cpu")
def _(environment: Environment) -> None:
    pass


@control("an untouched copy, computing", "cuda-new", level="quick")
def _(environment: Environment) -> None:
    pass


@control("an untouched copy of the older torch", "cuda-old")
def _(environment: Environment) -> None:
    pass


@control("an untouched copy without a described GPU", "cuda-old", gpu=False, level="static")
def _(environment: Environment) -> None:
    pass


@control("LD_LIBRARY_PATH names an empty folder", "cuda-new")
def _(environment: Environment) -> None:
    (environment.beside / "lib").mkdir()
    environment.variables["LD_LIBRARY_PATH"] = str(environment.beside / "lib")


@control("LD_LIBRARY_PATH names the system's folders", "cuda-new")
def _(environment: Environment) -> None:
    environment.variables["LD_LIBRARY_PATH"] = "/usr/lib/x86_64-linux-gnu:/usr/lib:/usr/local/cuda/lib64:"


@control("LD_LIBRARY_PATH names the wheels' own libraries", "cuda-new")
def _(environment: Environment) -> None:
    folders = sorted(str(path) for path in environment.site.glob("nvidia/*/lib"))
    environment.variables["LD_LIBRARY_PATH"] = ":".join(folders)


@control("LD_LIBRARY_PATH has an older cuSPARSE, and RPATH wins", "cuda-old")
def _(environment: Environment) -> None:
    environment.library_path("nvidia-cusparse-cu12==12.1.0.106", "cusparse")


@control("LD_LIBRARY_PATH has an older nvJitLink, and RPATH wins", "cuda-new")
def _(environment: Environment) -> None:
    environment.library_path("nvidia-nvjitlink-cu12==12.1.105", "nvjitlink")


@control("LD_LIBRARY_PATH has an older cuBLASLt, and RPATH wins", "cuda-new")
def _(environment: Environment) -> None:
    environment.library_path("nvidia-cublas-cu12==12.1.3.1", "cublas", "libcublasLt*")


@control("LD_LIBRARY_PATH has the same cuDNN again", "cuda-old")
def _(environment: Environment) -> None:
    environment.library_path("nvidia-cudnn-cu12==9.1.0.70", "cudnn")


@control("NVRTC builtins of another CUDA on LD_LIBRARY_PATH", "cuda-new")
def _(environment: Environment) -> None:
    environment.library_path("nvidia-cuda-nvrtc-cu12==12.6.77", "cuda_nvrtc", "libnvrtc-builtins*")


@control("LD_PRELOAD names nothing", "cpu")
def _(environment: Environment) -> None:
    environment.variables["LD_PRELOAD"] = "/usr/lib/libjemalloc-gone.so.2"


@control("unrelated packages", "cpu")
def _(environment: Environment) -> None:
    environment.install("requests", "click", "tqdm")


@control("an editable install", "cpu")
def _(environment: Environment) -> None:
    project = environment.beside / "project"
    environment.module(project, "training")
    metadata = '[project]\nname = "training"\nversion = "1"\n[tool.setuptools]\npy-modules = ["training"]\n'
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\n' + 'build-backend = "setuptools.build_meta"\n' + metadata
    )
    environment.install("wheel")
    environment.install("--no-build-isolation", "-e", str(project))


@control("a .pth file with a folder of one's own", "cpu")
def _(environment: Environment) -> None:
    environment.module(environment.beside / "mine", "queue")
    environment.write("mine.pth", f"{environment.beside / 'mine'}\n")


@control("a .pth file that raises", "cpu")
def _(environment: Environment) -> None:
    environment.write("broken.pth", "import a_module_that_is_gone\n")


@control("packages of the system are visible", "cpu")
def _(environment: Environment) -> None:
    environment.setting("include-system-site-packages", "true")


@control("a venv above the system's torch", "cpu")
def _(environment: Environment) -> None:
    environment.into_the_system()


@control("PYTHONPATH with modules of one's own", "cpu")
def _(environment: Environment) -> None:
    for name in ("model", "training", "dataset"):
        environment.module(environment.beside / "mine", name)
    environment.variables["PYTHONPATH"] = f"{environment.beside / 'mine'}:{environment.beside / 'gone'}"


@control("a working folder full of a project's modules", "cpu")
def _(environment: Environment) -> None:
    for name in ("model", "train", "setup", "conftest", "test", "main"):
        environment.module(environment.folder, name)
    (environment.folder / "data").mkdir()


@control("no bytecode", "cpu")
def _(environment: Environment) -> None:
    for folder in list(environment.site.rglob("__pycache__")):
        shutil.rmtree(folder)


@control("headers and tests of torch removed", "cuda-new")
def _(environment: Environment) -> None:
    environment.remove("torch/include", "torch/share", "numpy/**/tests")


@control("headers and tests of torch removed from a CPU build", "cpu")
def _(environment: Environment) -> None:
    environment.remove("torch/include", "torch/share", "sympy/**/tests")


@control("pip removed", "cpu")
def _(environment: Environment) -> None:
    environment.remove("pip", "pip-*.dist-info")


@control("metadata of pip removed", "cpu")
def _(environment: Environment) -> None:
    environment.remove("pip-*.dist-info")


@control("stubs of one's own", "cpu")
def _(environment: Environment) -> None:
    environment.write("torch/extra.pyi", "x: int\n")
    environment.write("queue.pyi", "x: int\n")


@control("the user site has unrelated packages", "cpu")
def _(environment: Environment) -> None:
    user = environment.beside / "home" / ".local" / "lib" / environment.site.parent.name / "site-packages"
    environment.pip("install", "-q", "--no-deps", "--target", str(user), "tqdm")
    environment.variables["HOME"] = str(environment.beside / "home")


@control("a user site that a venv does not use", "cpu")
def _(environment: Environment) -> None:
    user = environment.beside / "home" / ".local" / "lib" / environment.site.parent.name / "site-packages"
    environment.module(user, "typing_extensions")
    environment.module(user, "numpy")
    environment.variables["HOME"] = str(environment.beside / "home")


@control("the venv is a symbolic link", "cpu")
def _(environment: Environment) -> None:
    moved(environment, environment.prefix.with_name("real"))
    environment.prefix.symlink_to("real")


@control("a path with spaces", "cpu")
def _(environment: Environment) -> None:
    spaced = environment.prefix.with_name("my first venv")
    moved(environment, spaced)
    environment.prefix = spaced


@control("scripts that are listed and not there", "cpu")
def _(environment: Environment) -> None:
    for script in environment.prefix.glob("bin/*"):
        if not script.name.startswith("python"):
            script.unlink()


@control("numpy uninstalled", "cpu")
def _(environment: Environment) -> None:
    environment.uninstall("numpy")


@control("setuptools removed", "cuda-old")
def _(environment: Environment) -> None:
    environment.uninstall("setuptools")


@control("a package without its extras", "cpu")
def _(environment: Environment) -> None:
    environment.install("requests", "urllib3", "idna", "certifi", "charset_normalizer")


@control("Triton under the name pytorch-triton", "cuda-new", proof="import torch, triton.language")
def _(environment: Environment) -> None:
    triton, torch = environment.dist_info("triton"), environment.dist_info("torch")
    renamed = triton.with_name("pytorch_" + triton.name)
    triton.rename(renamed)
    for folder, old, new in (
        (renamed, "Name: triton", "Name: pytorch-triton"),
        (torch, "Dist: triton", "Dist: pytorch-triton"),
    ):
        metadata = folder / "METADATA"
        text = metadata.read_text().replace(old, new)
        metadata.unlink()
        metadata.write_text(text)
    record = (renamed / "RECORD").read_text().replace(triton.name, renamed.name)
    (renamed / "RECORD").unlink()
    (renamed / "RECORD").write_text(record)


@control("a left-over of pip beside a whole torch", "cpu")
def _(environment: Environment) -> None:
    environment.write("~orch/version.py", "__version__ = '2.9.1'\n")


@control("a cuDNN that is newer than the one pinned", "cuda-new")
def _(environment: Environment) -> None:
    environment.install("nvidia-cudnn-cu12==9.13.0.50")


@control("a variable for the loader's messages", "cpu")
def _(environment: Environment) -> None:
    environment.variables |= {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}


def moved(environment: Environment, to: Path) -> None:
    environment.prefix.rename(to)
