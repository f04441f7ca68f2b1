"""Error texts name their causes: the table, the order of its rows, and what a row may not be."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.literals import literal_parts
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.source import MatrixError
from tests.support.check_cases import matrix
from tests.support.in_process import gpudoctor

ROWS = matrix().tables.error_patterns

TRACEBACK = """Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", line 125, in forward
    return F.linear(input, self.weight, self.bias)
{error}
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below is incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1"""

HARMLESS = [
    line
    for line in Path(__file__).with_name("cases").joinpath("harmless_lines.txt").read_text().splitlines()
    if not line.startswith("#")
]
GENERAL = {"late-library", "extension-symbol", "extension-torch-library"}
"""Rows for any library: rows about one library come before them."""

TEXTS = [
    ("nvidia", "CUDA error: no kernel image is available for execution on the device", "torch-no-arch-for-gpu"),
    ("amd", "RuntimeError: HIP error: invalid device function", "torch-rocm-no-arch-for-gpu"),
    ("amd", "torch.AcceleratorError: CUDA error: device kernel image is invalid", "torch-rocm-no-arch-for-gpu"),
    ("amd", "Cannot read TensileLibrary.dat: Illegal seek for GPU arch : gfx1103", "rocblas-no-arch"),
    ("amd", "rocBLAS error: Could not initialize Tensile host: No devices found", "smoke-crash"),
    ("nvidia", "The NVIDIA driver on your system is too old (found version 12080). Please", "driver-too-old"),
    ("nvidia", "CUDA driver version is insufficient for CUDA runtime version", "driver-too-old"),
    ("nvidia", "CUDA driver initialization failed, you might not have a CUDA gpu.", "smoke-crash"),
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
    (None, "RuntimeError: cutlassF: no kernel found to launch!", "gpu-too-old-for-feature"),
    (
        None,
        "OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536.",
        "gpu-too-old-for-feature",
    ),
    (None, "ERROR: No matching distribution found for onnxruntime-gpu", "package-wheel-missing"),
    (None, "AttributeError: module 'torch.library' has no attribute 'register_fake'", "requirements-incomplete"),
    (None, "AttributeError: module 'torch' has no attribute 'my_function'", None),
    (None, "ERROR: No matching distribution found for jax[cuda12]", "package-wheel-missing"),
    (None, "ERROR: No matching distribution found for tensorflow-datasets", None),
    ("nvidia", "ImportError: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found", "libstdcxx-too-old"),
    ("amd", "HW Exception by GPU node-1 (Agent handle: 0x563e71f098b0) reason :GPU Hang", "smoke-crash"),
    ("amd", "RuntimeError: HIP error: an illegal memory access was encountered", "smoke-crash"),
    ("nvidia", "RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu-ecc"),
    (
        "amd",
        r"rocBLAS error: Could not load C:\Program Files\AMD\ROCm\6.1\bin\/rocblas/library/TensileLibrary_gfx906.dat",
        "rocblas-no-arch",
    ),
    ("nvidia", "ollama: GPU discovery fails (CUDA error 999)", "smoke-crash"),
    ("nvidia", "[TRT] [E] 1: Unsupported SM: 0x601", "ext-built-without-gpu-arch"),
    ("nvidia", "nvinfer1::rt::task::trtSmToCask: 0 (Unsupported SM.)", "ext-built-without-gpu-arch"),
    (
        None,
        "Unable to initialize backend 'rocm': Backend 'rocm' is not in the list of known backends",
        "framework-cpu-only",
    ),
    (None, "Unknown backend rocm. Available backends are ['cpu']", "framework-cpu-only"),
    ("nvidia", "ValueError: not enough values to unpack", None),
    ("nvidia", "", None),
]


@pytest.mark.parametrize(("vendor", "error", "slug"), TEXTS)
def test_a_text_names_its_cause_also_within_a_traceback(vendor, error, slug):
    for text in (error, TRACEBACK.format(error=error)):
        row = matrix().errors.cause_of(text, vendor)
        assert (row.slug if row else None) == slug


def test_harmless_warnings_before_the_error_do_not_hide_its_cause():
    warning = (
        "MIOpen(HIP): Warning [SQLiteBase] Missing system database file: gfx1030_40.kdb Performance may degrade."
    )
    row = matrix().errors.cause_of(f"{warning}\nRuntimeError: HIP error: invalid device function", "amd")
    assert row is not None
    assert row.slug == "torch-rocm-no-arch-for-gpu"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_vendors_text_means_nothing_on_another_vendors_gpu_or_the_cpu(row):
    if row.vendor != "any":
        other = "amd" if row.vendor == "nvidia" else "nvidia"
        assert matrix().errors.cause_of(row.example, None) is None
        found = matrix().errors.cause_of(row.example, other)
        assert found is None or found.vendor in (other, "any")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_no_text_keeps_a_pattern_busy(row):
    """Long texts that nearly match: a pattern that tries every way through them would not come back."""
    nearly = row.example[:-1].replace("\n", " ")
    vendor = None if row.vendor == "any" else row.vendor
    assert seconds(nearly * (1 + (1 << 16) // len(nearly)), vendor) < 5
    assert seconds(row.needles[0] * 5000, vendor) < 5
    assert seconds(f"{row.needles[0]}\n" * 5000, vendor) < 5


@pytest.mark.parametrize("vendor", [None, "nvidia", "amd"])
def test_a_long_text_that_begins_as_libraries_do_keeps_no_pattern_busy(vendor):
    assert seconds("lib" * 40000, vendor) < 5


def seconds(text: str, vendor: str | None) -> float:
    """How long the rows take to find the cause of a text."""
    began = time.process_time()
    matrix().errors.cause_of(text, vendor)
    return time.process_time() - began


@given(st.text(max_size=300), st.sampled_from(ROWS), st.text(max_size=300))
def test_what_stands_around_a_text_does_not_matter_line_by_line(before, row, after):
    vendor = None if row.vendor == "any" else row.vendor
    found = matrix().errors.cause_of(f"{before}\n{row.example}\n{after}", vendor)
    assert found is not None
    assert ROWS.index(found) <= ROWS.index(row)


def causes(row) -> set[str]:
    return {row.slug, *row.also} - {"smoke-crash"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_text_that_two_rows_match_has_a_cause_in_both(row):
    for other in ROWS:
        if other == row or other.id in GENERAL or {row.vendor, other.vendor} == {"nvidia", "amd"}:
            continue
        if any(re.search(other.pattern, line) for line in row.example.splitlines()):
            assert causes(row) & causes(other), other.id


def test_there_are_many_harmless_lines():
    assert len(HARMLESS) == len(set(HARMLESS)) >= 200


@pytest.mark.parametrize("vendor", [None, "nvidia", "amd"])
def test_no_row_makes_a_fault_of_a_harmless_line(vendor):
    found = [(line, matrix().errors.cause_seen(line, vendor)) for line in HARMLESS]
    assert [(line, row.id) for line, row in found if row and not (row.severity == "note" or row.of_program)] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_where_several_causes_print_a_text_a_question_decides(row):
    assert row.ask or len(causes(row)) < 2


@pytest.mark.parametrize(
    ("text", "vendor", "id"),
    [
        ("CUDA error: no kernel image is available for execution on the device", None, "cuda-no-kernel-image"),
        ("torch.AcceleratorError: HIP error: invalid device function", None, "hip-no-code"),
        ("HIP error: no kernel image is available for execution on the device", None, "hip-no-code"),
        ("CUDA error: no kernel image is available for execution on the device", "amd", "hip-no-code"),
        ("CUBLAS_STATUS_NOT_SUPPORTED when calling cublasGemmEx on an RTX 4090", None, "cublas-not-supported"),
        ("Memory access fault by GPU node-1 on address (nil)", None, "amd-memory-fault"),
        ("ValueError: not enough values to unpack", None, None),
    ],
)
def test_a_message_of_an_unknown_gpu_may_name_the_vendor(text, vendor, id):
    row = matrix().errors.cause_seen(text, vendor)
    assert (row.id if row else None) == id


def test_every_known_message_of_a_text_is_found_once_and_in_order():
    text = "\n".join(
        [
            "step 1 | loss 3.2",
            "RuntimeError: operator torchvision::nms does not exist",
            "RuntimeError: CUDA error: device-side assert triggered",
            "RuntimeError: operator torchvision::nms does not exist",
            "libcudart.so.12: cannot open shared object file: No such file or directory",
        ]
    )
    messages = matrix().errors.messages_in(text)
    assert [(message.row.id, message.number) for message in messages] == [
        ("torchvision-nms", 2),
        ("device-assert", 3),
        ("cuda-library-missing", 5),
    ]
    assert messages[0].line == "RuntimeError: operator torchvision::nms does not exist"


def test_a_message_that_names_no_vendor_may_mean_one_thing_on_each():
    messages = matrix().errors.messages_in("no kernel image is available for execution on the device")
    assert [message.row.id for message in messages] == ["cuda-no-kernel-image", "hip-no-code"]


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@given(st.text(alphabet="ab|(?:)[]*+.\\", max_size=12), st.text(alphabet="ab|()[]*.\\", max_size=12))
def test_every_match_holds_one_of_the_literal_parts(pattern, text):
    try:
        found = re.search(pattern, text)
    except re.error:
        return
    assert found is None or any(part in found[0] for part in literal_parts(pattern))


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
        assert any(row.id == "ours" for row in load_matrix(overlay(tmp_path, row)).tables.error_patterns)
        return
    with pytest.raises(MatrixError, match=said):
        load_matrix(overlay(tmp_path, row))


def test_every_cause_of_a_row_is_one_that_a_check_judges_or_a_slug_of_its_own():
    from gpudoctor.cli.explain import OTHER_CAUSES
    from gpudoctor.suites import machine_checks

    named = {slug for row in ROWS for slug in (row.slug, *row.also)}
    judged = {check.slug for check in machine_checks()}
    assert named <= judged | OTHER_CAUSES.keys()
    assert OTHER_CAUSES.keys() <= named - judged


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("HIP error: Invalid device function", "hip-no-code"),
        ("CUDA error: no kernel image available for execution on the device", "cuda-no-kernel-image"),
        ("LoadLibrary failed with error 126 when trying to load " + 100 * "x" + "onnxruntime_providers", "ort-cuda"),
        ("ggml_cuda_init: failed to initialize CUDA: system not yet initialized", "cuda-802"),
    ],
)
def test_forms_that_people_paste(text, row):
    assert gpudoctor("explain", text).stdout.startswith(f"# {row}")
