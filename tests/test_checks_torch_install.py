"""Is torch whole, the one that is meant, and can it be imported."""

from __future__ import annotations

import pytest

from gpudoctor.finding import UnsetVariable
from gpudoctor.machine import NOT_STARTED, DamagedFile, Distribution, ImportTrial, TorchCopy, absent, known
from gpudoctor.planner.effects import effect
from gpudoctor.planner.plan import fixes_for
from gpudoctor.situation import Situation
from gpudoctor.step import ManualStep, RunStep
from tests.support.check_cases import matrix
from tests.support.judging import finding, plan_of, remedies, severity, told
from tests.support.machines import change, nvidia_machine, torch, with_environment, with_system, with_torch
from tests.test_render_formats import given_as

SITE = "/venv/lib/python3.12/site-packages"
OWN = TorchCopy(path=f"{SITE}/torch", version="2.9.1+cu128", via="site")


def copies(*found):
    return with_torch(nvidia_machine(), copies=found)


# --- copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("via", "remedy"),
    [("PYTHONPATH", "unset PYTHONPATH"), ("user site", "set PYTHONNOUSERSITE=1"), (".pth", "Manual")],
)
def test_another_version_before_the_installed_one(via, remedy):
    machine = copies(TorchCopy(path="/srv/old/torch", version="1.13.1+cu117", via=via), OWN)
    assert told(machine)[0] == ("torch-shadowed", "error")
    assert remedies(machine, "torch-shadowed") == [remedy]


def test_the_wrong_copy_comes_before_what_it_lacks():
    shadow = TorchCopy(path="/srv/old/torch", version="1.13.1+cu116", via="PYTHONPATH")
    machine = with_torch(
        nvidia_machine(torch=torch("1.13.1+cu116"), python="3.10"), copies=(shadow, OWN), damaged=(_cut("libc10.so"),)
    )
    assert told(machine)[0] == ("torch-shadowed", "error")


def test_copies_that_are_not_in_the_way_are_silent():
    system = TorchCopy(path="/usr/lib/python3/dist-packages/torch", version="2.6.0+debian", via="system site")
    assert told(copies(OWN, system)) == []
    assert told(copies(TorchCopy(path="/apps/pytorch/torch", version="2.9.1", via="PYTHONPATH"))) == []


@pytest.mark.parametrize("own", ["2.9.1+cu128", "2.13.0+cpu"])
def test_what_is_installed_comes_before_the_torch_of_pythonpath_once_that_is_unset(own):
    shadow = TorchCopy(path="/srv/cpu/torch", version="2.13.0+cpu", via="PYTHONPATH")
    machine = with_torch(nvidia_machine(torch=torch("2.13.0+cpu")), copies=(shadow, change(OWN, version=own)))
    situation = Situation(change(machine, variables={"PYTHONPATH": "/srv/cpu"}), matrix())
    cpu_only = finding(nvidia_machine(torch=torch("2.13.0+cpu")), "torch-cpu-only")
    (other,) = cpu_only.fixes[0].remedies[:1]
    after = effect(other, situation).machine
    assert told(after) == [] and "PYTHONPATH" not in after.variables
    unset, install = fixes_for(cpu_only, situation)[0].steps
    assert isinstance(unset, ManualStep) and "unset PYTHONPATH" in unset.text
    assert isinstance(install, RunStep)
    if own != shadow.version:
        (alone,) = finding(situation.machine, "torch-shadowed").fixes[0].remedies
        assert told(effect(alone, situation).machine) == []  # and not "its own files name no CUDA"


@pytest.mark.parametrize("folder", ["/", "/venv", "/venv/lib/python3.12"])
def test_an_environment_below_a_folder_of_pythonpath_is_not_behind_it(folder):
    """PYTHONPATH=/project and /project/.venv: what is installed there is found there, and the variable stays."""
    machine = with_torch(nvidia_machine(torch=torch("2.13.0+cpu"), packages={"numpy": "2.3.0"}), copies=(OWN,))
    situation = Situation(change(machine, variables={"PYTHONPATH": folder}), matrix())
    (install,) = fixes_for(finding(situation.machine, "torch-cpu-only"), situation)[0].steps
    assert isinstance(install, RunStep)
    without = effect(UnsetVariable("PYTHONPATH"), situation).machine
    assert without.installed("numpy") and "PYTHONPATH" not in without.variables


