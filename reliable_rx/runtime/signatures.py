"""Signatures of rows: the shape of a plan's rows, under which they are stored.

A row is read into another plan, or by a newer library, by comparison with its signature, never by a guess.
"""

from __future__ import annotations

from typing import Any

from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.runtime.plan import Plan

Signature = tuple[tuple[str, str, int, tuple[str, ...]], ...]
Row = tuple[Any, ...]


def signature(plan: Plan) -> Signature:
    """Describe a plan's rows: for every operator its path, name, version and the fields of its state."""
    if plan.signature is None:
        plan.signature = tuple(
            (node.path, node.op.name, node.op.version, state_fields(type(node.op))) for node in plan.nodes
        )
    return plan.signature
