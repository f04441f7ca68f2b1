"""Package indexes on loopback as PyTorch lays them out: one folder for each build, and the package index itself.

They hold small made-up wheels. As in the real ones, the folder of a build also has old versions of packages that
torch requires (numpy), and the ROCm build's triton lies there alone.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TORCH = ("2.12.0", "2.13.0")


def write_wheel(
    folder: Path, name: str, version: str, requires: Sequence[str] = (), files: Mapping[str, str] | None = None
) -> None:
    """A pure wheel below folder/name, listed in its index.html."""
    stem = name.replace("-", "_")
    contents = dict(files or {f"{stem}/__init__.py": f"__version__ = {version!r}\n"})
    info = f"{stem}-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    extras = dict.fromkeys(re.findall(r'extra == "([^"]+)"', " ".join(requires)))
    lines = [f"Provides-Extra: {extra}" for extra in extras] + [f"Requires-Dist: {one}" for one in requires]
    contents[f"{info}/METADATA"] = head + "".join(f"{line}\n" for line in lines)
    contents[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(place / f"{stem}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in contents.items():
            wheel.writestr(path, text)
    links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in sorted(place.glob("*.whl")))
    (place / "index.html").write_text(links)


def write_indexes(root: Path) -> None:
    """cpu, cu128, cu130, rocm6.4 and pypi, with torch 2.12.0 and 2.13.0."""
    cu12, cu13 = ("triton==3.7", "nvidia-cudnn-cu12==9.1"), ("triton==3.7", "nvidia-cudnn-cu13==9.2")
    for build, needs in (("cpu", ()), ("cu128", cu12), ("cu130", cu13), ("rocm6.4", ("pytorch-triton-rocm==3.7",))):
        for version in TORCH:
            _torch(root / build, f"{version}+{build}", needs)
        write_wheel(root / build, "numpy", "1.0")
    for version in TORCH:
        _torch(root / "pypi", version, cu13)
    for number, requires in (("12", cu12), ("13", cu13)):
        name, _, version = requires[1].partition("==")
        for index in ("pypi", f"cu{number}{'8' if number == '12' else '0'}"):
            files = {"nvidia/cudnn/lib/libcudnn.so.9": f"of CUDA {number}"}
            write_wheel(root / index, name, version, files=files)
    for index in ("pypi", "cu128", "cu130"):
        files = {"triton/__init__.py": "BUILD = 'cuda'\n", "triton/only_cuda.py": ""}
        write_wheel(root / index, "triton", "3.7", files=files)
    files = {"triton/__init__.py": "BUILD = 'rocm'\n", "triton/only_rocm.py": ""}
    write_wheel(root / "rocm6.4", "pytorch-triton-rocm", "3.7", files=files)
    for version in ("1.5", "2.0"):
        write_wheel(root / "pypi", "numpy", version)
    write_wheel(root / "pypi", "accelerate", "1.0", ["torch>=2", "numpy"])
    plugins = [f"jax-cuda{cuda}-plugin" for cuda in ("12", "13")]
    for name in plugins:
        write_wheel(root / "pypi", name, "0.12.0")
    extras = [f'{name}==0.12.0; extra == "{name.split("-")[1]}"' for name in plugins]
    write_wheel(root / "pypi", "jax", "0.12.0", extras)


def _torch(index: Path, version: str, requires: Sequence[str]) -> None:
    local = version.partition("+")[2] or "cu130"
    cuda = f"{local[2:-1]}.{local[-1]}" if local.startswith("cu") else None
    hip = f"{local[4:]}.1" if local.startswith("rocm") else None
    files = {
        "torch/__init__.py": "",
        "torch/version.py": f"__version__ = {version!r}\ncuda: str | None = {cuda!r}\nhip: str | None = {hip!r}\n",
    }
    write_wheel(index, "torch", version, ["numpy", *requires], files)


@contextmanager
def served(root: Path) -> Iterator[str]:
    """The address of an HTTP server over `root` on loopback."""
    handler = functools.partial(_Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the tests' output stays readable."""


def only_these(base: str, cache: Path) -> dict[str, str]:
    """The environment of a command for which the package index is base/pypi, and that no settings reach."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "VIRTUAL_ENV"))}
    return {
        **kept,
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": f"{base}/pypi",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_CACHE_DIR": "1",
        "UV_DEFAULT_INDEX": f"{base}/pypi",
        "UV_CACHE_DIR": str(cache),
        "UV_PYTHON_DOWNLOADS": "never",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
