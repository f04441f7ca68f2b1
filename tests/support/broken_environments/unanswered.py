"""The interpreter does not answer: it hangs, ends or is gone; and installs that were interrupted."""

from __future__ import annotations

from tests.support.broken_environments.entries import NOT_TORCH, Catalogue
from tests.support.broken_environments.environment import Environment

CATALOGUE = Catalogue("3 no answer")
INTERRUPTED = Catalogue("4 interrupted install")
NO_ANSWER = {"torch-import-fails", "environment-broken", "environment-unreadable", "unknown"}
entry, interrupted = CATALOGUE.entry, INTERRUPTED.entry


@entry("sitecustomize hangs", "cpu", NO_ANSWER, fix=NOT_TORCH, limit=30)
def _(environment: Environment) -> None:
    environment.write("sitecustomize.py", "import time\ntime.sleep(3600)\n")


@entry("sitecustomize ends the interpreter", "cpu", NO_ANSWER, fix=NOT_TORCH)
def _(environment: Environment) -> None:
    environment.write("sitecustomize.py", "import os\nos._exit(0)\n")


@entry("a .pth file ends the interpreter", "cpu", NO_ANSWER, fix=NOT_TORCH)
def _(environment: Environment) -> None:
    environment.write("coverage_start.pth", "import sys; sys.exit('coverage is not configured')\n")


@entry("the import of torch hangs", "cuda-new", NO_ANSWER, limit=40)
def _(environment: Environment) -> None:
    environment.write("torch/torch_version.py", "import time\ntime.sleep(3600)\n")


@entry("the import of torch is killed", "cuda-new", NO_ANSWER | {"torch-install-damaged"})
def _(environment: Environment) -> None:
    environment.write("torch/torch_version.py", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")


@entry("torch ends the interpreter", "cuda-new", NO_ANSWER | {"torch-install-damaged"})
def _(environment: Environment) -> None:
    text = (environment.torch / "__init__.py").read_text()
    environment.write("torch/__init__.py", text.replace("import sys\n", "import sys\nsys.exit(0)\n", 1))


@entry("the Python below the venv is gone", "cpu", NO_ANSWER, fix=NOT_TORCH)
def _(environment: Environment) -> None:
    for link in environment.prefix.glob("bin/python*"):
        link.unlink()
        link.symlink_to("/opt/python-3.11.2/bin/python3.11")


@entry("PYTHONHOME of another Python", "cpu", NO_ANSWER, fix=NOT_TORCH, names="PYTHONHOME")
def _(environment: Environment) -> None:
    environment.described["PYTHONHOME"] = "/opt/python-3.11.2"


@entry("the venv's Python is of another version now", "cuda-new", NO_ANSWER | {"torch-missing"}, names=r"3\.1")
def _(environment: Environment) -> None:
    (environment.prefix / "lib" / "python3.12").rename(environment.prefix / "lib" / "python3.10")


@interrupted(
    "pip was killed while it replaced torch",
    "cuda-new",
    {"torch-install-damaged", "torch-install-interrupted", "torch-missing"},
    names="~orch|interrupted",
)
def _(environment: Environment) -> None:
    environment.torch.rename(environment.site / "~orch")
    info = environment.dist_info("torch")
    info.rename(info.with_name("~" + info.name[1:]))


@interrupted(
    "pip was killed before it wrote RECORD",
    "cuda-new",
    {"torch-install-damaged", "torch-install-interrupted", "torch-import-fails"},
    names="RECORD|interrupted",
)
def _(environment: Environment) -> None:
    environment.remove("torch-*.dist-info/RECORD", "torch/lib/libtorch_cpu.so", "torch/nn")


@interrupted(
    "a left-over folder torch",
    "cpu",
    {"torch-install-damaged", "torch-install-interrupted", "torch-import-fails", "torch-shadowed", "torch-missing"},
    names="left|remain|namespace|site-packages/torch",
)
def _(environment: Environment) -> None:
    environment.uninstall("torch")
    environment.write("torch/lib/libmine.so", b"")


@interrupted(
    "torch deleted by hand",
    "cuda-new",
    {"torch-install-damaged", "torch-install-interrupted", "torch-import-fails"},
    names="torch",
)
def _(environment: Environment) -> None:
    environment.remove("torch")


@interrupted(
    "torch half upgraded",
    "cuda-new",
    {"torch-install-damaged", "torch-install-interrupted", "torch-import-fails", "torch-shadowed"},
    names=r"2\.5\.1",
)
def _(environment: Environment) -> None:
    newer = environment.dist_info("torch")
    older = environment.site / "torch-2.5.1.dist-info"
    older.mkdir()
    for path in newer.iterdir():
        if path.is_file():
            (older / path.name).write_bytes(path.read_bytes().replace(b"2.9.1", b"2.5.1"))
    environment.write("torch/_C/__init__.pyi", b"")
    environment.remove("torch/_utils.py")


@interrupted(
    "torch on a full disk",
    "cuda-new",
    {"torch-install-damaged", "torch-install-interrupted", "torch-import-fails"},
    names="libtorch_cuda",
)
def _(environment: Environment) -> None:
    environment.cut("torch/lib/libtorch_cuda.so", 60_000_000)
