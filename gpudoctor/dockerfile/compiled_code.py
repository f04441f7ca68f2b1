"""The GPUs that commands of an image compile for, as options and variables list them."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dockerfile.image import Step
from gpudoctor.dockerfile.installs import WITH_VALUE, split_options

if TYPE_CHECKING:
    from gpudoctor.dockerfile.image import Image
    from gpudoctor.machine import Vendor
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import GpuList

_EVERYTHING = ("native", "all", "all-major", "auto", "common")
_NVIDIA = re.compile(r"(?:(sm|compute)_)?(\d{1,2})\.?(\d)([af]?)(\+ptx|-real|-virtual)?")
_AMD = re.compile(r"gfx[0-9a-f]+(?:-\d)*(?:-generic)?(?::[\w:+-]+)?")
_ASSIGNED = re.compile(
    r"""(?:^|[\s;,=]|-D|cmake\.define\.)([A-Z]\w+)(?::\w+)?=("[^"]*"|'[^']*'|(?:(?!;-D)[^\s"'])+)"""
)
_WHOLE = re.compile(r"(?:-D|cmake\.define\.)?([A-Z]\w+)(?::\w+)?=(.*)", re.DOTALL)
_GENCODE = re.compile(r"(?:-gencode|--generate-code)[ =]\W?arch=[\w$]+,\s*code=\W*([\w$,]+)")
_ARCH = re.compile(
    r"(?:(?<![\w-])-arch|--gpu-architecture|--cuda-gpu-arch)[ =]((?:sm|compute)_\w+|native|all(?:-major)?|\$)"
)
_OFFLOAD = re.compile(r"--(?:offload-arch|amdgpu-target)[ =]([\w$:+,-]+)")
_SETUP = re.compile(r"\bsetup\.py (install|develop|build|build_ext|bdist_wheel)\b|\bpython[\d.]* -m build\b")
_SOURCE = re.compile(
    r"(?:.* @ )?git\+|(?:\.{1,2}|/|[\w.-]+/)(?!.*\.(?:whl|txt|toml|lock)\b)|\.(?:\[|$)|https?://.*\.(?:tar\.gz|zip)$"
)
_COMPILERS = {"nvcc": "nvcc", "hipcc": "hipcc", "clang++": "hipcc", "amdclang++": "hipcc", "cargo": "cargo"}
_MAY_READ = ("python", "source", "cmake", "make", "script")
_LONGEST = 200


class GpuCode(Struct, frozen=True):
    """What a command compiles for GPUs of one vendor, by what lists them."""

    vendor: Vendor
    written: str
    """As it stands there: "TORCH_CUDA_ARCH_LIST=8.0;8.6"."""
    variable: str = ""
    """The variable that it comes from; "": the command has it."""
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    everything: bool = False
    """Whether it is for every GPU, or for that of the builder."""
    known: bool = True
    """Whether all of it could be read."""
    sure: bool = True
    """Whether the command surely reads it, and runs."""


def compiled_code(image: Image, step: Step, matrix: Matrix) -> Iterator[GpuCode]:
    """The lists of GPUs that count for a command; none if it compiles nothing. What the command itself lists counts
    before the variables."""
    tool = _tool(step)
    if not tool:
        return
    rows = {row.name: row for row in matrix.tables.gpu_lists}
    values = _values(image, step, rows)
    doubtful = tool in _MAY_READ
    own = [replace(code, sure=not step.command.maybe) for code in _listed(step.command.argv[1:], rows)]
    for name, value in values.items():
        if rows[name].vendor is None and ((reads := _reads(step, tool, rows[name])) or doubtful):
            own += [
                replace(code, variable=name, sure=reads and not step.command.maybe)
                for code in _listed((value,), rows)
            ]
    yield from own
    for name, value in values.items():
        vendor = rows[name].vendor
        if vendor is None or any(code.vendor == vendor for code in own):
            continue
        if (reads := _reads(step, tool, rows[name])) or doubtful:
            code = _code(vendor, [(rows[name], value)], f"{name}={value}")
            yield replace(code, variable=name, sure=reads and not step.command.maybe)


def _values(image: Image, step: Step, rows: Iterable[str]) -> dict[str, str]:
    """The lists and options in the variables that a command sees. One that depends on something unknown is "$"."""
    found = {name: value for name in rows if (value := step.command.variables.get(name, "").strip())}
    for name in rows:
        setting = image.settings.get(name) if image.form != "definition" else None
        unknown = setting is not None and setting.value is None and setting.line < step.command.line
        if unknown and name not in step.command.variables:
            found[name] = "$"
    return found


