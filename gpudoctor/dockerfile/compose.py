"""The services of a compose file: their images, and which parts of the host they are given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gpudoctor.bounded_yaml import YamlError, read_yaml
from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.keys import Key, added, keys_of
from gpudoctor.dockerfile.syntax import RecipeError
from gpudoctor.dockerfile.variables import expanded, partly_expanded

if TYPE_CHECKING:
    from gpudoctor.machine import Vendor

_SERVICES = 1000
_DRIVERS = ("nvidia", "cdi", "amd", "rocm")
_LIBRARIES = frozenset({"compute", "compat32", "graphics", "utility", "video", "display"})
"""Capabilities that stand for libraries of NVIDIA's driver: those that are named are mounted, and no others."""
_CAPABILITIES: dict[str, frozenset[str]] = {
    "nvidia": _LIBRARIES | {"gpu", "nvidia"},
    "amd": frozenset({"gpu", "amd"}),
    "": _LIBRARIES | {"gpu", "nvidia", "amd"},
}
"""What the engine's drivers take, as of moby daemon/nvidia_linux.go and amd_linux.go."""
_OF_ANY = ("cdi", "nvidia.cdi", "nvidia.runtime-hook")
"""Its drivers that read no capabilities."""
_RENDER = re.compile(r"/dev(/dxg|/dri(?!/card)|$)")
_MISPLACED = ("gpus", "devices", "runtime", "reservations", "limits")
"""Keys that people write somewhere below `deploy`, where compose has no such key."""


