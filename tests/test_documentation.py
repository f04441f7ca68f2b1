"""What README, CONTRIBUTING and docs say is so: screens, tables, commands, options, exit codes, folders."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from gpudoctor.command_line.options import LEVELS
from gpudoctor.command_line.project_settings import Settings
from gpudoctor.render.formats import FORMATS
from gpudoctor.report import Report, ReportedFinding
from gpudoctor.requirement import parse
from gpudoctor.suites import image_checks, machine_checks, pair_checks
from tests.documentation import PAGES, ROOT, pages, program
from tests.documentation.blocks import remade
from tests.documentation.screens import screen
from tests.support.check_cases import matrix

REFERENCE = ROOT / "docs" / "reference"
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
every_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)


def first_column(page: Path) -> set[str]:
    """What the tables of a page name in their first column, between backquotes."""
    cells = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", page.read_text(), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


# --- what the program prints --------------------------------------------------------------------------


@every_page
def test_screens_and_tables_are_what_the_program_prints(page: Path) -> None:
    text = page.read_text()
    assert text == remade(text), "`python -m tests.documentation` writes them again"


def test_the_readme_shows_screens() -> None:
    assert (ROOT / "README.md").read_text().count("\n<!-- screen: ") >= 4


def test_a_screen_that_is_not_true_is_written_again() -> None:
    page = "<!-- screen: image -->\n```console\n$ gpudoctor --version\ngpudoctor 99\n```\nText.\n"
    made = remade(page)
    assert "99" not in made and made.endswith("```\nText.\n")
    assert re.search(r"^\$ gpudoctor --version\ngpudoctor.*\d+\.\d+", made, re.MULTILINE)


# --- what a page names exists -------------------------------------------------------------------------


@every_page
def test_every_command_line_is_understood(page: Path) -> None:
    for words in pages.command_lines(page):
        command = pages.command_of(words)
        groups = {name.partition(" ")[0] for name in program.commands()}
        assert command in {"", "COMMAND", *program.commands(), *groups}, words
        taken = program.option_names(command) if command in program.commands() else {"--version", "--help"}
        options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert options <= taken, f"gpudoctor {' '.join(words)}"


@every_page
def test_every_option_exists(page: Path) -> None:
    known = {name for command in program.commands() for name in program.option_names(command)} | {"--version"}
    for span in pages.spans(page):
        if span.startswith("-") and span != "--":
            assert span.split()[0].partition("=")[0] in known, span


@every_page
def test_every_variable_exists(page: Path) -> None:
    assert pages.variables(page) <= program.variables()


@every_page
def test_every_exit_code_exists(page: Path) -> None:
    assert pages.exit_codes(page) <= program.exit_codes()


@every_page
def test_every_check_exists(page: Path) -> None:
    checks = [*machine_checks(), *image_checks(), *pair_checks()]
    named = set(re.findall(r"GPD\d{3}", page.read_text()))
    assert named <= {check.id for check in checks}
    explained = {words[1] for words in pages.command_lines(page) if words[:1] == ["explain"] and len(words) > 1}
    named = {name for check in checks for name in (check.id, check.slug)}
    others = explained - named - {"ID|SLUG|TEXT", "SLUG", "MESSAGE", "-"}
    assert [text for text in others if not matrix().errors.messages_in(text)] == []


@every_page
def test_every_command_that_is_typed_starts(page: Path) -> None:
    """Those without a screen: none ends as a wrong command line does."""
    for line in pages.typed_without_screen(page):
        if line.startswith(("gpudoctor ", "eval ")):
            assert "Traceback" not in screen("anywhere", line), line


@every_page
def test_every_requirement_can_be_read(page: Path) -> None:
    for words in pages.command_lines(page):
        for option, value in pairwise(words):
            if option == "--require" and value != "EXPR":
                assert parse(value), value


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [str(target) for target in pages.links(page) if not target.exists()] == []


# --- what exists is named -----------------------------------------------------------------------------


def test_the_reference_names_every_command() -> None:
    headings = re.findall(
        r"^## `gpudoctor ([^`A-Z|]+?)(?: [A-Z|]+)?`$", (REFERENCE / "commands.md").read_text(), re.M
    )
    assert sorted(headings) == sorted(program.commands())


def test_the_reference_names_every_option_with_its_variable() -> None:
    text = (REFERENCE / "commands.md").read_text() + (REFERENCE / "options.md").read_text()
    for row in program.option_rows():
        line = next((line for line in text.splitlines() if line.startswith("|") and f"`{row.names[-1]}" in line), "")
        assert all(name in line for name in row.names), row
        cells = [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", text)]
        assert f" {row.meaning} " in cells and (not row.variable or f" {row.variable} " in cells), row


def test_the_reference_names_every_variable() -> None:
    assert (
        pages.variables(REFERENCE / "options.md") | pages.variables(REFERENCE / "commands.md") == program.variables()
    )


def test_the_reference_names_every_exit_code() -> None:
    assert pages.exit_codes(REFERENCE / "exit-codes.md") == program.exit_codes()


def test_the_reference_names_every_level_and_every_format() -> None:
    assert set(LEVELS) <= first_column(REFERENCE / "levels.md")
    assert set(FORMATS) <= first_column(REFERENCE / "json.md")


def test_the_reference_names_every_key() -> None:
    keys = {name.replace("_", "-") for name in Settings.__struct_fields__}
    assert first_column(REFERENCE / "project-settings.md") == keys
    reported = {*Report.__struct_fields__, *ReportedFinding.__struct_fields__}
    assert first_column(REFERENCE / "json.md") - set(FORMATS) == reported


def test_the_reference_lists_its_pages() -> None:
    assert set(pages.links(REFERENCE / "README.md")) == set(REFERENCE.glob("*.md")) - {REFERENCE / "README.md"}


# --- what contributors read ---------------------------------------------------------------------------


def drawn(text: str) -> dict[str, str]:
    """The drawn tree of folders: path and what is said of it."""
    (block,) = re.findall(r"<!-- tree -->\n```text\n(.*?)```", text, re.DOTALL)
    found: dict[str, str] = {}
    above: list[str] = []
    for line in block.splitlines():
        indent, name, meaning = re.fullmatch(r"( *)(\S+)(?: +(.*))?", line).groups()  # type: ignore[union-attr]
        above[len(indent) // 4 :] = [name]
        found["".join(above)] = meaning or ""
    return found


def test_the_drawn_house_is_the_real_one() -> None:
    tree = drawn((ROOT / "CONTRIBUTING.md").read_text())
    assert [path for path, meaning in tree.items() if not meaning] == []
    assert [path for path in tree if (ROOT / path).is_dir() != path.endswith("/")] == []
    assert [path for path in tree if not (ROOT / path).exists()] == []
    sources = (path for top in ("gpudoctor", "checks", "tests", "benchmarks") for path in (ROOT / top).rglob("*.py"))
    folders = {f"{path.parent.relative_to(ROOT)}/" for path in sources}
    assert folders - set(tree) == set()


def test_every_file_that_contributors_are_sent_to_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:gpudoctor|checks|tests|docs|benchmarks|\.ci)/[\w./-]*)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert set(re.findall(r"GPUDOCTOR_TEST\w*", text)) <= {"GPUDOCTOR_TEST_PYTHON", "GPUDOCTOR_TEST_SARIF_SCHEMA"}


def test_the_test_command_is_the_one_that_runs_before_a_merge() -> None:
    steps = (ROOT / ".ci" / "run").read_text()
    command = "pip install -e '.[dev]' && pytest -n auto"
    for page in ("README.md", "CONTRIBUTING.md"):
        assert f"$ {command}\n" in (ROOT / page).read_text()
    install, tests = command.split(" && ")
    assert re.search(rf"^{re.escape(install).replace('install', 'install( -q)?')}$", steps, re.MULTILINE), install
    assert re.search(rf"^{re.escape(tests)}", steps, re.MULTILINE), tests


def test_what_is_installed_is_this_distribution() -> None:
    name = re.search(r'^\[project\]\nname = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert name is not None
    text = (ROOT / "README.md").read_text()
    for start in ("pip install", "uvx", "pipx run"):
        assert re.findall(rf"^\$ {start} (\S+)", text, re.MULTILINE)[0] == name[1]