def _tool(step: Step) -> str:
    """What compiles in a command: python (a package, surely), source (a package of which that is not known), cmake,
    make, script, or a compiler; "" for other commands."""
    argv, text = step.command.argv, step.command.text
    name = os.path.basename(argv[0])
    if name == "cmake":
        return "" if {"--build", "--install", "-E", "-P", "--version"} & set(argv) else "cmake"
    if name in _COMPILERS:
        return _COMPILERS[name]
    if name in ("make", "ninja"):
        return "make"
    if _SETUP.search(text):
        return "python"
    if re.search(r"(?:^|/|\s)(?:pip[\d.]*|uv)(?:\s|$)", text) and {"install", "wheel", "add", "sync"} & set(argv):
        return _of_package(argv)
    return "script" if step.script is not None else ""


def _of_package(argv: tuple[str, ...]) -> str:
    words, _, flags = split_options(argv[1:], WITH_VALUE - {"-e", "--editable"})
    if words and words[-1].endswith(".whl"):
        return ""
    if any(flag.startswith("--no-build-isolation") for flag in flags):
        return "python"
    return "source" if any(_SOURCE.match(word) for word in words) else "package"


def _reads(step: Step, tool: str, row: GpuList) -> bool:
    """Whether a command surely compiles by a variable."""
    named = set() if step.pip.index_urls else {one.name for one in step.pip.requirements}
    if named & set(row.packages):
        return not step.pip.extra_urls and not step.pip.find_links
    return tool in row.read_by


def _listed(texts: Sequence[str], rows: Mapping[str, GpuList]) -> Iterator[GpuCode]:
    """What options list: those of CMake and make by their names, and those of compilers."""
    found: dict[Vendor, list[tuple[GpuList | None, str]]] = {"nvidia": [], "amd": []}
    written: dict[Vendor, list[str]] = {"nvidia": [], "amd": []}
    for name, value in _assignments(texts):
        row = rows.get(name)
        if value and row is not None and row.vendor is not None:
            found[row.vendor].append((row, value))
            written[row.vendor].append(f"{name}={value}")
    text = " ".join(texts)
    for pattern in (_GENCODE, _ARCH, _OFFLOAD):
        for match in pattern.finditer(text):
            vendor: Vendor = "amd" if pattern is _OFFLOAD and "gfx" in match[1] else "nvidia"
            found[vendor].append((None, match[1] + ("," if pattern is _GENCODE else "")))
            written[vendor].append(match[0])
    for vendor, entries in found.items():
        if entries:
            yield _code(vendor, entries, " ".join(dict.fromkeys(written[vendor]))[:_LONGEST])


def _assignments(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        whole = _WHOLE.fullmatch(text)
        if whole is not None and " -D" not in whole[2] and ";-D" not in whole[2]:
            yield whole[1], whole[2].strip("\"'")
            continue
        for match in _ASSIGNED.finditer(text):
            yield match[1], match[2].strip("\"'")


def _code(vendor: Vendor, entries: list[tuple[GpuList | None, str]], written: str) -> GpuCode:
    sass: list[str] = []
    ptx: list[str] = []
    gfx: list[str] = []
    everything, known = False, True
    for row, value in entries:
        words = [word for word in re.split(r"[;,\s]+", value.lower()) if word]
        if row is not None:
            words = [part for word in words for part in row.words.get(word, word).lower().split(";")]
        for number, word in enumerate(words):
            if word in _EVERYTHING:
                everything = True
            elif vendor == "amd" and _AMD.fullmatch(word):
                gfx.append(word)
            elif vendor == "nvidia" and (found := _NVIDIA.fullmatch(word)):
                kind, mark, arch = found[1], found[5] or "", f"{found[2]}{found[3]}{found[4]}"
                rule = row.ptx if row is not None else ("none" if value.endswith(",") else "each")
                last = rule == "newest" and number == len(words) - 1
                if kind != "compute" and mark != "-virtual":
                    sass.append(f"sm_{arch}")
                if kind == "compute" or mark in ("+ptx", "-virtual") or (rule == "each" and not mark) or last:
                    ptx.append(f"compute_{arch}")
            else:
                known = False
        known = known and bool(words)
    return GpuCode(vendor, written, "", tuple(sass), tuple(ptx), tuple(gfx), everything, known)
