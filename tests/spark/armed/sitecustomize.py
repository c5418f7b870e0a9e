"""Arms one named point in every Python process that a test starts, directly or through Spark, and makes blocks small.

Python imports a module of this name when it starts, if its directory is in PYTHONPATH. Calls are counted over all
processes, in a file: Spark spreads the tasks of a batch, and the commits of several, over processes of its own. Only
those of one *side* count, as an evaluator's writers and readers of logs have the same points as Spark's; and of the
logs of one *flow*, if one is named. The victim ``session`` is the driver, its JVM, and all workers; ``self`` only the
process that is there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path
from types import FrameType
from typing import Any

TOLD = json.loads(os.environ.get("RELIABLE_RX_SPARK_KILL", "{}"))


def reached() -> None:
    if side() == TOLD["side"] and (not TOLD["flow"] or f"/{TOLD['flow']}/" in log()):
        strike()


def callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def side() -> str:
    hosted = any(frame.f_globals.get("__name__", "").startswith("hosting.") for frame in callers())
    return "evaluator" if hosted else "spark"


def log() -> str:
    """Return what the nearest caller who has a log before him calls it."""
    for frame in callers():
        for name in ("view", "disk"):
            given = frame.f_locals.get(name) or getattr(frame.f_locals.get("self"), name, None)
            where = getattr(given, "where", None)
            if isinstance(where, str):
                return where
    return ""


def strike() -> None:
    count = os.open(TOLD["count"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(count, b".")
    if os.fstat(count).st_size >= TOLD["nth"] and not os.path.exists(TOLD["mark"]):
        Path(TOLD["mark"]).touch()
        if TOLD["victim"] == "session":
            os.killpg(os.getsid(0), signal.SIGKILL)  # the driver, its JVM, and what else they have started
            os.killpg(0, signal.SIGKILL)  # Spark's workers are a group of their own
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(count)


def arm(probes: Any) -> None:
    if TOLD:
        probes.ARMED[TOLD["point"]] = reached


def make_small(names: Any) -> None:
    names.SPANS = tuple(json.loads(os.environ.get("RELIABLE_RX_SPARK_SPANS", "[64, 4096]")))


BEHIND = {"reliable_rx.failpoints": arm, "spark_bridge.micro_batch_log.names": make_small}


class Behind(MetaPathFinder):
    """Does what is to be done when a module is there: no process starts later because of us, as Spark waits 10 s."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        act, spec = BEHIND.get(name), PathFinder.find_spec(name, path) if name in BEHIND else None
        if act is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            act(module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Behind())
