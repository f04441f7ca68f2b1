"""Remedies turned into steps: the right command for the place, and nothing hostile in it."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from gpudoctor.finding import (
    AddContainerFlags,
    AllowExecution,
    AnyRemedy,
    BlockModule,
    Finding,
    Fix,
    InstallDriver,
    InstallKernel,
    InstallRocmDriver,
    InstallSystemPackage,
    JoinGroup,
    LoadModule,
    Manual,
    Reboot,
    RebuildModule,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    StartService,
    UnblockModule,
    UnsetVariable,
)
from gpudoctor.frameworks.torch import builds
from gpudoctor.machine import (
    Distribution,
    Installers,
    Jetson,
    Machine,
    Os,
    PythonEnvironment,
    TorchAsked,
    TorchCopy,
    absent,
    known,
)
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.plan import fixes_for
from gpudoctor.situation import Situation
from gpudoctor.step import EnvStep, ManualStep, PlannedFix, RunStep, Step
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    environment,
    nvidia_gpu,
    nvidia_machine,
    system,
    torch,
    with_system,
)

MATRIX = load_matrix()
PYTORCH = "https://download.pytorch.org/whl"

REMEDIES: dict[type[Any], AnyRemedy] = {
    ReplaceTorch: ReplaceTorch(
        version="2.9.1", build="cu128", origin="download.pytorch.org", index_url=f"{PYTORCH}/cu128"
    ),
    ReplacePackage: ReplacePackage(name="numpy", specifier="<2"),
    ReinstallPackage: ReinstallPackage(name="torch", version="2.9.1+cu128"),
    RemovePackage: RemovePackage(name="torchaudio"),
    AllowExecution: AllowExecution(paths=("/venv/lib/python3.12/site-packages/torch/bin/protoc",)),
    SetVariable: SetVariable(name="HSA_OVERRIDE_GFX_VERSION", value="10.3.0"),
    UnsetVariable: UnsetVariable(name="HSA_OVERRIDE_GFX_VERSION"),
    InstallDriver: InstallDriver(branch="580", minimum="580.65.06"),
    InstallRocmDriver: InstallRocmDriver(),
    InstallKernel: InstallKernel(version="6.8"),
    RebuildModule: RebuildModule(module="nvidia", version="580.95.05"),
    LoadModule: LoadModule(module="nvidia_uvm", reload=True),
    UnblockModule: UnblockModule(module="nvidia", source="/etc/modprobe.d/nvidia.conf"),
    BlockModule: BlockModule(module="nouveau"),
    StartService: StartService(service="nvidia-fabricmanager", package="nvidia-fabricmanager-580==580.95.05"),
    InstallSystemPackage: InstallSystemPackage(purpose="nvidia-container-toolkit"),
    JoinGroup: JoinGroup(group="render"),
    AddContainerFlags: AddContainerFlags(wants="amd", group_id=992),
    Reboot: Reboot(),
    Manual: Manual(text="Enable Above 4G Decoding in the firmware setup."),
}


def plan(machine: Machine, *remedies: AnyRemedy) -> tuple[Step, ...]:
    finding = Finding(severity="error", message="m", fixes=(Fix(title="t", remedies=remedies),))
    return fixes_for(finding, Situation(machine, MATRIX))[0].steps


def run(machine: Machine, *remedies: AnyRemedy) -> list[str]:
    return [" ".join(step.argv) for step in plan(machine, *remedies) if isinstance(step, RunStep)]


def words(machine: Machine, *remedies: AnyRemedy) -> str:
    return "\n".join(step.text for step in plan(machine, *remedies) if isinstance(step, ManualStep))


def machine_with(patient: PythonEnvironment | None = None, **parts: Any) -> Machine:
    machine = nvidia_machine(torch=torch("2.9.1+cpu"), **parts)
    return change(machine, environment=known(patient, "test")) if patient else machine


def on(id: str, *like: str, version: str = "24.04") -> Machine:
    return machine_with(system=system(os=known(Os(id=id, version=version, like=like), "/etc/os-release")))


def cpu_environment(**parts: Any) -> PythonEnvironment:
    return environment(torch("2.9.1+cpu"), **parts)


# --- every remedy, everywhere ----------------------------------------------------------------------


def places() -> list[Machine]:
    return [
        machine_with(),
        machine_with(cpu_environment(uv_managed=True)),
        machine_with(cpu_environment(lock="uv.lock", project="/proj")),
        machine_with(cpu_environment(lock="poetry.lock", project="/proj")),
        machine_with(cpu_environment(lock="pixi.lock", project="/proj", kind="conda")),
        machine_with(cpu_environment(kind="conda")),
        machine_with(
            cpu_environment(kind="system", externally_managed=True, prefix="/usr", interpreter="/usr/bin/python3")
        ),
        machine_with(container="docker"),
        machine_with(container="kubernetes"),
        machine_with(system=system(wsl=known("5.15", "uname"))),
        machine_with(system=system(jetson=known(Jetson(), "x"))),
        Machine(),
        *(on(id, *like) for id, like in (("debian", ()), ("fedora", ()), ("rocky", ("rhel", "centos", "fedora")))),
        *(
            on(id, *like)
            for id, like in (("opensuse-leap", ("suse",)), ("arch", ()), ("cachyos", ("arch",)), ("nixos", ()))
        ),
    ]


def test_every_remedy_has_an_example_here() -> None:
    assert set(REMEDIES) == set(get_args(AnyRemedy))


@pytest.mark.parametrize("remedy", REMEDIES.values(), ids=lambda remedy: type(remedy).__name__)
def test_every_remedy_has_steps_in_every_place(remedy: AnyRemedy) -> None:
    for machine in places():
        steps = plan(machine, remedy)
        assert steps
        for step in steps:
            if isinstance(step, RunStep):
                assert all(step.argv)
                assert "--break-system-packages" not in step.argv
                assert not step.argv[0].startswith("sudo")
            if isinstance(step, ManualStep):
                assert step.text


def test_steps_are_written_as_the_contract_says() -> None:
    steps = plan(machine_with(), REMEDIES[ReplaceTorch], REMEDIES[SetVariable], REMEDIES[Manual])
    run_step, env_step, manual_step = msgspec.json.decode(msgspec.json.encode(steps))
    assert set(run_step) == {"kind", "argv", "cwd", "env", "why", "risk", "undo"}
    assert (run_step["kind"], run_step["cwd"], run_step["env"], run_step["risk"]) == ("run", None, {}, "replaces")
    assert set(env_step) == {"kind", "name", "value", "why", "risk"}
    assert set(manual_step) == {"kind", "text", "why", "risk"}
    assert (
        msgspec.json.decode(msgspec.json.encode(PlannedFix(title="t", steps=steps)), type=PlannedFix).steps == steps
    )


# --- packages --------------------------------------------------------------------------------------


def rtx_5090(patient: PythonEnvironment | None = None, **parts: Any) -> tuple[Machine, Fix]:
    old = torch("2.6.0+cu124")
    packages = {"torchvision": "0.21.0+cu124"}
    machine = nvidia_machine(
        nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"), driver="570.133.07", torch=old, packages=packages, **parts
    )
    if patient is not None:
        machine = change(machine, environment=known(patient, "test"))
    return machine, builds.replacements(Situation(machine, MATRIX), machine.gpus, keep=machine.torch)[0]


def with_torchvision(**parts: Any) -> PythonEnvironment:
    return environment(torch("2.6.0+cu124"), packages={"torchvision": "0.21.0+cu124"}, **parts)


def test_pip_gets_versions_with_their_local_part_and_the_undo_brings_back_what_was_there() -> None:
    machine, fix = rtx_5090()
    (step,) = plan(machine, *fix.remedies)
    assert isinstance(step, RunStep)
    pip = ("/venv/bin/python", "-m", "pip", "install", "--index-url")
    assert step.argv == (*pip, f"{PYTORCH}/cu128", "torch==2.7.0+cu128", "torchvision==0.22.0+cu128")
    assert step.undo == ((*pip, f"{PYTORCH}/cu124", "torch==2.6.0+cu124", "torchvision==0.21.0+cu124"),)


def test_uv_owns_its_venvs_and_those_without_pip() -> None:
    for patient in (with_torchvision(uv_managed=True), with_torchvision(has_pip=False)):
        machine, fix = rtx_5090(patient)
        (command,) = run(machine, *fix.remedies)
        assert command.startswith("uv pip install --python /venv/bin/python --default-index")
        assert command.endswith("torch==2.7.0+cu128 torchvision==0.22.0+cu128")


def test_a_project_with_a_lock_is_repaired_in_its_lock() -> None:
    machine, fix = rtx_5090(with_torchvision(lock="uv.lock", project="/proj"))
    add, only_these, sync = plan(machine, *fix.remedies)
    for step in (add, only_these, sync):
        assert isinstance(step, RunStep)
        assert step.cwd == "/proj"
    assert isinstance(add, RunStep)
    assert isinstance(sync, RunStep)
    assert add.argv[:3] == ("uv", "add", "--frozen")
    assert "torch==2.7.0+cu128" in add.argv
    assert sync.argv == ("uv", "sync", "--inexact")
    machine, fix = rtx_5090(with_torchvision(lock="poetry.lock", project="/proj"))
    assert [command.split()[:2] for command in run(machine, *fix.remedies)] == [
        ["poetry", "source"],
        ["poetry", "add"],
    ]


def test_a_python_of_the_distribution_gets_a_venv() -> None:
    managed = with_torchvision(kind="system", externally_managed=True, prefix="/usr", interpreter="/usr/bin/python3")
    machine, fix = rtx_5090(managed)
    make, install = run(machine, *fix.remedies)
    assert make == "/usr/bin/python3 -m venv .venv-gpu"
    assert install.startswith(".venv-gpu/bin/python -m pip install --index-url")


def test_the_same_version_of_another_build_is_really_replaced() -> None:
    own = ReplaceTorch(version="2.9.1", build="cu128", origin="pypi")
    assert run(machine_with(), own) == [
        "/venv/bin/python -m pip install --force-reinstall --no-deps torch==2.9.1",
        "/venv/bin/python -m pip install torch==2.9.1",
    ]
    uv = machine_with(cpu_environment(uv_managed=True))
    assert run(uv, own) == ["uv pip install --python /venv/bin/python --reinstall-package torch torch==2.9.1"]
    step, rest = plan(machine_with(), own)
    assert isinstance(step, RunStep)
    assert step.undo[0][-1] == "torch==2.9.1+cpu"
    assert ("another build would stay" in step.why, rest.why) == (True, "what it requires")


def test_of_a_torch_with_two_records_one_is_uninstalled_and_pip_replaces_the_other() -> None:
    other = Distribution("torch", "2.8.0", "/venv/torch-2.8.0.dist-info")
    own = Distribution("torch", "2.9.1+cpu", "/venv/torch-2.9.1+cpu.dist-info", twins=(other,))
    twice = environment(torch("2.9.1+cpu"), distributions=known((own,), "test"))
    uninstall, *_, install = run(machine_with(twice), REMEDIES[ReplaceTorch])
    assert uninstall == "/venv/bin/python -m pip uninstall -y torch"
    assert install.endswith("torch==2.9.1+cu128")
    of_uv = change(twice, uv_managed=True)
    assert [line.split()[2] for line in run(machine_with(of_uv), REMEDIES[ReplaceTorch])] == ["install"]


def test_what_lies_in_one_folder_with_an_old_build_is_installed_anew() -> None:
    """pip would keep it by its record, and its files would be gone."""

    def removed(remedy: ReplaceTorch, *names: str) -> list[str]:
        listed = known(tuple(Distribution(name, "3.5.1", f"/venv/{name}.dist-info") for name in names), "test")
        lines = run(machine_with(environment(torch("2.9.1+cpu"), distributions=listed)), remedy)
        return [word for line in lines if " uninstall " in line for word in line.split()[5:]]

    thirteen = ReplaceTorch("2.9.1", "cu130", "download.pytorch.org", f"{PYTORCH}/cu130")
    rocm = ReplaceTorch("2.9.1", "rocm6.4", "download.pytorch.org", f"{PYTORCH}/rocm6.4")
    assert removed(rocm, "pytorch-triton-rocm", "triton") == ["pytorch-triton-rocm", "triton"]
    assert removed(rocm, "pytorch-triton-rocm") == []
    assert removed(thirteen, "nvidia-nccl-cu12", "nvidia-nccl-cu13") == ["nvidia-nccl-cu12", "nvidia-nccl-cu13"]
    assert removed(thirteen, "nvidia-nccl-cu13", "nvidia-cudnn-cu12") == ["nvidia-cudnn-cu12"]
    assert removed(thirteen, "nvidia-cudnn-cu12", "nvidia-cudnn-frontend") == ["nvidia-cudnn-cu12"]


def test_what_lies_before_the_environment_is_let_through_and_then_replaced() -> None:
    user, site = "/home/me/.local/lib/python3.11/site-packages", "/opt/py/lib/python3.11/site-packages"
    old = Distribution("torchvision", "0.22.1", f"{user}/torchvision-0.22.1.dist-info")
    parts = {"kind": "system", "prefix": "/opt/py", "site_packages": (user, site)}
    remedy = ReplacePackage("torchvision", "==0.24.1")

    def first(*copies: str) -> Step:
        own = torch("2.9.1+cpu", copies=tuple(TorchCopy(path, "2.9.1+cpu", "site") for path in copies))
        patient = environment(own, distributions=known((old,), "test"), **parts)
        return plan(machine_with(patient), remedy)[0]

    variable = first(f"{site}/torch")
    assert isinstance(variable, EnvStep) and (variable.name, variable.value) == ("PYTHONNOUSERSITE", "1")
    assert isinstance(first(f"{user}/torch"), RunStep)  # torch lies there, too


@pytest.mark.parametrize(
    ("version", "requires", "alone"),
    [
        ("0.21.0+cu126", (), (f"--index-url {PYTORCH}/cu126 torchvision==0.21.0+cu126",)),  # another index has it
        ("0.22.0+cu124", ("torch==2.7.0",), (f"--index-url {PYTORCH}/cu124 torchvision==0.22.0+cu124",)),
        ("0.22.0", ("torch==2.7.0",), ("torchvision==0.22.0",)),
        ("0.21.0+cu124", ("torch==2.6.0",), ()),
    ],
)
def test_the_undo_brings_a_companion_of_another_torch_back_by_itself(
    version: str, requires: tuple[str, ...], alone: tuple[str, ...]
) -> None:
    """What it requires would bring the other torch along, or pip would refuse both."""
    torchs = Distribution("torch", "2.6.0+cu124", path="/site/torch.dist-info")
    vision = Distribution("torchvision", version, path="/site/torchvision.dist-info", requires=requires)
    patient = change(environment(torch("2.6.0+cu124")), distributions=known((torchs, vision), "test"))
    machine, fix = rtx_5090(patient)
    step = next(one for one in plan(machine, *fix.remedies) if isinstance(one, RunStep))
    assert isinstance(step, RunStep)
    first, *rest = (" ".join(argv) for argv in step.undo)
    assert first.endswith(f"{PYTORCH}/cu124 torch==2.6.0+cu124" + ("" if alone else f" torchvision=={version}"))
    again = "/venv/bin/python -m pip install --force-reinstall --no-deps"
    assert rest == [f"{again} {words}" for words in alone]


def test_undo_of_a_first_installation_takes_it_away() -> None:
    machine = nvidia_machine(torch=None)
    (step,) = plan(machine, REMEDIES[ReplaceTorch])
    assert isinstance(step, RunStep)
    assert step.risk == "safe"
    assert step.undo == (("/venv/bin/python", "-m", "pip", "uninstall", "-y", "torch"),)


def test_what_cannot_be_had_again_has_no_undo() -> None:
    patient = change(torch("2.9.0a0+git123"), build=None, origin="source")
    (step,) = plan(nvidia_machine(torch=patient), REMEDIES[ReplaceTorch])
    assert isinstance(step, RunStep)
    assert step.undo == ()


def test_packages_that_pin_another_torch_are_named_first() -> None:
    patient = environment(torch("2.6.0+cu124"))
    xformers = Distribution(name="xformers", version="0.0.29.post3", requires=("torch==2.6.0", "numpy"))
    listed = (*(patient.distributions.value or ()), xformers)
    machine, fix = rtx_5090(change(patient, distributions=known(listed, "site")))
    (step,) = plan(machine, *fix.remedies)
    assert "xformers 0.0.29.post3 (==2.6.0)" in step.why


def test_conda_packages_come_from_conda_and_pip_packages_from_pip() -> None:
    conda = machine_with(cpu_environment(kind="conda", prefix="/opt/conda/envs/ml"))
    forge = ReplaceTorch(version="2.9.1", build="cuda-version>=12.8,<13", origin="conda-forge")
    install = "conda install -y -p /opt/conda/envs/ml -c conda-forge pytorch-gpu=2.9.1 cuda-version>=12.8,<13"
    assert run(conda, forge) == [install]
    assert run(conda, REMEDIES[ReplaceTorch])[0].startswith("/opt/conda/envs/ml/bin/python -m pip install")


def test_amd_device_wheels_are_chosen_by_their_extra() -> None:
    machine = amd_machine(
        amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), torch=torch("2.9.1+rocm6.4"), packages={"torchvision": "0.24.1"}
    )
    fix = builds.replacements(Situation(machine, MATRIX), machine.gpus, keep=machine.torch)[0]
    (command,) = run(machine, *fix.remedies)
    assert command.endswith("torch[device-gfx1031]==2.11.0+rocm7.14.0 torchvision[device-gfx1031]==0.26.0+rocm7.14.0")


def test_damaged_files_are_laid_down_again_from_where_they_came() -> None:
    machine = nvidia_machine(torch=torch("2.9.1+cu128"))
    (command,) = run(machine, ReinstallPackage(name="torch", version="2.9.1+cu128"))
    options = f"--force-reinstall --no-deps --index-url {PYTORCH}/cu128"
    assert command == f"/venv/bin/python -m pip install {options} torch==2.9.1+cu128"


# --- variables -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "owner"),
    [("/usr", "the distribution manages"), ("/root/.local/share/uv/python/cpython-3.11", "another tool")],
)
def test_the_owner_of_a_managed_python_is_not_always_the_distribution(prefix: str, owner: str) -> None:
    parts = {"kind": "system", "externally_managed": True, "prefix": prefix, "interpreter": f"{prefix}/bin/python3"}
    first = plan(machine_with(cpu_environment(**parts)), REMEDIES[ReplaceTorch])[0]
    assert owner in first.why
    assert ("python3-venv" in first.why) == (prefix == "/usr")


def test_pixi_needs_cuda_in_its_manifest() -> None:
    """Without it pixi finds no CUDA build, whatever the machine has."""
    pixi = machine_with(cpu_environment(lock="pixi.lock", project="/proj", kind="conda", prefix="/proj/.pixi/envs/a"))
    forge = ReplaceTorch(version="2.9.1", build="cuda-version>=12.8,<13", origin="conda-forge")
    text = words(pixi, forge)
    assert 'no `cuda = "12"` below [system-requirements]' in text
    assert text.splitlines()[-1] == "pixi add 'pytorch-gpu=2.9.1' 'cuda-version>=12.8,<13'"


def test_conda_keeps_variables_elsewhere_they_are_for_the_command() -> None:
    variable = SetVariable(name="HSA_OVERRIDE_GFX_VERSION", value="10.3.0")
    assert plan(machine_with(), variable) == (
        EnvStep(name="HSA_OVERRIDE_GFX_VERSION", value="10.3.0", risk="replaces"),
    )
    conda = machine_with(cpu_environment(kind="conda", prefix="/c"))
    assert run(conda, variable) == ["conda env config vars set -p /c HSA_OVERRIDE_GFX_VERSION=10.3.0"]
    without = cpu_environment(kind="conda", prefix="/c", installers=Installers(programs=known((), "PATH")))
    assert plan(machine_with(without), variable) == plan(machine_with(), variable)


def test_a_conda_that_is_not_at_hand_runs_nothing() -> None:
    of_conda = Distribution("torchvision", "0.24.1", "/c/torchvision.dist-info", installer="conda")
    remedies = (RemovePackage("torchvision"), ReinstallPackage("torchvision", "0.24.1"))

    def shown(*programs: str) -> list[bool]:
        tools = Installers(programs=known(programs, "PATH"))
        parts = {"kind": "conda", "prefix": "/c", "installers": tools, "distributions": known((of_conda,), "test")}
        patient = machine_with(cpu_environment(**parts))
        return ["conda is not on PATH" in words(patient, remedy) for remedy in remedies]

    assert shown() == [True, True]
    assert shown("conda") == [False, False]


def test_a_variable_may_hold_a_path() -> None:
    (step,) = plan(machine_with(), SetVariable(name="TRITON_PTXAS_PATH", value="/usr/local/cuda/bin/ptxas"))
    assert step == EnvStep(name="TRITON_PTXAS_PATH", value="/usr/local/cuda/bin/ptxas")


# --- the system ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (on("ubuntu", "debian"), "apt-get install -y nvidia-driver-580-open"),
        (on("ubuntu", version="22.04"), "apt-get install -y nvidia-driver-580-open"),
    ],
)
def test_a_driver_is_installed_by_branch_and_flavour(machine: Machine, expected: str) -> None:
    steps = plan(machine, REMEDIES[InstallDriver])
    assert run(machine, REMEDIES[InstallDriver]) == [expected]
    assert steps[-1].risk == "reboot"
    assert steps[0].risk == "root"


@pytest.mark.parametrize("machine", [on("centos", "rhel", "fedora", version="7"), on("ubuntu", version="18.04")])
def test_no_package_of_a_driver_is_named_where_the_release_has_none(machine: Machine) -> None:
    assert run(machine, REMEDIES[InstallDriver]) == []
    assert "580" in words(machine, REMEDIES[InstallDriver])


@pytest.mark.parametrize(
    ("machine", "package"),
    [
        (on("ubuntu", "debian"), "apt-get install -y python3.10-dev"),
        (on("fedora"), "dnf install -y python3.10-devel"),
        (on("opensuse-leap", "suse"), "zypper --non-interactive install python310-devel"),
        (on("arch"), "pacman -S --needed --noconfirm python"),
    ],
)
def test_the_headers_are_those_of_the_examined_python(machine: Machine, package: str) -> None:
    assert run(machine, InstallSystemPackage(purpose="python-headers", version="3.10")) == [package]


def test_old_gpus_get_the_proprietary_modules() -> None:
    pascal = InstallDriver(branch="580", flavour="proprietary")
    assert run(on("ubuntu", "debian"), pascal) == ["apt-get install -y nvidia-driver-580"]
    assert "nvidia-470xx-dkms" in words(on("arch"), InstallDriver(branch="470", flavour="proprietary"))


def test_a_driver_belongs_to_the_host_and_to_windows() -> None:
    for machine, told in (
        (machine_with(container="docker"), "On the host"),
        (machine_with(system=system(wsl=known("5.15", "uname"))), "In Windows"),
        (machine_with(system=system(jetson=known(Jetson(), "x"))), "JetPack"),
    ):
        assert run(machine, REMEDIES[InstallDriver]) == []
        assert told in words(machine, REMEDIES[InstallDriver])


def test_dkms_builds_for_the_running_kernel_with_its_headers() -> None:
    commands = run(on("ubuntu", "debian"), REMEDIES[RebuildModule])
    assert commands == [
        "apt-get install -y linux-headers-6.8.0-60-generic",
        "dkms install nvidia/580.95.05 -k 6.8.0-60-generic",
        "modprobe nvidia",
    ]
    assert run(on("fedora"), REMEDIES[RebuildModule])[0] == "dnf install -y kernel-devel-6.8.0-60-generic"


def test_the_fabric_manager_comes_in_the_drivers_version() -> None:
    assert run(on("ubuntu", "debian"), REMEDIES[StartService]) == [
        "apt-get install -y nvidia-fabricmanager-580=580.95.05-*",
        "systemctl enable --now nvidia-fabricmanager",
    ]


def test_containers_are_started_again_with_what_is_missing() -> None:
    docker = words(machine_with(container="docker"), AddContainerFlags(wants="amd", group_id=992))
    assert "docker run --device /dev/kfd --device /dev/dri --group-add 992 ..." in docker
    assert 'group_add: ["992"]' in docker
    assert "supplementalGroups: [992]" in docker
    unknown = words(machine_with(container="podman"), AddContainerFlags(wants="amd"))
    assert "--group-add keep-groups" in unknown
    assert "stat -c %g /dev/kfd" in unknown
    assert "nvidia.com/gpu" in words(machine_with(container="kubernetes"), AddContainerFlags(wants="nvidia"))
    assert "--nv" in words(machine_with(container="apptainer"), AddContainerFlags(wants="nvidia"))
    assert "docker run" not in words(machine_with(container="kubernetes"), AddContainerFlags(wants="nvidia"))
    assert "devices: [nvidia.com/gpu=all]" in words(machine_with(container="podman"), AddContainerFlags("nvidia"))
    assert "--force-recreate" in words(machine_with(container="docker"), AddContainerFlags("recreate"))


def test_a_command_that_two_remedies_ask_for_is_there_once() -> None:
    commands = run(on("ubuntu", "debian"), REMEDIES[RebuildModule], LoadModule("nvidia", why="another reason"))
    assert commands.count("modprobe nvidia") == 1


def test_a_reboot_is_asked_for_once_and_last() -> None:
    steps = plan(on("ubuntu", "debian"), REMEDIES[InstallDriver], REMEDIES[InstallRocmDriver])
    assert [step.risk for step in steps] == ["root", "root", "reboot"]


@pytest.mark.parametrize(
    ("release", "command"),
    [
        (("ubuntu", "debian"), "apt-get install linux-headers-$(uname -r) amdgpu-dkms"),
        (("rhel", "fedora"), "dnf install kernel-headers-$(uname -r) kernel-devel-$(uname -r) amdgpu-dkms"),
    ],
)
def test_amds_kernel_driver_comes_from_amds_repository_which_is_set_up_first(release, command) -> None:
    rhel = with_system(on("rhel", "fedora", version="9.6"), kernel=known("5.14.0-570.el9.x86_64", "uname"))
    install, restart = plan(rhel if "rhel" in release else on(*release), InstallRocmDriver())
    assert isinstance(install, ManualStep)
    first, _, then = install.text.partition("\n")
    assert "set up AMD's repository" in first and "amdgpu-install" in first
    assert then.endswith(command)
    assert restart.risk == "reboot"
    # To take it away needs no repository.
    assert isinstance(plan(on(*release), InstallRocmDriver(inbox=True))[0], RunStep)


def test_a_file_of_constraints_is_told_before_it_refuses_the_command():
    constrained = machine_with(variables={"PIP_CONSTRAINT": "/etc/pip/constraint.txt"})
    (step,) = plan(constrained, REMEDIES[ReplaceTorch])
    assert isinstance(step, RunStep)
    assert "the constraints of /etc/pip/constraint.txt were not read" in step.why
    (free,) = plan(machine_with(), REMEDIES[ReplaceTorch])
    assert "CONSTRAINT" not in free.why


def workspace(*asked: str) -> Machine:
    lines = tuple(
        TorchAsked(file=file, requirement=line) for file, _, line in (each.partition(": ") for each in asked)
    )
    return machine_with(cpu_environment(lock="uv.lock", project="/proj", torch_asked=lines))


def test_a_workspace_member_that_names_a_version_is_changed_by_a_person():
    pinned = workspace("pyproject.toml: torch", "packages/a/pyproject.toml: torch==2.9.1+cpu")
    assert run(pinned, REMEDIES[ReplaceTorch]) == []
    assert "packages/a/pyproject.toml" in words(pinned, REMEDIES[ReplaceTorch])
    open_to_all = workspace("pyproject.toml: torch==2.9.1+cpu", "packages/a/pyproject.toml: torch")
    assert run(open_to_all, REMEDIES[ReplaceTorch])[-1] == "uv sync --inexact"


def test_a_new_environment_gets_the_framework_that_needs_the_package() -> None:
    """jax with an old jaxlib in the user's folder of a Python that the distribution manages."""
    jax = Distribution("jax", "0.6.2", installer="pip", requires=("jaxlib<=0.6.2,>=0.6.2",))
    listed = (jax, Distribution("jaxlib", "0.5.3", installer="pip"))
    managed = change(
        cpu_environment(kind="system", externally_managed=True, prefix="/usr", interpreter="/usr/bin/python3"),
        distributions=known(listed, "/site"),
    )
    managed = managed.with_torch(absent("/site"))
    commands = run(machine_with(managed), ReplacePackage("jaxlib", "<=0.6.2,>=0.6.2"))
    assert commands[-1].endswith("pip install jax==0.6.2 jaxlib<=0.6.2,>=0.6.2")