@pytest.mark.parametrize(("own", "via", "fixless"), [("2.9.1+cu128", "PYTHONPATH", True),
                                                      ("2.13.0+cu128", "user site", True),
                                                      ("2.12.0+cpu", "PYTHONPATH", False)])  # fmt: skip
def test_what_is_wrong_with_the_torch_of_pythonpath_is_an_effect_of_it_and_has_no_other_fix(own, via, fixless):
    """Where the torch behind it has the same fault, that one has a fix of its own."""
    folder = "/srv/cpu" if via == "PYTHONPATH" else "/home/u/.local/lib/python3.12/site-packages"
    shadow = TorchCopy(path=f"{folder}/torch", version="2.13.0+cpu", via=via)
    machine = with_torch(nvidia_machine(torch=torch("2.13.0+cpu")), copies=(shadow, change(OWN, version=own)))
    machine = change(machine, variables={"PYTHONPATH": folder} if via == "PYTHONPATH" else {})
    effect_of_it = finding(machine, "torch-cpu-only")
    assert ("GPD412" in effect_of_it.caused_by, not effect_of_it.fixes) == (True, fixless)
    assert ("Fix: that of torch-shadowed [GPD412]: this goes with it" in given_as("text", machine)) is fixless
    plan = plan_of(machine, only=["GPD405"])
    assert "GPD412" in {id for step in plan.steps for id in step.because} and not plan.helpless


def test_a_torch_that_pythonpath_alone_brings_is_replaced_there_by_a_person():
    only = TorchCopy(path="/srv/cpu/torch", version="2.13.0+cpu", via="PYTHONPATH")
    machine = with_torch(nvidia_machine(torch=torch("2.13.0+cpu")), copies=(only,))
    situation = Situation(change(machine, variables={"PYTHONPATH": "/srv/cpu"}), matrix())
    fix = fixes_for(finding(situation.machine, "torch-cpu-only"), situation)[0]
    (step,) = fix.steps
    assert isinstance(step, ManualStep) and "pip install --upgrade --target /srv/cpu --index-url " in step.text
    _, venv = step.text.split("in a venv of its own:\n")
    make, unset, install = venv.splitlines()
    assert make.endswith(" -m venv .venv-gpu") and unset == "unset PYTHONPATH"
    assert install.startswith(".venv-gpu/bin/python -m pip install --index-url ")


@pytest.mark.parametrize("place", [{"externally_managed": True}, {"project": "/home/me/app", "lock": "uv.lock"}])
def test_what_goes_into_another_place_than_pythonpaths_comes_with_the_variable_unset(place):
    only = TorchCopy(path="/srv/cpu/torch", version="2.13.0+cpu", via="PYTHONPATH")
    machine = with_environment(with_torch(nvidia_machine(torch=torch("2.13.0+cpu")), copies=(only,)), **place)
    situation = Situation(change(machine, variables={"PYTHONPATH": "/srv/cpu"}), matrix())
    unset, install = fixes_for(finding(situation.machine, "torch-cpu-only"), situation)[0].steps[:2]
    assert isinstance(unset, ManualStep) and "unset PYTHONPATH" in unset.text and isinstance(install, RunStep)


def test_nothing_is_installed_over_sources_that_pythonpath_names():
    sources = TorchCopy(path="/home/me/pytorch/torch", version="2.13.0a0+git1234567", via="PYTHONPATH")
    own = change(torch("2.13.0+cpu"), version=sources.version, build=None, origin="source")
    machine = with_torch(nvidia_machine(torch=own), copies=(sources,))
    situation = Situation(change(machine, variables={"PYTHONPATH": "/home/me/pytorch"}), matrix())
    fixes = fixes_for(finding(situation.machine, "torch-cpu-only"), situation)
    texts = [step.text for fix in fixes for step in fix.steps if isinstance(step, ManualStep)]
    assert any("unset PYTHONPATH\n.venv-gpu/bin/python -m pip install " in text for text in texts)
    assert not any("--target" in text for text in texts)


