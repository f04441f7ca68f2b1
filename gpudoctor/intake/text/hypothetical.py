"""Sentences about messages that others may see, as manuals and the notes of a release hold them; or that are past."""

from __future__ import annotations

from gpudoctor.late_regex import late

_IN_A_MANUAL = late(
    r"(?i)\b(?:if|in case|whenever) (?:you|your \w+) (?:\w+ )?(?:see|sees|get|gets|run into|encounter|hit|find)\b"
    r"|\bif (?:nvidia-smi|it|this|the \w+) (?:prints|shows|says|reports)\b"
    r"|\bif (?:the|a|your) (?:system|machine|host|computer) (?:does not|doesn't|has no|lacks)\b"
    r"|\bshould (?:print|emit|show|raise|give|display) (?:an? )?(?:\w+ )?(?:warning|error|message|hint)\b"
    r"|\byou (?:may|might|will|would) (?:also |then )?(?:see|get|run into|encounter)\b"
    r"|\b(?:driver|module|gpu|it) (?:may|might) (?:then |also )?(?:stop working|fail|break|not work)\b"
    r"|\b(?:would|will|to) (?:prevent|avoid|suppress|silence)\b[^.;!?]{0,20}[\"'`:]"
    r"|\byour (?:\w+ ){0,2}(?:error|issue|problem|crash|failure)s? (?:might|may|could|can|seems?|looks?"
    r"|is (?:likely|probably))\b"
    r"|\bwill (?:most )?likely (?:throw|fail|raise|print|show)\b|\bmeans that you (?:must|have|need)\b"
    r"|\bit would (?:also )?be (?:preferable|better|nice|great|good|helpful|useful)\b"
    r"|\bthe symptom is\b|\b(?:carr(?:y|ies)|ha(?:s|ve)) known\b|\b(?:source|cause) of \S+_ERROR_"
    r"|\b(?:many|most|some|several) (?:users|people|developers|owners)\b[^.;:!?]{0,60}\b(?:see|get|meet|face|hit"
    r"|encounter|report|run into|experience)"
    r"|(?-i:^\W{0,3}If\b(?![^.!?]*\bour\b)(?!.*\b(?:I|my|we)\b).*\byour?\b)"
    r"|(?:\u5f88\u591a|\u8bb8\u591a|\u4e0d\u5c11|\u90e8\u5206|\u4e00\u4e9b)(?:\u5f00\u53d1\u8005|\u7528\u6237|\u540c\u5b66|\u4eba)"
    r"|^\s*[-*+] (?:fix|fixed|feat|docs?)\b:? (?!me\b)|\(#\d{2,6}\)\s*$|\bpytest\.raises\("
    r"|\b(?:my|a|our) (?:colleague|friend|co-?worker|brother|customer|student)\b[^.;!?]{0,12} had\b"
    r"(?!.*\b(?-i:and (?:I|me|we)|I (?:get|have|see)|[Ss]o do I|now|but|my)\b)"
    r"|\bwithout (?:it|that|this|the \w+),? you (?:get|see|hit)\b"
    r"|(?-i:^(?!.*\b(?:I|[Mm]y|[Ww]e|[Oo]ur)\b))"
    r".*\bif you (?:run|use|install|update|upgrade|start|set|build|enable|boot)\b"
    r"[^.!?]{0,80}\bwill (?:say|print|show|report)\b"
    r"|\b(?:users|owners|people|cards)\b[^.;:!?]{0,24} (?:no longer|will not|won't|never) (?:see|get|hit)\b"
    r"[^.!?]{0,30}[\"'`\u201c]"
    r"|\b(?:fix(?:es|ed)|resolve[sd]|prevents|avoids) (?:an? |the )?(?:\w+ ){0,2}[\"'`\u201c](?!.*\b(?i:but|still)\b)"
    r"|(?-i:^(?!.*\b(?:I|[Mm]y|[Ww]e|[Oo]ur)\b))"
    r".*\b(?:docs?|documentation|faq|readme|wiki|manual|guide|article) (?:says?|states?|claims?|mentions?|lists?)\b"
    r"[^.!?]{0,60}[\"'`\u201c]"
    r"|(?-i:^(?!.*\b(?:I (?:get|got|see|saw|have|had)|[Mm]y|but|still)\b))"
    r".*\b(?:I(?:'ve| have)? (?:heard|read) (?:that|about|of)|people (?:say|report|claim)|reportedly)\b"
    r"|^\W*(?:diagnosing|debugging|troubleshooting|approaches to|understanding|avoiding|guide to|tips (?:for|on))\b"
    r"(?!.*(?:\b(?-i:I|[Mm]y|[Ww]e|[Oo]ur)\b|error|[:\"'`]))"
)

"""The Chinese words: many, some developers, users, people."""
_NOW_SOLVED = late(
    r"(?i)\b(?:got|had|saw|was getting|used to (?:get|see))\b[^;!?]{0,160}\b(?:now (?:it.s |it is |all )?"
    r"(?:solved|fixed|resolved|gone)|(?:solved|fixed|resolved) now)\b"
)
_LONG_AGO = late(
    r"(?i)\bused to (?!work|run|be (?:fine|ok)|use\b)|\b(?:months?|years?) ago\b|\bin the (?:past|old days)\b"
    r"|\bback then\b|\bformerly\b|(?<!\bfrom )\blast (?:year|spring|summer|autumn|winter)\b"
)
_LASTS = late(r"(?i)\b(?:since|now|still|today)\b")
"""Words that say that it has lasted since."""


def is_long_ago(sentence: str) -> bool:
    """Whether a sentence is about a time that is over."""
    return _LONG_AGO.search(sentence) is not None and not _LASTS.search(sentence)


def is_hypothetical(text: str) -> bool:
    """Whether a line tells of a message that nobody sees here: "if you see ..., reboot", "I got ..., now solved"."""
    return _IN_A_MANUAL.search(text) is not None or _NOW_SOLVED.search(text) is not None
