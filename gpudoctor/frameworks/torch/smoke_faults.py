"""Failed smoke kernels grouped by cause and GPU: ten kernels that fail for one cause are one fault.

Holds no checks itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.finding import KERNEL, Evidence, Severity
from gpudoctor.frameworks.torch.gpu_coverage import fits, is_secondary, weight
from gpudoctor.machine import LISTING, Gpu, SmokeDevice, SmokeKernel, Vendor
from gpudoctor.matrix.rows.issues import ErrorPattern
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation

CRASH, WRONG, BUSY = "smoke-crash", "smoke-wrong-result", "gpu-busy-or-exclusive"
NO_CODE = ("torch-no-arch-for-gpu", "torch-dropped-old-gpu", "torch-rocm-no-arch-for-gpu", "rocblas-no-arch")
_FAILED = ("error", "crash", "timeout")
_FULL = 0.1
"""If less than this share of a GPU's memory was free before the kernels ran, other programs had filled it."""
_ALL = "cuda"
_SHOWN = 3
_LINE = 160
_ADVICE_OF_TORCH = (
    r"\s*Search for `\w+' in https?://\S+.*|"
    r" Did you run some cuda functions before calling NumCudaDevices\(\) that might have already set an error\?"
)
"""What torch adds to an error of CUDA, whatever the error is."""


class Fault(Struct, frozen=True):
    """One cause of failed kernels, on one GPU or on equal ones."""

    slug: str
    kernels: tuple[SmokeKernel, ...]
    """The kernels that failed for this cause."""
    ran: int
    """How many kernels ran on these GPUs."""
    devices: tuple[str, ...]
    gpus: tuple[Gpu, ...] = ()
    """None: the CPU, the environment, or unknown GPUs."""
    causes: tuple[ErrorPattern, ...] = ()
    """Rows with a matching pattern, the first one first."""
    vendor: Vendor | None = None
    """Whose GPUs it is about, where they are not known."""
    mixed: bool = False
    """Other kernels passed on the same device."""


def faults(situation: Situation) -> tuple[Fault, ...]:
    """Kernels that raised, crashed or hung, by cause and GPU."""
    smoke = situation.machine.smoke
    found = [fault for device in _devices(situation) for fault in _of_device(situation, device)]
    trial = situation.torch_trial
    imported = trial is None or trial.ok  # otherwise the import check has reported it
    if smoke and imported and not any(kernel.status != "skipped" for kernel in smoke.kernels):
        row = situation.matrix.errors.cause_of(smoke.why, situation.built_for)
        said = SmokeKernel(name="start", device="", status="error", message=smoke.why)
        found += [Fault(row.slug, (said,), 1, (), causes=(row,))] if row and row.slug != BUSY else []
    return tuple(_merged(found))


def wrong_results(situation: Situation) -> tuple[Fault, ...]:
    """Kernels that computed wrong values, by GPU."""
    found = []
    for device in _devices(situation):
        ran, wrong = _ran(situation, device), _with_status(situation, device, ("wrong",))
        if wrong:
            found.append(
                Fault(WRONG, wrong, len(ran), (device,), _gpus(situation, device), mixed=_mixed(situation, device))
            )
    return tuple(_merged(found))


def busy(situation: Situation) -> tuple[tuple[str, str], ...]:
    """(device, reason) of GPUs that other programs had taken when the kernels ran."""
    return tuple(
        (device, row.meaning)
        for device in _devices(situation)
        for kernel in _with_status(situation, device, _FAILED)[:1]
        if (row := _cause(situation, kernel)) and row.slug == BUSY
    )