class Service(Struct, frozen=True):
    """One service. `open` says why something about it is unknown, such as a service that it extends."""

    file: str
    name: str
    line: int
    keys: dict[str, Key] = {}
    """Where its keys are written, by their paths."""
    image: str | None = None
    context: str | None = None
    """The folder of its build context, relative to the compose file."""
    dockerfile: str = ""
    inline: str = ""
    """The text of a Dockerfile that stands in the compose file itself, on the lines that it has there."""
    target: str = ""
    arguments: dict[str, str] = {}
    nvidia: bool = False
    """Whether it is given NVIDIA GPUs, in any way."""
    by_variable: bool = False
    """Whether it is given them by its runtime alone, which gives those that NVIDIA_VISIBLE_DEVICES names."""
    amd: bool = False
    """Whether AMD GPUs are reserved for it; engines may also be given their device nodes."""
    gpu_count: int | None = None
    """How many GPUs it is given; None where that is not written as a number."""
    refused: str = ""
    """What is wrong with its reservations, so that compose or the engine refuses them."""
    refused_at: str = ""
    """The path of the device that is wrong."""
    kfd: bool = False
    render: bool = False
    """/dev/dri, or a render node in it."""
    devices: tuple[str, ...] = ()
    """The nodes of the host that it is given, as written."""
    shared_memory: bool = False
    """shm_size, ipc: host, or a mount over /dev/shm."""
    mounts: tuple[str, ...] = ()
    """Where volumes lie in it."""
    groups: tuple[str, ...] = ()
    user: str = ""
    privileged: bool = False
    driver_libraries: str = ""
    """What its reservations put in place of any NVIDIA_DRIVER_CAPABILITIES."""
    environment: dict[str, str] = {}
    env_files: tuple[str, ...] = ()
    """Files with more variables, relative to the compose file."""
    set_in: dict[str, str] = {}
    """The places of the variables that such a file sets, or an override: "gpu.env:2"."""
    entrypoint: tuple[str, ...] | None = None
    """Its words in place of the image's ENTRYPOINT, whose CMD then does not count either."""
    command: tuple[str, ...] | None = None
    scaled_to_none: bool = False
    open: str = ""
    development: bool = False
    """Whether it is a development container, of a devcontainer.json."""
    cluster: bool = False
    """Whether it is a container of a Kubernetes manifest."""
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    """The resources that it asks a cluster for, as written."""
    run_args: tuple[str, ...] = ()
    """The options of `docker run` that a devcontainer.json names."""
    run_args_line: int = 0
    """Their line; 0 if there are none."""

    @property
    def title(self) -> str:
        """How messages name it."""
        if self.development:
            return "The development container"
        return f"{'Container' if self.cluster else 'Service'} {self.name}"

    @property
    def kind(self) -> str:
        return "development container" if self.development else "container" if self.cluster else "service"

    @property
    def subject(self) -> str:
        """What a finding about it is about."""
        return f"{self.kind} {self.name}"

    @property
    def below(self) -> str:
        """Where a fix adds lines."""
        if self.run_args_line:
            return f"{self.file}:{self.run_args_line}: in place of its runArgs:"
        return f"{self.place}: beside it:" if self.development else f"{self.place}: below {self.name}:"

    def adding(self, path: str, brackets: str, *entries: str) -> tuple[str, ...]:
        """The lines of a fix that adds entries to a list "[]" or a mapping "{}": below what the file has of its
        path."""
        key, there, lines = added(self.keys, path, brackets, entries)
        if key is None:
            return self.below, *lines
        inside = ", inside the brackets" if key.flow else ""
        there = re.sub(r"\.(\d+)\b", r"[\1]", there)
        return f"{self.file}:{key.line}: add to {there} of {self.name}{inside}:", *lines

    def place_of(self, path: str) -> str:
        """The line of a key; its own where that is unknown."""
        key = self.keys.get(path)
        return f"{self.file}:{key.line if key else self.line}"

    def place_of_variable(self, name: str) -> str:
        """The line that gives it a variable; its own where none does."""
        return self.set_in.get(name) or self.place_of(f"{'env' if self.cluster else 'environment'}.{name}")

    def written_argument(self, name: str) -> str:
        """The line that gives its build an argument, with "{}" for the value."""
        listed = "build.args" in self.keys and self.keys["build.args"].listed
        entry = f"- {name}={{}}" if listed else f'{name}: "{{}}"'
        key = self.keys.get(f"build.args.{name}")
        return f"{self.file}:{key.line}: {entry}" if key else f"{self.place}: in the build arguments: {entry}"

    def written_variable(self, name: str, value: object) -> str:
        """How its environment, or the file that sets the variable, is given a variable."""
        if self.cluster:
            return f'- {{name: {name}, value: "{value}"}}'
        if name in self.set_in:
            separator = ": " if re.search(r"\.ya?ml:\d+$", self.set_in[name]) else "="
            return f"{name}{separator}{value}"
        return f"- {name}={value}" if self._lists_variables else f"{name}: {value}"

    @property
    def _lists_variables(self) -> bool:
        return self.cluster or ("environment" in self.keys and self.keys["environment"].listed)

    def giving(self, name: str, value: object) -> tuple[str, ...]:
        """The lines of a fix that gives it a variable: in place of what it has, or below its other variables."""
        entry = self.written_variable(name, value)
        if name in self.environment:
            return (f"{self.place_of_variable(name)}: {entry} in the environment of {self.name}",)
        brackets = "[]" if self._lists_variables else "{}"
        return self.adding("env" if self.cluster else "environment", brackets, entry.removeprefix("- "))

    @property
    def given_gpus(self) -> bool:
        """Whether it is given GPUs of any vendor."""
        return self.nvidia or self.amd or self.kfd

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def read_compose(
    file: str, text: str, bounds: Bounds | None = None, variables: Mapping[str, str] = {}
) -> tuple[Service, ...]:
    """The services of a compose file. Raises RecipeError for any other text, or if a bound is exceeded."""
    bounds = bounds or Bounds()
    try:
        document = read_yaml(text)
    except YamlError as error:
        raise RecipeError(f"line {error.line}: {error}" if error.line else str(error)) from None
    bounds.values.spend(document.size)
    services = document.value.get("services") if isinstance(document.value, dict) else None
    if not isinstance(services, dict):
        raise RecipeError("has no `services`: this is not a compose file")
    if len(services) > _SERVICES:
        raise RecipeError(f"has more than {_SERVICES:,} services")
    nodes = _nodes(document.node)
    return tuple(
        _service(file, str(name), content, nodes.get(str(name)), variables, bounds)
        for name, content in services.items()
        if isinstance(content, dict)
    )


def _inline(text: Any, keys: dict[str, Key], variables: Mapping[str, str], bounds: Bounds) -> str:
    """The text of a Dockerfile between the keys of a service. A "$$" is written for one "$" of the Dockerfile."""
    if not isinstance(text, str) or (key := keys.get("build.dockerfile_inline")) is None:
        return ""
    return "\n" * key.line + "$".join(partly_expanded(part, variables, bounds) for part in text.split("$$"))


