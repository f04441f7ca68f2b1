"""What a person tells around a fault in words of their own: "since it woke up", "only as root"."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from itertools import islice

from msgspec import Struct

from gpudoctor.intake.text.concepts import AS_A_QUESTION, Concepts, something_else, without_clauses
from gpudoctor.intake.text.errors import is_harmless
from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.hypothetical import is_hypothetical, is_long_ago
from gpudoctor.intake.text.languages import in_plain_words
from gpudoctor.intake.text.lines import Line, is_of_a_journal, joined, text_of
from gpudoctor.intake.text.testimony import WISHES
from gpudoctor.late_regex import late
from gpudoctor.line_search import lines_with
from gpudoctor.machine import Told
from gpudoctor.matrix.errors import own_words_behind
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows.issues import ToldCircumstance

_ABOUT_GPUS = late(
    r"\b(?:[ei]?gpus?|cuda|nvidia(?:-smi)?|nvml|rocm|rocminfo|hip|graphics? cards?|amdgpu|rock-dkms"
    r"|nouveau|geforce|radeon"
    r"|[rg]tx|(?:py)?torch|ollama|comfyui|to (?:the )?cpu)\b"
    r"|onnxruntime|cublas|cudnn|cudart|tensorrt|nvinfer|libnvidia-|libcuda\b|\bdevice[- ]plugin\b",
    re.ASCII,
)
_COMPLAINS = late(
    r"n't\b|\b(?:not|no longer|cannot|never|fail\w*|stop(?:s|ped)|los(?:e|es|t|ing)|errors?|br(?:ea|o)k\w*"
    r"|without|unlicen[sc]ed|expired?|forgets|drops"
    r"|falls? ?back|fell back|cpu|issues?|problems?|bug|crash\w*|unable|unavailable|unreachable"
    r"|missing|gone|dead|disappear\w*|vanish\w*|nothing|no (?:\w+ )?(?:gpus?|devices?)|unknown|hangs?|stuck"
    r"|only|false"
    r"|(?:have to|must) (?:reboot|restart))\b",
    re.ASCII,
)
_NO_COMPLAINT = late(
    r"\b(?:without|no|any) (?:any |further |more )?(?:problems?|issues?|errors?|trouble|bugs?)\b"
    r"|(?:\bnot|n't) (?:see|know|understand|find out|remember) (?:how|why|what|where|when|if|whether)\b"
)
_TRIED = late(
    r"\b(?:i|we)(?:.ve| have)? (?:tried|installed|set|ran|updated|enabled)\b[^;!?]{0,240}"
    r"\bbut (?:it |that )?(?:is )?still\b",
    re.ASCII,
)
"""But what has it already, and does not serve, is amiss."""
_NEGATED = late(r"(?:\b(?:not|nothing|never|none|no|no longer)\b|n't\b)[^.:;,!?\n]{0,10}$", re.ASCII)
"""What stands before a fault that is not there."""
_CONDITION = late(
    r"\b(?:even (?:when|if|though)|if|whether|in case|unless) (?:(?:an?|the|no|any|my|your) )?$"
    r"|\bwhether (?:it|i|we|they|one|to) (?:(?:should|must|can|may) )?$",
    re.ASCII,
)
"""What stands before something that is only supposed."""
_ADVICE = late(r"^\W*if\b(?=.*\byour?\b)(?!.*\b(?:i|my|me)\b)", re.ASCII)
_WITHOUT_GPU = late(
    r"^(?!.*\b(?:i|my|we|our)\b).*\b(?:if|when|unless|in case)\b (?:\w+ ){0,5}?"
    r"(?:(?:not?|n't) (?:\w+ ){0,4}?(?:available|present|detected|found|supported|installed|compiled)"
    r"|throws an? (?:exception|error)|does not see the gpu)\b",
    re.ASCII,
)
"""What a program does where there is no GPU."""
_BY_OTHERS = late(
    r"\b(?:docs?|documentation|manual|readme|wiki|paper|article) (?:explain|describe|mention)s?\b", re.ASCII
)
_CLAUSE_END = late(r"(?<!\bago)(?<!\bpast)(?<!\bthen)(?<!\bdays)(?<!\byear), |\b(?:and|but|yet)\b", re.ASCII)
"""Another time, and another speaker, may begin here; "years ago, it failed" is one clause."""
_NOTHING_AMISS = r"(?![^?]{0,200}(?:\b(?:no(?= (?:longer|more)\b)|not|never|fails?|only|on (?:the )?cpu|my)\b|n't\b))"
"""Behind a "why" that asks for no fault."""
_GENERAL_QUESTION = late(
    r", (?:is|are|does|do|will|can)(?:n't)? (?:it|that|this|they)"
    r"(?: (?:planned|possible|supported|right|true|correct))?\?$"
    rf"|(?:^\W*|: )(?:is|are|does|do|can|could|will|would|should|which|what)\b{AS_A_QUESTION}"
    r"(?!.*\b(?:my|me|we|our|us|(?<!can )(?<!could )(?<!should )i)\b)[^?]*\?$"
    rf"|\bwhy\b{_NOTHING_AMISS}(?: (?:is|was|are|were))?(?: there)? no (?:\w+ ){{0,2}}(?:support|builds?|wheels?"
    r"|versions?)\b[^?]{0,200}\?$"
    rf"|\bwhy\b{_NOTHING_AMISS}[^?]{{0,200}}\b(?:was|were|is|are|got) (?:dropped|removed|discontinued|deprecated)\b"
    r"|\b(?:there(?: is|.s)|is there) (?:no|an?|any|some) (?:\w+ )?(?:way|option|possibility|mode|version)\b"
    r"(?!.*\b(?:my|our)\b)[^?]*\?$"
    r"|^\W*(?:any(?:one|body)?|has|have|did)\b(?! else)(?!.*\b(?:my|me|we|our|us|i)\b)[^?]*\?$"
    r"|\bi (?:suppose|guess|assume)\?$|^(?!.*\b(?:my|i|me|we)\b).*\bby default\b[^?]*\?$"
    r"|^(?=.*\bby default\b)(?!.*\b(?:my|i|me|we|but|although|even|despite|since|after|now|suddenly|again)\b)"
    r".*\bruns? on (?:the )?cpu\b",
    re.ASCII,
)
"""A sentence of somebody who wants to know how things are, and misses nothing."""
_IN_ORDER = late(
    r"\b(?:as|is|are) (?:expected|intended|designed|configured)\b|\bas it should\b|\bas (?:i|we) want\b"
    r"|\b(?:on purpose|intentional(?:ly)?|deliberately|by (?:design|choice)|as planned|of course)\b"
    r"|\b(?:since|because|while|as) (?:the |my )?(?:machine|laptop|pc|computer|it) (?:sleeps|is asleep)\b"
    r"|\b(?:is|are|'s) (?:no|not an?) (?:problem|issue)s? (?:that|for|to)\b(?!.*\b(?:but|yet|only)\b)"
    r"|, so (?:i|we) (?:stay|stick|keep|remain)\w*\b(?! (?:[\w ]+ )?(?:the )?cpu)"
    r"|\bwould(?: not|n't) work\b[^.;!?]{0,40}, so (?:it|i|we) (?:takes?|uses?|keeps?)\b(?! (?:the )?cpu)"
    r"|\buntil (?:i|we) (?:installed|updated|added|set|fixed|changed|removed)\b"
    r"|(?:^\W*|\band |\bso )(?:all|everything) (?:works|runs|is (?:fine|well))\b"
    r"|\bwhich (?:is|was) (?:(?:just|exactly) )?(?:fine|ok(?:ay)?|what (?:i|we) (?:want|need)(?:ed)?)\b"
    r"|\bbut (?:now|since then|(?:after|since|with) (?:a|the|one) (?:re-?boot|restart|update|upgrade)) (?:it|they) "
    r"(?:is|are|do|does|works?)(?: (?:fine|again))?\W*$"
    r"|\band (?:it )?(?:works|runs)(?: (?:fine|well))?(?: on (?:the|my) gpu)?\W*$"
    r"|\bbut (?:it|i|we|mine|ours|that) (?:do|does|did|can|works?|runs?)(?: it)?(?: (?:fine|well|daily|every day))?"
    r"\W*$",
    re.ASCII,
)
"""What a person says of something that is no fault, in the same sentence."""
_SENTENCE_END = late(r"(?<!\.)[.;!?](?=\s|$)")
_BETWEEN = late(r"(?<=[.;!?])(?<!\.\.)\s+")
_HELPED = late(
    r"\b(?:(?<!bug )fix(?:es|ed)|(?:the|a|my|this) fix\b|fix(?=:)|solv(?:es|ed)|resolv(?:es|ed)|help(?:s|ed)|worked"
    r"|works? (?:again|now|for me)|(?:seem|appear)(?:s|ed)? to (?:have )?(?:fix|solve|resolve|help)(?:e?d)?"
    r"|\b(?:when|if|once) (?:i|we) [^.;!?\n]{1,40}(?:, ?it|,? (?:all|everything)) works\b"
    r"|(?:did|does) the trick|workaround|restor(?:es|ed)"
    r"|got (?:it|this|that|things|everything) (?:working|to work|running))\b|可以了",
    re.ASCII,
)
"""What is said of a remedy."""
_NEEDED = late(r"\b(?<!you )(?:(?:had|have|has|needed) to|must)\b", re.ASCII)
"""The same, of a remedy in the same sentence, or of the commands below it."""
_NEEDS = late(r"\b(?<!you )needs? to\b", re.ASCII)
"""The same, if the text tells of something that is amiss; else somebody only plans it."""
_COMMAND = late(
    r"\s*(?:[$#] )?(?:sudo|apt(?:-get)?|dnf|yum|zypper|pacman|yay|pip3?|export|unset|modprobe|rmmod|docker|podman)\b"
)
_PROPOSED = late(
    r"\bplease\b|\b(?:did|have|do) you\b|\bhow (?:do|to|can|should)\b|\bshould (?:i|we)\b|\bwait(?:ing)? for\b"
    r"|\b(?:plan(?:ning)?|want|like|going) to\b|\b(?:i|we) may (?:use|set|try)\b|\bin case\b",
    re.ASCII,
)
"""Beside what nobody has done yet."""
_FINE = late(r"\bworks? fine\b|\b(?:everything|all|it) (?:went|was|is) (?:fine|ok(?:ay)?|well)\b", re.ASCII)
"""The same, if the text tells of something that was amiss before."""
_VARIABLE_SET = late(r"Set (?P<name>[A-Z][A-Z0-9_]{5,40})=")
"""A remedy that begins with a variable."""
_NO_HELP = late(
    r"(?:=\S{1,20})?[^\n]{0,40}?(?:\b(?:did|do|does)(?: not|n't) (?:\w+ )?(?:work|help|change|fix|solve|make)"
    r"|\b(?:no|without) (?:effect|luck|difference|change|success|avail)\b|\bin vain\b)"
)
"""What stands behind a variable that was tried in vain."""
_DENIED = late(r"(?:\bnot|n't|\bnothing|\bnever|\bnone|\bno|\bwithout|\bdespite)\b[^.;!?]{0,25}$", re.ASCII)
_ASKED = late(r"[^.:;!?\n]{0,200}\?")
"""The rest of a question: who asks for a remedy does not tell that it helped."""
_MARKS = str.maketrans("", "", "*`")
"""Of Markdown."""
_PRINTED = late(
    r"\s*(?:(?:time=\S+ )?level=\w+ |Product Name: |(?:\w+\.)*\w+(?:Error|Exception|Warning): |(?:\$|#|>>>) "
    r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z? \[[VIWEF]:|.{0,200}\bprint\(f?[\"']"
    r"|\[(?!(?i:bug|issue|question|help|feature|request|usage|doc|support)\b)[^\]]{1,60}\] )"
)
"""What a program prints, or a person types into a shell."""
_EXCEPTION = late(r"\s*(?:\w+\.)*\w+(?:Error|Exception): ")
_TO_REPRODUCE = late(r"(?i)(?:#{1,6} |\*\*)(?:\d{1,2}\. )?(?:(?:how|(?:exact )?steps) to )?reproduc")
"""A heading above steps that lead to the fault; none of them is a remedy."""
_FORM_HEADING = late(r"(?:#{1,6} |\*\*)\S")
_TITLE_TAG = late(r"(?i)^\[((?!\d|(?:info|debug|warn|warning|error)\]|[^\]]*\d\d:\d\d)[^\]]{2,60})\] ?(?!\d\d:)")
"""Not the level or the time of a line that a program logged."""
_FEWEST_SPACES, _MANY_SPACES = 2, 20
_WITHOUT_SPACES = late(r"[\u3040-\u30ff\u4e00-\u9fff]")
"""Letters of languages that write none."""
_MOST_PLACES = 200
"""Lines of a text that are looked at for one circumstance."""
_BESIDE = 6
"""Lines before and behind a remedy in which a person says that it helped."""
_AROUND = 160
"""Characters beside the match in which the complaint stands."""
_SHORT = 500
"""Characters of a text that is about one matter: what it complains of may stand anywhere in it."""


class _Reading(Struct, frozen=True):
    """The sentences of a text in one wording."""

    texts: list[str]
    short: str
    advice: list[str]
    advised: str
    lowered: str

    @classmethod
    def of(cls, lines: tuple[Line, ...], worded: tuple[Line, ...], sentences: tuple[bool, ...]) -> _Reading:
        told = zip(worded, sentences, strict=True)
        texts = [line.text.translate(_MARKS) if sentence else "" for line, sentence in told]
        advice = list(_not_to_reproduce(lines, texts))
        return cls(texts, _of_one_matter(texts), advice, _of_one_matter(advice), "\n".join(texts).lower())

    def told(
        self,
        row: ToldCircumstance,
        lines: tuple[Line, ...],
        places: list[int],
        others: str,
        known: dict[int, Told | None],
        unlike: Container[int],
    ) -> Told | None:
        """The circumstance, where it is told of a complaint if anywhere. `known` is what places tell in the wording
        before, `unlike` those that may tell something else in this one."""
        where = (self.advice, self.advised) if row.remedy else (self.texts, self.short)
        found = None
        for place in places:
            if place not in known or place in unlike:
                known[place] = _told(row, lines, *where, place, others)
            found = known[place] or found
            if found and found.complains:
                break
        return found


def read_told(lines: tuple[Line, ...], in_english: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """The circumstances of the matrix that the lines tell, each once. They are looked for in the English words for
    the lines, then in plainer ones, and told as they stand in the text."""
    english = tuple(map(_behind_an_exception, _not_of_commands(in_english)))
    sentences = tuple(is_sentence(_untitled(line)) for line in english)
    plain = in_plain_words(english, matrix)
    readings = [_Reading.of(lines, worded, sentences) for worded in dict.fromkeys((english, plain))]
    whole = text_of(in_english).lower()
    wish = any(WISHES.search(one.lowered) and not _TRIED.search(one.lowered) for one in readings)
    # The second reading has other words in a few lines only.
    changed = [place for place, (one, other) in enumerate(zip(english, plain, strict=True)) if one is not other]
    near = {place + step for place in changed for step in range(-_BESIDE, _BESIDE + 1)}
    reworded = len({(one.short, one.advised) for one in readings}) > 1  # a short text, read as a whole at each place
    unlike: Container[int] = range(len(lines)) if reworded else near
    of_programs = frozenset(place for place, line in enumerate(english) if is_of_a_journal(line.text))
    searched = {
        of_message: (
            _lowered(readings[0].texts, range(len(lines)), left_out),
            _lowered(readings[-1].texts, changed, left_out),
        )
        for of_message, left_out in ((True, frozenset()), (False, of_programs))
    }
    others = something_else(matrix)
    concepts = Concepts(() if wish else zip(lines, readings[0].texts, strict=True), matrix, _is_aside)
    places: dict[tuple[bool, int, str], tuple[int, ...]] = {}
    for row in matrix.tables.told_circumstances:
        found, known = None, dict[int, Told | None]()
        for number, reading in enumerate(readings):
            for sign in row.signs:
                key, first = (row.of_message, number, sign), (row.of_message, 0, sign)
                if key not in places:  # several rows have it
                    there = tuple(islice(lines_with((sign,), searched[row.of_message][number]), _MOST_PLACES))
                    places[key] = (*places[first], *map(changed.__getitem__, there)) if number else there
            of_row = sorted({place for sign in row.signs for place in places[row.of_message, number, sign]})
            of_row = of_row[:_MOST_PLACES]
            found = (reading.told(row, lines, of_row, others, known, unlike) if of_row else None) or found
            if found and found.complains:
                break
        if found and not late(row.beside, re.ASCII).search(whole):
            found = None
        if not (found and found.complains):
            found = concepts.told(row) or found
        if found is None or (wish and row.alone):
            continue
        if row.unless and any(late(row.unless, re.ASCII).search(one.lowered) for one in readings):
            continue
        if (remedy := _VARIABLE_SET.match(row.workaround)) and _in_vain(remedy["name"].lower(), whole):
            continue
        facts.told.append(found)
    if complaint := concepts.complaint(is_harmless(facts.errors, matrix), silent=not facts.errors):
        facts.say("complaint", complaint.text, complaint.number, "prose")


def _in_vain(variable: str, whole: str) -> bool:
    """Whether the text says of a variable that it did not help."""
    return any(_NO_HELP.match(whole, found.end()) for found in re.finditer(re.escape(variable), whole))


def _lowered(texts: list[str], places: Iterable[int], left_out: frozenset[int]) -> str:
    return "\n".join("" if place in left_out else texts[place] for place in places).lower()


def _not_to_reproduce(lines: tuple[Line, ...], texts: list[str]) -> Iterator[str]:
    """The sentences; those under the heading of a form that asks for the steps to the fault are empty."""
    steps = False
    for line, text in zip(lines, texts, strict=True):
        if _FORM_HEADING.match(line.text):
            steps = _TO_REPRODUCE.match(line.text) is not None
        yield "" if steps else text


def _not_of_commands(lines: tuple[Line, ...]) -> Iterator[Line]:
    """The lines; those of a command that backslashes continue are empty. Its options are no advice that helped."""
    continued = False
    for line in lines:
        continues = line.text.endswith("\\")
        yield Line(line.number, "") if continued or continues else line
        continued = continues


def _behind_an_exception(line: Line) -> Line:
    """A line; that of an exception without its name, where a person goes on behind the message."""
    named = _EXCEPTION.match(line.text)
    if named is None or not own_words_behind(line.text[named.end() :]):
        return line
    return Line(line.number, line.text[named.end() :])


def _untitled(line: Line) -> str:
    """A line; the first one without the marks of a title, which elsewhere are also what a program prints."""
    return _TITLE_TAG.sub(r"\1 ", line.text.lstrip("# "), count=1) if line.number == 1 else line.text


def is_sentence(text: str) -> bool:
    """Whether a person may have written the line: a few words, no table, no log."""
    spaces = text.count(" ")
    if spaces < _FEWEST_SPACES and (text.isascii() or not _WITHOUT_SPACES.search(text)):
        return False
    columns = len(re.findall(r"\S {3,}(?=\S)", text)) if "   " in text else 0
    table = columns > (spaces > _MANY_SPACES)  # a long sentence may quote one
    return not table and not _PRINTED.match(text) and not is_hypothetical(text)


def _told(
    row: ToldCircumstance, lines: tuple[Line, ...], texts: list[str], whole: str, place: int, others: str
) -> Told | None:
    """The circumstance, if it is told there: in one line, or in two as people break sentences. `whole` is a text of
    one matter; `others` matches what is no GPU."""
    pattern = late(row.pattern, re.ASCII)  # letters of Chinese stand beside a word, not within it
    before, line, after = texts[place - 1] if place else "", texts[place], "".join(texts[place + 1 : place + 2])
    around = f"{before.strip()} {line.strip()} {after.strip()}".strip().lower()
    found = pattern.search(around)
    if found is None:
        return None
    alone = pattern.search(line.lower())
    said = lines[place : place + 1] if alone else lines[max(0, place - 1) : place + 2]
    near = around[max(0, found.start() - _AROUND) : found.end() + _AROUND]
    beside = " ".join(texts[max(0, place - _BESIDE) : place + _BESIDE]).lower()
    sentence = _sentence(around, found)
    helped = _helped(beside, beside if _COMMAND.match(line) else sentence)
    if row.remedy and (_PROPOSED.search(sentence) or not helped):
        return None
    near = whole or near
    # Of the first two the facts, or the words beside it, name the GPU.
    about = row.where or (row.alone and row.beside) or _ABOUT_GPUS.search(near)
    told = row.alone or _COMPLAINS.search(_NO_COMPLAINT.sub("", without_clauses(others, near)))
    complains = row.remedy or bool(about and told and not _is_in_order(around, found))
    text = joined(one.text.translate(_MARKS).strip() for one in said)
    text = _same_sentence(text, line, alone) if alone else text
    return Told(row.id, text.lstrip("#-* ")[:300], lines[place].number, complains)


def _sentence(text: str, found: re.Match[str]) -> str:
    end = _SENTENCE_END.search(text, found.end())
    return text[_start(text, found) : end.end() if end else len(text)]


def _same_sentence(text: str, worded: str, found: re.Match[str]) -> str:
    """The sentence of a line that stands where something was found in the line in other words."""
    sentences, others = (tuple(filter(None, _BETWEEN.split(one.strip()))) for one in (text, worded))
    first, last = (len(_BETWEEN.findall(worded, 0, place)) for place in found.span())
    return " ".join(sentences[first : last + 1]) if len(sentences) == len(others) else text


def _start(text: str, found: re.Match[str]) -> int:
    return max((end.end() for end in _SENTENCE_END.finditer(text, 0, found.start())), default=0)


def _is_in_order(text: str, found: re.Match[str]) -> bool:
    """Whether the sentence denies what was found in it, makes it a condition, or says that it is no fault."""
    before = text[_start(text, found) : found.start()]
    denied = _NEGATED.search(before) or _CONDITION.search(before)
    return bool(denied) or _is_general(_sentence(text, found)) or _is_elsewhere(_clause(text, found))


def _is_aside(sentence: str) -> bool:
    """Whether a sentence says that things are as they should be or were so once, or asks how they are."""
    return _is_general(sentence) or _is_elsewhere(sentence)


def _is_general(sentence: str) -> bool:
    return any(signs.search(sentence) for signs in (_IN_ORDER, _GENERAL_QUESTION, _ADVICE, _WITHOUT_GPU))


def _is_elsewhere(clause: str) -> bool:
    """Whether it tells of other people, or of another time."""
    return _BY_OTHERS.search(clause) is not None or is_long_ago(clause)


def _clause(text: str, found: re.Match[str]) -> str:
    """The part of the sentence in which something was found."""
    sentence, start = _sentence(text, found), _start(text, found)
    ends = [(end.start() + start, end.end() + start) for end in _CLAUSE_END.finditer(sentence)]
    first = max((end for _, end in ends if end <= found.start()), default=start)
    last = min((begin for begin, _ in ends if begin >= found.end()), default=start + len(sentence))
    return text[first:last]


def _of_one_matter(texts: list[str]) -> str:
    """All sentences of a short text that asks nothing; "" for another."""
    if sum(map(len, texts)) > _SHORT or _asks(texts):
        return ""
    whole = " ".join(filter(None, texts)).lower()
    return whole if len(whole) <= _SHORT else ""


def _asks(texts: list[str]) -> bool:
    """Whether the title is a question: then the text explains something, and complains of nothing."""
    return next(filter(None, texts), "").rstrip().endswith("?")


def _helped(text: str, sentence: str) -> bool:
    """Whether the person says of the remedy in a sentence that it helped, and not that nothing did."""
    complains = _COMPLAINS.search(_NO_COMPLAINT.sub("", text))
    amiss, needs = (text, sentence) if complains else ("", "")
    places = ((_HELPED, text), (_NEEDED, sentence), (_NEEDS, needs), (_FINE, amiss))
    return any(
        not _DENIED.search(where[max(0, one.start() - 30) : one.start()]) and not _ASKED.match(where[one.end() :])
        for pattern, where in places
        for one in pattern.finditer(where)
    )