def severity(situation: Situation, fault: Fault) -> Severity:
    """As severe as the cause; less for integrated graphics or a weaker GPU beside one that computes."""
    own: Severity = fault.causes[0].severity if fault.causes and fault.slug == fault.causes[0].slug else "error"
    others = [gpu for gpu in situation.usable if gpu not in fault.gpus]
    if not fault.gpus or not others:
        return own
    if all(gpu.integrated for gpu in fault.gpus) and any(map(situation.computed, others)):
        return "note"
    if fault.slug in NO_CODE:
        all_fits = fits(situation)
        for fit in all_fits:
            if fit.gpu == fault.gpus[0] and fit.fails:
                return (
                    "warning"
                    if is_secondary(situation, fit, all_fits) and fit.gpu.vendor == "amd"
                    else weight(situation, fit, all_fits)
                )
    return own


def summary(fault: Fault) -> str:
    """ "12 of 12 smoke kernels fail: elementwise (float32), matmul (float16) and 10 more"."""
    if all(kernel.name == LISTING for kernel in fault.kernels):
        return "torch cannot list its devices"
    names = list(dict.fromkeys(_name(kernel) for kernel in fault.kernels))
    one = fault.ran == 1
    does = ("computes" if one else "compute") + " wrong values" if fault.slug == WRONG else "fails" if one else "fail"
    count = f"{len(fault.kernels)} of {fault.ran} smoke kernel{'' if one else 's'}"
    return f"{count} {does}: {enumeration(names, _SHOWN)}"


def error_text(situation: Situation, fault: Fault) -> str:
    """What the first of them said: the line that tells the cause, else how it ended, else its last line."""
    kernel = next(
        (k for k in fault.kernels if fault.causes and _cause(situation, k) == fault.causes[0]), fault.kernels[0]
    )
    if kernel.status == "wrong":
        return _what(kernel)
    text = re.sub(_ADVICE_OF_TORCH, "", f"{kernel.message}\n{kernel.detail}")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for row in fault.causes[:1]:
        lines = [
            line for line in lines if situation.matrix.errors.cause_of(line, _vendor(situation, kernel.device)) == row
        ] or lines
    ended = kernel.detail if kernel.status in ("crash", "timeout") and not fault.causes else ""
    return (ended or (lines[0] if fault.causes else lines[-1]) if lines else kernel.signal or kernel.status)[
        :_LINE
    ].rstrip(".")


def evidence(fault: Fault) -> tuple[Evidence, ...]:
    """One for each kernel."""
    return tuple(
        Evidence(f"smoke.{kernel.device}.{_name(kernel)}", _what(kernel), KERNEL) for kernel in fault.kernels
    )


def subject_of_devices(fault: Fault) -> str:
    """The subject where no GPU is known."""
    if set(fault.devices) == {"cpu"}:
        return "the CPU"
    if fault.devices == (_ALL,):
        return "the GPUs together"
    return ", ".join(fault.devices) or "torch"


# --- grouping --------------------------------------------------------------------------------------


def _devices(situation: Situation) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kernel.device for kernel in situation.machine.kernels))


def _ran(situation: Situation, device: str) -> tuple[SmokeKernel, ...]:
    return _with_status(situation, device, ("pass", "wrong", *_FAILED))


def _with_status(situation: Situation, device: str, statuses: tuple[str, ...]) -> tuple[SmokeKernel, ...]:
    return tuple(k for k in situation.machine.kernels if k.device == device and k.status in statuses)


def _gpus(situation: Situation, device: str) -> tuple[Gpu, ...]:
    """The GPU behind a device; where torch cannot list its devices, every GPU that it is built for."""
    listing = any(kernel.name == LISTING for kernel in _with_status(situation, device, _FAILED))
    if listing and situation.built_for:
        return situation.usable_of(situation.built_for)
    return (situation.behind[device],) if device in situation.behind else ()


def _mixed(situation: Situation, device: str) -> bool:
    """Whether some kernel passed there."""
    passed = [kernel.device for kernel in situation.machine.kernels if kernel.status == "pass"]
    return any(name == device or (device == _ALL and name.startswith(_ALL)) for name in passed)


def _vendor(situation: Situation, device: str) -> Vendor | None:
    return None if device == "cpu" else situation.built_for


