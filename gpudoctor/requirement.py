"""What a job asks of a machine, as one small form: `gpu>=8`, `gpu.memory>=70GiB`, `any(gfx in gfx942,gfx950)`.

    text        = requirement { "," requirement }
    requirement = comparison | "any(" comparison ")" | flag | range
    comparison  = field operator value            flag = "p2p" | "same-model" | "torch.cuda" | "jax.cuda" ...
    range       = comparison { "," operator value }

A field of a GPU holds for all usable GPUs, with `any(...)` for at least one; without a usable GPU it never holds.
"""

from __future__ import annotations

import operator as comparing
import re
from collections.abc import Callable
from typing import Any, Literal, cast

from msgspec import Struct

from gpudoctor.matrix.versions import first_figures

Kind = Literal["count", "size", "version", "build", "text", "arch", "flag"]
Operator = Literal[">=", "<=", "==", "!=", "~=", ">", "<", "in", ""]


class Field(Struct, frozen=True):
    """Something that can be required: what it is, and whether each GPU has its own."""

    kind: Kind
    per_gpu: bool
    meaning: str

    @property
    def operators(self) -> tuple[Operator, ...]:
        """What may follow its name; nothing follows a flag."""
        return _OPERATORS[self.kind]


OTHER_FRAMEWORKS = {"jax": "JAX", "tensorflow": "TensorFlow", "onnxruntime": "ONNX Runtime", "cupy": "CuPy"}
"""Frameworks beside torch that can be required, by the matrix's names."""

FIELDS = {
    "gpu": Field("count", False, "usable GPUs; a GPU in MIG mode counts as one, as a process sees one slice"),
    "gpu.model": Field("text", True, "name of the GPU as the driver prints it"),
    "gpu.memory": Field("size", True, "memory of the GPU; of a MIG slice its own; of unified memory what it may use"),
    "sm": Field("version", True, "CUDA compute capability"),
    "gfx": Field("arch", True, "AMD gfx target"),
    "driver": Field("version", False, "NVIDIA driver"),
    "driver.cuda": Field("version", False, "highest CUDA that the NVIDIA driver serves"),
    "torch": Field("version", False, "torch of the examined environment; 2.9.0a0 counts as 2.9"),
    "torch.cuda": Field("build", False, "CUDA that torch was built with; alone: any CUDA build"),
    "rocm": Field("version", False, "ROCm that torch was built with, else the installed one"),
    "shm": Field("size", False, "size of /dev/shm"),
    "p2p": Field("flag", False, "every usable GPU reaches every other's memory"),
    "same-model": Field("flag", False, "all usable GPUs are of one model"),
}
for _name, _title in OTHER_FRAMEWORKS.items():
    FIELDS[_name] = Field("version", False, f"{_title} of the examined environment")
    FIELDS[f"{_name}.cuda"] = Field("build", False, f"CUDA that {_title} was built with; alone: any CUDA build")
    FIELDS[f"{_name}.rocm"] = Field("build", False, f"ROCm that {_title} was built with; alone: any ROCm build")

_OPERATORS: dict[Kind, tuple[Operator, ...]] = {
    "count": (">=", "<=", "==", "!=", ">", "<"),
    "size": (">=", "<=", "==", "!=", ">", "<"),
    "version": (">=", "<=", "==", "!=", ">", "<"),
    "build": (">=", "<=", "==", "!=", ">", "<", ""),
    "text": ("~=", "==", "!=", "in"),
    "arch": ("==", "!=", "in"),
    "flag": (),
}
_UNITS = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}  # fmt: skip
_FORM = r"(?P<name>[A-Za-z0-9.-]+?)\s*(?:(?P<operator>>=|<=|==|!=|~=|>|<|\bin\b)\s*(?P<value>.*))?"
_BOUND = r"\s*(?:>=|<=|==|!=|>|<)[^,<>=!~]+"
_NEXT = rf",\s*(?=any\s*\(|(?:{'|'.join(map(re.escape, FIELDS))})\s*(?:[<>=!~,]|in\b|$))"
"""A comma with another requirement behind it; those of a list or a range have none."""
_LENGTH = 1000

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": comparing.ge,
    "<=": comparing.le,
    ">": comparing.gt,
    "<": comparing.lt,
    "==": comparing.eq,
    "!=": comparing.ne,
}


class RequirementError(ValueError):
    """A text that is no requirement: what is wrong with it, and what would be right."""


class Requirement(Struct, frozen=True):
    """One requirement; `values` holds more than one only after `in`."""

    text: str
    name: str
    operator: Operator = ""
    values: tuple[str, ...] = ()
    any: bool = False
    firm: bool = False
    """Asked by the command line or a variable: no file of the project takes it back."""

    @property
    def field(self) -> Field:
        return FIELDS[self.name]

    @property
    def size(self) -> int:
        """The required size in bytes."""
        return _size(self.values[0]) or 0

    @property
    def needs_gpu(self) -> bool:
        """Whether it never holds without a usable GPU."""
        if self.name == "gpu":
            return not self.compares(0, int(self.values[0]))
        return self.field.per_gpu or self.field.kind == "flag"

    @property
    def needs_torch(self) -> bool:
        """Whether it never holds without torch."""
        return self.framework == "torch"

    @property
    def framework(self) -> str | None:
        name = self.name.partition(".")[0]
        return name if name == "torch" or name in OTHER_FRAMEWORKS else None

    def compares(self, have: Any, want: Any) -> bool:
        """Whether the operator, one of order, holds between the two."""
        return _COMPARE[self.operator](have, want)

    def admits(self, version: str) -> bool:
        """Whether a version meets it, compared as far as it names numbers: 2.9.1 meets torch==2.9. "" is no version;
        one without a comparison is met by every version."""
        if not version or not self.operator:
            return bool(version)
        wanted = tuple(int(part) for part in self.values[0].split("."))
        return self.compares(first_figures(version, len(wanted)), wanted)


