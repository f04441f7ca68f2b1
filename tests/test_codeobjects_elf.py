"""ELF files: sections, what the loader needs, and symbol versions, compared with what a real linker wrote."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from gpudoctor.codeobjects.elf import NotReadable, open_elf
from tests.support.codeobject_files import NOBITS, elf


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libgiver.so, which defines symbol versions, and libtaker.so, which asks for them."""
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("linked")
    (folder / "giver.c").write_text("int one(void) { return 1; }\nint two(void) { return 2; }\n")
    (folder / "taker.c").write_text("int one(void); int two(void);\nint both(void) { return one() + two(); }\n")
    (folder / "versions").write_text(
        "FOO_1.9 { global: one; local: *; };\nFOO_1.10 { global: two; } FOO_1.9;\nFOO_PRIVATE { } FOO_1.10;\n"
    )
    for argv in (
        "-o libgiver.so giver.c -Wl,-soname,libgiver.so.1 -Wl,--version-script=versions",
        "-o libtaker.so taker.c -L. -lgiver -Wl,--enable-new-dtags -Wl,-rpath,$ORIGIN/../lib:/opt/x",
        "-o libold.so taker.c -L. -lgiver -Wl,--disable-new-dtags -Wl,-rpath,/opt/old",
    ):
        subprocess.run([cc, "-shared", "-fPIC", "-nostdlib", *argv.split()], cwd=folder, check=True)
    return folder


def test_what_the_loader_needs(linked: Path) -> None:
    with (linked / "libtaker.so").open("rb") as handle:
        taker = open_elf(handle)
        assert taker.needed == ("libgiver.so.1",)
        assert taker.runpath == ("$ORIGIN/../lib", "/opt/x")
        assert taker.rpath == ()
    with (linked / "libold.so").open("rb") as handle:
        old = open_elf(handle)
        assert (old.rpath, old.runpath) == (("/opt/old",), ())


def test_highest_symbol_version_is_by_number_and_names_without_one_do_not_count(linked: Path) -> None:
    with (linked / "libgiver.so").open("rb") as handle:
        giver = open_elf(handle)
        assert giver.defines_version("FOO_") == "1.10"
        assert giver.defines_version("BAR_") is None
        assert giver.needs_version("FOO_") is None
    with (linked / "libtaker.so").open("rb") as handle:
        taker = open_elf(handle)
        assert taker.needs_version("FOO_") == "1.10"
        assert taker.defines_version("FOO_") is None


def test_sections_by_name() -> None:
    file = open_elf(elf([(".text", b"code"), (".bss", bytes(99), NOBITS), (".data", b"first"), (".data", b"second")]))
    section = file.section(".data")
    assert section is not None
    assert section.size == 5
    assert file.file.read(section.offset, section.size) == b"first"
    assert file.section(".nothing") is None
    bss = file.section(".bss")
    assert bss is not None
    assert bss.size == 0


def test_a_section_is_told_from_one_whose_name_ends_alike() -> None:
    assert open_elf(elf([(".nv_fatbin", b"code")])).has_section((".hip_fatbin", ".nv_fatbin"))
    assert not open_elf(elf([(".rela.nv_fatbin", b"code")])).has_section((".nv_fatbin",))
    assert not open_elf(elf([(".text", b"code")])).has_section((".nv_fatbin",))


def test_a_file_without_section_table_has_no_sections() -> None:
    whole = bytearray(elf([(".text", b"code")]))
    struct.pack_into("<Q", whole, 40, 0)
    file = open_elf(bytes(whole))
    assert file.sections == ()
    assert not file.has_section((".text",))
    assert file.needed == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated"),
        (b"\x7fEL", "truncated"),
        (b"#!/bin/sh\nexit 0\n", "not an ELF file"),
        (b"\x7fELF" + bytes(60), "unknown ELF class"),
        (b"\x7fELF\x02\x02" + bytes(60), "big-endian"),
        (b"\x7fELF\x02\x01" + bytes(20), "truncated"),
    ],
)
def test_what_is_no_elf_file_is_refused_with_a_reason(content: bytes, reason: str) -> None:
    with pytest.raises(NotReadable) as caught:
        open_elf(content)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("at", "layout", "value", "reason"),
    [
        (40, "<Q", 1 << 60, "truncated"),
        (58, "<H", 63, "unknown size"),
        (60, "<H", 65000, "absurd size"),
        (62, "<H", 900, "no table of section names"),
    ],
)
def test_a_damaged_section_table_is_refused_with_a_reason(at: int, layout: str, value: int, reason: str) -> None:
    whole = bytearray(elf([(".text", b"code")]))
    struct.pack_into(layout, whole, at, value)
    with pytest.raises(NotReadable) as caught:
        _ = open_elf(bytes(whole)).sections
    assert reason in caught.value.reason


def test_a_file_that_shrinks_while_it_is_read_is_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(elf([(".text", bytes(1 << 16))]))
    with path.open("rb") as handle:
        file = open_elf(handle)
        path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(NotReadable):
            _ = file.sections
