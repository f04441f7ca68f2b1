"""`fleet report`: which node is odd, who is not accused, what documents that nobody can read come to."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from gpudoctor.cli import gpudoctor
from gpudoctor.fleet import judged_nodes as fleet_nodes
from gpudoctor.fleet.documents import Document, document
from gpudoctor.fleet.judged_nodes import Node, Reader
from gpudoctor.fleet.merge import merge
from gpudoctor.fleet.names import expanded, folded
from gpudoctor.fleet.records import FleetReport
from gpudoctor.host import InputError
from gpudoctor.intake.snapshot import Snapshot
from gpudoctor.machine import Machine, known
from gpudoctor.matrix.questions import Matrix
from gpudoctor.render.fleet import write_fleet
from gpudoctor.testing import amd_gpu, amd_machine, no_gpu_machine, nvidia_gpu, nvidia_machine, torch
from tests.support.check_cases import matrix
from tests.support.faulty_machines import MACHINES
from tests.support.fleet_nodes import KINDS
from tests.support.fleets import FOR_NVIDIA, ODDITIES, Fleet, fleet
from tests.support.in_process import invoked


def merged(machines: dict[str, Machine], **options: Any) -> FleetReport:
    return merge(Fleet(machines).documents(), matrix(), **options)


def odd(report: FleetReport) -> set[tuple[str, str]]:
    return {(node.name, one.fact) for node in report.nodes for one in node.odd}


def nodes(count: int, **odd_ones: Machine) -> dict[str, Machine]:
    return {**{f"gpu{number:02d}": KINDS["h100"] for number in range(count)}, **odd_ones}


def run(*arguments: str, text: str | None = None) -> Result:
    return invoked("fleet", "report", *arguments, given=text)


def written(folder: Path, machines: dict[str, Machine]) -> Path:
    for name, machine in machines.items():
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(Snapshot(machine=machine)))
    return folder


# --- who is odd ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_what_is_odd_in_a_made_up_fleet_is_found_and_nobody_else_is_accused(seed: int) -> None:
    source = random.Random(seed)
    made = fleet(source, source.choice((8, 12, 24, 48))).with_noise(source)
    assert odd(merged(made.machines)) == made.odd


@pytest.mark.parametrize("fact", [*ODDITIES, *FOR_NVIDIA])
def test_a_difference_is_found_whatever_the_order_of_the_nodes(fact: str) -> None:
    changed = {**ODDITIES, **FOR_NVIDIA}[fact]({**KINDS}["h100"])
    machines = nodes(4, gpu99=changed)
    backwards = dict(reversed(machines.items()))
    for report in (merged(machines), merged(backwards)):
        assert ("gpu99", fact) in odd(report)
        assert {name for name, _ in odd(report)} == {"gpu99"}


def test_equal_nodes_are_silent_and_two_that_differ_accuse_nobody() -> None:
    assert merged(nodes(8)).verdict == "ok"
    report = merged(nodes(1, gpu99=ODDITIES["kernel"](KINDS["h100"])))
    assert odd(report) == set()
    assert [one.fact for one in report.undecided] == ["kernel"]
    assert report.verdict == "ok"  # a note by its weight


def test_without_a_majority_nobody_is_accused() -> None:
    four = {f"n{number}": ODDITIES["shm"](KINDS["h100"]) if number % 2 else KINDS["h100"] for number in range(4)}
    report = merged(four)
    assert odd(report) == set()
    assert [fact.fact for fact in report.undecided] == ["shm"]
    assert (report.verdict, report.exit_code) == ("warning", 0)
    assert {node.verdict for node in report.nodes} == {"ok"}


def test_nodes_without_gpus_that_differ_give_the_fleet_no_warning() -> None:
    plain = no_gpu_machine()
    roles = {"login1": "login", "login2": "login"}
    machines = {"login1": plain, "login2": replace(plain, system=replace(plain.system, memory=known(1 << 40, "")))}
    report = merged(nodes(4) | machines, roles=roles)
    assert ([one.fact for one in report.undecided], report.verdict) == (["memory"], "ok")


def with_driver(machine: Machine, version: str) -> Machine:
    module = machine.nvidia.module
    assert module.value
    return replace(machine, nvidia=replace(machine.nvidia, module=known(replace(module.value, version=version), "")))


def test_where_kinds_of_gpu_differ_each_has_its_own_norm() -> None:
    h100, a100 = KINDS["h100"], with_driver(KINDS["a100"], "575.57.08")
    kinds = {**{f"h{n}": h100 for n in range(4)}, **{f"a{n}": a100 for n in range(3)}}
    report = merged({**kinds, "a3": with_driver(a100, "570.133.20")})
    assert (odd(report), [one.fact for one in report.undecided]) == ({("a3", "nvidia.driver")}, [])
    few = merged({name: kinds[name] for name in ("h0", "h1", "a0", "a1")})
    assert (odd(few), [one.fact for one in few.undecided]) == (set(), ["nvidia.driver"])


def test_a_smaller_kind_of_gpu_that_agrees_is_not_accused_by_a_larger_one() -> None:
    h100, a100 = KINDS["h100"], with_driver(KINDS["a100"], "575.57.08")
    kinds = {**{f"h{n}": h100 for n in range(9)}, **{f"a{n}": a100 for n in range(4)}}
    assert odd(merged(kinds)) == set()
    assert odd(merged({**kinds, "a4": with_driver(a100, "570.133.20")})) == {("a4", "nvidia.driver")}
    assert odd(merged({**kinds, "h9": with_driver(h100, "570.133.20")})) == {("h9", "nvidia.driver")}
    two = {name: kinds[name] for name in kinds if name not in ("a2", "a3")}  # too few to have a norm
    assert odd(merged(two)) == {("a0", "nvidia.driver"), ("a1", "nvidia.driver")}


def test_nodes_of_another_kind_are_not_measured_by_the_majority() -> None:
    machines = nodes(20, **{f"amd{number}": KINDS["mi300"] for number in range(3)}, login=no_gpu_machine())
    assert odd(merged(machines)) == set()


def test_a_node_that_lost_all_its_gpus_is_one_of_those_that_are_named_alike() -> None:
    machines = nodes(5, gpu77=replace(KINDS["h100"], gpus=()))
    report = merged(machines)
    assert ("gpu77", "gpus") in odd(report)
    assert report.verdict == "error"


def test_a_difference_that_breaks_a_rule_has_the_severity_of_the_problem() -> None:
    broken = MACHINES["driver-lib-mismatch"]
    healthy = nvidia_machine(*broken.gpus)
    report = merged({**{f"n{number}": healthy for number in range(4)}, "n9": broken})
    (node,) = [node for node in report.nodes if node.name == "n9"]
    severities = {one.fact: one.severity for one in node.odd}
    assert node.verdict == "error"
    assert "error" in severities.values()
    assert all(other.verdict == "ok" for other in report.nodes if other.name != "n9")


def test_a_good_node_is_the_norm_that_is_asked_for() -> None:
    machines = {name: ODDITIES["shm"](KINDS["h100"]) for name in ("a1", "a2", "a3")}
    report = merged(machines, golden=Document("golden", machine=KINDS["h100"]))
    assert {name for name, fact in odd(report) if fact == "shm"} == {"a1", "a2", "a3"}


def test_one_plan_serves_all_nodes_with_one_problem() -> None:
    broken = MACHINES["torch-no-arch-for-gpu"]
    report = merged({f"n{number}": broken for number in range(5)})
    (group,) = report.groups
    assert len(group.nodes) == 5
    assert group.fixes
    assert group.problems[0].slug == "torch-no-arch-for-gpu"


H100 = nvidia_gpu("NVIDIA H100 80GB HBM3", "sm_90")
B200 = nvidia_gpu("NVIDIA B200", "sm_100")
MI300X = amd_gpu("AMD Instinct MI300X", "gfx942")


@pytest.mark.parametrize(
    ("broken", "others", "installs"),
    [
        pytest.param(
            nvidia_machine(H100, driver="570.124.06", torch=torch("2.13.0+cu130")),
            nvidia_machine(H100, driver="570.124.06", torch=torch("2.9.1+cu128")),
            "torch==2.9.1+cu128",
            id="a torch for a newer driver",
        ),
        pytest.param(
            nvidia_machine(B200, torch=torch("2.6.0+cu124")),
            nvidia_machine(B200, torch=torch("2.9.1+cu128")),
            "torch==2.9.1+cu128",
            id="a torch for older GPUs",
        ),
        pytest.param(
            amd_machine(MI300X, torch=torch("2.9.1+cu128")),
            amd_machine(MI300X, torch=torch("2.8.0+rocm6.3")),
            "torch==2.8.0+rocm6.3",
            id="a torch for the other vendor",
        ),
        pytest.param(
            nvidia_machine(driver="535.183.01", torch=torch("2.9.1+cu130")),
            nvidia_machine(driver="580.95.05", torch=torch("2.9.1+cu130")),
            "nvidia-driver-580-open",
            id="a driver too old for the torch of all",
        ),
    ],
)
def test_a_broken_node_is_made_like_those_that_work(broken: Machine, others: Machine, installs: str) -> None:
    report = merged({**{f"n{number}": others for number in range(3)}, "odd": broken})
    (node,) = (node for node in report.nodes if node.odd)
    (group,) = (group for group in report.groups if node.name in group.nodes)
    assert node.name == "odd"
    assert "error" in {one.severity for one in node.odd}
    assert installs in str(group.fixes[0].steps[0])


def test_a_fleet_whose_torch_works_nowhere_is_no_model() -> None:
    old = nvidia_machine(H100, driver="570.124.06", torch=torch("2.13.0+cu130"))
    older = nvidia_machine(H100, driver="570.124.06", torch=torch("2.12.0+cu130"))
    report = merged({**{f"n{number}": old for number in range(3)}, "odd": older})
    installed = {
        word for group in report.groups for word in getattr(group.fixes[0].steps[0], "argv", ()) if "==" in word
    }
    assert installed == {"torch==2.13.0+cu126", "torch==2.12.0+cu126"}


# --- documents -------------------------------------------------------------------------------------


def test_a_folder_of_snapshots_and_reports_is_merged(tmp_path: Path) -> None:
    written(tmp_path, nodes(3))
    (tmp_path / "gpu50.json").write_text(
        '{"schema": 1, "node": "gpu50", "verdict": "unknown", "failure": "no answer"}'
    )
    (tmp_path / "gpu51.json").write_text("not json")
    (tmp_path / "notes.txt").write_text("not a document")
    result = run(str(tmp_path), "--expect", "gpu[00-03]", "--format", "json")
    data = json.loads(result.stdout)
    assert result.return_value == 3
    rows = {node["name"]: node for node in data["nodes"]}
    assert rows["gpu50"]["why"] == "no answer"
    assert "not a document of gpudoctor" in rows["gpu51"]["why"]
    assert data["missing"] == ["gpu03"]
    assert rows["gpu00"]["verdict"] == "ok"


def test_a_report_brings_its_own_findings(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_bytes(msgspec.json.encode(Snapshot(machine=MACHINES["torch-no-arch-for-gpu"])))
    told = CliRunner().invoke(
        gpudoctor, ["check", "--from", str(snapshot), "--format", "json"], standalone_mode=False
    )
    own = json.loads(told.stdout)
    own["node"] = "gpu07"
    result = run("-", "--format", "json", text=json.dumps(own) + "\n")
    data = json.loads(result.stdout)
    (node,) = data["nodes"]
    assert node["name"] == "gpu07"
    assert node["verdict"] == own["verdict"]
    wanted = [finding["id"] for finding in own["findings"] if finding["severity"] != "note"]
    assert node["problems"] == wanted
    assert data["groups"][0]["fixes"][0] == own["findings"][0]["fixes"][0]


def test_two_documents_of_one_name_are_both_rows() -> None:
    twice = [Document("n1", machine=KINDS["h100"]), Document("n1", machine=KINDS["a100"])]
    report = merge(twice, matrix())
    assert [node.name for node in report.nodes] == ["n1", "n1 (2)"]
    assert report.verdict == "unknown"


def test_hostile_documents_are_rows_and_never_faults(tmp_path: Path) -> None:
    sound = msgspec.json.encode(Snapshot(machine=KINDS["h100"]))
    source = random.Random(7)
    for number in range(150):
        content = bytearray(sound)
        for _ in range(source.randint(1, 30)):
            content[source.randrange(len(content))] = source.randrange(256)
        cut = bytes(content[: source.randrange(len(content))]) if number % 3 == 0 else bytes(content)
        assert document(cut, "n1").name
    (tmp_path / "deep.json").write_text("[" * 100_000)
    named = {"node": "\x1b[31m`@all`</b>", "failure": "\x1b]0;x\x07<script>"}
    (tmp_path / "name.json").write_text(json.dumps(named))
    (tmp_path / "empty.json").write_text("")
    for style in ("text", "json", "junit", "openmetrics", "markdown"):
        said = run(str(tmp_path), "--format", style).stdout
        assert "\x1b" not in said
        assert "\x07" not in said


def test_the_order_of_the_documents_changes_nothing() -> None:
    made = fleet(random.Random(3), 24)
    machines = {**made.machines, "x1": MACHINES["driver-lib-mismatch"], "x2": MACHINES["torch-no-arch-for-gpu"]}
    first = merged(machines)
    for seed in range(3):
        shuffled = list(machines.items())
        random.Random(seed).shuffle(shuffled)
        assert merged(dict(shuffled)) == first


def test_the_others_are_those_that_a_node_is_compared_with() -> None:
    changed = FOR_NVIDIA["package.nvidia-nccl-cu12"](KINDS["h100"])
    report = merged(nodes(6, gpu07=changed, **{f"amd{number}": KINDS["mi300"] for number in range(10)}))
    (node,) = [node for node in report.nodes if node.name == "gpu07"]
    assert [one.others for one in node.odd] == [6]


def test_a_fault_on_one_node_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Reader.node

    def faulty(self: Reader, document: Document) -> Node:
        if document.name == "gpu01":
            raise ZeroDivisionError("a check")
        return sound(self, document)

    monkeypatch.setattr(Reader, "node", faulty)
    report = merged(nodes(4))
    assert [node.verdict for node in report.nodes] == ["ok", "unknown", "ok", "ok"]
    assert "a fault of gpudoctor" in report.nodes[1].why


@pytest.mark.parametrize("name", ["²", "gpu5²", "٣", "", "-rf", "a\nb"])
def test_a_node_may_have_any_name(name: str) -> None:
    report = merged({name: KINDS["h100"], "gpu1": KINDS["h100"]})
    assert {node.name for node in report.nodes} == {name, "gpu1"}
    for style in ("text", "json", "junit", "openmetrics", "markdown"):
        write_fleet(report, style, io.StringIO())


def test_a_path_that_is_not_there_is_said() -> None:
    with pytest.raises(InputError, match="nowhere"):
        run("/nowhere/at/all")


# --- what is printed -------------------------------------------------------------------------------


def test_the_text_names_the_odd_nodes_together_and_what_most_have(tmp_path: Path) -> None:
    changed = FOR_NVIDIA["package.nvidia-nccl-cu12"](KINDS["h100"])
    said = run(str(written(tmp_path, nodes(6, gpu07=changed, gpu08=changed)))).stdout
    assert "gpu[07-08]" in said
    assert "nvidia-nccl-cu12 2.21.5; 6 others: " in said


def test_bad_nodes_are_named_in_lines_that_are_only_shown(tmp_path: Path) -> None:
    said = run(str(written(tmp_path, nodes(4, gpu17=MACHINES["torch-no-arch-for-gpu"])))).stdout
    assert "--exclude=gpu17" in said
    assert "kubectl cordon gpu17" in said


def test_a_node_is_drained_for_its_own_reason(tmp_path: Path) -> None:
    bad = nodes(4, gpu17=MACHINES["torch-no-arch-for-gpu"], gpu18=MACHINES["driver-too-old"])
    said = run(str(written(tmp_path, bad))).stdout
    drained = [line for line in said.splitlines() if "state=drain" in line]
    assert len(drained) == 2
    assert any("nodename=gpu17" in line and "torch-no-arch-for-gpu" in line for line in drained)
    assert any("nodename=gpu18" in line and "driver-too-old" in line for line in drained)
    assert not any("torch-no-arch-for-gpu" in line and "driver-too-old" in line for line in drained)


@pytest.mark.parametrize("slug", ["job-without-gpu", "container-no-gpu"])
def test_a_node_is_not_drained_because_a_job_asked_for_no_gpu(tmp_path: Path, slug: str) -> None:
    said = run(str(written(tmp_path, nodes(4, gpu17=MACHINES[slug])))).stdout
    assert slug in said
    assert "state=drain" not in said and "--exclude" not in said and "cordon" not in said


def test_markdown_has_the_plan_and_nothing_that_a_shell_takes_for_a_command(tmp_path: Path) -> None:
    page = run(
        str(written(tmp_path, nodes(4, gpu17=MACHINES["torch-no-arch-for-gpu"]))), "--format", "markdown"
    ).stdout
    assert "### Plan for `gpu17`" in page and "pip install" in page
    assert "`sbatch, srun`:\n\n```\n--exclude=gpu17\n```" in page
    assert "```sh" not in page


def test_forms_for_machines_can_be_read_by_machines(tmp_path: Path) -> None:
    written(tmp_path, nodes(3, gpu17=MACHINES["torch-no-arch-for-gpu"]))
    root = ElementTree.fromstring(run(str(tmp_path), "--format", "junit").stdout)
    assert root.get("tests") == str(len(root.findall("testsuite/testcase")))
    assert root.get("failures") == str(len(root.findall("testsuite/testcase/failure"))) != "0"
    metrics = run(str(tmp_path), "--format", "openmetrics").stdout
    assert metrics.endswith("# EOF\n")
    assert 'gpudoctor_nodes{verdict="error"} 1' in metrics


# --- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("gpu[01-64]", 64), ("gpu[1-3,7],login1", 5), ("a,b", 2), ("rack1-n[098-101].cluster", 4)],
)
def test_folded_names_are_expanded_and_folded_again(pattern: str, count: int) -> None:
    names = expanded(pattern)
    assert len(names) == count
    assert sorted(expanded(folded(names))) == sorted(names)


@pytest.mark.parametrize("pattern", ["gpu[1-", "gpu[a-b]", "", "gpu[1-999999999]"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InputError):
        expanded(pattern)


# --- equal nodes -----------------------------------------------------------------------------------


def test_nodes_that_differ_by_a_little_are_judged_once_and_a_full_gpu_is_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[Machine] = []

    def judge_and_count(machine: Machine, matrix: Matrix) -> fleet_nodes.NodeJudgement:
        judged.append(machine)
        return fleet_nodes.NodeJudgement("ok", ())

    def used(memory: int, system: int) -> Machine:
        first, *rest = KINDS["h100"].gpus
        assert first.nvml
        busy = replace(first, nvml=replace(first.nvml, memory=80 << 30, memory_used=memory))
        changed = replace(KINDS["h100"], gpus=(busy, *rest))
        return replace(changed, system=replace(changed.system, memory=known((512 << 30) + system, "made up")))

    monkeypatch.setattr(fleet_nodes, "judge_machine", judge_and_count)
    merged({f"n{number}": used(number << 20, number << 12) for number in range(20)})
    assert len(judged) == 1
    merged({"idle": used(1 << 20, 0), "full": used(79 << 30, 0)})
    assert len(judged) == 3


@pytest.mark.parametrize("slug", [name for place, name in enumerate(MACHINES) if place % 8 == 0])
def test_what_makes_nodes_equal_decides_no_judgement(slug: str) -> None:
    machine = MACHINES[slug]
    exact, coarse = (fleet_nodes.judge_machine(one, matrix()) for one in (machine, fleet_nodes.coarse(machine)))
    assert [one.id for one in exact.findings] == [one.id for one in coarse.findings]


def test_nodes_whose_gpu_is_part_of_the_processor_have_one() -> None:
    """A GB10 computes: it is not left out as the display chip of a server is."""
    board = nvidia_machine(nvidia_gpu("NVIDIA GB10", "sm_121", integrated=True))
    (group,) = merged({f"spark{number}": board for number in range(3)}).groups
    assert (group.gpu, group.gpus) == ("NVIDIA GB10", 1)