def test_without_the_users_site_folder_python_imports_the_torch_of_the_environment():
    user, site = "/home/me/.local/lib/python3.11/site-packages", "/opt/conda/lib/python3.11/site-packages"
    cpu = TorchCopy(path=f"{user}/torch", version="2.13.0+cpu", via="user site")
    own = TorchCopy(path=f"{site}/torch", version="2.9.1+cu128", via="site")
    machine = with_environment(
        with_torch(nvidia_machine(torch=torch("2.13.0+cpu")), copies=(cpu, own)),
        kind="conda",
        prefix="/opt/conda",
        site_packages=(user, site),
    )
    (variable,) = finding(machine, "torch-shadowed").fixes[0].remedies
    after = effect(variable, Situation(machine, matrix())).machine
    assert told(after) == []
    assert after.environment.value.site_packages == (site,)


@pytest.mark.parametrize(
    ("record", "trial", "weight"),
    [
        ({"installer": "pip"}, None, "warning"),
        ({"installer": "uv"}, ImportTrial(ok=True), "warning"),
        ({"installer": "pip"}, ImportTrial(ok=False, error="ImportError: a"), "error"),
        ({"installer": "conda"}, None, "error"),
        ({"installer": "pip", "lacks": ("RECORD",)}, None, "error"),
        ({"installer": "pip", "twins": (Distribution("torch", "2.6.0"),)}, None, "error"),
    ],
)
def test_a_whole_torch_of_pip_in_the_place_of_condas_works_until_conda_changes_it(record, trial, weight):
    trace = TorchCopy(path="/venv/conda-meta/pytorch-2.6.0-cuda_1.json", version="2.6.0", via="conda record")
    own = Distribution("torch", "2.9.1", f"{SITE}/torch-2.9.1.dist-info", **record)
    machine = with_environment(copies(OWN, trace), distributions=known((own,), SITE))
    machine = with_torch(machine, **({"trial": known(trial, "child")} if trial else {}))
    assert finding(machine, "torch-shadowed").severity == weight


def test_a_torch_that_is_imported_without_a_python_file_fails_later():
    works = known(ImportTrial(ok=True), "child")
    lost = DamagedFile(path=f"{SITE}/torch/_inductor/__init__.py", problem="missing")
    assert severity(with_torch(nvidia_machine(), damaged=(lost,)), "torch-install-damaged") == "error"
    assert severity(with_torch(nvidia_machine(), damaged=(lost,), trial=works), "torch-install-damaged") == "warning"


def test_the_same_version_twice_is_a_note():
    twice = TorchCopy(path="/srv/torch", version="2.9.1+cu128", via="PYTHONPATH")
    assert severity(copies(twice, OWN), "torch-shadowed") == "note"


def test_a_file_named_torch_py_stands_in_the_way():
    machine = copies(TorchCopy(path="/home/project/torch.py", version=None, via="PYTHONPATH"), OWN)
    assert "torch.py" in finding(machine, "torch-shadowed").fixes[0].title


@pytest.mark.parametrize(
    ("via", "weight"),
    [
        ("left-over dist-info", "error"),
        ("conda record", "warning"),
        ("interrupted uninstall", "note"),
        ("left-over files", "note"),
        ("dist-info without files", "note"),
    ],
)
def test_traces_of_earlier_installs(via, weight):
    trace = TorchCopy(path=f"{SITE}/torch-2.6.0.dist-info", version="2.6.0", via=via)
    assert severity(copies(OWN, trace), "torch-shadowed") == weight


