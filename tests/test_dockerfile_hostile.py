"""Dockerfiles and compose files of strangers: a few lines cost no minutes and no memory, and end in one line."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpudoctor.bounded_yaml import YamlError, read_yaml
from gpudoctor.dockerfile.compose import read_compose
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.recipe import Recipe
from gpudoctor.dockerfile.recipe_files import read_recipe
from gpudoctor.dockerfile.stages import read_dockerfile
from gpudoctor.dockerfile.syntax import RecipeError
from gpudoctor.engine import judge_recipe
from gpudoctor.host import InputError
from gpudoctor.suites import image_checks
from tests.support.check_cases import matrix

SECONDS = 5.0
"""Of CPU; each takes well below one here, and took minutes."""
BASE = "FROM python:3.12\n"
CUDA = "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\n"
SIZE = 1_000_000


def filled(text: str, size: int = SIZE) -> str:
    return text * (size // len(text))


def doubled(first: str, line: str) -> str:
    return first + "".join(line.format(new=number, old=number - 1) for number in range(1, 41))


REFUSED = {
    "arguments that double": (BASE + doubled("ARG A0=0123456789\n", "ARG A{new}=${{A{old}}}${{A{old}}}\n"), "line 1"),
    "arguments that double, before FROM": (
        doubled("ARG A0=0123456789\n", "ARG A{new}=$A{old}$A{old}\n") + BASE,
        "line 1",
    ),
    "variables that double": (BASE + doubled("ENV A0=0123456789\n", "ENV A{new}=$A{old}$A{old}\n"), "line 1"),
    "a variable that doubles itself": (BASE + "ENV A=x\n" + "ENV A=$A$A\n" * 60, "line 2"),
    "a shell that doubles": (BASE + "RUN A=xxxx" + "; A=$A$A" * 60 + "; echo $A\n", "line 2"),
    "one long value, used often": (BASE + f"ENV A={'x' * 200_000}\nRUN {'echo $A;' * 4000}\n", "line 3"),
    "commands in one RUN": (BASE + "RUN a" + "&&a" * 100_000 + "\n", "line 2: more than 5,000 commands"),
    "commands in many RUNs": (BASE + "RUN a\n" * 9000, "line 5002: more than 5,000 commands"),
    "words": (BASE + "RUN " + filled("a ") + "\n", "line 2: more than 60,000 words"),
    "operators": (BASE + "RUN " + filled("(") + "\n", "line 2: more than 60,000 words"),
    "instructions": (BASE + filled("RUN\n"), "line 10001: more than 10,000 instructions"),
    "stages": ("FROM a AS s0\n" + "".join(f"FROM s{n} AS s{n + 1}\n" for n in range(20_000)), "10,000 instructions"),
    "a path": (BASE + "WORKDIR " + filled("a/") + "\n", "line 2: a path of more than 4,096 characters"),
    "folders": (BASE + filled("WORKDIR abcdefgh\n", 100_000), "a path of more than 4,096 characters"),
    "commands that install torch": (BASE + "RUN pip install torch\n" * 300, "line 202: more than 200 commands"),
}
READ = {
    "RUN lines": CUDA + "RUN apt-get install -y nvidia-driver-550\n" * 4900,
    "many stages": "FROM a AS s0\n" + "".join(f"FROM s{n} AS s{n + 1}\nENV A{n}=1\nRUN b\n" for n in range(3000)),
    "one long word": BASE + "RUN " + filled("a") + "\n",
    "one long quoted word": BASE + 'RUN "' + filled('\\"') + '"\n',
    "quotes that are never closed": BASE + 'RUN a "b\n' * 9000,
    "wrappers around wrappers": BASE + "RUN env\n" + ("CMD " + "env " * 48_000 + "sh\n") * 4,
    "assignments": BASE + "RUN " + "".join(f"A{n}=1 " for n in range(50_000)) + "b\n",
    "exports": BASE + "RUN " + "".join(f"export A{n}=1;b;" for n in range(4900)) + "b\n",
    "variables and RUN lines": BASE + "ENV " + "A{}=1 " * 50_000 + "\n" + "RUN x=1 b\n" * 4900,
    "a long name": BASE + "ENV " + "A" * 900_000 + "=$A\n",
    "here-documents that are never closed": BASE + "RUN a <<E\n" * 4900 + "#\n" * 400_000,
    "here-documents": BASE + "RUN a " + "<<E " * 50_000 + "\n" + "E\n" * 50_000,
    "comments between continued lines": BASE + "RUN a \\\n" + filled("#\n") + "c\n",
    "flags": BASE + "RUN " + filled("--a ") + "x\n",
    "an exec form that is nested": BASE + "RUN " + filled("[") + "\n",
    "an exec form with a number": BASE + 'RUN ["a", ' + "9" * 6000 + "]\n",
    "spaces in a requirement": BASE + 'RUN pip install "a' + " " * 500_000 + 'x"\n',
    "a requirement of many clauses": BASE + 'RUN pip install "torch' + ",==1" * 200_000 + '"\n',
    "a version of many digits": CUDA + "RUN pip install torch==" + "9" * 6000 + "\n",
    "a build of many digits": CUDA + "RUN pip install torch==2.6.0+cu" + "9" * 6000 + "\n",
    "torch again and again": CUDA + "".join(f"RUN pip install torch=={n}.0\n" for n in range(190)),
    "what a pattern looks for, again and again": "FROM ubuntu:22.04\n"
    + "".join(
        f'RUN echo "{filled(text, 150_000)}"\n' for text in ("pip install ", "conda ", "uv -/", "./", "python-")
    ),
    "an installer's name again and again": CUDA + "RUN " + filled("NVIDIA-Linux-") + "\n",
    "a library's name again and again": CUDA + filled("COPY " + "libcuda.so" * 400 + "! /x\n"),
    "stubs and what removes them": CUDA
    + "".join(f"RUN ln -s /stubs/libcuda.so /x{n}/libcuda.so.1\n" for n in range(2400))
    + "".join(f"RUN rm -f /y{n}*/libcuda.so.1\n" for n in range(2400)),
    "packages": CUDA + "RUN apt-get install " + "nvidia-driver-550 " * 50_000 + "\n",
    "copied environments": "FROM python:3.11-slim AS build\n"
    + "".join(f"RUN python -m venv /v{n}\n" for n in range(1000))
    + CUDA
    + "".join(f"COPY --from=build /v{n} /v{n}\n" for n in range(1000))
    + "ENV PATH="
    + ":".join(f"/v{n}/bin" for n in range(500))
    + '\nUSER app\nCMD ["python", "a"]\n',
    "overrides": CUDA + "".join(f"ENV HSA_OVERRIDE_GFX_VERSION_{n}=1\n" for n in range(9000)),
}


def image(text: str, files: dict[str, str] | None = None) -> Image:
    return read_dockerfile("Dockerfile", text, matrix(), lambda path: (files or {}).get(os.path.normpath(path)))


@pytest.fixture(autouse=True)
def limited():
    """No test may take long, or much memory: what it takes more is refused by the system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + (600 << 20), hard))
    began = time.process_time()
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_over_a_bound_is_one_line(name: str):
    text, said = REFUSED[name]
    with pytest.raises(RecipeError) as caught:
        image(text)
    message = str(caught.value)
    assert said in message and "more than" in message and "\n" not in message and len(message) < 200


