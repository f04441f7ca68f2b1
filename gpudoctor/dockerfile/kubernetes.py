"""The containers of Kubernetes manifests: their images, their variables, and the GPUs that they ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from gpudoctor.bounded_yaml import YamlError, read_yaml
from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.compose import Service
from gpudoctor.dockerfile.keys import keys_of
from gpudoctor.dockerfile.syntax import RecipeError

_DOCUMENTS = 200
_CONTAINERS = 1000
_LISTS = ("containers", "initContainers")
_SINGLE = ("container", "script")
"""Keys below which a workflow of Argo has one container."""
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(\d{1,19}(\.\d{0,9})?|\.\d{1,9}))(?P<suffix>[eE][+-]?\d{1,2}|[KMGTPE]i|[numkMGTPE]?)"
)
_SUFFIXES = {
    **{
        suffix: Decimal(1000) ** power
        for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
"""Of quantities, as Kubernetes writes them."""
_NODES = re.compile(r"/dev/(nvidia|kfd|dri|dxg)")
_GPUS = re.compile(r"nvidia\.com/(gpu(\.shared)?$|mig-)|amd\.com/gpu")
"""The resources of which one is a GPU, or a slice of one."""


def is_manifest(text: str) -> bool:
    """Whether a YAML text is of Kubernetes."""
    return all(re.search(rf"^{key}:", text, re.MULTILINE) for key in ("apiVersion", "kind"))


def read_manifests(file: str, text: str, bounds: Bounds | None = None) -> tuple[Service, ...]:
    """The containers of every object of a file. Raises RecipeError, or BoundError."""
    bounds = bounds or Bounds()
    found: list[Service] = []
    for number, (before, part) in enumerate(_documents(text)):
        if number >= _DOCUMENTS:
            raise RecipeError(f"has more than {_DOCUMENTS:,} documents")
        try:
            document = read_yaml(part)
        except YamlError as error:
            place = f"line {before + error.line}: " if error.line else ""
            raise RecipeError(f"{place}{error}") from None
        bounds.values.spend(document.size)
        nodes: dict[str, Any] = {}
        for named, node in _nodes_of_containers(document.node):
            nodes.setdefault(named, node)
        for pod, container in _containers(document.value):
            name = str(container.get("name") or "")
            found.append(_container(file, name, nodes.get(name), before, pod, container))
            if len(found) > _CONTAINERS:
                raise RecipeError(f"has more than {_CONTAINERS:,} containers")
    return tuple(found)


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a text, each with the number of lines before it."""
    start, lines = 0, text.removeprefix("\ufeff").split("\n")
    for number, line in enumerate([*lines, "---"]):
        if re.match(r"---(\s|$)", line):
            if any(one.strip() and not one.lstrip().startswith("#") for one in lines[start:number]):
                yield start, "\n".join(lines[start:number])
            start = number + 1


