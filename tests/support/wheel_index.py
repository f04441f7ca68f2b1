"""A package index on loopback with small made-up wheels: torch in several builds, its companions, what pins it.

    with wheel_index(tmp_path) as index:
        index.url                     # http://127.0.0.1:PORT, its builds are below it: .../cu128, .../cpu
        index.environ                 # variables that keep pip and uv to it

The wheels can be installed and carry what gpudoctor reads; their torch cannot compute.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.environments import shared_library, version_file

CUDA = {"cu124": "12.4", "cu126": "12.6", "cu128": "12.8", "cu130": "13.0"}
PAIRS = {"2.6.0": "0.21.0", "2.7.0": "0.22.0", "2.9.1": "0.24.1", "2.13.0": "0.28.0"}
BUILDS = ("cpu", *CUDA, "rocm6.4")


class WheelIndex:
    """What the server serves, and how a tool is kept to it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self.venvs: dict[object, Path] = {}
        """Environments into which wheels of this index were installed, by what was installed."""

    def venv(self, prefix: Path, installed: object, make: Callable[[], None]) -> None:
        """Have `make` make a venv with what is `installed`; when the same is asked for again, copy it."""
        if installed in self.venvs:
            shutil.copytree(self.venvs[installed], prefix, symlinks=True)
            return
        make()
        kept = self.folder.parent / "venvs" / str(len(self.venvs))
        self.venvs[installed] = shutil.copytree(prefix, kept, symlinks=True)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": f"{self.url}/pypi",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_CACHE_DIR": "1",
            "PIP_PROXY": "",
            "UV_NO_CONFIG": "1",
            "UV_INDEX_URL": f"{self.url}/pypi",
            "UV_CACHE_DIR": str(self.folder.parent / "uv-cache"),
            "UV_PYTHON_DOWNLOADS": "never",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def overlay(self) -> Path:
        """A matrix overlay that has every build's index here."""
        path = self.folder.parent / "mirror.yaml"
        rows = (
            f"wheel_index: {{base: {self.url}}}",
            "wheel_indexes:",
            f'  - {{id: amd-multi-arch, base: {self.url}/amd, template: "{{base}}"}}',
        )
        path.write_text("\n".join(rows) + "\n")
        return path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def wheel_index(folder: Path) -> Iterator[WheelIndex]:
    """Serve the wheels while the block runs."""
    root = folder / "index"
    for version, vision in PAIRS.items():
        for build in BUILDS:
            write_wheel(root / build / "torch", "torch", f"{version}+{build}", torch_files(version, build))
            requires = (f"torch=={version}",)
            write_wheel(root / build / "torchvision", "torchvision", f"{vision}+{build}", requires=requires)
        pinning = f"pinning-{version}".replace(".", "-")
        write_wheel(root / "pypi" / pinning, pinning, "1.0", requires=(f"torch=={version}",))
    _write_multi_arch(root / "amd")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield WheelIndex(root, server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def _write_multi_arch(folder: Path) -> None:
    """AMD's own index: an extra of torch brings the code for one GPU."""
    torch, vision, build, extra = "2.11.0", "0.26.0", "rocm7.14.0", "device-gfx1031"
    for name, version, files in (("torch", torch, torch_files(torch, build)), ("torchvision", vision, None)):
        device = f"amd-{name}-{extra}"
        requires = (f'{device}=={version}+{build}; extra == "{extra}"',)
        write_wheel(folder / name, name, f"{version}+{build}", files, requires=requires, extras=(extra,))
        write_wheel(folder / device, device, f"{version}+{build}")


def torch_files(version: str, build: str) -> dict[str, bytes]:
    """The parts of a torch wheel that gpudoctor reads."""
    cuda, hip = CUDA.get(build), "6.4.43482" if build.startswith("rocm") else None
    names = ["libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so"]
    names += ["libtorch_cuda.so", "libc10_cuda.so"] if cuda else []
    names += ["libtorch_hip.so", "libc10_hip.so"] if hip else []
    return {
        **{f"torch/lib/{name}": shared_library(needed=("libc.so.6",)) for name in names},
        "torch/_C.abi3.so": shared_library(needed=("libc.so.6",)),
        "torch/__init__.py": b"from torch import version\n",
        "torch/version.py": version_file(f"{version}+{build}", cuda, hip).encode(),
        "functorch/__init__.py": b"import torch\n",
    }


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes] | None = None,
    *,
    requires: Sequence[str] = (),
    extras: Sequence[str] = (),
) -> Path:
    """A wheel for any platform in `folder`, which is also the project's page of the index."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    head = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    head += [f"Provides-Extra: {extra}" for extra in extras]
    contents = {
        **(files or {f"{name.replace('-', '_')}/__init__.py": b""}),
        f"{info}/METADATA": ("\n".join(head) + "\n").encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in contents.items():
            archive.writestr(member, data)
    links = [f'<a href="{wheel.name.replace("+", "%2B")}">{wheel.name}</a>' for wheel in sorted(folder.glob("*.whl"))]
    (folder / "index.html").write_text("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>")
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
