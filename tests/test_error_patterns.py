"""Error texts name their causes: the table, the order of its rows, and what a row may not be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.matrix.load import MatrixError, validate_matrix
from tests.support.check_cases import matrix

ROWS = matrix().tables.error_patterns

TRACEBACK = """Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", line 125, in forward
    return F.linear(input, self.weight, self.bias)
{error}
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below is incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1"""

TEXTS = [
    ("nvidia", "CUDA error: no kernel image is available for execution on the device", "torch-no-arch-for-gpu"),
    ("amd", "RuntimeError: HIP error: invalid device function", "torch-rocm-no-arch-for-gpu"),
    ("amd", "torch.AcceleratorError: CUDA error: device kernel image is invalid", "torch-rocm-no-arch-for-gpu"),
    ("amd", "Cannot read TensileLibrary.dat: Illegal seek for GPU arch : gfx1103", "rocblas-no-arch"),
    ("amd", "rocBLAS error: Could not initialize Tensile host: No devices found", None),
    ("nvidia", "The NVIDIA driver on your system is too old (found version 12080). Please", "driver-too-old"),
    ("nvidia", "CUDA driver version is insufficient for CUDA runtime version", "driver-too-old"),
    ("nvidia", "Error 802: system not yet initialized", "fabric-manager-not-running"),
    ("nvidia", "Error 804: forward compatibility was attempted on non supported HW", "cuda-compat-on-geforce"),
    ("nvidia", "CUDA error: CUDA-capable device(s) is/are busy or unavailable", "gpu-busy-or-exclusive"),
    ("nvidia", "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "cudnn-mismatch"),
    (
        "nvidia",
        "Unable to load any of {libcudnn_ops.so.9.10.2, libcudnn_ops.so.9.10, libcudnn_ops.so.9}",
        "cudnn-mismatch",
    ),
    (
        "nvidia",
        "Could not load library libcudnn_cnn_infer.so.8. Error: undefined symbol: _ZN5cudnn",
        "cudnn-mismatch",
    ),
    ("nvidia", "libtorch_cuda_linalg.so: undefined symbol: cusolverDnXsyevBatched", "ld-library-path-shadow"),
    ("nvidia", "nvrtc: error: failed to open libnvrtc-builtins.so.12.6.", "smoke-crash"),
    ("amd", "AttributeError: /opt/rocm/lib/libamd_smi.so: undefined symbol: amdsmi_get_x", "amdsmi-mismatch"),
    ("amd", "RuntimeError: 0 active drivers ([]). There should only be one.", "smoke-crash"),
    ("nvidia", "undefined symbol: cuMemGetInfo", None),
    ("nvidia", "ptxas error\nptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "ptxas-too-old"),
    ("nvidia", "ptxas fatal   : Unresolved extern function 'f'", "smoke-crash"),
    ("amd", "main.c:5:10: fatal error: Python.h: No such file or directory", "python-dev-missing"),
    (None, "InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config", "c-compiler-missing"),
    ("nvidia", "ImportError: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found", "libstdcxx-too-old"),
    ("amd", "HW Exception by GPU node-1 (Agent handle: 0x563e71f098b0) reason :GPU Hang", "smoke-crash"),
    ("amd", "RuntimeError: HIP error: an illegal memory access was encountered", "smoke-crash"),
    ("nvidia", "RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu-ecc"),
    ("nvidia", "ValueError: not enough values to unpack", None),
    ("nvidia", "", None),
]


@pytest.mark.parametrize(("vendor", "error", "slug"), TEXTS)
def test_a_text_names_its_cause_also_within_a_traceback(vendor, error, slug):
    for text in (error, TRACEBACK.format(error=error)):
        row = matrix().cause_of(text, vendor)
        assert (row.slug if row else None) == slug


def test_harmless_warnings_before_the_error_do_not_hide_its_cause():
    warning = (
        "MIOpen(HIP): Warning [SQLiteBase] Missing system database file: gfx1030_40.kdb Performance may degrade."
    )
    row = matrix().cause_of(f"{warning}\nRuntimeError: HIP error: invalid device function", "amd")
    assert row is not None
    assert row.slug == "torch-rocm-no-arch-for-gpu"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_vendors_text_means_nothing_on_another_vendors_gpu_or_the_cpu(row):
    if row.vendor != "any":
        other = "amd" if row.vendor == "nvidia" else "nvidia"
        assert matrix().cause_of(row.example, None) is None
        found = matrix().cause_of(row.example, other)
        assert found is None or found.vendor in (other, "any")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_no_text_keeps_a_pattern_busy(row):
    """Long texts that nearly match: a pattern that tries every way through them would not come back."""
    nearly = row.example[:-1].replace("\n", " ")
    for text in (nearly * (1 + (1 << 16) // len(nearly)), row.needle * 5000, f"{row.needle}\n" * 5000, "lib" * 40000):
        matrix().cause_of(text, None if row.vendor == "any" else row.vendor)


@given(st.text(max_size=300), st.sampled_from(ROWS), st.text(max_size=300))
def test_what_stands_around_a_text_does_not_matter_line_by_line(before, row, after):
    vendor = None if row.vendor == "any" else row.vendor
    found = matrix().cause_of(f"{before}\n{row.example}\n{after}", vendor)
    assert found is not None
    assert ROWS.index(found) <= ROWS.index(row)


def overlay(tmp_path, row: str) -> list[str]:
    path = tmp_path / "site.yaml"
    path.write_text(f"error_patterns:\n  - {row}\n")
    return [str(path)]


GOOD = '{id: ours, vendor: any, pattern: "our fault", slug: our-fault, meaning: m, workaround: w, example: "an our fault"}'  # noqa: E501


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"our fault"', '"their fault"'), "does not match its example"),
        (('"our fault"', '"(our fault"'), "unterminated"),
        (('"our fault"', '"(our+ *)+fault"'), "repeats"),
        (("slug: our-fault", "slug: Our Fault"), "slug"),
        (("meaning:", "also: [No Slug], meaning:"), "slug"),
        (("m,", "m,"), None),
        (('"an our fault"', '"our fault: Torch not compiled with CUDA enabled"'), "exact texts come before"),
    ],
)
def test_a_site_may_add_rows_and_a_wrong_one_is_named(tmp_path, change, said):
    row = GOOD.replace(*change)
    if said is None:
        assert any(row.id == "ours" for row in validate_matrix(overlay(tmp_path, row)).error_patterns)
        return
    with pytest.raises(MatrixError, match=said):
        validate_matrix(overlay(tmp_path, row))


def test_every_cause_of_a_row_is_one_that_a_check_judges_or_a_slug_of_its_own():
    from gpudoctor.suites import machine_checks

    own = {"c-compiler-missing", "triton-missing"}
    named = {slug for row in ROWS for slug in (row.slug, *row.also)}
    assert named - own <= {check.slug for check in machine_checks()}
