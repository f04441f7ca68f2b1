"""Real venvs that real installers change: small made-up wheels, no index."""

from __future__ import annotations

import compileall
import ensurepip
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
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
    """A venv with the `installed` distributions, without pip. Returns its interpreter."""
    python = _bare_venv(prefix)
    if installed:
        subprocess.run(pip_install(python, wheels, *installed), check=True, capture_output=True, env=no_settings())
    return python


def make_venv_with_pip(prefix: Path) -> Path:
    """A venv in which `python -m pip` works. Returns its interpreter."""
    python = _bare_venv(prefix)
    (site,) = prefix.glob("lib/python*/site-packages")
    shutil.copytree(unpacked_pip(), site, dirs_exist_ok=True)
    return python


def _bare_venv(prefix: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True, capture_output=True)
    return prefix / "bin" / "python"


@cache
def unpacked_pip() -> Path:
    """A folder with pip as it comes with Python. Its compiling takes most of the time of `python -m venv` and of
    every start from the wheel: it is done once, and kept for the processes and runs that come later."""
    (wheel,) = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    place = Path(tempfile.gettempdir(), f"gpudoctor-tests-{os.getuid()}-{sys.implementation.cache_tag}-{wheel.stem}")
    if not place.exists():
        made = Path(tempfile.mkdtemp())
        with zipfile.ZipFile(wheel) as content:
            content.extractall(made)
        compileall.compile_dir(made, quiet=1)
        try:
            made.rename(place)
        except OSError:  # another process was faster
            shutil.rmtree(made)
    assert place.stat().st_uid == os.getuid(), f"{place} is somebody else's"
    return place


def pip_install(python: Path, wheels: Path, *wanted: str) -> tuple[str, ...]:
    """pip of `unpacked_pip`: the venv needs none of its own."""
    pip = unpacked_pip() / "pip"
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
