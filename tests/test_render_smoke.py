"""What a person reads of the smoke kernels: one line in a report, and the table."""

from __future__ import annotations

import io
from collections.abc import Mapping

import msgspec

from gpudoctor.machine import Machine, Smoke, SmokeDevice, SmokeKernel, known
from gpudoctor.matrix.rows import GpuRates
from gpudoctor.render.formats import report_text
from gpudoctor.render.lines import print_lines
from gpudoctor.render.smoke import rates_on_paper, smoke_summary, smoke_table
from gpudoctor.render.style import ReportStyle
from gpudoctor.report import Report, Subject, make_report
from tests.support.check_cases import matrix
from tests.support.judging import judged
from tests.support.machines import change, nvidia_gpu, nvidia_machine, torch

GPU = SmokeDevice(name="cuda:0", product="NVIDIA GeForce RTX 4090", arch="sm_89", memory=24 << 30)


def kernel(name: str = "matmul", dtype: str = "float32", status: str = "pass", **parts: object) -> SmokeKernel:
    return SmokeKernel(**{"name": name, "device": "cuda:0", "dtype": dtype, "status": status, **parts})  # type: ignore[arg-type]


def smoke(*kernels: SmokeKernel, **parts: object) -> Smoke:
    return Smoke(**{"level": "quick", "devices": (GPU,), "kernels": kernels, **parts})  # type: ignore[arg-type]


def printed(run: Smoke, rates: Mapping[str, GpuRates] = {}) -> list[str]:
    out = io.StringIO()
    print_lines(smoke_table(run, rates), out, color=False)
    return out.getvalue().splitlines()


def line(run: Smoke, word: str) -> str:
    (found,) = [line for line in printed(run) if line.split()[:1] == [word]]
    return found


def test_dtypes_that_pass_share_a_line_with_the_error_nearest_to_its_tolerance() -> None:
    row = line(
        smoke(
            kernel(ms=1.0, error=1e-6, tolerance=1e-3),
            kernel(dtype="bfloat16", ms=2.5, error=0.009, tolerance=0.01),
        ),
        "matmul",
    )
    assert row.split() == ["matmul", "fp32", "bf16", "pass", "3.5", "0.009", "(0.01)"]


def test_a_failure_is_told_by_a_word_and_with_what_was_seen() -> None:
    lines = printed(
        smoke(
            kernel(),
            kernel(dtype="float16", status="wrong", error=3.0, tolerance=0.01, detail="3 of 64 elements differ"),
            kernel("copy", "", "crash", signal="SIGSEGV", message="first\nlast words"),
            kernel("sort", "", "timeout", detail="no answer within 20 s"),
            kernel("fft", "", "error", message="RuntimeError: CUDA error: no kernel image"),
        )
    )
    rows = [row.split() for row in lines]
    assert ["matmul", "fp16", "wrong", "3", "(0.01)"] in rows
    for said in ("3 of 64 elements differ", "SIGSEGV: last words", "no answer within 20 s", "no kernel image"):
        assert [row for row in lines if row.strip().endswith(said)], said
    assert {status for row in rows for status in row} >= {"pass", "wrong", "crash", "timeout", "error"}


def test_an_error_that_is_no_number_is_seen() -> None:
    assert "nan (0.01)" in line(smoke(kernel(status="wrong", error=float("nan"), tolerance=0.01)), "matmul")


def test_skipped_kernels_are_gathered_by_their_reason() -> None:
    busy = {"status": "skipped", "detail": "its memory is full"}
    lines = printed(
        smoke(kernel(), kernel("copy", "", **busy), kernel("sort", **busy), kernel("sort", "int8", **busy))
    )
    assert lines[-1].split(maxsplit=1) == ["skipped", "copy, sort fp32 int8 (its memory is full)"]


def test_devices_are_told_apart_whatever_the_order() -> None:
    cpu = SmokeKernel(name="matmul", device="cpu", dtype="float32")
    lines = printed(smoke(kernel(), cpu, kernel("copy", "")))
    heads = [row for row in lines if row.startswith("  c")]
    assert [head.split()[0] for head in heads] == ["cuda:0", "cpu"]
    assert "NVIDIA GeForce RTX 4090, sm_89, 24 GiB" in heads[0]
    assert [row.split()[0] for row in lines[lines.index(heads[0]) + 1 : lines.index(heads[1])]] == ["matmul", "copy"]


