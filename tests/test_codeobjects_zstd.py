"""The first bytes of zstd frames: what was packed comes back, and no frame costs more than what is asked for."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.codeobjects.bounded_file import Bounded, NotReadable
from gpudoctor.codeobjects.zstd import first_bytes
from tests.support.codeobject_files import zstd_frame

LETTERS = bytes(random.Random(7).choices(b"eeeeeeeettttaaooiinnsshrdl", k=1500))
FRAME = zstd_frame(LETTERS, 19)


def first(frame: bytes, wanted: int) -> bytes:
    return first_bytes(Bounded(frame), 0, len(frame), wanted)


def frame_of(*blocks: tuple[int, int, bytes], descriptor: bytes = b"\x00\x88") -> bytes:
    """A frame put together by hand: (kind, size, content) of each block."""
    written = [(size << 3 | kind << 1).to_bytes(3, "little") + content for kind, size, content in blocks]
    return b"".join((b"\x28\xb5\x2f\xfd", descriptor, *written))


@pytest.mark.parametrize("wanted", [1, 100, 375, 376, 1499, 1500, 9000])
def test_a_part_of_a_frame_or_all_of_it(wanted: int) -> None:
    assert first(FRAME, wanted) == LETTERS[:wanted]


@given(st.binary(max_size=200_000), st.integers(min_value=1, max_value=100_000), st.sampled_from([-7, 1, 3, 19]))
def test_any_content(content: bytes, wanted: int, level: int) -> None:
    assert first(zstd_frame(content, level), wanted) == content[:wanted]


def test_a_frame_within_a_file(tmp_path: Path) -> None:
    """What lies before and after it is not looked at, and the file is read only as far as needed."""
    content = random.Random(3).randbytes(3 << 20)
    frame = zstd_frame(content)
    (tmp_path / "library.so").write_bytes(b"before" + frame + b"after")
    with (tmp_path / "library.so").open("rb") as file:
        assert first_bytes(Bounded(file), 6, 6 + len(frame), 4096) == content[:4096]
        assert first_bytes(Bounded(file), 6, 6 + len(frame), 4 << 20) == content
        assert first_bytes(Bounded(file), 6, 6 + len(frame) + 5, 4 << 20) == content


def test_a_run_is_not_unpacked_beyond_what_is_asked_for() -> None:
    assert first(frame_of((1, 65536, b"z")), 5) == b"zzzzz"


BOMBS = """
import resource, sys
from gpudoctor.codeobjects.bounded_file import Bounded
from gpudoctor.codeobjects.zstd import first_bytes
from tests.test_codeobjects_zstd import frame_of
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for descriptor in (b"\\x00\\x88", b"\\xe0" + (1 << 27).to_bytes(8, "little")):
    frame = frame_of(*[(1, 1 << 17, b"z")] * 16384, descriptor=descriptor)
    assert first_bytes(Bounded(frame), 0, len(frame), 65536) == b"z" * 65536
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_frame_of_two_gigabytes_costs_no_memory() -> None:
    command = [sys.executable, "-c", BOMBS]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert int(done.stdout) < 8 << 10, "kilobytes"


@pytest.mark.parametrize("descriptor", [b"\x00\xf8", b"\xe0" + (1 << 40).to_bytes(8, "little")])
def test_a_frame_that_wants_gigabytes_at_once_is_refused(descriptor: bytes) -> None:
    with pytest.raises(NotReadable, match="damaged zstd data"):
        first(frame_of((1, 65536, b"z"), descriptor=descriptor), 5)


def test_blocks_without_content_are_not_read_for_ever() -> None:
    assert first(frame_of(*[(0, 0, b"")] * (3 << 20), (0, 4, b"late")), 5) == b""


@given(st.integers(min_value=0, max_value=len(FRAME) - 1), st.integers(min_value=0, max_value=255))
def test_damaged_frames_are_refused_or_read_wrong_but_never_crash(at: int, value: int) -> None:
    frame = bytearray(FRAME)
    frame[at] = value
    try:
        assert len(first(bytes(frame), 4096)) <= 4096
    except NotReadable as error:
        assert error.reason


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "malformed: not a zstd frame"),
        (b"\x28\xb5\x2f", "malformed: not a zstd frame"),
        (b"\x50\x2a\x4d\x18" + bytes(64), "malformed: not a zstd frame"),  # one to be skipped
        (b"\x27\xb5\x2f\xfd" + bytes(64), "malformed: not a zstd frame"),  # of a version before the first
        (frame_of((3, 9, bytes(9))), "malformed: damaged zstd data"),
        (frame_of((0, 1 << 18, b"")), "malformed: damaged zstd data"),
        (frame_of((2, 9, b"\xff" * 9)), "malformed: damaged zstd data"),
        (frame_of((0, 3, b"abc")), "truncated: a zstd frame that is cut short"),
    ],
)
def test_what_is_no_sound_frame_is_refused_in_words(frame: bytes, reason: str) -> None:
    with pytest.raises(NotReadable) as refused:
        first(frame, 4096)
    assert refused.value.reason == reason


@pytest.mark.parametrize("length", [0, 3, 5, 9, 12, 300, len(FRAME) - 1])
def test_cut_frames_are_refused(length: int) -> None:
    with pytest.raises(NotReadable):
        first(FRAME[:length], 4096)
