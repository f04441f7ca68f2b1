"""The import of torch fails, and the failing file tells whose fault it is."""

from __future__ import annotations

import os
import py_compile
import stat

from tests.support.broken_environments.entries import NOT_TORCH, TORCH, Catalogue
from tests.support.broken_environments.environment import Environment, UnavailableError
from tests.support.environments import shared_library

CATALOGUE = Catalogue("2 owner of the failing file")
DAMAGED = {"torch-install-damaged", "torch-import-fails"}
UNREADABLE = DAMAGED | {"environment-unreadable", "torch-missing"}
NEEDED = {"requirements-incomplete", "torch-import-fails"}
LIMIT = {"torch-import-fails"}
PRIVATE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")
"""Root without the right to read what nobody may read."""

entry = CATALOGUE.entry


@entry("libtorch_cpu.so cut short", "cpu", DAMAGED, names="libtorch_cpu.so", repair=True)
def _(environment: Environment) -> None:
    environment.cut("torch/lib/libtorch_cpu.so", 40_000_000)


@entry("libtorch_python.so empty", "cpu", DAMAGED, names="libtorch_python.so")
def _(environment: Environment) -> None:
    environment.write("torch/lib/libtorch_python.so", b"")


@entry("a library of torch deleted", "cpu", DAMAGED, names="libc10.so")
def _(environment: Environment) -> None:
    environment.remove("torch/lib/libc10.so")


@entry("a module of torch cut in the middle", "cpu", DAMAGED, names=r"functional\.py")
def _(environment: Environment) -> None:
    environment.cut("torch/nn/functional.py", 100_001)


@entry("a module of torch empty", "cpu", DAMAGED, names=r"_tensor\.py")
def _(environment: Environment) -> None:
    environment.write("torch/_tensor.py", b"")


@entry("torch/__init__.py edited", "cpu", DAMAGED, names=r"__init__\.py")
def _(environment: Environment) -> None:
    text = (environment.torch / "__init__.py").read_text()
    environment.write("torch/__init__.py", text.replace("import sys\n", "import sys\nimprot os\n", 1))


@entry("typing_extensions.py empty", "cpu", NEEDED, names="typing_extensions", fix="typing.extensions", repair=True)
def _(environment: Environment) -> None:
    environment.write("typing_extensions.py", b"")


@entry(
    "numpy's core of another Python",
    "cuda-new",
    NEEDED,
    names="numpy",
    fix="numpy",
    proof="import numpy",
    warning=True,
    repair=True,
)
def _(environment: Environment) -> None:
    for library in environment.site.glob("numpy/**/*.cpython-312-*.so"):
        library.rename(library.with_name(library.name.replace("312", "311")))


@entry("torch's own extension of another Python", "cuda-new", DAMAGED, names="cpython-311|cp311|3.11")
def _(environment: Environment) -> None:
    for library in environment.torch.rglob("*.cpython-312-*.so"):
        library.rename(library.with_name(library.name.replace("312", "311")))
    for name in ("RECORD", "WHEEL"):
        text = (environment.dist_info("torch") / name).read_text()
        text = text.replace("cpython-312", "cpython-311").replace("cp312", "cp311")
        environment.write(environment.dist_info("torch") / name, text)


@entry("numpy for aarch64", "cpu", NEEDED, names="aarch64", fix="numpy", proof="import numpy", repair=True)
def _(environment: Environment) -> None:
    version = environment.dist_info("numpy").name.removesuffix(".dist-info").split("-")[1]
    wheel = ("--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_27_aarch64", "--only-binary=:all:")
    environment.remove("numpy*")
    environment.pip("install", "-q", "--no-deps", *wheel, "--target", str(environment.site), f"numpy=={version}")


@entry("a library of torch for aarch64", "cpu", DAMAGED, names="aarch64")
def _(environment: Environment) -> None:
    environment.write("torch/lib/libshm.so", shared_library(arch="aarch64"))


@entry("bytecode of an older typing_extensions", "cpu", NEEDED, names=r"typing_extensions|\.pyc", fix=NOT_TORCH)
def _(environment: Environment) -> None:
    older = environment.beside / "typing_extensions.py"
    older.write_text("from typing import *\n")
    (cached,) = environment.site.glob("__pycache__/typing_extensions.*.pyc")
    made = environment.beside / cached.name
    hashed = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(older), str(made), invalidation_mode=hashed)
    environment.write(f"__pycache__/{cached.name}", made.read_bytes())


