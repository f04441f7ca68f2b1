"""What lets a user open device nodes that are there."""

from __future__ import annotations

from gpudoctor.finding import AddContainerFlags, Fix, JoinGroup, by_hand
from gpudoctor.machine import DeviceNode, Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.device_nodes import owning_group


def access_fixes(situation: Situation, vendor: Vendor, closed: tuple[DeviceNode, ...]) -> tuple[Fix, ...]:
    """What lets the user open these nodes, by their rights and the place."""
    node = closed[0]
    if node.opened == "EPERM":
        text = (
            "A device cgroup forbids it. In a systemd service, allow the devices (`DeviceAllow=char-nvidia rw`, "
            "`DeviceAllow=char-drm rw`, `DeviceAllow=/dev/kfd rw`), or remove PrivateDevices and DevicePolicy."
        )
        return (by_hand("Allow the devices in the service's control group", text, "root"),)
    others_may = node.mode is not None and node.mode & 0o006 == 0o006
    group_may = node.mode is None or node.mode & 0o060 == 0o060
    if others_may or (group_may and node.gid is not None and node.gid in situation.machine.system.user.gids):
        text = (
            "The file mode allows it, so a security module forbids it. In a container under SELinux, run on the host "
            "`sudo setsebool -P container_use_devices 1`, or start the container with `--security-opt "
            "label=disable`. Otherwise read the audit log (`ausearch -m avc`, `dmesg`)."
        )
        return (by_hand("Let the security module allow the device", text, "root"),)
    groups = tuple(dict.fromkeys(n.gid for n in closed if n.gid and n.mode is not None and n.mode & 0o060 == 0o060))
    if situation.in_container and group_may:
        flags = AddContainerFlags(vendor, group_id=owning_group(closed), why=f"the group that owns {node.path}")
        return (Fix(f"Start the container with the group that owns {node.path}", (flags,)),)
    names = {number: name for name, number in situation.machine.system.groups.items()}
    named = tuple(names[group] for group in groups if group in names)
    if not groups and group_may and not situation.in_container:
        named = tuple(dict.fromkeys(n.group for n in closed if n.group))
    if named and len(named) >= len(groups):
        joined = tuple(JoinGroup(name, why=f"it owns {node.path}") for name in named)
        return (Fix(f"Join the group {' and '.join(named)} and log in again", joined),)
    if vendor == "amd" and node.mode is None and node.gid is None and not situation.in_container:
        text = "sudo usermod -aG render,video $USER\nthen log out and in again"
        return (by_hand("Join the groups render and video, which usually own the nodes", text, "root"),)
    if groups:
        text = f"Add this user to the group with the number {groups[0]}, which owns {node.path}, and log in again."
        return (by_hand("Join the group that owns the node", text, "root"),)
    text = (
        "Restore the nodes' usual rights: `options nvidia NVreg_DeviceFileMode=0666` in /etc/modprobe.d, and reboot."
        if vendor == "nvidia"
        else "Give the nodes to the group render by udev rules (/etc/udev/rules.d/70-amdgpu.rules): "
        '`KERNEL=="kfd", GROUP="render", MODE="0660"` and '
        '`SUBSYSTEM=="drm", KERNEL=="renderD*", GROUP="render", MODE="0660"`; then join that group.'
    )
    if situation.in_container:
        text = f"On the host, as the nodes are root's: {text[0].lower()}{text[1:]} Or start the container as root."
    return (by_hand("Open the nodes to users", text, "root"),)
