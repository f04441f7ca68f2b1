"""What a platform team does with `fleet report`: names with domains, roles, a good node, documents that are lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result
from msgspec.structs import replace

from gpudoctor.fleet import judged_nodes as fleet_nodes
from gpudoctor.fleet.documents import Document
from gpudoctor.fleet.merge import merge
from gpudoctor.fleet.names import expanded
from gpudoctor.fleet.records import FleetReport
from gpudoctor.host import InputError
from gpudoctor.intake.snapshot import Snapshot
from gpudoctor.machine import Machine
from gpudoctor.matrix.questions import Matrix
from gpudoctor.testing import no_gpu_machine
from tests.support.check_cases import matrix
from tests.support.faulty_machines import MACHINES
from tests.support.fleet_nodes import KINDS, with_noise
from tests.support.fleets import ODDITIES, Fleet
from tests.support.in_process import invoked

H100 = KINDS["h100"]


def named(pattern: str, machine: Machine = H100) -> dict[str, Machine]:
    return dict.fromkeys(expanded(pattern), machine)


def merged(machines: dict[str, Machine], **options: object) -> FleetReport:
    return merge(Fleet(machines).documents(), matrix(), **options)  # type: ignore[arg-type]


def accused(report: FleetReport) -> dict[str, list[str]]:
    return {node.name: [one.fact for one in node.odd] for node in report.nodes if node.odd}


def with_variables(machine: Machine, **variables: str) -> Machine:
    return replace(machine, variables={**machine.variables, **variables})


def without_gpus() -> Machine:
    """A login node with the environment that all nodes share: its torch is built for GPUs."""
    return replace(no_gpu_machine(), environment=H100.environment)


def run(*arguments: str, text: str | None = None) -> Result:
    return invoked("fleet", "report", *arguments, given=text)


def snapshot(machine: Machine, **keys: str) -> bytes:
    return json.dumps({**json.loads(msgspec.json.encode(Snapshot(machine=machine))), **keys}).encode()


# --- what differs by its nature ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_equal_nodes_with_all_that_differs_by_its_nature_are_silent(kind: str) -> None:
    report = merged(Fleet(named("n[1-9]", KINDS[kind])).with_noise(random.Random(5)).machines)
    assert (report.verdict, accused(report), report.undecided) == ("ok", {}, ())


def test_a_variable_that_each_node_has_for_itself_is_no_difference_and_a_split_is_one() -> None:
    own = {name: with_variables(H100, LD_LIBRARY_PATH=f"/scratch/{name}") for name in expanded("n[1-4]")}
    assert merged(own).undecided == ()
    split = {name: with_variables(H100, NCCL_ALGO="Ring" if name < "n3" else "Tree") for name in expanded("n[1-4]")}
    assert [one.fact for one in merged(split).undecided] == ["variable.NCCL_ALGO"]
    drivers = {f"n{at}": driver(f"580.{at}5.01") for at in range(3)}
    assert [one.fact for one in merged(drivers).undecided] == ["nvidia.driver"]


def driver(version: str) -> Machine:
    module = H100.nvidia.module
    assert module.value
    changed = replace(module, value=replace(module.value, version=version))
    return replace(H100, nvidia=replace(H100.nvidia, module=changed))


def test_a_variable_that_only_makes_libraries_say_more_is_a_note() -> None:
    report = merged({**named("n[1-4]"), "n5": with_variables(H100, NCCL_DEBUG="INFO")})
    assert accused(report) == {"n5": ["variable.NCCL_DEBUG"]}
    assert report.verdict == "ok"


def test_nodes_are_judged_once_whatever_differs_by_its_nature(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Machine] = []

    def judge_and_count(machine: Machine, matrix: Matrix) -> fleet_nodes.NodeJudgement:
        judged.append(machine)
        return fleet_nodes.NodeJudgement("ok", ())

    monkeypatch.setattr(fleet_nodes, "judge_machine", judge_and_count)
    source = random.Random(1)
    merged({f"n{number}": with_noise(H100, source) for number in range(60)})
    # By memory in steps, containers or none, a process that was killed or none, in a job or in none.
    assert len(judged) <= 16


def test_a_difference_is_no_error_because_of_a_problem_that_does_not_name_it() -> None:
    broken = with_variables(MACHINES["torch-no-arch-for-gpu"], NCCL_ALGO="Ring")
    healthy = replace(broken, environment=H100.environment, variables={})
    (node,) = [node for node in merged({**named("n[1-4]", healthy), "n5": broken}).nodes if node.odd]
    severities = {one.fact: one.severity for one in node.odd}
    assert severities["torch.version"] == "error"
    assert severities["variable.NCCL_ALGO"] == "warning"


# --- a good node -------------------------------------------------------------------------------------


def test_a_good_node_is_the_measure_of_its_own_kind_alone() -> None:
    fleet = {**named("gpu[1-4]"), **named("a[1-3]", KINDS["mi300"]), **named("b[1-3]", KINDS["a100"])}
    good = Document("good", machine=ODDITIES["shm"](H100))
    assert accused(merged(fleet, golden=good)) == {name: ["shm"] for name in expanded("gpu[1-4]")}
    with_roles = merged(fleet, golden=good, roles=dict.fromkeys(expanded("gpu[1-4]"), "train"))
    assert set(accused(with_roles)) == set(expanded("gpu[1-4]"))


def test_a_good_node_of_another_model_is_refused() -> None:
    with pytest.raises(InputError, match="no node has its GPUs"):
        merged(named("gpu[1-4]"), golden=Document("good", machine=KINDS["a100"]))


def test_the_screen_says_that_the_good_node_has_what_no_other_has(tmp_path: Path) -> None:
    for name in ("gpu1", "gpu2"):
        (tmp_path / f"{name}.json").write_bytes(snapshot(ODDITIES["shm"](H100)))
    good = tmp_path / "good"
    good.write_bytes(snapshot(H100))
    said = run(str(tmp_path), "--golden", str(good)).stdout
    assert "gpu[1-2]  /dev/shm 64 MiB; the good node: 1048576 MiB" in said


# --- names and roles ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "expected", "missing"),
    [
        ("gpu[01-03].cluster.local", "gpu[01-04]", ("gpu04",)),
        ("gpu[01-03]", "gpu[01-04].cluster.local", ("gpu04.cluster.local",)),
        ("gpu01.east,gpu01.west", "gpu01.east,gpu01.north", ("gpu01.north",)),
        ("10.0.0.[1-3]", "10.0.0.[1-4]", ("10.0.0.4",)),
        ("node7", "node[006-007]", ("node006", "node007")),
    ],
)
def test_an_expected_node_is_met_with_or_without_its_domain(
    nodes: str, expected: str, missing: tuple[str, ...]
) -> None:
    assert merged(named(nodes), expected=expanded(expected)).missing == missing


def test_several_ranges_in_a_name_are_all_expanded() -> None:
    assert expanded("r[1-2]n[09-10]-ib,login") == ("r1n09-ib", "r1n10-ib", "r2n09-ib", "r2n10-ib", "login")
    with pytest.raises(InputError, match="more than"):
        expanded("r[1-1000]n[1-1000]")


def test_a_list_of_expected_nodes_that_is_not_there_is_no_name_of_a_node(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_bytes(snapshot(H100))
    with pytest.raises(InputError, match=r"nodes\.txt: no such file"):
        run(str(tmp_path), "--expect", str(tmp_path / "nodes.txt"))


def test_a_node_whose_role_has_no_gpu_lacks_none_and_one_of_another_role_does() -> None:
    fleet = {**named("gpu[1-4].site"), "front.site": without_gpus()}
    lacks = {node.name: node.verdict for node in merged(fleet).nodes if node.verdict != "ok"}
    assert lacks == {"front.site": "error"}
    for role in ("login", "cpu"):
        assert merged(fleet, roles={"front": role}).verdict == "ok"
    assert merged(fleet, roles={"front": "train"}).verdict == "error"
    broken = {**fleet, "front.site": MACHINES["torch-no-arch-for-gpu"]}
    assert merged(broken, roles={"front": "login"}).verdict == "error"


# --- documents ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda text: text, lambda text: json.dumps(json.loads(text), indent=2)])
def test_documents_of_all_nodes_come_one_after_the_other(form: Callable[[bytes], str | bytes]) -> None:
    documents = [form(snapshot(H100, node=f"gpu{number}")) for number in range(3)]
    text = "\n".join(one if isinstance(one, str) else one.decode() for one in documents)
    report = json.loads(run("-", "--format", "json", text=f"{text}\n").stdout)
    assert [(node["name"], node["verdict"]) for node in report["nodes"]] == [(f"gpu{at}", "ok") for at in range(3)]


def test_a_document_with_a_byte_order_mark_is_read_and_an_empty_one_is_said(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_bytes(b"\xef\xbb\xbf" + snapshot(H100))
    (tmp_path / "n2.json").write_bytes(b"\n")
    one, two = json.loads(run(str(tmp_path), "--format", "json").stdout)["nodes"]
    assert (one["verdict"], two["why"]) == ("ok", "the document is empty")


def test_a_lost_document_takes_no_node_out_of_use(tmp_path: Path) -> None:
    for name in expanded("gpu[1-3]"):
        (tmp_path / f"{name}.json").write_bytes(snapshot(H100))
    (tmp_path / "gpu4.json").write_bytes(snapshot(H100)[:999])
    said = run(str(tmp_path), "--expect", "gpu[1-5]").stdout
    assert "--exclude=gpu[4-5]" in said
    assert "drain" not in said and "cordon" not in said
    (tmp_path / "gpu2.json").write_bytes(snapshot(replace(H100, gpus=())))
    said = run(str(tmp_path), "--expect", "gpu[1-5]").stdout
    assert "--exclude=gpu[2,4-5]" in said
    assert "kubectl cordon gpu2\n" in said


def test_a_node_that_was_never_one_with_gpus_is_asked_about_and_not_taken_out_of_use(tmp_path: Path) -> None:
    for name in expanded("gpu[1-4]"):
        (tmp_path / f"{name}.json").write_bytes(snapshot(H100))
    (tmp_path / "head.json").write_bytes(snapshot(without_gpus()))
    said = run(str(tmp_path)).stdout
    assert "head: no GPU. If none is needed there, --roles FILE with head=cpu says so." in said
    assert "cordon" not in said and "--exclude" not in said
    (tmp_path / "gpu4.json").write_bytes(snapshot(without_gpus()))
    said = run(str(tmp_path)).stdout
    assert "kubectl cordon gpu4\n" in said and "head: no GPU" in said


def test_the_first_line_says_that_nodes_differ_though_nobody_is_accused(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_bytes(snapshot(H100))
    (tmp_path / "n2.json").write_bytes(snapshot(ODDITIES["kernel"](H100)))
    assert run(str(tmp_path)).stdout.splitlines()[0] == "No problem found on 2 nodes, but they differ"


def test_a_healthy_fleet_is_told_how_to_prove_that_it_computes_together(tmp_path: Path) -> None:
    for name in ("gpu2", "gpu1"):
        (tmp_path / f"{name}.json").write_bytes(snapshot(H100))
    (tmp_path / "other.json").write_bytes(snapshot(KINDS["mi300"]))
    said = run(str(tmp_path)).stdout
    assert "Next, on each of gpu[1-2]: torchrun --nnodes 2 " in said
    assert "--rdzv-endpoint gpu1:29500 -m gpudoctor fleet pair\n" in said.replace("\\\n", "").replace("  ", "")
    (tmp_path / "gpu2.json").unlink()
    (tmp_path / "other.json").unlink()
    assert "torchrun" not in run(str(tmp_path)).stdout  # one node has nobody to compute with
