"""`check --from` with texts that people paste: what is read, what is not held against them, what is told."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.intake.text.facts import Facts, NamedGpu
from gpudoctor.intake.text.floods import without_floods
from gpudoctor.intake.text.lines import Line, plain_lines
from gpudoctor.intake.text.several_machines import several
from gpudoctor.render.inventory import frameworks
from tests.support.check_cases import matrix
from tests.support.judged_texts import judgement, machine, problems
from tests.support.pasted import (
    COLLECT_ENV,
    COMFYUI,
    DMESG,
    ISSUE,
    OLLAMA,
    PASTED,
    ROCM_ENV,
    ROCMINFO,
    SHELL,
    SMI,
    TWO_MACHINES,
    WARNING,
    WINDOWS,
)


def open_questions(text: str) -> str:
    return " ".join(question.why for question in judgement(text).not_judged if question.matters)


def command(*words: str, text: str = "") -> tuple[int, str]:
    """Exit code, and what was printed."""
    argv = [sys.executable, "-m", "gpudoctor", *words]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


# --- lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pasted",
    [
        "\x1b[1;31mGPU 0: NVIDIA A100\x1b[0m",
        "> > GPU 0: NVIDIA A100",
        "GPU 0: NVIDIA A100\r",
        "<pre>GPU 0: NVIDIA A100</pre>",
        " 12%\r 99%\rGPU 0: NVIDIA A100",
        "[1mGPU 0: NVIDIA A100[0m",
        "\u202eGPU 0: NVIDIA A100\u200b",
    ],
)
def test_what_a_terminal_or_a_browser_adds_to_a_line_is_taken_away(pasted: str) -> None:
    assert [line.text.strip() for line in plain_lines(pasted.encode()) if line.text] == ["GPU 0: NVIDIA A100"]


def test_numbers_of_lines_and_names_of_services_are_taken_away_and_prompts_of_python_stay() -> None:
    numbered = "\n".join(f"{number:3} | line {chr(number + 64)}" for number in range(1, 9))
    assert [line.text.strip(" |") for line in plain_lines(numbered.encode())][:2] == ["line A", "line B"]
    served = "\n".join(f"trainer-1  | step {number}" for number in range(8))
    assert plain_lines(served.encode())[0].text == "step 0"
    assert plain_lines(b">>> torch.__version__")[0].text == ">>> torch.__version__"


def test_of_a_very_long_text_the_beginning_and_the_end_are_read_with_their_numbers() -> None:
    long = "GPU 0: NVIDIA L4\n" + "x" * 99 + "\n" + ("y" * 98 + "\n") * 60_000 + "torch==2.5.1+cu124"
    found = machine(long)
    assert found.gpus[0].source == "text, line 1"
    assert found.torch is not None
    assert found.torch.source == "text, line 60003"


def test_of_lines_that_differ_in_their_numbers_only_a_few_are_read_however_long_the_numbers_grow() -> None:
    logged = [f"step {step} loss 0.{step % 977} on cuda:{step % 8}" for step in range(0, 9_000_000, 3000)]
    told = "RTX 5090: CUDA error: no kernel image is available"
    lines = tuple(Line(number, text) for number, text in enumerate([*logged, told], 1))
    read = without_floods(lines)
    assert read[-1].text == told
    assert len(read) < 100


def test_comments_of_issue_forms_say_nothing_and_keep_the_numbers_of_lines() -> None:
    lines = plain_lines(b"one\n<!-- e.g.\nRTX 3090\n-->\nfive")
    assert [(line.number, line.text) for line in lines if line.text] == [(1, "one"), (5, "five")]


# --- what is read ----------------------------------------------------------------------------------


def test_a_report_of_collect_env_tells_the_whole_machine_with_its_lines() -> None:
    found = machine(COLLECT_ENV)
    assert [(gpu.name, gpu.arch.value) for gpu in found.gpus] == [("NVIDIA A100-SXM4-80GB", "sm_80")] * 2
    assert found.nvidia.module.value is not None
    assert (found.nvidia.module.value.version, found.nvidia.module.source) == ("550.90.07", "text, line 20")
    assert found.torch is not None
    assert (found.torch.version, found.torch.cuda, found.torch.source) == ("2.5.1+cu124", "12.4", "text, line 2")
    assert found.torch.trial.value is not None
    assert found.torch.trial.value.device_count == 2
    assert found.environment.value is not None
    assert found.environment.value.python.value == "3.10"
    assert (found.system.kernel.value, found.system.os.value and found.system.os.value.id) == (
        "6.5.0-1025-oracle",
        "ubuntu",
    )
    numpy = found.installed("numpy")
    assert numpy is not None
    assert (numpy.version, numpy.path) == ("1.26.4", "text, line 25")


def test_torchs_own_warning_tells_the_gpu_and_what_the_build_has_code_for() -> None:
    found = machine(WARNING)
    assert [(gpu.name, gpu.arch.value) for gpu in found.gpus] == [("NVIDIA GeForce RTX 5090", "sm_120")]
    assert found.torch is not None
    assert found.torch.archs.value is not None
    assert found.torch.archs.value.sass == ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
    assert problems(WARNING) == ["torch-no-arch-for-gpu"]


@pytest.mark.parametrize(
    ("text", "name", "arch"),
    [
        (SMI, "NVIDIA GeForce RTX 4090", "sm_89"),
        (ROCMINFO, "AMD Radeon RX 6700 XT", "gfx1031"),
        (OLLAMA, "NVIDIA GeForce RTX 3060", "sm_86"),
        (COMFYUI, "NVIDIA GeForce GTX 1080 Ti", "sm_61"),
        ("GPU 0: Tesla V100-PCIE-16GB (UUID: GPU-b1c2)\n", "Tesla V100-PCIE-16GB", "sm_70"),
        (
            "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2b85] (rev a1)",
            "5090",
            "sm_120",
        ),
        ("00:07.0 VGA compatible controller: NVIDIA Corporation Device 2684 (rev a1)", "RTX 4090", "sm_89"),
        ("Found GPU0 Tesla K40c which is of cuda capability 3.5.", "Tesla K40c", "sm_35"),
        ("- GPU type: NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "sm_90"),
        ("### GPU\n\nRadeon RX 6600\n\n### CPU\n\nRyzen", "Radeon RX 6600", "gfx1032"),
        ("it fails on my Radeon RX 5700 XT (gfx1010)", "5700", "gfx1010"),
        ("- GPU model and memory: laptop 3080 RTX", "3080 RTX", "sm_86"),
        ("- Hardware: GB200 GPUs", "GB200", "sm_100"),
        ("It fails on a TITAN X (Pascal) with 12 GB", "TITAN X", "sm_61"),
        ("5080 issue", "5080", "sm_120"),
        ("my agx orin does not see it", "agx orin", "sm_87"),
        ("torch on a Xavier NX is a CPU build", "Xavier NX", "sm_72"),
        ("[    2.104512] kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0", "RX", "gfx803"),
    ],
)
def test_a_gpu_is_made_of_whatever_names_one(text: str, name: str, arch: str) -> None:
    (gpu,) = machine(text).gpus
    assert name in gpu.name
    assert gpu.arch.value == arch
    assert gpu.source.startswith("text, line")


@pytest.mark.parametrize("length", range(66, 74))
def test_a_name_that_is_too_long_is_no_fault(length: int) -> None:
    (gpu,) = machine(f"GPU 0: NVIDIA GeForce RTX 4090 {'x' * length} overclocked and more").gpus
    assert gpu.vendor == "nvidia"


def test_a_table_that_was_cut_off_names_its_gpu_and_misses_none() -> None:
    cut = "\n".join(line[:40] for line in SMI.split("\n"))
    found = machine(
        cut.replace(
            "| NVIDIA-SMI 550.127.05             Driv", "| NVIDIA-SMI 550.127.05   Driver Version: 550.127.05"
        )
    )
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA GeForce RTX 4090"]
    assert problems(cut) == []


def test_a_whole_issue_is_read_with_its_form_its_fences_and_its_lists() -> None:
    found = machine(ISSUE)
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA GeForce RTX 4090"]
    assert found.torch is not None
    assert found.torch.version == "2.2.0+cu121"
    assert problems(ISSUE)[0] == "numpy2-old-torch"


def test_variables_that_a_program_lists_empty_are_not_set() -> None:
    assert machine(OLLAMA).variables == {}
    assert machine("export CUDA_VISIBLE_DEVICES=''\n").variables == {"CUDA_VISIBLE_DEVICES": ""}
    assert machine("HSA_OVERRIDE_GFX_VERSION=10.3.0 python main.py").variables == {
        "HSA_OVERRIDE_GFX_VERSION": "10.3.0"
    }
    assert machine("For debugging consider passing CUDA_LAUNCH_BLOCKING=1").variables == {}
    assert machine("You can set HSA_OVERRIDE_GFX_VERSION=10.3.0 for this").variables == {}


@pytest.mark.parametrize(
    ("text", "cuda", "build"),
    [
        ("PyTorch version: 1.5.0\nCUDA used to build PyTorch: 10.2", "10.2", "cu102"),
        (
            "PyTorch version: 2.2.2\nCUDA used to build PyTorch: Could not collect\nROCM used to build PyTorch: N/A",
            None,
            "cpu",
        ),
        ("print(torch.__version__)\n1.8.1+cu102", "10.2", "cu102"),
        (">>> torch.__version__\n'2.2.2+cpu'", None, "cpu"),
        ("| torch | 2.6.0+cu126 |", "12.6", "cu126"),
        ("- PyTorch version (GPU?): 2.1.0+cu121 (True)", "12.1", "cu121"),
    ],
)
def test_torch_is_what_it_says_of_itself(text: str, cuda: str | None, build: str) -> None:
    torch = machine(text).torch
    assert torch is not None
    assert (torch.cuda, torch.build) == (cuda, build)


def test_a_command_that_asks_for_a_package_does_not_say_that_it_is_there() -> None:
    assert machine("pip install torch==2.1.0 torchvision==0.16.0\nRUN pip install torch==1.13.1").torch is None


def test_the_torch_that_answers_is_the_one_that_was_installed_before() -> None:
    command, answer = "$ pip install torch==1.3.0\n", ">>> torch.cuda.is_available()\nFalse\n"
    assert problems(f"{command}{answer}Driver Version: 410.48  CUDA Version: 10.0\n") == ["driver-too-old"]
    assert machine(f"{answer}{command}").torch is None
    assert machine(f"$ pip install torch==2.9.1+xpu\n{answer}").torch is None


def test_a_torch_that_no_index_has_is_not_installed() -> None:
    assert machine("No matching distributions found for torch==1.10.0+cu113 on this board").torch is None


def test_what_uv_says_it_installed_is_there_and_what_it_removed_is_not() -> None:
    said = machine(" + onnxruntime-gpu==1.20.1\n ~ numpy==2.2.3\n - torch==2.6.0\n")
    assert said.installed("onnxruntime-gpu") and said.installed("numpy")
    assert said.installed("torch") is None


def test_a_framework_whose_gpu_package_nobody_named_is_no_cpu_build() -> None:
    said = "I run jax on my RTX 4090.\njax: 0.4.30\njaxlib: 0.4.30\n"
    assert problems(said) == []
    others = "".join(f"package{number}==1.{number}\n" for number in range(15))
    listed = f"{said}jax==0.4.30\njaxlib==0.4.30\n{others}"
    assert problems(listed) == ["framework-cpu-only"]


@pytest.mark.parametrize(
    ("sentence", "driver"),
    [
        ("RTX 4090, driver 550.54.14 on Arch", "550.54.14"),
        ("my nvidia drivers are 535.183.01", "535.183.01"),
        ("it works with driver 550.54.14 on another machine", None),
        ("I upgraded from driver 550.54.14", None),
    ],
)
def test_a_sentence_names_the_driver(sentence: str, driver: str | None) -> None:
    from gpudoctor.situation.nvidia_driver import cuda_driver

    assumed = cuda_driver(machine("RTX 4090"))
    assert cuda_driver(machine(f"I have an RTX 4090.\n{sentence}")) == (driver or assumed)


def test_the_folder_of_a_file_tells_the_python() -> None:
    read = machine('RTX 4090\n  File "/home/me/venv/lib/python3.11/site-packages/torch/cuda/__init__.py", line 9')
    assert read.environment.value
    assert read.environment.value.python.value == "3.11"


def test_what_two_sources_say_differently_is_ranked_and_told() -> None:
    text = (
        "PyTorch version: 2.6.0\nCUDA used to build PyTorch: 12.6\n["
        "conda] torch 2.8.0 pypi_0 pypi\nGPU 0: NVIDIA L4\n"
    )
    found = machine(text)
    assert found.torch is not None
    assert found.torch.version == "2.6.0"
    assert found.pasted is not None
    assert found.pasted.contradictions == ("torch: 2.6.0 (line 1) is used; the text also says 2.8.0 (line 3)",)


# --- what is judged --------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [COLLECT_ENV, ROCM_ENV, SMI, ROCMINFO, OLLAMA], ids=range(5))
def test_a_text_of_a_sound_machine_accuses_nobody(text: str) -> None:
    assert problems(text) == []


def test_a_line_of_the_kernel_log_is_the_complaint() -> None:
    assert problems(DMESG) == ["driver-init-failed-hw"]


def test_firmware_that_went_with_an_update_of_the_driver_is_no_cause_of_its_own() -> None:
    text = (
        "[   12.014918] NVRM: API mismatch: the client has the version 570.153.02, but\n"
        "               NVRM: this kernel module has the version 570.144.  Please\n"
        "[   23.991660] nvidia 0000:07:00.0: Direct firmware load for nvidia/570.144/gsp_ga10x.bin "
        "failed with error -2\n"
        "[   23.991667] NVRM: RmFetchGspRmImages: No firmware image found\n"
    )
    assert problems(text)[0] == "driver-lib-mismatch"
    assert problems(text.partition("\n[   23")[2])[0] == "nvidia-firmware-missing"


def test_a_rocminfo_that_lists_the_gpu_for_root_leaves_the_rights_of_the_user() -> None:
    fails = "$ rocminfo\nhsa api call failure at: rocminfo.cc:1148\n"
    asked = '$ python -c "import torch; print(torch.cuda.is_available())"\nFalse\n'
    assert problems(fails)[0] == "amd-kfd-missing"
    assert problems(f"{fails}$ sudo rocminfo\n{ROCMINFO}\n{asked}") == ["amd-device-permission"]


def test_what_follows_a_fault_of_the_program_is_no_fault_of_the_machine() -> None:
    after = "what(): NCCL error in: NCCLUtils.hpp:181, unhandled cuda error, NCCL version 21.0.3\n"
    assert problems(f"RuntimeError: CUDA error: device-side assert triggered\n{after}") == []
    assert problems(after)[0] == "driver-too-old"


def test_the_start_of_an_ultralytics_program_tells_torch_and_the_gpu() -> None:
    fails = "CUDA error: no kernel image is available for execution on the device\n"
    yolo = "Ultralytics 8.3.40 Python-3.10.12 torch-2.5.1+cu121 CUDA:0 (NVIDIA GeForce RTX 5080, 16303MiB)\n"
    assert machine(yolo).torch.version == "2.5.1+cu121"  # type: ignore[union-attr]
    assert problems(yolo + fails) == ["torch-no-arch-for-gpu"]
    assert [one.slug for one in judgement("Python-3.11.6 torch-2.2.2+cpu CPU\n").findings] == ["torch-cpu-only"]
    asked = "Python-3.11.6 torch-2.2.2+cpu CPU\nValueError: Invalid CUDA 'device=0' requested. Use 'device=cpu'\n"
    assert problems(asked)[0] == "torch-cpu-only"


@pytest.mark.parametrize(
    ("sentences", "version"),
    [
        ("nvidia-smi works fine, torch sees nothing. pip list says torch 2.6.0.", "2.6.0+cu124"),
        ("Before the upgrade all was well. The venv has torch 2.7.1 in it, RTX 4060.", "2.7.1+cu126"),
        ("I will pip install torch 2.6.0 next, RTX 4060.", None),
        ("The machine had torch 2.6.0, RTX 4060.", None),
        ("It works with torch 2.6.0, RTX 4060.", None),
    ],
)
def test_only_the_sentence_of_a_version_says_whether_it_is_installed(sentences: str, version: str | None) -> None:
    torch = machine(sentences).torch
    assert (torch and torch.version) == version


def test_a_gpu_that_torch_found_refutes_what_versions_suggest() -> None:
    old = COLLECT_ENV.replace("550.90.07", "470.57.02")
    assert problems(old.replace("Is CUDA available: True", "Is CUDA available: False"))[0] == "driver-too-old"
    assert problems(old) == []
    seen = old + "\nRuntimeError: The NVIDIA driver on your system is too old (found version 11040)."
    assert problems(seen)[0] == "driver-too-old"


def test_a_gpu_that_torch_found_is_no_proof_of_code_for_it() -> None:
    assert problems(COLLECT_ENV.replace("A100-SXM4-80GB", "GeForce RTX 5090")) == ["torch-no-arch-for-gpu"]


def test_a_vague_text_ends_in_a_question() -> None:
    code, said = command("check", "--from", "-", text="my GPU does not work, please help")
    assert code == 3
    assert "nvidia-smi" in said
    assert "collect_env" in said


def test_a_text_of_two_machines_is_not_mixed() -> None:
    found = machine(TWO_MACHINES)
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA GeForce RTX 5090"]
    assert problems(TWO_MACHINES) == ["torch-no-arch-for-gpu"]
    assert "NVIDIA A100-SXM4-80GB (lines 1 to" in open_questions(TWO_MACHINES)
    assert machine(COLLECT_ENV + SMI.replace("GeForce RTX 4090", "A100-SXM4-80GB")).pasted.machines == ()  # type: ignore[union-attr]


def test_a_text_from_windows_is_read_and_gets_no_steps_for_linux() -> None:
    found = judgement(WINDOWS)
    first = found.findings[0]
    assert first.slug == "driver-too-old"
    assert [remedy.__class__.__name__ for fix in first.fixes for remedy in fix.remedies] == ["ReplaceTorch"]
    assert "Windows" in open_questions(WINDOWS)
    linux = judgement(WINDOWS.replace("C:\\Users\\bob\\", "/home/bob/"))
    assert any("InstallDriver" in str(fix) for fix in linux.findings[0].fixes)


def test_a_listing_of_nodes_without_nvidia_uvm_misses_it_in_a_container() -> None:
    listing = "".join(
        f"crw-rw-rw- 1 root root 195, {minor} Nov  6 10:00 /dev/{name}\n"
        for minor, name in ((0, "nvidia0"), (255, "nvidiactl"))
    )
    text = (
        f"root@0123456789ab:/# ls -l /dev/nvidia*\n{listing}{SMI}RuntimeError: CUDA unknown error - this may be due\n"
    )
    assert problems(text)[0] == "nvidia-uvm-missing"
    whole = listing + "crw-rw-rw- 1 root root 511, 0 Nov  6 10:00 /dev/nvidia-uvm\n"
    assert "nvidia-uvm-missing" not in problems(whole + SMI)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "ImportError: /x/nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1",
            ["ld-library-path-shadow"],
        ),
        (
            "OSError: libcudart.so.12: cannot open shared object file: No such file or directory",
            ["framework-cuda-libs-missing"],
        ),
        ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory", []),
        ("ModuleNotFoundError: No module named 'vllm.envs'", []),
        ("ValueError: num_samples should be a positive integer value", []),
    ],
)
def test_only_errors_about_gpus_are_problems_and_the_most_exact_cause_is_named(
    line: str, expected: list[str]
) -> None:
    assert problems(f"torch==2.5.1+cu124\n{line}\n") == expected


def test_the_variable_of_a_text_that_sees_no_gpu_is_judged() -> None:
    assert machine(SHELL).variables == {"CUDA_VISIBLE_DEVICES": "7"}
    assert "error" in {finding.severity for finding in judgement(SHELL).findings}


# --- the command -----------------------------------------------------------------------------------


def test_the_report_of_a_text_is_a_report_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "issue.md").write_text(ISSUE)
    code, said = command("check", "--from", str(tmp_path / "issue.md"), "--format", "json")
    report: dict[str, Any] = json.loads(said)
    assert (code, report["subject"]["kind"], report["verdict"]) == (1, "text", "error")
    assert report["findings"][0]["fixes"]
    place = 1 + ISSUE.split("\n").index("RuntimeError: Numpy is not available")
    assert f"text, line {place}" in {item["source"] for item in report["findings"][0]["evidence"]}
    assert "kernel" in report["machine"]["assumed"]
    (tmp_path / "again.json").write_text(said)
    _, again = command("check", "--from", str(tmp_path / "again.json"), "--format", "json")
    assert [one["id"] for one in json.loads(again)["findings"]] == [one["id"] for one in report["findings"]]


def test_a_comment_repeats_nothing_as_markup_and_no_private_detail() -> None:
    text = (
        "@everyone [free](https://evil.example) <script>x</script>\n"
        "ImportError: /home/alice/@all/`x`/flash_attn_2_cuda.so: undefined symbol: y https://evil.example "
        "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz tcp://10.1.2.3:29500\n"
    )
    code, said = command("check", "--from", "-", "--format", "markdown", text=text)
    assert code == 1
    outside = "".join(said.split("```")[::2])
    assert not any(sign in outside for sign in ("@", "https://", "<script", "evil"))
    assert not any(private in said for private in ("alice", "hf_abc", "10.1.2.3"))
    assert "C:\\Users\\bob" not in command("check", "--from", "-", "--format", "json", "-v", text=WINDOWS)[1]


def test_a_packed_text_is_unpacked_and_what_nobody_can_read_is_said(tmp_path: Path) -> None:
    packed = tmp_path / "nvidia-bug-report.log.gz"
    packed.write_bytes(gzip.compress((SMI + DMESG).encode())[:-6])  # cut off
    assert command("check", "--from", str(packed))[0] == 1
    for content, why in ((b"", "empty"), (b"\0" * 900, "neither"), (b"PK\x03\x04" + b"x" * 50, "archive")):
        (tmp_path / "other").write_bytes(content)
        code, said = command("check", "--from", str(tmp_path / "other"))
        assert code == 2
        assert why in said


# --- hostile texts ---------------------------------------------------------------------------------

BOMBS = (
    "(" * 200_000,
    "A=" * 150_000,
    "GPU 0: " * 60_000,
    "| 0 " * 90_000,
    ">" * 300_000,
    "<!--" * 100_000,
    "\x1b[" + "0;" * 200_000,
    "torch" + " " * 400_000 + "2.0",
    "- " * 200_000,
    "root@" + "a" * 300_000,
    "No module named '" + "a." * 100_000,
    'msg="inference compute" ' + "a=b " * 100_000,
    "\n" * 400_000,
    "GPU 0-99999999,0-99999999: NVIDIA A100\n" * 200,
    "Agent 1\n" * 60_000,
)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: repr(bomb[:12]))
def test_a_bomb_is_read_in_time_that_grows_with_its_length(bomb: str) -> None:
    def seconds(text: str) -> float:
        started = time.process_time()
        machine(text)
        return time.process_time() - started

    machine("warm")
    half, whole = seconds(bomb[: len(bomb) // 4]), seconds(bomb)
    assert whole < 16 * max(half, 0.05)


def test_spliced_and_mutated_texts_never_crash_a_check() -> None:
    chance = random.Random(20261122)
    odd = ("\x1b[31m", "\r", "\0", "\u202e", "<!--", "```", "> ", "9" * 300, "sm_99999", "gfxfff", "²", "\u0663", "=")
    for _ in range(150):
        text = chance.choice(PASTED)
        for _ in range(chance.choice((1, 2, 4))):
            at, other = chance.randrange(len(text) + 1), chance.choice(PASTED)
            piece = chance.choice((chance.choice(odd), other[chance.randrange(len(other)) :]))
            text = text[:at] + piece + text[at + chance.choice((0, 0, 9, 200)) :]
        found = judgement(text)
        assert "check-crashed" not in {finding.slug for finding in found.findings}, text


# --- who may open what --------------------------------------------------------------------------------

KFD = "crw-rw---- 1 root render 235, 0 Nov  6 10:00 /dev/kfd\n"
NO_HIP = "torch==2.9.1+rocm6.4\nRuntimeError: No HIP GPUs are available\n"


@pytest.mark.parametrize(
    ("user", "listing", "closed"),
    [
        ("uid=1000(u) gid=1000(u) groups=1000(u),27(sudo)", KFD, True),
        ("uid=1000(u) gid=1000(u) groups=1000(u),109(render)", KFD, False),
        ("uid=1000(u) gid=1000(u) groups=1000(u),109", KFD.replace("render", "109"), False),
        ("uid=0(root) gid=0(root) groups=0(root)", KFD, False),
        ("uid=1000(u) gid=1000(u) groups=1000(u)", KFD.replace("rw----", "rw-rw-"), False),
        ("uid=1000(u) gid=1000(u) groups=1000(u)", KFD.replace("---- 1", "----+ 1"), False),
        ("", KFD, False),
        ("uid=1000(u) gid=1000(u) groups=1000(u)", "", False),
    ],
)
def test_a_listing_of_kfd_and_the_users_groups_tell_who_may_open_it(user: str, listing: str, closed: bool) -> None:
    found = machine(f"AMD Radeon RX 7900 XTX\n$ ls -l /dev/kfd\n{listing}$ id\n{user}\n{NO_HIP}")
    kfd = found.amd.kfd
    assert kfd.value is not None
    assert (kfd.value.opened == "EACCES") is closed
    decided = bool(user and listing) and "+" not in listing
    possible = problems(f"RX 7900 XTX\n{listing}{user}\n{NO_HIP}")[0] == "amd-device-permission"
    assert possible is (closed or not decided)  # one of both alone rules nothing out
    if closed:
        assert kfd.source == "text, line 3"


def test_the_number_that_numba_writes_before_the_call_names_the_cause() -> None:
    heading = "numba.cuda.cudadrv.error.CudaSupportError: Error at driver init: \n"
    said = heading + "[{}] Call to cuInit results in UNKNOWN_CUDA_ERROR:\n"
    assert problems(said.format(802))[0] == "fabric-manager-not-running"
    assert problems(said.format(803))[0] == "driver-lib-mismatch"
    assert problems(heading)[0] == "no-driver"


def test_listings_that_begin_in_one_line_are_not_told_apart() -> None:
    lines = tuple(Line(number, "") for number in range(1, 4))
    gpus = [NamedGpu(2, "tool", name="Tesla V100"), NamedGpu(3, "report", name="NVIDIA GeForce RTX 5090")]
    assert several(lines, Facts(gpus=gpus, reports=[1], errors=[lines[2]]), matrix()) == (lines, ())
    apart = several(lines, Facts(gpus=gpus, reports=[1, 3], errors=[lines[2]]), matrix())
    assert apart == (lines[2:], ("NVIDIA GeForce RTX 5090 (lines 3 to 3)", "Tesla V100 (lines 1 to 2)"))


@pytest.mark.parametrize(
    ("driver", "found", "build"), [("535.183.01", "12020", "cu130"), ("470.256.02", "11040", "cu128")]
)
def test_the_build_that_nobody_named_is_one_that_the_driver_refuses(driver: str, found: str, build: str) -> None:
    """Within a CUDA major no driver is too old."""
    said = machine(
        f"RTX 3090, driver {driver}, torch 2.9.1\n"
        f"RuntimeError: The NVIDIA driver on your system is too old (found version {found}).\n"
    )
    assert said.torch and said.torch.build == build


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("Tesla K80, driver 470.256.02, torch 2.3.0+cu121", "torch-dropped-old-gpu"),
        ("Tesla V100, driver 470.256.02, torch 2.3.0+cu121", "driver-too-old"),
    ],
)
def test_no_driver_is_too_old_for_a_build_that_has_no_code_for_the_gpu(told: str, found: str) -> None:
    """The last driver of a K80 is 470: only another build helps."""
    seen = f"{told}\nRuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n"
    assert problems(seen) == [found]


MISSING_LIBCUDA = "\nImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n"


@pytest.mark.parametrize(
    ("started", "again"),
    [
        (
            "$ docker run --rm -p 8000:8000 vllm/vllm-openai:v0.10.2 --model m",
            "docker run --gpus all --rm -p 8000:8000",
        ),
        ("$ sudo docker run -it pytorch/pytorch bash", "docker run --gpus all -it pytorch/pytorch bash"),
        (
            "$ podman run -e HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCD12 a/b",
            "podman run --device nvidia.com/gpu=all",
        ),
        ("$ docker run --gpus all a/b", ""),
    ],
)
def test_a_container_started_without_its_gpus_is_started_again_with_them(started: str, again: str) -> None:
    """The command is the person's own, and no secret of it is repeated."""
    fixes = [fix for one in judgement(started + MISSING_LIBCUDA).findings for fix in one.fixes]
    written = [str(remedy) for fix in fixes for remedy in fix.remedies]
    assert any(again in text for text in written[:1]) if again else not any("run --gpus" in text for text in written)
    assert "hf_abc" not in "".join(written)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("In the container (image pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime) nothing works:", "2.1.0+cu121"),
        ("RunPod, template runpod/pytorch:2.4.0-py3.11-cuda12.4.1-devel-ubuntu22.04", "2.4.0+cu124"),
        ("$ docker run --gpus all vllm/vllm-openai:v0.8.5 --model m", "2.6.0+cu124"),
        ("With pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime it works.", None),
        ("You could try pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime", None),
        ("image: ghcr.io/someone/pytorch:2.1.0-cuda12.1-cudnn8-runtime", None),
    ],
)
def test_the_torch_of_a_public_image_is_known_by_its_tag(line: str, version: str | None) -> None:
    torch = machine(f"RTX 5090\n{line}\nRuntimeError: No CUDA GPUs are available\n").torch
    assert (torch.version if torch else None) == version


