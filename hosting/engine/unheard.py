"""Errors that nobody in a query hears: of effects that come last, and of steps of what has ended. The host hears them.

In Rx an error goes downstream, and where nothing is downstream any more it is dropped. Here it is kept for a host that
asks, and a warning where none does: what is wrong with a function, or with this library, is not to vanish.
"""

from __future__ import annotations

import warnings
from typing import Any

from hosting.engine.routes import top_of
from reliable_rx.errors import described
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import PlanNode

EFFECT, STEP = "effect", "unheard"
WHAT = {EFFECT: "what it does last (finally_action, using)", STEP: "a step of it, when nobody heard it any more,"}


def effect_failed(engine: Any, instance: Instance, node: PlanNode, error: Exception) -> None:
    _keep(engine, EFFECT, instance, node, error)


def unheard(engine: Any, instance: Instance, node: PlanNode, error: Exception) -> None:
    _keep(engine, STEP, instance, node, error)


def _keep(engine: Any, kind: str, instance: Instance, node: PlanNode, error: Exception) -> None:
    path = f"{top_of(instance).key}{node.path}"
    if engine.news is None:
        warnings.warn(f"{path}: {WHAT[kind]} failed: {described(error)}", RuntimeWarning, stacklevel=3)
    else:
        engine.unheard_errors[kind, path] = error
