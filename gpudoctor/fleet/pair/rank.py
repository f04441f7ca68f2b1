"""What every rank does: say who it is, follow the orders of rank 0, end with the exit code that it names."""

from __future__ import annotations

import json
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import decode

from gpudoctor.fleet.pair.job_rank import JobRank
from gpudoctor.fleet.pair.member import Answer, Member, MemberError
from gpudoctor.fleet.pair.outcome import LOOK_SECONDS
from gpudoctor.fleet.pair.trials import Trial
from gpudoctor.host import LiveHost

JOIN_SECONDS = 600.0
"""Until the slowest rank is there."""
_ORDERS = 10
"""An order may take this many limits of a trial: rank 0 waits for ranks that do not answer. A store that gave up
earlier would take the healthy ranks down with a faulty one."""


class Group(Struct, frozen=True):
    """A rank's part in a trial."""

    name: str
    """Its prefix in the store."""
    rank: int
    size: int


class Order(Struct, frozen=True):
    """What rank 0 wants of a rank."""

    do: Literal["compute", "rest", "end"]
    trial: Trial | None = None
    group: Group | None = None
    code: int = 0


def _ports() -> list[float]:
    """The rates of this node's RDMA ports."""
    from gpudoctor.fleet.pair.capacity import port_rates
    from gpudoctor.probes.network import probe_network

    return port_rates(probe_network(LiveHost({})))


class Rank:
    """One rank, and its member."""

    def __init__(self, place: JobRank, member: Member) -> None:
        self.place, self.member = place, member

    def introduce(self) -> None:
        """Join the store, look what this rank has, and tell it."""
        version = self.member.torch_version()
        prefix = self._prefix()
        place = self.place
        joined = {"host": place.host, "port": place.port, "prefix": prefix, "serves": place.serves}
        self.member.ask("join", JOIN_SECONDS, seconds=JOIN_SECONDS, **joined)
        seen = self.member.run("look", LOOK_SECONDS, {"local_rank": place.local_rank})
        hello = {"name": place.name, "agent": place.agent, "local_rank": place.local_rank, "torch": version}
        self.tell("hello", {**hello, "ports": _ports(), **seen})

    def follow(self, limit: float) -> int:
        """Do what rank 0 orders until it orders the end; its code. Raises MemberError where it orders nothing."""
        step = 0
        while True:
            order = self.order(step, JOIN_SECONDS + _ORDERS * limit)
            self.tell(f"answer/{step}", self.obey(order))
            if order.do == "end":
                return order.code
            step += 1

    def order(self, step: int, seconds: float) -> Order:
        """The order of that step. Raises MemberError."""
        text = self.member.get(f"order/{step}/{self.place.rank}", seconds)
        if text is None:
            raise MemberError(f"rank 0 ordered nothing for {seconds:g} s")
        return decode(text, type=Order)

    def obey(self, order: Order) -> Answer:
        """Take part in a trial, or do nothing."""
        if order.trial is None or order.group is None:
            return {}
        trial, group, place = order.trial, order.group, self.place
        task = {
            "host": place.host,
            "port": place.port,
            "prefix": f"{self._prefix()}/{group.name}",
            "local_rank": place.local_rank,
            "rank": group.rank,
            "size": group.size,
            "backend": trial.backend,
            "bytes": trial.size,
            "seconds": trial.seconds,
        }
        return self.member.run("collective", trial.seconds, task)

    def tell(self, key: str, content: dict[str, Any]) -> None:
        """Put something of this rank into the store."""
        self.member.set(f"{key}/{self.place.rank}", json.dumps(content))

    def _prefix(self) -> str:
        return f"gpudoctor/{self.place.attempt}"
