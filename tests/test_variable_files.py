"""The file that sets a variable is named where a person has to unset it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.environments import shared_library, write_conda, write_torch, write_venv
from tests.support.in_process import gpudoctor

UNKNOWN = "and remove it from the shell, unit or job that sets it"


def shown(folder: Path, prefix: Path, **variables: str) -> str:
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(folder), **variables}
    target = ("--level", "static", "--python", str(prefix), "--gpu", "RTX 4090", "--driver", "580.65.06")
    target += ("--container", "none")  # in one, its start command would be meant
    return " ".join(gpudoctor("check", *target, environ=environ, cwd=folder).stdout.split())


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        (".bashrc", "# CUDA_VISIBLE_DEVICES=7\nexport CUDA_VISIBLE_DEVICES='7'\n", "~/.bashrc, line 2"),
        (".profile", "FOO=1 ; export CUDA_VISIBLE_DEVICES=$GPUS", "~/.profile, line 1"),
        (".config/fish/config.fish", "\nset -gx CUDA_VISIBLE_DEVICES 7\n", "~/.config/fish/config.fish, line 2"),
        (".envrc", "export CUDA_VISIBLE_DEVICES=7\n", ".envrc, line 1"),
        ("venv/bin/activate", "deactivate () {\n}\nexport CUDA_VISIBLE_DEVICES=7\n", "venv/bin/activate, line 3"),
        (".bashrc", "export CUDA_VISIBLE_DEVICES=0\n", UNKNOWN),
        (".bashrc", "export MY_CUDA_VISIBLE_DEVICES=7\nunset CUDA_VISIBLE_DEVICES\n", UNKNOWN),
    ],
)
def test_the_line_that_sets_the_variable_is_named(tmp_path: Path, file: str, text: str, place: str) -> None:
    write_torch(write_venv(tmp_path / "venv"))
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    found = shown(tmp_path, tmp_path / "venv", CUDA_VISIBLE_DEVICES="7")
    assert "unset CUDA_VISIBLE_DEVICES and remove it from" in found
    assert place in found, found
    assert (UNKNOWN in found) == (place == UNKNOWN)


def test_a_variable_of_a_conda_environment_is_unset_in_conda(tmp_path: Path) -> None:
    write_torch(write_conda(tmp_path / "env"))
    (tmp_path / "env/conda-meta/state").write_text(json.dumps({"env_vars": {"CUDA_VISIBLE_DEVICES": "-1"}}))
    found = shown(tmp_path, tmp_path / "env", CUDA_VISIBLE_DEVICES="-1")
    assert f"unset CUDA_VISIBLE_DEVICES conda env config vars unset -p {tmp_path}/env CUDA_VISIBLE_DEVICES" in found
    assert UNKNOWN in shown(tmp_path, tmp_path / "env", CUDA_VISIBLE_DEVICES="7")
    (tmp_path / "env/etc/conda/activate.d").mkdir(parents=True)
    (tmp_path / "env/etc/conda/activate.d/gpu.sh").write_text("export CUDA_VISIBLE_DEVICES=-1\n")
    found = shown(tmp_path, tmp_path / "env", CUDA_VISIBLE_DEVICES="-1")
    assert "etc/conda/activate.d/gpu.sh, line 1" in found


def test_the_line_is_named_where_another_value_is_set(tmp_path: Path) -> None:
    write_torch(write_venv(tmp_path / "venv"))
    (tmp_path / ".bashrc").write_text(f"export LD_LIBRARY_PATH={tmp_path}/stubs:$LD_LIBRARY_PATH\n")
    (tmp_path / "stubs").mkdir()
    (tmp_path / "stubs/libcuda.so.1").write_bytes(shared_library(soname="libcuda.so.1"))
    found = shown(tmp_path, tmp_path / "venv", LD_LIBRARY_PATH=f"{tmp_path}/stubs:/usr/x")
    assert "export LD_LIBRARY_PATH=/usr/x" in found
    assert "today ~/.bashrc, line 1 sets it" in found
