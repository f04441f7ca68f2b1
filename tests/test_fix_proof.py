"""What is said after a repair: what is gone, what stayed, what came up, what only a variable still wants."""

from __future__ import annotations

from gpudoctor.finding import Device, Finding, NotJudged
from gpudoctor.planner.proof import Proof, proof


def fault(id: str, severity: str = "error", **parts: object) -> Finding:
    return Finding(severity, f"{id} is wrong.", id=id, slug=id.lower(), **parts)  # type: ignore[arg-type]


def compared(before: list[Finding], after: list[Finding], **parts: object) -> Proof:
    asked = {"under_variables": after, "questions": (), "verdict": "error", **parts}
    return proof(before, after, **asked)  # type: ignore[arg-type]


ARCH, VISION, NOTE = fault("GPD402", subject="torch 2.6.0+cu124"), fault("GPD420", "warning"), fault("GPD301", "note")


def test_what_the_repair_brought_about_is_told_as_new() -> None:
    found = compared([ARCH], [VISION])
    assert (found.repaired, found.left, found.new) == ((ARCH,), (), (VISION,))


def test_a_fault_that_stayed_is_not_called_repaired_though_its_words_changed() -> None:
    still = fault("GPD402", subject="torch 2.9.1+cu128")
    found = compared([ARCH], [still])
    assert (found.repaired, found.left, found.new) == ((), (still,), ())


def test_the_same_fault_of_another_gpu_is_new() -> None:
    gpus = [Device(vendor="nvidia", index=n, bdf=f"0000:0{n}:00.0", name="A GPU") for n in (1, 2)]
    first, second = (fault("GPD402", device=gpu) for gpu in gpus)
    found = compared([first], [second])
    assert (found.repaired, found.new) == ((first,), (second,))


def test_notes_count_for_nothing() -> None:
    found = compared([ARCH, NOTE], [NOTE])
    assert (found.repaired, found.left, found.new) == ((ARCH,), (), ())


def test_what_cannot_be_judged_afterwards_is_not_repaired() -> None:
    open_now = NotJudged("no device code was found", matters=True, id="GPD402")
    found = compared([ARCH], [], questions=(open_now,))
    assert (found.repaired, found.questions) == ((), ("no device code was found",))


def test_a_finding_that_a_variable_repairs_waits_for_that_variable_only() -> None:
    found = compared([ARCH, VISION], [VISION], under_variables=[])
    assert (found.repaired, found.left, found.new, found.by_variables) == ((ARCH,), (), (), (VISION,))
