"""The smoke kernels of levels quick and standard: what they declare, that right passes, that faults are found."""

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from gpudoctor.frameworks.torch import kernels as package
from gpudoctor.frameworks.torch.kernels import all_kernels
from gpudoctor.frameworks.torch.kernels.kernel import LEVELS

PYTHON = os.environ.get("GPUDOCTOR_TEST_PYTHON", "")
FOLDER = str(Path(package.__file__).parent)
DRIVER = (Path(__file__).parent / "support" / "smoke_driver.py").read_text()

needs_torch = pytest.mark.skipif(not PYTHON, reason="GPUDOCTOR_TEST_PYTHON names no interpreter with torch")

OURS = [kernel for kernel in all_kernels() if kernel.level != "full"]
BY_NAME = {kernel.name: kernel for kernel in OURS}
LARGE = "large-indexing"


def perform(jobs: list[dict]) -> list[dict]:
    """Results of jobs {kernel, dtype, seed, fault} in the interpreter that has torch."""
    asked = json.dumps({"folder": FOLDER, "jobs": jobs})
    done = subprocess.run(
        [PYTHON, "-W", "ignore", "-c", DRIVER], input=asked, capture_output=True, text=True, timeout=570, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


# --- what they declare ---------------------------------------------------------------------------


def test_names_are_unique_and_kebab_case():
    names = [kernel.name for kernel in all_kernels()]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


@pytest.mark.parametrize("kernel", OURS, ids=lambda kernel: kernel.name)
def test_a_kernel_says_what_it_computes_and_for_how_long(kernel):
    assert kernel.title.endswith(".")
    assert kernel.level in LEVELS
    assert 0 < kernel.seconds <= 180
    assert kernel.gpus == 1
    assert set(kernel.dtypes) <= {"", "float16", "bfloat16", "float32", "float64", "int64", "uint8"}


def test_quick_kernels_come_first_and_are_those_that_were_promised():
    levels = [kernel.level for kernel in all_kernels()]
    assert levels == sorted(levels, key=LEVELS.index)
    quick = {kernel.name: kernel.dtypes for kernel in OURS if kernel.level == "quick"}
    assert set(quick) == {"copy", "integers", "elementwise", "matmul", "convolution", "reduction", "attention"}
    assert quick["matmul"] == ("float32", "float16", "bfloat16")


# --- a right torch -------------------------------------------------------------------------------


@needs_torch
def test_a_right_torch_passes_every_kernel_and_finds_its_settings_again():
    results = [result for result in all_results() if "fault" not in result]
    assert [result for result in results if result["status"] not in ("pass", "skipped")] == []
    assert [result for result in results if not result["restored"]] == []
    for result in results:
        if result["status"] == "skipped":
            assert len(result["detail"]) > 20
    run = {result["kernel"] for result in results if result["status"] == "pass"}
    for_gpus = {"attention-memory-efficient", "attention-cudnn", "pinned-memory-and-streams"}
    assert for_gpus.isdisjoint(run)
    # Those of newer torch, or of much memory, may be skipped; no other.
    newer = {name for name in BY_NAME if name.startswith(("attention-", "matmul-"))} | {LARGE}
    assert set(BY_NAME) - for_gpus - newer <= run


# --- planted faults ------------------------------------------------------------------------------

FLOATS = ("element", "zeroed tail", "nan", "infinity", "unwritten", "shifted")
WHOLE = ("element", "zeroed tail", "shifted")
F = "nn.functional."
GRADIENTS = ("gradient element", "gradient nan", "gradient shifted", "gradient zeroed tail")

FAULTS = {
    "copy": {"Tensor.copy_": WHOLE, "Tensor.contiguous": WHOLE},
    "integers": {"add": WHOLE, "mul": WHOLE, "bitwise_xor": WHOLE, "lt": ("element",), "where": WHOLE},
    "elementwise": dict.fromkeys(("exp", "add", "pow", "sqrt", F + "gelu", F + "silu"), FLOATS),
    "matmul": {"matmul": (*FLOATS, "tf32 factors"), "bmm": (*FLOATS,)},
    "convolution": {F + "conv2d": FLOATS},
    "reduction": {
        "sum": ("element", "nan", "unwritten"),
        "mean": FLOATS,
        "amax": WHOLE,
        "amin": FLOATS,
        "argmax": WHOLE,
    },
    "attention": {F + "scaled_dot_product_attention": FLOATS},
    "attention-math": {F + "scaled_dot_product_attention": FLOATS},
    "attention-flash": {F + "scaled_dot_product_attention": FLOATS},
    "attention-backward": {F + "scaled_dot_product_attention": GRADIENTS},
    "convolution-kinds": {F + "conv2d": FLOATS},
    "convolution-backward": {F + "conv2d": GRADIENTS},
    "linear": {F + "linear": (*FLOATS, "tf32 factors")},
    "layer-norm": {F + "layer_norm": FLOATS},
    "group-norm": {F + "group_norm": FLOATS},
    "batch-norm": {F + "batch_norm": FLOATS},
    "softmax": {"softmax": FLOATS, "log_softmax": FLOATS},
    "embedding": {F + "embedding": (*FLOATS, "gradient element", "gradient nan", "gradient shifted")},
    "gather": {"index_select": FLOATS, "gather": FLOATS, "masked_select": FLOATS, "nonzero": WHOLE},
    "scatter": {
        "Tensor." + name: FLOATS for name in ("index_add_", "scatter_add_", "index_put_", "scatter_", "index_copy_")
    },
    "sort": {"sort": FLOATS, "sort:1": WHOLE, "topk": FLOATS, "topk:1": WHOLE},
    "running-sums": {"cumsum": FLOATS},
    "fft": {"fft." + name: FLOATS for name in ("fft", "rfft", "ifft", "fft2")},
    "linalg-solve": {"linalg.solve": FLOATS, "linalg.inv": FLOATS},
    "linalg-cholesky": {"linalg.cholesky": FLOATS},
    "linalg-qr": {"linalg.qr:0": FLOATS, "linalg.qr:1": FLOATS},
    "linalg-svd": {"linalg.svd:0": FLOATS, "linalg.svd:1": FLOATS, "linalg.svd:2": FLOATS},
    "linalg-eigh": {"linalg.eigh:0": FLOATS, "linalg.eigh:1": FLOATS},
    "random-numbers": {
        "rand": ("zeroed tail", "nan", "scaled"),
        "randn": ("zeroed tail", "nan", "scaled", "infinity"),
        "randint": ("element", "zeroed tail"),
        "randperm": ("element", "zeroed tail"),
    },
    "backward": {"matmul": GRADIENTS, "tanh": FLOATS, F + "cross_entropy": ("element", "nan")},
    "optimizer-step": {"Tensor.requires_grad_": ("element", "shifted")},
    "tf32": {"matmul": (*FLOATS, "tf32 factors")},
    "matmul-fp8": {"_scaled_mm": FLOATS},
    "matmul-int8": {"_int_mm": WHOLE},
    LARGE: {"count_nonzero": ("element",)},
}
PLANTED = 5
"""Their seed."""
HALVES = {
    name: dict.fromkeys(FAULTS[name], ("element", "zeroed tail", "unwritten"))
    for name in (
        "elementwise",
        "matmul",
        "convolution",
        "attention",
        "attention-math",
        "linear",
        "layer-norm",
        "softmax",
    )
}


def right() -> list[dict]:
    return [
        {"kernel": kernel.name, "dtype": dtype, "seed": seed}
        for kernel in OURS
        for dtype in kernel.dtypes
        for seed in ((1,) if kernel.name == LARGE else (1, 2, 3))
    ]


def planted() -> list[dict]:
    return [
        {"kernel": name, "dtype": dtype, "seed": PLANTED, "fault": [target, how]}
        for table, dtypes in ((FAULTS, 1), (HALVES, 3))
        for name, targets in table.items()
        for dtype in BY_NAME[name].dtypes[dtypes // 3 : dtypes]
        for target, hows in targets.items()
        for how in hows
    ]


ONE_ELEMENT = {"kernel": "matmul", "dtype": "float32", "seed": 9, "fault": ["matmul", "element"]}
RAISES = {"kernel": "matmul", "dtype": "float32", "seed": 9, "fault": ["matmul", "no such fault"]}


@cache
def all_results() -> list[dict]:
    """One child runs them all: torch takes a second to start."""
    return perform([*right(), ONE_ELEMENT, RAISES, *planted()])


def result_of(job: dict) -> dict:
    (result,) = [result for result in all_results() if result.items() >= job.items()]
    return result


def test_every_kernel_that_runs_on_a_cpu_has_faults_planted():
    for_gpus = {"attention-memory-efficient", "attention-cudnn", "pinned-memory-and-streams"}
    assert set(FAULTS) == set(BY_NAME) - for_gpus


@needs_torch
@pytest.mark.parametrize("name", FAULTS)
def test_a_kernel_finds_faults_of_its_own_operation(name):
    results = [result for result in all_results() if result["kernel"] == name and result["seed"] == PLANTED]
    assert [result for result in results if result["status"] not in ("wrong", "skipped")] == []
    for result in results:
        if result["status"] == "wrong" and result["fault"][1].endswith("unwritten"):
            assert "never written" in result["detail"], result
        if (
            result["status"] == "wrong"
            and result["fault"][1].endswith("nan")
            and not name.startswith(("linalg", "random"))
        ):
            assert "NaN" in result["detail"], result
    assert any(result["status"] == "wrong" for result in results) or results[0]["status"] == "skipped"


@needs_torch
def test_a_wrong_element_is_named_with_its_place_and_what_it_should_be():
    detail = result_of(ONE_ELEMENT)["detail"]
    assert re.search(r"\(\d+, \d+\) times \(\d+, \d+\): element \[\d+, \d+\] is -?[\d.]+, expected -?[\d.]+", detail)


@needs_torch
def test_settings_come_back_when_an_operation_raises():
    result = result_of(RAISES)
    assert (result["status"], result["restored"]) == ("error", True)
