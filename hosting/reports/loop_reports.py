"""Reports on an evaluator's loop: that it hangs, that it has ended with an error, that pushed values wait for it."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any, Protocol

from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Events
from hosting.evaluator.lifecycle import AFRESH, Lifecycle
from hosting.reports.incidents import Incidents
from reliable_rx.class_of import is_a
from reliable_rx.errors import SourceFailed, StoreUnavailable, described
from reliable_rx.runtime.instance import Instance

LASTING_S = 300.0
"""After so long what stops everything is no warning any more, but an error."""
UNREAD = "unread"
OURS = ("reliable_rx", "hosting", "checkpoint", "spark_bridge")


class Inputs(Protocol):
    """The inputs of an evaluator."""

    @property
    def sources(self) -> Mapping[str, Any]: ...


class LoopReports:
    """What one evaluator's loop tells; *write* is called to have other processes see it at once."""

    def __init__(
        self,
        engine: QueryEngine,
        lifecycle: Lifecycle,
        incidents: Incidents,
        *,
        inputs: Inputs,
        write: Callable[[], None],
        has_begun: Callable[[], bool],
    ) -> None:
        self._engine, self._lifecycle, self.incidents, self._inputs = engine, lifecycle, incidents, inputs
        self._write, self._has_begun = write, has_begun
        self.told_hang: Callable[[], object] = lambda: None
        """Is called from another thread when the loop hangs, and when it goes on."""
        self.error: BaseException | None = None
        """What a step has raised, if none has followed it."""
        self.told: BaseException | None = None
        """What `run` has raised, once that has been told."""
        self.stands = False
        """Whether something is to be taken back by the next step."""

    def goes_on(self) -> None:
        """A step has been taken: whatever kept the loop is over."""
        self.error = self.told = None
        self.stands = False
        self.incidents.resolve("stall", "loop")
        self.incidents.resolve("loop", "run", now="goes on")
        self.incidents.resolve("loop", UNREAD, now="are read")

    def halted(self, error: Exception) -> None:
        """A step has raised *error*: nothing happens any more until there is another one."""
        self.error, self.stands = error, True
        self._write()

    @property
    def halt(self) -> str:
        """Why the loop takes no turns any more; empty while it does."""
        failure = self._lifecycle.failure
        if failure is not None:
            return f"the evaluator has failed with {described(failure)}; {AFRESH}"
        return "" if self.error is None else f"the loop has ended with {described(self.error)}; run it again"

    def ended(self, error: Exception) -> None:
        """`run` raises *error*: nobody may wait for the thread that it ends."""
        if is_a(error, StoreUnavailable):
            return  # told by whoever could not write
        self.told, self.stands = error, True
        failure = self._lifecycle.failure
        remedy = "nothing is taken until run() is called again, or the app is started again"
        told = is_a(error, SourceFailed)  # in full, with its traceback, by its source
        why = "since a source cannot be read" if told and failure is None else f"with {described(failure or error)}"
        message = f"the run has ended {why}; {remedy if failure is None else AFRESH}"
        self.incidents.report("loop", "run", message, error=None if told else error)
        self._write()

    def finished(self) -> None:
        """`run` returns since nothing can happen any more: tell of what waits for events that cannot come."""
        if self._inputs.sources:
            return
        standing = self._engine.standing
        waiting = [name for name, each in standing.items() if each.status == RUNNING]
        if standing and not waiting:
            return
        who = f"{waiting[0]!r} waits" if len(waiting) == 1 else f"{len(waiting):,} queries wait"
        message = (
            f"the run has ended, as nothing can happen: no source is declared and no timer is set"
            f"{f', though {who} for events' if waiting else ''}; call source(name, ...) or push(name) before run()"
        )
        self.incidents.report("loop", "run", message, level=logging.WARNING)
        self._write()

    def tell_unread(self, values: int, seconds: float) -> None:
        """From another thread: *values* that were pushed wait, and no step has been taken for so many *seconds*."""
        self.stands = True
        what = "1 pushed value waits" if values == 1 else f"{values:,} pushed values wait"
        message = f"{what}, and nobody has taken a step for {seconds:.0f} s: call run() again, or close the evaluator"
        self.incidents.report("loop", UNREAD, message, level=logging.WARNING)

    def tell_hang(self, seconds: float, thread: int) -> None:
        """From another thread: the loop, in *thread*, has been in one step for so many *seconds*."""
        turn, frame = self._engine.turn, sys._current_frames().get(thread)
        at_work = "turn" if turn is not None else "step" if self._has_begun() else "start"
        what = "in no turn): a source, a sink or the disk does not return"
        if at_work == "start":
            what = f"{loading_in(frame)})"
        if turn is not None:
            where = f"{turn.source}/{turn.partition} from event {turn.first:,} on" if isinstance(turn, Events) else ""
            query = hanging_in(frame)
            of = "a query" if query is None else f"the query {query!r}"
            what = f"{where or type(turn).__name__}): a function of {of} does not return"
        message = f"one {at_work} has been at work for {seconds:.0f} s ({what}"
        trace = "" if frame is None else "".join(traceback.format_stack(frame))
        self.stands = True
        level = logging.ERROR if seconds >= LASTING_S else logging.WARNING
        self.incidents.report("stall", "loop", message, level=level, trace=trace)
        with suppress(RuntimeError):  # it goes on, and what is read here grows
            self._write()
        self.told_hang()

    def tell_hang_over(self) -> None:
        """From another thread: the loop goes on, or has ended its last step."""
        self.incidents.resolve("stall", "loop")
        self.told_hang()


def loading_in(frame: FrameType | None) -> str:
    """Return what a start does in *frame*, of another thread: what it has called does not return, or it loads much."""
    found = None
    while frame is not None and (module := str(frame.f_globals.get("__name__")).partition(".")[0]) not in OURS:
        found = found if module in sys.stdlib_module_names else frame
        frame = frame.f_back
    if found is None:
        return "it loads what is stored, which may be much"
    return f"{found.f_code.co_qualname} in {found.f_code.co_filename}, line {found.f_lineno}, does not return"


def hanging_in(frame: FrameType | None) -> str | None:
    """Return the query whose function is at work in *frame*, of another thread; None if that is not known."""
    while frame is not None:
        instance = frame.f_locals.get("instance")
        if isinstance(instance, Instance):
            while instance.parent is not None:
                instance = instance.parent
            return str(instance.key)
        frame = frame.f_back
    return None
