"""The report's keys beside those that a person reads: who is concerned, what causes what, and when it was made."""

from __future__ import annotations

import calendar
import json
import time
from typing import Any

import msgspec
import pytest

from gpudoctor.host import InputError
from gpudoctor.intake.snapshot import machine_of_document
from gpudoctor.machine import FORMAT, Machine
from gpudoctor.render.json import report_data
from gpudoctor.report import Subject, make_report
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix
from tests.support.faulty_machines import MACHINES
from tests.support.judging import judged
from tests.support.machines import nvidia_gpu, nvidia_machine, torch


def reported(machine: Machine) -> dict[str, Any]:
    report = make_report(machine, matrix(), judged(machine), subject=Subject("machine", "this machine"))
    return report_data(report, private=False)


def test_a_report_says_when_it_was_made():
    made = calendar.timegm(time.strptime(reported(nvidia_machine())["created"], "%Y-%m-%dT%H:%M:%SZ"))
    assert 0 <= time.time() - made < 60


def test_a_finding_names_every_gpu_that_it_concerns():
    gpus = tuple(nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=index) for index in range(2))
    (of_two, *_) = reported(nvidia_machine(*gpus, torch=torch("2.6.0+cu124")))["findings"]
    assert of_two["device"] is None
    assert [device["bdf"] for device in of_two["devices"]] == [gpu.bdf for gpu in gpus]
    (of_one, *_) = reported(nvidia_machine(gpus[0], torch=torch("2.6.0+cu124")))["findings"]
    assert of_one["devices"] == [of_one["device"]] and of_one["device"]["name"] == "NVIDIA GeForce RTX 5090"
    (of_the_driver,) = reported(MACHINES["driver-lib-mismatch"])["findings"]
    assert of_the_driver["devices"] == []


def test_a_finding_about_torch_says_so_and_one_about_the_machine_does_not():
    frameworks = {
        finding["slug"]: finding["framework"]
        for slug in ("torch-no-arch-for-gpu", "torchvision-mismatch", "ld-library-path-shadow", "driver-lib-mismatch")
        for finding in reported(MACHINES[slug])["findings"]
    }
    assert frameworks.pop("driver-lib-mismatch") is None
    assert set(frameworks.values()) == {"torch"}


def test_every_check_of_frameworks_packages_and_kernels_names_its_framework():
    """rocBLAS may be the system's, which belongs to no framework: that check says it with each finding. So do those
    that judge every framework beside torch, libraries of any package, or what a person tells."""
    of_any = (
        ".other_frameworks", ".framework_damaged", ".framework_libraries", ".programs", ".gpu_extensions",
        ".extension_libraries", ".circumstance", ".framework_variables", ".copied_installs", ".framework_import",
        ".shared_files", ".same_releases",
    )  # fmt: skip
    silent = [check.slug for check in machine_checks() if check.layer in ("framework", "packages", "smoke")
              and check.framework is None and check.slug != "rocblas-no-arch"
              and not check.function.__module__.endswith(of_any)]  # fmt: skip
    below = [check.slug for check in machine_checks() if check.layer in ("driver", "access") and check.framework]
    assert (silent, below) == ([], [])


def test_an_effect_names_its_cause_and_never_itself():
    findings = reported(MACHINES["cuda-compat-on-geforce"])["findings"]
    assert {one["slug"]: one["caused_by"] for one in findings} == {
        "cuda-compat-on-geforce": [],
        "driver-too-old": ["GPD302"],
    }


@pytest.mark.parametrize("slug", sorted(MACHINES))
def test_a_cause_stands_in_the_report_and_before_its_effect(slug: str):
    told: list[str] = []
    for finding in judged(MACHINES[slug]).findings:
        assert set(finding.caused_by) <= set(told) - {finding.id}
        told.append(finding.id)


# --- the machine's own format ------------------------------------------------------------------------------


def read_again(machine: dict[str, Any]) -> Machine:
    snapshot = {"schema": 1, "gpudoctor": "0.1.0", "machine": machine}
    return machine_of_document("snapshot.json", json.dumps(snapshot).encode())


def test_a_machine_is_written_with_the_number_of_its_format():
    machine = nvidia_machine()
    data = msgspec.to_builtins(machine)
    assert (data["format"], reported(machine)["machine"]["format"]) == (FORMAT, FORMAT)
    assert read_again(data) == machine


def test_a_machine_without_a_number_is_of_the_first_format():
    data = {"nvidia": {"proc_cards": [{"bdf": "0000:01:00.0"}]}, "smoke": {"level": "quick", "card_asked": True}}
    machine = read_again(data)
    assert machine.nvidia.proc_details[0].bdf == "0000:01:00.0"
    assert machine.smoke is not None and machine.smoke.gpu_asked
    assert machine.format == FORMAT


@pytest.mark.parametrize("number", [0, -1, FORMAT + 1])
def test_a_format_that_nobody_wrote_or_that_comes_later_is_told(number: int):
    with pytest.raises(InputError, match=rf"format {number} of the machine is not known .* it reads 1 to {FORMAT}"):
        read_again({"format": number})


@pytest.mark.parametrize("machine", [{"nvidia": 7}, {"smoke": []}, {"gpus": "none"}])
def test_a_broken_machine_of_the_first_format_is_one_line(machine: dict[str, Any]):
    with pytest.raises(InputError, match="not a snapshot of gpudoctor"):
        read_again(machine)
