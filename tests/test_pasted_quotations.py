"""A reply tells of its writer's machine, and not of the one in the message that it quotes."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import problems

NO_CODE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
GONE = "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error"


@pytest.mark.parametrize(
    ("text", "slugs"),
    [
        (f"@ana wrote:\n> {NO_CODE}\n\nWorks for me on a 3090 with torch 2.5.1+cu124.\n", []),
        (f"On Tue, Ana wrote:\n> my RTX 5090 says\n> {NO_CODE}\n\nI have no such card.\n", []),
        (f"> {NO_CODE}\n\nI had that, months ago.\n", []),
        (f"Quoting Ben:\n> my RTX 5090 says {NO_CODE}\n\nMine does not.\n", []),
        (f'> I had "{NO_CODE}" with my RTX 5080.\n\nIn my case nvidia-smi says "{GONE}"\n', ["gpu-off-bus"]),
    ],
)
def test_the_message_of_another_is_not_the_writers(text: str, slugs: list[str]) -> None:
    assert problems(text) == slugs


@pytest.mark.parametrize(
    "text",
    [
        f"I get this on my RTX 5090:\n\n> {NO_CODE}\n\nWhat can I do?\n",
        f"> {NO_CODE}\n\nI get this on my RTX 5090.\n",
        f"**Describe the bug**\n> My RTX 5090 says {NO_CODE}\n\n**Context**\nI use torch 2.5.1+cu124\n",
        f"> My RTX 5090 with torch 2.5.1+cu124 says {NO_CODE}\n\nThat torch is too old.\n",
    ],
)
def test_output_that_the_writer_quotes_and_a_question_that_is_answered_count(text: str) -> None:
    assert "torch-no-arch-for-gpu" in problems(text)
