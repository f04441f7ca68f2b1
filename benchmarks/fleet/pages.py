"""Pages of made-up fleets, and pictures of them, light and dark."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
from pathlib import Path

from gpudoctor.fleet.merge import merge
from gpudoctor.matrix.load import load_matrix
from gpudoctor.render.fleet import write_fleet
from tests.support.faulty_machines import MACHINES
from tests.support.fleets import fleet

_SCHEMES = {"light": (), "dark": ("--blink-settings=preferredColorScheme=0", "--force-dark-mode")}
"""Dark for pages that ask which of the two a person wants."""


def write(folder: Path) -> None:
    """Write the pages, and the pictures where chromium is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    browser = shutil.which("chromium")
    for count in (8, 512):
        page = folder / f"fleet-{count}.html"
        page.write_text(_page(count), encoding="utf-8")
        print(page)
        for scheme, options in _SCHEMES.items() if browser else ():
            picture = page.with_name(f"{page.stem}-{scheme}.png")
            argv = [str(browser), "--headless=new", "--no-sandbox", "--window-size=1400,1600", *options]
            argv += [f"--screenshot={picture}", page.absolute().as_uri()]
            subprocess.run(argv, check=True, capture_output=True, timeout=120)
            print(picture)


def _page(count: int) -> str:
    """Of a fleet with oddities, a node with an error, one that split off, and one of which nothing came."""
    source = random.Random(count)
    made = fleet(source, count).with_noise(source)
    broken = list(made.machines)[count // 2]
    machines = {**made.machines, broken: MACHINES["torch-no-arch-for-gpu"]}
    made.machines.update(machines)
    expected = (*machines, f"{broken.partition('-')[0]}-{count:03d}")
    text = io.StringIO()
    write_fleet(merge(made.documents(), load_matrix(), expected=expected), "html", text)
    return text.getvalue()
