"""The Indexed Job and the DaemonSet that check Kubernetes nodes."""

from __future__ import annotations

import re
from typing import Any

from gpudoctor.fleet.engines.order import Order
from gpudoctor.host import InputError

_HOSTNAME = "kubernetes.io/hostname"
_TOLERATED = ("nvidia.com/gpu", "amd.com/gpu")
_PAIR = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]*)=([A-Za-z0-9][A-Za-z0-9._-]*)?")


def manifest(order: Order, name: str) -> dict[str, Any]:
    """An Indexed Job with a pod on each of the nodes; without names a DaemonSet on every node."""
    if not order.image:
        raise InputError("--on kubernetes: name an image that holds gpudoctor with --image")
    labels = {"app.kubernetes.io/name": "gpudoctor", "gpudoctor.dev/fleet": name}
    head = {"name": name, "labels": labels}
    if not order.nodes:
        # A DaemonSet starts a container again that has ended: the check comes first, and the pod then waits.
        waiting = {"name": "waiting", "image": order.image, "command": ["sleep", "infinity"], **_CONFINED}
        pod = {"initContainers": [_container(order)], "containers": [waiting], **_placement(order)}
        spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
        return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": head, "spec": spec}
    pod = {"restartPolicy": "Never", "containers": [_container(order)], **_placement(order)}
    pod["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*map(_node_term, order.nodes)]}
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": labels}, "topologyKey": _HOSTNAME}
            ]
        },
    }
    count = len(order.nodes)
    job = {
        **{"completions": count, "parallelism": count, "completionMode": "Indexed"},
        # A pod that fails ends neither the job nor the other pods.
        **{"backoffLimitPerIndex": 0, "maxFailedIndexes": count},
        **{"activeDeadlineSeconds": int(order.seconds) + 1, "ttlSecondsAfterFinished": 600},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": head, "spec": job}


_CONFINED: dict[str, Any] = {
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
}


def _container(order: Order) -> dict[str, Any]:
    resources = _pairs("--resource", order.resources)
    return {
        "name": "gpudoctor",
        "image": order.image,
        "command": list(order.on_node()),
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        **({"resources": {"limits": resources}} if resources else {}),
        **_CONFINED,
    }


def _placement(order: Order) -> dict[str, Any]:
    selector = _pairs("--selector", order.selectors)
    tolerations = [{"key": key, "operator": "Exists"} for key in _TOLERATED]
    return {**({"nodeSelector": selector} if selector else {}), "tolerations": tolerations}


def _node_term(node: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in given:
        found = _PAIR.fullmatch(text)
        if found is None:
            raise InputError(f"{option} {text[:60]!r}: write NAME=VALUE")
        pairs[found[1]] = found[2] or ""
    return pairs
