"""What a shell would run of a script, told without running it."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path


def commands(script: str) -> list[list[str]]:
    """The argument lists of a script's commands after its head. Fails where a word could be anything but itself."""
    lines = [line for line in script.splitlines() if line and not line.startswith("#")]
    head, rest = lines[:2], lines[2:]
    assert head[0] == "set -eu"
    found = []
    for line in rest:
        bare = re.sub(r"'[^']*'", "", line.replace("\\'", "").replace('"\'"', ""))
        bare = bare.removeprefix("$sudo ").replace('"$HOME"/', "")
        assert not set(bare) & set("$`;&|<>\\\"'*?#~()"), line
        found.append(shlex.split(line.removeprefix("$sudo ")))
    return found


def check_syntax(script: str, path: Path, shell: str = "sh") -> None:
    """Have a shell read a script without running it."""
    path.write_text(script)
    subprocess.run([shell, "-n", str(path)], check=True)
