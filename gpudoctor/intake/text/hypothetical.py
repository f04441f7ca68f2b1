"""Sentences about messages that others may see, as manuals and the notes of a release hold them."""

from __future__ import annotations

import re

_IN_A_MANUAL = re.compile(
    r"(?i)\b(?:if|in case|whenever) (?:you|your \w+) (?:\w+ )?(?:see|sees|get|gets|run into|encounter|hit|find)\b"
    r"|\bif (?:nvidia-smi|it|this|the \w+) (?:prints|shows|says|reports)\b"
    r"|\byou (?:may|might|will|would) (?:also |then )?(?:see|get|run into|encounter)\b"
    r"|\bwill (?:most )?likely (?:throw|fail|raise|print|show)\b|\bmeans that you (?:must|have|need)\b"
    r"|\bthe symptom is\b|\b(?:carr(?:y|ies)|ha(?:s|ve)) known\b|\b(?:source|cause) of \S+_ERROR_"
    r"|^\s*[-*+] (?:fix|fixed|feat|docs?)\b:? (?!me\b)|\(#\d{2,6}\)\s*$|\bpytest\.raises\("
)


def is_hypothetical(text: str) -> bool:
    """Whether a line tells of a message that nobody saw here: "if you see ..., reboot"."""
    return _IN_A_MANUAL.search(text) is not None