@pytest.mark.parametrize(
    ("trial", "damaged", "weight", "way"),
    [
        (None, (), "warning", "rm -rf"),
        (ImportTrial(ok=True), (), "warning", "rm -rf"),
        (ImportTrial(ok=False, error="ImportError: a"), (), "error", ""),
        (None, (DamagedFile(path=f"{SITE}/torch/_C.so", problem="missing"),), "error", ""),
    ],
)
def test_a_record_without_files_beside_a_whole_torch_is_removed_alone(trial, damaged, weight, way):
    left = f"{SITE}/torch-2.6.0.dist-info"
    trace = TorchCopy(path=left, version="2.6.0", via="left-over dist-info")
    record = Distribution("torch", "2.9.1", f"{SITE}/torch-2.9.1.dist-info", strays=(left,))
    machine = with_environment(copies(OWN, trace), distributions=known((record,), SITE))
    machine = with_torch(machine, damaged=damaged, **({"trial": known(trial, "child")} if trial else {}))
    found = finding(machine, "torch-shadowed")
    assert found.severity == weight
    assert way in getattr(found.fixes[0].remedies[0], "text", "")
    assert (len(found.fixes[0].remedies) == 1 and weight == "error") != (way == "rm -rf")


def test_a_torch_of_pip_beside_the_records_of_condas_needs_a_new_environment():
    """`pip install --ignore-installed torch` in a conda prefix: pip can take away one of the two records at most."""
    traces = (
        TorchCopy(path=f"{SITE}/torch-2.6.0.dist-info", version="2.6.0", via="left-over dist-info"),
        TorchCopy(path="/opt/c/conda-meta/pytorch-2.6.0.json", version="2.6.0", via="conda record"),
    )
    machine = with_torch(copies(OWN, *traces), trial=known(ImportTrial(ok=False, error="ImportError: a"), "child"))
    assert severity(machine, "torch-shadowed") == "error"
    (remedy,) = finding(machine, "torch-shadowed").fixes[0].remedies
    assert "new environment" in getattr(remedy, "text", "")


# --- damage ------------------------------------------------------------------------------------------


def _cut(name, problem="truncated"):
    return DamagedFile(path=f"{SITE}/torch/lib/{name}", problem=problem)


@pytest.mark.parametrize("problem", ["missing", "truncated"])
def test_missing_and_truncated_files_are_damage_and_installed_again_from_their_index(problem):
    machine = with_torch(nvidia_machine(), damaged=(_cut("libtorch_cuda.so", problem),))
    assert told(machine) == [("torch-install-damaged", "error")]
    remedy = finding(machine, "torch-install-damaged").fixes[0].remedies[0]
    assert (remedy.version, remedy.index_url) == ("2.9.1+cu128", "https://download.pytorch.org/whl/cu128")


def test_edited_files_and_a_torch_that_works_are_no_damage():
    assert told(with_torch(nvidia_machine(), damaged=(_cut("x.py", "changed"),))) == []
    works = known(ImportTrial(ok=True), "child")
    assert told(with_torch(nvidia_machine(), damaged=(_cut("x.so"),), trial=works)) == []


def test_a_build_without_code_for_the_gpu_is_replaced_not_repaired():
    machine = with_torch(nvidia_machine(torch=torch("2.9.1+cpu")), damaged=(_cut("libc10.so"),))
    assert [slug for slug, _ in told(machine)] == ["torch-cpu-only", "torch-install-damaged"]


@pytest.mark.parametrize(
    ("patient", "again", "index"),
    [
        (torch("2.9.1+cu128"), "2.9.1+cu128", "https://download.pytorch.org/whl/cu128"),
        (torch("2.9.7+cu128"), "2.9.7+cu128", "https://download.pytorch.org/whl/cu128"),
        (torch("2.9.1+cu128", origin="pypi"), "2.9.1", ""),
        (torch("2.9.7+cu128", origin="pypi"), "2.9.7", ""),
    ],
)
def test_the_same_build_is_named_as_its_index_names_it(patient, again, index):
    machine = with_torch(nvidia_machine(torch=patient), damaged=(_cut("libc10.so"),))
    remedy = finding(machine, "torch-install-damaged").fixes[0].remedies[0]
    assert (remedy.version, remedy.index_url) == (again, index)


