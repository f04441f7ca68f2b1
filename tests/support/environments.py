"""Made-up Python environments: venvs, conda prefixes and the parts of a torch that gpudoctor reads.

The libraries are real ELF files of a few hundred bytes. Nothing here can be imported or run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

CUDA_REQUIRES = (
    'nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux" and platform_machine == "x86_64"',
    'nvidia-nccl-cu12==2.27.5; platform_system == "Linux" and platform_machine == "x86_64"',
    'triton==3.5.1; platform_system == "Linux" and platform_machine == "x86_64"',
)


def write_venv(
    root: Path,
    python: str = "3.12",
    uv: bool = False,
    *,
    home: str = "/usr/bin",
    system_site: bool = False,
    pip: bool = True,
) -> Path:
    """A venv at `root`, and its site-packages; `home` is the folder of its base interpreter."""
    number = python.rstrip("t")
    site = root / "lib" / f"python{python}" / "site-packages"
    site.mkdir(parents=True)
    lines = [f"home = {home}", f"include-system-site-packages = {'true' if system_site else 'false'}"]
    lines += (
        ["implementation = CPython", "uv = 0.9.7", f"version_info = {number}.4"] if uv else [f"version = {number}.4"]
    )
    (root / "pyvenv.cfg").write_text("\n".join(lines) + "\n")
    _write_interpreter(root, python, f"{home}/python{python}")
    if pip and not uv:
        write_distribution(site, "pip", "24.0")
    return site


def write_conda(prefix: Path, python: str = "3.12") -> Path:
    """A conda prefix with its own interpreter and libstdc++ of GCC 13. Returns site-packages."""
    site = prefix / "lib" / f"python{python}" / "site-packages"
    site.mkdir(parents=True)
    write_conda_record(prefix, "python", f"{python}.4", "h2628c8c_0_cpython")
    _write_interpreter(prefix, python, None)
    headers = prefix / "include" / f"python{python}"
    headers.mkdir(parents=True)
    (headers / "Python.h").write_text("/* made up */\n")
    (prefix / "lib" / "libstdc++.so.6").write_bytes(shared_library(defines=("GLIBCXX_3.4", "GLIBCXX_3.4.32")))
    return site


def write_conda_record(prefix: Path, name: str, version: str, build: str, channel: str = "conda-forge") -> None:
    """What conda notes of an installed package."""
    folder = prefix / "conda-meta"
    folder.mkdir(exist_ok=True)
    record = {
        "name": name,
        "version": version,
        "build": build,
        "channel": f"https://conda.anaconda.org/{channel}/linux-64",
        "files": [],
    }
    (folder / f"{name}-{version}-{build}.json").write_text(json.dumps(record))


def _write_interpreter(prefix: Path, python: str, target: str | None) -> None:
    folder = prefix / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / f"python{python}"
    if target is None or not Path(target).exists():  # a copy, as `python -m venv --copies` makes it
        first.write_bytes(shared_library(runpath="$ORIGIN/../lib"))
        first.chmod(0o755)
    else:
        first.symlink_to(target)
    for name in ("python", "python3"):
        (folder / name).symlink_to(first.name)


def write_distribution(
    site: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    installer: str = "pip",
    files: Mapping[str, bytes | str] | None = None,
    direct_url: str = "",
) -> Path:
    """An installed distribution with METADATA, INSTALLER and a RECORD of its `files`. Returns its .dist-info."""
    site.mkdir(parents=True, exist_ok=True)
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    head = [f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}"]
    (folder / "METADATA").write_text(
        "\n".join(head + [f"Requires-Dist: {line}" for line in requires]) + "\n\nText.\n"
    )
    if installer:
        (folder / "INSTALLER").write_text(installer + "\n")
    if direct_url:
        (folder / "direct_url.json").write_text(json.dumps({"url": direct_url}))
    rows = []
    for path, content in (files or {}).items():
        data = content.encode() if isinstance(content, str) else content
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}")
    rows += [f"{folder.name}/METADATA,sha256=AAAA,{(folder / 'METADATA').stat().st_size}", f"{folder.name}/RECORD,,"]
    (folder / "RECORD").write_text("\n".join(rows) + "\n")
    return folder


def write_torch(
    site: Path,
    version: str = "2.9.1+cu128",
    cuda: str | None = "12.8",
    hip: str | None = None,
    *,
    python: str = "3.12",
    companions: Mapping[str, str] | None = None,
    installer: str = "pip",
    requires: Sequence[str] | None = None,
    git: str = "5811a8d7da873dd699ff6687092c225caffcf1bb",
    dist_version: str | None = None,
    dist_info: bool = True,
    direct_url: str = "",
    libraries: Mapping[str, bytes] | None = None,
) -> Path:
    """A torch as a wheel lays it out, and `companions` (name: version) beside it. Returns the torch folder.

    `dist_version` is the version of the .dist-info, by default that of version.py; `libraries` replaces or
    adds files below torch/lib.
    """
    contents: dict[str, bytes] = {"libc10.so": shared_library(), "libtorch.so": shared_library()}
    contents["libtorch_cpu.so"] = shared_library(needed=("libc10.so", "libstdc++.so.6", "libc.so.6"))
    contents["libtorch_python.so"] = shared_library(needed=("libtorch.so", "libc10.so"))
    if cuda:
        contents["libtorch_cuda.so"] = contents["libc10_cuda.so"] = shared_library(needed=("libc10.so",))
    if hip:
        contents["libtorch_hip.so"] = contents["libc10_hip.so"] = shared_library(needed=("libc10.so",))
    contents |= libraries or {}
    files: dict[str, bytes | str] = {f"torch/lib/{name}": data for name, data in contents.items()}
    files["torch/__init__.py"] = "from torch import version\n"
    files["torch/version.py"] = version_file(version, cuda, hip, git)
    abi = python.replace(".", "")
    files[f"torch/_C.cpython-{abi}-x86_64-linux-gnu.so"] = shared_library(needed=("libtorch_python.so",))
    files["functorch/__init__.py"] = "import torch\n"
    if dist_info:
        wanted = requires if requires is not None else (CUDA_REQUIRES if cuda else ("filelock", "sympy"))
        number = dist_version or version
        write_distribution(
            site, "torch", number, requires=wanted, installer=installer, files=files, direct_url=direct_url
        )
    else:
        for path, content in files.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_bytes(content.encode() if isinstance(content, str) else content)
    for name, number in (companions or {}).items():
        package = {f"{name.replace('-', '_')}/__init__.py": "\n"}
        write_distribution(site, name, number, installer=installer, files=package)
    return site / "torch"


def version_file(version: str, cuda: str | None, hip: str | None = None, git: str = "") -> str:
    """torch/version.py as its build writes it."""
    return (
        "from typing import Optional\n\n"
        "__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']\n"
        f"__version__ = {version!r}\n"
        "debug = False\n"
        f"cuda: Optional[str] = {cuda!r}\n"
        f"git_version = {git!r}\n"
        f"hip: Optional[str] = {hip!r}\n"
        "xpu: Optional[str] = None\n"
    )


_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}


def shared_library(
    needed: Sequence[str] = (),
    *,
    runpath: str = "",
    rpath: str = "",
    soname: str = "",
    needs: Mapping[str, Sequence[str]] | None = None,
    defines: Sequence[str] = (),
    arch: str = "x86_64",
) -> bytes:
    """A 64-bit little-endian ELF library with a dynamic section, and sections that name the same.

    `needs` are the symbol versions that it asks of others ({"libstdc++.so.6": ["GLIBCXX_3.4.29"]}), `defines`
    those that it offers.
    """
    strings = bytearray(b"\0")

    def text(value: str) -> int:
        strings.extend(value.encode() + b"\0")
        return len(strings) - len(value.encode()) - 1

    entries = [(1, text(name)) for name in needed]
    entries += [(tag, text(value)) for tag, value in ((14, soname), (15, rpath), (29, runpath)) if value]
    asked = _version_needs(needs or {}, text)
    offered = _version_definitions(defines, text)
    dynstr = 64 + 2 * 56
    verneed = dynstr + len(strings) + (-len(strings)) % 8
    verdef = verneed + len(asked)
    dynamic = verdef + len(offered)
    entries += [(5, dynstr), (10, len(strings))]
    entries += [(0x6FFFFFFE, verneed), (0x6FFFFFFF, len(needs or {}))] if asked else []
    entries += [(0x6FFFFFFC, verdef), (0x6FFFFFFD, len(defines))] if offered else []
    table = b"".join(struct.pack("<qQ", *entry) for entry in [*entries, (0, 0)])
    names = b"\0.dynstr\0.dynamic\0.gnu.version_r\0.gnu.version_d\0.shstrtab\0"
    shstrtab = dynamic + len(table)
    end = shstrtab + len(names) + (-len(names)) % 8
    sections = [
        (0, 0, 0, 0, 0, 0),
        (names.index(b".dynstr"), 3, dynstr, len(strings), 0, 0),
        (names.index(b".dynamic"), 6, dynamic, len(table), 1, 0),
        (names.index(b".gnu.version_r"), 0x6FFFFFFE, verneed, len(asked), 1, len(needs or {})),
        (names.index(b".gnu.version_d"), 0x6FFFFFFD, verdef, len(offered), 1, len(defines)),
        (names.index(b".shstrtab"), 3, shstrtab, len(names), 0, 0),
    ]
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        3,
        _ELF_MACHINES[arch],
        1,
        0,
        64,
        end,
        0,
        64,
        56,
        2,
        64,
        len(sections),
        5,
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, end, end, 4096)
    point = struct.pack("<IIQQQQQQ", 2, 6, dynamic, dynamic, dynamic, len(table), len(table), 8)
    body = header + load + point + bytes(strings)
    body += b"\0" * (verneed - len(body)) + asked + offered + table + names
    body += b"\0" * (end - len(body))
    for name, kind, offset, size, link, info in sections:
        body += struct.pack("<IIQQQQIIQQ", name, kind, 2, offset, offset, size, link, info, 1, 0)
    return body


def _version_needs(needs: Mapping[str, Sequence[str]], text: object) -> bytes:
    """Elf64_Verneed records, each followed by its Elf64_Vernaux ones."""
    assert callable(text)
    parts = []
    for number, (library, versions) in enumerate(needs.items(), 1):
        following = 0 if number == len(needs) else 16 + 16 * len(versions)
        parts.append(struct.pack("<HHIII", 1, len(versions), text(library), 16, following))
        for place, version in enumerate(versions, 1):
            parts.append(struct.pack("<IHHII", 0, 0, place + 1, text(version), 16 if place < len(versions) else 0))
    return b"".join(parts)


def _version_definitions(versions: Sequence[str], text: object) -> bytes:
    """Elf64_Verdef records with one Elf64_Verdaux each."""
    assert callable(text)
    parts = []
    for number, version in enumerate(versions, 1):
        following = 0 if number == len(versions) else 28
        parts.append(struct.pack("<HHHHIII", 1, 0, number, 1, 0, 20, following))
        parts.append(struct.pack("<II", text(version), 0))
    return b"".join(parts)
