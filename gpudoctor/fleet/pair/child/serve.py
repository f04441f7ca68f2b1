"""A member's main loop: import torch, hold the job's store, start each trial in a fork.

This process never touches a GPU and joins no group: what a trial does to its process, the next one does not notice.
Each command gets one answer, a line of JSON each.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
from typing import Any, Dict

from . import trial
from .fork import last_line, run_in_fork

Message = Dict[str, Any]


def main(commands: int, events: int) -> None:
    """Serve until the commands end."""
    for descriptor in (commands, events):
        os.set_inheritable(descriptor, False)
    with open(commands, encoding="utf-8") as lines:
        _tell(events, _import_torch())
        member = _Member(lines.fileno(), events)
        for line in lines:
            try:
                answer = member.obey(json.loads(line))
            except Exception as error:
                answer = {"error": last_line(error)}
            _tell(events, answer)
    os._exit(0)


def _tell(descriptor: int, message: Message) -> None:
    data = (json.dumps(message) + "\n").encode("utf-8", "surrogateescape")
    while data:
        data = data[os.write(descriptor, data) :]


def _import_torch() -> Message:
    """Import it once, for all forks."""
    try:
        torch = importlib.import_module("torch")
        distributed = importlib.import_module("torch.distributed")
        if not distributed.is_available():
            return {"error": "this torch is built without torch.distributed"}
        return {"torch": str(torch.__version__)}
    except ModuleNotFoundError as error:
        hint = " (--python names the Python that has torch)" if error.name == "torch" else ""
        return {"error": last_line(error) + hint}
    except BaseException as error:  # SystemExit is a failure of an import, too
        return {"error": last_line(error)}


class _Member:
    def __init__(self, *descriptors: int) -> None:
        self._own = descriptors
        self._store: Any = None

    def obey(self, command: Message) -> Message:
        """Carry out one command."""
        act = getattr(self, "_" + command.pop("do"))
        answer: Message = act(**command)
        return answer

    def _join(self, host: str, port: int, prefix: str, serves: bool, seconds: float) -> Message:
        """Reach the job's store; `serves`: it lives in this process."""
        self._store = trial.store_at(host, port, prefix, seconds, serves)
        return {}

    def _set(self, key: str, value: str) -> Message:
        self._store.set(key, value)
        return {}

    def _get(self, key: str, seconds: float) -> Message:
        """The value, waiting for it at most `seconds`; null: nobody set it."""
        try:
            self._store.wait([key], datetime.timedelta(seconds=seconds))
        except RuntimeError as error:
            if "time" not in str(error).lower():
                raise
            return {"value": None}
        return {"value": self._store.get(key).decode()}

    def _run(self, what: str, seconds: float, task: Message) -> Message:
        """`look` or `collective` of the module `trial`, in a fork."""
        return run_in_fork(getattr(trial, what), task, seconds, self._own)
