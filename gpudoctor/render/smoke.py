"""Results of the smoke kernels for a person: one line in the inventory, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.machine import Smoke, SmokeDevice, SmokeKernel
    from gpudoctor.render.text import Line

_STYLES = {
    "pass": "green",
    "wrong": "bold red",
    "error": "bold red",
    "crash": "bold red",
    "timeout": "bold red",
    "skipped": "dim",
}
_UNITS = {"gb_per_s": "GB/s", "tflops": "TFLOPS", "minutes": "min"}
_NAME, _DTYPES, _STATUS = 20, 19, 9
_TOLD = 3
"""So many failures are named in one line."""


def smoke_summary(smoke: Smoke, milliseconds: float | None = None) -> str:
    """ "quick: 14 of 14 kernels right on cuda:0 (1.8 s)", and what failed."""
    run = [kernel for kernel in smoke.kernels if kernel.status != "skipped"]
    skipped = len(smoke.kernels) - len(run)
    if not run:
        why = smoke.why or (f"{skipped} skipped" if skipped else "no kernel was chosen")
        return f"{smoke.level}: nothing was computed ({why})"
    right = [kernel for kernel in run if kernel.status == "pass"]
    devices = ", ".join(dict.fromkeys(kernel.device for kernel in run))
    took = f" ({milliseconds / 1000:.1f} s)" if milliseconds else ""
    parts = [f"{smoke.level}: {len(right)} of {len(run)} kernels right on {devices}{took}"]
    failed = [f"{kernel.status}: {_title(kernel)}" for kernel in run if kernel.status != "pass"]
    parts += failed[:_TOLD]
    if len(failed) > _TOLD:
        parts.append(f"{len(failed) - _TOLD} more failed")
    if skipped:
        parts.append(f"{skipped} skipped")
    return "; ".join([*parts, smoke.why] if smoke.why else parts)


def smoke_table(smoke: Smoke) -> Iterator[Line]:
    """What each kernel did, by device: dtypes that went alike share a line, those skipped for one reason, too."""
    if smoke.kernels:
        head = f"  {'kernel':<{_NAME}} {'dtype':<{_DTYPES}} {'status':<{_STATUS}}{'ms':>8}  error (tolerance)"
        yield [(head, "dim")]
    for device in dict.fromkeys(kernel.device for kernel in smoke.kernels):
        kernels = [kernel for kernel in smoke.kernels if kernel.device == device]
        yield [(f"  {_device(device, smoke.devices)}", "bold")]
        for alike in _alike(kernels):
            yield from _row(alike)
        yield from _skipped(kernel for kernel in kernels if kernel.status == "skipped")
    if not smoke.kernels:
        yield [(f"  No kernel was run{f': {smoke.why}' if smoke.why else ''}.", "")]
    elif smoke.why:
        yield [(f"  {smoke.why}", "")]


def _alike(kernels: Iterable[SmokeKernel]) -> Iterator[tuple[SmokeKernel, ...]]:
    """Passes of one kernel together; every failure for itself."""
    told = [kernel for kernel in kernels if kernel.status != "skipped"]
    for (_, passed), group in groupby(told, key=lambda kernel: (kernel.name, kernel.status == "pass")):
        members = tuple(group)
        plain = tuple(kernel for kernel in members if not kernel.measures)
        if passed and plain:
            yield plain
        yield from ((kernel,) for kernel in members if not passed or kernel.measures)


def _row(alike: tuple[SmokeKernel, ...]) -> Iterator[Line]:
    first = alike[0]
    dtypes = " ".join(_short(kernel.dtype) for kernel in alike)
    took = [kernel.ms for kernel in alike if kernel.ms is not None]
    milliseconds = f"{sum(took):.1f}" if took else ""
    style = _STYLES[first.status]
    yield [
        (f"    {first.name:<{_NAME - 2}} {dtypes:<{_DTYPES}} ", ""),
        (f"{first.status:<{_STATUS}}", style),
        (f"{milliseconds:>8}  {_worst(alike)}".rstrip(), ""),
    ]
    for kernel in alike:
        for text in filter(None, (_said(kernel), _measured(kernel))):
            yield [(f"      {text}", style if kernel.status != "pass" else "dim")]


def _worst(alike: tuple[SmokeKernel, ...]) -> str:
    """Error and tolerance of the one that came nearest to its tolerance."""
    compared = [k for k in alike if k.error is not None and k.tolerance is not None]
    if not compared:
        return ""
    near = max(compared, key=lambda k: (k.error or 0.0) / k.tolerance if k.tolerance else 0.0)
    return f"{near.error:.2g} ({near.tolerance:.2g})"


def _said(kernel: SmokeKernel) -> str:
    """Signal, detail and the last line of the message of a kernel, those that there are, each once."""
    last = kernel.message.rpartition("\n")[2]
    message = last if last not in kernel.detail else ""
    signal = kernel.signal if kernel.signal not in kernel.detail + message else ""
    return ": ".join(filter(None, (signal, kernel.detail, message)))


def _measured(kernel: SmokeKernel) -> str:
    figures = (f"{value:.4g} {_UNITS.get(name, name)}" for name, value in kernel.measures.items())
    return f"measured {', '.join(figures)}" if kernel.measures else ""


def _skipped(kernels: Iterable[SmokeKernel]) -> Iterator[Line]:
    reasons: dict[str, list[str]] = {}
    for kernel in kernels:
        reasons.setdefault(kernel.detail or kernel.message or "not told why", []).append(_title(kernel))
    for why, titles in reasons.items():
        yield [("    skipped  ", "dim"), (f"{', '.join(titles)} ({why})", "dim")]


def _device(name: str, devices: tuple[SmokeDevice, ...]) -> str:
    device = next((device for device in devices if device.name == name), None)
    if device is None:
        return name
    memory = f"{device.memory / (1 << 30):.0f} GiB" if device.memory else ""
    return f"{name:<7} {', '.join(filter(None, (device.product, device.arch, memory)))}".rstrip()


def _short(dtype: str) -> str:
    """ "fp16", "bf16", "fp8_e4m3fn", "int8"."""
    return dtype.replace("bfloat", "bf").replace("float", "fp")


def _title(kernel: SmokeKernel) -> str:
    return " ".join(filter(None, (kernel.name, _short(kernel.dtype))))