def _cause(situation: Situation, kernel: SmokeKernel) -> ErrorPattern | None:
    """The row that its text matches. A harmless text explains no failure."""
    row = situation.matrix.errors.cause_of(f"{kernel.message}\n{kernel.detail}", _vendor(situation, kernel.device))
    if row is None or row.severity == "note":
        return None
    if BUSY in row.also and _full(situation, kernel.device):
        return next((other for other in situation.matrix.tables.error_patterns if other.slug == BUSY), row)
    return row


def _full(situation: Situation, name: str) -> bool:
    devices: tuple[SmokeDevice, ...] = situation.machine.smoke.devices if situation.machine.smoke else ()
    device = next((d for d in devices if d.name == name), None)
    return bool(device and device.memory and device.free is not None and device.free < _FULL * device.memory)


def _of_device(situation: Situation, device: str) -> Iterator[Fault]:
    ran, failed = _ran(situation, device), _with_status(situation, device, _FAILED)
    rows = [(kernel, _cause(situation, kernel)) for kernel in failed]
    mixed = _mixed(situation, device)
    groups: dict[str, list[tuple[SmokeKernel, ErrorPattern | None]]] = {}
    for kernel, row in rows:
        if row is not None and row.slug == BUSY:
            continue
        slug = row.slug if row and not _only_this_kernel(situation, device, row, mixed) else CRASH
        groups.setdefault(slug, []).append((kernel, row))
    for slug, members in groups.items():
        causes = tuple(dict.fromkeys(row.id for _, row in members if row))
        by_id = {row.id: row for row in situation.matrix.tables.error_patterns}
        yield Fault(
            slug=slug,
            kernels=tuple(kernel for kernel, _ in members),
            ran=len(ran),
            devices=(device,),
            gpus=_gpus(situation, device),
            causes=tuple(by_id[id] for id in causes),
            mixed=mixed,
        )


def _only_this_kernel(situation: Situation, device: str, row: ErrorPattern, mixed: bool) -> bool:
    """Whether only these kernels lack code for a GPU: others passed, and the build supports the GPU."""
    served = [fit for fit in fits(situation) if fit.gpu == situation.behind.get(device) and fit.served]
    return row.stops and row.slug in NO_CODE and mixed and bool(served)


def _merged(found: list[Fault]) -> Iterator[Fault]:
    """One fault where equal GPUs, or one environment, show the same."""
    groups: dict[tuple[object, ...], list[Fault]] = {}
    for fault in found:
        where: object
        whole = bool(fault.causes) and fault.slug == fault.causes[0].slug and fault.causes[0].about == "environment"
        where = "" if whole else tuple((gpu.name, gpu.arch.value) for gpu in fault.gpus) or fault.devices
        groups.setdefault((fault.slug, where), []).append(fault)
    for (_, where), same in groups.items():
        rows = {row.id: row for fault in same for row in fault.causes}
        yield Fault(
            slug=same[0].slug,
            kernels=tuple(kernel for fault in same for kernel in fault.kernels),
            ran=sum(fault.ran for fault in same),
            devices=tuple(name for fault in same for name in fault.devices),
            gpus=() if where == "" else tuple(gpu for fault in same for gpu in fault.gpus),
            causes=tuple(rows.values()),
            mixed=any(fault.mixed for fault in same),
        )


def _name(kernel: SmokeKernel) -> str:
    return f"{kernel.name} ({kernel.dtype})" if kernel.dtype else kernel.name


def _what(kernel: SmokeKernel) -> str:
    if kernel.status == "wrong":
        return kernel.detail or f"error {kernel.error}, tolerance {kernel.tolerance}"
    lines = [line.strip() for line in (kernel.message or kernel.detail).splitlines() if line.strip()]
    ended = f"{kernel.status} {kernel.signal}".strip()
    return f"{ended}: {lines[-1][:_LINE]}" if lines else ended