@entry("a file system that forbids programs", "cpu", {"torch-import-fails"}, names="noexec", fix=NOT_TORCH)
def _(environment: Environment) -> None:
    mount = f"mount --bind {environment.prefix} {environment.prefix} && "
    mount += f'mount -o remount,bind,noexec {environment.prefix} && exec "$@"'
    environment.launcher = ("unshare", "-m", "sh", "-c", mount, "sh")


@entry("the folder torch may not be read", "cpu", UNREADABLE, names="permission|may not|read|denied", fix=NOT_TORCH)
def _(environment: Environment) -> None:
    (environment.torch).chmod(0)
    environment.launcher = PRIVATE


@entry(
    "a folder inside torch may not be read", "cpu", UNREADABLE, names="permission|may not|read|denied", fix=NOT_TORCH
)
def _(environment: Environment) -> None:
    (environment.torch / "nn").chmod(0)
    environment.launcher = PRIVATE


@entry("libtorch_cpu.so may not be read", "cpu", UNREADABLE, names="permission|may not|read|denied", fix=NOT_TORCH)
def _(environment: Environment) -> None:
    environment.own("torch/lib/libtorch_cpu.so").chmod(0)
    environment.launcher = PRIVATE


@entry(
    "typing_extensions.py may not be read",
    "cpu",
    NEEDED | UNREADABLE,
    names="permission|may not|read|denied",
    fix=NOT_TORCH,
)
def _(environment: Environment) -> None:
    environment.own("typing_extensions.py").chmod(stat.S_IWUSR)
    environment.launcher = PRIVATE


@entry("ulimit -v", "cuda-new", LIMIT, names="limit|memory|RLIMIT_AS|ulimit", fix=NOT_TORCH)
def _(environment: Environment) -> None:
    environment.launcher = ("bash", "-c", 'ulimit -v 2000000; exec "$@"', "bash")


@entry("memory limit of the container", "cpu", LIMIT | {"unknown"}, names="memory", fix=NOT_TORCH)
def _(environment: Environment) -> None:
    group = "/sys/fs/cgroup/memory/gpudoctor-broken"
    try:
        os.makedirs(group, exist_ok=True)
        with open(f"{group}/memory.limit_in_bytes", "w") as file:
            file.write(str(70 << 20))
    except OSError as error:
        raise UnavailableError(f"no cgroup of one's own: {error.strerror}") from None
    environment.launcher = ("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")


@entry("files of torch linked into an emptied cache", "cpu", DAMAGED, names="torch")
def _(environment: Environment) -> None:
    for library in environment.site.glob("torch/lib/*.so"):
        library.unlink()
        library.symlink_to(f"/root/.cache/uv/archive-v0/gone/torch/lib/{library.name}")


@entry(
    "an older C++ runtime on LD_LIBRARY_PATH",
    "cpu",
    {"libstdcxx-too-old", "torch-import-fails"},
    names=r"libstdc\+\+",
    fix=NOT_TORCH,
)
def _(environment: Environment) -> None:
    environment.compiled("int old;", environment.beside / "lib" / "libstdc++.so.6")
    environment.variables["LD_LIBRARY_PATH"] = str(environment.beside / "lib")


@entry(
    "a library of torch that needs a newer processor",
    "cpu",
    DAMAGED,
    names="instruction|processor|SIGILL",
    fix=NOT_TORCH,
)
def _(environment: Environment) -> None:
    code = "__attribute__((constructor)) static void start(void) { __builtin_trap(); }"
    environment.compiled(code, environment.torch / "lib" / "libtorch_global_deps.so")


@entry("a library of torch that crashes", "cpu", DAMAGED | {"smoke-crash"}, names="SIGSEGV|segmentation|crash")
def _(environment: Environment) -> None:
    code = "__attribute__((constructor)) static void start(void) { *(volatile int *)0 = 1; }"
    environment.compiled(code, environment.torch / "lib" / "libtorch_global_deps.so")


@entry("numpy crashes", "cpu", NEEDED, names="numpy", fix="numpy", proof=TORCH + "import numpy")
def _(environment: Environment) -> None:
    code = "__attribute__((constructor)) static void start(void) { *(volatile int *)0 = 1; }"
    (library,) = environment.site.glob("numpy/_core/_multiarray_umath.*.so")
    environment.compiled(code, library)
