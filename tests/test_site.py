"""The documentation site: it is built without a network, its links lead somewhere, and what it shows is so."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from tests.documentation import ROOT
from tests.documentation.site import build_tables, check_pages, content, gpu_pages, links, message_pages
from tests.support.check_cases import matrix
from tests.support.in_process import gpudoctor

CHECKS = links.checks()
WITHOUT_EXAMPLE = {
    "smoke-not-run",  # only questions
    "gpu-busy-or-exclusive",
    "circumstance-told",
    "log-fault-described",
    "requirement-not-met",  # preflight shows it
    "framework-library-too-old",  # told as cudnn-mismatch
    "framework-libraries-not-found",
    "framework-computes-wrong",  # told as smoke-wrong-result
}
NO_NETWORK = """
import socket
def refuse(*args):
    raise AssertionError(f"the site asks the network: {args}")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
"""


# --- what is made from the code ------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.slug)
def test_a_check_has_a_page_with_an_example(check):
    text = check_pages.pages()[links.check_page(check.slug)]
    assert check.title.rstrip(".")[:20] in text.replace("\\", "")
    assert all(section in text for section in ("## Why it matters", "## How it is judged", "## Fix safety"))
    assert ("## Example" in text) == (check.slug not in WITHOUT_EXAMPLE)
    if found := check_pages.example(check):
        assert f"[{check.id}]" in found[1]


def test_the_list_of_checks_is_whole():
    text = check_pages.overview()
    assert [check.slug for check in CHECKS if f"| `{check.slug}` | {check.id} |" not in text] == []


@pytest.mark.parametrize("row", matrix().tables.error_patterns, ids=lambda row: row.id)
def test_a_message_has_a_page_that_is_found_by_its_text(row):
    text = message_pages.pages()[links.message_page(row.id)]
    assert row.example.strip() in text
    slugs = [slug for slug in (row.slug, *row.also) if slug not in ("smoke-crash", "harmless")]
    places = [text.index(f"`{slug}`") for slug in slugs]
    assert places == sorted(places)
    assert all(re.search(row.pattern, form.replace("...", "")) for form in message_pages.other_forms(row))
    assert f"`gpudoctor explain {row.id}`" in text
    assert gpudoctor("explain", row.id).stdout.startswith(f"# {row.id}\n")


def test_no_two_messages_have_the_same_title():
    titles = [message_pages.title(row) for row in matrix().tables.error_patterns]
    assert len(set(titles)) == len(titles)
    assert "CUDA error: no kernel image is available for execution on the device" in titles


def test_other_forms_of_a_message_are_told():
    (row,) = (row for row in matrix().tables.error_patterns if row.id == "hip-no-code")
    assert {"invalid device function", "hipErrorInvalidImage"} <= set(message_pages.other_forms(row))


def cells(text: str, first: str) -> dict[str, str]:
    """The row of a table that starts with a text, by the heads of its columns."""
    rows = [[cell.strip() for cell in line.strip("|").split(" |")] for line in text.splitlines() if line[:1] == "|"]
    (row,) = [row for row in rows if row[0].startswith(first)]
    return dict(zip(rows[0], row, strict=True))


@pytest.mark.parametrize(
    ("arch", "release", "yes", "no"),
    [
        ("sm_61", "2.9.1", "cu126", "cu128"),
        ("sm_120", "2.9.1", "cu128", "cu126"),
        ("sm_90", "2.6.0", "cu124", ""),
        ("gfx1100", "2.9.1", "rocm6.4", ""),
        ("gfx1031", "2.11.0", "rocm7.14.0", "rocm7.2"),
        ("gfx906", "2.9.1", "rocm6.3", "rocm6.4"),  # torch has its code, rocBLAS has not
    ],
)
def test_the_page_of_a_gpu_says_what_runs_on_it(arch, release, yes, no):
    row = cells(gpu_pages.pages()[f"builds/{arch}.md"], release)
    assert row[yes].startswith("yes")
    assert not no or row[no] == "no"


@pytest.mark.parametrize(
    "arch, title",
    [
        ("sm_80", "PyTorch on A30, A100,"),
        ("sm_103", "PyTorch on B300 (Blackwell, sm_103)"),
        ("gfx1150", "PyTorch on 890M, 880M,"),
        ("gfx1250", "PyTorch on gfx1250 (CDNA"),
    ],
)
def test_the_page_of_a_gpu_is_titled_with_models_that_people_look_for(arch, title):
    assert f'"title": "{title}' in gpu_pages.pages()[f"builds/{arch}.md"]


def test_every_gpu_has_a_page():
    archs = {f"sm_{row.capability.replace('.', '')}" for row in matrix().tables.capabilities}
    archs |= {row.gfx for row in matrix().tables.gfx_targets}
    assert set(gpu_pages.pages()) == {f"builds/{arch}.md" for arch in archs}
    listed = gpu_pages.overview()
    for name in ("GeForce GTX 1080", "GeForce RTX 5090", "RX 6700 XT", "780M", "Jetson Orin", "GB10"):
        assert f"| {name} |" in listed


def test_drivers_and_cuda():
    text = build_tables.drivers_and_cuda()
    assert cells(text, "550")["CUDA 12.4"] == "yes"
    assert cells(text, "550")["CUDA 12.8"] == "minor"
    assert cells(text, "550")["CUDA 13.0"] == "no"
    assert cells(text, "580")["CUDA 13.0"] == "yes"


def test_names_become_links_outside_of_code_and_headings():
    text = (
        "# `driver-too-old`\n`driver-too-old`, `sm_61`, `pip install x`\n```console\n$ echo `driver-too-old`\n```\n"
    )
    told = links.cross_referenced(text, "guides/x.md")
    assert told == text.replace("\n`driver-too-old`", "\n[`driver-too-old`](../checks/driver-too-old.md)").replace(
        "`sm_61`", "[`sm_61`](../builds/sm_61.md)"
    )


def test_a_section_that_is_not_there_is_told():
    with pytest.raises(ValueError, match="no section"):
        content.section("README.md", "Not there")


# --- the built site ------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Links, anchors, title, description and what a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loads: list[str] = []
        self.title = self.description = self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._open = tag
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(given["href"])
        elif tag in ("script", "img", "iframe") and given.get("src"):
            self.loads.append(given["src"])
        elif tag == "meta" and given.get("name") == "description":
            self.description = given["content"]

    def handle_data(self, data: str) -> None:
        if self._open == "title":
            self.title += data
            self._open = ""


built_site = pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site as the README's command builds it, but for the folder; the network is refused."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(NO_NETWORK)
    environ = {**os.environ, "PYTHONPATH": str(folder), "SITE_URL": "https://docs.example/gpudoctor/"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder / "site")]
    built = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def html(site) -> dict[str, Page]:
    """Every page by its place, "start/index.html"."""
    found = {str(path.relative_to(site)): Page(path.read_text()) for path in site.rglob("*.html")}
    assert len(found) > len(CHECKS) + len(matrix().tables.error_patterns)
    return found


@built_site
def test_every_link_and_anchor_leads_somewhere(site, html):
    lost = []
    for place, page in html.items():
        if place == "404.html":
            continue
        for link in page.links:
            target = urlsplit(urljoin(f"http://site/{place}", link))
            if target.netloc != "site":
                continue
            path = unquote(target.path).lstrip("/")
            path = f"{path}index.html" if path == "" or path.endswith("/") else path
            there = (site / path).is_file()
            if not there or (target.fragment and path in html and unquote(target.fragment) not in html[path].anchors):
                lost.append((place, link))
    assert lost == []


@built_site
def test_nothing_is_loaded_from_elsewhere(site, html):
    away = {load for page in html.values() for load in page.loads if re.match(r"(\w+:)?//", load)}
    assert away == set()
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", styles) == []


@built_site
def test_pages_have_titles_and_descriptions_of_their_own(html):
    pages = {place: page for place, page in html.items() if place != "404.html"}
    titles = [page.title for page in pages.values()]
    assert sorted({title for title in titles if titles.count(title) > 1}) == []
    assert [place for place, page in pages.items() if len(page.description) < 40] == []


@built_site
def test_the_sitemap_and_the_search_have_the_pages(site, html):
    places = set(re.findall(r"<loc>https://docs.example/gpudoctor/(.*)</loc>", (site / "sitemap.xml").read_text()))
    assert places == {place.removesuffix("index.html") for place in html if place != "404.html"}
    searched = {entry["location"] for entry in json.loads((site / "search/search_index.json").read_text())["docs"]}
    assert {"messages/cuda-no-kernel-image/", "checks/torch-no-arch-for-gpu/", "builds/sm_61/"} <= searched


@built_site
def test_the_navigation_has_every_written_page(html):
    for folder in ("guides", "reference", "builds"):
        pages = [path.stem for path in (ROOT / "docs" / folder).glob("*.md") if path.stem != "README"]
        shown = html[f"{folder}/index.html"].links
        assert [name for name in pages if f"{name}/" not in shown] == []


@built_site
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_tables_can_be_filtered_in_a_browser(site, tmp_path):
    """From files, as no server is needed for it."""
    (tmp_path / "home").mkdir()
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'home'}"]
    page = (site / "builds" / "index.html").as_uri()
    shown = subprocess.run([*command, "--dump-dom", page], capture_output=True, text=True, check=True, timeout=120)
    count = re.search(r'class="filter-count"[^>]*>(\d+) of (\d+)<', shown.stdout)
    assert count is not None and int(count[1]) == int(count[2]) > 1000
