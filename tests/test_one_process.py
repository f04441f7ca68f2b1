"""What was judged before in a process changes no answer: a fleet is judged in one, thousands of machines long."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable
from hashlib import sha256

import msgspec
import pytest

from gpudoctor.engine import judge
from gpudoctor.host import InputError
from gpudoctor.intake.described import imagined_machine
from gpudoctor.intake.description import Description
from gpudoctor.machine import Machine
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix
from gpudoctor.recommend import recommend, recommend_framework
from gpudoctor.situation import Situation
from gpudoctor.suites import machine_checks
from tests.support.in_process import gpudoctor

GPUS = (
    *(
        "RTX 5090",
        "RTX 4090",
        "RTX 3060",
        "GTX 1080 Ti",
        "V100",
        "A100",
        "H100",
        "T4",
        "GTX 980",
        "K80",
        "B200",
        "GB10",
    ),
    *("RX 6900 XT", "RX 7700 XT", "RX 7900 XTX", "RX 9070 XT", "RX 470", "RX 5700 XT", "gfx1036", "890M", "MI300X"),
)
DRIVERS = ("470.256.02", "535.183.01", "550.54.15", "570.133.07", "580.95.05", "6.8.5", "30.10.2")
SYSTEMS = ("ubuntu-22.04", "ubuntu-24.04", "debian-12", "rhel-9.6", "arch")
TORCHES = ("2.9.1+cu128", "2.14.1+cu126", "2.13.0", "2.6.0+cpu", "2.9.1+rocm6.4", "2.14.1+rocm7.2", "1.13.1+cu117")
PACKAGES = ("vllm==0.33.0", "jax==0.6.2", "onnxruntime-gpu==1.22.0", "bitsandbytes==0.45.5", "torchvision==0.24.1")
VARIABLES = (
    *("HIP_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=0"),
    *("HSA_OVERRIDE_GFX_VERSION=10.3.0", "HSA_OVERRIDE_GFX_VERSION=11.0.0", "CUDA_VISIBLE_DEVICES=1"),
)


def some(draw: random.Random, option: str, values: Iterable[str], chance: float) -> list[str]:
    """An option with one of the values, or nothing."""
    return [option, draw.choice(tuple(values))] if draw.random() < chance else []


def drawn(draw: random.Random) -> tuple[str, ...]:
    """The options that describe a machine."""
    gpus = [word for gpu in draw.sample(GPUS, draw.choice((1, 1, 2))) for word in ("--gpu", gpu)]
    rest = (
        some(draw, "--driver", DRIVERS, 0.7),
        some(draw, "--os", SYSTEMS, 0.5),
        some(draw, "--kernel", ("5.15.0-119-generic", "6.12.8"), 0.3),
        some(draw, "--torch", TORCHES, 0.7),
        some(draw, "--package", PACKAGES, 0.4),
        some(draw, "--python-version", ("3.9", "3.12", "3.13"), 0.7),
        some(draw, "--env", VARIABLES, 0.5),
    )
    return (*gpus, *(word for part in rest for word in part))


def machine_of(options: tuple[str, ...], matrix: Matrix) -> Machine:
    told = dict(zip(options[::2], options[1::2], strict=True))
    name, _, value = told.get("--env", "").partition("=")
    description = Description(
        gpus=tuple(value for option, value in zip(options[::2], options[1::2], strict=True) if option == "--gpu"),
        driver=told.get("--driver", ""),
        os=told.get("--os", ""),
        kernel=told.get("--kernel", ""),
        torch=told.get("--torch", ""),
        python_version=told.get("--python-version", ""),
        packages=(told["--package"],) if "--package" in told else (),
    )
    return imagined_machine(description, {name: value} if name else {}, matrix)


def answers(options: tuple[str, ...], matrix: Matrix) -> bytes:
    """All that is said of a machine, as bytes."""
    machine = machine_of(options, matrix)
    judgement = judge(machine, matrix, machine_checks())
    situation = Situation(machine, matrix)
    jax = next(row for row in matrix.tables.frameworks if row.framework == "jax")
    told = (judgement.verdict, judgement.findings, judgement.not_judged)
    return msgspec.json.encode((machine, told, recommend(situation), recommend_framework(situation, jax)))


def machines() -> tuple[tuple[str, ...], ...]:
    """The descriptions, always the same."""
    draw, matrix = random.Random(61), load_matrix()
    found: dict[tuple[str, ...], None] = {}
    while len(found) < 150:
        options = drawn(draw)
        try:
            machine_of(options, matrix)
        except InputError:  # no such machine, such as one with two processors
            continue
        found[options] = None
    return tuple(found)


def answers_in_order(seed: int) -> dict[int, str]:
    """The answers to all machines, judged one after the other in this order, as digests by number."""
    matrix, ordered = load_matrix(), list(enumerate(machines()))
    random.Random(seed).shuffle(ordered)
    return {number: sha256(answers(options, matrix)).hexdigest() for number, options in ordered}


def test_answers_do_not_depend_on_what_was_judged_before() -> None:
    # What a machine left behind would still be there for a second round: the other order has a process of its own.
    program = "import json; from tests.test_one_process import *; print(json.dumps(answers_in_order(7)))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as other:
        here = answers_in_order(61)
        there = {int(number): digest for number, digest in json.loads(other.communicate()[0]).items()}
    assert [machines()[number] for number in here if here[number] != there.get(number)] == []


def test_judging_leaves_the_matrix_as_it_is() -> None:
    matrix = load_matrix()
    before = _rows(matrix)
    for options in machines()[:30]:
        answers(options, matrix)
    assert _rows(matrix) == before


def _rows(matrix: Matrix) -> bytes:
    return msgspec.json.encode([getattr(matrix.tables, name) for name in matrix.tables.__struct_fields__])


@pytest.mark.parametrize("command", ["whatif", "recommend"])
def test_a_fresh_process_answers_the_same(command: str) -> None:
    for options in machines()[:3]:
        arguments = (command, *options, "--format", "json")
        fresh = subprocess.run([sys.executable, "-m", "gpudoctor", *arguments], capture_output=True, check=False)
        here = gpudoctor(*arguments)
        assert (here.returncode, _lasting(here.stdout)) == (fresh.returncode, _lasting(fresh.stdout)), arguments


def _lasting(document: str | bytes) -> dict[str, object]:
    """The document without its times."""
    read: dict[str, object] = json.loads(document)
    return {name: value for name, value in read.items() if name not in ("created", "timings_ms")}