@pytest.mark.parametrize("name", READ)
def test_what_is_long_is_read_and_judged_all_the_same(name: str):
    judgement = judge_recipe(Recipe(matrix(), (image(READ[name]),)), image_checks())
    assert "GPD901" not in {finding.id for finding in judgement.findings}


def test_no_more_problems_are_told_than_a_person_reads_and_the_worst_of_them():
    lines = "RUN apt-get install -y cuda\n" * 100 + "RUN apt-get install -y nvidia-driver-550\n"
    found = judge_recipe(Recipe(matrix(), (image(CUDA + lines),)), image_checks()).findings
    assert len(found) == 51 and {finding.id for finding in found} == {"GPD601"}
    assert (found[0].severity, found[0].subject) == ("error", "Dockerfile:102")
    rest = found[-1]
    assert rest.message.startswith("51 more problems of this kind") and rest.severity == "warning"
    assert rest.saw.startswith("Dockerfile:51, Dockerfile:52, ")


# --- files of the build context --------------------------------------------------------------------------

FILES = {
    "two that include each other": {"r.txt": "-r b.txt\n-r b.txt\ntorch==2.6.0\n", "b.txt": "-r r.txt\n" * 2},
    "each of ten includes the next a thousand times": {
        "r.txt": "-r 1.txt\n" * 900 + "torch==2.6.0\n",
        **{f"{n}.txt": f"-r {n + 1}.txt\n" * 900 for n in range(1, 11)},
    },
    "a marker that is nested": {"r.txt": "torch==2.6.0\na; " + "(" * 500_000 + "\n"},
    "markers that are nested": {"r.txt": "torch==2.6.0\n" + "".join(f"a{n}; {'(' * 900}\n" for n in range(1000))},
    "a marker with a number": {"r.txt": f'torch==2.6.0\na; python_version < "{"9" * 900}"\n'},
    "comments": {"r.txt": filled(" #\n") + "torch==2.6.0\n"},
    "spaces": {"r.txt": "torch" + " " * 900_000 + "x\ntorch==2.6.0\n"},
}


