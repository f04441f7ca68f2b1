"""Whether the user of a text may open the device nodes that it lists: a message tells, or `ls -l /dev/kfd` and `id`
together.

Of these one alone decides nothing: a listing names a group, and `id` says who is in it.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.ranking import decided, decided_with
from gpudoctor.late_regex import late
from gpudoctor.machine import DeviceNode

_ID = late(
    r"\buid=(?P<uid>\d{1,9})(?:\((?P<name>[^()\s]{1,40})\))? gid=[\w().-]{1,60}"
    r"(?: groups=(?P<groups>[^\s,()]{1,20}(?:\([^()]{1,40}\))?(?:,[^\s,()]{1,20}(?:\([^()]{1,40}\))?){0,100}))?"
)
_GROUPS_ASKED = late(r"[$#>%] groups(?: \$?\w{1,40})?$")
_GROUPS = late(r"(?:[\w.-]{1,40} : )?(?P<all>[\w.-]{1,40}(?: [\w.-]{1,40}){0,60})")
_LISTED = late(r"(?P<owner>\S+):(?P<group>\S+) (?P<mode>[rwxsStT-]{9})(?P<more>\+?)")
_READ_WRITE = "rw"
_ROOT = ("root", "0")
_NUMBERS = {"root": 0, "nogroup": 65534, "nobody": 65534}
_REFUSED = "ermission denied"


def read_user(text: str, number: int, facts: Facts) -> None:
    """The user and its groups, as `id` prints them."""
    if "uid=" in text and (found := _ID.search(text)):
        groups = re.findall(r"[\w.-]+", found["groups"] or "")
        facts.say("user", " ".join((found["uid"], found["name"] or "-", *groups)), number, "shell")


def read_groups(asked: str, answer: str, number: int, facts: Facts) -> None:
    """The groups of a user that is not root, as `groups` prints them."""
    if _GROUPS_ASKED.search(asked) and (found := _GROUPS.fullmatch(answer)) and "root" not in answer.split():
        facts.say("user", f"- - {found['all']}", number, "shell")


def as_the_user_finds_it(facts: Facts, node: DeviceNode) -> tuple[DeviceNode, int] | None:
    """The node with what the text tells of it, and the line: its rights, and whether it was opened or refused."""
    user, listed = decided(facts, "user"), decided_with(facts, "node ").get(node.path)
    mode = _LISTED.fullmatch(listed.value) if listed else None
    node = _with_rights(node, mode) if mode else node
    refused = next((line for line in facts.errors if node.path in line.text and _REFUSED in line.text), None)
    if refused is not None:
        return replace(node, opened="EACCES"), refused.number
    if listed is None or mode is None or mode["more"]:  # "+": a list of further users
        return None
    if user is None:
        return replace(node, opened="untried"), listed.line
    uid, name, *groups = user.value.split()
    bits = mode["mode"]
    if mode["owner"] in (name, uid):
        bits = bits[:3]
    elif mode["group"] in groups:
        bits = bits[3:6]
    else:
        bits = bits[6:]
    if uid == "0" and mode["owner"] not in _ROOT:  # root of a rootless container is nobody to the host
        return replace(node, opened="untried"), listed.line
    return replace(node, opened="ok" if uid == "0" or bits.startswith(_READ_WRITE) else "EACCES"), listed.line


def _with_rights(node: DeviceNode, listed: re.Match[str]) -> DeviceNode:
    """The node with the mode and the group that a listing shows."""
    mode = sum(1 << (8 - place) for place, bit in enumerate(listed["mode"]) if bit in "rwxst")
    group = listed["group"]
    if group.isdigit() or group in _NUMBERS:
        return replace(node, mode=mode, gid=int(group) if group.isdigit() else _NUMBERS[group])
    return replace(node, mode=mode, group=group)
