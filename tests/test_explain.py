"""`gpudoctor explain` for error messages: known ones, parts of them, several at once, and texts that say nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.in_process import gpudoctor


def matches(text: str) -> list[dict]:
    done = gpudoctor("explain", text, "--format", "json")
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["matches"] else 3)
    return found["matches"]


@pytest.mark.parametrize(
    ("text", "pattern", "first"),
    [
        ("RuntimeError: operator torchvision::nms does not exist", "torchvision-nms", "torchvision-mismatch"),
        ("no kernel image is available", "cuda-no-kernel-image", "torch-no-arch-for-gpu"),
        ("HIP error: invalid device function", "hip-no-code", "torch-rocm-no-arch-for-gpu"),
        ("no cuda gpus are available", "cuda-no-device", "cuda-visible-devices"),
        ("NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.", "nvidia-xid", "gpu-off-bus"),
        ("cuda-803", "cuda-803", "driver-lib-mismatch"),
        ("numpy-mismatch", "numpy-size", "numpy-mismatch"),
        ("GPD402", "GPD402", "torch-no-arch-for-gpu"),
    ],
)
def test_a_message_a_part_of_it_a_log_line_or_a_name(text, pattern, first):
    found = matches(text)[0]
    assert (found["pattern"], found["causes"][0]) == (pattern, first)
    assert found["meaning"]


def test_each_known_message_once_also_with_colours_and_from_stdin():
    said = "Torch not compiled with CUDA enabled"
    text = f"\x1b[31m{said}\x1b[0m\nok\n{said}\nBus error (core dumped)\n"
    program = [sys.executable, "-m", "gpudoctor", "explain", "-", "--format", "json"]
    done = subprocess.run(program, input=text, capture_output=True, text=True, check=True)
    assert [match["pattern"] for match in json.loads(done.stdout)["matches"]] == ["torch-without-cuda", "bus-error"]


@pytest.mark.parametrize(
    "text", ["Traceback (most recent call last):\nKeyError: 'x'", "CUDA error", "it does not work", ""]
)
def test_an_unknown_text_is_said_to_be_unknown(text):
    assert matches(text) == []
    done = gpudoctor("explain", text)
    assert done.returncode == 3
    assert "knows no error message in this text" in done.stdout


def test_near_checks_are_offered_for_an_unknown_text():
    assert "driver-lib-mismatch" in gpudoctor("explain", "there is some mismatch of my driver").stdout


def test_a_line_that_means_two_things_says_on_whose_gpus():
    told = gpudoctor("explain", "RuntimeError: CUDA error: an illegal memory access was encountered").stdout
    assert told.startswith("# cuda-illegal-address (NVIDIA GPUs)") and "# illegal-address (AMD GPUs)" in told
    assert gpudoctor("explain", "HIP error: an illegal memory access").stdout.startswith("# illegal-address\n")


def test_words_that_any_text_has_offer_nothing():
    told = gpudoctor("explain", "the flux capacitor needed by cuda is known to build after two runs").stdout
    assert "nearest" not in told


def test_a_rare_word_of_an_unknown_text_weighs_more_than_common_ones():
    told = gpudoctor("explain", "torch sees no GPU in WSL").stdout
    assert told.splitlines()[2].startswith("  wsl-driver:") and "torch-no-arch-for-gpu" not in told


def test_what_is_told_to_a_person():
    told = gpudoctor("explain", "no kernel image is available").stdout
    assert "torch-dropped-old-gpu`: The installed torch no longer has code" in told
    assert told.index("likely") < told.index("To be sure") < told.index("What helps")


def test_a_cause_that_several_messages_share_is_told_with_all_of_them():
    told = gpudoctor("explain", "extension-abi").stdout
    assert told.startswith("# extension-abi\n\nA compiled package was built for another torch.")
    assert "- `deepspeed-abi`: " in told and "- `extension-symbol`: " in told and "What helps" not in told
    assert gpudoctor("explain", "harmless").stdout.startswith("# harmless\n\nNothing is wrong.")
    assert "What helps" in gpudoctor("explain", "sgl-kernel").stdout
    assert "What helps" in gpudoctor("explain", "triton-missing").stdout  # a message has that name, too


@pytest.mark.parametrize(
    ("word", "slug"),
    [
        ("rocm", "rocm-version-mismatch"),
        ("hsa", "hsa-override-wrong"),
        ("iGPU", "amd-igpu-interferes"),
        ("CUDA_VISIBLE_DEVICES", "cuda-visible-devices"),
        ("xid", "gpu-off-bus"),
    ],
)
def test_a_word_names_the_checks_that_have_it(word: str, slug: str) -> None:
    done = gpudoctor("explain", word)
    assert done.returncode == 0 and done.stdout.startswith(f"{word} is named by:") and f" {slug}: " in done.stdout


@pytest.mark.parametrize(
    ("word", "message"), [("libcuda.so.1", "libcuda-missing"), ("hipErrorUnknown", "hip-unknown")]
)
def test_a_word_of_a_message_is_explained_as_the_message(word: str, message: str) -> None:
    assert gpudoctor("explain", word).stdout.startswith(f"# {message}\n")


def test_a_message_without_the_quotes_that_a_shell_took_is_known() -> None:
    assert gpudoctor("explain", "No", "module", "named", "torch").stdout.startswith("# torch-module-missing\n")
    done = gpudoctor("explain", "No module named in the house")
    assert done.returncode == 3 or "# torch" not in done.stdout


def test_part_of_a_message_is_explained_by_the_nearest_first() -> None:
    told = [line for line in gpudoctor("explain", "out of memory").stdout.splitlines() if line.startswith("# ")]
    assert told.index("# out-of-memory") < told.index("# cuda-init-memory")


def test_harmless_and_a_programs_own_fault_have_no_cause():
    assert matches("TF-TRT Warning: Could not find TensorRT")[0]["causes"] == []
    assert matches("CUDA error: device-side assert triggered")[0]["causes"] == []


def test_nothing_of_a_text_reaches_the_terminal_as_control():
    told = gpudoctor("explain", "no kernel image is available \x1b]0;owned\x07 \x9b31m").stdout
    assert "\x1b" not in told and "\x07" not in told and "\x9b" not in told


def test_a_sentence_without_any_message_is_explained_by_what_it_tells() -> None:
    (match,) = matches("Since the notebook woke up from sleep CUDA does not find the GPU")
    assert match["causes"] == ["nvidia-uvm-after-suspend"]
    assert match["ask"]


@pytest.mark.parametrize("said", ["False", "returns False", "= False", "is False"])
def test_what_torch_answers_is_understood_as_people_write_it(said: str) -> None:
    done = gpudoctor("explain", f"torch.cuda.is_available() {said}")
    assert done.returncode == 0 and done.stdout.startswith("# torch-not-available")


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [("", 3, "no error message"), ("Bluetooth is off", 3, ""), ("My Own fault", 0, "# mine")],
)
def test_a_row_of_a_site_without_any_literal_part(tmp_path: Path, text: str, code: int, says: str) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(
        "error_patterns: [{id: mine, pattern: '(?i)my own fault', example: My own fault, meaning: an own fault,"
        " vendor: any, about: gpu, slug: no-driver, workaround: Do it.}]\n"
    )
    done = gpudoctor("explain", text, "--matrix", str(site))
    assert done.returncode == code and says in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["RX 6700 XT", "gfx1036", "4090"])
def test_the_name_of_a_gpu_is_no_message_and_leads_to_what_answers(name: str) -> None:
    """Its words stand in messages of programs: TensorFlow's of an RX 6700 XT was told."""
    done = gpudoctor("explain", name)
    assert (done.returncode, "gpudoctor recommend --gpu" in done.stdout) == (3, True)


def test_a_complaint_with_a_gpu_in_it_is_one() -> None:
    assert "is a GPU (" not in gpudoctor("explain", "my RTX 3060 is not used").stdout


def test_a_word_of_checks_of_files_is_found() -> None:
    assert "compose-no-device" in gpudoctor("explain", "kubernetes").stdout


@pytest.mark.parametrize("word", ["podman", "gfx9999"])
def test_a_word_that_cannot_be_an_id_is_an_unknown_text(word: str) -> None:
    told = gpudoctor("explain", word)
    assert told.returncode == 3
    assert "knows no error message" in told.stdout
