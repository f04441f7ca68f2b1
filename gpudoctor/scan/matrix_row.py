"""The matrix rows that a newly released torch wheel needs, as YAML that `matrix validate` accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from gpudoctor.frameworks.torch.probes.files import (
    OriginFacts,
    VersionFile,
    build_of,
    origin_of,
    parse_version_file,
    rocm_of,
)
from gpudoctor.host import InputError
from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import public_version
from gpudoctor.scan.library import Library, arch_key, combined_code, libraries
from gpudoctor.scan.places import Wheel

_HALF = 0.5
_DECIDES = r"(?:.*/)?libtorch_(?:cuda|cuda_cu|cuda_cpp|hip)\.so[.\d]*"
_LINALG = r"(?:.*/)?libtorch_cuda_linalg\.so[.\d]*"
_PLAIN = re.compile(r"[A-Za-z_][\w.]*\Z|\d+\.\d+\.\d[\w.]*\Z")


def matrix_rows(wheel: Wheel, file_name: str) -> str:
    """Rows of torch_builds and torch_releases for one wheel. Raises InputError if it is no torch wheel."""
    version = parse_version_file(wheel.text(lambda name: name == "torch/version.py"))
    head = _fields(wheel.text(lambda name: re.fullmatch(r"torch-[^/]+\.dist-info/METADATA", name) is not None))
    platform = re.search(r"(x86_64|aarch64)\.whl$", file_name)
    if version is None or platform is None or "Version" not in head:
        raise InputError(
            f"{file_name}: --matrix-row needs a torch wheel for Linux, under the name it was published by"
        )
    requires = tuple(head.get("Requires-Dist", ()))
    record = Distribution(name="torch", version=head["Version"][0], installer="pip", requires=requires)
    origin = origin_of(version, OriginFacts(real_path="", distribution=record))
    build, carried = build_of(version) or "cpu", libraries(wheel)
    tag = re.search(r"-cp(\d)(\d+)-", file_name)
    number = public_version(version.version)
    lines = [
        "torch_builds:",
        f"  - version: {number}",
        "    source: the wheel itself",
        f'    checked: "{date.today().isoformat()}"',
        f"    pythons: [{_quote(f'{tag[1]}.{tag[2]}') if tag else ''}]  # of this wheel; add those of the others",
        f"    rows:\n      - {_build(version, build, origin, f'linux-{platform[1]}', carried)}",
    ]
    if origin == "pypi":
        lines += [
            "torch_releases:",
            "  source: package index metadata",
            f'  checked: "{date.today().isoformat()}"',
            f"  rows:\n    - {_release(number, version, requires, file_name)}",
        ]
    lines.append(f"# companions: torch {number} needs a row too; no wheel names its torchvision and torchaudio")
    return "\n".join(lines) + "\n"


def _build(version: VersionFile, build: str, origin: str, platform: str, carried: list[Library]) -> str:
    decides = [library.code for library in carried if re.fullmatch(_DECIDES, library.path)]
    linalg = [arch for library in carried if re.fullmatch(_LINALG, library.path) for arch in library.code.sass]
    row: dict[str, object] = {"build": build, "origin": origin, "platform": platform}
    if version.cuda:
        row["cuda"] = version.cuda
    if build.startswith("rocm"):
        row["rocm"] = build.removeprefix("rocm")
    unreadable = next((code.reason for code in decides if code.reason), None)
    if unreadable:
        raise InputError(f"libtorch cannot be read completely: {unreadable}")
    if any(code.kpack for code in decides):
        row["note"] = f"device code in distributions of its own; ROCm {rocm_of(version)}"
        return _inline(row)
    code = combined_code(decides) if decides else None
    archs = [arch for arch in code.architectures(_HALF) if not arch.startswith("compute_")] if code else []
    row["archs"] = sorted(archs, key=arch_key)
    row["ptx"] = [arch for arch in code.architectures(_HALF) if arch.startswith("compute_")] if code else []
    partial = [arch for arch in code.architectures() if code.share[arch] < _HALF] if code else []
    if partial:
        row["partial"] = sorted(partial, key=arch_key)
    if linalg:
        row["linalg"] = linalg
    row["basis"] = "measured"
    return _inline(row)


def _release(number: str, version: VersionFile, requires: tuple[str, ...], file_name: str) -> str:
    row: dict[str, object] = {"version": number}
    if version.cuda:
        row["cuda"] = version.cuda
    for field in ("cudnn", "nccl"):
        found = _pin(requires, rf"nvidia-{field}-cu\d+")
        if found:
            row[field] = found.lstrip("=")
    triton = _pin(requires, "triton")
    if triton:
        row["triton"] = triton
    glibc = re.search(r"[-.]manylinux_(\d+)_(\d+)_", file_name)
    if glibc:
        row["glibc"] = f"{glibc[1]}.{glibc[2]}"
    return _inline(row)


def _pin(requires: Iterable[str], name: str) -> str | None:
    """The version specifier of a requirement: "==9.20.0.48" of "nvidia-cudnn-cu13 (==9.20.0.48); ..."."""
    for line in requires:
        found = re.match(rf"{name}\s*\(?([=~<>!][^;)\s]*)", line)
        if found:
            return found[1]
    return None


def _fields(text: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for line in re.split(r"\r?\n\r?\n", text, maxsplit=1)[0].splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith((" ", "\t")):
            fields.setdefault(name, []).append(value.strip())
    return fields


def _inline(row: dict[str, object]) -> str:
    parts = []
    for name, value in row.items():
        text = f"[{', '.join(_quote(item) for item in value)}]" if isinstance(value, list) else _quote(str(value))
        parts.append(f"{name}: {text}")
    return "{" + ", ".join(parts) + "}"


def _quote(text: str) -> str:
    """A YAML scalar that stays a text: 13.0 would be a number."""
    import json

    return text if _PLAIN.match(text) or re.match(r"[a-z]+-[\w.-]+\Z|[=~]=[\w.]+\Z", text) else json.dumps(text)