def _nodes(tree: Any) -> dict[str, tuple[Any, Any]]:
    """The nodes of every service: its name and its content."""
    for key, value in tree.value:
        if key.value == "services" and isinstance(value.value, list):
            return {name.value: (name, content) for name, content in value.value if isinstance(name.value, str)}
    return {}


def _service(
    file: str, name: str, given: dict[str, Any], nodes: Any, variables: Mapping[str, str], bounds: Bounds
) -> Service:
    build = given.get("build")
    build = {"context": build} if isinstance(build, str) else build if isinstance(build, dict) else {}
    deploy = given.get("deploy")
    deploy = deploy if isinstance(deploy, dict) else {}
    devices = [_device(device) for device in _list(given.get("devices"))]
    environment = _mapping(given.get("environment"))
    reserved = _reserved_vendors(given, deploy)
    refused, refused_at = _refused(given, deploy)
    nvidia = "nvidia" in reserved or any("nvidia" in node or node.startswith("/dev/dxg") for node in devices)
    of_runtime = given.get("runtime") == "nvidia"
    image = given.get("image")
    keys = keys_of(nodes[1]) if nodes else {}
    return Service(
        file=file,
        name=name,
        line=nodes[0].start_mark.line + 1 if nodes else 1,
        keys=keys,
        image=expanded(image, variables, bounds) if isinstance(image, str) else None,
        context=expanded(str(build.get("context", ".")), variables, bounds) if build else None,
        dockerfile=str(build.get("dockerfile") or ""),
        inline=_inline(build.get("dockerfile_inline"), keys, variables, bounds),
        target=str(build.get("target") or ""),
        arguments={
            key: value
            for key, text in _mapping(build.get("args")).items()
            if (value := expanded(text, variables, bounds)) is not None
        },
        nvidia=nvidia or of_runtime,
        by_variable=of_runtime and not nvidia,
        amd="amd" in reserved,
        gpu_count=_count(given, deploy),
        refused=refused,
        refused_at=refused_at,
        kfd=any(device in ("/dev/kfd", "/dev", "/dev/dxg") or "amd.com/gpu" in device for device in devices),
        render=any(map(_RENDER.match, devices)),
        devices=tuple(devices),
        shared_memory=bool(given.get("shm_size"))
        or given.get("ipc") in ("host", "shareable")
        or str(given.get("ipc") or "").startswith(("service:", "container:"))
        or any("/dev/shm" in str(volume) for volume in (*_list(given.get("volumes")), *_list(given.get("tmpfs")))),
        mounts=tuple(map(_target, _list(given.get("volumes")))),
        groups=tuple(str(group) for group in _list(given.get("group_add"))),
        user=str(given.get("user") or ""),
        privileged=given.get("privileged") is True,
        driver_libraries=",".join(
            name for _, one in _asked(given, deploy) for name in _capabilities(one) if name in _LIBRARIES
        ),
        environment=environment,
        env_files=tuple(map(_path, _list(given.get("env_file")))),
        entrypoint=_words(given.get("entrypoint")),
        command=_words(given.get("command")),
        scaled_to_none=deploy.get("replicas") == 0 or given.get("scale") == 0,
        open="it extends another service" if given.get("extends") else "",
    )


def _reserved_vendors(given: dict[str, Any], deploy: dict[str, Any]) -> set[Vendor]:
    """Whose GPUs are reserved. A reservation that names no vendor is for the GPUs of the host."""
    wanted, reservations = _wanted(given), _reservations(deploy)
    vendors: set[Vendor] = set()
    for device in (*wanted, *_list(reservations.get("devices"))):
        one = device if isinstance(device, dict) else {"capabilities": ["gpu"]}
        driver = str(one.get("driver") or "")
        of_gpus = "gpu" in [str(name) for name in _list(one.get("capabilities"))] or device in wanted
        if of_gpus or driver in _DRIVERS:
            vendors |= _of_name(driver if driver != "cdi" else str(one.get("device_ids")))
    if re.search("gpu", generic := str(reservations.get("generic_resources") or ""), re.IGNORECASE):
        vendors |= _of_name(generic)
    return vendors


def _wanted(given: dict[str, Any]) -> list[Any]:
    """The devices that `gpus` names."""
    wanted = given.get("gpus")
    return ["all"] if isinstance(wanted, str) and wanted else _list(wanted)


