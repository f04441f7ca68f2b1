"""The kernel log: all forms in which people keep it, this boot's lines only, floods and garbage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.host import LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.literals import literal_part
from gpudoctor.machine import Fact, KernelLog, LogFault, denied, known
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.rows import LogPattern
from gpudoctor.probes.kernel_log import probe_kernel_log
from gpudoctor.probes.log_lines import this_boot
from gpudoctor.probes.pci_address import find_address, normal_address


def pattern(name: str, expression: str, example: str = "") -> LogPattern:
    return LogPattern(
        id=name,
        vendor="any",
        pattern=expression,
        meaning="",
        needle=literal_part(expression),
        example=example,
        source="",
        checked="",
    )


XID = pattern("xid", r"NVRM: Xid \((?P<bdf>[^)]*)\): (?P<xid>\d+)")
ATOMICS = pattern("atomics", r"kfd kfd: (?:amdgpu: )?skipped device (?P<detail>\S+), PCI rejects atomics")
RESET = pattern("reset", r"amdgpu: GPU reset begin")
MISMATCH = pattern("mismatch", r"API mismatch: .*version (?P<detail>[\d.]+), but this kernel module has the version")
SECOND_LINE = pattern("second-line", r"NVRM: has the version (?P<detail>[\d.]+)")
OFF_BUS = pattern("off-bus", r"fallen off the bus")
KEY = pattern("key", r"could not insert '(?P<detail>\w+)': Key was rejected")
PATTERNS = (XID, ATOMICS, RESET, MISMATCH, SECOND_LINE, OFF_BUS, KEY)

MESSAGE = "NVRM: Xid (PCI:0000:9b:00): 119, pid=4071838, name=python, Timeout after 45s"


def log(root: Path, text: str | bytes, path: str = "/var/log/dmesg") -> Fact[KernelLog]:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode() if isinstance(text, str) else text)
    return probe_kernel_log(RecordedHost(root), PATTERNS)


def faults(found: Fact[KernelLog]) -> tuple[LogFault, ...]:
    assert found.value is not None, found.why
    return found.value.faults


# --- forms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (f"4,1522,227996636,-;{MESSAGE}", 227.996636),
        (f"4,1522,227996636,-,caller=T1234;{MESSAGE}", 227.996636),
        (f"[  227.996636] {MESSAGE}", 227.996636),
        (f"[188549.976351] {MESSAGE}", 188549.976351),
        (f"[  227.996636][ T1234] {MESSAGE}", 227.996636),
        (f"[  227.996636] [    C0] {MESSAGE}", 227.996636),
        (f"<4>[  227.996636] {MESSAGE}", 227.996636),
        (f"kern  :warn  : [  227.996636] {MESSAGE}", 227.996636),
        (f"[Wed Dec 10 21:01:03 2025] {MESSAGE}", None),
        (f"[Wed Jun  8 16:34:49 2022] {MESSAGE}", None),
        (f"2025-01-21T04:41:44,285060+00:00 {MESSAGE}", None),
        (f"kern  :warn  : 2025-01-21T04:41:44,285060+00:00 {MESSAGE}", None),
        (f"May 26 18:09:55 fedora kernel: {MESSAGE}", None),
        (f"May  6 18:09:55 my-host.lan kernel: [  227.996636] {MESSAGE}", 227.996636),
        (f"mar 06 15:10:43 CS3003NS kernel: {MESSAGE}", None),
        (f"11月 15 14:15:47 leon-NF5468M6 kernel: {MESSAGE}", None),
        (f"2025-05-26T18:09:55+0200 fedora kernel: {MESSAGE}", None),
        (f"2025-05-26T18:09:55.123456+02:00 fedora kernel: [  227.996636] {MESSAGE}", 227.996636),
        (f"[  227.996636] fedora kernel: {MESSAGE}", 227.996636),
        (MESSAGE, None),
    ],
)
def test_every_form_gives_the_same_message(tmp_path: Path, line: str, seconds: float | None) -> None:
    (fault,) = faults(log(tmp_path, line + "\n"))
    assert fault == LogFault(kind="xid", line=MESSAGE, bdf="0000:9b:00.0", xid=119, seconds=seconds)


def test_a_module_that_repeats_its_name_is_not_taken_for_a_host(tmp_path: Path) -> None:
    (fault,) = faults(
        log(tmp_path, "[ 9.298192] kfd kfd: amdgpu: skipped device 1002:699f, PCI rejects atomics 730<0\n")
    )
    assert fault.line == "kfd kfd: amdgpu: skipped device 1002:699f, PCI rejects atomics 730<0"


def test_other_programs_messages_in_a_journal_are_read_too(tmp_path: Path) -> None:
    line = (
        "mar 06 15:10:43 CS3003NS gdm3[7055]: modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"
    )
    (fault,) = faults(log(tmp_path, line))
    assert fault.line == "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"


def test_a_mixed_file_counts_only_the_kernels_lines(tmp_path: Path) -> None:
    text = (
        "Nov 20 10:00:00 node1 kernel: NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.\n"
        "Nov 20 10:00:01 node1 monitor[77]: NVRM: Xid (PCI:0000:42:00): 79, I only quote this\n"
    )
    found = faults(log(tmp_path, text, "/var/log/messages"))
    assert {fault.bdf for fault in found} == {"0000:41:00.0"}


MANY_LINES = (
    "[    9.424670] NVRM: API mismatch: the client 'kwin_wayland' (pid 1005)\n"
    "               NVRM: has the version 595.84, but this kernel module has\n"
    "               NVRM: the version 595.80.  Please make sure that this\n"
    "[   12.000000] usb 1-1: new device\n"
)


def test_a_message_of_several_lines_is_matched_whole_and_line_by_line(tmp_path: Path) -> None:
    found = {fault.kind: fault for fault in faults(log(tmp_path, MANY_LINES))}
    assert set(found) == {"mismatch", "second-line"}
    assert found["mismatch"].line == (
        "NVRM: API mismatch: the client 'kwin_wayland' (pid 1005) has the version 595.84, "
        "but this kernel module has the version 595.80.  Please make sure that this"
    )


def test_line_breaks_inside_a_record_are_written_as_escapes(tmp_path: Path) -> None:
    record = "4,900,9424670,-;NVRM: API mismatch: the client 'x' (pid 7)\\x0aNVRM: has the version 595.84, "
    record += "but this kernel module has\\x0aNVRM: the version 595.80.\n SUBSYSTEM=pci\n DEVICE=+pci:0000:01:00.0\n"
    assert {fault.kind for fault in faults(log(tmp_path, record))} == {"mismatch", "second-line"}


def test_the_address_of_another_line_of_the_message_counts(tmp_path: Path) -> None:
    text = (
        "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n"
    )
    (fault,) = faults(log(tmp_path, text))
    assert (fault.kind, fault.bdf) == ("off-bus", "0000:b3:00.0")


# --- this boot ---------------------------------------------------------------------------------------

OLD = "NVRM: Xid (PCI:0000:01:00): 79, old"
MONTH = "Nov 19 10:00:00 node1"
NEW = "NVRM: Xid (PCI:0000:02:00): 79, new"


@pytest.mark.parametrize(
    "text",
    [
        f"[ 5000.000000] {OLD}\n[    0.000000] Linux version 6.8.0-45-generic\n[   10.000000] {NEW}\n",
        f"[ 5000.000000] {OLD}\n[   10.000000] {NEW}\n",
        f"{MONTH} kernel: {OLD}\n{MONTH} kernel: Linux version 6.8.0\n{MONTH} kernel: {NEW}\n",
        f"{MONTH} kernel: {OLD}\n-- Boot 0123456789abcdef0123456789abcdef --\n{MONTH} kernel: {NEW}\n",
        f"{MONTH} kernel: {OLD}\n-- Reboot --\n{MONTH} kernel: {NEW}\n",
    ],
)
def test_lines_of_an_earlier_boot_do_not_count(tmp_path: Path, text: str) -> None:
    assert {fault.bdf for fault in faults(log(tmp_path, text, "/var/log/kern.log"))} == {"0000:02:00.0"}


def test_lines_that_are_out_of_order_by_a_moment_are_one_boot(tmp_path: Path) -> None:
    text = f"[   10.000002] {OLD}\n[    9.999999] {NEW}\n"
    assert len(faults(log(tmp_path, text))) == 2


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("2025-11-20T10:00:00+00:00 h kernel: x", True),
        ("2025-11-20T11:00:00+0200 h kernel: x", False),
        ("2025-11-19T10:00:00Z h kernel: x", False),
        # Without a zone only what is older by more than any zone is surely old.
        ("2025-11-20T03:00:00 h kernel: x", True),
        ("2025-11-18T10:00:00 h kernel: x", False),
        ("2025-99-99T10:00:00 h kernel: x", True),
        ("[   50.000000] x", True),
        ("[ 9000.000000] x", False),
        ("Nov 19 10:00:00 h kernel: x", True),
    ],
)
def test_the_end_of_a_log_is_measured_against_the_clock(line: str, kept: bool) -> None:
    started = 1763632000  # 2025-11-20T09:46:40Z
    assert bool(this_boot(line, started=started, uptime=3600.0)) is kept


def test_a_huge_log_is_read_from_its_end(tmp_path: Path) -> None:
    filler = "Nov 19 10:00:00 h kernel: usb 1-1: nothing to see\n" * 60_000
    found = log(
        tmp_path,
        f"Nov 19 09:00:00 h kernel: {OLD}\n" + filler + f"Nov 19 11:00:00 h kernel: {NEW}\n",
        "/var/log/kern.log",
    )
    assert {fault.bdf for fault in faults(found)} == {"0000:02:00.0"}


# --- how much ----------------------------------------------------------------------------------------


def test_a_flood_keeps_its_ends_and_hides_nothing_else(tmp_path: Path) -> None:
    flood = "".join(
        f"[{1000 + n}.000000] NVRM: Xid (PCI:0000:{n % 200:02x}:00): 13, pid={n}\n" for n in range(10_000)
    )
    text = f"[  900.000000] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n{flood}"
    found = faults(log(tmp_path, text))
    assert found[0].kind == "reset" and len(found) < 50
    assert [fault.seconds for fault in found] == sorted(fault.seconds or 0 for fault in found)
    assert found[1].seconds == 1000.0 and found[-1].seconds == 10999.0


def test_several_refused_gpus_are_all_kept(tmp_path: Path) -> None:
    text = "".join(
        f"[ 7.00000{n}] kfd kfd: amdgpu: skipped device 1002:{n}000, PCI rejects atomics\n" for n in range(5)
    )
    assert len(faults(log(tmp_path, text))) == 5


def test_a_kept_line_is_short(tmp_path: Path) -> None:
    (fault,) = faults(log(tmp_path, MESSAGE + "x" * 100_000))
    assert len(fault.line) <= 500


@settings(max_examples=100)
@given(
    content=st.one_of(
        st.binary(max_size=400), st.text(alphabet="[]<>:;,. \n\\x0a0123456789NVRMkern-TJ", max_size=400)
    )
)
def test_garbage_is_no_fault(tmp_path_factory: pytest.TempPathFactory, content: bytes | str) -> None:
    found = log(tmp_path_factory.mktemp("log"), content)
    assert found.known


# --- where from --------------------------------------------------------------------------------------


class Buffer(LiveHost):
    """A running system whose kernel buffer answers as told, with the files of a folder."""

    def __init__(self, root: Path, answer: Fact[bytes]) -> None:
        self.root = root
        self.answer = answer

    def kernel_messages(self) -> Fact[bytes]:
        return self.answer

    def place(self, path: str) -> str | None:
        return str(self.root / path.lstrip("/"))


def test_the_running_kernels_buffer_comes_first(tmp_path: Path) -> None:
    (tmp_path / "var/log").mkdir(parents=True)
    (tmp_path / "var/log/dmesg").write_text(f"[ 1.000000] {OLD}\n")
    found = probe_kernel_log(Buffer(tmp_path, known(f"4,1,1000000,-;{NEW}\n".encode(), "/dev/kmsg")), PATTERNS)
    assert [fault.bdf for fault in faults(found)] == ["0000:02:00.0"] and found.source == "/dev/kmsg"


def test_a_buffer_that_may_not_be_read_leaves_the_files_or_a_refusal(tmp_path: Path) -> None:
    host = Buffer(tmp_path, denied("/dev/kmsg", "operation not permitted"))
    assert probe_kernel_log(host, PATTERNS).state == "denied"
    (tmp_path / "var/log").mkdir(parents=True)
    (tmp_path / "var/log/kern.log").write_text(f"[ 1.000000] {NEW}\n")
    assert [fault.bdf for fault in faults(probe_kernel_log(host, PATTERNS))] == ["0000:02:00.0"]


def test_a_file_from_before_the_start_is_no_log_of_this_boot(tmp_path: Path) -> None:
    import os

    host = Buffer(tmp_path, denied("/dev/kmsg"))
    for path, text in (("var/log/dmesg", f"[ 1.000000] {OLD}\n"), ("proc/stat", "cpu 1 2 3\nbtime 1763632000\n")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    os.utime(tmp_path / "var/log/dmesg", (1600000000, 1600000000))
    assert probe_kernel_log(host, PATTERNS).state == "denied"


def test_no_log_at_all_is_unknown_in_a_recording(tmp_path: Path) -> None:
    assert probe_kernel_log(RecordedHost(tmp_path), PATTERNS).state == "unknown"


# --- addresses and patterns --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("PCI:0000:01:00", "0000:01:00.0"),
        ("PCI:0000:01:00.1", "0000:01:00.1"),
        ("0000:9B:00", "0000:9b:00.0"),
        ("00000000:C1:00.0", "0000:c1:00.0"),
        ("00010000:C1:00.0", "10000:c1:00.0"),
        ("01:00.0", "0000:01:00.0"),
        ("10de:2684", None),
        ("", None),
    ],
)
def test_addresses_have_one_form(text: str, address: str | None) -> None:
    assert normal_address(text) == address


def test_only_full_addresses_are_found_in_a_line() -> None:
    assert find_address("amdgpu 0000:c5:00.0: amdgpu: ring gfx timeout") == "0000:c5:00.0"
    assert find_address("RmInitAdapter failed! (0x62:0x65:1792) 10de:26b5 01:02:03:04:05:06") is None


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        (r"NVRM: Xid \((?P<bdf>[^)]*)\): (?P<xid>\d+)", "NVRM: Xid ("),
        (r"colou?r scheme", "r scheme"),
        (r"ab+c{2}def", "def"),
        (r"one|other", ""),
        (r"(?i)nvrm", ""),
        (r"[abc]\d+\.txt", ".txt"),
        (r"a(b|c)defg(?:h)?", "defg"),
        (r"[]x|]yz", "yz"),
    ],
)
def test_the_literal_part_of_a_pattern(expression: str, part: str) -> None:
    assert literal_part(expression) == part


@settings(max_examples=300)
@given(
    pieces=st.lists(
        st.sampled_from(
            ["a", "b+", "c*", r"\.", "d?", "(e|f)", "[gh]", r"\d", "i{2}", "j{0,3}", "(?:k)", " ", "l|m", "."]
        ),
        max_size=8,
    ),
    text=st.text(alphabet="abcdefghijklm. 1", max_size=24),
)
def test_no_match_is_lost_by_looking_for_the_literal_part_first(pieces: list[str], text: str) -> None:
    expression = "".join(pieces)
    if re.search(expression, text):
        assert literal_part(expression) in text


def test_every_pattern_of_the_matrix_finds_its_example_as_a_line_of_the_log(tmp_path: Path) -> None:
    patterns = load_matrix().tables.log_patterns
    assert patterns
    for row in patterns:
        (tmp_path / "var/log").mkdir(parents=True, exist_ok=True)
        (tmp_path / "var/log/dmesg").write_text(row.example + "\n")
        found = faults(probe_kernel_log(RecordedHost(tmp_path), patterns))
        assert row.id in {fault.kind for fault in found}, row.id