def test_a_build_whose_index_nobody_knows_is_installed_by_hand():
    machine = with_torch(nvidia_machine(torch=torch("2.9.1.x+cu999", origin="unknown")), damaged=(_cut("libc10.so"),))
    assert remedies(machine, "torch-install-damaged") == ["Manual"]


def test_an_environment_whose_python_is_gone_is_made_again():
    gone = ImportTrial(ok=False, error=f"{NOT_STARTED}: /venv/bin/python leads to no Python")
    machine = with_torch(nvidia_machine(), trial=known(gone, "child"))
    assert finding(machine, "torch-import-fails").fixes[0].title == "Create the environment again"


# --- import ------------------------------------------------------------------------------------------


def trial(**parts):
    return known(ImportTrial(ok=False, **parts), "import torch in /venv/bin/python")


@pytest.mark.parametrize(
    ("failed", "text"),
    [
        ({"error": "ImportError: libcudnn.so.9: cannot open shared object file: No such file"}, "libcudnn.so.9"),
        ({"signal": "SIGILL"}, "instruction"),
        ({"signal": "SIGSEGV"}, "SIGSEGV"),
        ({"error": "ImportError: /x/libgomp.so.1: cannot allocate memory in static TLS block"}, "thread-local"),
        ({"error": "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1"}, "same release"),
        ({"error": "ModuleNotFoundError: No module named 'numpy'"}, "numpy"),
    ],
)
def test_a_failed_import_is_told_with_its_reason(failed, text):
    machine = with_torch(nvidia_machine(), trial=trial(**failed))
    assert told(machine) == [("torch-import-fails", "error")]
    found = finding(machine, "torch-import-fails")
    assert text in found.message
    assert found.fixes[0].remedies


def test_an_import_that_fails_by_the_c_library_is_answered_by_a_build_for_it():
    error = "ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by libtorch_python.so)"
    machine = with_system(with_torch(nvidia_machine(), trial=trial(error=error)), libc=known("glibc 2.17", "confstr"))
    assert "C library" in finding(machine, "torch-import-fails").message
    assert remedies(machine, "torch-import-fails") == ["torch 2.6.0+cu124"]
    fitting = with_system(machine, libc=known("glibc 2.36", "confstr"))  # the library is not one of torch's
    assert remedies(fitting, "torch-import-fails") == ["Manual"]


def test_a_torch_that_asks_for_no_glibc_runs_with_musl():
    own = with_torch(nvidia_machine(), needs_glibc=absent("symbol versions"), origin="distribution")
    assert severity(with_system(own, libc=known("musl", "/lib/ld-musl-x86_64.so.1")), "torch-import-fails") is None


def test_nix_brings_a_glibc_of_its_own():
    machine = with_torch(nvidia_machine(), needs_glibc=known("2.40", "libc10.so"))
    machine = with_environment(machine, interpreter="/nix/store/abc-python3-3.12.8/bin/python3.12")
    assert severity(with_system(machine, libc=known("glibc 2.17", "confstr")), "torch-import-fails") is None


def test_an_undefined_symbol_with_a_load_path_variable_set_has_it_unset():
    failed = trial(error="ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister")
    machine = with_torch(nvidia_machine(variables={"LD_LIBRARY_PATH": "/opt/nccl/lib"}), trial=failed)
    assert remedies(machine, "torch-import-fails") == ["unset LD_LIBRARY_PATH"]


@pytest.mark.parametrize(
    "failed",
    [
        {"error": "ImportError: /venv/torch/lib/libc10.so: cannot read file data"},
        {"error": "ImportError: libc10.so: cannot open shared object file: No such file or directory"},
        {"error": "ModuleNotFoundError: No module named 'torch.version'"},
        {"error": "ImportError: cannot import name 'functional' from partially initialized module 'torch' (a.py)"},
        {"error": "AttributeError: partially initialized module 'torch.nn.functional' has no attribute 'relu'"},
        {"signal": "SIGBUS"},
    ],
)
def test_a_failed_import_is_told_with_the_damage_that_explains_it(failed):
    machine = with_torch(nvidia_machine(), trial=trial(**failed), damaged=(_cut("libc10.so"),))
    assert told(machine) == [("torch-install-damaged", "error")]
    assert next(iter(failed.values())) in finding(machine, "torch-install-damaged").message


