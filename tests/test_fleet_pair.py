"""`fleet pair` without torch: who meets whom, who is convicted, what rank 0 makes of the answers."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.fleet.pair.blame import Judgement, Meeting, judge
from gpudoctor.fleet.pair.capacity import port_rates
from gpudoctor.fleet.pair.coordinator import Coordinator, PairOptions
from gpudoctor.fleet.pair.job_rank import JobRank, job_rank
from gpudoctor.fleet.pair.rank import Rank
from gpudoctor.fleet.pair.report import PairReport
from gpudoctor.fleet.pair.rounds import Course
from gpudoctor.fleet.pair.schedule import round_of, rounds_of
from gpudoctor.fleet.pair.verdict import report_of
from gpudoctor.host import InputError
from gpudoctor.render.fleet_pair import pair_lines
from gpudoctor.suites import pair_checks
from gpudoctor.testing import nvidia_machine
from tests.support.check_cases import matrix
from tests.support.networks import roce, with_network

# --- schedule ---


@pytest.mark.parametrize("count", range(2, 24))
def test_each_pair_meets_in_exactly_one_round(count: int):
    rounds = rounds_of(count)
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == list(itertools.combinations(range(count), 2))
    for pairs in rounds:
        nodes = [node for pair in pairs for node in pair]
        assert len(nodes) == len(set(nodes)) >= count - 1


@pytest.mark.parametrize("count", [0, 1])
def test_there_is_nobody_to_meet(count: int):
    assert rounds_of(count) == ()


def test_a_second_look_lets_nobody_meet_two_at_once():
    assert round_of([(0, 1), (1, 2), (2, 3)]) == ((0, 1), (2, 3))


# --- conviction ---


def trial(
    count: int,
    rounds: int | None = 3,
    *,
    dead: set[int] = frozenset(),
    slow: set[int] = frozenset(),
    links: set[tuple[int, int]] = frozenset(),
    flaky: Mapping[int, float] = {},
    seed: int = 0,
    noise: float = 0.2,
) -> Judgement:
    """A simulated test: faulty nodes fail, slow ones take five times as long, all times are noisy."""
    chance = random.Random(seed)
    course, meetings = Course(count, count if rounds is None else rounds), []
    while pairs := course.next(meetings, ()):
        for pair in pairs:
            fails = pair in links or not dead.isdisjoint(pair) or any(chance.random() < flaky.get(n, 0) for n in pair)
            usual = (5 if not slow.isdisjoint(pair) else 1) * chance.lognormvariate(0, noise)
            times = sorted(usual * chance.lognormvariate(0, 2 * noise) for _ in range(20))
            meetings.append(Meeting(pair, not fails, times[10], times[5]))
    return judge(meetings)


counts = st.integers(6, 40)
seeds = st.integers(0, 2**32)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 40), st.sampled_from([3, None]), seeds)
def test_nobody_is_blamed_where_nothing_is_wrong(count: int, rounds: int | None, seed: int):
    judgement = trial(min(count, 12) if rounds is None else count, rounds, seed=seed)
    assert not judgement.convicted
    assert not judgement.failed.links
    assert not judgement.failed.undecided


@settings(max_examples=100, deadline=None)
@given(st.data(), counts, seeds)
def test_faulty_nodes_are_found_in_three_rounds_and_nobody_else(data: st.DataObject, count: int, seed: int):
    dead = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=2))
    slow = data.draw(st.sets(st.integers(0, count - 1), max_size=1)) - dead
    judgement = trial(count, dead=dead, slow=slow if count > 11 else set(), seed=seed)
    assert set(judgement.failed.nodes) == dead
    assert set(judgement.slow.nodes) == (slow if count > 11 else set())
    assert not judgement.failed.links


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(2, 20), seeds)
def test_however_many_are_faulty_no_innocent_node_is_blamed(data: st.DataObject, count: int, seed: int):
    dead = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    judgement = trial(count, dead=dead, seed=seed)
    assert judgement.convicted <= dead
    silent = not (judgement.convicted or judgement.failed.undecided or judgement.failed.links)
    assert not silent, "all is well was said of faulty nodes"


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(4, 14), seeds)
def test_a_faulty_link_is_found_when_all_meet_and_no_node_is_blamed(data: st.DataObject, count: int, seed: int):
    link = data.draw(st.sampled_from(list(itertools.combinations(range(count), 2))))
    judgement = trial(count, None, links={link}, seed=seed)
    assert judgement.failed.links == (link,)
    assert not judgement.convicted


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(7, 14), seeds)
def test_a_faulty_link_beside_a_faulty_node_is_told_from_it(data: st.DataObject, count: int, seed: int):
    dead = data.draw(st.integers(0, count - 1))
    others = [node for node in range(count) if node != dead]
    link = data.draw(st.sampled_from(list(itertools.combinations(others, 2))))
    judgement = trial(count, None, dead={dead}, links={link}, seed=seed)
    assert judgement.failed.nodes == (dead,)
    assert judgement.failed.links == (link,)


@settings(max_examples=100, deadline=None)
@given(st.integers(5, 20), st.floats(0.2, 0.9), seeds)
def test_what_fails_now_and_then_blames_no_innocent_node(count: int, share: float, seed: int):
    assert trial(count, flaky={2: share}, seed=seed).convicted <= {2}


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(5, 20), st.floats(0.2, 0.95), seeds)
def test_two_that_fail_now_and_then_never_make_a_third_one_guilty(
    data: st.DataObject, count: int, share: float, seed: int
):
    flaky = data.draw(st.sets(st.integers(0, count - 1), min_size=2, max_size=2))
    assert trial(count, flaky=dict.fromkeys(flaky, share), seed=seed).convicted <= flaky


def test_two_bad_partners_of_three_convict_nobody_and_three_good_ones_do():
    """Two may be those that fail now and then; three that do well with all others are no chance."""
    pairs = list(itertools.combinations(range(6), 2))

    def met(*bad: tuple[int, int]) -> list[Meeting]:
        return [Meeting(pair, pair not in bad, 1.0, 1.0) for pair in pairs]

    assert not judge(met((0, 1), (0, 2))).convicted
    assert judge(met((0, 1), (0, 2), (0, 3))).failed.nodes == (0,)
    rarely = [
        Meeting(pair, pair not in ((0, 1), (0, 2), (0, 3)), 1.0, 1.0) for pair in itertools.combinations(range(9), 2)
    ]
    assert judge(rarely).failed.nodes == (0,)
    slow = [Meeting(meeting.nodes, True, *((1.0, 1.0) if meeting.right else (9.0, 9.0))) for meeting in rarely]
    assert not judge(slow).convicted


def test_a_node_that_fails_in_half_of_its_pairings_is_usually_found():
    found = [bool(trial(20, flaky={7: 0.5}, seed=seed).convicted) for seed in range(60)]
    assert sum(found) >= 42


def test_of_two_nodes_none_is_blamed():
    judgement = trial(2, dead={1})
    assert not judgement.convicted
    assert judgement.failed.undecided == ((0, 1),)


def test_of_three_nodes_the_faulty_one_is_found():
    assert trial(3, dead={1}).failed.nodes == (1,)


def test_one_witness_is_not_enough():
    """Node 2 may be faulty, and the link of 0 and 1: it met nobody else."""
    judgement = judge([Meeting((0, 1), False), Meeting((0, 2), False), Meeting((1, 3), True, 1.0, 1.0)])
    assert not judgement.convicted
    assert judgement.failed.undecided == ((0, 1), (0, 2))


def test_a_pair_that_failed_once_and_went_right_once_is_no_faulty_link():
    meetings = [Meeting(pair, True, 1.0, 1.0) for pair in itertools.combinations(range(5), 2)]
    judgement = judge([*meetings, Meeting((1, 3), False)])
    assert not judgement.failed.links
    assert judgement.failed.undecided == ((1, 3),)


def test_a_node_known_to_be_faulty_does_not_count_against_others():
    meetings = [Meeting((0, 1), False), Meeting((0, 2), False), Meeting((1, 2), True, 1.0, 1.0)]
    assert judge(meetings, out={0}) == judge([Meeting((1, 2), True, 1.0, 1.0)])


def test_more_rounds_follow_while_nobody_can_be_named():
    """With five nodes and a rest in each round, three rounds may leave a faulty one with a single good partner."""
    pairs = list(itertools.combinations(range(5), 2))
    assert all(set(trial(5, dead=set(pair)).failed.nodes) == set(pair) for pair in pairs)


def test_a_node_that_failed_with_three_meets_no_more():
    course, meetings = Course(12, 12), []
    while pairs := course.next(meetings, ()):
        meetings += [Meeting(pair, 5 not in pair, 1.0, 1.0) for pair in pairs]
    assert sum(5 in meeting.nodes for meeting in meetings) == 3
    assert judge(meetings).failed.nodes == (5,)


def test_what_was_slow_twice_is_tried_a_third_time():
    course, meetings = Course(6, 3), []
    while pairs := course.next(meetings, ()):
        for pair in pairs:
            before = [meeting.nodes for meeting in meetings].count(pair)
            seconds = 9.0 if pair == (0, 5) and before < 2 else 1.0
            meetings.append(Meeting(pair, True, seconds, seconds))
    assert not judge(meetings).slow.links


def test_what_was_slow_once_is_tried_again():
    course, meetings = Course(6, 3), []
    while pairs := course.next(meetings, ()):
        for pair in pairs:
            first = pair not in [meeting.nodes for meeting in meetings]
            seconds = 9.0 if pair == (0, 5) and first else 1.0
            meetings.append(Meeting(pair, True, seconds, seconds))
    assert [meeting.nodes for meeting in meetings].count((0, 5)) == 2
    assert not judge(meetings).slow.links


# --- rank 0, with ranks that are played ---

Answer = dict[str, Any]
RIGHT: Answer = {"ended": "done", "phase": "computing", "wrong": 0, "compared": 100, "seconds": 0.01, "quick": 0.009}
LATE: Answer = {"ended": "late", "phase": "computing", "words": ""}


class Played:
    """A member whose store and other ranks are played: `answer` says what a rank does with its partners."""

    def __init__(
        self, ranks: int, per_node: int, answer: Callable[[int, set[int]], Answer | None], **seen: Any
    ) -> None:
        self.orders: dict[str, Answer] = {}
        self._groups: dict[str, set[int]] = {}
        self._answer = answer
        self._store = {
            f"hello/{rank}": {
                "name": f"n{rank // per_node}", "agent": str(rank // per_node), "local_rank": rank % per_node,
                "torch": "2.9.1+cu128", "ended": "done", "nccl": True, "gloo": True, "rocm": False, "gpus": per_node,
                "gpu": "NVIDIA H100", **seen,
            }
            for rank in range(ranks)
        }  # fmt: skip

    def forget(self, rank: int) -> None:
        del self._store[f"hello/{rank}"]

    def change(self, rank: int, **seen: Any) -> None:
        self._store[f"hello/{rank}"].update(seen)

    def set(self, key: str, value: str) -> None:
        self.orders[key] = json.loads(value)

    def get(self, key: str, seconds: float) -> str | None:
        what, *where = key.split("/")
        if what == "hello":
            return json.dumps(self._store[key]) if key in self._store else None
        step, rank = where
        order = self.orders.get(f"order/{step}/{rank}", {})
        answer = self._played(int(rank), order["group"]["name"]) if order.get("group") else {}
        return None if answer is None else json.dumps(answer)

    def run(self, what: str, seconds: float, task: Answer) -> Answer:
        return self._played(0, task["prefix"].partition("/0/")[2]) or {}

    def _played(self, rank: int, group: str) -> Answer | None:
        name = group.partition("/")[2]
        together = {int(one) for one in name.split("-")} if name else {rank}
        return self._answer(rank, together)


def lead_of(member: Played, ranks: int, **wanted: Any) -> Coordinator:
    place = JobRank(0, ranks, 0, "0", "n0", 29500, False, "0", "n0")
    rank = Rank(place, member)  # type: ignore[arg-type]
    return Coordinator(rank, PairOptions(**{"rounds": 3, "seconds": 60.0, **wanted}), lambda stage: None)


def report_of_ranks(member: Played, ranks: int, **wanted: Any) -> PairReport:
    return report_of(lead_of(member, ranks, **wanted).test(), pair_checks())


def screen(report: PairReport) -> str:
    return "\n".join("".join(text for text, _ in line) for line in pair_lines(report))


def test_a_healthy_fleet_is_told_with_its_speed():
    report = report_of_ranks(Played(8, 2, lambda rank, group: RIGHT), 8)
    assert (report.verdict, report.exit_code, report.problems, report.exclude) == ("ok", 0, (), ())
    assert [node.name for node in report.nodes] == ["n0", "n1", "n2", "n3"]
    assert report.usual_gb_per_s == pytest.approx((256 << 20) / 0.01 / 1e9, abs=0.01)  # 2 (n - 1) / n is 1 for pairs
    assert report.together is not None
    assert report.together.ranks == 8
    assert report.together.gb_per_s == pytest.approx(report.usual_gb_per_s * 2 * 7 / 8, rel=0.001)
    assert screen(report).startswith("No fault found. 4 nodes over nccl, torch 2.9.1+cu128")


@pytest.mark.parametrize(
    ("ports", "seconds", "ids"),
    [
        # 256 MiB in 10 ms are 26.8 GB/s; two ranks of a node share its ports.
        ([400.0, 400.0], 0.01, []),
        ([400.0, 400.0], 0.03, ["GPD749"]),
        ([100.0], 0.03, []),
        ([], 9.0, []),
    ],
)
def test_a_fleet_that_is_slow_as_a_whole_is_told_where_its_ports_are_known(
    ports: list[float], seconds: float, ids: list[str]
):
    right = {**RIGHT, "seconds": seconds, "quick": seconds}
    report = report_of_ranks(Played(8, 2, lambda rank, partners: right, ports=ports), 8)
    assert [problem.id for problem in report.problems] == ids
    assert report.verdict == ("warning" if ids else "ok")
    if ids:
        assert "The usual pairing reaches 8.948 GB/s; RDMA ports give each rank 50 GB/s." in screen(report)


@pytest.mark.parametrize(("gpu", "ids"), [("NVIDIA H100 80GB HBM3", ["GPD749"]), ("NVIDIA H100 PCIe", [])])
def test_gpus_of_one_machine_are_compared_with_their_links(gpu: str, ids: list[str]):
    right = {**RIGHT, "seconds": 0.01, "quick": 0.01}
    played = Played(8, 8, lambda rank, partners: right, gpu=gpu)
    trials = lead_of(played, 8, rounds=3, seconds=60.0).test()
    assert [problem.id for problem in report_of(trials, pair_checks(), matrix=matrix()).problems] == ids


def test_only_active_ports_carry_something():
    devices = (roce("mlx5_0"), roce("mlx5_1", state="DOWN"), roce("mlx5_2", rate=""))
    assert port_rates(with_network(nvidia_machine(), *devices).network) == [400.0]


def test_a_gpu_that_hangs_names_its_node_and_the_gpu():
    report = report_of_ranks(Played(8, 2, lambda rank, group: LATE if 5 in group else RIGHT), 8)
    assert (report.verdict, report.exit_code, report.exclude) == ("error", 1, ("n2",))
    assert [problem.id for problem in report.problems] == ["GPD741"]
    assert "n2 failed in 3 of 3 pairings (no end within 60 s, in the all-reduce, GPU 1" in report.problems[0].message
    assert report.together is not None
    assert report.together.nodes == 3
    assert screen(report).endswith("Start jobs without them: --exclude=n2")


def test_a_node_that_fails_by_itself_needs_no_witness():
    def answer(rank: int, group: set[int]) -> Answer:
        if rank == 1:
            return {
                "ended": "raised",
                "reason": "RuntimeError: CUDA error: unknown error",
                "memory": False,
                "words": "",
            }
        return LATE if 1 in group else RIGHT

    report = report_of_ranks(Played(2, 1, answer), 2)
    assert [(problem.id, problem.nodes) for problem in report.problems] == [("GPD740", ("n1",))]
    assert (report.exit_code, report.exclude) == (1, ("n1",))


def test_a_gpu_that_others_use_is_not_faulty():
    def answer(rank: int, group: set[int]) -> Answer:
        if rank == 3:
            return {"ended": "raised", "reason": "OutOfMemoryError: CUDA out of memory", "memory": True, "words": ""}
        return LATE if 3 in group else RIGHT

    report = report_of_ranks(Played(5, 1, answer), 5)
    assert (report.verdict, report.exit_code, report.problems, report.exclude) == ("unknown", 3, (), ())
    assert report.not_judged == ("n3 is in use: OutOfMemoryError: CUDA out of memory",)


def test_of_two_nodes_it_is_said_that_none_can_be_named():
    report = report_of_ranks(Played(2, 1, lambda rank, group: LATE), 2)
    assert (report.exit_code, report.exclude) == (1, ())
    assert "With two nodes it cannot be told which one is faulty" in report.problems[0].message


def test_where_nothing_goes_right_the_cause_is_common():
    report = report_of_ranks(Played(6, 1, lambda rank, group: LATE), 6)
    assert (report.exit_code, report.exclude) == (1, ())
    assert [problem.id for problem in report.problems] == ["GPD746"]
    assert "the cause is probably common to all nodes" in report.problems[0].message


def test_wrong_data_is_told_as_such():
    wrong = {**RIGHT, "wrong": 22}
    report = report_of_ranks(Played(5, 1, lambda rank, group: wrong if 4 in group else RIGHT), 5)
    assert [(problem.id, problem.nodes) for problem in report.problems] == [("GPD742", ("n4",))]
    assert "22 of 100 values are wrong" in report.problems[0].message


def test_what_the_faulty_side_says_is_told_not_what_its_partner_noticed():
    gloo = (
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.1]:51606: Connection reset by "
    )
    gone = {
        "ended": "raised",
        "phase": "computing",
        "reason": f"RuntimeError: {gloo}peer. This is typically caused by",
    }
    crash = {"ended": "-11", "phase": "computing", "words": "Fatal error"}
    report = report_of_ranks(
        Played(5, 1, lambda rank, group: crash if rank == 4 else gone if 4 in group else RIGHT), 5
    )
    assert "(ended by SIGSEGV (Fatal error), in the all-reduce)" in report.problems[0].message
    details = {pairing.detail for pairing in report.pairings if "n4" in pairing.nodes}
    assert "RuntimeError: Read error [10.0.0.1]:51606: Connection reset by peer, in the all-reduce" in details


def test_of_two_faulty_nodes_each_is_told_what_it_did_with_good_ones():
    wrong = {**RIGHT, "wrong": 22}
    report = report_of_ranks(
        Played(6, 1, lambda rank, group: LATE if 1 in group else wrong if 4 in group else RIGHT), 6
    )
    assert sorted((problem.id, problem.nodes) for problem in report.problems) == [
        ("GPD741", ("n1",)),
        ("GPD742", ("n4",)),
    ]
    assert {node.name: node.state for node in report.nodes if node.state != "ok"} == {"n1": "failed", "n4": "wrong"}


def test_a_slow_node_is_a_warning():
    slow = {**RIGHT, "seconds": 0.05, "quick": 0.04}
    report = report_of_ranks(Played(6, 1, lambda rank, group: slow if 4 in group else RIGHT), 6)
    assert [(problem.id, problem.severity, problem.nodes) for problem in report.problems] == [
        ("GPD743", "warning", ("n4",))
    ]
    assert (report.verdict, report.exit_code, report.exclude) == ("warning", 0, ("n4",))


def test_a_rank_that_never_came_is_a_row():
    member = Played(4, 1, lambda rank, group: RIGHT)
    member.forget(2)
    report = report_of_ranks(member, 4)
    assert (report.verdict, report.exit_code) == ("unknown", 3)
    assert "rank 2 did not answer" in report.not_judged[0]


def test_a_rank_that_stops_answering_is_excluded_and_costs_the_others_nothing():
    member = Played(5, 1, lambda rank, group: None if rank == 3 else LATE if 3 in group else RIGHT)
    report = report_of_ranks(member, 5)
    assert (report.exit_code, report.exclude) == (3, ("n3",))
    assert report.not_judged == ("n3 stopped answering",)
    assert not report.problems
    assert [key for key in member.orders if key.endswith("/3")] == ["order/0/3"]


def test_where_no_node_can_take_part_none_is_blamed():
    refused = {"ended": "raised", "reason": "RuntimeError: no driver", "memory": False, "words": ""}
    report = report_of_ranks(Played(4, 1, lambda rank, group: refused), 4)
    assert (report.exit_code, report.problems, report.exclude) == (3, (), ())
    assert report.not_judged == ("no node could take part: RuntimeError: no driver",)


def test_a_node_without_gpus_among_many_with_is_the_faulty_one():
    def answer(rank: int, group: set[int]) -> Answer:
        if rank == 2:
            return {"ended": "raised", "reason": "RuntimeError: torch sees no GPU here", "memory": False, "words": ""}
        return LATE if 2 in group else RIGHT

    member = Played(5, 1, answer)
    member.change(2, gpus=0)
    report = report_of_ranks(member, 5)
    assert (report.backend, report.exclude) == ("nccl", ("n2",))
    assert "torch sees no GPU here" in report.problems[0].message


def test_a_gang_that_fails_where_all_pairs_did_well_is_told():
    report = report_of_ranks(Played(4, 1, lambda rank, group: RIGHT if len(group) == 2 else LATE), 4)
    assert [problem.id for problem in report.problems] == ["GPD747"]
    assert (report.exit_code, report.exclude) == (1, ())


def test_the_gpus_of_one_node_are_paired():
    report = report_of_ranks(Played(4, 4, lambda rank, group: LATE if 3 in group else RIGHT), 4)
    assert (report.between, report.exclude) == ("gpus", ("n0 GPU 3",))
    assert "--exclude" not in screen(report)


def test_rccl_has_its_own_name():
    assert report_of_ranks(Played(4, 1, lambda rank, group: RIGHT, rocm=True), 4).backend == "rccl"


def test_a_torch_without_a_backend_is_not_judged():
    report = report_of_ranks(Played(4, 1, lambda rank, group: RIGHT, nccl=False, gloo=False), 4)
    assert (report.exit_code, report.verdict) == (3, "unknown")


def test_every_rank_gets_the_same_end():
    member = Played(4, 1, lambda rank, group: RIGHT)
    lead = lead_of(member, 4)
    lead.test()
    lead.end(1)
    ends = [key for key, order in member.orders.items() if order["do"] == "end"]
    assert {key.rpartition("/")[2] for key in ends} == {"1", "2", "3"}
    assert all(member.orders[key]["code"] == 1 for key in ends)


# --- the place ---

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "GROUP_RANK": "1", "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True", "SLURMD_NODENAME": "gpu07",
}  # fmt: skip


def test_the_place_is_read_from_what_torchrun_sets():
    place = job_rank(TORCHRUN)
    assert (place.rank, place.size, place.local_rank, place.name, place.serves) == (3, 8, 1, "gpu07", False)


def test_rank_0_has_the_store_where_torchrun_has_none():
    assert job_rank({**TORCHRUN, "RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "False"}).serves


@pytest.mark.parametrize("change", [{"RANK": ""}, {"WORLD_SIZE": "x"}, {"RANK": "9"}])
def test_outside_of_torchrun_it_is_said_how_to_start_it(change: dict[str, str]):
    with pytest.raises(InputError):
        job_rank({**TORCHRUN, **change})
