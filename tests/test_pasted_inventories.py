"""The graphics devices that inxi and hwinfo list, and forms that ask for the vendor only."""

from __future__ import annotations

import pytest

from gpudoctor.machine import Machine
from tests.support.judged_texts import judgement, machine, problems

INXI = """Graphics:
  Device-1: NVIDIA TU117 [GeForce GTX 1650] driver: nvidia v: 580.142
  Display: x11 server: X.org
Audio:
  Device-1: NVIDIA TU116 High Definition Audio driver: snd_hda_intel
"""
WRAPPED = """Graphics:
  Device-1: NVIDIA GP107M [GeForce GTX 1050 Ti Mobile] vendor: Dell
    driver: nouveau v: kernel bus-ID: 01:00.0 chip-ID: 10de:1c8c
  Device-2: AMD Cezanne [Radeon Vega Series / Radeon Mobile Series]
    vendor: ASUSTeK driver: amdgpu v: kernel bus-ID: 05:00.0
"""
OLDER = "Graphics:  Device-1: Advanced Micro Devices [AMD/ATI] Navi 23 [Radeon RX 6600] driver: amdgpu v: 5.6.12\n"
HWINFO = """  Vendor: pci 0x10de "nVidia Corporation"
  Device: pci 0x1c30 "GP106GL [Quadro P2000]"
  Vendor: pci 0x10de "nVidia Corporation"
  Device: pci 0x10f1 "GP106 High Definition Audio Controller"
"""


