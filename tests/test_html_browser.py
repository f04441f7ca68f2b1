"""The pages in a real browser: Chromium without a screen, three widths, light and dark; axe where it is installed.

Chromium runs the page under its own policy; for axe, which is a script, the policy of a copy is opened.
"""

from __future__ import annotations

import html
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.machine import Machine
from gpudoctor.render.fleet.html import text_of as fleet_page
from tests.support.faulty_machines import MACHINES
from tests.support.machines import change, nvidia_gpu, nvidia_machine
from tests.test_html import fleet, page_of
from tests.test_render_smoke import kernel, smoke

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (360, 768, 1280)
_AXE_PACKAGES = ("axe_playwright_python", "axe_selenium_python")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

_HARNESS = """<!DOCTYPE html><title>harness</title><body><pre id=out>not done</pre><script>
const pages = %s, widths = %s, axe = %s;
const shown = (text, width) => new Promise((done) => {
  const frame = document.createElement("iframe");
  Object.assign(frame.style, {width: width + "px", height: "900px", border: 0});
  frame.onload = () => done(frame);
  frame.srcdoc = text;
  document.body.append(frame);
});
(async () => {
  const out = [];
  for (const [name, strict, open] of pages) for (const width of widths) {
    const frame = await shown(strict, width), seen = frame.contentDocument;
    const style = frame.contentWindow.getComputedStyle;
    const all = [...seen.querySelectorAll("body *:not(.heat *)")];
    out.push({name, width, scroll: seen.documentElement.scrollWidth,
      beyond: all.filter((e) => e.getBoundingClientRect().right > width + 1).map((e) => e.outerHTML.slice(0, 90)),
      top: seen.querySelector("h1").getBoundingClientRect().top,
      first: seen.querySelector(".message, .state")?.getBoundingClientRect().top,
      background: style(seen.body).backgroundColor,
      buttons: [...seen.querySelectorAll(".copy")].map((button) => !button.hidden),
      violations: []});
    frame.remove();
    if (!axe || width > widths[0]) continue;
    const second = await shown(open, width), script = second.contentDocument.createElement("script");
    script.textContent = axe;
    second.contentDocument.head.append(script);
    const found = await second.contentWindow.axe.run(second.contentDocument);
    out.at(-1).passes = found.passes.length;
    out.at(-1).violations = found.violations.map((v) => [v.impact, v.id, v.nodes.map((n) => n.html.slice(0, 120))]);
    second.remove();
  }
  document.getElementById("out").textContent = JSON.stringify(out);
})().catch((error) => { document.getElementById("out").textContent = "failed: " + error; });
</script>"""


def machines() -> dict[str, Machine]:
    """Some that differ in what a page has to show."""
    run = smoke(
        kernel(error=0.001, tolerance=0.01, ms=1.5),
        kernel("attention", status="crash", signal="SIGSEGV", message="x" * 200),
        kernel("memory-rate", "", measures={"gb_per_s": 912.0}),
    )
    long_name = nvidia_gpu("NVIDIA " + "VeryLongName" * 12, "sm_90")
    return {
        "kernels": change(nvidia_machine(nvidia_gpu("NVIDIA GeForce RTX 4090", "sm_89")), smoke=run, level="quick"),
        "long": nvidia_machine(long_name),
        **{name: MACHINES[name] for name in ("torch-no-arch-for-gpu", "environment-unreadable")},
    }


def axe() -> str:
    """The script of axe, from a package that carries it; "" where none does."""
    for name in _AXE_PACKAGES:
        spec = importlib.util.find_spec(name)
        for place in spec.submodule_search_locations or () if spec else ():
            if found := next(Path(place).rglob("axe*.js"), None):
                return found.read_text("utf-8")
    return ""


def measured(folder: Path, pages: dict[str, str], *, dark: bool) -> list[dict[str, Any]]:
    """What the browser says of each page at each width."""

    def literal(value: object) -> str:
        return json.dumps(value).replace("<", "\\u003c")

    opened = [
        (name, page, re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", page))
        for name, page in pages.items()
    ]
    harness = folder / "harness.html"
    harness.write_text(_HARNESS % (literal(opened), literal(WIDTHS), literal(axe())), "utf-8")
    command = [
        *(str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"),
        *(f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--virtual-time-budget=120000", "--dump-dom"),
        harness.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    out = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert out is not None, done.stderr[-2000:]
    answer: list[dict[str, Any]] = json.loads(html.unescape(out[1]))
    return answer


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_and_can_be_read(dark: bool, tmp_path: Path) -> None:
    pages = {name: page_of(machine) for name, machine in machines().items()}
    pages["fleet of 8"], pages["fleet of 512"] = fleet_page(fleet(8)), fleet_page(fleet(512))
    answers = measured(tmp_path, pages, dark=dark)
    assert len(answers) == len(pages) * len(WIDTHS)
    for one in answers:
        where = (one["name"], one["width"])
        assert one["scroll"] <= one["width"], where
        assert not one["beyond"], (where, one["beyond"])
        assert one["top"] < 80, where
        assert all(one["buttons"]), f"{where}: the script of the page ran under its policy"
        light = sum(map(int, re.findall(r"\d+", one["background"])[:3])) > 384
        assert light is not dark, (where, one["background"])
        assert [v for v in one["violations"] if v[0] in ("serious", "critical")] == [], where
    problems = [one for one in answers if one["name"] == "torch-no-arch-for-gpu"]
    assert all(one["first"] < 640 for one in problems), "the first cause is seen without scrolling"


def test_axe_is_there_where_the_browser_is(tmp_path: Path) -> None:
    if not axe():
        pytest.skip(f"none of {', '.join(_AXE_PACKAGES)} is installed: accessibility was not checked")
    page = page_of(nvidia_machine())
    pages = {"page": page, "worse": page.replace('<html lang="en">', "<html>")}
    good, bad = (one for one in measured(tmp_path, pages, dark=False) if one["width"] == WIDTHS[0])
    assert good["passes"] > 10
    assert bad["violations"], "axe finds what is wrong"
