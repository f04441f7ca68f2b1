"""Where a fix is applied: the tool that owns the examined environment, and the system below it."""

from __future__ import annotations

import posixpath
import re
from typing import Literal, TypeVar

from msgspec import Struct, field

from gpudoctor.finding import Risk
from gpudoctor.machine import OVERRIDE, READ_ONLY, InstallerSettings, Machine, Os, PythonEnvironment
from gpudoctor.machine.torch import TORCH_AND_COMPANIONS
from gpudoctor.safe_arguments import is_name, is_version
from gpudoctor.situation.installer import installer

Tool = Literal[
    "pip", "uv", "uv-project", "poetry", "pdm", "pipenv", "hatch", "pip-tools", "pixi", "managed", "nowhere"
]
"""managed: the distribution owns this Python (PEP 668); nowhere: no environment is known."""

Family = Literal["ubuntu", "debian", "fedora", "rhel", "suse", "arch", "other"]
_Told = TypeVar("_Told")


def by_manager(*, apt: _Told, dnf: _Told, zypper: _Told, pacman: _Told) -> dict[Family, _Told]:
    """What is told to the package manager of each family."""
    return {"ubuntu": apt, "debian": apt, "fedora": dnf, "rhel": dnf, "suse": zypper, "arch": pacman}


IN_THE_IMAGE = "In the Dockerfile of the image:"
"""Begins what is to be written into the file of a container that runs."""
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_VALUE = r"[A-Za-z0-9/][A-Za-z0-9._:,/+=-]*|--?[A-Za-z][A-Za-z0-9._:,/+= -]*"


def is_path(text: str) -> bool:
    """Whether a text is an absolute path that can be shown as it is, and is never taken for an option. A snapshot may
    also hold a path below a home folder that was left out."""
    return len(text) < 4000 and text.isprintable() and text.startswith(("/", "~/"))


def is_variable(name: str, value: str) -> bool:
    """Whether a variable and its value, quoted where it has several flags, mean the same in any shell."""
    return re.fullmatch(_VARIABLE, name) is not None and (not value or re.fullmatch(_VALUE, value) is not None)


def risk_of(variable: str) -> Risk:
    """An override makes a GPU run the code of another one: results can be wrong, programs can crash."""
    return "replaces" if variable.startswith(OVERRIDE) else "safe"


class Place(Struct, frozen=True):
    """The environment and system that steps are made for."""

    tool: Tool
    python: str
    """Interpreter of the environment; "" if none is known."""
    prefix: str
    conda: str
    """The tool that installs a conda prefix's own packages (conda, mamba, micromamba); "" elsewhere."""
    user_site: bool
    """The torch of this interpreter lies in the user's own site-packages."""
    pythonpath: str
    """The folder of PYTHONPATH with its torch, which hides what is installed; "" if it has a torch of its own."""
    project: str
    family: Family
    os: Os
    container: str
    """Kind of container, "" on a bare machine."""
    wsl: bool
    jetson: bool
    secure_boot: bool
    """The firmware loads only signed modules."""
    prebuilt_nvidia: str
    """Branch and flavour of NVIDIA modules that Ubuntu built itself for some kernel ("580-open"); "" for none."""
    driver: str
    """Version of the present NVIDIA driver; "" if there is none, or it is not known."""
    run_file: str
    """The uninstaller of a driver that NVIDIA's own installer put here; "" for none."""
    kernel: str
    """Kernel release; "" if it is unknown or no plain release."""
    arch: str
    pip: InstallerSettings = InstallerSettings()
    uv: InstallerSettings = InstallerSettings()
    obstacle: str = ""
    """Why no package of this environment can be changed, as a sentence without full stop."""
    makes_pip: bool = False
    """There is no pip that works: ensurepip makes one first."""
    broken_pip: tuple[str, ...] = ()
    """The folders of a pip that does not work: ensurepip would take it for whole."""
    installer: Literal["pip", "uv"] = "pip"
    """What changes the environment itself, whatever project it belongs to."""
    programs: tuple[str, ...] | None = None
    """Tools on PATH; None: unknown."""
    set_in: dict[str, str] = field(default_factory=dict)
    """The file that sets a variable whenever this Python starts, by the variable's name."""
    files_of_variables: dict[str, str] = field(default_factory=dict)
    """The file that sets a variable when a shell starts or the environment is activated, with its line."""
    project_keys: tuple[str, ...] = ()
    compiled_by: tuple[str, ...] = ()
    """As the record has them."""
    no_venv: bool = False
    """The venv module of this Python cannot make an environment with pip."""

    @property
    def settings(self) -> InstallerSettings:
        """The configuration of the installer that the steps use."""
        if self.tool in ("poetry", "pdm", "pixi"):
            return InstallerSettings()  # they read neither pip's nor uv's
        return self.uv if self.tool in ("uv", "uv-project") else self.pip

    @property
    def follows_lock(self) -> bool:
        """Whether the project's tool removes what its lock no longer has."""
        return self.tool in ("poetry", "pixi")

    def has(self, program: str) -> bool:
        """Whether a tool is on PATH, or not known to be missing."""
        return self.programs is None or program in self.programs

    @property
    def undecided(self) -> bool:
        """Whether another index or folder can offer another build of the version that is asked for."""
        settings = self.settings
        return bool(settings.extra_indexes or (settings.find_links and _may_have_torch(settings.wheels)))


