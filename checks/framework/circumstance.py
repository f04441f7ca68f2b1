"""What a person told around a fault, without any message of a program (GPD447)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding
from gpudoctor.plain_text import sentence
from gpudoctor.situation import Situation
from gpudoctor.situation.circumstances import fix_of, told_circumstances
from gpudoctor.situation.seen_errors import tells_a_fault


@check("GPD447", "circumstance-told", "framework")
def circumstance_told(situation: Situation) -> Verdicts:
    """What a person tells of a fault has a likely cause.

    ## Why it matters
    Many reports hold no message of a program, only words: since it woke up, only as root, in a container after hours.

    ## How it is judged
    The matrix lists such circumstances with the cause that was confirmed most often. One counts where the same
    sentence says that a GPU is not used or lost, and where the text has no error message and no sign that a GPU was
    used. Where the person says what helped, that alone counts. Where the text has an error message, the circumstance
    ranks the causes of that message.

    ## Fix safety
    That of the cause.
    """
    text = situation.machine.pasted
    if text is None or tells_a_fault(situation):
        return
    complaints = [
        (row, said)
        for row, said in told_circumstances(situation)
        if said.complains and not (row.of_message or (text.works and row.of_torch))
    ]
    # What the facts of the text bear out tells the cause of what was complained of, and what helped still more so.
    for exact in ([one for one in complaints if one[0].where], [one for one in complaints if one[0].remedy]):
        complaints = exact or complaints
    complaints.sort(key=lambda complaint: complaint[0].severity)  # an error before a warning
    told = set[int]()
    for row, said in complaints:
        if said.line in told:  # one sentence tells of one matter: the rows are in the order of what they tell
            continue
        told.add(said.line)
        yield Finding(
            severity=row.severity,
            slug=row.slug,
            subject="what the text tells",
            message=f"The text says: \u201c{said.text.rstrip('.')}\u201d. It may mean: {row.meaning}. "
            f"What decides: {sentence(row.ask)}",
            saw=said.text,
            confidence="possible",
            evidence=(Evidence("told", said.text, f"text, line {said.line}"),),
            fixes=(fix_of(row),),
            refs=row.refs,
            possible_causes=(row.slug,),
        )
