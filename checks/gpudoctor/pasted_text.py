"""What a text that somebody pasted leaves open (GPD911 to GPD914)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import NotJudged
from gpudoctor.machine.pasted_text import PROGRAM_ERROR, WORKS_NOW
from gpudoctor.situation import Situation

_TOOLS = "the output of `nvidia-smi` (NVIDIA) or `rocminfo` (AMD)"
_SEND = {
    "GPU": _TOOLS,
    "exact GPU": _TOOLS,
    "driver": _TOOLS,
    "torch": "the output of `python -m torch.utils.collect_env`",
}
_SYSTEMS = {"windows": "Windows", "macos": "macOS"}


@check("GPD911", "text-incomplete", "gpudoctor")
def text_incomplete(situation: Situation) -> Verdicts:
    """A pasted text does not say enough.

    ## Why it matters
    What the text does not say is assumed healthy. Without a GPU, a torch or an error message there is little
    to check.

    ## How it is judged
    The verdict stays open if the text has neither an error message nor a sign that a GPU was used, and the GPU or
    torch is missing; harmless messages beside a complaint are none. The problem names what to send. If the errors
    are about something else than a GPU, or the text shows no more than that a driver has started the GPU, it says so.
    An error that is the program's own, a text that says that all works now, and one from macOS need neither. It stays
    open, too, if a sentence complains that a GPU is missing, is slow or is not used, that the program fails or that
    the machine shuts down, and nothing else is told.

    ## Fix safety
    There is nothing to fix.
    """
    text = situation.machine.text
    if complaint := _unexplained(situation):
        why = (
            f"the text tells of a fault ({complaint}), and not its cause. Add the message that was printed, and what "
        )
        why += "`nvidia-smi` (NVIDIA) or `rocm-smi` (AMD) shows meanwhile"
        yield NotJudged(why, matters=True, if_well=True)
        return
    if not text.unsaid or (situation.machine.errors and not text.complaint) or text.foreign == "macos":
        return
    if text.tells(PROGRAM_ERROR) or text.tells(WORKS_NOW):
        return
    telling = [what for what in text.unsaid if what != "driver"]
    sent = " and ".join(dict.fromkeys(_SEND[what] for what in text.unsaid))
    seen = bool(telling) and not text.works
    if text.off_topic:
        why = f"{text.off_topic} in this text is about a GPU. If there is a GPU problem, add its message and {sent}"
        yield NotJudged(why, matters=seen)
        return
    if text.started and telling == ["torch"] and not text.told and not situation.machine.log_faults:
        why = f"the text shows that the driver started the GPU, and tells of no fault. If torch fails, send {sent}"
        yield NotJudged(why, matters=seen)
        return
    missing = " and ".join(filter(None, (", ".join(text.unsaid[:-1]), text.unsaid[-1])))
    amiss = bool(telling) and bool(text.complaint or not text.works)
    yield NotJudged(why=f"the text does not say which {missing}. Send {sent}", matters=amiss)


def _unexplained(situation: Situation) -> str:
    """Where somebody complains, and all else that is told is well: then not all is well."""
    machine, text = situation.machine, situation.machine.text
    torch_or_gpu = any(what != "driver" for what in text.unsaid)  # which is asked for in its own words
    if machine.log_faults or torch_or_gpu or text.off_topic or text.tells(PROGRAM_ERROR):
        return ""
    if machine.errors and not text.complaint:  # beside a complaint they are harmless
        return ""
    told = (f"text, line {one.line}" for one in text.told if one.complains and not text.works)
    return text.complaint or next(told, "")


@check("GPD912", "text-contradictory", "gpudoctor")
def text_contradictory(situation: Situation) -> Verdicts:
    """A pasted text says two things of one fact, or names what nobody knows.

    ## Why it matters
    One of them is judged, and it may be the wrong one.

    ## How it is judged
    A driver's tool is believed about the driver, torch about itself, a list of packages about what is installed; a
    sentence only where nothing else tells. Of one source the last statement counts.

    ## Fix safety
    There is nothing to fix.
    """
    text = situation.machine.text
    for said in text.contradictions:
        yield NotJudged(why=said)
    for name in text.unread:
        yield NotJudged(why=f"no GPU of the name {name} is known")


@check("GPD913", "text-of-several-machines", "gpudoctor")
def text_of_several_machines(situation: Situation) -> Verdicts:
    """A pasted text tells of more than one machine.

    ## Why it matters
    Facts of different machines must not be judged together.

    ## How it is judged
    Two reports of the same kind list different GPUs, or different kernels and drivers. The part with the error
    message is judged, else the first.

    ## Fix safety
    There is nothing to fix.
    """
    machines = situation.machine.text.machines
    if machines:
        others = "; ".join(machines[1:])
        yield NotJudged(
            why=f"the text tells of several machines: only {machines[0]} was checked, not {others}. Give each text "
            "by itself",
            matters=True,
        )


@check("GPD914", "text-from-another-system", "gpudoctor")
def text_from_another_system(situation: Situation) -> Verdicts:
    """A pasted text is from Windows or macOS.

    ## Why it matters
    gpudoctor knows drivers, device nodes, containers and system packages of Linux and WSL2 only.

    ## How it is judged
    By paths, libraries and the system that the text names. What holds on every system is checked all the same: a
    torch without code for the GPU, packages that do not go together. The verdict stays open if nothing was found.

    ## Fix safety
    There is nothing to fix.
    """
    system = situation.machine.text.foreign
    if system:
        yield NotJudged(
            why=f"could not check drivers and libraries of {_SYSTEMS[system]}: gpudoctor knows Linux and WSL2",
            matters=not situation.machine.text.works,
        )
