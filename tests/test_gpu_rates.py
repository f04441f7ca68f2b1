"""No sound GPU is told that it is slow: what people measured with torch is clear of half of the stated figure."""

from __future__ import annotations

import pytest

from gpudoctor.matrix.load import load_matrix

SLOW, MARGIN = 0.5, 1.1

# The least that torch.matmul reached in public tables of measurements, each a GPU that its owner took for sound:
# zzc0208's and stas00/ml-engineering's (MAMF), xzwgit/gpu-flops-bench.
MEASURED = {
    "Tesla V100 SXM2 16GB": {"float16": 94.84, "float32": 14.06},
    "Tesla V100S PCIe 32GB": {"float16": 88.92, "float32": 13.55},
    "Tesla T4": {"float16": 41.91, "float32": 4.17},
    "A100 SXM4 80GB": {"float16": 258.74, "bfloat16": 264.53, "float32": 19.18},
    "A100 PCIe 40GB": {"float16": 241.49, "bfloat16": 234.14, "float32": 17.56},
    "RTX A6000": {"float16": 120.49, "bfloat16": 123.34, "float32": 23.92},
    "GeForce RTX 3090": {"float16": 75.48, "bfloat16": 76.34, "float32": 24.46},
    "GeForce RTX 3080": {"float16": 64.10, "bfloat16": 64.68, "float32": 21.07},
    "GeForce RTX 3070": {"float16": 37.23, "bfloat16": 38.36, "float32": 13.29},
    "GeForce RTX 3060": {"float32": 8.16},
    "GeForce RTX 4090": {"float16": 158.93, "bfloat16": 160.53, "float32": 46.48},
    "GeForce RTX 4060": {"float32": 8.34},
    "L40S": {"float16": 264.02, "bfloat16": 269.15, "float32": 46.88},
    "L4": {"float16": 68.83, "bfloat16": 70.89, "float32": 15.38},
    "H100 SXM5 80GB": {"float16": 758.14, "bfloat16": 783.66, "float32": 51.88, "float8": 1402.6},
    "H100 PCIe": {"float16": 458.03, "bfloat16": 495.93, "float32": 36.95},
    "H200 SXM 141GB": {"float16": 759.40, "bfloat16": 790.29, "float32": 51.34, "float8": 1453.4},
    "H200 NVL": {"float16": 853.68, "bfloat16": 853.29, "float32": 47.28, "float8": 1660.83},
    "B200": {"float16": 1627.64, "bfloat16": 1696.03, "float32": 66.24, "float8": 3432.5},
    "GeForce RTX 5090": {"float16": 220.90, "bfloat16": 221.65, "float32": 63.99},
    "GeForce RTX 5080": {"float16": 102.42, "bfloat16": 102.89, "float32": 33.64},
    "GeForce RTX 5070 Ti": {"float16": 83.95, "bfloat16": 85.32, "float32": 28.29},
    "GeForce RTX 5070": {"float16": 65.07, "bfloat16": 65.36, "float32": 22.79},
    "RTX PRO 6000 Blackwell Workstation Edition": {"float16": 315.51, "bfloat16": 368.43, "float32": 74.03},
    "RTX PRO 6000 Blackwell Server Edition": {"float32": 77.01},
    "Instinct MI250X": {"bfloat16": 147.0},
    "Instinct MI300X": {"bfloat16": 450.0},  # ROCm 6.1; 668 with 6.3
    "Instinct MI325X": {"bfloat16": 784.9},
    "Radeon RX 6800": {"float16": 25.39, "float32": 14.08},
    "Radeon RX 7900 XT": {"float16": 81.83},
    "Radeon RX 7900 XTX": {"float16": 90.73},
    "Radeon RX 9070 XT": {"float16": 129.35},
}


@pytest.mark.parametrize("product", MEASURED)
def test_what_sound_gpus_reach_is_clear_of_half_of_the_figure(product: str) -> None:
    row = next(row for row in load_matrix().tables.gpu_rates if row.product == product)
    for dtype, measured in MEASURED[product].items():
        if dtype in row.tflops:
            assert measured > MARGIN * SLOW * row.tflops[dtype], dtype


def test_the_table_says_something_of_most_gpus() -> None:
    rows = load_matrix().tables.gpu_rates
    assert sum(bool(row.tflops) for row in rows) > 0.9 * len(rows)
