"""Texts without a line of any program: `check --from -` names the cause, and is silent where none is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.judged_texts import judgement, machine, problems

TOLD = [
    line.split("\t")
    for line in Path(__file__).with_name("cases").joinpath("own_words.txt").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize(("slug", "text"), [(slug, text) for slug, text in TOLD if slug != "-"])
def test_a_cause_told_in_own_words(slug: str, text: str) -> None:
    assert problems(text)[:1] == [slug]


def test_what_people_say_of_other_things_names_no_cause() -> None:
    said = {text: problems(text) for slug, text in TOLD if slug == "-"}
    assert not {text: slugs for text, slugs in said.items() if slugs}


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        # A question may name what the complaint is about, but complains of nothing.
        ("Can I use ROCm in WSL with my RX 6700 XT? rocminfo does not list it.", "rocm-wsl-unsupported"),
        ("Does the RTX PRO 6000 need the open kernel modules or can I choose?", None),
        ("pip list shows torch 2.6.0+cpu?? My RTX 3060 is idle.", "torch-cpu-only"),
        # Another thing that is amiss is not the GPU; the rest of the sentence counts.
        ("Since the kernel update my touchpad does not work. I have an RTX 3060.", None),
        ("Since the kernel update neither my touchpad works, nor does nvidia-smi find the GPU.", None),
        ("Since the kernel update my touchpad does not work, and nvidia-smi fails.", "nvidia-dkms-kernel-mismatch"),
        ("Secure Boot is on, the nvidia module does not load, my USB stick works.", "secure-boot-module-rejected"),
        # What stands right before a thing denies it, not a word further away.
        (
            "Not in docker, on the host: torch finds no CUDA device on my RTX 3060, nouveau is loaded.",
            "nouveau-conflict",
        ),
        ("cuda init fails on every GPU. The fabric manager is not installed.", "fabric-manager-not-running"),
        ("I do not use Slurm, and torch finds every GPU.", None),
    ],
)
def test_what_a_sentence_is_about(text: str, slug: str | None) -> None:
    assert problems(text)[:1] == [slug] * (slug is not None)


def test_three_sentences_are_one_matter_and_the_fewest_of_them_are_quoted() -> None:
    text = "I have a 5080 now. It is the same env as before, torch 2.3. Each job dies at the first tensor. Any ideas?"
    assert problems(text) == ["torch-no-arch-for-gpu"]
    pasted = machine("I like my PC. It slept. CUDA is gone.").pasted
    assert pasted is not None
    assert [one.circumstance for one in pasted.told] == ["after-suspend"]


def test_the_heading_of_a_form_is_not_quoted() -> None:
    pasted = machine("### GPU\nAMD Radeon\n\n### What is the issue?\nOllama does not use the GPU any more.").pasted
    assert pasted is not None
    assert not [one.text for one in pasted.told if "#" in one.text or "issue" in one.text]


def test_what_the_facts_bear_out_comes_before_what_the_words_alone_tell() -> None:
    text = "GPU: RX 5600 XT\nROCm/MIOpen version: 3.5.0\ntensorflow ends with a segmentation fault on my GPU.\n"
    assert problems(text)[:1] == ["rocblas-no-arch"]


def test_a_text_from_stdin_is_not_asked_for_again() -> None:
    text = "torch.cuda.is_available() is False, torch 2.9.1+cpu, RTX 3060"
    argv = [sys.executable, "-m", "gpudoctor", "check", "--from", "-"]
    printed = subprocess.run(argv, input=text, capture_output=True, text=True, check=False).stdout
    assert printed.splitlines()[-1] == "Next, on that machine: gpudoctor fix"


def test_a_problem_does_not_name_itself_as_another_possible_cause() -> None:
    found = next(iter(judgement("Failed to initialize NVML: Driver/library version mismatch").findings))
    others = found.message.partition("Other possible causes, most likely first: ")[2]
    assert found.slug == "driver-lib-mismatch"
    assert others
    assert found.slug not in others.partition(".")[0].split(", ")


def test_a_heading_of_a_form_is_one_with_the_sentence_below_it() -> None:
    text = (
        "**Which version of LM Studio?**\nIt is LM Studio 0.4.17\n\n**Which operating system?**\n"
        "Ubuntu 24.04 with Wayland\n\n**What did you expect?**\n\n**What is the bug?**\nMy RX 6800 is not detected."
    )
    assert problems(text) == ["program-on-cpu"]
    assert problems(text.replace("Wayland", "Wayland. I like it. I use it daily.")) == []  # the name is too far away
