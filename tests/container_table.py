"""The long table of containers: every case, run by podman, with what it said.

    GPUDOCTOR_TEST_IMAGE=IMAGE python -m tests.container_table [--full] [WORD...]

Cases whose name holds a WORD (all without one); --full prints what the refusal said.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.support.container_cases import CASES, Case
from tests.support.containers import Engine, unavailable


def failures(case: Case, code: int, out: str, said: str) -> list[str]:
    """What is not as the case wants it."""
    flat = re.sub(r"\s+", " ", said)
    wrong = [] if code == case.code else [f"exit {code}, not {case.code}"]
    wrong += [] if (out == "started\n") == (not case.slug) else [f"stdout {out[:60]!r}"]
    wrong += [] if not case.slug or case.slug in flat.split("Fix: ")[0] else [f"{case.slug} is not the first finding"]
    wrong += [f"nothing says {word!r}" for word in case.words if word not in flat]
    return wrong


def run(engine: Engine, case: Case, folder: Path, level: str = "static") -> tuple[int, str, str]:
    node = case.node(folder)
    words = ("preflight", "--level", level, "--require", "gpu>=1", "--", "echo", "started")
    ended = engine.gpudoctor(node, *words, gpu=case.gpu, options=case.options, environ=case.environ)
    return ended.returncode, ended.stdout, ended.stderr


def main(words: list[str]) -> int:
    if why := unavailable():
        print(why, file=sys.stderr)
        return 2
    full, wanted = "--full" in words, [word for word in words if not word.startswith("--")]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Path(folder))
        for number, case in enumerate(CASES):
            if wanted and not any(word in case.name for word in wanted):
                continue
            code, out, said = run(engine, case, Path(folder) / str(number))
            wrong = failures(case, code, out, said)
            bad += bool(wrong)
            found = re.search(r"^  (\S+) \[GPD\d+\]", said, re.MULTILINE)
            print(
                f"{'WRONG' if wrong else 'ok':<6}{code:>4}  {found[1] if found else '-':<28}{case.name}", flush=True
            )
            for line in wrong:
                print(f"{'':12}{line}")
            if full or wrong:
                print("".join(f"{'':12}| {line}\n" for line in said.splitlines()))
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
