"""Questions about NVIDIA drivers, CUDA and kernel modules."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

from gpudoctor.isa import capability
from gpudoctor.matrix.versions import Figures, at_least, figures, matches, minor

if TYPE_CHECKING:
    from gpudoctor.matrix.gpu_models import Gpus
    from gpudoctor.matrix.rows import CudaToolkit, DriverBranch, NvidiaKernelLimit, Tables

DriverVerdict = Literal["serves", "minor-version", "too-old", "unknown"]
"""`serves`: at least the driver that the toolkit bundles; `minor-version`: between the major's floor and
that (CUDA minor-version compatibility); `too-old`: below the floor."""


class NvidiaQuestions:
    """Questions that the NVIDIA tables answer."""

    def __init__(self, tables: Tables, gpus: Gpus) -> None:
        self.tables, self._gpus = tables, gpus

    def last_branch(self, sm: str | None) -> str | None:
        """Last driver branch that runs a GPU of this capability ("580"); None: not dropped, or unknown."""
        row = self._gpus.capability(sm)
        return row.last_branch if row else None

    def first_driver(self, sm: str | None, chip: str | None = None, pci_id: str | None = None) -> str | None:
        """Oldest driver that lists the GPU of this PCI id, else that knows its chip. Without a row for it: any chip
        of the capability, else the driver that came with the first CUDA for it."""
        if (gpu := self._gpus.nvidia(pci_id)) and gpu.listed_from:
            return gpu.listed_from[0]
        if chip is not None and (row := self._gpus.chip(chip)) and row.first_driver:
            return row.first_driver
        known = self._gpus.capability(sm)
        if known is None or known.tegra:
            return None
        chips = [c for c in self.tables.nvidia_chips if c.capability == known.capability]
        drivers = [c.first_driver for c in chips if c.first_driver]
        if drivers:
            return min(drivers, key=figures)
        return self.bundled_driver(known.first_cuda) if known.first_cuda else None

    def first_listing(self, pci_id: str | None, driver: str) -> str | None:
        """The release from which on drivers list a GPU that this one does not: of its own branch, else of the next.
        None: it lists it, or its chip tells all."""
        gpu, own = self._gpus.nvidia(pci_id), figures(driver)
        for first in gpu.listed_from if gpu else ():
            if own[:1] <= (there := figures(first))[:1]:
                return first if own < there[: len(own)] else None
        return None

    def is_display_chip(self, chip: str | None) -> bool:
        """Whether the GPUs of a chip are too small to be meant for computing beside a larger one."""
        row = self._gpus.chip(chip) if chip else None
        return row is not None and row.display

    def module_flavour(self, sm: str | None, name: str = "") -> Literal["refused", "supported", "required"] | None:
        """Whether the GPU works with the open kernel modules (`name` decides Grace Hopper)."""
        known = self._gpus.capability(sm)
        for row in self.tables.architectures:
            if known and row.architecture == known.architecture:
                return "required" if any(product in name for product in row.open_required_on) else row.open_modules
        return None

    def floor(self, cuda: str) -> str | None:
        """Oldest driver that supports any toolkit of that CUDA's major."""
        major = cuda.partition(".")[0]
        return next((row.driver for row in self.tables.cuda_floors if row.major == major), None)

    def cudnn_lacks(self, cudnn: str, sm: str) -> str | None:
        """The oldest GPU that a cuDNN has kernels for, if this one is older; None: it has some, or unknown."""
        own = capability(sm)
        newer = (row for row in self.tables.cudnn_floors if own and own < (capability(row.lowest) or own))
        return next((row.lowest for row in newer if matches(row.cudnn, cudnn)), None)

    def cudnn_with(self, sm: str | None) -> str:
        """Up to which release cuDNN has kernels for a GPU that a newer one has dropped ("<9.11"); "" if none has
        dropped it, or none is known to have some."""
        own, rows = capability(sm) or (0, 0), self.tables.cudnn_floors
        having = [row for row in rows if own >= (capability(row.lowest) or own)]
        return having[-1].cudnn.rpartition(",")[2] if having and len(having) < len(rows) else ""

    def compat_driver(self, cuda: str, driver: str) -> str | None:
        """The driver whose libcuda is in cuda-compat of that CUDA, if it runs on this older kernel driver."""
        own, branch = self.bundled_driver(cuda), driver.partition(".")[0]
        row = next((row for row in self.tables.forward_compatibility if matches(row.cuda, cuda)), None)
        if own is None or row is None or branch not in row.branches or figures(branch) >= figures(own)[:1]:
            return None
        return own

    def image_admits(self, cuda: str, driver: str) -> bool:
        """Whether an image nvidia/cuda of that CUDA starts on a GeForce GPU with this driver."""
        served = self.cuda_served(driver)
        row = next((row for row in self.tables.image_requirements if matches(row.cuda, cuda)), None)
        newer = served is None or figures(served) >= figures(cuda)
        return row is None or newer or driver.partition(".")[0] in row.geforce

    def bundled_driver(self, cuda: str) -> str | None:
        """The driver that the first release of this toolkit bundles ("12.8" gives the GA's), or the branch that came
        with it."""
        row = self._toolkit(cuda)
        return row.driver or self._branch_of_cuda.get(minor(cuda)) if row else None

    def cuda_served(self, driver: str) -> str | None:
        """Newest CUDA release whose first toolkit bundles this driver or an older one, or that came with the driver
        alone; None: older than all."""
        bundled = [(row.cuda, row.driver) for row in self.tables.cuda_toolkits if not row.update]
        alone = [(row.cuda, row.branch) for row in self.tables.driver_branches]
        served = [cuda for cuda, first in (*bundled, *alone) if cuda and first and at_least(driver, first)]
        return max(served, key=figures, default=None)

    def first_driver_of_cuda(self, cuda: str) -> str | None:
        """The oldest driver that shows this CUDA ("12.4", or any of "12"); None: no such CUDA is known."""
        bundled = [(row.cuda, row.driver) for row in self.tables.cuda_toolkits if not row.update]
        alone = [(row.cuda, row.latest) for row in self.tables.driver_branches]
        wanted = figures(cuda)
        named = ((figures(own)[: len(wanted)], driver) for own, driver in (*bundled, *alone) if own and driver)
        return min((driver for own, driver in named if own == wanted), key=figures, default=None)

    def driver_for_cuda(self, driver: str, cuda: str) -> DriverVerdict:
        if not figures(driver):
            return "unknown"
        floor, bundled = self.floor(cuda), self.bundled_driver(cuda)
        if bundled is not None and at_least(driver, bundled):
            return "serves"
        if self._toolkit(cuda) is None and self._is_newer_than_known(driver):
            return "unknown"
        if floor is not None:
            return "minor-version" if at_least(driver, floor) else "too-old"
        return "unknown" if bundled is None else "too-old"

    def branch(self, driver: str) -> DriverBranch | None:
        """The branch row of a driver version."""
        number = driver.partition(".")[0]
        return next((row for row in self.tables.driver_branches if row.branch == number), None)

    def release_of_branch(self, branch: str) -> str | None:
        """The newest release of a driver branch that the matrix names; None: it names none."""
        row = self.branch(branch)
        bundled = [toolkit.driver for toolkit in self.tables.cuda_toolkits]
        known = [release for release in (row.latest if row else None, *bundled) if release]
        return max((one for one in known if figures(one)[:1] == figures(branch)), key=figures, default=None)

    def branch_to_install(
        self, sms: tuple[str, ...], at_least: str | None, *, present: str | None = None
    ) -> tuple[str, str] | None:
        """(branch, minimum version) to install for these GPUs; None if no such branch exists.

        It is a maintained branch that still runs all of them and is no older than `at_least`: one that some
        distribution has packages of, before a long-term one, before the newest. The branch of the `present` driver
        stays if it is a maintained one. If a GPU has no maintained branch left, its last one is given.
        """
        needed = [driver for driver in (at_least, *(self.first_driver(sm) for sm in sms)) if driver]
        minimum = max(needed, key=figures, default=None)
        lasts = [last for last in map(self.last_branch, sms) if last]
        last = min(lasts, key=figures, default=None)
        fitting = [row for row in self.tables.driver_branches if _fits(row, minimum, last)]
        maintained = [row for row in fitting if self._maintained(row)]
        kept = [row for row in maintained if present and row.branch == present.partition(".")[0]]
        packaged = {row.branch for row in self.tables.driver_packages}
        chosen = max(
            kept or maintained or [row for row in fitting if row.branch == last],
            key=lambda row: (row.branch in packaged, row.kind == "long-term", figures(row.branch)),
            default=None,
        )
        if chosen is None:
            return None
        same = minimum is not None and figures(minimum)[:1] == figures(chosen.branch)
        return (chosen.branch, minimum) if same and minimum else (chosen.branch, chosen.branch)

    def kernel_limits(self, driver: str, kernel: str) -> tuple[NvidiaKernelLimit, ...]:
        """Rows that say this NVIDIA driver breaks on this kernel."""
        return tuple(
            row
            for row in self.tables.nvidia_kernel_limits
            if row.status == "breaks" and matches(row.driver, driver) and matches(row.kernel, kernel)
        )

    def _is_newer_than_known(self, driver: str) -> bool:
        """Whether a driver is of a branch that came after all of the matrix."""
        return figures(driver)[:1] > max((figures(row.branch) for row in self.tables.driver_branches), default=())

    @cached_property
    def _branch_of_cuda(self) -> dict[Figures, str]:
        return {minor(row.cuda): row.branch for row in self.tables.driver_branches if row.cuda}

    def _toolkit(self, cuda: str) -> CudaToolkit | None:
        return self._toolkits.get(minor(cuda))

    @cached_property
    def _toolkits(self) -> dict[Figures, CudaToolkit]:
        """The first row of each release, without those of updates."""
        return {minor(row.cuda): row for row in reversed(self.tables.cuda_toolkits) if not row.update}

    def _maintained(self, row: DriverBranch) -> bool:
        """Whether a branch still got releases on the day that the matrix was made."""
        if row.kind not in ("production", "long-term") or row.end_of_life is None:
            return False
        return row.end_of_life[:7] >= ".".join(self.tables.version.split(".")[:2]).replace(".", "-")


def _fits(row: DriverBranch, minimum: str | None, last: str | None) -> bool:
    if last is not None and figures(row.branch) > figures(last):
        return False
    if minimum is None:
        return True
    if row.latest is not None and figures(row.branch) == figures(minimum)[:1]:
        return at_least(row.latest, minimum)
    return figures(row.branch)[:1] >= figures(minimum)[:1]