@pytest.mark.parametrize("name", FILES)
def test_requirements_files_are_read_once_each(name: str):
    found = image(BASE + "COPY . .\nRUN pip install -r r.txt\n", FILES[name])
    install = found.steps[0].pip
    assert not install.incomplete
    requirement = install.asks_for("torch")
    assert requirement is not None and requirement.specifier == "==2.6.0"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"r.txt": "a\n" * 400_000}, "more than 10,000 lines of requirements files"),
        ({"r.txt": "-r 0.txt\n", **{f"{n}.txt": f"-r {n + 1}.txt\n" for n in range(40)}}, "16 deep"),
    ],
    ids=["lines", "depth"],
)
def test_requirements_over_a_bound_name_the_line_that_reads_them(files: dict[str, str], said: str):
    with pytest.raises(RecipeError, match=f"line 3: .*{said}"):
        image(BASE + "COPY . .\nRUN pip install -r r.txt\n", files)


@pytest.mark.parametrize("text", ["a" * 900_000, "pip " * 220_000, "conda\n" * 150_000])
def test_a_script_is_looked_through_once(text: str):
    found = image(BASE + "COPY . .\n" + "RUN bash x.sh\n" * 4, {"x.sh": text})
    assert [step.script for step in found.steps] == [None] * 4


def test_files_that_are_read_again_and_again_are_bounded():
    with pytest.raises(RecipeError, match=r"line \d+: more than [\d,]+ characters in all its files"):
        runs = "".join(f"RUN bash x{number}.sh\n" for number in range(4900))
        image(
            BASE + "COPY . .\n" + runs,
            dict.fromkeys((f"x{number}.sh" for number in range(4900)), "conda\n" * 150_000),
        )


def test_a_file_that_many_commands_run_is_read_once():
    assert image(BASE + "COPY . .\n" + "RUN bash x.sh\n" * 4900, {"x.sh": "conda\n" * 150_000}).steps


@pytest.mark.parametrize("text", ["a;" * 16_000, "A=$A$A$A\n" * 3_000, "f() {\n" * 4_000, "./x.sh\n" * 4_000])
def test_a_script_is_no_reason_to_refuse_a_file(text: str):
    found = image(BASE + "COPY . .\n" + "RUN ./x.sh\n" * 20 + "RUN pip install torch\n", {"x.sh": text})
    assert found.steps[-1].installs


