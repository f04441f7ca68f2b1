"""Packed files as input of `check --from`: logs, and the archives of sos."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.host import InputError
from gpudoctor.intake.archive import packed_text
from gpudoctor.intake.machine_file import read_machine
from gpudoctor.machine import Machine
from tests.support.check_cases import matrix
from tests.support.judging import judged
from tests.support.pasted import DMESG, SMI

LOG = f"{SMI}{DMESG}".encode()


def machine(content: bytes, folder: Path) -> Machine:
    (folder / "given").write_bytes(content)
    return read_machine(str(folder / "given"), matrix())[0]


def archive(members: dict[str, bytes], *links: tuple[str, str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return file.getvalue()


SOS = archive({
    "sosreport-n1/etc/os-release": b'NAME="Ubuntu"\n',
    "sosreport-n1/etc/passwd": b"torch==1.0.0\n",
    "sosreport-n1/sos_commands/kernel/dmesg": DMESG.encode(),
    "sosreport-n1/sos_commands/nvidia/nvidia-smi": SMI.encode(),
})  # fmt: skip


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("content", [LOG, SOS], ids=["a log", "a sosreport"])
def test_a_packed_text_and_a_packed_archive_are_told_by_their_content(
    pack: Callable[[bytes], bytes], content: bytes, tmp_path: Path
) -> None:
    found = machine(pack(content), tmp_path)
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA GeForce RTX 4090"]
    assert judged(found).findings[0].slug == "driver-init-failed-hw"


def test_a_plain_tar_is_read_and_only_what_tells_of_gpus(tmp_path: Path) -> None:
    found = machine(SOS, tmp_path)
    assert found.gpus
    assert found.torch is None


def test_what_was_cut_off_is_read_to_where_it_ends(tmp_path: Path) -> None:
    assert machine(gzip.compress(SOS)[:-20], tmp_path).gpus
    with pytest.raises(InputError, match="cannot be unpacked"):
        machine(b"\x1f\x8b" + b"\0" * 500, tmp_path)


def test_names_and_links_of_an_archive_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = archive(
        {"../../../../tmp/escaped/dmesg": DMESG.encode(), "/sos_commands/kernel/uname": b"x"},
        ("sos_commands/kernel/dmesg", "/etc/passwd"),
    )
    assert b"NVRM" in packed_text(lzma.compress(content))
    assert b"root:" not in packed_text(content)
    written = ("escaped", "tmp/escaped", "sos_commands")
    assert not [
        place for folder in (tmp_path, *tmp_path.parents) for name in written if (place := folder / name).exists()
    ]
    assert not [*tmp_path.rglob("*")]


def test_of_a_bomb_a_bound_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.intake.archive._MOST", 4 << 20)
    assert len(packed_text(gzip.compress(b"a" * (20 << 20)))) <= 4 << 20
    huge = archive({"a/dmesg": b"a" * (20 << 20), "a/sos_commands/nvidia/x": SMI.encode()})
    assert len(packed_text(lzma.compress(huge))) <= 4 << 20