def _may_have_torch(wheels: tuple[str, ...] | None) -> bool:
    return wheels is None or any(name.partition("-")[0] in TORCH_AND_COMPANIONS for name in wheels)


def place(machine: Machine) -> Place:
    """The place of a machine's examined environment."""
    environment, known = machine.examined, machine.environment.value is not None
    system = machine.system
    kernel = system.kernel.value or ""
    tool = _tool(environment) if known else "nowhere"
    module = machine.nvidia.module.value
    installers = environment.installers
    return Place(
        tool=tool,
        python=_interpreter(environment) if known else "",
        prefix=environment.prefix if is_path(environment.prefix) else "",
        conda=environment.conda_tool if environment.kind == "conda" else "",
        user_site=_in_user_site(environment),
        pythonpath=_in_pythonpath(environment),
        project=environment.project if is_path(environment.project) else "",
        family=_family(machine),
        os=system.os.value or Os(),
        container=(system.container.value or "") if system.container.known else "",
        wsl=system.wsl.known,
        jetson=system.jetson.known,
        secure_boot=system.secure_boot.value is True,
        prebuilt_nvidia=_prebuilt(machine),
        driver=(module.version if module else machine.nvidia.userland.value) or "",
        run_file=machine.nvidia.run_file.value or "",
        kernel=kernel if is_name(kernel) or is_version(kernel) else "",
        arch=system.arch.value or "x86_64",
        pip=installers.pip,
        uv=installers.uv,
        obstacle=_obstacle(environment, tool),
        set_in=_set_in(environment),
        files_of_variables={name: file for name, file in machine.variable_files.items() if file.isprintable()},
        makes_pip=known and installer(environment) == "ensurepip",
        broken_pip=tuple(filter(is_path, installers.pip_files)),
        installer="uv" if known and installer(environment) == "uv" else "pip",
        programs=installers.programs.value,
        project_keys=environment.project_keys,
        compiled_by=environment.compiled_by,
        no_venv=installers.ensurepip.value is False,
    )


def _set_in(environment: PythonEnvironment) -> dict[str, str]:
    trial = environment.torch.value.trial.value if environment.torch.value else None
    return {one.name: one.file for one in (trial.variables if trial else ()) if is_path(one.file)}