def test_places_to_look_at_are_bounded():
    with pytest.raises(RecipeError, match="more than 10,000 places where a file of the build may lie"):
        image(BASE + "COPY a b\n" * 4900 + "".join(f"RUN bash x{number}.sh\n" for number in range(4900)))


# --- compose files ---------------------------------------------------------------------------------------

SERVICE = "services:\n  a:\n    "
WRONG = {
    "brackets": (SERVICE + "x: " + "[" * 25_000, "line 3: nested more than 32 deep"),
    "braces": (SERVICE + "x: " + "{a: " * 25_000, "line 3: nested more than 32 deep"),
    "an empty number": (SERVICE + 'x: !!int ""', "line 3: not valid YAML: '' is no int"),
    "a number that is none": (SERVICE + "x: !!float abc", "line 3: not valid YAML: 'abc' is no float"),
    "no bool": (SERVICE + "x: !!bool x", "line 3: not valid YAML: 'x' is no bool"),
    "no time": (SERVICE + "x: !!timestamp x", "line 3: not valid YAML: 'x' is no timestamp"),
    "no such day": (SERVICE + "x: 2024-99-99", "line 3: not valid YAML"),
    "no base64": (SERVICE + 'x: !!binary "\u20ac"', "line 3: not valid YAML"),
    "no set": (SERVICE + "x: !!set [a]", "line 3: not valid YAML"),
    "a merge with a number": (SERVICE + "<<: 3", "line 3: not valid YAML"),
    "a key that is a list": (SERVICE + "? [a]\n    : b", "line 3: not valid YAML: found unhashable key"),
    "a tag of Python": (SERVICE + "x: !!python/object:os.system [a]", "line 3: not valid YAML"),
    "tags of one's own": ("%TAG !a! x\n--- a", "line 1: tags of one's own"),
    "merges that double": (
        doubled("a0: &a0 {a: 1, b: 2}\n", "a{new}: &a{new} {{<<: [*a{old}, *a{old}]}}\n") + "services: *a40",
        "too large",
    ),
    "depth by aliases": (
        "a0: &a0 [[[[a]]]]\n" + "".join(f"a{n}: &a{n} [[[*a{n - 1}]]]\n" for n in range(1, 4000)) + "services: *a1",
        "nested more than 32 deep",
    ),
    "a long text by aliases": (
        f"x: &a {'z' * 500_000}\nservices:\n a:\n  volumes:\n  - [{'*a,' * 40_000}]\n",
        "too large",
    ),
    "values": ("services: {a: {volumes: [" + "a," * 300_000 + "]}}", "too large: more than 50,000 values"),
    "services": ("services:\n" + "".join(f" a{n}: {{}}\n" for n in range(1001)), "more than 1,000 services"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_compose_file_that_is_none_or_too_much_is_one_line(name: str):
    text, said = WRONG[name]
    with pytest.raises(RecipeError) as caught:
        read_compose("compose.yaml", text)
    assert said in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "value",
    ["9" * 6000, "0x" + "f" * 500_000, "1" + ":1" * 300_000, "-0b" + "1" * 5000],
    ids=["ten", "hex", "60", "2"],
)
def test_a_number_of_many_digits_stays_the_text_that_it_is(value: str):
    (service,) = read_compose("compose.yaml", SERVICE + f"user: {value}")
    assert service.user == value


def test_numbers_that_fall_together_as_keys_are_texts():
    keys = "".join(f"  {(2**61 - 1) * number}: {{}}\n" for number in range(1, 900))
    assert len(read_compose("compose.yaml", "services:\n" + keys)) == 899


def test_tags_of_compose_and_ordinary_values_are_what_they_were():
    values = "a: !reset null, b: !override [x], c: 010, d: 1.50, e: yes, f: 2024-01-02, g: ~, h: 0x1f, i: 12:30"
    value = read_yaml("{" + values + "}").value
    assert list(map(str, value.values())) == ["None", "None", "8", "1.5", "True", "2024-01-02", "None", "31", "750"]


@pytest.mark.parametrize("text", ["a: &a 1", "a: !x 1", "a: !!str 1"])
def test_a_plain_document_has_no_anchors_and_tags(text: str):
    assert read_yaml(text).value is not None
    with pytest.raises(YamlError, match="not used here"):
        read_yaml(text, plain=True)


def test_a_group_of_many_digits_is_that_of_a_person(tmp_path: Path):
    (tmp_path / "compose.yaml").write_text(
        f"services: {{a: {{image: rocm/pytorch, devices: [/dev/kfd, /dev/dri], user: 'a:{'9' * 6000}'}}}}"
    )
    images, services = read_recipe(str(tmp_path), matrix(), {}, "")
    judgement = judge_recipe(Recipe(matrix(), images, services), image_checks())
    assert "compose-device-access" in {finding.slug for finding in judgement.findings}


def test_an_image_is_read_once_for_all_services_that_build_it(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(BASE + "RUN a\n" * 4000)
    services = "".join(f"  a{number}: {{build: .}}\n" for number in range(900))
    (tmp_path / "compose.yaml").write_text("services:\n" + services)
    images, started = read_recipe(str(tmp_path), matrix(), {}, "")
    assert len(images) == 1 and {id(one.image) for one in started} == {id(images[0])}


def test_images_of_services_share_their_bounds(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(CUDA + "RUN a\n" * 100)
    builds = "".join(f"  a{number}: {{build: {{context: ., args: [A={number}]}}}}\n" for number in range(90))
    (tmp_path / "compose.yaml").write_text("services:\n" + builds)
    with pytest.raises(InputError, match=r"Dockerfile: line \d+: more than 5,000 commands"):
        read_recipe(str(tmp_path), matrix(), {}, "")


def test_other_compose_files_of_the_folder_are_bounded(tmp_path: Path):
    (tmp_path / "compose.yaml").write_text("services: {a: {image: b}}")
    for number in range(30):
        values = "a," * 40_000
        (tmp_path / f"compose.{number}.yaml").write_text(f"services: {{a: {{volumes: [{values}]}}}}")
    with pytest.raises(InputError, match=r"compose\.yaml: more than 60,000 values in compose files"):
        read_recipe(str(tmp_path), matrix(), {}, "")


def test_the_command_ends_in_one_line_and_code_2(tmp_path: Path):
    (tmp_path / "compose.yaml").write_text("services: " + "[" * 25_000)
    (tmp_path / "Dockerfile").write_text(REFUSED["arguments that double"][0])
    for name, said in (("compose.yaml", "nested more than 32 deep"), ("Dockerfile", "from expanded variables")):
        command = [sys.executable, "-m", "gpudoctor", "dockerfile", name]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
        assert ended.stderr.startswith(f"gpudoctor: {name}: line ") and said in ended.stderr


# --- what stays as it was --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "argv"),
    [
        ("find . -name a -exec rm {} \\;", ("find", ".", "-name", "a", "-exec", "rm", "{}", ";")),
        ("adduser --gecos '' app", ("adduser", "--gecos", "", "app")),
        ("a \"b 'c' \\\"d\\\" \\e\" 'f\\g'", ("a", "b 'c' \"d\" \\e", "f\\g")),
        ("a 2>/dev/null >&2 b", ("a", "b")),
        ("a 2 > b 3", ("a", "2", "3")),
    ],
)
def test_quoted_words_are_words(run: str, argv: tuple[str, ...]):
    assert [step.command.argv for step in image(BASE + f"RUN {run}\n").steps] == [argv]


def test_a_stage_has_what_its_parents_set_and_their_arguments():
    first = "FROM python:3.12 AS a\nARG X=1\nENV A=$X\nWORKDIR /w\nUSER u\nRUN one\n"
    found = image(first + "FROM b\nRUN two\nFROM a\nENV B=$X C=$A\n")
    assert {name: setting.value for name, setting in found.settings.items()} == {"A": "1", "B": "1", "C": "1"}
    assert [step.command.text for step in found.steps] == ["one"] and (found.user, found.base_line) == ("u", 1)
