"""The RECORD of a distribution, which may have thousands of lines."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudoctor.host import LiveHost
from gpudoctor.probes.record import record_pieces


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(lines=st.lists(st.integers(0, 100_000), max_size=12), end=st.sampled_from((b"", b"\n")))
def test_a_long_record_is_read_in_pieces_of_whole_lines(tmp_path: Path, lines: list[int], end: bytes) -> None:
    written = [b"%d," % number + b"x" * length for number, length in enumerate(lines)]
    content = b"\n".join(written) + end
    (tmp_path / "RECORD").write_bytes(content)
    pieces = list(record_pieces(LiveHost(), str(tmp_path)) or ())
    assert b"\n".join(pieces) == content
    read = [line for piece in pieces for line in piece.split(b"\n") if line]
    assert read == written


def test_a_record_that_is_not_there_has_no_pieces(tmp_path: Path) -> None:
    assert record_pieces(LiveHost(), str(tmp_path)) is None
