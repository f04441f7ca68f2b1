"""rocm-smi and amd-smi: every form of their output names the same GPUs; garbage names none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.machine import SmiGpu
from gpudoctor.probes.amd_answers import parse_rocminfo
from gpudoctor.probes.amd_smi import parse_smi
from tests.support.hosts import Host

JSON = """{"card0": {"Device Name": "Navi 22 [Radeon RX 6700/6700 XT / 6800M]", "Device ID": "0x73df",
 "Device Rev": "0xc1", "PCI Bus": "0000:07:00.0", "VRAM Total Memory (B)": "12868124672", "GFX Version": "gfx1031"},
 "system": {"Driver version": "6.7.0"}}"""
OLD_JSON = '{"card0": {"GPU ID": "0x73df", "PCI Bus": "0000:07:00.0", "VRAM Total Memory (B)": "12868124672"}}'
CUT_JSON = '{\n    "card0": {\n        "Device Name": "Phoenix3",\n        "Device ID": "0x1900",\n'
AMD_JSON = """[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002", "device_id": "0x74a1",
 "rev_id": "0x00", "target_graphics_version": "gfx942"}, "bus": {"bdf": "0000:0c:00.0"},
 "vram": {"type": "HBM", "size": {"value": 196592, "unit": "MB"}}}]"""
AMD_LIST = """GPU: 0
    ASIC:
        MARKET_NAME: AMD Instinct MI300X
        VENDOR_ID: 0x1002
        DEVICE_ID: 0x74a1
        REV_ID: 0x00
        TARGET_GRAPHICS_VERSION: gfx942
    BUS:
        BDF: 0000:0C:00.0
    VRAM:
        TYPE: HBM
        SIZE: 196592 MB
"""
AMD_TABLE = """+------------------------------------------------------------------------------+
| AMD-SMI 26.0.0+37d158ab      amdgpu version: 6.12.12  ROCm version: 7.0.0    |
|-------------------------------------+----------------------------------------|
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |
|=====================================+========================================|
| 0000:0c:00.0    AMD Instinct MI300X | 0 %      43 °C   0           133/750 W |
|   0       0       7        SPX/NPS1 | 0 %        N/A           284/196592 MB |
|-------------------------------------+----------------------------------------|
"""
LINES = """============================ ROCm System Management Interface ============================
GPU[0]\t\t: Card Series: \t\tAMD Radeon RX 7900 XTX
GPU[0]\t\t: Card Model: \t\t0x744c
GPU[0]\t\t: Card Vendor: \t\tAdvanced Micro Devices, Inc. [AMD/ATI]
GPU[0]\t\t: GFX Version: \t\tgfx1100
"""
HARDWARE = """GPU  DID   GFX RAS  SDMA RAS  UMC RAS  VBIOS            BUS
0    164e  N/A      N/A       N/A      102-RAPHAEL-008  0000:12:00.0
1    744c  N/A      N/A       N/A      115-D702BS0-101  0000:03:00.0
"""
CONCISE = """Device  Node  IDs              Temp        Power     Partitions          SCLK    MCLK     Fan  Perf
        (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)
0       4     0x74a0,   50375  48.0°C      110.0W    NPS1, SPX, 0        98Mhz   1300Mhz  0%   auto
"""
MI300X = SmiGpu("AMD Instinct MI300X", "1002:74a1", "00", "0000:0c:00.0", "gfx942", 196592 << 20)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (
            JSON,
            [
                SmiGpu(
                    "Navi 22 [Radeon RX 6700/6700 XT / 6800M]",
                    "1002:73df",
                    "c1",
                    "0000:07:00.0",
                    "gfx1031",
                    12868124672,
                )
            ],
        ),
        (OLD_JSON, [SmiGpu("", "1002:73df", None, "0000:07:00.0", None, 12868124672)]),
        (CUT_JSON, [SmiGpu("Phoenix3", "1002:1900")]),
        (AMD_JSON, [MI300X]),
        (AMD_LIST, [MI300X]),
        (AMD_TABLE, [SmiGpu("AMD Instinct MI300X", bdf="0000:0c:00.0", memory=196592 << 20)]),
        (LINES, [SmiGpu("AMD Radeon RX 7900 XTX", "1002:744c", gfx="gfx1100")]),
        (HARDWARE, [SmiGpu(pci_id="1002:164e", bdf="0000:12:00.0"), SmiGpu(pci_id="1002:744c", bdf="0000:03:00.0")]),
        (CONCISE, [SmiGpu(pci_id="1002:74a0")]),
        ("ERROR:root:Unable to get devices, driver not initialized (amdgpu not found in modules)\n", []),
        ("", []),
        ("[[[[", []),
    ],
)
def test_each_form_names_its_gpus(text, gpus):
    assert list(parse_smi(text)) == gpus


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet=st.sampled_from('{}[]":,card0GPU Device ID|x73df\n\t'), max_size=400),
    st.sampled_from((JSON, AMD_JSON, AMD_LIST, AMD_TABLE, CONCISE)),
    st.integers(0, 400),
)
def test_garbage_is_read_without_an_error_and_is_no_gpu(noise, text, cut):
    for spoiled in (noise, noise + text[cut:], text[:cut] + noise):
        found = parse_smi(spoiled)
        assert SmiGpu() not in found
        assert {gpu.gfx for gpu in found} <= {gpu.gfx for gpu in parse_smi(text)} | {None}


@pytest.mark.parametrize(("tool", "text", "gfx"), [("rocm-smi", JSON, "gfx1031"), ("amd-smi", AMD_TABLE, "gfx942")])
def test_a_recording_with_only_the_tools_output_has_its_gpu(tmp_path, tool, text, gfx):
    host = Host(tmp_path)
    host.file("/etc/os-release", "ID=ubuntu\n")
    gpus = host.command(tool, text).check()["machine"]["gpus"]
    assert [(gpu["vendor"], gpu["arch"]["value"]) for gpu in gpus] == [("amd", gfx)]


def test_the_bus_takes_precedence_over_the_tools(tmp_path):
    host = Host(tmp_path).ubuntu().command("rocm-smi", JSON)
    host.amd_gpu("744c", 110000)
    gpus = host.check()["machine"]["gpus"]
    assert [gpu["bdf"] for gpu in gpus] == ["0000:03:00.0"]


def test_rocminfo_tells_the_memory_of_a_gpu():
    text = """*******
Agent 1
*******
  Name:                    gfx1100
  Marketing Name:          AMD Radeon RX 7900 XTX
  Device Type:             GPU
  Chip ID:                 29772(0x744c)
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    25149440(0x17fc000) KB
    Pool 2
      Segment:                 GROUP
      Size:                    64(0x40) KB
"""
    api = parse_rocminfo(text)
    assert api is not None
    assert [agent.memory for agent in api.agents] == [25149440 << 10]
