"""The accuracy benchmark: which cases are kept apart, how answers are scored, and what is printed of those."""

from __future__ import annotations

from benchmarks.accuracy.split import half


def test_the_split_is_by_the_name_and_never_changes():
    assert [half(name) for name in ("pytorch-49081", "vllm-5222", "pytorch-149845", "ai-toolkit-530")] == [
        "worked on",
        "worked on",
        "kept",
        "kept",
    ]
