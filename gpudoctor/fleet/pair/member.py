"""The process of a rank that has torch: it holds the job's store, and starts each trial in a fork of itself."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpudoctor.host.bound_child import BoundChild, serving
from gpudoctor.host.interrupts import Interruptions

_BOOTSTRAP = serving("gpudoctor_pair", "int(sys.argv[2]), int(sys.argv[3])")
_FOLDER = Path(__file__).with_name("child")
_IMPORT_SECONDS = 300.0
"""Hundreds of nodes may read torch from one file server."""
_SLACK_SECONDS = 30.0
"""Beyond the limit of a command, for ending what it started."""
_POLL_SECONDS = 0.25
_TAIL_LIMIT = 1 << 12

Answer = dict[str, Any]


class MemberError(Exception):
    """The process cannot do what it is for; the text says why."""


class Member:
    """A running member; call `end`. Raises MemberError if it cannot be started."""

    def __init__(self, interpreter: str, environ: Mapping[str, str], interruptions: Interruptions) -> None:
        commands, self._commands = os.pipe()
        self._events, events = os.pipe()
        self._heard = b""
        self._said = b""
        arguments = [str(_FOLDER), str(commands), str(events)]
        try:
            self._child = BoundChild(
                _BOOTSTRAP,
                arguments,
                self._hear,
                interruptions,
                interpreter=(interpreter,),
                channels={"events": self._events},
                env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
                pass_fds=(commands, events),
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            for descriptor in (self._commands, self._events):
                os.close(descriptor)
            raise MemberError(f"{interpreter} cannot be started: {error}") from None
        finally:
            for descriptor in (commands, events):
                os.close(descriptor)

    def torch_version(self) -> str:
        """Wait until torch is imported. Raises MemberError if it cannot be."""
        return str(self._answer(_IMPORT_SECONDS)["torch"])

    def ask(self, do: str, limit: float, /, **content: Any) -> Answer:
        """The answer to a command that takes at most `limit` seconds. Raises MemberError."""
        with suppress(OSError):  # `_answer` tells why nobody reads it
            data = (json.dumps({"do": do, **content}) + "\n").encode()
            while data:
                data = data[os.write(self._commands, data) :]
        return self._answer(limit + _SLACK_SECONDS)

    def run(self, what: str, seconds: float, task: Mapping[str, Any]) -> Answer:
        """What a fork told that did `what`, and how it ended."""
        return self.ask("run", seconds, what=what, seconds=seconds, task=dict(task))

    def get(self, key: str, seconds: float) -> str | None:
        """A value of the store; None if it was not set within `seconds`."""
        value: str | None = self.ask("get", seconds, key=key, seconds=max(seconds, 0.001))["value"]
        return value

    def set(self, key: str, value: str) -> None:
        self.ask("set", _SLACK_SECONDS, key=key, value=value)

    def end(self) -> None:
        """End it with all that it started."""
        for descriptor in (self._commands, self._events):
            os.close(descriptor)
        self._child.end()

    def _answer(self, seconds: float) -> Answer:
        deadline = time.monotonic() + seconds
        while b"\n" not in self._heard:
            ended = self._child.has_ended
            left = deadline - time.monotonic()
            if not self._child.listen(min(_POLL_SECONDS, max(0.0, left))) and (ended or left <= 0):
                raise MemberError(self._why(seconds, ended))
        line, _, self._heard = self._heard.partition(b"\n")
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise MemberError(str(answer["error"]))
        return answer

    def _hear(self, name: str, data: bytes) -> None:
        if name == "events":
            self._heard += data
        else:
            self._said = (self._said + data)[-_TAIL_LIMIT:]

    def _why(self, seconds: float, ended: bool) -> str:
        how = (
            "the process with torch ended" if ended else f"the process with torch gave no answer within {seconds:g} s"
        )
        lines = [line.strip() for line in self._said.decode("utf-8", "replace").splitlines() if line.strip()]
        return f"{how}: {lines[-1]}" if lines else how