@pytest.mark.parametrize(
    "failed",
    [
        {"error": "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"},
        {"error": "ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister"},
        {"error": "ModuleNotFoundError: No module named 'numpy'"},
        {"error": "ModuleNotFoundError: No module named 'torchvision'"},
        {"signal": "SIGILL"},
        {"signal": "SIGKILL"},
    ],
)
def test_an_import_that_fails_for_another_reason_stands_beside_the_damage(failed):
    machine = with_torch(nvidia_machine(), trial=trial(**failed), damaged=(_cut("libc10.so"),))
    assert [slug for slug, _ in told(machine)] == ["torch-install-damaged", "torch-import-fails"]


WORKS = known(ImportTrial(ok=True), "import torch in /venv/bin/python")


@pytest.mark.parametrize(
    ("name", "needs", "imported", "expected"),
    [
        ("libgomp.so.1", (), False, [("torch-install-damaged", "warning")]),
        ("libgomp.so.1", ("libgomp.so.1",), False, [("torch-install-damaged", "error")]),
        ("libgomp.so.1", (), True, []),
        ("libtorch_cuda_linalg.so", (), False, [("torch-install-damaged", "error")]),
        ("libtorch_cuda_linalg.so", (), True, [("torch-install-damaged", "warning")]),
    ],
)
def test_a_lost_library_counts_as_far_as_something_needs_it(name, needs, imported, expected):
    machine = with_torch(nvidia_machine(), damaged=(_cut(name, "missing"),), needs_libraries=needs)
    machine = with_torch(machine, trial=WORKS) if imported else machine
    assert told(machine) == expected
    if expected == [("torch-install-damaged", "warning")] and not imported:
        assert finding(machine, "torch-install-damaged").confidence == "likely"


def test_a_library_of_torchs_own_that_is_gone_is_one_fault_also_unproved():
    gone = (_cut("libc10.so", "missing"),)
    assert told(with_torch(nvidia_machine(), needs_libraries=("libc10.so",), damaged=gone)) == [
        ("torch-install-damaged", "error")
    ]
    both = told(with_torch(nvidia_machine(), needs_libraries=("libc10.so", "libcudnn.so.9"), damaged=gone))
    assert [slug for slug, _ in both] == ["torch-install-damaged", "torch-import-fails"]


def test_a_library_that_is_nowhere_is_likely_to_fail_and_a_success_says_otherwise():
    machine = with_torch(nvidia_machine(), needs_libraries=("libcudart.so.12",))
    assert finding(machine, "torch-import-fails").confidence == "likely"
    assert told(with_torch(machine, trial=known(ImportTrial(ok=True), "child"))) == []


def test_packages_that_torch_requires_and_that_are_not_there_are_installed():
    machine = with_torch(nvidia_machine(packages={"nvidia-nccl-cu12": "2.27.5"}), needs_libraries=("libcudnn.so.9",))
    listed = machine.environment.value.distributions
    wanted = ("nvidia-cudnn-cu12==9.10.2.21", "nvidia-nccl-cu12==2.27.5")
    own = tuple(change(d, requires=wanted) if d.name == "torch" else d for d in listed.value)
    machine = with_environment(machine, distributions=known(own, listed.source))
    assert remedies(machine, "torch-import-fails") == ["ReplacePackage nvidia-cudnn-cu12==9.10.2.21"]


def test_a_processor_without_avx2_is_a_warning_until_torch_was_tried():
    machine = with_system(nvidia_machine(), cpu_flags=known(("sse4_2",), "/proc/cpuinfo"))
    assert told(machine) == [("torch-import-fails", "warning")]
    assert told(with_torch(machine, trial=known(ImportTrial(ok=True), "child"))) == []
    died = with_torch(machine, trial=trial(signal="SIGILL"))
    assert "no AVX2" in finding(died, "torch-import-fails").message