def _containers(value: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every container, with the specification of its pod."""
    if isinstance(value, dict):
        for key in _LISTS:
            for one in _list(value.get(key)):
                if isinstance(one, dict) and isinstance(one.get("image"), str):
                    yield value, one
        for key in _SINGLE:
            if isinstance(_dict(value.get(key)).get("image"), str):
                yield value, {"name": value.get("name"), **value[key]}
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _containers(one)


def _nodes_of_containers(node: Any) -> Iterator[tuple[str, Any]]:
    """The names of containers with their nodes."""
    pairs = node.value if node is not None and node.id == "mapping" else ()
    for key, value in pairs:
        for one in value.value if key.value in _LISTS and value.id == "sequence" else ():
            named = (pair[1].value for pair in one.value if pair[0].value == "name") if one.id == "mapping" else ()
            yield from ((name, one) for name in named if isinstance(name, str))
        if key.value in _SINGLE and value.id == "mapping":
            name = next((one.value for own, one in pairs if own.value == "name"), "")
            yield (name if isinstance(name, str) else ""), value
        yield from _nodes_of_containers(value)
    if node is not None and node.id == "sequence":
        for one in node.value:
            yield from _nodes_of_containers(one)


def _container(file: str, name: str, node: Any, before: int, pod: dict[str, Any], given: dict[str, Any]) -> Service:
    resources = _dict(given.get("resources"))
    limits, requests = _quantities(resources.get("limits")), _quantities(resources.get("requests"))
    wanted = [name for name, amount in {**requests, **limits}.items() if quantity(amount) != 0]
    nvidia = any(key.startswith("nvidia.com/") for key in wanted) or pod.get("runtimeClassName") == "nvidia"
    amd = any(key.startswith("amd.com/gpu") for key in wanted)
    others = [key for key in wanted if re.search("gpu|cuda", key, re.IGNORECASE)]
    nodes, mounts = (
        _nodes(pod, given),
        [str(one.get("mountPath")) for one in map(_dict, _list(given.get("volumeMounts")))],
    )
    pairs = ((one.get("name"), one.get("value")) for one in map(_dict, _list(given.get("env"))))
    environment = {str(key): str(value) for key, value in pairs if key and value is not None}
    open_ = ""
    if not nvidia and not amd:
        open_ = (
            f"it asks for {others[0]}" if others
            else "it has a resource claim" if pod.get("resourceClaims") or resources.get("claims")
            else "the cluster's runtime may follow NVIDIA_VISIBLE_DEVICES"
            if environment.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none")
            else ""
        )  # fmt: skip
    security = {**_dict(pod.get("securityContext")), **_dict(given.get("securityContext"))}
    user, group = security.get("runAsUser"), security.get("runAsGroup")
    groups = [*_list(security.get("supplementalGroups")), *([security["fsGroup"]] if "fsGroup" in security else [])]
    return Service(
        file=file,
        name=name,
        line=before + (node.start_mark.line if node is not None else 0) + 1,
        keys=keys_of(node, before) if node is not None else {},
        image=given["image"].strip(),
        nvidia=nvidia,
        amd=amd,
        gpu_count=_count(limits),
        kfd=amd or any(node in ("/dev/kfd", "/dev") for node in nodes),
        render=amd or any(node.startswith("/dev/dri") or node == "/dev" for node in nodes),
        devices=nodes,
        shared_memory=bool(pod.get("hostIPC")) or any(path.startswith("/dev/shm") for path in mounts),
        mounts=tuple(mounts),
        privileged=security.get("privileged") is True,
        groups=tuple(map(str, groups)),
        user="" if user is None else f"{user}:{group}" if group is not None else str(user),
        environment=environment,
        entrypoint=_words(given.get("command")),
        command=_words(given.get("args")),
        open=open_,
        cluster=True,
        limits=limits,
        requests=requests,
    )


def _count(limits: dict[str, str]) -> int | None:
    """How many GPUs limits name; None without one. Memory and cores of one, as HAMi shares them, are none."""
    amounts = (text for name, text in limits.items() if _GPUS.match(name))
    counts = [number for text in amounts if (number := quantity(text)) is not None]
    return int(sum(counts)) if counts else None


def _quantities(resources: Any) -> dict[str, str]:
    """How much of each resource is asked for, as written."""
    return {str(key): str(value) for key, value in _dict(resources).items()}


def quantity(text: str) -> Decimal | None:
    """The number that a quantity stands for: "500m" is half of one. None for another text, as a placeholder is."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    factor = _SUFFIXES.get(found["suffix"])
    return Decimal(found["number"]) * factor if factor is not None else Decimal(found["number"] + found["suffix"])


def _nodes(pod: dict[str, Any], container: dict[str, Any]) -> tuple[str, ...]:
    """The device nodes of the host that a container mounts."""
    mounted = {one.get("name") for one in map(_dict, _list(container.get("volumeMounts")))}
    volumes = [one for one in map(_dict, _list(pod.get("volumes"))) if one.get("name") in mounted]
    paths = [str(_dict(one.get("hostPath")).get("path")).rstrip("/") for one in volumes]
    return tuple(path for path in paths if path == "/dev" or _NODES.match(path))


def _words(value: Any) -> tuple[str, ...] | None:
    return tuple(map(str, value)) if isinstance(value, list) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