def gpus(text: str) -> list[tuple[str, str | None, str | None]]:
    found: Machine = machine(text)
    return [(gpu.name, gpu.arch.value, gpu.driver.value) for gpu in found.gpus]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (INXI, [("NVIDIA GeForce GTX 1650", "sm_75", "nvidia")]),
        (OLDER, [("AMD Radeon RX 6600", "gfx1032", "amdgpu")]),
        (HWINFO, [("NVIDIA Quadro P2000", "sm_61", "nvidia")]),
    ],
)
def test_graphics_devices(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert gpus(text) == expected


def test_lines_that_inxi_wraps() -> None:
    assert next((arch, driver) for _, arch, driver in gpus(WRAPPED)) == ("sm_61", "nouveau")
    assert [gpu.bdf for gpu in machine(WRAPPED).gpus] == ["0000:01:00.0", "0000:05:00.0"]
    alone = WRAPPED.partition("  Device-2")[0]
    assert problems(alone) == ["nouveau-conflict"]


def test_the_driver_that_inxi_names() -> None:
    module = machine(INXI).nvidia.module.value
    assert module is not None
    assert module.version == "580.142"


def test_devices_of_another_section_are_no_gpus() -> None:
    assert gpus(INXI.partition("Audio:\n")[2]) == []
    assert gpus('  Vendor: pci 0x8086 "Intel"\n  Device: pci 0x1c30 "Graphics"\n') == []


@pytest.mark.parametrize("listed", [HWINFO, INXI, "I have a GeForce GTX 1080.\n"])
def test_a_form_that_asks_for_the_vendor_hides_no_gpu(listed: str) -> None:
    form = "### GPU\n\nNvidia\n"
    assert gpus(f"{listed}\n{form}") == gpus(listed)
    assert [name for name, _, _ in gpus(form)] == ["Nvidia"]


def test_of_two_gpus_in_the_xml_of_nvidia_smi_the_lost_one_is_named() -> None:
    text = (
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n<driver_version>580.65.06</driver_version>\n'
        "<cuda_version>13.0</cuda_version>\n<attached_gpus>2</attached_gpus>\n"
        '<gpu id="00000000:0A:00.0">\n<product_name>NVIDIA B200</product_name>\n'
        "<fb_memory_usage>\n<total>183359 MiB</total>\n<used>0 MiB</used>\n</fb_memory_usage>\n</gpu>\n"
        '<gpu id="00000000:0B:00.0">\n<product_name>NVIDIA B200</product_name>\n'
        "<fb_memory_usage>\n<total>GPU is lost</total>\n<used>GPU is lost</used>\n</fb_memory_usage>\n</gpu>\n"
        "</nvidia_smi_log>\n"
    )
    (lost,) = [one for one in judgement(text).findings if one.slug == "gpu-off-bus"]
    assert [device.bdf for device in lost.devices or (lost.device,) if device] == ["0000:0b:00.0"]


def test_a_line_with_a_key_of_its_own_is_not_the_value_of_the_heading_above() -> None:
    for text in (
        "**Hardware:**\n- GPU: NVIDIA GeForce RTX 5080\n- Driver: 580.97\n",
        "### GPU\n\nNVIDIA GeForce RTX 5080\n",
    ):
        assert [(name, arch) for name, arch, _ in gpus(text)] == [("NVIDIA GeForce RTX 5080", "sm_120")]


@pytest.mark.parametrize(
    ("name", "arch"), [("RTX-5090D", "sm_120"), ("GTX-1080 Ti", "sm_61"), ("RX-7900-XTX", "gfx1100")]
)
def test_a_hyphen_in_the_name_of_a_gpu(name: str, arch: str) -> None:
    assert [(found, of) for found, of, _ in gpus(f"llama-box stops on my {name}.\n")] == [(name, arch)]


def test_a_profile_of_apparmor_is_no_gpu_of_nvidia() -> None:
    profile = (
        '[    5.104927] audit: type=1400 audit(1580428483.072:4): apparmor="STATUS" operation="profile_load" '
        'profile="unconfined" name="nvidia_modprobe" pid=1379 comm="apparmor_parser"\n'
    )
    hung = "[   20.104927] amdgpu 0000:03:00.0: amdgpu: MES might be in unrecoverable state, issue a GPU reset\n"
    assert gpus(profile) == []
    assert problems(profile + hung) == ["amd-gpu-hang"]


def test_the_product_name_of_a_network_adapter_says_nothing_of_the_machines_secure_boot() -> None:
    listed = (
        "1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
        "1c:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
        "\tCapabilities: [48] Vital Product Data\n"
        "\t\tProduct Name: NVIDIA ConnectX-7 HHHL Adapter card, 400GbE / NDR IB, PCIe 5.0 x16, Crypto Disabled, "
        "Secure Boot Enabled\n"
        "\t\tRead-only fields:\n\t\t\t[PN] Part number: MCX75310AAS-NEAT\n"
    )
    assert problems(listed) == []
    assert problems(f"{listed}\nWith secure boot enabled the nvidia module does not load.\n") == [
        "secure-boot-module-rejected"
    ]


def test_the_packages_that_pacman_searches_tell_the_driver() -> None:
    packages = "local/nvidia-open-dkms 590.48.01-4\n    NVIDIA open kernel modules\nlocal/nvidia-utils 590.48.01-2\n"
    assert problems(f"NVIDIA GeForce GTX 1050 Ti\n{packages}") == ["nvidia-driver-dropped-gpu"]
    assert problems(f"NVIDIA GeForce RTX 4060\n{packages}") == []


def test_lsmod_that_lists_nouveau_in_use_and_not_nvidia() -> None:
    lists = "nouveau              3096576  12\ndrm_ttm_helper         16384  1 nouveau\n"
    card = "01:00.0 VGA compatible controller: NVIDIA Corporation AD104 [GeForce RTX 4070] (rev a1)\n"
    report = "torch 2.7.1+cu126\ntorch.cuda.is_available() returns False\n"
    assert problems(f"{card}{lists}{report}") == ["nouveau-conflict"]
    assert problems(f"{lists}nvidia-smi: command not found\nRTX 4070, Fedora 42\n") == ["nouveau-conflict"]
    assert "nouveau-conflict" not in problems(f"{card}{lists}nvidia 9000000 30 nvidia_uvm\n{report}")
    assert "nouveau-conflict" not in problems(f"RX 7900 XTX\n{lists}{report}")
    assert problems(f"{card}{lists}torch 2.7.1+cu126\ntorch.cuda.is_available() returns True\n") == []
