"""Manuals, articles, release notes and past faults: messages that they quote are no complaint."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import problems

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
NO_CODE = "CUDA error: no kernel image is available for execution on the device"
KEY = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"
ARTICLE = f"Introduction\n\nWith Secure Boot the kernel loads signed modules only.\n\nSymptoms\n\n{KEY}\n\nThe fix\n"
GUIDE = f"""# GPU guide

Install the driver of Windows first. Run `wsl --update` until your kernel is new enough.
Disable GPU scheduling. Without that your GPU may be lost.

## Troubleshooting

### "{MISMATCH}"
Restart your machine.
"""


@pytest.mark.parametrize(
    "text",
    [
        ARTICLE,
        GUIDE,
        f"Chapter 4. Installing the driver\n\nBefore you begin, stop X.\nYou may use nouveau.\n{KEY}\n",
        f"# thing on AMD\n## Install\npip install thing\n## FAQ\n**`{MISMATCH}`** - reboot.\n",
    ],
)
def test_a_manual_complains_of_nothing(text: str) -> None:
    assert problems(text) == []


def test_a_catalogue_of_faults_complains_of_none() -> None:
    page = f"# What failed: a log\n\n## Symptom:\n{MISMATCH}\n\n## Root cause:\nThe driver was replaced.\n\n"
    assert problems(page) == ["driver-lib-mismatch"]
    assert problems(f"{page}## Symptom:\n{KEY}\n") == []


@pytest.mark.parametrize(
    "words",
    [
        "This guide explains how the driver reaches a node.\n\nWhat it is\n",
        "A deep dive into drivers\n\nWhy it matters\n",
        "\u672c\u6587\u65e8\u5728\u5206\u6790\u95ee\u9898\u3002\n\n\u6982\u8ff0\n",  # this article analyses; overview
        "NVIDIA \u5e38\u89c1\u95ee\u9898\u6392\u67e5\n\n\u524d\u8a00\n",  # usual problems; foreword
    ],
)
def test_an_article_says_what_it_is(words: str) -> None:
    assert problems(f"{words}{MISMATCH}\n") == []
    assert problems(f"{words}{MISMATCH}\n\u6211\u7684\u663e\u5361\n") == ["driver-lib-mismatch"]  # my GPU
    assert problems(f"Some words.\n{MISMATCH}\n") == ["driver-lib-mismatch"]


def test_the_question_of_a_lesson_is_nobodys() -> None:
    lesson = f"What is it?\nA check tells you what your GPU can do.\nYour code sees:\n{MISMATCH}\n"
    assert problems(lesson) == []
    assert problems(lesson.replace("What is it?", "What now?")) == ["driver-lib-mismatch"]


@pytest.mark.parametrize("title", ["docs(gpu): ", "README: ", "docs: ", "NOTICE: ", "[PSA] "])
def test_a_change_of_a_manual_and_a_notice_complain_of_nothing(title: str) -> None:
    assert problems(f"# {title}tell what to do about {MISMATCH}\n") == []
    assert problems(f"# {title}tell what to do about {MISMATCH}\nI see it, too.\n") == ["driver-lib-mismatch"]


def test_a_change_tells_what_it_adds() -> None:
    change = f"add troubleshooting guide for the driver\n\nAdds the page that explains {MISMATCH}\n"
    assert problems(change) == []
    assert problems(change.replace("Adds the page that explains", "Here:")) == ["driver-lib-mismatch"]


def test_the_lines_of_a_patch_are_no_complaint() -> None:
    changed = f"-Reboot.\n\n+{MISMATCH}\n+My GPU is not found after the kernel update.\n"
    assert problems(f"Some words.\n@@ -1,2 +1,3 @@\n{changed}") == []
    assert problems(f"Some words.\n{changed}") != []
    assert problems(f"Some words.\n@@ -1,2 +1,3 @@\n{changed}```\n{MISMATCH}\n") == ["driver-lib-mismatch"]
    assert problems(f"@@ -1,1 +1,1 @@\n-one\n+two\n-{MISMATCH}\n") == ["driver-lib-mismatch"]  # behind its end


@pytest.mark.parametrize(
    "more",
    [
        "I see this on my laptop.\n",
        "What can be done?\n",
        "Expected behavior\n",
        "[   12.345678] NVRM: GPU 0000:01:00.0: RmInitAdapter failed!\n",
    ],
)
def test_a_report_with_the_headings_of_a_manual_is_a_report(more: str) -> None:
    assert problems(ARTICLE) == []
    assert problems(f"{ARTICLE}{more}") != []


def test_the_title_of_a_chapter_is_enough() -> None:
    page = "At startup the driver is tested, and error 803 means that the libraries differ.\n"
    assert problems(f"# Troubleshooting failures of the driver\n\n{page}{MISMATCH}\n") == []
    assert problems(f"# Troubleshooting failures of the driver\n\n{page}I see {MISMATCH}\n") == [
        "driver-lib-mismatch"
    ]


def test_a_person_who_asks_for_a_build_for_the_cpu_has_no_problem() -> None:
    text = "I only need the CPU version of PyTorch, and pip brings CUDA.\ntorch==2.6.0+cpu\n"
    assert problems(f"{text}torch.cuda.is_available() is False\n") == []


def test_steps_alone_are_those_of_a_report() -> None:
    text = f"Install\n\n1. Install the driver\n2. Run nvidia-smi\n3. Start the container\n\n{MISMATCH}\n"
    assert problems(text) == ["driver-lib-mismatch"]


def test_the_record_of_a_decision_complains_of_nothing() -> None:
    found = "hip_fatbin.cpp: No compatible code objects found for: gfx1030"
    assert problems(f"ADR-0561 Widen the targets\n\nContext\n\n{found}\n\nDecision\n\nBuild for gfx1030.\n") == []
    assert problems(f"Context\n\n{found}\n\nBuild for gfx1030?\n") == ["torch-rocm-no-arch-for-gpu"]


@pytest.mark.parametrize(
    "line",
    [
        f"Many users see {NO_CODE} with old wheels.",
        f"\u5f88\u591a\u5f00\u53d1\u8005\u90fd\u9047\u5230\u8fc7 {NO_CODE}",
        f'If nvidia-smi fails or "{MISMATCH}" appears, your kernel was updated: reboot.',
        f"Without the override I got {NO_CODE}, now solved.",
        "- fix: show a clear message when `torch.cuda.is_available()` returns False",
        f'Owners of an RTX 5090 no longer get "{NO_CODE}".',
        f'* ROCm 6.4. Fixes "{NO_CODE}" on the RX 9070 XT.',
        f'The override lets it run. Without it, you get "{NO_CODE}".',
        f'Heads up: if you upgrade the driver on an RTX 5090 box, torch will say "{NO_CODE}".',
        f"The FAQ says that `{NO_CODE}` means a GPU that is too old.",
        f'I heard that the RTX 5070 Ti gives "{NO_CODE}" with old wheels. Is a 3090 better?',
    ],
)
def test_a_message_of_others_or_of_the_past_is_no_complaint(line: str) -> None:
    assert problems(f"{line}\n") == []


@pytest.mark.parametrize(
    "line",
    [
        f"Some users know this: I see {NO_CODE}.",
        f"If I start my container, your image prints {NO_CODE}",
        f"The build is now fixed, and I got {NO_CODE}.",
        f"The documentation says that my RTX 5090 is supported: {NO_CODE}.",
        f"I heard that it is supported, but: {NO_CODE}.",
        f"My colleague had {NO_CODE} and I get it, too.",
        f"My friend had no problem, but on my RTX 5090: {NO_CODE}",
        f"The README says that an RTX 5090 will do. {NO_CODE}",
        f"People with an RTX 3090 never see this. On an RTX 5090: {NO_CODE}",
    ],
)
def test_a_message_that_a_person_sees_counts(line: str) -> None:
    assert problems(f"{line}\n") == ["torch-no-arch-for-gpu"]


def test_the_notes_of_a_release_complain_of_nothing() -> None:
    notes = f"## 1.4.2\n### Fixed\n- crash with `{NO_CODE}` on an RTX 5090\n### Changed\n- driver 570 is needed\n"
    assert problems(notes) == []
    assert problems(f"{notes}\nI see it with this one, too.\n") == ["torch-no-arch-for-gpu"]
    assert problems(f"# Crash\n\n### Changed\nthe driver\n\n{NO_CODE}\nRTX 5090\n") == ["torch-no-arch-for-gpu"]


def test_the_workflow_of_a_forge_is_no_machine() -> None:
    workflow = (
        'name: tests\non: [push]\njobs:\n  test:\n    runs-on: [gpu]\n    env:\n      CUDA_VISIBLE_DEVICES: ""\n'
    )
    steps = "    steps:\n      - run: nvidia-smi || echo 'no GPU found, tests run on the CPU'\n"
    assert problems(workflow + steps) == []
    assert problems(f"My job has no GPU: torch.cuda.is_available() is False.\n\n{workflow}{steps}")


def test_a_list_of_limitations_complains_of_nothing() -> None:
    limits = f"- RTX 50 series: the old image prints `{NO_CODE}`.\n- Windows: not tested.\n"
    assert problems(f"## Known limitations\n\n{limits}") == []
    assert problems(limits) == ["torch-no-arch-for-gpu"]
    assert problems(f"## Known limitations\n\n{limits}\nMy RTX 5090 does so with the new one, too.\n")


def test_a_list_of_questions_and_answers_complains_of_nothing() -> None:
    asked = f"Q: I get {NO_CODE}. What now?\nA: Install a newer build.\n"
    assert problems(f"{asked}\nQ: AMD?\nA: Linux only.\n") == []
    assert problems(asked) == ["torch-no-arch-for-gpu"]


def test_lines_that_a_terminal_broke_are_not_joined_to_what_others_may_see() -> None:
    line = f"If nvidia-smi fails after an update, your module is too old and you see {MISMATCH}."
    assert problems(f'echo "a command that is long enough for a terminal" > /etc/a.conf\n{line}\n') == []


def test_options_of_a_command_are_no_advice() -> None:
    options = "    --shm-size 16G \\\n    --ipc=host \\\n    my/image\n"
    assert problems(f"On AMD I need to use more flags:\ndocker run --device=/dev/kfd \\\n{options}") == []
    assert list(problems("My container crashed on the GPU.\nAdding --shm-size 16G solved it.\n")) == ["shm-small"]


def test_advice_in_a_title_is_no_remedy_that_helped() -> None:
    title = "Local LLM: Fix CUDA and the driver\n"
    assert (
        problems(f"{title}Run wsl --update until the kernel is new enough.\nIt cost me hours to find the GPU.\n")
        == []
    )
    assert problems(f"{title}Fix: wsl --update brought the GPU back.\n") == ["wsl-driver"]


def test_a_person_who_wants_no_gpu_has_no_problem() -> None:
    warning = "Could not find cuda drivers on your machine, GPU will not be used."
    assert problems(f"How to run without GPU?\nMy laptop has Intel UHD graphics.\n{warning}\n") == []
    assert problems(f"Why does it run without GPU?\nMy laptop has Intel UHD graphics.\n{warning}\n") == ["no-gpu"]


@pytest.mark.parametrize(
    "text",
    [
        "The NVIDIA driver is installed, but dmesg has many errors about nouveau.",
        "My NVIDIA configuration does blacklist nouveau, but the log shows it being loaded first.",
        "With the NVIDIA driver, nouveau still gets loaded.",
    ],
)
def test_nouveau_that_has_the_gpu(text: str) -> None:
    assert problems(f"{text}\n") == ["nouveau-conflict"]


def test_nouveau_that_is_not_loaded_has_no_gpu() -> None:
    assert problems("Remove kms from the hooks, so that nouveau is not loaded before nvidia.\n") == []


@pytest.mark.parametrize(
    ("title", "found"),
    [
        ("fix: Fix CUDA after suspend", []),
        ("fix(nvidia): load nvidia_uvm before the service starts after suspend", []),
        ("CUDA fails after suspend", ["nvidia-uvm-after-suspend"]),
        ("fix: CUDA after suspend", ["nvidia-uvm-after-suspend"]),
    ],
)
def test_a_title_with_the_kind_of_a_commit_and_what_it_does_is_of_a_change(title: str, found: list[str]) -> None:
    body = "CUDA fails to initialize after resuming from suspend until we reload the `nvidia_uvm` module."
    assert list(problems(f"{title}\n\n{body}\n")) == found


def test_a_change_of_a_program_is_known_by_what_its_tests_say() -> None:
    body = (
        "On a ROCm build `torch.cuda.is_available()` is False on a machine without GPU: a CPU-only wheel comes out."
    )
    change = f"# Detect ROCm builds without a visible GPU\n\n{body}\nTested on gfx1150: 2771 passed, 30 skipped.\n"
    assert problems(change) == []
    assert (
        problems(f"# torch is a CPU-only build on my RX 7900 XTX\n\n{body}\nOf its tests 3 failed, 20 passed.\n")
        != []
    )
