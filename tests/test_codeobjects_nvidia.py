"""Which NVIDIA architectures a library carries: SASS and PTX apart, suffixes, shares, code for the linker."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.codeobjects.library import Sample, read_code
from gpudoctor.codeobjects.nvidia import MAGIC, arch_order
from tests.support.codeobject_files import NOBITS, container, cuda_library, elf, entry, wrappers


def test_machine_code_and_ptx_are_told_apart_with_their_suffixes() -> None:
    code = read_code(cuda_library(container("sm_80", "sm_90a", "sm_100f", "compute_90", "compute_120f")))
    assert code.sass == ("sm_80", "sm_90a", "sm_100f")
    assert code.ptx == ("compute_90", "compute_120f")
    assert code.reason is None


def test_share_counts_containers_not_entries() -> None:
    library = cuda_library(
        container("sm_80", "sm_90"), container("sm_80", "sm_80"), container("sm_80"), container("sm_80", "sm_90a")
    )
    code = read_code(library)
    assert code.share == {"sm_80": 1.0, "sm_90": 0.25, "sm_90a": 0.25}
    assert code.containers == 4
    assert code.architectures(0.5) == ("sm_80",)


def test_code_for_the_device_linker_is_kept_apart() -> None:
    code = read_code(cuda_library(container("sm_80"), relocatable=[container("sm_90", "compute_120")]))
    assert code.sass == ("sm_80",)
    assert code.ptx == ()
    assert code.relocatable == ("compute_120", "sm_90")
    assert code.share == {"sm_80": 1.0}


def test_a_library_without_gpu_code_carries_nothing_and_has_no_reason() -> None:
    code = read_code(elf([(".text", b"\x90" * 64)]))
    assert (code.sass, code.ptx, code.gfx, code.reason) == ((), (), (), None)


def test_an_emptied_section_is_not_read_as_carrying_nothing() -> None:
    stripped = elf([(".nv_fatbin", bytes(4096), NOBITS), (".nvFatBinSegment", wrappers(7))])
    code = read_code(stripped)
    assert code.sass == ()
    assert code.reason == "its code lies outside .nv_fatbin"


def test_kinds_that_are_no_code_for_a_gpu_do_not_count() -> None:
    lto = struct.pack("<H", 8) + entry("sm_90")[2:]
    whole = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(lto)) + lto
    assert read_code(cuda_library(whole)).sass == ()


def test_a_fat_binary_of_its_own_is_read() -> None:
    content = container("sm_90a", "compute_80")
    assert content.startswith(MAGIC)
    code = read_code(content)
    assert (code.sass, code.ptx) == (("sm_90a",), ("compute_80",))


def test_32_bit_libraries_are_read() -> None:
    assert read_code(elf([(".nv_fatbin", container("sm_53"))], bits=32)).sass == ("sm_53",)


def test_order_is_by_number() -> None:
    archs = ["sm_120", "sm_90a", "sm_90", "sm_100f", "sm_50"]
    assert sorted(archs, key=arch_order) == ["sm_50", "sm_90", "sm_90a", "sm_100f", "sm_120"]


def damaged(at: int, layout: str, value: int) -> bytes:
    """Three containers, the second changed at one place."""
    middle = bytearray(container("sm_90", "sm_100"))
    struct.pack_into(layout, middle, at, value)
    return cuda_library(container("sm_80"), bytes(middle), container("sm_120"))


@pytest.mark.parametrize(
    ("at", "layout", "value", "reason"),
    [
        (0, "<I", 0xDEADBEEF, "no fat binary"),
        (4, "<H", 9, "unknown version (9)"),
        (6, "<H", 2, "unknown version"),
        (8, "<Q", 1 << 62, "larger than its section"),
        (16 + 4, "<I", 8, "larger than its container"),
        (16 + 8, "<Q", (1 << 64) - 1, "larger than its container"),
        (16 + 28, "<I", 0, "an architecture of 0"),
        (16 + 28, "<I", 123456, "an architecture of 123456"),
    ],
)
def test_damage_gives_a_reason_and_what_was_read_before_it(at: int, layout: str, value: int, reason: str) -> None:
    code = read_code(damaged(at, layout, value))
    assert code.sass == ("sm_80",)
    assert reason in (code.reason or "")
    assert "(after 1 containers)" in (code.reason or "")


def test_a_cut_file_gives_a_reason() -> None:
    whole = cuda_library(container("sm_80", payload=4096), container("sm_90", payload=4096))
    for length in (0, 3, 16, 63, 64, 2000, len(whole) // 2, len(whole) - 1):
        code = read_code(whole[:length])
        assert code.reason is not None, length
        assert code.sass == ()


def test_absurdly_many_containers_are_given_up() -> None:
    empty = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0)
    code = read_code(cuda_library(empty * 150_000))
    assert "absurd size" in (code.reason or "")


def test_padding_between_containers_is_stepped_over_but_not_for_ever() -> None:
    good = cuda_library(container("sm_80") + bytes(4096), container("sm_90"))
    assert read_code(good).sass == ("sm_80", "sm_90")
    endless = cuda_library(container("sm_80"), bytes(3 << 20), container("sm_90"))
    assert "nothing where code should be" in (read_code(endless).reason or "")


ARCHS = st.sampled_from(["sm_50", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100f", "compute_80"])


@given(st.lists(st.sets(ARCHS, min_size=1), min_size=1, max_size=8), st.integers(min_value=0, max_value=5000))
def test_any_containers_are_read_back(sets: list[set[str]], payload: int) -> None:
    payload -= payload % 8
    code = read_code(cuda_library(*(container(*sorted(archs), payload=payload) for archs in sets)))
    assert set(code.sass) | set(code.ptx) == set().union(*sets)
    for arch in code.sass + code.ptx:
        assert code.share[arch] == sum(arch in archs for archs in sets) / len(sets)
    assert code.reason is None


def test_a_sample_tells_what_a_library_is_built_for() -> None:
    containers = [container("sm_80", "sm_90", *(("sm_100a",) if n == 5 else ())) for n in range(640)]
    code = read_code(cuda_library(*containers), sample=Sample(containers=64, bundles=1))
    assert code.sass == ("sm_80", "sm_90")
    assert code.containers == 640
    assert code.architectures(least=0.5) == ("sm_80", "sm_90")
