"""What Python does in an environment, and what gpudoctor says of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.broken_environments.bases import BASES
from tests.support.broken_environments.entries import Entry
from tests.support.broken_environments.environment import Environment

CHECK_LIMIT, FIX_LIMIT = 300.0, 1200.0


@dataclass(frozen=True)
class Ran:
    code: int | None
    """None: it was still running after its limit."""
    out: str
    error: str
    seconds: float


@dataclass(frozen=True)
class Diagnosis:
    """What gpudoctor said, in short."""

    code: int | None
    verdict: str
    problems: tuple[tuple[str, str, str, str], ...]
    """Id, slug, severity and text of each error and warning, in its order."""
    unanswered: tuple[str, ...]
    """What could not be checked and matters."""
    seconds: float
    fix: str = ""
    """The fix of the first problem: its title, then its commands and instructions."""

    @property
    def first(self) -> str:
        if self.problems:
            return f"{self.problems[0][0]} {self.problems[0][1]}"
        return "not known" if self.unanswered else self.verdict


def run(command: Sequence[str | Path], environment: Environment, limit: float) -> Ran:
    """Run it as the environment is used, with all that it starts; kill all of it after `limit` seconds."""
    words = [*environment.launcher, *map(str, command)]
    began = time.monotonic()
    child = subprocess.Popen(
        words,
        env=environment.environ(),
        cwd=environment.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, error = child.communicate(timeout=limit)
        code: int | None = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, error = child.communicate()
        code = None
    return Ran(code, out, error, time.monotonic() - began)


DONE = "the proof came to its end"


def reality(entry: Entry, environment: Environment) -> str:
    """ "works", or "fails: ..." with the last words of the real interpreter."""
    steps = f"{entry.proof}\nprint({DONE!r})"
    variables = "".join(f"{name}={value} " for name, value in environment.described.items())
    words: list[str | Path] = [environment.python, "-c", steps]
    try:
        ran = run(["env", *variables.split(), *words] if variables else words, environment, entry.limit)
    except OSError as error:
        return f"fails: {error.strerror}"
    if ran.code is None:
        return f"fails: hangs ({entry.limit:.0f} s)"
    if ran.code == 0 and DONE in ran.out:
        return "works"
    if ran.code < 0:
        return f"fails: killed by {signal.Signals(-ran.code).name}"
    last = ((ran.error.strip() or ran.out.strip()).splitlines() or [f"ends with exit code {ran.code}"])[-1]
    return f"fails: {last[:200]}"


def gpudoctor(
    command: str, entry: Entry, environment: Environment, level: str = "", *, described: bool = True
) -> Ran:
    """The console script, as people start it; `described`: with the GPU, the level and the variables."""
    script = Path(sys.executable).with_name("gpudoctor")
    if not script.exists():
        raise SystemExit(f"{script} is missing: install gpudoctor in the environment that runs this.")
    machine = (entry.machine or BASES[entry.kind].machine) if entry.gpu else ()
    chosen = level or entry.level or ("" if machine else "quick")
    words = [*command.split(), "--python", str(environment.prefix), "--format", "json"]
    if not described:
        return run([script, *words], environment, CHECK_LIMIT)
    words += machine
    words += ["--level", chosen] if chosen else []
    for name, value in environment.described.items():
        words += ["--env", f"{name}={value}"]
    return run([script, *words], environment, CHECK_LIMIT if command == "check" else FIX_LIMIT)


def said(ran: Ran) -> Diagnosis:
    try:
        report: dict[str, Any] = json.loads(ran.out)
    except ValueError:
        last = (ran.error.strip().splitlines() or ["nothing was printed"])[-1]
        return Diagnosis(ran.code, f"no report: {last[:120]}", (), (), ran.seconds)
    problems = tuple(
        (item["id"], item["slug"], item["severity"], text_of(item))
        for item in report["findings"]
        if item["severity"] != "note"
    )
    unanswered = tuple(f"{item['id']}: {item['why']}" for item in report["not_judged"] if item["matters"])
    fixes = [fix for item in report["findings"] if item["severity"] != "note" for fix in item["fixes"][:1]]
    return Diagnosis(
        ran.code, report["verdict"], problems, unanswered, ran.seconds, words_of(fixes[0]) if fixes else ""
    )


def foreseen(fixed: Ran) -> str:
    """Whether `fix` found at its end what its plan had foreseen."""
    try:
        report: dict[str, Any] = json.loads(fixed.out)
    except ValueError:
        return "no report"
    proof, before = (report.get("result") or {}).get("proof"), report.get("predicted")
    if proof is None or before is None:
        return "not compared"
    gone = sorted({*before["left"]} - {*proof["left"], *proof["new"]}) if before["until"] == "end" else []
    differing = [*(f"{id} came" for id in proof["unforeseen"]), *(f"{id} went" for id in gone)]
    return f"differs: {', '.join(differing)}" if differing else "equal"


def words_of(fix: dict[str, Any]) -> str:
    steps = [" ".join(step.get("argv") or ()) or step.get("text") or step.get("name", "") for step in fix["steps"]]
    return "; ".join([fix["title"], *steps])


def text_of(finding: dict[str, Any]) -> str:
    """What a person reads of a problem: its message, what was found, its evidence."""
    evidence = [f"{item['value']} {item['source']}" for item in finding["evidence"]]
    parts = [finding["subject"], finding["message"], finding["saw"], finding["want"], *evidence]
    return "\n".join(str(part) for part in parts if part)


def outcome(entry: Entry, answer: Diagnosis, before: Diagnosis) -> str:
    """The judgement of gpudoctor's answer; `before` is what it said of the untouched base."""
    if entry.control:
        known = {slug for _, slug, *_ in before.problems}
        new = any(slug not in known for _, slug, *_ in answer.problems)
        return "FALSE ALARM" if new or answer.code != before.code else "silent"
    places = [place for place, problem in enumerate(answer.problems) if names_cause(entry, problem)]
    mild = entry.warning and bool(places)
    if answer.code == 0 and not mild:
        return "CALLED OK"
    if places[:1] == [0]:
        return "right" if re.search(entry.fix, answer.fix, re.IGNORECASE) else "other fix"
    if "unknown" in entry.causes and answer.code == 3 and not answer.problems:
        return "right"
    return "cause not first" if places else "wrong"


def names_cause(entry: Entry, problem: tuple[str, str, str, str]) -> bool:
    _, slug, _, text = problem
    return slug in entry.causes and bool(re.search(entry.names, text, re.IGNORECASE))
