"""GPUs that the kernel log names, where the bus cannot be listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.probes.log_gpus import gpus_in_log
from tests.support.hosts import Host

ENUMERATED = "[    0.512345] pci 0000:01:00.0: [10de:2684] type 00 class 0x030000 PCIe Legacy Endpoint"
AUDIO = "[    0.512399] pci 0000:01:00.1: [10de:22ba] type 00 class 0x040300 PCIe Endpoint"
XID = "[ 227.996636] NVRM: Xid (PCI:0000:9b:00): 119, pid=4071838, name=python, Timeout after 45s"


def gpus(root: Path, *lines: str) -> list[tuple[str, str, str]]:
    place = root / "var/log/dmesg"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("\n".join(lines) + "\n")
    found = gpus_in_log(RecordedHost(root))
    return [(device.bdf, device.vendor, device.device) for device in found.value or ()]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((ENUMERATED, AUDIO), [("0000:01:00.0", "10de", "2684")]),
        ((XID,), [("0000:9b:00.0", "10de", "")]),
        (("[    1.0] NVRM: GPU at PCI:0000:0a:00: GPU-760d0170",), [("0000:0a:00.0", "10de", "")]),
        (("[    1.0] nvidia 0000:04:00.0: enabling device (0000 -> 0003)",), [("0000:04:00.0", "10de", "")]),
        (
            ("[    1.0] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)",),
            [("0000:01:00.0", "10de", "2b85")],
        ),
        (("[    7.0] kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics",), [("", "1002", "67df")]),
        (
            (
                "[    3.0] amdgpu 0000:03:00.0: enabling device (0006 -> 0007)",
                "[    3.1] [drm] initializing kernel modesetting (IP DISCOVERY 0x1002:0x744C 0x1EAE:0x7901 0xC8).",
            ),
            [("0000:03:00.0", "1002", "744c")],
        ),
        (("[    1.0] snd_hda_intel 0000:01:00.1: Handle vga_switcheroo audio client",), []),
        (("[    1.0] pci 0000:00:02.0: [8086:a780] type 00 class 0x030000",), []),
    ],
)
def test_a_line_names_its_gpu(tmp_path, lines, found):
    assert gpus(tmp_path, *lines) == found


def test_two_gpus_of_one_maker_keep_their_addresses_and_share_no_id(tmp_path):
    lines = (XID, XID.replace("9b", "9c"), "[  228.1] NVRM: The NVIDIA GPU 0000:9b:00.0 (PCI ID: 10de:2330)")
    assert gpus(tmp_path, *lines) == [("0000:9b:00.0", "10de", "2330"), ("0000:9c:00.0", "10de", "")]


def test_a_gpu_of_the_log_counts_where_the_bus_was_not_recorded(tmp_path):
    host = Host(tmp_path)
    host.file("/etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
    host.file("/var/log/dmesg", ENUMERATED + "\n")
    assert [gpu["name"] for gpu in host.check()["machine"]["gpus"]] == ["NVIDIA GeForce RTX 4090"]


def test_a_bus_that_was_listed_is_believed_against_the_log(tmp_path):
    host = Host(tmp_path).ubuntu().file("/var/log/dmesg", ENUMERATED + "\n")
    assert not host.check()["machine"].get("gpus")


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("NVRM: amdgpu10de02[]().xXid PCI\n"), max_size=300))
def test_garbage_names_no_gpu_twice(tmp_path_factory, text):
    found = gpus(tmp_path_factory.mktemp("log"), text)
    assert len(set(found)) == len(found)
