"""What people type of a machine, and where the screen leads them: names, numbers, notes and the next command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from gpudoctor.host import InputError
from gpudoctor.intake.described import described_machine
from gpudoctor.intake.description import Description
from gpudoctor.matrix.load import load_matrix
from gpudoctor.render.next_command import next_lines
from gpudoctor.render.steps import run_line, undo_lines
from gpudoctor.render.style import PLAIN
from gpudoctor.report import Subject, make_report
from gpudoctor.step import RunStep
from gpudoctor.testing import no_gpu_machine
from tests.support.in_process import invoked
from tests.support.judging import judged

NO_KERNEL = "no kernel image is available for execution on the device"
BLACKWELL_TEXT = """\
PyTorch version: 2.3.0+cu121
OS: Ubuntu 24.04.2 LTS (x86_64)
GPU models and configuration: GPU 0: NVIDIA GeForce RTX 5090
Nvidia driver version: 580.95.05
[pip3] torch==2.3.0+cu121
[pip3] xformers==0.0.27
"""


def run(*arguments: str) -> Result:
    return invoked(*arguments)


def plain(*arguments: str) -> str:
    """What is printed, without its line breaks."""
    return " ".join(run(*arguments).stdout.split())


def report(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--format", "json").stdout)
    return found


def last_line(*arguments: str) -> str:
    return run(*arguments).stdout.strip().splitlines()[-1]


# --- drivers and distributions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "driver"),
    [("12.4", "550.54.14"), ("12", "525.60.13"), ("13.0", "580.65.06"), ("11.8", "520.61.05"), ("v12.8", "570.")],
)
def test_a_cuda_version_is_no_driver_and_names_the_one_that_shows_it(said: str, driver: str) -> None:
    with pytest.raises(Exception, match="that is a CUDA version") as refused:
        run("whatif", "--gpu", "RTX 3090", "--driver", said)
    assert driver in str(refused.value)


@pytest.mark.parametrize(
    ("said", "driver"),
    [("v550.54.14", "550.54.14"), ("576,52", "576.52"), (" 580.95.05", "580.95.05"), ("550", "550.")],
)
def test_a_driver_is_understood_as_people_write_it(said: str, driver: str) -> None:
    machine = report("whatif", "--gpu", "RTX 3090", "--driver", said)["machine"]
    assert machine["nvidia"]["module"]["value"]["version"].startswith(driver)


@pytest.mark.parametrize("said", ["ubuntu-22.04.5", "Ubuntu 22.04.5 LTS", "ubuntu 22.04"])
def test_a_point_release_gets_the_driver_of_its_release(said: str) -> None:
    assert "apt-get install -y nvidia-driver-580" in plain(
        "whatif", "--gpu", "GTX 1060", "--os", said, "--driver", "590.48.01"
    )


def test_a_point_release_in_a_text_gets_the_driver_of_its_release(tmp_path: Path) -> None:
    text = BLACKWELL_TEXT.replace("RTX 5090", "GTX 1060").replace("24.04.2", "22.04.5")
    text = text.replace("580.95.05", "590.48.01")
    (tmp_path / "text.txt").write_text(text)
    assert "apt-get install -y nvidia-driver-580" in plain("check", "--from", str(tmp_path / "text.txt"))


# --- GPUs ----------------------------------------------------------------------------------------------------


def test_the_usual_gpu_of_a_name_is_taken_with_a_remark() -> None:
    said = plain("whatif", "--gpu", "GTX 750 Ti", "--torch", "2.9.1")
    assert "GM107 (sm_50) for 'GTX 750 Ti', not the rare GK106 (sm_30)" in said
    assert "has no kernels for NVIDIA GeForce GTX 750 Ti (sm_50)" in said
    assert "rare" not in plain("whatif", "--gpu", "GTX 750", "--torch", "2.9.1")


def test_a_processor_and_a_chip_are_not_called_radeon() -> None:
    names = {
        name: load_matrix().gpus.gpus_by_name(name)[0].name for name in ("Ryzen AI Max+ 395", "Strix Halo", "8060S")
    }
    assert names["Ryzen AI Max+ 395"] == "AMD Ryzen AI Max+ 395"
    assert not names["Strix Halo"].startswith("AMD Radeon Strix")
    assert names["8060S"] == "AMD Radeon 8060S"


@pytest.mark.parametrize("number", ["2000", "4000", "4500", "5000", "6000"])
def test_blackwell_in_a_name_is_no_older_gpu_of_that_number(number: str) -> None:
    (gpu,) = load_matrix().gpus.gpus_by_name(f"RTX {number} Blackwell")
    assert gpu.arch == "sm_120" and f"PRO {number}" in gpu.name


def test_a_name_of_several_gpus_is_asked_back_where_the_answer_differs() -> None:
    with pytest.raises(InputError, match="may mean several GPUs"):
        run("recommend", "--gpu", "RTX 6000")
    assert "the answer is the same" in plain("whatif", "--gpu", "RTX 6000", "--torch", "2.9.1")


def test_what_was_found_is_told_without_the_names_of_facts() -> None:
    found = report("whatif", "--gpu", "RX 9070", "--torch", "2.6.0+rocm6.2.4")
    told = [one["saw"] for one in found["findings"] if one["slug"] == "known-issue" or "torch 2.6.0" in one["saw"]]
    assert any("gfx1201, torch 2.6.0+rocm6.2.4" in saw for saw in told)
    assert not any("gpu.arch" in one["saw"] for one in found["findings"])


@pytest.mark.parametrize(
    ("torch", "left_out"), [("2.9.1", "AMD Radeon RX 6800"), ("2.9.1+rocm6.4", "NVIDIA GeForce RTX 3090")]
)
def test_a_gpu_of_another_maker_is_told_to_be_unused(torch: str, left_out: str) -> None:
    found = report("whatif", "--gpu", "RTX 3090", "--gpu", "RX 6800", "--torch", torch)
    assert found["verdict"] == "ok"
    (note,) = [one for one in found["findings"] if f"and not {left_out}" in one["message"]]
    assert note["severity"] == "note"


def test_integrated_graphics_beside_a_gpu_are_no_news() -> None:
    found = report("whatif", "--gpu", "RTX 3090", "--gpu", "1002:164e", "--torch", "2.9.1")
    assert not [one for one in found["findings"] if "and not AMD" in one["message"]]


def test_gpus_of_two_makers_are_told_apart() -> None:
    both = run("whatif", "--gpu", "RTX 3090", "--gpu", "RX 6800", "--torch", "2.9.1").stdout
    assert "NVIDIA 0 " in both and "AMD 0 " in both and "GPU 0 " not in both
    assert "GPU 0 " in run("whatif", "--gpu", "RTX 3090", "--torch", "2.9.1").stdout


def test_of_gpus_that_no_driver_serves_together_the_newest_is_kept_and_it_is_said_first() -> None:
    said = run("recommend", "--gpu", "GTX 1080", "--gpu", "RTX 5090", "--driver", "580.95.05").stdout
    first = " ".join(said.partition("\nFor ")[0].split())
    assert first.startswith("No one driver supports all of these GPUs. Best build: torch ")
    assert first.endswith("without NVIDIA GeForce GTX 1080")
    assert "open kernel modules, for NVIDIA GeForce RTX 5090" in " ".join(said.split())


def test_what_no_build_does_together_leads_to_one_kind() -> None:
    assert last_line("recommend", "--gpu", "RTX 3090", "--gpu", "RX 6800") == (
        "Next: gpudoctor recommend --gpu 'NVIDIA GeForce RTX 3090'"
    )


# --- messages and logs -----------------------------------------------------------------------------------------


def test_a_message_without_a_gpu_and_torch_is_a_question_and_no_problem() -> None:
    machine = no_gpu_machine(errors=(NO_KERNEL,))
    judgement = judged(machine)
    assert judgement.verdict == "unknown"
    assert not [one for one in judgement.findings if one.severity == "error"]
    (question,) = [one for one in judgement.not_judged if one.id == "GPD442"]
    assert "torch-no-arch-for-gpu" in question.why and "To be sure: Which GPU is it" in question.why
    found = make_report(machine, load_matrix(), judgement, subject=Subject(kind="machine", label="this machine"))
    told = "".join(text for line in next_lines(found, PLAIN) for text, _ in line)
    assert told.endswith(f"Next: gpudoctor explain '{NO_KERNEL}'")


def test_a_message_of_a_known_machine_is_its_problem() -> None:
    found = report("whatif", "--gpu", "RTX 5090", "--torch", "2.3.0+cu121", "--error", NO_KERNEL)
    assert found["findings"][0]["slug"] == "torch-no-arch-for-gpu"


def test_causes_that_are_only_possible_have_their_own_ids(tmp_path: Path) -> None:
    text = BLACKWELL_TEXT.replace("RTX 5090", "RTX 4090") + (
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"
    )
    (tmp_path / "text.txt").write_text(text)
    ids = {}
    for one in report("check", "--from", str(tmp_path / "text.txt"))["findings"]:
        ids.setdefault(one["id"], set()).add(one["slug"])
    assert len(ids) > 1 and all(len(slugs) == 1 for slugs in ids.values())
    plan = plain("fix", "--from", str(tmp_path / "text.txt"), "--dry-run")
    assert "ld-library-path-shadow [GPD304]" in plan


def test_a_log_about_a_gpu_that_is_not_here_leads_to_the_machine_that_wrote_it(tmp_path: Path) -> None:
    log = tmp_path / "k.log"
    log.write_text("[  100.1] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n")
    with pytest.raises(InputError, match=f"gpudoctor check --from {log}"):
        described_machine(no_gpu_machine(), Description(kernel_log=str(log)), load_matrix())
    assert "gpu-off-bus" in plain("check", "--from", str(log))
    assert "Xid" in plain("whatif", "--gpu", "RTX 3090", "--kernel-log", str(log))


# --- foresight ---------------------------------------------------------------------------------------------------


def test_what_a_person_must_bring_is_not_foreseen() -> None:
    plan = plain("fix", "--gpu", "GTX 480", "--torch", "2.9.1", "--dry-run", "--level", "static")
    assert "If step 1 helps, no problem is left." in plan
    assert "Foreseen" not in plan


def test_packages_that_will_not_fit_are_not_forgotten_by_the_foresight(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(BLACKWELL_TEXT.replace("0.0.27", "0.0.19"))
    plan = plain("fix", "--from", str(tmp_path / "text.txt"), "--dry-run")
    assert "xformers 0.0.19" in plan
    assert "no problem is left but the packages named above" in plan


def test_a_text_with_a_fix_leads_to_its_plan(tmp_path: Path) -> None:
    path = str(tmp_path / "text.txt")
    Path(path).write_text(BLACKWELL_TEXT)
    assert last_line("check", "--from", path).endswith(f"gpudoctor fix --from {path} --dry-run")


# --- other commands ------------------------------------------------------------------------------------------------


def test_an_assumed_driver_is_marked_and_a_given_one_is_not() -> None:
    shell = run("variants", "--gpu", "RTX 5090", "--format", "shell").stdout
    assert shell.startswith("# Not known: whether it has NVIDIA driver")
    assert "assumed" in run("variants", "--gpu", "RTX 5090").stdout
    given = run("variants", "--gpu", "RTX 5090", "--driver", "580.95.05", "--format", "shell").stdout
    assert given.startswith("export")


@pytest.mark.parametrize(("said", "package"), [("tf", "tensorflow"), ("ort", "onnxruntime"), ("PyTorch", "torch==")])
def test_a_framework_is_known_by_its_short_name(said: str, package: str) -> None:
    assert package in run("recommend", "--framework", said, "--gpu", "RTX 3060").stdout.splitlines()[-1]


def test_a_message_that_was_not_quoted_is_explained() -> None:
    assert (
        "cuda-no-kernel-image" in run("explain", "CUDA", "error:", "no", "kernel", "image", "is", "available").stdout
    )


def test_requirements_are_separated_as_in_the_variable() -> None:
    found = report("whatif", "--gpu", "RX 7900 XTX", "--torch", "2.9.1+rocm6.4", "--require", "gfx==gfx942; torch>=9")
    messages = " ".join(one["message"] for one in found["findings"])
    assert "gfx==gfx942 is required" in messages and "torch>=9 is required" in messages


@pytest.mark.parametrize(
    ("said", "name"), [("gpu.arch==gfx942", "sm or gfx"), ("vram>=8GiB", "gpu.memory"), ("torch.version>=2", "torch")]
)
def test_a_requirement_by_another_name_leads_to_the_right_one(said: str, name: str) -> None:
    with pytest.raises(Exception, match=f"it is {name} here"):
        run("whatif", "--gpu", "RX 7900 XTX", "--require", said)


@pytest.mark.parametrize(
    ("root", "here", "start"),
    [(0, True, "apt-get "), (1000, True, "sudo apt-get "), (0, False, "sudo apt-get ")],
)
def test_a_command_and_its_undo_have_one_form(
    monkeypatch: pytest.MonkeyPatch, root: int, here: bool, start: str
) -> None:
    """Who reads it as root need not be root on another machine."""
    monkeypatch.setattr("os.geteuid", lambda: root)
    step = RunStep(argv=("apt-get", "install", "-y", "x"), risk="root", undo=(("apt-get", "remove", "-y", "x"),))
    assert run_line(step, here=here).startswith(start)
    assert undo_lines(step, here=here)[0].startswith(start)


@pytest.mark.parametrize(
    ("machine", "command"),
    [
        (("--gpu", "K80", "--driver", "535.104.05"), "fix --install torch --gpu K80 --driver 535.104.05"),
        (("--gpu", "GTX 480"), "check --gpu 'GTX 480'"),
    ],
)
def test_where_no_build_works_the_next_command_is_about_the_same_machine(
    machine: tuple[str, ...], command: str
) -> None:
    options = (*machine, "--os", "ubuntu-22.04")
    assert last_line("recommend", *options) == f"Next: gpudoctor {command} --os ubuntu-22.04"
