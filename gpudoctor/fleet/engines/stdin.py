"""Any other engine: what `gpudoctor fleet node` printed on the nodes, read from the standard input."""

from __future__ import annotations

import os
import select
import sys

from gpudoctor.fleet.engines.order import Answer, Order
from gpudoctor.fleet.frames import Frames
from gpudoctor.fleet.launch import by_line

OWN_PYTHON = False


def preview(order: Order) -> str:
    """Nothing is started."""
    return ""


def run(order: Order) -> tuple[Answer, ...]:
    """Read until the end, or until the time is over."""
    frames = Frames()
    heard = by_line(frames.line)
    source = sys.stdin.fileno()
    while order.left and select.select([source], [], [], order.left)[0]:
        data = os.read(source, 1 << 16)
        heard("stdin", data)
        if not data:
            break
    return tuple(frames.answers({}))