def _reservations(deploy: dict[str, Any]) -> dict[str, Any]:
    resources = deploy.get("resources")
    reservations = resources.get("reservations") if isinstance(resources, dict) else None
    return reservations if isinstance(reservations, dict) else {}


def _refused(given: dict[str, Any], deploy: dict[str, Any]) -> tuple[str, str]:
    """Why the reservations of a service are refused, and the path of the first key or device that is."""
    resources = deploy.get("resources")
    resources = resources if isinstance(resources, dict) else {}
    for above, part, known in (
        ("deploy", deploy, ()),
        ("deploy.resources", resources, ("limits", "reservations")),
        ("deploy.resources.limits", resources.get("limits"), ()),
        ("deploy.resources.reservations", resources.get("reservations"), ("devices",)),
    ):
        for key in part if isinstance(part, dict) else ():
            if key in _MISPLACED and key not in known:
                return "misplaced", f"{above}.{key}"
    for path, one in _asked(given, deploy):
        if one.get("count") is not None and one.get("device_ids"):
            return "count and device_ids", path
    for path, one in _asked(given, deploy):
        if path.startswith("deploy") and "capabilities" not in one and one.get("driver") != "cdi":
            return "no capabilities", path
    for path, one in _asked(given, deploy):
        driver, named = str(one.get("driver") or ""), _capabilities(one)
        unjudged = "$" in f"{driver}{named}" or driver in _OF_ANY
        if not unjudged and not set(named) <= _CAPABILITIES.get(driver, frozenset()):
            return "unknown to the engine", path
    return "", ""


def _asked(given: dict[str, Any], deploy: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The devices of `gpus` and of the reservations, with their paths."""
    reserved = _list(_reservations(deploy).get("devices"))
    return [*_numbered("gpus", _wanted(given)), *_numbered("deploy.resources.reservations.devices", reserved)]


def _capabilities(device: dict[str, Any]) -> list[str]:
    return [str(name) for name in _list(device.get("capabilities", ["gpu"]))]


def _numbered(path: str, values: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    """The mappings of a list with their paths."""
    return [(f"{path}.{number}", one) for number, one in enumerate(values) if isinstance(one, dict)]


def _count(given: dict[str, Any], deploy: dict[str, Any]) -> int | None:
    """How many GPUs are reserved, if every reservation says that."""
    devices = (*_wanted(given), *_list(_reservations(deploy).get("devices")))
    counts = [_count_of(one) if isinstance(one, dict) else None for one in devices]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _count_of(device: dict[str, Any]) -> int | None:
    count, ids = device.get("count"), ",".join(map(str, _list(device.get("device_ids")))).split(",")
    if count is None and not any(one.endswith("all") or "$" in one for one in ids):
        return len(list(filter(None, ids))) or None
    return count if isinstance(count, int) and count >= 0 else None  # -1: all


def _of_name(text: str) -> set[Vendor]:
    """The vendors that a driver, or the name of a device, may stand for."""
    if "nvidia" in text.lower():
        return {"nvidia"}
    return {"amd"} if re.search(r"amd|rocm", text, re.IGNORECASE) else {"nvidia", "amd"}


def _device(device: Any) -> str:
    if isinstance(device, dict):
        return str(device.get("source") or "")
    return str(device).split(":")[0]


def _target(volume: Any) -> str:
    if isinstance(volume, dict):
        return str(volume.get("target") or "")
    return next((part for part in str(volume).split(":")[1:] if part.startswith("/")), "")


def _path(file: Any) -> str:
    return str(file.get("path") if isinstance(file, dict) else file)


def _words(value: Any) -> tuple[str, ...] | None:
    """The words of a command: a list, or a text that compose splits as a shell does."""
    if isinstance(value, list):
        return tuple(map(str, value))
    try:
        return tuple(shlex.split(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _mapping(value: Any) -> dict[str, str]:
    """Names with their values. One without a value has that of the shell which starts compose."""
    if isinstance(value, dict):
        return {str(key): f"${{{key}}}" if one is None else str(one) for key, one in value.items()}
    pairs = (str(one).partition("=") for one in _list(value))
    return {name: text if equals else f"${{{name}}}" for name, equals, text in pairs}