def split_requirements(text: str) -> tuple[str, ...]:
    """The requirements in a text: "gpu>=2,torch>=2.6,<2.8" asks for three things, and all must hold."""
    parts = re.split(_NEXT, text)
    ranges = ((part, re.fullmatch(rf"\s*([a-z][a-z.-]*)\s*({_BOUND}(?:,{_BOUND})+)", part)) for part in parts)
    several = ([found[1] + one.strip() for one in found[2].split(",")] if found else [part] for part, found in ranges)
    return tuple(one for group in several for one in group)


def parse(text: str, *, firm: bool = False) -> Requirement:
    """Read one requirement. Raises RequirementError."""
    inner = text.strip()
    if len(inner) > _LENGTH:
        raise RequirementError(f"{inner[:40]!r}... is longer than {_LENGTH} characters")
    any_gpu = re.fullmatch(r"any\s*\((.*)\)", inner, re.DOTALL)
    found = re.fullmatch(_FORM, (any_gpu[1] if any_gpu else inner).strip(), re.DOTALL)
    if found is None:
        raise RequirementError(f"{text!r} is no requirement; write one such as {example('gpu')} or {example('sm')}")
    name, operator, value = found["name"], found["operator"] or "", found["value"]
    field = FIELDS.get(name)
    if field is None:
        raise RequirementError(f"{text!r}: nothing is called {name!r}{_near(name)}; known are {', '.join(FIELDS)}")
    if any_gpu and not field.per_gpu:
        raise RequirementError(f"{text!r}: any(...) is for what each GPU has, and {name} is of the whole machine")
    _check_operator(text, name, field, operator)
    values = _values(text, name, field, operator, value or "")
    return Requirement(
        text=inner, name=name, operator=cast(Operator, operator), values=values, any=bool(any_gpu), firm=firm
    )


def _check_operator(text: str, name: str, field: Field, operator: str) -> None:
    allowed = field.operators
    if not allowed and operator:
        raise RequirementError(f"{text!r}: {name} stands alone, nothing follows it")
    if allowed and operator not in allowed and not operator:
        raise RequirementError(f"{text!r}: {name} needs a comparison, such as {example(name)}")
    if operator and operator not in allowed:
        raise RequirementError(
            f"{text!r}: {name} takes {' '.join(filter(None, allowed))}, not {operator}; such as {example(name)}"
        )


def _values(text: str, name: str, field: Field, operator: str, value: str) -> tuple[str, ...]:
    if not operator:
        return ()
    parts = value.split(",") if operator == "in" else [value]
    values = tuple(_unquoted(part) for part in parts)
    for one in values:
        if not _is_sound(field.kind, one):
            raise RequirementError(f"{text!r}: {one!r} is no value for {name}; write it as in {example(name)}")
    return values


def _is_sound(kind: Kind, value: str) -> bool:
    if kind == "size":
        return _size(value) is not None
    version = r"\d{1,9}(\.\d{1,9}){0,5}"
    patterns = {"count": r"\d{1,6}", "version": version, "build": version, "arch": "gfx[0-9a-f]{3,5}", "text": ".+"}
    return re.fullmatch(patterns[kind], value) is not None


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1].strip()
    return text


def _size(text: str) -> int | None:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*([KMGT]?I?B?|)", text.strip(), re.IGNORECASE)
    if found is None:
        return None
    unit = found[2].upper()
    # As `docker run --shm-size` has it: a bare letter is a power of two.
    factor = _UNITS.get(unit, _UNITS.get(f"{unit}IB"))
    return None if factor is None else int(float(found[1]) * factor)


def example(name: str) -> str:
    """A requirement of that field, as one writes it."""
    return {
        "gpu": "gpu>=1", "gpu.model": 'gpu.model~="H100"', "gpu.memory": "gpu.memory>=70GiB", "sm": "sm>=8.0",
        "gfx": "gfx in gfx942,gfx950", "driver": "driver>=550", "driver.cuda": "driver.cuda>=12.4",
        "torch": "torch>=2.6", "torch.cuda": "torch.cuda>=12.4", "rocm": "rocm>=6.4", "shm": "shm>=8GiB",
        "jax": "jax>=0.6", "jax.cuda": "jax.cuda>=12", "jax.rocm": "jax.rocm", "tensorflow": "tensorflow>=2.18",
        "tensorflow.cuda": "tensorflow.cuda", "onnxruntime": "onnxruntime>=1.20", "cupy": "cupy>=13",
    }.get(name, name)  # fmt: skip


_OTHER_NAMES = {
    "gpu.arch": "sm or gfx", "arch": "sm or gfx", "gpu.sm": "sm", "cc": "sm", "gpu.cc": "sm",
    "compute": "sm", "gpu.gfx": "gfx", "gpu.name": "gpu.model",
    "name": "gpu.model", "memory": "gpu.memory", "vram": "gpu.memory", "gpus": "gpu", "gpu.count": "gpu",
    "cuda": "torch.cuda or driver.cuda", "hip": "rocm", "torch.rocm": "rocm", "torch.version": "torch",
    "pytorch": "torch", "tf": "tensorflow", "ort": "onnxruntime",
}  # fmt: skip
"""What people, and the report's JSON, call them."""


def _near(name: str) -> str:
    import difflib

    if other := _OTHER_NAMES.get(name.lower()):
        return f" (it is {other} here)"
    near = difflib.get_close_matches(name, FIELDS, n=1)
    return f" (near it: {near[0]})" if near else ""