def test_the_driver_of_the_host_refutes_that_there_is_none() -> None:
    command = "$ docker run --rm vllm/vllm-openai:v0.10.2 --model m\nINFO No platform detected, vLLM is running on "
    text = f"{command}UnspecifiedPlatform\nnvidia-smi on the host shows my 4090 fine (driver 575.64).\n"
    found = judgement(text).findings[0]
    assert found.slug == "container-no-gpu"
    assert "no-driver" not in found.possible_causes


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/usr/local/cuda-12.1/lib64", "/usr/local/cuda-12.1/lib64"),
        ("/opt/nvidia/lib:/usr/local/cuda/lib64", "/opt/nvidia/lib, /usr/local/cuda/lib64"),
        ("/usr/lib/wsl/lib", ""),
        ("", ""),
    ],
)
def test_the_folder_of_another_nvjitlink_is_named_with_the_command(path: str, named: str) -> None:
    text = f"$ echo $LD_LIBRARY_PATH\n{path}\n$ python -c 'import torch'\nImportError: /v/lib/libcusparse.so.12: "
    (found,) = judgement(f"{text}undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12\n").findings
    fix = found.fixes[0]
    assert found.slug == "ld-library-path-shadow"
    assert (fix.title == f"Take {named} out of LD_LIBRARY_PATH") is bool(named)
    assert ("UnsetVariable" in str(fix.remedies)) is bool(named)


