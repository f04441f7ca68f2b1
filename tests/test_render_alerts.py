"""A report as alerts: SARIF in the form that the standard and GitHub ask for, and GitLab's code quality report."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft7Validator
from msgspec.structs import replace

from gpudoctor.engine import Ignored
from gpudoctor.render.formats import report_text
from gpudoctor.report import ReportedQuestion
from tests.support.in_process import gpudoctor
from tests.support.machines import nvidia_machine, torch
from tests.test_render_formats import BLACKWELL, given_as, hostile, made_of

DOCKERFILE = (
    "FROM ubuntu:22.04\nRUN apt-get update && apt-get install -y python3-pip\n  RUN pip install torch==2.6.0\n"
)
OLD_WHEEL = nvidia_machine(BLACKWELL, driver="570.133.07", torch=torch("2.6.0+cu124"))


def text(required: bool = False) -> dict[str, Any]:
    return {"type": "string", "minLength": int(required)}


def record(required: str = "", **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


MESSAGE = record("text", text=text(True), markdown=text(True))
BAG = {"type": "object"}
REGION = record(
    "startLine", **{name: {"type": "integer", "minimum": 1} for name in ("startLine", "startColumn", "endColumn")}
)
# The part of the standard that is written here. GitHub also requires a place in a file of every result.
FORM = record(
    "$schema version runs",
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={"type": "array", "minItems": 1, "items": record(
        "tool results",
        tool=record("driver", driver=record(
            "name rules", name=text(True), version=text(), semanticVersion=text(), informationUri=text(),
            rules={"type": "array", "uniqueItems": True, "items": record(
                "id", id=text(True), name=text(), shortDescription=MESSAGE, fullDescription=MESSAGE, help=MESSAGE,
                helpUri=text(), properties=BAG,
            )},
        )),
        automationDetails=record("id", id=text(True)),
        invocations={"type": "array", "items": record(
            "executionSuccessful", executionSuccessful={"type": "boolean"}, exitCode={"type": "integer"},
            endTimeUtc=text(),
            toolConfigurationNotifications={"type": "array", "items": record(
                "message", level={"enum": ["none", "note", "warning", "error"]}, message=MESSAGE
            )},
        )},
        columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        results={"type": "array", "items": record(
            "message locations ruleId ruleIndex partialFingerprints",
            ruleId=text(True), ruleIndex={"type": "integer", "minimum": 0}, message=MESSAGE, properties=BAG,
            level={"enum": ["none", "note", "warning", "error"]},
            partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
            locations={"type": "array", "minItems": 1, "items": record(
                "physicalLocation",
                physicalLocation=record(
                    "artifactLocation region",
                    artifactLocation=record("uri", uri={"type": "string", "pattern": r"^(?!/)[\w.~%/-]+$"}),
                    region=REGION,
                ),
                logicalLocations={"type": "array", "items": record(name=text(), kind=text())},
            )},
        )},
        properties=BAG,
    )},
)  # fmt: skip


_FORM = Draft7Validator(FORM)


@cache
def standard() -> Draft7Validator | None:
    """The schema of the standard, if GPUDOCTOR_TEST_SARIF_SCHEMA names the file."""
    path = os.environ.get("GPUDOCTOR_TEST_SARIF_SCHEMA")
    return Draft7Validator(json.loads(Path(path).read_text())) if path else None


def run_of(log: str) -> dict[str, Any]:
    """The only run of a log that has the right form."""
    data = json.loads(log)
    _FORM.validate(data)
    if schema := standard():
        schema.validate(data)
    (run,) = data["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    found: dict[str, Any] = run
    return found


def dockerfile(*arguments: str) -> dict[str, Any]:
    told = gpudoctor("dockerfile", *arguments, "--gpu", "RTX 5090", "--driver", "570.133.07", "--format", "sarif")
    assert told.returncode == 1, told.stderr
    return run_of(told.stdout)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "Dockerfile").write_text(DOCKERFILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_problem_of_a_dockerfile_has_its_line_and_columns(project: Path) -> None:
    (result,) = dockerfile("docker/Dockerfile")["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "docker/Dockerfile"}
    line = DOCKERFILE.splitlines()[2]
    assert place["region"] == {"startLine": 3, "startColumn": 3, "endColumn": len(line) + 1}
    assert (result["ruleId"], result["level"]) == ("GPD402", "error")
    assert "torch==2.7.0+cu128" in result["message"]["text"]
    assert "primaryLocationLineHash" not in result["partialFingerprints"], "GitHub's action makes it from the lines"


def test_a_fingerprint_stays_when_lines_are_added_above(project: Path) -> None:
    (before,) = dockerfile("docker")["results"]
    (project / "docker" / "Dockerfile").write_text(f"# syntax\n\n{DOCKERFILE}")
    (after,) = dockerfile("docker/Dockerfile")["results"]
    assert after["locations"] != before["locations"]
    assert after["partialFingerprints"] == before["partialFingerprints"]


def test_equal_problems_of_a_file_have_fingerprints_of_their_own(project: Path) -> None:
    (project / "docker" / "Dockerfile").write_text(f"{DOCKERFILE}ENV HSA_OVERRIDE_GFX_VERSION=\n" + DOCKERFILE)
    prints = [result["partialFingerprints"]["gpudoctor/v1"] for result in dockerfile("docker/Dockerfile")["results"]]
    assert len(set(prints)) == len(prints) > 0
    report = made_of("same")
    twice = replace(report, findings=(report.findings[0], report.findings[0]))
    one, two, question = (result["partialFingerprints"] for result in run_of(report_text(twice, "sarif"))["results"])
    assert one["gpudoctor/v1"].split(":") == [two["gpudoctor/v1"].split(":")[0], "1"]
    assert two["gpudoctor/v1"].endswith(":2")
    assert question["gpudoctor/v1"].split(":")[0] not in one["gpudoctor/v1"]


def test_two_recipes_are_two_categories(project: Path) -> None:
    (project / "other.Dockerfile").write_text(DOCKERFILE)
    ids = {dockerfile(name)["automationDetails"]["id"] for name in ("docker/Dockerfile", "other.Dockerfile")}
    assert ids == {"gpudoctor/docker/Dockerfile/", "gpudoctor/other.Dockerfile/"}


def test_a_problem_of_a_machine_is_placed_by_what_it_concerns() -> None:
    (result,) = run_of(given_as("sarif", OLD_WHEEL, "GPD4"))["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"] == {"uri": "this-machine"}
    assert location["logicalLocations"] == [{"name": "GPU 0 NVIDIA GeForce RTX 5090", "kind": "resource"}]
    assert result["partialFingerprints"]["primaryLocationLineHash"]


def test_a_log_of_the_same_machine_is_the_same_but_for_the_time() -> None:
    def timeless(log: str) -> dict[str, Any]:
        run = run_of(log)
        del run["invocations"][0]["endTimeUtc"]
        return run

    assert timeless(given_as("sarif", OLD_WHEEL)) == timeless(given_as("sarif", OLD_WHEEL))


def test_every_check_that_ran_is_a_rule_with_its_explanation() -> None:
    rules = {rule["id"]: rule for rule in run_of(given_as("sarif", OLD_WHEEL))["tool"]["driver"]["rules"]}
    assert len(rules) > 70
    rule = rules["GPD402"]
    assert rule["name"] == "torch-no-arch-for-gpu"
    assert "## How it is judged" in rule["help"]["markdown"]
    assert "#" not in rule["help"]["text"].splitlines()[2]
    assert rule["fullDescription"]["text"] != rule["shortDescription"]["text"]
    assert "framework" in rule["properties"]["tags"]


def test_rules_link_to_the_pages_that_the_distribution_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from email.message import Message

    links = Message()
    links["Project-URL"] = "Documentation, https://docs.example.org/gpudoctor"
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: links)
    driver = run_of(given_as("sarif", OLD_WHEEL))["tool"]["driver"]
    assert driver["informationUri"] == "https://docs.example.org/gpudoctor"
    (rule,) = (rule for rule in driver["rules"] if rule["id"] == "GPD402")
    assert rule["helpUri"] == "https://docs.example.org/gpudoctor/checks/torch-no-arch-for-gpu/"


def test_what_could_not_be_checked_is_a_result_and_what_is_ignored_is_told() -> None:
    report = made_of("why")
    unknown = replace(report, findings=(), verdict="unknown", exit_code=3, ignored=(Ignored("all but GPD4", "mine"),))
    run = run_of(report_text(unknown, "sarif"))
    (result,) = run["results"]
    assert (result["ruleId"], result["level"], result["message"]["text"]) == (
        "GPD104",
        "error",
        "could not check: why",
    )
    (notification,) = run["invocations"][0]["toolConfigurationNotifications"]
    assert notification["message"]["text"] == "ignored [all but GPD4]: mine"
    minor = replace(unknown, not_judged=(ReportedQuestion("GPD105", "x", False),), exit_code=0)
    assert run_of(report_text(minor, "sarif"))["results"] == []


def test_a_healthy_machine_has_rules_and_no_results() -> None:
    run = run_of(given_as("sarif", nvidia_machine()))
    assert [result["level"] for result in run["results"] if result["level"] != "note"] == []
    assert run["tool"]["driver"]["rules"]


@given(hostile)
@settings(max_examples=25)
def test_the_form_is_kept_whatever_a_machine_says(text: str) -> None:
    report = made_of(text)
    run = run_of(report_text(report, "sarif"))
    assert [result["ruleId"] for result in run["results"]][: len(report.findings)] == [
        finding.id for finding in report.findings
    ]


def test_the_schema_of_the_standard_agrees() -> None:
    if standard() is None:
        pytest.skip("GPUDOCTOR_TEST_SARIF_SCHEMA does not name sarif-schema-2.1.0.json")
    assert run_of(given_as("sarif", OLD_WHEEL))["results"]


# --- GitLab ----------------------------------------------------------------------------------------------------

QUALITY = Draft7Validator({"type": "array", "items": record(
    "description check_name fingerprint severity location",
    description=text(), check_name=text(True), fingerprint=text(True), content=record("body", body=text()),
    severity={"enum": ["info", "minor", "major", "critical", "blocker"]},
    location=record("path lines", path=text(True), lines=record("begin", begin={"type": "integer", "minimum": 1})),
)})  # fmt: skip
"""What GitLab reads of Code Climate's form."""


def test_gitlab_gets_place_severity_and_the_same_fingerprint(project: Path) -> None:
    told = gpudoctor("dockerfile", "docker", "--gpu", "RTX 5090", "--driver", "570.133.07", "--format", "gitlab")
    (entry,) = json.loads(told.stdout)
    assert entry["location"] == {"path": "docker/Dockerfile", "lines": {"begin": 3}}
    assert (entry["check_name"], entry["severity"]) == ("GPD402 torch-no-arch-for-gpu", "critical")
    (result,) = dockerfile("docker")["results"]
    assert entry["fingerprint"] == result["partialFingerprints"]["gpudoctor/v1"]
    assert "\n" not in entry["description"] and "torch==2.7.0+cu128" in entry["content"]["body"]


def test_gitlab_gets_an_empty_list_where_all_is_well() -> None:
    assert json.loads(given_as("gitlab", nvidia_machine(), "GPD4")) == []


@given(hostile)
@settings(max_examples=25)
def test_gitlab_form_is_kept_whatever_a_machine_says(text: str) -> None:
    entries = json.loads(report_text(made_of(text), "gitlab"))
    QUALITY.validate(entries)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) == 4
