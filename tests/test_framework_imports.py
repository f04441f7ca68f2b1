"""Real imports of frameworks beside torch that fail in a made-up environment: whose file it is, and its fix."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpudoctor.finding import Manual, ReinstallPackage, RemovePackage, ReplacePackage
from gpudoctor.frameworks.torch.probes.import_failure import with_suspects
from gpudoctor.host import LiveHost
from gpudoctor.machine import (
    DamagedFile,
    Distribution,
    Fact,
    FrameworkFiles,
    ImportTrial,
    Machine,
    ModuleImport,
    ProcessLimits,
    SuspectFile,
    denied,
    known,
    unknown,
)
from gpudoctor.planner.effects import effect
from gpudoctor.planner.repair import Permissions
from gpudoctor.situation import Situation
from gpudoctor.smoke.plan import Limits
from gpudoctor.smoke.trial import try_module
from gpudoctor.step import RunStep
from gpudoctor.survey import survey
from gpudoctor.testing import nvidia_machine
from tests.support.check_cases import matrix
from tests.support.environments import write_distribution, write_venv
from tests.support.imports import examined, problems
from tests.support.judging import finding, plan_of, questions, remedies, told
from tests.support.machines import with_torch
from tests.support.smoke_children import PYTHON, TORCH

FAILS = "framework-import-fails"
SITE = "/venv/lib/python3.12/site-packages"


def venv(root: Path) -> Path:
    return write_venv(root / "venv", PYTHON, home=str(Path(sys.base_prefix) / "bin"))


def write_jax(site: Path, **files: str) -> None:
    """A JAX that needs a file of its own and `helper`."""
    write_distribution(
        site, "helper", "2.0", files={"helper/__init__.py": "import helper.part\n", "helper/part.py": ""}
    )
    own = {"jax/__init__.py": "import helper\nfrom jax.version import number\n", "jax/version.py": "number = 1\n"}
    write_distribution(site, "jax", "0.6.2", requires=["helper>=2"], files={**own, **files})


def write_vision(site: Path) -> None:
    """A torchvision beside its torch; it needs `picture`."""
    files = {"torch/__init__.py": TORCH, "torch/version.py": "__version__ = '2.9.1+cpu'\n"}
    write_distribution(site, "torch", "2.9.1+cpu", files=files)
    write_distribution(site, "picture", "9.0", files={"picture.py": "def draw():\n    return 1\n"})
    lines = "import torch\nimport picture\nONE = picture.draw()\n"
    write_distribution(site, "torchvision", "0.24.1+cpu", files={"torchvision/__init__.py": lines})


def imports(machine: Machine) -> dict[str, ImportTrial | None]:
    assert machine.environment.value is not None
    return {one.module: one.trial.value for one in machine.environment.value.frameworks.imports}


def test_whole_frameworks_are_imported_and_say_nothing(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_jax(site)
    write_vision(site)
    machine = examined(tmp_path)
    assert problems(machine) == []
    tried = imports(machine)
    assert sorted(tried) == ["jax", "torchvision"]
    assert all(trial is not None and trial.ok for trial in tried.values())
    assert machine.torch is not None
    assert machine.torch.trial.value is not None
    assert machine.torch.trial.value.ok


def test_kernels_alone_import_nothing_else(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_jax(site)
    write_vision(site)
    python = str(tmp_path / "venv/bin/python")
    assert imports(survey(LiveHost({}), matrix(), python=python, drivers=False, imports=False).machine) == {}


@pytest.mark.parametrize("level", ["static", "driver"])
def test_nothing_is_imported_where_that_was_not_asked_for(tmp_path: Path, level: str) -> None:
    write_jax(venv(tmp_path))
    assert imports(examined(tmp_path, level)) == {}


@pytest.mark.parametrize(
    ("file", "content", "fix"),
    [
        ("jax/version.py", "\0" * 11, "ReinstallPackage jax0.6.2"),
        ("jax/__init__.py", "<<<<<<< HEAD\n", "ReinstallPackage jax0.6.2"),
        ("jax/__init__.py", "import os\nos.kill(os.getpid(), 11)\n", "ReinstallPackage jax0.6.2"),
        ("helper/part.py", None, "ReinstallPackage helper2.0"),
        ("helper/__init__.py", "raise ValueError('edited')\n", "ReinstallPackage helper2.0"),
    ],
)
def test_the_owner_of_the_file_that_fails_is_installed_again(
    tmp_path: Path, file: str, content: str | None, fix: str
) -> None:
    site = venv(tmp_path)
    write_jax(site)
    path = site / file
    path.unlink() if content is None else path.write_text(content)
    machine = examined(tmp_path)
    assert problems(machine) == [FAILS]
    assert remedies(machine, FAILS) == [fix]
    assert file.rpartition("/")[2] in finding(machine, FAILS).message


def test_a_home_folder_that_the_user_may_not_write_to_is_no_file_to_repair(tmp_path: Path) -> None:
    lines = "import pathlib\nraise PermissionError(13, 'Permission denied', '/nonexistent')\n"
    write_jax(venv(tmp_path), **{"jax/version.py": lines})
    machine = examined(tmp_path)
    assert problems(machine) == [FAILS]
    (step,) = finding(machine, FAILS).fixes[0].remedies
    assert isinstance(step, Manual)
    assert "export HOME=" in step.text


def test_an_emptied_file_that_the_import_needs_is_one_problem(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_jax(site)
    (site / "jax/version.py").write_text("")
    machine = examined(tmp_path)
    assert problems(machine) == ["framework-install-damaged"]
    assert "Seen: ImportError" in finding(machine, "framework-install-damaged").message
    assert remedies(machine, "framework-install-damaged") == ["ReinstallPackage jax0.6.2"]


def test_an_emptied_module_is_found_though_the_error_comes_from_another_file(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_vision(site)
    (site / "picture.py").write_text("")
    machine = examined(tmp_path)
    assert problems(machine) == [FAILS]
    assert finding(machine, FAILS).subject == "torchvision 0.24.1+cpu"
    assert remedies(machine, FAILS) == ["ReinstallPackage picture9.0"]
    (step,) = plan_of(machine, Permissions()).steps
    assert isinstance(step.step, RunStep)
    assert step.step.argv[-3:] == ("--force-reinstall", "--no-deps", "picture==9.0")


def test_torchvision_is_not_tried_beside_a_torch_that_fails(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_vision(site)
    (site / "torch/__init__.py").write_text("raise ImportError('no')\n")
    machine = examined(tmp_path)
    assert problems(machine) == ["torch-import-fails"]
    assert imports(machine) == {}


def test_a_keras_of_another_major_is_found_though_tensorflow_alone_can_be_imported(tmp_path: Path) -> None:
    site = venv(tmp_path)
    files = {"tensorflow/__init__.py": "", "tensorflow/keras/__init__.py": "import keras\n"}
    write_distribution(site, "tensorflow", "2.19.0", requires=["keras>=3.5.0"], files=files)
    lines = "import tensorflow\ntensorflow.register_load_context_function()\n"
    write_distribution(site, "keras", "2.15.0", files={"keras/__init__.py": lines})
    machine = examined(tmp_path)
    assert "tensorflow.keras" in imports(machine)
    assert "requirements-incomplete" in problems(machine)
    assert remedies(machine, "requirements-incomplete") == ["ReplacePackage keras>=3.5.0"]


def test_a_crash_of_torchvision_costs_only_itself(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_vision(site)
    write_distribution(site, "torchaudio", "2.9.1+cpu", files={"torchaudio/__init__.py": "import torch\n"})
    (site / "torchvision/__init__.py").write_text("import torch, os\nos.abort()\n")
    machine = examined(tmp_path)
    assert problems(machine) == [FAILS]
    assert "SIGABRT" in finding(machine, FAILS).message
    audio = imports(machine)["torchaudio"]
    assert audio is not None
    assert audio.ok


def test_an_empty_folder_of_its_name_is_no_framework(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_jax(site)
    for name in ("__init__.py", "version.py"):
        (site / "jax" / name).unlink()
    assert "empty folder as jax" in finding(examined(tmp_path), "framework-install-damaged").message


def test_a_record_without_its_modules_is_told_with_where_they_came_from(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_vision(site)
    (site / "torchvision/__init__.py").unlink()
    (site / "torchvision").rmdir()
    record = next(site.glob("torchvision-*.dist-info"))
    (record / "RECORD").write_text("")
    machine = examined(tmp_path)
    assert "its modules are not there" in finding(machine, FAILS).message
    (record / "direct_url.json").write_text('{"url": "file:///home/me/vision", "dir_info": {"editable": true}}')
    machine = examined(tmp_path)
    assert "/home/me/vision" in finding(machine, FAILS).message
    assert remedies(machine, FAILS) == ["Manual"]


@pytest.mark.parametrize(
    ("lines", "environ", "fix"),
    [
        ("import os\nif os.environ.get('JAX_ENABLE_X64'):\n    raise ValueError('bad truth of JAX_ENABLE_X64')\n",
         {"JAX_ENABLE_X64": "maybe"}, "unset JAX_ENABLE_X64"),
        ("raise ImportError('no CUDA here: set CUDA_HOME')\n", {"CUDA_HOME": "/usr/local/cuda"}, "Manual"),
        ("raise ImportError('set JAX_SOMETHING')\n", {}, "Manual"),
        ("raise ValueError('Unable to import backend : mxnet')\n", {"KERAS_BACKEND": "mxnet"}, "unset KERAS_BACKEND"),
        ("raise ValueError('Unable to import backend : theano')\n", {}, "Manual"),
    ],
)  # fmt: skip
def test_a_variable_that_the_error_names_is_unset(
    tmp_path: Path, lines: str, environ: dict[str, str], fix: str
) -> None:
    site = venv(tmp_path)
    write_jax(site, **{"jax/__init__.py": lines})
    machine = examined(tmp_path, **environ)
    assert remedies(machine, FAILS) == [fix]


def test_an_import_that_hangs_is_a_fault_and_ends(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_jax(site)
    (site / "jax/__init__.py").write_text("import time\ntime.sleep(600)\n")
    start = time.monotonic()
    trial = try_module(LiveHost({}), str(tmp_path / "venv/bin/python"), "jax", limits=Limits(importing=1.0))
    assert trial.value is not None
    assert trial.value.hung
    assert time.monotonic() - start < 15


# --- judged from the record ------------------------------------------------------------------------------


def tried(
    trial: ImportTrial | None,
    *packages: Distribution,
    module: str = "jax",
    version: str = "0.6.2",
    needs: str = "",
    without_torch: bool = False,
    **parts: Any,
) -> Machine:
    """A machine whose environment has a JAX that was imported so; None: the import gave no answer."""
    machine = nvidia_machine(torch=None) if without_torch else nvidia_machine()
    environment = machine.environment.value
    assert environment is not None
    requires = (needs,) if needs else ()
    own = Distribution(module, version, path=f"{SITE}/{module}-{version}.dist-info", requires=requires, **parts)
    fact = known(trial, f"import {module}") if trial else unknown("still loaded libraries", f"import {module}")
    one = ModuleImport(module, module, version, "torch" if "torch" in module else module, fact)
    listed = (*(environment.distributions.value or ()), own, *packages)
    frameworks = replace(environment.frameworks, imports=(one,))
    environment = replace(environment, frameworks=frameworks, distributions=known(listed, SITE))
    return replace(machine, environment=replace(machine.environment, value=environment))


def failed(error: str, *suspects: SuspectFile) -> ImportTrial:
    return ImportTrial(ok=False, error=error, suspects=suspects)


def test_an_import_without_an_answer_is_not_called_healthy() -> None:
    machine = tried(None)
    assert FAILS not in dict(told(machine))
    assert any("still loaded libraries" in one.why and one.matters for one in questions(machine))


def test_a_library_of_the_driver_is_the_drivers_fault() -> None:
    machine = tried(failed("ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"))
    assert FAILS not in dict(told(machine))


def test_a_torchvision_of_another_torch_is_one_problem() -> None:
    error = "RuntimeError: operator torchvision::nms does not exist"
    mismatched = tried(failed(error), module="torchvision", version="0.22.1")
    assert [slug for slug, severity in told(mismatched) if severity == "error"] == ["torchvision-mismatch"]
    assert error in finding(mismatched, "torchvision-mismatch").message
    fitting = tried(failed(error), module="torchvision", version="0.24.1")
    assert remedies(fitting, FAILS) == ["ReinstallPackage torchvision0.24.1+cu128"]
    own_build = with_torch(fitting, origin="source")
    assert remedies(own_build, FAILS) == ["Manual"]


def test_a_torchvision_that_was_not_compiled_in_its_folder_is_installed_from_the_index() -> None:
    error = "RuntimeError: operator torchvision::nms does not exist"
    machine = tried(failed(error), module="torchvision", version="0.24.1", direct_url="file:///home/me/vision")
    assert "or not at all (file:///home/me/vision)" in finding(machine, FAILS).message
    assert remedies(machine, FAILS) == ["ReinstallPackage torchvision0.24.1+cu128"]


def test_a_torchvision_of_conda_beside_a_torch_of_pip_is_replaced_by_that_of_the_index() -> None:
    """conda would bring its own torch along."""
    error = "RuntimeError: operator torchvision::nms does not exist"
    machine = tried(failed(error), module="torchvision", version="0.22.1", installer="conda")
    assert remedies(machine, FAILS) == ["RemovePackage torchvision", "ReplacePackage torchvision==0.24.1"]


HELPER = Distribution("helper", "2.0", path=f"{SITE}/helper-2.0.dist-info")
OWN = f"{SITE}/jax/__init__.py"
LOST = replace(HELPER, name="numpy", damaged=(DamagedFile(f"{SITE}/numpy/a.so", "truncated"),))
TWICE = replace(HELPER, name="numpy", twins=(replace(HELPER, name="numpy", version="1.0"),))


@pytest.mark.parametrize(
    ("package", "slug"),
    [
        (LOST, "requirements-incomplete"),
        (TWICE, "package-installed-twice"),
    ],
)
def test_what_is_wrong_with_a_required_package_explains_an_error_that_points_at_nothing(
    package: Distribution, slug: str
) -> None:
    machine = tried(failed("ImportError", SuspectFile(OWN, owner="jax", version="0.6.2")), package, needs="numpy")
    assert [slug for slug, severity in told(machine) if severity == "error"] == [slug]
    assert "Seen: ImportError" in finding(machine, slug).message


def test_a_framework_that_was_imported_does_without_what_it_requires() -> None:
    assert dict(told(tried(ImportTrial(ok=True), LOST, needs="numpy")))["requirements-incomplete"] == "warning"
    fails = tried(failed("ImportError"), LOST, needs="numpy")
    assert dict(told(fails))["requirements-incomplete"] == "error"


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: Detected that PyTorch and TorchAudio were compiled with different CUDA versions.",
        "OSError: libc10_cuda.so: cannot open shared object file: No such file or directory",
        "OSError: libcudart.so.12: cannot open shared object file: No such file or directory",
    ],
)
def test_a_torchaudio_of_another_build_is_one_problem(error: str) -> None:
    machine = tried(failed(error), module="torchaudio", version="2.7.1")
    assert [slug for slug, severity in told(machine) if severity == "error"] == ["torchaudio-mismatch"]


@pytest.mark.parametrize(("name", "expected"), [("late.py", "warning"), ("libjax.so", "error")])
def test_a_lost_file_that_the_import_does_without_is_a_warning(name: str, expected: str) -> None:
    machine = tried(ImportTrial(ok=True), damaged=(DamagedFile(f"{SITE}/jax/{name}", "truncated"),))
    assert dict(told(machine))["framework-install-damaged"] == expected


def test_an_uninstall_takes_one_of_two_records_and_the_other_one_is_known() -> None:
    old = Distribution("jax", "0.4.30", path=f"{SITE}/jax-0.4.30.dist-info", requires=("jaxlib<=0.4.30",))
    machine = tried(None, Distribution("jaxlib", "0.6.2", path=f"{SITE}/jaxlib-0.6.2.dist-info"), twins=(old,))
    for remedy in (RemovePackage("jax"), ReinstallPackage("jax", "0.4.30")):
        machine = effect(remedy, Situation(machine, matrix())).machine
    assert remedies(machine, "requirements-incomplete") == ["ReplacePackage jaxlib<=0.4.30"]


def test_a_torchvision_beside_another_torch_was_not_tried() -> None:
    machine = tried(failed("RuntimeError: no"), module="torchvision", version="0.24.1")
    environment = machine.environment.value
    assert environment is not None
    assert environment.torch.value is not None
    assert environment.with_torch(environment.torch).frameworks.imports
    other = replace(environment.torch, value=replace(environment.torch.value, version="2.10.0+cu128"))
    assert environment.with_torch(other).frameworks.imports == ()


def test_another_packages_missing_files_do_not_explain_it() -> None:
    gone = SuspectFile(f"{SITE}/helper/a.py", owner="helper", version="2.0", problem="missing")
    machine = tried(failed("ModuleNotFoundError: No module named 'helper.a'", gone))
    assert remedies(machine, FAILS) == ["ReinstallPackage helper2.0"]


def test_an_extra_leaves_the_damaged_files_of_its_package_as_they_are() -> None:
    changed = SuspectFile(f"{SITE}/jax/a.py", owner="jax", version="0.6.2", problem="changed")
    trial = failed("SyntaxError: invalid syntax (a.py, line 1)", changed)
    machine = tried(trial, installer="pip", without_torch=True)
    assert {FAILS, "framework-cpu-only"} <= dict(told(machine)).keys()
    plan = plan_of(machine, Permissions())
    commands = [one.step.argv[-1] for one in plan.steps if isinstance(one.step, RunStep)]
    assert sorted(commands) == ["jax==0.6.2", "jax[cuda12]==0.6.2"]


def test_an_extra_leaves_the_damaged_plugin_that_is_there_in_its_release() -> None:
    plugin, pjrt = (
        Distribution(f"jax-cuda12-{name}", "0.6.2", path=f"{SITE}/jax_cuda12_{name}-0.6.2.dist-info")
        for name in ("plugin", "pjrt")
    )
    plugin = replace(plugin, requires=("jax-cuda12-pjrt==0.6.2",))
    pjrt = replace(pjrt, damaged=(DamagedFile(f"{SITE}/jax_plugins/xla_cuda_plugin.so", "truncated"),))
    machine = tried(ImportTrial(ok=True), plugin, pjrt, without_torch=True)
    assert "requirements-incomplete" in dict(told(machine))
    after = effect(ReplacePackage("jax", "==0.6.2", extra="cuda12"), Situation(machine, matrix())).machine
    assert "requirements-incomplete" in dict(told(after))


def test_a_build_for_the_cpu_stays_one_when_it_is_installed_again() -> None:
    machine = tried(ImportTrial(ok=True), module="onnxruntime", version="1.22.0", without_torch=True)
    environment = machine.environment.value
    assert environment is not None
    files = FrameworkFiles("onnxruntime", version="1.22.0", owner="onnxruntime", requested=True, source=SITE)
    frameworks = replace(environment.frameworks, others=(files,))
    environment = replace(environment, frameworks=frameworks)
    machine = replace(machine, environment=replace(machine.environment, value=environment))
    assert dict(told(machine))["framework-cpu-only"] == "warning"
    after = effect(ReinstallPackage("onnxruntime", "1.22.0"), Situation(machine, matrix())).machine
    assert dict(told(after))["framework-cpu-only"] == "warning"


def test_a_fix_for_another_package_is_not_expected_to_repair_an_import() -> None:
    gone = SuspectFile(f"{SITE}/helper/a.py", owner="helper", version="2.0", problem="missing")
    machine = tried(failed("ModuleNotFoundError: No module named 'helper.a'", gone), Distribution("helper", "2.0"))
    environment = machine.environment.value
    assert environment is not None
    vision = Distribution("torchvision", "0.22.1", path=f"{SITE}/torchvision-0.22.1.dist-info", installer="pip")
    listed = (*(environment.distributions.value or ()), vision)
    environment = replace(environment, distributions=known(listed, SITE))
    both = replace(machine, environment=replace(machine.environment, value=environment))
    assert {FAILS, "torchvision-mismatch"} <= dict(told(both)).keys()
    plan = plan_of(both, Permissions())
    commands = [" ".join(one.step.argv) for one in plan.steps if isinstance(one.step, RunStep)]
    assert any("helper==2.0" in command for command in commands)
    assert any("torchvision" in command for command in commands)


# --- emptied files ---------------------------------------------------------------------------------------


def test_emptied_files_that_the_import_does_without_are_found(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_jax(site, **{"jax/deep/inside/late.py": "x = 1\n", "jax/deep/tests/a.py": "x = 1\n", "jax/empty.py": ""})
    late = {"torch/_inductor/compile_fx.py": "x = 1\n", "torch/testing/x.py": "x = 1\n"}
    files = {"torch/__init__.py": TORCH, "torch/version.py": "__version__ = '2.9.1+cpu'\n", **late}
    write_distribution(site, "torch", "2.9.1+cpu", files=files)
    assert problems(examined(tmp_path)) == []
    for name in ("jax/deep/inside/late.py", "jax/deep/tests/a.py", *late):
        (site / name).write_text("")
    machine = examined(tmp_path)
    assert dict(told(machine))["torch-install-damaged"] == "warning"
    assert "compile_fx.py" in finding(machine, "torch-install-damaged").message
    assert "late.py" in finding(machine, "framework-install-damaged").message
    assert "tests" not in finding(machine, "framework-install-damaged").message
    assert "torch-install-damaged" not in dict(told(examined(tmp_path, "static")))


@pytest.mark.parametrize(("end", "told_of"), [(8192, True), (8100, False), (12288 + 20, False)])
def test_a_source_that_ends_with_a_block_of_the_disk_was_cut(tmp_path: Path, end: int, told_of: bool) -> None:
    """A file that was edited or patched ends anywhere."""
    site = venv(tmp_path)
    write_jax(site, **{"jax/late.py": "x = 1\n" * 2050})
    text = (site / "jax/late.py").read_text()
    (site / "jax/late.py").write_text((text * 2)[:end])
    assert ("framework-install-damaged" in dict(told(examined(tmp_path)))) is told_of


# --- what the error does not say --------------------------------------------------------------------------


def test_what_is_left_of_a_package_without_its_files_is_no_package(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_jax(site)
    for path in (*(site / "helper").iterdir(), *(site / "helper-2.0.dist-info").iterdir()):
        path.unlink()
    (site / "helper-2.0.dist-info").rmdir()
    (site / "helper/__pycache__").mkdir()
    (site / "jax/__init__.py").write_text("import helper\nhelper.part\n")
    machine = examined(tmp_path)
    assert "helper is required and not installed" in finding(machine, FAILS).message
    assert remedies(machine, FAILS) == ["ReplacePackage helper>=2"]


def test_a_package_that_this_user_may_not_look_into_is_told_as_such(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_jax(site)

    class Closed(LiveHost):
        def names(self, path: str) -> Fact[tuple[str, ...]]:
            return denied(path, "Permission denied") if path == f"{site}/helper" else super().names(path)

    environment = examined(tmp_path).environment.value
    assert environment is not None
    trial = ImportTrial(ok=False, error="AttributeError: module 'helper' has no attribute 'x'", empty=("helper",))
    found = with_suspects(Closed({}), environment, trial, ProcessLimits(), ProcessLimits())
    assert (found.suspects[0].path, found.suspects[0].problem) == (f"{site}/helper", "unreadable")


@pytest.mark.parametrize("variable", [True, False])
@pytest.mark.parametrize("file", ["backend/jax/core.py", "tree/impl.py"])
def test_a_backend_that_keras_does_not_find_is_not_to_be_installed(tmp_path: Path, file: str, variable: bool) -> None:
    site = venv(tmp_path)
    module = "keras.src." + file.removesuffix(".py").replace("/", ".")
    write_distribution(
        site,
        "tensorflow",
        "2.19.0",
        files={"tensorflow/__init__.py": "", "tensorflow/keras/__init__.py": "import keras\n"},
    )
    files = {"keras/__init__.py": f"import {module}\n", f"keras/src/{file}": "import jax\n"}
    write_distribution(site, "keras", "3.15.1", files=files)
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    machine = examined(tmp_path, **({"KERAS_BACKEND": "jax"} if variable else {"KERAS_HOME": str(tmp_path)}))
    assert FAILS not in problems(machine)
    fix = "unset KERAS_BACKEND" if variable else "set KERAS_BACKEND=tensorflow"
    assert remedies(machine, "framework-variable") == [fix]
    assert "Seen: ModuleNotFoundError: No module named 'jax'" in finding(machine, "framework-variable").message


@pytest.mark.parametrize("variable", [True, False])
def test_a_package_that_hides_an_installed_one_of_its_name_is_named(tmp_path: Path, variable: bool) -> None:
    site = venv(tmp_path)
    write_jax(site, **{"jax/__init__.py": "import helper.inner\n"})
    write_distribution(site, "helper-inner", "1.0", files={"helper/inner/__init__.py": ""})
    before = tmp_path / "before"
    (before / "helper").mkdir(parents=True)
    (before / "helper/__init__.py").write_text("")
    if not variable:
        (site / "0.pth").write_text(f"import sys; sys.path.insert(0, {str(before)!r})\n")
    machine = examined(tmp_path, **({"PYTHONPATH": str(before)} if variable else {}))
    assert f"{before}/helper/__init__.py" in finding(machine, FAILS).message
    assert remedies(machine, FAILS) == ["unset PYTHONPATH" if variable else "Manual"]


def test_another_copy_of_the_framework_itself_is_named_and_not_installed_again(tmp_path: Path) -> None:
    """The error comes from a package that is as installed: only the lines before it are those of the other copy."""
    site = venv(tmp_path)
    write_jax(site)
    (site / "helper/check.py").write_text(
        "def check(number):\n    if number < 1:\n        raise RuntimeError('old')\n"
    )
    before = tmp_path / "before"
    (before / "jax").mkdir(parents=True)
    (before / "jax/__init__.py").write_text("from helper.check import check\ncheck(0)\n")
    (site / "0.pth").write_text(f"import sys; sys.path.insert(0, {str(before)!r})\n")
    machine = examined(tmp_path)
    assert f"{site}/0.pth makes Python look into {before}, where" in finding(machine, FAILS).message
    assert f"Take {before} out of {site}/0.pth" in finding(machine, FAILS).fixes[0].remedies[0].text  # type: ignore[union-attr]


def test_an_error_that_was_only_printed_is_read(tmp_path: Path) -> None:
    site = venv(tmp_path)
    printed = "import sys\nprint('AttributeError: _ARRAY_API not found', file=sys.stderr)\nraise ImportError\n"
    write_jax(site, **{"jax/__init__.py": printed})
    write_distribution(site, "numpy", "2.3.5", files={"numpy/__init__.py": ""})
    machine = examined(tmp_path)
    assert "jax was compiled for NumPy 1, and NumPy 2.3.5 is installed" in finding(machine, FAILS).message
    assert remedies(machine, FAILS) == ["ReplacePackage numpy<2"]


def test_a_framework_that_works_beside_another_release_than_it_asks_for_is_left_alone() -> None:
    newer = Distribution("numpy", "1.26.4", path=f"{SITE}/numpy-1.26.4.dist-info")
    works = tried(ImportTrial(ok=True), newer, needs="numpy>=2")
    assert "requirements-incomplete" not in dict(told(works))
    fails = tried(failed("ImportError"), newer, needs="numpy>=2")
    assert remedies(fails, "requirements-incomplete") == ["ReplacePackage numpy>=2"]


def test_a_file_of_a_frameworks_name_is_noted_where_programs_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jax(venv(tmp_path))
    here = tmp_path / "project"
    here.mkdir()
    (here / "jax.py").write_text("")
    monkeypatch.chdir(here)
    assert dict(told(examined(tmp_path)))["module-shadowed"] == "warning"


def test_a_module_on_pythonpath_is_blamed_where_the_import_fails_and_not_where_it_works(tmp_path: Path) -> None:
    write_jax(venv(tmp_path), **{"jax/__init__.py": "import hmac\n"})
    before = tmp_path / "before"
    before.mkdir()
    (before / "hmac.py").write_text("")
    assert "module-shadowed" not in dict(told(examined(tmp_path, PYTHONPATH=str(before))))
    (before / "hmac.py").write_text("raise ImportError('mine')\n")
    assert problems(examined(tmp_path, PYTHONPATH=str(before))) == ["module-shadowed"]


def test_of_two_releases_in_one_folder_that_one_stays_that_finds_what_it_requires(tmp_path: Path) -> None:
    site = venv(tmp_path)
    write_distribution(site, "jaxlib", "0.6.2", files={"jaxlib/__init__.py": "x = 1\n"})
    write_distribution(site, "jax", "0.6.2", requires=["jaxlib==0.6.2"], files={"jax/__init__.py": "x = 1\n"})
    (site / "jax/__init__.py").unlink()
    files = {"jax/__init__.py": "raise RuntimeError('jaxlib is newer')\n", "jax/old.py": "x = 1\n"}
    write_distribution(site, "jax", "0.4.30", requires=["jaxlib<=0.4.30"], files=files)
    machine = examined(tmp_path)
    assert problems(machine) == ["package-installed-twice"]
    assert "jaxlib is newer" in finding(machine, "package-installed-twice").message
    assert remedies(machine, "package-installed-twice") == ["RemovePackage jax", "ReinstallPackage jax0.6.2"]
    after = plan_of(machine, Permissions())
    assert [one.step.argv[-1] for one in after.steps if isinstance(one.step, RunStep)] == ["jax", "jax==0.6.2"]
