"""Level static: everything that files tell; no command is run, no library opened."""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.host import Host, LiveHost
from gpudoctor.machine import (
    AmdStack,
    Fact,
    LoadPath,
    Machine,
    Network,
    NvidiaStack,
    Program,
    PythonEnvironment,
    System,
    unknown,
)
from gpudoctor.matrix.questions import Matrix
from gpudoctor.probes.amd_files import probe_amd
from gpudoctor.probes.frameworks import FrameworkRows
from gpudoctor.probes.kernel_log import probe_kernel_log
from gpudoctor.probes.load_path import driver_libraries, userland_version
from gpudoctor.probes.network import probe_network
from gpudoctor.probes.nvidia_files import probe_nvidia
from gpudoctor.probes.pci import probe_pci
from gpudoctor.probes.process_limits import probe_limits
from gpudoctor.probes.programs import read_programs
from gpudoctor.probes.python_environment import probe_environment
from gpudoctor.probes.system import probe_system
from gpudoctor.probes.variables import probe_variables
from gpudoctor.survey.gpus import with_gpus
from gpudoctor.survey.probing import Probing


def read_files(host: Host, matrix: Matrix, python: str | None, probing: Probing) -> Machine:
    """Everything that level static reads: no command, no library opened."""
    system = probing("system", lambda: probe_system(host), System())
    no_variables: dict[str, str] = {}
    variables = probing("variables", lambda: probe_variables(host, matrix.variables), no_variables)
    network = probing("network", lambda: probe_network(host), Network())
    rdma, in_group = bool(network.rdma.value), system.container.known or system.job.known
    own = {"rdma": rdma, "in_group": in_group, "in_namespace": system.user.in_namespace}
    limits = probing("limits", lambda: probe_limits(host, **own), unknown("the probe crashed"))
    load_path = probing("load path", lambda: driver_libraries(host, variables), LoadPath())
    pci = probing("pci", lambda: probe_pci(host), unknown("the PCI probe crashed"))
    nvidia = probing("nvidia", lambda: probe_nvidia(host, pci, system), NvidiaStack())
    userland = probing("nvidia libraries", lambda: userland_version(host, load_path), unknown("not read"))
    amd = probing("amd", lambda: probe_amd(host, pci, system), AmdStack())
    patterns = matrix.tables.log_patterns
    log = probing("kernel log", lambda: probe_kernel_log(host, patterns), unknown("the log probe crashed"))
    nothing: Fact[PythonEnvironment] = unknown("the environment probe crashed")
    rows, gpu_packages = matrix.tables, matrix.gpu_packages
    environment = probing(
        "python",
        lambda: probe_environment(
            host,
            python,
            variables,
            late=rows.late_libraries,
            packages=gpu_packages,
            modules=rows.imported_modules,
            version_files=rows.version_files,
            frameworks=FrameworkRows(rows.frameworks, rows.framework_builds, rows.framework_flags),
        ),
        nothing,
    )
    environ = {**host.environ, **variables}
    prefix = environment.value.prefix if environment.value else ""
    files = probing("files of variables", lambda: _files_that_set(host, prefix, variables), no_variables)
    no_programs: tuple[Program, ...] = ()
    programs = probing("programs", lambda: read_programs(host, rows.programs, environ, matrix.variables), no_programs)
    machine = Machine(
        system=replace(system, limits=limits),
        network=network,
        nvidia=replace(nvidia, userland=userland),
        amd=amd,
        load_path=load_path,
        environment=environment,
        programs=programs,
        variables=variables,
        variable_files=files,
        kernel_log=log,
    )
    # `--python` is always a path of the running system, also where the host is a recording.
    place = host if python is None or host.live else LiveHost()
    machine = _with_batch_system(host, with_gpus(host, matrix, machine, probing, pci), probing)
    machine = _with_torch_code(place, machine, probing)
    return _with_extensions(place, machine, probing)


def _files_that_set(host: Host, prefix: str, variables: dict[str, str]) -> dict[str, str]:
    if not variables:  # most machines
        return {}
    from gpudoctor.probes.variable_files import files_that_set

    return files_that_set(host, prefix, variables)


def _with_batch_system(host: Host, machine: Machine, probing: Probing) -> Machine:
    """Where there is no GPU, jobs may be submitted to machines that have some."""
    if machine.gpus or machine.system.job.known or machine.system.container.known:
        return machine
    from gpudoctor.probes.batch_job import probe_batch_system

    found = probing("batch system", lambda: probe_batch_system(host), machine.system.batch_system)
    return replace(machine, system=replace(machine.system, batch_system=found))


def _with_torch_code(host: Host, machine: Machine, probing: Probing) -> Machine:
    """The architectures that torch's own libraries carry, where they lie there and can be read."""
    environment, torch = machine.examined, machine.torch
    if torch is None or torch.has_cuda_libraries is not True:
        return machine
    from gpudoctor.frameworks.torch.probes.code import read_torch_code

    archs = probing("torch code", lambda: read_torch_code(host, environment, torch.path), torch.archs)
    return machine.with_torch_facts(archs=archs)


def _with_extensions(host: Host, machine: Machine, probing: Probing) -> Machine:
    environment = machine.examined
    if not environment.distributions.value:
        return machine
    from gpudoctor.probes.extensions import read_extensions

    nothing = environment.extensions, environment.distributions.value
    extensions, distributions = probing(
        "extensions", lambda: read_extensions(host, environment, machine.variables), nothing
    )
    listing = replace(environment.distributions, value=distributions)
    found = replace(environment, extensions=extensions, distributions=listing)
    return machine.with_environment(found)
