"""Wheels read inside their zip, stored and deflated; broken and hostile archives."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.codeobjects.bounded_file import NotReadable
from gpudoctor.codeobjects.library import read_code
from gpudoctor.codeobjects.wheel_archive import Archive
from tests.support.codeobject_files import bundle, container, cuda_library, hip_library, packed

METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]


def write_zip(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def noise(size: int) -> bytes:
    """Bytes that hardly pack, the same each time."""
    state, out = 1, bytearray()
    while len(out) < size:
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        out += state.to_bytes(8, "little")
    return bytes(out[:size])


@pytest.mark.parametrize("method", METHODS)
def test_a_library_in_a_wheel_carries_what_it_carries_outside(tmp_path: Path, method: int):
    library = cuda_library(
        container("sm_80", "sm_90a"), container("sm_80", "compute_90"), relocatable=[container("sm_70")]
    )
    path = write_zip(
        tmp_path / "x.whl", {"a/x.so": library, "b/y.so": hip_library(packed(bundle("gfx1030")))}, method
    )
    with path.open("rb") as handle:
        archive = Archive(handle)
        codes = {member.name: read_code(archive.open(member)) for member in archive.members}
    assert codes["a/x.so"] == read_code(library)
    assert codes["a/x.so"].sass == ("sm_80", "sm_90a")
    assert codes["a/x.so"].relocatable == ("sm_70",)
    assert codes["b/y.so"].gfx == ("gfx1030",)


@pytest.fixture(scope="module")
def deflated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A wheel of one member, and the member's content."""
    content = noise(1_500_000) + bytes(1_000_000) + noise(1_500_000)
    return write_zip(tmp_path_factory.mktemp("deflated") / "x.whl", {"x": content}), content


@settings(max_examples=30)
@given(places=st.lists(st.tuples(st.integers(0, 3_999_999), st.integers(1, 5000)), min_size=1, max_size=10))
def test_reads_at_any_places_in_any_order_give_the_bytes(deflated: tuple[Path, bytes], places: list[tuple[int, int]]):
    path, content = deflated
    with path.open("rb") as handle:
        archive = Archive(handle)
        file = archive.open(archive.members[0])
        for at, wanted in places:
            length = min(wanted, len(content) - at)
            assert file.read(at, length) == content[at : at + length]


def test_reading_forward_keeps_little(deflated: tuple[Path, bytes]):
    import tracemalloc

    path, content = deflated
    with path.open("rb") as handle:
        archive = Archive(handle)
        file = archive.open(archive.members[0])
        tracemalloc.start()
        for at in range(0, len(content), 100_000):
            file.read(at, 64)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 2 << 20


def refused(content: bytes, path: Path) -> str:
    """Why an archive, or its only member, is not read."""
    path.write_bytes(content)
    with path.open("rb") as handle, pytest.raises(NotReadable) as error:
        archive = Archive(handle)
        file = archive.open(archive.members[0])
        file.read(file.size - 1, 1)
    return error.value.reason


def one_member(content: bytes = b"x" * 5000, method: int = zipfile.ZIP_DEFLATED) -> bytearray:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("x.so", content)
    return bytearray(buffer.getvalue())


def in_directory(data: bytearray, offset: int, layout: str, value: int) -> bytes:
    """The archive with one field of its directory entry set."""
    struct.pack_into(layout, data, data.rindex(b"PK\x01\x02") + offset, value)
    return bytes(data)


def test_a_bomb_is_refused_before_it_goes_off(tmp_path: Path):
    bomb = one_member(bytes(60 << 20))
    assert len(bomb) < 100_000
    assert refused(bytes(bomb), tmp_path / "x.whl").startswith("absurd size")


def test_one_bomb_among_honest_members_costs_only_itself(tmp_path: Path):
    members = {"a/bomb.so": bytes(6 << 20), "a/good.so": cuda_library(container("sm_80")), "pad": noise(200_000)}
    with write_zip(tmp_path / "x.whl", members).open("rb") as handle:
        archive = Archive(handle)
        found = {}
        for member in archive.members[:2]:
            try:
                found[member.name] = read_code(archive.open(member)).sass
            except NotReadable as error:
                found[member.name] = error.reason
    assert found["a/good.so"] == ("sm_80",)
    assert "absurd size" in str(found["a/bomb.so"])


