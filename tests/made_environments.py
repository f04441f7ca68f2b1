"""Real venvs that real installers change: small made-up wheels, no index."""

from __future__ import annotations

import ensurepip
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

BIG = 200_000
"""Bytes of a library in a made-up wheel: more than is copied."""


def write_wheel(folder: Path, name: str, version: str, files: Mapping[str, bytes] | None = None) -> Path:
    """A pure wheel of `files`, by default a package with some modules, a large library and a script."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = dict(files or package(name, version))
    info = f"{name}-{version}.dist-info"
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    contents[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents[f"{info}/entry_points.txt"] = f"[console_scripts]\n{name}-tool = {name}:main\n".encode()
    record = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, data in contents.items():
            wheel.writestr(inside, data)
        wheel.writestr(f"{info}/RECORD", record)
    return path


def package(name: str, version: str, modules: int = 12) -> dict[str, bytes]:
    """Files of a package whose versions differ in every file and have some of their own."""
    files = {f"{name}/__init__.py": f"__version__ = {version!r}\ndef main(): pass\n".encode()}
    for number in range(modules):
        files[f"{name}/sub{number % 3}/m{number}.py"] = f"VALUE = {version!r}, {number}\n".encode()
    files[f"{name}/only_{version.replace('.', '_').replace('+', '_')}/extra.py"] = b"here = True\n"
    files[f"{name}/lib/lib{name}.so"] = b"\0" + version.encode() * (BIG // len(version))
    return files


def make_venv(prefix: Path, wheels: Path, *installed: str) -> Path:
    """A venv with the `installed` distributions. Returns its interpreter."""
    python = prefix / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True, capture_output=True)
    if installed:
        subprocess.run(pip_install(python, wheels, *installed), check=True, capture_output=True, env=no_settings())
    return python


def pip_install(python: Path, wheels: Path, *wanted: str) -> tuple[str, ...]:
    """pip as it comes with Python, run from its wheel: a venv with its own copy takes a hundred times as long."""
    pip = next(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")) / "pip"
    return (str(python), str(pip), "install", "--no-index", "--find-links", str(wheels), *wanted)


def uv_install(python: Path, wheels: Path, *wanted: str) -> tuple[str, ...]:
    place = ("--python", str(python), "--no-index", "--find-links", str(wheels), "--offline")
    return ("uv", "pip", "install", *place, *wanted)


def no_settings() -> dict[str, str]:
    return {**os.environ, "PIP_CONFIG_FILE": "/dev/null"}


Picture = dict[str, tuple[object, ...]]


def picture(*roots: Path) -> Picture:
    """All that can be seen of what lies below: kind, mode, content or link, and the times of files and folders."""
    seen: Picture = {}
    for root in roots:
        for folder, folders, names in os.walk(root):
            for path in [Path(folder, name) for name in (*folders, *names)]:
                status = path.lstat()
                if path.is_symlink():
                    seen[str(path)] = ("link", os.readlink(path))
                elif path.is_dir():
                    seen[str(path)] = ("folder", status.st_mode, status.st_mtime_ns)
                else:
                    seen[str(path)] = ("file", status.st_mode, status.st_mtime_ns, path.read_bytes())
    return seen


def differences(one: Picture, other: Picture) -> dict[str, tuple[object, object]]:
    """What differs between two pictures, short enough to be read."""
    paths = one.keys() | other.keys()
    return {
        path: (str(one.get(path))[:80], str(other.get(path))[:80])
        for path in sorted(paths)
        if one.get(path) != other.get(path)
    }


needs_uv = pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")
