"""The vendors' installed drivers, as package managers, dkms, modinfo and listings of a library tell them."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late

_VERSION = r"(?P<version>\d{3}\.\d{2,3}(?:\.\d{1,2})?)"
_PACKAGES = (
    late(  # dpkg -l
        r"ii\s+(?P<name>nvidia-(?:driver|dkms|kernel-source|kernel-dkms|kernel-open-dkms|compute-utils)\S*"
        rf"|libnvidia-compute\S*|libcuda1\S*)\s+{_VERSION}-"
    ),
    late(rf"(?P<name>nvidia-driver-\d{{3}}\S*)/\S+ {_VERSION}-\S+ \S+ \[installed"),  # apt list
    late(  # rpm -qa, dnf list
        r"(?P<name>akmod-nvidia\S*?|kmod-nvidia\S*?|xorg-x11-drv-nvidia(?:-cuda)?|nvidia-driver(?:-cuda|-libs)?|nvidia-open)"
        rf"(?:\.x86_64\s+|-)(?:\d:)?{_VERSION}-\d"
    ),
    late(
        rf"i\+?\s+\|\s+(?P<name>nvidia-(?:open-)?(?:driver|compute)\S*)\s+\|.{{1,40}}?\|\s+{_VERSION}[-_]"
    ),  # zypper
    late(
        rf"(?:local/)?(?P<name>nvidia(?:-open)?(?:-dkms|-lts|-utils)?) {_VERSION}-\d{{1,3}}(?:\.\d{{1,3}})?$"
    ),  # pacman -Q
    late(rf"(?P<name>nvidia(?:-open|-srv|-current)?)[/,] ?{_VERSION}, .{{3,80}}: (?:installed|built)"),  # dkms
)
_POLICY = late(r"nvidia-driver-\d{3}\S*:$")
_INSTALLED = late(rf"\s{{1,4}}Installed: {_VERSION}-")
"""The two lines of `apt policy`."""
_ASKED = late(
    r"modinfo -F ?version nvidia$|cat /sys/module/nvidia/version$|--query-gpu=driver_version(?! ?,)(?:\s|$)"
)
_ANSWER = late(rf"{_VERSION}$")
"""Commands that answer with the version alone."""
_LIBRARY = late(rf"(?:^|(?<!compat)/|[\s\"'(=])libcuda\.so\.{_VERSION}(?![\w.]*\w)")
"""The driver's own library; that of cuda-compat is none of the driver's."""
_MODULE = late(r"filename:\s+\S+/nvidia(?:-current)?\.ko")
_OF_MODULE = late(rf"(?P<key>version|license):\s+(?:{_VERSION}$|(?P<license>.+))")
_MOST_OF_MODULE = 40
_OPEN_MODULES = late(
    r"(?i)\bnvidia-(?:[\w-]+-)?open\b|\bopen(?:[- ]source)? (?:gpu |nvidia )?(?:kernel )?(?:modules?|drivers?)\b"
)
"""Whoever names them has thought of them."""
_AMDS_OWN = late(r"ROCk module version \d|\bamdgpu-(?:dkms|install|pro)\b|/(?:updates|extra)/(?:dkms/)?amdgpu\.ko")
"""What only AMD's own kernel driver prints, or names it: the kernel's module has no version."""

_FIRMWARE = late(
    r"\W{0,6}(?:ii\s+|i\+? +\| )?(?:linux-firmware(?:-amd(?:gpu|-graphics))?|amd-gpu-firmware|kernel-firmware-amdgpu"
    r"|firmware-amd-graphics)(?:[\s:|*=-]{1,60}|\.noarch\s+)(?P<version>20\d{6}(?![\d\s]*->)[\w.~+-]{0,60})"
)
"""The package of AMD's firmware, as lists of packages have it."""


def read_drivers(lines: Iterable[Line], facts: Facts) -> None:
    """NVIDIA's driver, and whether its kernel module is the open one; that a text names AMD's own, and the release of
    AMD's firmware."""
    version, since, asked_for, asked = "", 0, 0, 0
    for number, text in lines:
        if since and number - since <= _MOST_OF_MODULE and (told := _OF_MODULE.match(text)):
            version = told["version"] or version
            if told["version"]:
                facts.say("driver", version, number, "list")
            elif told["key"] == "license" and version:
                flavour = "open" if "MIT" in told["license"] else "proprietary"
                facts.say(f"flavour {version}", flavour, number, "list")
        if number == asked + 1 and text == "driver_version":
            asked = number
        elif number == asked + 1 and (answer := _ANSWER.match(text)):
            facts.say("driver", answer["version"], number, "tool")
        if number == asked_for + 1 and (installed := _INSTALLED.match(text)):
            facts.say("driver", installed["version"], number, "list")
        if "firmware" in text and (firmware := _FIRMWARE.match(text)):
            facts.say("amd firmware", firmware["version"], number, "list")
        if ("amdgpu" in text or "ROCk" in text) and _AMDS_OWN.search(text):
            facts.say("amd's driver", text, number, "prose")
        if "pen" in text and _OPEN_MODULES.search(text):
            facts.say("open modules", text, number, "prose")
        if "version" in text and _ASKED.search(text):
            asked = number
        if "nvidia" in text:
            asked_for = number if _POLICY.match(text) else asked_for
            if _MODULE.match(text):
                version, since = "", number
            elif found := next((match for package in _PACKAGES if (match := package.match(text.lstrip()))), None):
                facts.say("driver", found["version"], number, "list")
                if "-open" in found["name"]:
                    facts.say(f"flavour {found['version']}", "open", number, "list")
        if "libcuda.so." in text and (library := _LIBRARY.search(text)):
            facts.say("driver", library["version"], number, "prose")