def _obstacle(environment: PythonEnvironment, tool: Tool) -> str:
    """Why no command can change this environment."""
    found = environment.installers
    broken = any(fault.kind != "no-library" for fault in environment.start_faults)  # we start it without PYTHONHOME
    if broken and tool in ("pip", "uv"):
        return "The Python of this environment does not work. Do first what environment-broken says"
    if found.interpreter.value is False and tool in ("pip", "uv"):
        return (
            f"{found.interpreter.source} does not start: the Python that this environment was made with is gone. "
            "Make the environment again with an installed Python"
        )
    closed = found.writable.value is False and not _in_user_site(environment)
    if closed and tool not in ("managed", "nowhere"):
        where = found.writable.source
        if found.writable.why == READ_ONLY:
            return (
                f"{where} lies on a read-only file system: mount it to be written to, build its image anew, or "
                "make an environment elsewhere"
            )
        return f"{where} cannot be written to by this user: make it writable, or make an environment of your own"
    if tool in ("pip", "uv") and installer(environment) == "none":
        return (
            f"There is no {'working ' if found.pip_fails else ''}pip, no uv on PATH and no ensurepip in this Python: "
            "install uv, or the package python3-venv"
        )
    return ""


def _interpreter(environment: PythonEnvironment) -> str:
    if not environment.prefix and not environment.interpreter:
        return "python"  # a described environment: the reader's own
    own = f"{environment.prefix.rstrip('/')}/bin/python"
    chosen = own if environment.prefix and environment.kind in ("venv", "conda") else environment.interpreter or own
    return chosen if is_path(chosen) else ""


def _in_user_site(environment: PythonEnvironment) -> bool:
    """Whether Python imports torch from there, and what is installed into the environment changes nothing."""
    torch = environment.torch.value
    outside = environment.kind in ("system", "user", "conda")
    return outside and torch is not None and any(copy.via == "user site" for copy in torch.copies[:1])


def _in_pythonpath(environment: PythonEnvironment) -> str:
    torch = environment.torch.value
    copies = [copy for copy in torch.copies if not copy.is_trace] if torch else []
    alone = len(copies) == 1 and copies[0].via == "PYTHONPATH"
    folder = posixpath.dirname(copies[0].path) if alone else ""
    return folder if is_path(folder) else ""


def _prebuilt(machine: Machine) -> str:
    """Read from the folder of the modules: /lib/modules/KERNEL/kernel/nvidia-580-open/nvidia.ko. That of 580-server
    is nvidia-580srv."""
    for module in machine.nvidia.modules_installed.value or ():
        folder = re.search(r"/kernel/nvidia-(\d{3}(?:srv|-server)?(?:-open)?)/", module.path)
        if folder:
            return folder[1].replace("srv", "-server")
    return ""


def _tool(environment: PythonEnvironment) -> Tool:
    if not _interpreter(environment):
        return "nowhere"
    if environment.lock and is_path(environment.project):
        return _OWNERS[environment.lock]
    if environment.externally_managed:
        return "managed"
    return "uv" if installer(environment) == "uv" else "pip"


_OWNERS: dict[str, Tool] = {
    "uv.lock": "uv-project",
    "poetry.lock": "poetry",
    "pdm.lock": "pdm",
    "pixi.lock": "pixi",
    "Pipfile.lock": "pipenv",
    "requirements.in": "pip-tools",
    "hatch": "hatch",
}


def _family(machine: Machine) -> Family:
    os = machine.system.os.value
    if os is None:
        return "other"
    kin = (os.id, *os.like)
    families: tuple[tuple[str, Family], ...] = (
        ("steamos", "other"),
        ("nobara", "fedora"),
        ("ubuntu", "ubuntu"),
        ("debian", "debian"),
        ("rhel", "rhel"),
        ("centos", "rhel"),
        ("amzn", "rhel"),
        ("ol", "rhel"),
        ("fedora", "fedora"),
        ("suse", "suse"),
        ("opensuse", "suse"),
        ("sles", "suse"),
        ("arch", "arch"),
    )
    if os.id == "fedora":
        return "fedora"
    return next((family for name, family in families if any(k.startswith(name) for k in kin)), "other")
