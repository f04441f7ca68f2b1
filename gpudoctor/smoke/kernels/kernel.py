"""What a smoke kernel is, and the input and result of one run.

Kernels run in the examined interpreter: standard library and torch only, Python 3.8 and newer, torch 1.13 to
2.15, CUDA and ROCm. gpudoctor's own process reads the same declarations and never imports torch. So no module here
imports it at its top: a kernel gets it from its `Run`.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, NoReturn

LEVELS = ("quick", "standard", "full")


class Skip(Exception):  # noqa: N818 - no error
    """A kernel cannot or must not run here; the text says why in one sentence for a person."""


class Outcome(NamedTuple):
    """What a kernel computed against its reference: it passes if `error` is at most `tolerance`.

    `error` is NaN if outputs held NaN, infinities or elements that were never written.
    """

    error: float | None = None
    tolerance: float | None = None
    detail: str = ""
    measures: dict[str, float] = {}


class Run:
    """One run of a kernel: torch, the device, the dtype, and a seed that differs each time."""

    def __init__(self, torch: Any, device: str, dtype: str, seed: int, seconds: float, minutes: float = 0.0) -> None:
        self.torch = torch
        self.device = device
        self.dtype_name = dtype
        self.seed = seed
        self.seconds = seconds
        """The kernel's time limit: a kernel that chooses its own amount of work stays well below it."""
        self.minutes = minutes
        """For the soak: how long to run."""

    @property
    def dtype(self) -> Any:
        """The torch dtype; skips if this torch has none of that name."""
        found = getattr(self.torch, self.dtype_name, None)
        if found is None:
            self.skip(f"torch {self.torch.__version__} has no {self.dtype_name}")
        return found

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU; ROCm's are also named cuda."""
        return self.device.startswith("cuda")

    @property
    def rocm(self) -> bool:
        """Whether this torch was built for ROCm."""
        return bool(getattr(self.torch.version, "hip", None))

    def skip(self, why: str) -> NoReturn:
        """End this run without a verdict."""
        raise Skip(why)

    def needs_gpu(self, why: str) -> None:
        """Skip on the CPU."""
        if not self.on_gpu:
            self.skip(why)

    def needs_torch(self, what: Any, name: str) -> None:
        """Skip if this torch lacks a function."""
        if what is None:
            self.skip(f"torch {self.torch.__version__} has no {name}")

    def synchronize(self) -> None:
        """Wait until the device has finished its work: errors of kernels show here."""
        if self.on_gpu:
            self.torch.cuda.synchronize(self.device)


class Kernel(NamedTuple):
    """A kernel's declaration: `seconds` is its time limit for one dtype on one device."""

    name: str
    level: str
    dtypes: tuple[str, ...]
    seconds: float
    gpus: int
    """How many devices it uses at once: 1, or 2 for kernels between all GPUs of one kind."""
    function: Callable[[Run], Outcome]

    @property
    def title(self) -> str:
        """First line of the docstring: what it computes."""
        return (self.function.__doc__ or "").strip().splitlines()[0]


def kernel(
    name: str, level: str, dtypes: tuple[str, ...] = ("",), seconds: float = 20.0, gpus: int = 1
) -> Callable[[Callable[[Run], Outcome]], Kernel]:
    """Make a function a kernel: `@kernel("matmul", "quick", dtypes=("float32", "float16"))`."""
    assert level in LEVELS
    return lambda function: Kernel(name, level, dtypes, seconds, gpus, function)
