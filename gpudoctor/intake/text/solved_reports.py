"""Short texts that say that all works now: what they tell of an error is past."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.hypothetical import is_long_ago
from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.late_regex import late
from gpudoctor.machine import Told
from gpudoctor.machine.pasted_text import WORKS_NOW
from gpudoctor.matrix.questions import Matrix

_QUOTED = late(r"\"[^\"\n]{3,300}\"|\u201e[^\u201c\n]{3,300}\u201c|`[^`\n]{3,300}`")
_ELSEWHERE = r"(?! (?:in|inside|under|for|as|from|outside)\b)"
_NONE = r"(?!(?:no|not|none|nothing|never|only|hardly|longer)\b)"
_AS_ROOT = (
    r"(?:[^.!?;\n]{0,20}\b(?:root\b|(?-i:su\b)"
    r"|sudo (?!usermod|adduser|gpasswd|apt|dnf|pacman|zypper|modprobe|systemctl)))"
)
"""What another user can do, and not what mended it."""
_FAULT = r"(?:problem|issue|error|message|warning|crash(?:e)?|hang)s?"
_WORKS = late(
    rf"(?i)\bworks? (?:now|again|perfectly|flawlessly){_ELSEWHERE}"
    rf"|\bnow (?:{_NONE}[\w.+-]+ ){{0,8}}?works?{_ELSEWHERE}"
    r"|(?:\A|[.!\n]|\b(?:update|edit|nvm|never ?mind):)\W{0,3}(?:(?:re)?solved|fixed)(?: (?:it|this|that))?"
    r"(?=\s*[:!.\])]| by\b| with\b| after\b)"
    rf"|\bafter (?!{_AS_ROOT})(?:[^.!?;\n]|\.(?=\S)){{3,120}}?"
    rf"\b(?:it|everything|all|my (?:{_NONE}[\w-]+ ){{0,4}}?{_NONE}[\w-]+) works?{_ELSEWHERE}"
    rf"|\b{_FAULT}(?: (?:of|with|on|in)(?: [\w.-]+){{1,5}}?)? (?:is|are|has|have)(?: now| all)? "
    r"(?:solved|fixed|resolved|gone|disappeared|vanished)\b"
    rf"|\b(?:{_FAULT}|it|they|that) went away\b"
    r"|(?:\b(?:does|do|did|has|have)(?: not|n't)|\bnever) (?:ever )?"
    r"(?:happen|occur|appear|crash|fail|hang|die|freeze|show up|come back)(?:ed|n)? (?:any ?more|again|since)\b"
    r"|\bno longer (?:applicable|relevant|an? (?:issue|problem))\b"
    r"|\bno longer (?:happen|occur|appear|crash|fail|hang|freeze)(?:e?s)?\b"
    r"|\b(?!(?:error|problem|issue|bug|message|crash|it)\b)[\w-]+ (?:is|are) back\b"
    r"(?! (?:(?:to|on) (?:the )?cpu|and|from)\b)"
    r"|\b(?:renders|runs|trains|computes|sees|finds|detects|lists|uses)\b[^.!?;,\n]{0,12}\b(?:gpus?|cards?)\b now\b"
    r"|\ball (?:(?:the|of|my|\d+) ){0,2}layers are (?:now )?offloaded\b"
    r"|\bclosing (?:this|the issue)\b|\b(?:this|it|issue) can be closed\b"
)
_ONLY_WORDS = late(
    r"(?i)\b(?:it|that|this|which|message|warning|error)(?:'s| is| was)? (?:just|only|merely|simply) "
    r"(?:an? |the )?(?:misleading|harmless|cosmetic|spurious|bogus|wrong|false) (?:error |warning )?"
    r"(?:messages?|warnings?|errors?|alarm)\b"
    r"|\bcan (?:safely |just |simply )?"
    r"(?:ignore (?:it|this|that|the (?:error|message|warning))|be (?:safely )?ignored)\b"
)
"""Where a person has found out that only the message is wrong: what was asked before that is answered."""
_OF_THE_PAST = "".join(rf"(?<!\b{word}{{}})" for word in ("had", "did", "was", "were", "could"))
"""Before a denial: what did not work then is no complaint."""
_BUT = late(
    r"(?i)\b(?:cannot|no longer|never|still(?! (?:had|got|saw|was|were)\b)|fails?|crash(?:es)?|hangs?|freez\w+|stuck"
    r"|slow\w*|wrong|garbage|nans?|broken|breaks?|lo(?:st|ses?)|dead|segfaults?|killed|but|however|except|only|unless"
    r"|until|cpu|how|why|what|when|if|sometimes|would|should|please|without|else|unfortunately|aber|nicht|nur|warum|wie"
    r"|re-?boot\w*|restart\w*|suspen\w*|sleep|resum\w*|every|each|while|hours?|minutes?|sudo|root|an?other)\b|\?"
    rf"|{_OF_THE_PAST.format(*[' '] * 5)}\bnot\b|{_OF_THE_PAST.format(*[''] * 5)}n't\b"
)
"""Words of a person who misses something all the same or asks, or whose fault comes and goes."""
_BOOTED_ONCE = late(r"(?i)\b(?:after|with) (?:a|the|one) (?:re-?boot|restart)\b(?!.*\bagain\b)")
_CAUSE = late(r"(?i)\b(?:came from|(?:was|were) (?:due to|caused by|because)|turned out to be)\b.*")
"""What had been amiss, in a sentence that goes on to say that it works."""
_LAST_BUT = late(r"(?i),? ?\bbut\b(?=[^,]*$)")
_PAST = late(r"(?i)\b(?:was|were|had|got|came from|yesterday|before)\b")
_BY_A_DEED = late(r"(?i)(?:solved|fixed) (?:by|with|after)\b")
_NOT = late(r"(?i)\bnot\b|n't\b")
_RUNS = late(
    r"(?i)\bkernel \d\S* (?:runs|supports|drives|works with)\b|\b(?:works?|worked|working|runs?|ran|running)"
    r" (?:fine|well|great|perfectly|flawlessly|ok(?:ay)?|without|(?:on|with) (?:the )?(?:linux )?(?:kernel|linux))\b"
)
"""What a person says of a GPU that computes."""
_ANSWERS = late(
    r"(?i)\b(?:confirm\w*|verified|tested|tried|now|after)\b[^.!?;]{0,120}"
    r"\b(?:works?|worked|runs?|ran|builds?|built|installs?) (?:\w+ )?(?:fine|well|great|perfectly|flawlessly"
    r"|without (?:any |an )?(?:issues?|problems?|errors?|crash(?:es)?))\b"
    r"|\b(?:seems?|appears?|looks?) (?:to (?:be|have been) |like it is )?(?:now )?(?:solved|fixed|resolved|gone)\b"
    r"|\b(?:got|get|getting) (?:it|this|that|everything|mine) (?:working|running|to (?:work|run))\b"
    r"|\b(?:is|.s|seems?(?: to be)?|are) (?:now )?working (?:now|again|fine|on (?:the |my )?gpu)\b"
    r"|\b(?:it|this|that|all|everything).{0,3} works? on (?:the |my )?gpu\b"
    r"|\b(?:cannot|can.?t|could not|couldn.t|unable to|not able to) reproduce\b"
    r"|\b(?:that|this|it) (?:\w+ )?(?:fixed it|solved it|did the trick)\b"
)
"""What a comment says of the fault that the title names, beside what a short text says."""
_TITLE = late(r"\s*# (?!#)")
_LONGEST_ANSWER = 600
_STILL = late(
    r"(?i)\b(?:still|again|same (?:issue|problem|error)|fails?|failed|crash\w*|hangs?|freez\w+|except|wrong|cpu)\b"
)
"""What goes on all the same, in the sentences beside such an answer."""
_SENTENCE = late(r"[^.!?;\n]*(?:\.(?=\S)[^.!?;\n]*)*[.!?;]*")
_SHORT = 500
"""Characters of a text that is about one matter."""


def read_solved(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """Nothing that the text tells of is amiss any more, if it says so and complains of nothing."""
    for line in lines:
        if _RUNS.search(line.text) and not _NOT.search(line.text):
            facts.say("gpu started", line.text, line.number, "prose")
    _read_answer(lines, facts, matrix)
    whole = text_of(line for line in lines if line.text).strip()
    if len(whole) > _SHORT or facts.log:
        return
    text = _QUOTED.sub(" ", whole)
    answered = _ONLY_WORDS.search(text)
    works = answered or _WORKS.search(text)
    # What was done to something that did not work is worth telling: it names the cause.
    if works is None or (_BY_A_DEED.search(works[0] + text[works.end() :][:6]) and _NOT.search(text)):
        return
    asked = text[answered.end() :] if answered else text
    if any(map(_complains, _SENTENCE.findall(asked))) or _fails_after(text[works.end() :], matrix):
        return
    line = next((line for line in lines if works[0].splitlines()[-1] in line.text), lines[0])
    if any(one.what == "available" and one.by != "prose" and one.line >= line.number for one in facts.said):
        return
    facts.errors, facts.unexplained = [], []
    facts.said = [one for one in facts.said if one.what != "available"]
    facts.told = [Told(WORKS_NOW, line.text.strip()[:300], line.number)]


def _read_answer(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """Takes away what only the title complains of, where the comment below it begins with saying that it works."""
    filled = [line for line in lines if line.text.strip()]
    if len(filled) < 2 or not _TITLE.match(filled[0].text):
        return
    title, comment = filled[0], _comment(filled[1:])
    sentences = [one for one in _SENTENCE.findall(_QUOTED.sub(" ", comment)) if one.strip()]
    works = [one for one in sentences if _ANSWERS.search(one) or _WORKS.search(one)]
    if not works or any(
        _complains(one, (_ANSWERS, _WORKS)) if one in works else _STILL.search(one) for one in sentences
    ):
        return
    answer = next((line for line in filled[1:] if works[0].strip()[:60] in line.text), filled[1])
    if matrix.errors.messages_in(text_of(filled[1:])):
        return
    facts.errors = [line for line in facts.errors if line.number != title.number]
    facts.told = [one for one in facts.told if one.line != title.number]
    if not facts.errors and not facts.told:
        facts.told = [Told(WORKS_NOW, answer.text.strip()[:300], answer.number)]


def _comment(lines: list[Line]) -> str:
    """What a person writes before any output that a line announces."""
    words = ""
    for line in lines:
        words += f"{line.text}\n"
        if line.text.endswith(":") or len(words) > _LONGEST_ANSWER:
            break
    return words


def _complains(sentence: str, answers: Iterable[re.Pattern[str]] = (_WORKS,)) -> bool:
    """Whether somebody misses something in a sentence. One that says that it works, or of old times, may have a
    "but" before that."""
    if is_long_ago(sentence):
        return False
    works = next(filter(None, (list(answer.finditer(sentence)) for answer in answers)), [])
    if works:
        before, after = sentence[: works[0].start()], sentence[works[-1].end() :]
        sentence = _LAST_BUT.sub("", _BOOTED_ONCE.sub("", _CAUSE.sub("", before))) + " " + after
    return _BUT.search(sentence) is not None


def _fails_after(rest: str, matrix: Matrix) -> bool:
    """Whether a known message stands behind the words that it works, and nobody says that it is past."""
    return any(matrix.errors.messages_in(one) and not _PAST.search(one) for one in _SENTENCE.findall(rest))