def test_members_that_lie_over_each_other_are_refused(tmp_path: Path):
    members = {f"{n}.so": noise(2000) for n in range(20)}
    data = bytearray(write_zip(tmp_path / "x.whl", members, zipfile.ZIP_STORED).read_bytes())
    at = 0
    while (at := data.find(b"PK\x01\x02", at + 1)) > 0:
        struct.pack_into("<III", data, at + 20, 30_000, 30_000, struct.unpack_from("<I", data, at + 28)[0])
    assert "over each other" in refused(bytes(data), tmp_path / "y.whl")


@pytest.mark.parametrize(
    ("offset", "layout", "value", "reason"),
    [
        (8, "<H", 1, "encrypted"),
        (10, "<H", 12, "unknown way (12)"),
        (24, "<I", 4000, ""),
        (24, "<I", 7000, "truncated: it unpacks to 5000 of 7000 bytes"),
        (20, "<I", 1 << 30, "over each other"),
        (42, "<I", 1 << 30, "truncated"),
        (42, "<I", 7, "no member"),
        (28, "<H", 60000, "ends too early"),
        (0, "<I", 0, "damaged directory"),
    ],
)
def test_a_directory_that_lies_gives_a_reason(tmp_path: Path, offset: int, layout: str, value: int, reason: str):
    data = in_directory(one_member(), offset, layout, value) if value or not offset else b""
    path = tmp_path / "x.whl"
    if reason:
        if offset == 0:
            at = data.rindex(b"PK\x05\x06")
            data = data.replace(b"PK\x01\x02", b"PKxx") or data[:at]
        assert reason in refused(data, path)
        return
    path.write_bytes(data)
    with path.open("rb") as handle:  # fewer bytes than there are: no more are given
        archive = Archive(handle)
        assert archive.open(archive.members[0]).size == value


def test_damaged_and_cut_data_give_a_reason(tmp_path: Path):
    data = one_member(noise(50_000))
    at = data.index(b"x.so") + 4
    data[at : at + 20] = b"\xff" * 20
    assert refused(bytes(data), tmp_path / "x.whl").startswith("malformed: damaged data")
    assert "no directory" in refused(bytes(one_member())[:-30], tmp_path / "x.whl")
    assert "no directory" in refused(b"PK\x03\x04", tmp_path / "x.whl")


def test_an_absurd_directory_is_not_read(tmp_path: Path):
    data = one_member()
    struct.pack_into("<HHI", data, len(data) - 14, 65534, 65534, 0x7FFFFFFF)
    assert "absurd size" in refused(bytes(data), tmp_path / "x.whl")


def test_a_directory_with_64_bit_sizes_is_read(tmp_path: Path):
    library = cuda_library(container("sm_80"))
    path = tmp_path / "x.whl"
    write_zip(path, {"a/x.so": library})
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    end = data.rindex(b"PK\x05\x06")
    packed_size, size = struct.unpack_from("<II", data, entry + 20)
    # The entry's sizes and the directory's place move into their 64-bit fields.
    extra = struct.pack("<HHQQ", 1, 16, size, packed_size)
    struct.pack_into("<II", data, entry + 20, 0xFFFFFFFF, 0xFFFFFFFF)
    name_length, extra_length = struct.unpack_from("<HH", data, entry + 28)
    struct.pack_into("<H", data, entry + 30, extra_length + len(extra))
    directory = bytes(data[entry:end])
    directory = directory[: 46 + name_length] + extra + directory[46 + name_length :]
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, len(directory), entry)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, entry + len(directory), 1)
    last = struct.pack("<4s4HIIH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(bytes(data[:entry]) + directory + end64 + locator + last)
    with path.open("rb") as handle:
        archive = Archive(handle)
        assert archive.members[0].size == len(library)
        assert read_code(archive.open(archive.members[0])).sass == ("sm_80",)


@settings(max_examples=150)
@given(at=st.integers(0, 10_000), flips=st.binary(min_size=1, max_size=8))
def test_a_changed_archive_never_crashes(deflated: tuple[Path, bytes], at: int, flips: bytes):
    library = cuda_library(container("sm_80", "compute_90"), container("sm_75"))
    data = bytearray(one_member(library))
    at %= len(data)
    data[at : at + len(flips)] = flips
    path = deflated[0].with_name("changed.whl")
    path.write_bytes(data)
    with path.open("rb") as handle:
        try:
            archive = Archive(handle)
            for member in archive.members:
                read_code(archive.open(member))
        except NotReadable as error:
            assert error.reason
