"""Results of the smoke kernels for a person: one line in the inventory, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from gpudoctor.machine import Machine, Smoke, SmokeDevice, SmokeKernel
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import GpuRates
    from gpudoctor.render.lines import Line

_STYLES = {
    "pass": "green",
    "wrong": "bold red",
    "error": "bold red",
    "crash": "bold red",
    "timeout": "bold red",
    "skipped": "dim",
}
_UNITS = (("gb_per_s", "GB/s"), ("tflops", "TFLOPS"))
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


def rates_on_paper(machine: Machine, matrix: Matrix) -> dict[str, GpuRates]:
    """What the GPUs behind torch's devices ("cuda:0") reach by their data sheets, where the matrix has that."""
    rows = {device: matrix.rates.rates_of(gpu) for device, gpu in Situation(machine, matrix).behind.items()}
    return {device: row for device, row in rows.items() if row is not None}


def smoke_table(smoke: Smoke, rates: Mapping[str, GpuRates]) -> Iterator[Line]:
    """What each kernel did, by device: dtypes that went alike share a line, those skipped for one reason, too."""
    rows = {
        device: tuple(equal_results(kernel for kernel in smoke.kernels if kernel.device == device))
        for device in dict.fromkeys(kernel.device for kernel in smoke.kernels)
    }
    computed = [row for of_device in rows.values() for row in of_device if row[0].status != "skipped"]
    names = max((len(row[0].name) for row in computed), default=0)
    dtypes = max((len(dtype_names(row)) for row in computed), default=0)
    widths = (max(names, len("kernel")), max(dtypes, len("dtype")))
    if computed:
        head = f"    {'kernel':<{widths[0]}} {'dtype':<{widths[1]}} {'status':<7} {'ms':>6}  error (tolerance)"
        yield [(head, "dim")]
    for device, of_device in rows.items():
        yield [(f"  {device_title(device, smoke.devices)}", "bold")]
        for row in of_device:
            if row[0].status != "skipped":
                yield from _row(row, widths, rates.get(device))
        yield from _skipped_lines(row for row in of_device if row[0].status == "skipped")
    if not smoke.kernels:
        yield [(f"  No kernel was run{f': {smoke.why}' if smoke.why else ''}.", "")]
    elif smoke.why:
        yield [(f"  {smoke.why}", "")]


def equal_results(kernels: Iterable[SmokeKernel]) -> Iterator[tuple[SmokeKernel, ...]]:
    """The results of one kernel that differ only in the dtype: passes, and those skipped for one reason."""

    def kind(kernel: SmokeKernel) -> tuple[str, str, str]:
        return kernel.name, kernel.status, said_by(kernel) + str(kernel.measures)

    for (_, status, _), group in groupby(kernels, key=kind):
        members = tuple(group)
        if status in ("pass", "skipped"):
            yield members
        else:
            yield from ((kernel,) for kernel in members)


def _row(alike: tuple[SmokeKernel, ...], widths: tuple[int, int], rates: GpuRates | None) -> Iterator[Line]:
    first = alike[0]
    took = [kernel.ms for kernel in alike if kernel.ms is not None]
    milliseconds = f"{sum(took):.{int(sum(took) < 1000)}f}" if took else ""
    style = _STYLES[first.status]
    yield [
        (f"    {first.name:<{widths[0]}} {dtype_names(alike):<{widths[1]}} ", ""),
        (f"{first.status:<7}", style),
        (f" {milliseconds:>6}  {worst_error(alike)}".rstrip(), ""),
    ]
    told = "; ".join(filter(None, (said_by(first), _figures(first, rates))))
    if told:
        yield [(f"      {told}", "dim" if first.status == "pass" else style)]


def worst_error(alike: tuple[SmokeKernel, ...]) -> str:
    """Error and tolerance of the one that came nearest to its tolerance."""
    compared = [k for k in alike if k.error is not None and k.tolerance is not None]
    if not compared:
        return ""
    near = max(compared, key=lambda k: (k.error or 0.0) / k.tolerance if k.tolerance else 0.0)
    return "exact" if near.error == near.tolerance == 0 else f"{near.error:.2g} ({near.tolerance:.2g})"


def said_by(kernel: SmokeKernel) -> str:
    """What is known of a kernel: signal, detail and the last line of its message, each once."""
    last = kernel.message.rpartition("\n")[2]
    message = last if last not in kernel.detail else ""
    signal = kernel.signal if kernel.signal not in kernel.detail + message else ""
    return ": ".join(filter(None, (signal, kernel.detail, message)))


def _figures(kernel: SmokeKernel, rates: GpuRates | None) -> str:
    """The figures, and what share of the data sheet's one is."""
    if not kernel.measures:
        return ""
    figures = f"measured {', '.join(figure_text(name, value) for name, value in kernel.measures.items())}"
    best = rate_on_paper(kernel, rates) if rates else None
    if best is None or rates is None:
        return figures
    return f"{figures}: {next(iter(kernel.measures.values())) / best:.0%} of the {best:g} on paper ({rates.product})"


def figure_text(name: str, value: float) -> str:
    """ "312 TFLOPS", "to GPU 25.1 GB/s"."""
    key = next((key for key, _ in _UNITS if name.endswith(key)), "")
    what = name.removesuffix(key).replace("_", " ").replace("gpu", "GPU").strip()
    return f"{what} {value:.4g} {unit_of(name)}".strip()


def unit_of(name: str) -> str:
    """The unit of a measure; a pair of GPUs ("0>1") has GB/s, too."""
    return next((unit for key, unit in _UNITS if name.endswith(key)), "GB/s")


def rate_on_paper(kernel: SmokeKernel, rates: GpuRates) -> float | None:
    """What the data sheet has for what a kernel measures."""
    if kernel.name == "memory-rate":
        return rates.gb_per_s
    dtypes = {"matmul-rate": kernel.dtype, "matmul-fp8-rate": "float8"}
    return rates.tflops.get(dtypes.get(kernel.name, ""))


def _skipped_lines(rows: Iterable[tuple[SmokeKernel, ...]]) -> Iterator[Line]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        titles = reasons.setdefault(said_by(row[0]) or "not told why", [])
        titles.append(" ".join(filter(None, (row[0].name, dtype_names(row)))))
    for why, titles in reasons.items():
        yield [("    skipped  ", "dim"), (f"{', '.join(titles)} ({why})", "dim")]


def device_title(name: str, devices: tuple[SmokeDevice, ...]) -> str:
    """ "cuda:0  NVIDIA GeForce RTX 4090, sm_89, 24 GiB"."""
    device = next((device for device in devices if device.name == name), None)
    if device is None:
        return name
    memory = f"{device.memory / (1 << 30):.0f} GiB" if device.memory else ""
    return f"{name:<7} {', '.join(filter(None, (device.product, device.arch, memory)))}".rstrip()


def dtype_names(alike: tuple[SmokeKernel, ...]) -> str:
    """ "fp32 bf16", "fp8_e4m3fn", "int8"."""
    return " ".join(kernel.dtype.replace("bfloat", "bf").replace("float", "fp") for kernel in alike)


def _title(kernel: SmokeKernel) -> str:
    return " ".join(filter(None, (kernel.name, dtype_names((kernel,)))))
