"""Long texts count as the report of a fault only where a person, a form or the output of a program tells of it."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import problems

PARAGRAPHS = (
    "The inference server keeps the weights of a model in the memory of the GPU and splits them where there are "
    "several. Each worker opens one device and announces itself to the scheduler, which then sends it requests.\n"
    "Requests wait in a queue until a batch is full. The size of a batch follows from the free memory, and the queue "
    "is drained in the order of arrival. Long prompts are cut into chunks, so that short ones need not wait.\n"
    "The results are streamed, token by token, through one connection. A client that closes it ends the request, "
    "and the worker frees the blocks that belonged to it. Metrics tell how full the cache is and how long the queue\n"
    "Images are built for every release, with and without the compiler. The smaller one has the libraries alone, and "
    "the larger one is meant for those who extend the server with operators of their own, in a stage of its own.\n"
    "Weights are downloaded at the first start, into a volume that outlives the container, and are checked there. "
    "Several servers on a machine may share that volume, as none of them writes to it after the first one did.\n"
)
SENTENCES = [
    "All GPUs of the server hang in NCCL where the IOMMU redirects the transfers between them.",
    "Without the flag, kernels of an extension fail with `no kernel image is available for execution on the device`.",
    "- `RuntimeError: CUDA error: no kernel image is available for execution on the device`: build for that GPU.",
    "| `Failed to initialize NVML: Driver/library version mismatch` | restart the machine |",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_what_a_long_text_tells_in_general_is_no_fault(sentence: str) -> None:
    assert not problems(f"# Internals\n\n{PARAGRAPHS}\n{sentence}\n")


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize(
    "testimony",
    ["It occurs on my two RTX 3090.", "### Steps to reproduce", "Aborted (core dumped)", "[  812.104412] audit: on"],
)
def test_it_is_one_where_somebody_tells_of_it(sentence: str, testimony: str) -> None:
    assert problems(f"# Internals\n\n{PARAGRAPHS}\n{testimony}\n{sentence}\n")


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_few_sentences_need_not_say_whose_machine_it_is(sentence: str) -> None:
    assert problems(sentence)


def test_a_message_that_stands_alone_was_printed() -> None:
    message = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    assert problems(f"{PARAGRAPHS}\n{message}\n")
    assert problems(f"# {message}\n\n{PARAGRAPHS}\n")


def test_the_question_of_a_heading_is_nobodys() -> None:
    description = "\n".join(PARAGRAPHS.splitlines()[:2])
    assert not problems(f"## What if it is slow?\n\n{description}\n{SENTENCES[0]}\n")
    assert problems(f"What could that be?\n\n{description}\n{SENTENCES[0]}\n")


@pytest.mark.parametrize(
    "text",
    [
        "Fall back to CPU if CUDA is not available",
        "The converter falls back to the CPU if no GPU driver is installed or torch is not compiled with CUDA.",
        "Your problem might be due to a mismatch between the NVIDIA driver and its kernel module.",
    ],
)
def test_what_a_program_does_without_a_gpu_and_what_others_may_have_is_no_fault(text: str) -> None:
    assert not problems(text)


@pytest.mark.parametrize(
    "text",
    [
        "It falls back to the CPU although CUDA is available",
        "If I start it as a service, it falls back to the CPU: torch is not compiled with CUDA.",
        "My problem might be due to a mismatch between the NVIDIA driver and its kernel module.",
    ],
)
def test_what_it_does_here_is_one(text: str) -> None:
    assert problems(text)


@pytest.mark.parametrize(
    "text",
    [
        "Update the NVIDIA driver to 570.86.15\n\nTo get bug fixes.",
        "The node needs driver 570 or newer: we need to upgrade the NVIDIA driver.",
        "# Falling back to CPU\n\nTraining works fine, and nvidia-smi shows the load: you can ignore the message.",
    ],
)
def test_a_plan_and_a_message_to_ignore_are_no_fault(text: str) -> None:
    assert not problems(text)


@pytest.mark.parametrize(
    "text",
    [
        "I had to upgrade the NVIDIA driver to 570.86.15",
        "torch.cuda.is_available() is False. I need to upgrade the NVIDIA driver",
        "# Falling back to CPU\n\nThey say that you can ignore the message, but the GPU is not used.",
    ],
)
def test_what_was_needed_and_what_is_missed_is_one(text: str) -> None:
    assert problems(text)


def test_a_variable_of_a_long_text_or_with_several_values_is_nobodys() -> None:
    example = "Put HSA_OVERRIDE_GFX_VERSION=11.0.0 into the file for the RX 6700 XT"
    assert problems(f"{example}.")
    assert not problems(f"{PARAGRAPHS}\n{example}.")
    few = "\n".join(PARAGRAPHS.splitlines()[:2])
    assert problems(f"{few}\nRX 6700 XT:\nHSA_OVERRIDE_GFX_VERSION=11.0.0")
    assert not problems(f"{few}\nHSA_OVERRIDE_GFX_VERSION=10.3.0\nRX 6700 XT:\nHSA_OVERRIDE_GFX_VERSION=11.0.0")


@pytest.mark.parametrize("wish", ["Feature request: a field for it.", "Maybe you can add a field for it?"])
def test_a_variable_in_a_proposal_is_set_nowhere(wish: str) -> None:
    text = "Cards such as the RX 5700 XT need HSA_OVERRIDE_GFX_VERSION=11.0.0.\n"
    assert not problems(f"{text}{wish}\n")
    assert problems(text) == ["hsa-override-wrong"]
    assert problems(f"{text}{wish}\nMine crashes with it.\n".replace("Mine", "My card")) == ["hsa-override-wrong"]