def test_measured_figures_stand_beside_the_data_sheet() -> None:
    gpu = nvidia_gpu("NVIDIA A100-SXM4-80GB", "sm_80", pci_id="10de:20b2", memory=known(80 << 30, "nvml"))
    run = smoke(
        kernel("memory-rate", "", measures={"gb_per_s": 1019.5}),
        kernel("matmul-rate", "bfloat16", measures={"tflops": 156.0}),
        kernel("matmul-rate", "float64", measures={"tflops": 9.1}),
        kernel("all-reduce", "", measures={"gb_per_s": 77.0}),
        kernel("peer-copy", "", measures={"0>1": 25.14}),
        kernel("host-copy-rate", "", measures={"to_gpu_gb_per_s": 12.0}),
        devices=(msgspec.structs.replace(GPU, bdf=gpu.bdf),),
    )
    machine = change(nvidia_machine(gpu, torch=torch("2.9.1+cu128")), smoke=run)
    text = "\n".join(printed(run, rates_on_paper(machine, matrix())))
    assert "1020 GB/s: 50% of the 2039 on paper" in text
    assert "156 TFLOPS: 50% of the 312 on paper" in text
    for plain in ("measured 9.1 TFLOPS\n", "measured 77 GB/s\n", "0>1 25.14 GB/s\n", "to GPU 12 GB/s"):
        assert plain in text + "\n"


def test_80_columns_hold_the_longest_names() -> None:
    long = kernel("attention-memory-efficient", ms=12345.6, error=7.8e-07, tolerance=1.2e-05)
    run = smoke(long, *(kernel(long.name, dtype, ms=1.0) for dtype in ("float16", "bfloat16")))
    assert max(map(len, printed(run))) <= 80
    assert line(run, long.name).endswith("(1.2e-05)")


def test_text_of_a_child_is_no_terminal_control() -> None:
    text = "\n".join(printed(smoke(kernel(status="error", message="\x1b[2Jbad \u202e"))))
    assert "bad" in text
    assert not any(c in text for c in "\x1b\u202e")


def test_the_summary_counts_and_names_what_failed() -> None:
    run = smoke(kernel(), kernel(dtype="float16", status="wrong"), kernel("fft", "", "skipped", detail="why"))
    assert (
        smoke_summary(run, 1834.0) == "quick: 1 of 2 kernels right on cuda:0 (1.8 s); wrong: matmul fp16; 1 skipped"
    )


def test_the_longest_names_fit_into_eighty_columns() -> None:
    passes = [
        kernel("attention-memory-efficient", dtype, ms=99999.94, error=2.3e-15, tolerance=7.4e-15)
        for dtype in ("float32", "float16", "bfloat16")
    ]
    assert len(printed(smoke(*passes))) == len(("head", "device", "row"))
    assert "  227.9  " in line(smoke(kernel(ms=227.91, error=0.1, tolerance=1.0)), "matmul")


def test_the_summary_of_many_failures_stays_short() -> None:
    run = smoke(*(kernel(f"kernel{number}", "", "crash") for number in range(40)))
    assert "37 more failed" in smoke_summary(run)
    assert "kernel3" not in smoke_summary(run)


def test_nothing_computed_is_never_all_right() -> None:
    none = smoke(why="torch sees no GPU")
    skipped = smoke(kernel(status="skipped", detail="busy"))
    for run in (none, skipped):
        assert "right" not in smoke_summary(run)
        assert "nothing was computed" in smoke_summary(run)
    assert printed(none) == ["  No kernel was run: torch sees no GPU."]


def test_what_a_kernel_said_names_no_gpu_by_uuid_and_no_home_folder() -> None:
    uuid = "GPU-3b1f0c9a-1111-2222-3333-444455556666"
    said = f"CUDA error on {uuid}: cannot open /home/maria/.cache/triton/x.so"
    failed = SmokeKernel(name="matmul", device="cuda:0", status="error", message=said)
    device = SmokeDevice(name="cuda:0", uuid=uuid, bdf="0000:01:00.0")
    machine = change(nvidia_machine(nvidia_gpu(uuid=uuid)), smoke=smoke(failed, devices=(device,)))
    report = report_of(machine)
    for look in (ReportStyle(verbose=True), ReportStyle(verbose=True, table=tuple(smoke_table(machine.smoke, {})))):
        text = report_text(report, "text", look)
        assert "cannot open" in text
        assert "3b1f0c9a" not in text
        assert "maria" not in text


def test_where_a_kernel_failed_the_verdict_does_not_say_that_it_works() -> None:
    headers = "main.c:5:10: fatal error: Python.h: No such file or directory"
    failed = SmokeKernel(name="compile", device="cuda:0", status="error", message=headers)
    for kernels, word in (((kernel(), failed), "Not all kernels pass"), ((kernel(),), "No problem found")):
        machine = change(nvidia_machine(), smoke=smoke(*kernels))
        assert word in headline_of(machine)
        assert ("No problem found" in headline_of(machine)) == (failed not in kernels)


def headline_of(machine: Machine) -> str:
    return report_text(report_of(machine), "text").partition("\n")[0]


def report_of(machine: Machine) -> Report:
    subject = Subject("machine", "this machine")
    return make_report(machine, matrix(), judged(machine), subject=subject, fail_on="error", timings_ms={})
