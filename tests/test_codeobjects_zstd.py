"""The first bytes of zstd frames, compared with what was packed and with other programs' frames."""

from __future__ import annotations

import base64
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.codeobjects.bounded import Bounded, NotReadable
from gpudoctor.codeobjects.zstd import first_bytes
from tests.support.codeobject_files import zstd_stored

# What `zstd -19` makes of LETTERS: literals in four Huffman streams.
LETTERS_19 = (
    "KLUv/QBoHRMAyl14CQvQ50opqNJ/AAAVAZEAlACSAGf3mSvN/c3yGtx5TOTO9fzv7q97N+nt93ARvk/JD0iH1JrF5fayBjl+++55RL5wgWBad/"
    "61Z7l6XFX3/fZa3nxOj9Yamhutr69vP2weH+XTmmwKWb8CHq5qKcC5+5753vuaO1XU51dTuqPVn37Vk2EN/af+LgTF3m9d8kUz55FWbvkjBeyf"
    "wVSv4LH3wHXdfwhTa8kGfMOHWb794K/WnuJD7U3YoeC+tpAa6p7uP2q+hxUAqM3wsMvAHXUBT9Vyt5ye+x1epQD3Uln7uNQo8NURql85caib3T"
    "96OcGXrHYySqitq7uf4mD+169WC/pgx2O2Ln7H8PJ1/ecI2tk7Seb7uG12pwmUl2Fpo4ru6+tfabDUXex0Z1dC26Rp6jQPtfHtxf4H/KHw/EV3"
    "4O7QVPcAalEw0HjeJjh4oOsYdTkfDUh9/+VueKBw+LkXr+t9f1cMGNqf+0APPv2vLoSv5n0qiJA3uH6F+N7ivfO8DyrXo88Pf4/Fr60RDFw1O3"
    "Wmw2VM5zD4ftdLWerV83/vBQ9Rme255eqXUD/M3TjyBSnvHsw9qnjNvJlTdgPtnHnz/Ldmn+WavwJPR62OLuQrWZr3VxAvs6v9VauIdx7v5gwT"
    "5srAKjLD/218MXShDw9tcO7pTrQ0y+PTiUrN97XifsBOtzX7M3+5zg0Gf6zhe/72svsT6SEfloqO6Y5NyqNLDQD0V1tiNLbQbNTzd9zaMTxjE3"
    "4mfrg5uEVBrwGkns/InPJ4yfzjGLkZ7makNYWbc6X5wxYAEL6sek4fHwA="
)


def letters(count: int) -> bytes:
    state, out = 7, bytearray()
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        out.append(b"eeeeeeeettttaaooiinnsshrdl"[(state >> 16) % 26])
    return bytes(out)


def first(frame: bytes, wanted: int) -> bytes:
    return first_bytes(Bounded(frame), 0, len(frame), wanted)


@pytest.mark.parametrize("wanted", [1, 100, 375, 376, 1499, 1500, 9000])
def test_huffman_streams(wanted: int) -> None:
    assert first(base64.b64decode(LETTERS_19), wanted) == letters(1500)[:wanted]


@given(st.binary(max_size=200_000), st.integers(min_value=1, max_value=100_000))
def test_stored_blocks(content: bytes, wanted: int) -> None:
    assert first(zstd_stored(content), wanted) == content[:wanted]


def test_runs_are_not_unpacked_beyond_a_block() -> None:
    run = (0xFD2FB528).to_bytes(4, "little") + b"\x00\x88" + (65536 << 3 | 2).to_bytes(3, "little") + b"z"
    assert first(run, 5) == b"zzzzz"


def test_frames_of_the_zstd_program(tmp_path: Path) -> None:
    """Texts, tables and noise of many sizes at many levels."""
    zstd = shutil.which("zstd")
    if zstd is None:
        pytest.skip("no zstd program")
    source = random.Random(3)
    words = [bytes(source.choices(range(97, 123), k=source.randint(2, 9))) for _ in range(400)]
    for level in (1, 3, 6, 12, 19):
        for index in range(8):
            size = 40 * 4**index
            parts = [b" ".join(source.choices(words, k=size // 16)), source.randbytes(size // 8), bytes(size // 4)]
            parts.append(
                b"".join(
                    index.to_bytes(8, "little") + b"gfx%d" % source.randint(900, 1300) for index in range(size // 64)
                )
            )
            source.shuffle(parts)
            (tmp_path / f"{level}-{index}").write_bytes(b"".join(parts))
        made = sorted(path for path in tmp_path.iterdir() if path.name.startswith(f"{level}-") and not path.suffix)
        subprocess.run([zstd, "-q", f"-{level}", *map(str, made)], check=True)
        for path in made:
            content, frame = path.read_bytes(), path.with_name(path.name + ".zst").read_bytes()
            for wanted in (64, 4096, 65536):
                assert first(frame, wanted) == content[:wanted], (path.name, wanted)


@given(st.integers(min_value=0, max_value=618), st.integers(min_value=0, max_value=255))
def test_damaged_frames_are_refused_or_read_wrong_but_never_crash(at: int, value: int) -> None:
    frame = bytearray(base64.b64decode(LETTERS_19))
    frame[at] = value
    try:
        assert len(first(bytes(frame), 4096)) <= 4096
    except NotReadable as error:
        assert error.reason


@pytest.mark.parametrize("length", [0, 3, 5, 9, 12, 300, 619])
def test_cut_frames_are_refused(length: int) -> None:
    with pytest.raises(NotReadable):
        first(base64.b64decode(LETTERS_19)[:length], 4096)