SESSION = """\
$ python3
Python 3.8.10 (default, Mar 15 2022, 12:22:08)
>>> import torch
>>> print(torch.__version__)
{}
>>> torch.cuda.is_available()
{}
"""
FAULTY = "My AGX Orin, and torch sees no gpu.\n\n" + SESSION.format("1.12.0", False)
WORKING = SESSION.format("1.12.0a0+2c916ef.nv22.3", True)


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("I have another docker container of NVIDIA, and there the GPU is available:", ["torch-cpu-only"]),
        ("In a second environment it sees it:", ["torch-cpu-only"]),
        ("I installed another wheel. Now it is there:", []),
        ("Solved by another image:", []),
    ],
)
def test_an_environment_to_compare_with_is_not_the_one_that_is_judged(between: str, found: list[str]) -> None:
    assert problems(f"{FAULTY}\n{between}\n\n{WORKING}") == found


def test_of_two_environments_the_faulty_one_may_come_last() -> None:
    assert problems(f"In another container it works:\n{WORKING}\nBut here:\n{FAULTY}") == ["torch-cpu-only"]


@pytest.mark.parametrize("quote", [r"\"", r"\\\""])
def test_a_message_is_known_within_quoted_text_of_a_log(quote: str) -> None:
    told = f"failed to get sandbox runtime: no runtime for {quote}nvidia{quote} is configured"
    assert problems(f'E0505 18:42:19 pod_workers.go:949] "Error syncing pod" err="{told}"') == [
        "container-toolkit-missing"
    ]


def test_a_torch_for_intels_gpus_is_no_build_for_the_cpu() -> None:
    environment = machine("torch 2.6.0+xpu, RTX 3090\n").environment.value
    assert environment is not None
    assert list(frameworks(environment)) == [("torch", "2.6.0+xpu (Intel GPUs), from download.pytorch.org")]
