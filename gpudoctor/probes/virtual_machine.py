"""Which hypervisor this system runs under, if any."""

from __future__ import annotations

from gpudoctor.host import Host
from gpudoctor.machine import Fact, absent, known, unknown

_DMI = "/sys/class/dmi/id"
_DMI_FIELDS = ("sys_vendor", "product_name", "board_vendor", "bios_vendor", "bios_version")
_AZURE_CHASSIS = "7783-7084-3265-9085-8269-3286-77"

# Firmware texts that only a virtual machine has. A text between spaces stands for a whole word.
_VIRTUAL = (
    (("VMware", "VMW"), "vmware"),
    (("Microsoft Corporation|Virtual Machine", "Hyper-V"), "hyper-v"),
    (("innotek", "VirtualBox"), "virtualbox"),
    (("Parallels",), "parallels"),
    (("HVM domU", " Xen "), "xen"),
    (("OpenStack",), "openstack"),
    (("Google Compute Engine",), "gce"),
    (("Firecracker", "firecracker"), "firecracker"),
    (("Cloud Hypervisor",), "cloud-hypervisor"),
    (("Nutanix AHV", " AHV "), "nutanix"),
    (("BHYVE",), "bhyve"),
    (("Apple Virtualization",), "apple"),
    (("QEMU", "Bochs", " KVM ", "KubeVirt", "RHEV", "oVirt", "Standard PC"), "kvm"),
)
# Texts of clouds that also rent out whole machines.
_CLOUDS = (
    (("Amazon EC2",), "aws"),
    (("Alibaba Cloud",), "alibaba"),
    (("Tencent Cloud",), "tencent"),
    (("Google",), "gce"),
    (("OracleCloud",), "oracle"),
    (("DigitalOcean",), "digitalocean"),
    (("Hetzner",), "hetzner"),
    (("Vultr",), "vultr"),
    (("Linode", "Akamai"), "linode"),
    (("Scaleway",), "scaleway"),
    (("UpCloud",), "upcloud"),
    (("Exoscale",), "exoscale"),
)
_TELLS_METAL = ("aws",)
"""Clouds whose product names say which machines are whole ("m5.metal"): a hidden flag of the processor is no sign."""
_DEVICE_TREE_HYPERVISORS = (("xen", "xen"), ("vmware", "vmware"), ("kvm", "kvm"), ("dummy-virt", "kvm"))


def probe_virtual_machine(host: Host, flags: Fact[tuple[str, ...]], wsl: Fact[str]) -> Fact[str]:
    """kvm, vmware, hyper-v, xen, aws, azure, gce ...; absent on bare metal. The firmware's texts name the
    hypervisor, also where it hides the processor's flag; of clouds that rent out whole machines the flag decides."""
    if wsl.known:
        return known("hyper-v", wsl.source)
    x86 = "fpu" in (flags.value or ())
    flagged = "hypervisor" in (flags.value or ())
    if "control_d" in (host.text("/proc/xen/capabilities", 4096).value or ""):
        return absent("/proc/xen/capabilities", "Xen's first domain owns the hardware")
    firmware = "|".join(filter(None, (host.text(f"{_DMI}/{name}", 4096).value for name in _DMI_FIELDS)))
    if kind := named_hypervisor(firmware):
        azure = kind == "hyper-v" and host.text(f"{_DMI}/chassis_asset_tag", 4096).value == _AZURE_CHASSIS
        return known("azure" if azure else kind, _DMI)
    cloud = next((kind for texts, kind in _CLOUDS if any(text in firmware for text in texts)), None)
    by_name = not x86 or cloud in _TELLS_METAL
    whole_machine = "metal" in firmware.lower() if by_name else not flagged
    if cloud is not None and not whole_machine:
        return known(cloud, _DMI)
    other = _without_firmware(host, firmware)
    if other is not None:
        return other
    if flagged:
        return known("unknown hypervisor", flags.source)
    if firmware or (x86 and host.live):  # old kernels did not show the flag
        return absent(flags.source if x86 else _DMI, "no sign of a hypervisor")
    return unknown(flags.why or "neither firmware texts nor a device tree", _DMI)


def named_hypervisor(firmware: str) -> str | None:
    """The hypervisor that the texts of the firmware name, if only a virtual machine has them."""
    words = f" {firmware.replace('|', ' ')} "
    return next((kind for texts, kind in _VIRTUAL if any(text in firmware or text in words for text in texts)), None)


def _without_firmware(host: Host, firmware: str) -> Fact[str] | None:
    """What the kernel's own trees say if the firmware says nothing."""
    kind = host.text("/sys/hypervisor/type", 4096).value
    if kind:
        return known(kind, "/sys/hypervisor/type")
    for path in ("/proc/device-tree/hypervisor/compatible", "/proc/device-tree/compatible"):
        text = host.text(path, 4096).value or ""
        for part, name in _DEVICE_TREE_HYPERVISORS:
            if part in text:
                return known(name, path)
    if firmware:
        return None
    # The maker's mark in the header of an ACPI table; only root may read it.
    if (host.data("/sys/firmware/acpi/tables/DSDT", 36).value or b"")[10:16] == b"FIRECK":
        return known("firecracker", "/sys/firmware/acpi/tables/DSDT")
    if "firecracker" in (host.text("/proc/cmdline", 1 << 16).value or "").lower():
        return known("firecracker", "/proc/cmdline")
    return None
