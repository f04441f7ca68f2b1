"""Kubernetes: an Indexed Job on the named nodes, or a DaemonSet on all; kubectl applies it and reads the logs."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from gpudoctor.fleet.engines.kubernetes_manifest import manifest
from gpudoctor.fleet.engines.launcher import answers_of
from gpudoctor.fleet.engines.order import Answer, Order
from gpudoctor.host import InputError
from gpudoctor.host.child import run_limited

OWN_PYTHON = False
_PAUSE = 1.0


def preview(order: Order) -> str:
    """The manifest, for `kubectl apply -f -`."""
    return yaml.safe_dump(manifest(order, "gpudoctor"), sort_keys=False)


def run(order: Order) -> tuple[Answer, ...]:
    """Apply the manifest, wait for the pods, read their logs, delete it."""
    name = f"gpudoctor-{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory(prefix="gpudoctor-") as folder:
        file = Path(folder, "fleet.yaml")
        file.write_text(yaml.safe_dump(manifest(order, name)), encoding="utf-8")
        _kubectl(order, "apply", "-f", str(file))
        try:
            return _answers(order, f"gpudoctor.dev/fleet={name}")
        finally:
            _kubectl(order, "delete", "--wait=false", "-f", str(file), must=False)


def _answers(order: Order, selector: str) -> tuple[Answer, ...]:
    pods = _await_pods(order, selector)
    named = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}
    nodes = order.nodes or tuple(dict.fromkeys(filter(None, named.values())))
    if not nodes:
        raise InputError(f"--on kubernetes: no pod was started{_why(pods)}")
    logs = ("logs", "-l", selector, "-c", "gpudoctor", "--tail=-1", "--prefix", "--ignore-errors")
    argv = ("kubectl", *order.arguments, *logs, f"--max-log-requests={max(len(pods), 1)}")
    names = {pod: node for pod, node in named.items() if node}
    answers = answers_of(argv, order.asking(nodes), r"^\[pod/([^/]+)/[^\]]*\] ?", names)
    return tuple(
        answer if answer.document else Answer(node=answer.node, failure=answer.failure + _why(pods, answer.node))
        for answer in answers
    )


def _await_pods(order: Order, selector: str) -> list[dict[str, Any]]:
    """The pods, as soon as all have answered, or late enough to read what is there."""
    for_logs = min(max(order.seconds / 10, 5.0), order.seconds / 2)
    while True:
        said = _kubectl(order, "get", "pods", "-l", selector, "-o", "json")
        pods: list[dict[str, Any]] = json.loads(said)["items"]
        ended = sum("terminated" in _state(pod) for pod in pods)
        if (pods and ended >= max(len(order.nodes), len(pods))) or order.left < for_logs:
            return pods
        time.sleep(_PAUSE)


def _state(pod: dict[str, Any]) -> dict[str, Any]:
    """The state of the container that checks the node."""
    status = pod.get("status", {})
    rows = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    state: dict[str, Any] = next((row.get("state", {}) for row in rows if row["name"] == "gpudoctor"), {})
    return state


def _why(pods: list[dict[str, Any]], node: str = "") -> str:
    """Why a pod did not start, as Kubernetes says it: that of the node, else one that got no node."""
    for pod in pods:
        if pod["spec"].get("nodeName", "") not in ("", node):
            continue
        waiting = _state(pod).get("waiting", {})
        words = [waiting.get("reason", ""), waiting.get("message", "")]
        words += [row.get("message", "") for row in pod.get("status", {}).get("conditions", ())]
        if told := ": ".join(word for word in words if word):
            return f"; {told[:300]}"
    return ""


def _kubectl(order: Order, *arguments: str, must: bool = True) -> str:
    argv = ("kubectl", *order.arguments, *arguments)
    ran = run_limited(argv, max(5.0, order.left), environ=os.environ)
    if must and (ran.value is None or ran.value.rc):
        words = ran.value.stderr.strip() if ran.value else ran.why
        raise InputError(f"kubectl {arguments[0]} failed: {words[-300:]}")
    return ran.value.stdout if ran.value else ""
