"""What a GPU's vendor says of its speed: found for the product itself, and for nothing that only resembles it."""

from __future__ import annotations

import pytest

from gpudoctor.machine import Gpu, NvmlDevice, known
from gpudoctor.matrix.load import load_matrix

GIB = 2**30


def amd(pci_id: str, revision: str | None, gib: float) -> Gpu:
    return Gpu(vendor="amd", name="", pci_id=pci_id, revision=revision, memory=known(int(gib * GIB), "test"))


def nvidia(pci_id: str | None, gib: float, mig: bool = False, nvml_pci: str | None = None) -> Gpu:
    nvml = NvmlDevice(index=0, memory=int(gib * GIB), mig=mig, pci_id=nvml_pci)
    return Gpu(vendor="nvidia", name="", pci_id=pci_id, nvml=nvml)


@pytest.mark.parametrize(
    ("gpu", "product"),
    [
        (nvidia("10de:2330", 79.6), "H100 SXM5 80GB"),
        (nvidia("10DE:2331", 79.6), "H100 PCIe"),
        (nvidia(None, 23.5, nvml_pci="10de:2684"), "GeForce RTX 4090"),  # WSL2 lists no bus
        (nvidia("10de:1eb8", 14.75), "Tesla T4"),  # with ECC
        (amd("1002:744c", "c8", 23.98), "Radeon RX 7900 XTX"),
        (amd("1002:744c", "0xCC", 19.98), "Radeon RX 7900 XT"),
        (amd("1002:74a1", "00", 191.98), "Instinct MI300X"),
    ],
)
def test_a_whole_gpu_has_its_own_products_rates(gpu: Gpu, product: str) -> None:
    rates = load_matrix().rates.rates_of(gpu)
    assert rates is not None
    assert rates.product == product


@pytest.mark.parametrize(
    "gpu",
    [
        pytest.param(nvidia("10de:2330", 79.6, mig=True), id="MIG is on"),
        pytest.param(nvidia("10de:20b5", 19.9), id="a quarter of an A100 as vGPU"),
        pytest.param(nvidia("10de:2717", 15.99), id="RTX 4090 Laptop GPU"),
        pytest.param(nvidia("10de:2504", 7.99), id="an RTX 3060 with 8 GB"),
        pytest.param(nvidia("10de:2330", 0), id="memory unknown"),
        pytest.param(amd("1002:744c", None, 23.98), id="one of four products"),
        pytest.param(amd("1002:744c", "cf", 15.98), id="RX 7900M"),
        pytest.param(amd("1002:74a1", "00", 23.98), id="an eighth of an MI300X"),
        pytest.param(Gpu(vendor="amd", name="AMD Radeon Graphics"), id="no PCI id"),
    ],
)
def test_a_part_of_a_gpu_or_an_unknown_one_has_none(gpu: Gpu) -> None:
    assert load_matrix().rates.rates_of(gpu) is None


def test_no_rate_counts_sparsity() -> None:
    rates = {row.product: row.tflops for row in load_matrix().tables.gpu_rates}
    assert rates["H100 SXM5 80GB"]["bfloat16"] == pytest.approx(1979 / 2)
    assert rates["GeForce RTX 4090"]["bfloat16"] == pytest.approx(330.4 / 2)
    assert rates["L4"]["float8"] == pytest.approx(485 / 2)
    assert "bfloat16" not in rates["Tesla T4"]
