"""What gpudoctor reads in the files of real wheels, against the vendors' own tools.

    python -m benchmarks.accuracy.libraries CUOBJDUMP BUNDLER WHEEL_OR_FOLDER ...

CUOBJDUMP is in the package nvidia-cuda-cuobjdump, BUNDLER is LLVM's clang-offload-bundler (22: older ones cannot
unpack the bundles of ROCm 7), readelf tells what a library needs. Every difference is a line; a line per wheel or
folder says how many files were compared.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.elf import MAGIC, Elf, open_elf
from gpudoctor.codeobjects.library import read_code

_CUDA = re.compile(r"^Fatbin (elf|ptx) code:\n=+\narch = sm_(\w+)$", re.MULTILINE)
_CUBIN = re.compile(r"^ELF file .*\.(sm_\w+)\.cubin$", re.MULTILINE)
_NO_CODE = "does not contain device code"
_LINK = re.compile(r"\((NEEDED|RPATH|RUNPATH|SONAME)\)[^\[]*\[(.*)\]$", re.MULTILINE)
_COMPRESSED = b"CCOB"
_BUNDLES = (b"__CLANG_OFFLOAD_BUNDLE__", _COMPRESSED)
_LARGE_SINCE = 3
"""Version of compressed bundles whose sizes have 64 bits."""
_TOOL_SECONDS = 900


class Compared(Struct):
    """How the files of one wheel or folder compare."""

    files: int = 0
    with_code: int = 0
    untold: int = 0
    """The vendor's tool ended with an error: nothing to compare with."""
    differ: int = 0


class Tools(Struct, frozen=True):
    """The programs that tell the truth."""

    cuobjdump: str
    bundler: str

    def links(self, file: Path) -> list[tuple[str, str]]:
        """The entries of the dynamic section that name libraries and folders."""
        return _LINK.findall(_printed(["readelf", "-dW", str(file)]) or "")

    def cuda(self, file: Path) -> set[str] | None:
        """Architectures of the CUDA code, "sm_90a" and "compute_90"; None where cuobjdump fails."""
        listed = cuda_listing(self.cuobjdump, file)
        return None if listed is None else set(listed)

    def hip(self, file: Path, folder: Path) -> set[str] | None:
        """gfx targets of every bundle in a library's HIP section; None where the bundler fails."""
        targets = set[str]()
        for number, bundle in enumerate(_bundles(file, folder)):
            part = folder / f"bundle{number}"
            part.write_bytes(bundle)
            printed = _printed([self.bundler, "--list", "--type=o", f"--input={part}"])
            part.unlink()
            if printed is None:
                return None
            targets.update(line.partition("--")[2] for line in printed.split() if "amdgcn" in line)
        return targets


def cuda_listing(cuobjdump: str, file: Path) -> list[str] | None:
    """The architecture of each code object of a file, PTX that a driver would pass over too; None where cuobjdump
    fails: half a list is no truth."""
    # It prints no header for a file that is itself a cubin.
    done = _run([cuobjdump, "-all" if file.suffix != ".cubin" else "--list-elf", str(file)])
    if done is None or (done.returncode and _NO_CODE not in done.stdout + done.stderr):
        return None
    return architectures(done.stdout)


def architectures(listing: str) -> list[str]:
    """The architecture of each code object that cuobjdump told: "sm_90a", "compute_90"."""
    found = [("sm_" if kind == "elf" else "compute_") + arch for kind, arch in _CUDA.findall(listing)]
    return found + _CUBIN.findall(listing)


def _run(argv: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=False, timeout=_TOOL_SECONDS
        )
    except subprocess.TimeoutExpired:
        return None


def _printed(argv: list[str]) -> str | None:
    """The output of a program; None where it failed."""
    done = _run(argv)
    return None if done is None or done.returncode else done.stdout


def _bundles(file: Path, folder: Path) -> Iterator[bytes]:
    """The offload bundles of a library, as objcopy cuts out their section."""
    section = folder / "section"
    section.unlink(missing_ok=True)
    subprocess.run(
        ["objcopy", "-O", "binary", "--only-section=.hip_fatbin", str(file), str(section)],
        check=False,
        capture_output=True,
    )
    packed = section.read_bytes() if section.exists() else b""
    starts = [at for at in range(0, len(packed), 4096) if packed.startswith(_BUNDLES, at)]
    for start, end in pairwise([*starts, len(packed)]):
        yield packed[start : min(end, start + _size(packed[start : start + 16]))]


def _size(head: bytes) -> int:
    """The size that a compressed bundle gives in its header: what is padded behind it does not unpack. A plain bundle
    may have padding."""
    if not head.startswith(_COMPRESSED):
        return sys.maxsize
    version = int.from_bytes(head[4:6], "little")
    return int.from_bytes(head[8 : 16 if version >= _LARGE_SINCE else 12], "little")


def compare(file: Path, tools: Tools, folder: Path, counts: Compared) -> Iterator[str]:
    """The differences between gpudoctor's reading of one file and the tools'."""
    with file.open("rb") as handle:
        links, code = _links(open_elf(handle)), read_code(handle)
    counts.files += 1
    if sorted(links) != sorted(told := _told(tools.links(file))):
        yield f"links: {links}, readelf {told}"
    cuda, hip = tools.cuda(file), tools.hip(file, folder)
    counts.with_code += bool(cuda or hip or code.architectures() or code.relocatable)
    counts.untold += cuda is None or hip is None
    if cuda is not None and cuda != (read := _cuda(code)):
        yield f"CUDA code: {sorted(read)}, cuobjdump {sorted(cuda)}"
    if hip is not None and hip != set(code.gfx):
        yield f"HIP code: {code.gfx}, clang-offload-bundler {sorted(hip)}"


def _links(elf: Elf) -> list[tuple[str, str]]:
    found = [("NEEDED", name) for name in elf.needed] + [("SONAME", elf.soname or "")]
    found += [("RPATH", ":".join(elf.rpath)), ("RUNPATH", ":".join(elf.runpath))]
    return [(kind, text) for kind, text in found if text]


def _told(links: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without the empty folders of a search path, which gpudoctor leaves out."""
    return [(kind, ":".join(filter(None, text.split(":")))) for kind, text in links]


def _cuda(code: Code) -> set[str]:
    """The linker's code too: cuobjdump does not tell it apart."""
    return {*code.sass, *code.ptx, *code.relocatable}


def _unpacked(wheel: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """The ELF files of a wheel, one at a time, or of a folder."""
    if wheel.is_dir():
        for path in sorted(wheel.rglob("*")):
            if path.is_file() and not path.is_symlink() and _is_elf(path.open("rb").read(4)):
                yield str(path.relative_to(wheel)), path
        return
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            with archive.open(name) as packed:
                if not _is_elf(packed.read(4)):
                    continue
            part = Path(archive.extract(name, folder))
            yield name, part
            part.unlink()


def _is_elf(head: bytes) -> bool:
    return head == MAGIC


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cuobjdump")
    parser.add_argument("bundler")
    parser.add_argument("wheels", nargs="+", type=Path)
    options = parser.parse_args()
    tools, wrong = Tools(options.cuobjdump, options.bundler), 0
    for wheel in options.wheels:
        counts = Compared()
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            for name, file in _unpacked(wheel, folder / "wheel"):
                for difference in compare(file, tools, folder, counts):
                    counts.differ += 1
                    print(f"  {name}: {difference}", flush=True)
        wrong += counts.differ
        told = f"{counts.with_code} with GPU code, {counts.untold} not told, {counts.differ} differences"
        print(f"{wheel.name}: {counts.files} libraries, {told}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
