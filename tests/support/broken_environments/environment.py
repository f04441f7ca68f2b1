"""A copy of a real environment that may be broken: it shares its files with the base, and never changes them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path


class UnavailableError(Exception):
    """Why this machine cannot break an environment in that way."""


_DIGESTS: dict[tuple[int, int, int], str] = {}
"""By inode, size and time: copies share the files of their base."""


def _digest(path: Path) -> str:
    state = path.stat()
    key = (state.st_ino, state.st_size, state.st_mtime_ns)
    if key not in _DIGESTS:
        content = hashlib.sha256()
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                content.update(part)
        _DIGESTS[key] = content.hexdigest() + oct(state.st_mode)
    return _DIGESTS[key]


class Environment:
    """A copy of `base` below `folder` by hard links, and how it is used: variables, working folder, launcher.

    Files of the copy are replaced or removed, never opened for writing: they are the base's, too.
    """

    def __init__(self, base: Path, folder: Path, store: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.base, self.prefix, self.beside, self.store = base, folder / "env", folder / "beside", store
        self.beside.mkdir(parents=True)
        self.folder = folder / "work"
        """The working folder."""
        self.folder.mkdir()
        self.variables: dict[str, str] = {}
        self.described: dict[str, str] = {}
        """Variables that gpudoctor would not survive itself: they are given with --env."""
        self.launcher: tuple[str, ...] = ()
        """A command that starts another: `unshare`, `setpriv`."""
        linked = subprocess.run(["cp", "-al", base, self.prefix], check=False, capture_output=True, text=True)
        if linked.returncode:
            raise SystemExit(f"{base} cannot be hard-linked below {folder}: {linked.stderr.splitlines()[-1]}")

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    @property
    def site(self) -> Path:
        return next(self.prefix.glob("lib/python3*/site-packages"))

    @property
    def torch(self) -> Path:
        return self.site / "torch"

    def dist_info(self, name: str) -> Path:
        return next(self.site.glob(f"{name}-*.dist-info"))

    def remove(self, *patterns: str) -> None:
        """Remove files and folders of site-packages."""
        for pattern in patterns:
            found = list(self.site.glob(pattern))
            if not found:
                raise UnavailableError(f"the base has no {pattern}")
            for path in found:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def write(self, path: str | Path, content: str | bytes) -> Path:
        """A new file in place of the one at `path`, relative to site-packages."""
        target = self.site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def cut(self, path: str, size: int) -> None:
        """The file ends after `size` bytes, as on a full disk."""
        with (self.site / path).open("rb") as file:
            content = file.read(size)
        self.write(path, content)

    def own(self, path: str) -> Path:
        """A file of the copy alone: its mode may be changed."""
        target = self.site / path
        target.with_name(target.name + ".own").write_bytes(target.read_bytes())
        return target.with_name(target.name + ".own").replace(target)

    def module(self, folder: Path, name: str, content: str = "VALUE = 1\n") -> None:
        """A module that a person keeps in a folder of their own."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(content)

    def setting(self, name: str, value: str) -> None:
        """A line of pyvenv.cfg."""
        settings = self.prefix / "pyvenv.cfg"
        text = re.sub(rf"(?m)^{name} = .*$", f"{name} = {value}", settings.read_text())
        settings.unlink()
        settings.write_text(text)

    def into_the_system(self) -> None:
        """All packages move to a Python of their own, and the copy becomes an empty venv that sees them."""
        home = re.search(r"(?m)^home = (.*)$", (self.prefix / "pyvenv.cfg").read_text())
        real, system = Path(home[1]).parent if home else Path("/usr"), self.beside / "python"
        if real == Path("/usr") or subprocess.run(["cp", "-al", real, system], check=False).returncode:
            raise UnavailableError(f"the Python in {real} cannot be copied by hard links")
        for package in self.site.iterdir():
            target = system / package.relative_to(self.prefix)
            if package.name.endswith(".dist-info"):  # two records of one name would be a fault of their own
                for other in target.parent.glob(f"{package.name.partition('-')[0]}-*.dist-info"):
                    shutil.rmtree(other)
            if target.is_dir():
                shutil.rmtree(target)
            package.rename(target)
        shutil.rmtree(self.prefix)
        made = [system / "bin" / "python3", "-m", "venv", "--system-site-packages", "--without-pip", self.prefix]
        subprocess.run(made, check=True)

    def pip(self, *words: str) -> str:
        """pip of the copy; what it says."""
        command = [self.python, "-m", "pip", "--disable-pip-version-check", *words]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder)
        if ran.returncode:
            raise UnavailableError(f"pip {' '.join(words)}: {(ran.stderr.strip().splitlines() or ['failed'])[-1]}")
        return ran.stdout

    def install(self, *requirements: str) -> None:
        """Install exactly these, whatever they need and whatever needs them."""
        self.pip("install", "-q", "--no-deps", *requirements)

    def uninstall(self, *names: str) -> None:
        self.pip("uninstall", "-q", "-y", *names)

    def unpacked(self, requirement: str) -> Path:
        """The files of a wheel from the index, outside of every environment; kept for the next run."""
        place = self.store / "unpacked" / requirement
        if not place.exists():
            wheels = self.store / "wheels" / requirement
            self.pip("download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(wheels), requirement)
            with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
                wheel.extractall(place.with_suffix(".part"))
            shutil.rmtree(wheels)
            place.with_suffix(".part").rename(place)
        return place

    def library_path(self, requirement: str, folder: str, only: str = "*") -> None:
        """LD_LIBRARY_PATH names libraries of another release, as modules and tutorials set it."""
        links = self.beside / "lib"
        links.mkdir()
        for library in (self.unpacked(requirement) / "nvidia" / folder / "lib").glob(only):
            (links / library.name).symlink_to(library)
        self.variables["LD_LIBRARY_PATH"] = str(links)

    def compiled(self, source: str, target: Path) -> Path:
        """A shared library of C code."""
        if shutil.which("gcc") is None:
            raise UnavailableError("no gcc")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        made = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(target)]
        subprocess.run(made, input=source.encode(), check=True, capture_output=True)
        return target

    def belong_to_uv(self) -> None:
        """As if uv had made it: no pip inside, and uv's line in pyvenv.cfg."""
        if shutil.which("uv") is None:
            raise SystemExit("no uv is on PATH")
        for path in [*self.site.glob("pip"), *self.site.glob("pip-*.dist-info")]:
            shutil.rmtree(path)
        for path in self.python.parent.glob("pip*"):
            path.unlink()
        settings = self.prefix / "pyvenv.cfg"
        text = settings.read_text()
        settings.unlink()
        settings.write_text(f"uv = 0.9.0\n{text}")

    def contents(self) -> dict[Path, str]:
        """Of each file and link its content, as a digest; without what Python itself writes there."""
        found = {}
        for folder, folders, names in os.walk(self.prefix):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names + [one for one in folders if Path(folder, one).is_symlink()]:
                path = Path(folder, name)
                target = os.readlink(path) if path.is_symlink() else _digest(path)
                found[path.relative_to(self.prefix)] = target
        return found

    def environ(self) -> dict[str, str]:
        """What a person's shell has, without what steers Python or the loader from outside."""
        steering = ("PYTHON", "LD_", "VIRTUAL_ENV", "CONDA", "CUDA", "HIP_", "ROCR_", "GPUDOCTOR", "NVIDIA_")
        plain = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
        state = {"XDG_STATE_HOME": str(self.beside / "state"), "OMP_NUM_THREADS": "2"}
        return {**plain, **state, **self.variables}
