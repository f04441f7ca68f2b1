"""The command that started a container, with the GPUs that it lacks."""

from __future__ import annotations

import re

from gpudoctor.finding import Fix, by_hand
from gpudoctor.machine import Vendor

_ONE_COMMAND = r"(?:[^;&|`<>$]|\$\(pwd\)|\$(?!\()){1,400}"
"""A command that runs no other one: a fix repeats it for a person to type."""
_TITLE = "Give the container the GPUs"
AS_OPTIONS: dict[Vendor, str] = {"nvidia": "--gpus all", "amd": "--device /dev/kfd --device /dev/dri"}
"""What gives a container of Docker the GPUs of a vendor."""


def started_again(command: str, vendor: Vendor | None) -> Fix | None:
    """The command of a person, with the GPUs; None where it is not one plain command."""
    if not re.fullmatch(_ONE_COMMAND, command):
        return None
    engine, _, rest = command.partition(" run ")
    if vendor == "amd":
        group = "keep-groups" if engine == "podman" else "$(stat -c %g /dev/kfd)"
        return by_hand(_TITLE, f"{engine} run {AS_OPTIONS[vendor]} --group-add {group} {rest}")
    options = "--device nvidia.com/gpu=all" if engine == "podman" else AS_OPTIONS["nvidia"]
    setup = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
    if engine == "podman":
        setup = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    again = f"If {engine} refuses that, install nvidia-container-toolkit on the host, and run `{setup}`."
    return by_hand(_TITLE, f"{engine} run {options} {rest}\n{again}")
