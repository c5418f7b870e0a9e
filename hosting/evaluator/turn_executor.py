"""Turns as they are taken: by the engine, into the journal in groups, and out into the streams once they are durable.

The order is the promise: a turn that a group of the journal does not hold has happened nowhere outside, unless the
delivery is `at_least_once`, which shows outputs at once. A turn that an interrupt leaves half way breaks the
evaluator: its group is never written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from checkpoint.sealed_log.journal import Journal
from hosting.edges.streams import Streams
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Answer, Create, Events, Fail, Output, Turn
from hosting.evaluator import group_commit
from hosting.evaluator.call_executor import Calls
from hosting.evaluator.lifecycle import Lifecycle
from hosting.evaluator.reentrancy import Inside, Outside
from hosting.evaluator.serial_executor import Worker
from hosting.reports.unheard import Standstill
from reliable_rx.errors import StoreUnavailable
from reliable_rx.operators.contract.choices import Delivery

PENDING_GROUPS_MAX, GROUP_TURNS_MAX = 16, 8192
Told = Callable[[], group_commit.Told]
"""What the next group is to say besides its turns."""


class TurnExecutor:
    """Takes the turns of one evaluator, and shows what they emitted.

    *now* is the time of the next turn, *worker* writes the groups, *calls* makes the calls that turns want, *told*
    says what a group has to say besides.
    """

    def __init__(
        self,
        engine: QueryEngine,
        *,
        now: Callable[[], float],
        lifecycle: Lifecycle,
        inside: Inside,
        standstill: Standstill,
        calls: Calls,
        streams: Streams,
        journal: Journal,
        worker: Worker,
        delivery: Delivery,
        told: Told,
    ) -> None:
        self._engine, self.now, self._lifecycle, self._inside = engine, now, lifecycle, inside
        self._standstill, self._calls, self._streams = standstill, calls, streams
        self._journal, self._worker, self._told = journal, worker, told
        self._shows_at_once = delivery == "at_least_once"
        self.events_in = 0
        self.durable_plans = set[str]()
        """The plans whose code a checkpoint or the journal has, by identity."""
        self.fresh = list[Output]()
        """What the turns since the last time emitted, which no stream has yet."""
        self._group: group_commit.Group | None = None
        self._committed = deque[group_commit.Group]()

    # -- taking

    def take(self, turn: Turn) -> None:
        """Have the engine take *turn*, behind what is to be told of a standstill, and note it for the journal."""
        if self._standstill.since is not None or self._engine.watermarks or self._engine.stop is not None:
            self.resume(turn)
        before, entry = self._engine.number, group_commit.entry_of(turn, self._code(turn))
        try:
            outputs = self._engine.take(turn)
        except BaseException as error:
            self._lifecycle.broken = error
            raise
        group = self._group
        if group is None:
            group = self._group = group_commit.Group(before + 1)
        group.last_turn = self._engine.number
        if self._engine.calls.fresh or self._engine.calls.dropped:
            self._calls.note(group)
        group.entries.append(entry)
        self.fresh += outputs
        if isinstance(turn, Events):
            self.events_in += len(turn.values)
        elif isinstance(turn, (Answer, Create)) and group.weigh(entry):
            self.close_group()

    def resume(self, turn: Turn | None = None) -> None:
        """Before *turn*, take one that tells of partitions that have not been silent, but unheard."""
        told = self._standstill.over(turn)
        if told is not None:
            self.take(told)

    def fail(self, query: str, error: Exception) -> None:
        """End a query that cannot be kept as it is; the others go on."""
        if query in self._engine.standing:
            self.take(Fail(query, error, self.now()))

    def _code(self, turn: Turn) -> bytes | None:
        """Return what a replay needs to compile a plan that no checkpoint holds yet."""
        if type(turn) is not Create or turn.plan in self.durable_plans:
            return None
        self.durable_plans.add(turn.plan)
        return self._engine.plans.code_of(turn.code)

    # -- journalling

    @property
    def is_late(self) -> bool:
        """Whether the journal is too far behind for more turns to be taken."""
        return len(self._committed) >= PENDING_GROUPS_MAX

    @property
    def is_settled(self) -> bool:
        """Whether all turns are durable and visible."""
        return self._group is None and not self._committed and not self._worker.busy

    def offer_group(self) -> None:
        """Have the turns taken so far made durable, unless a group is being written: they share the next one."""
        if not self._worker.busy or (self._group is not None and len(self._group.entries) >= GROUP_TURNS_MAX):
            self.close_group()

    def close_group(self) -> None:
        """Have the turns taken so far made durable."""
        self.publish()
        group, self._group = self._group, None
        if group is None:
            return
        with self._inside:
            digested = group.digests()
        told, journal = self._told(), self._journal
        self._committed.append(group)
        self._worker.submit(lambda: group_commit.write(journal, group, digested, told))

    def wait_durable(self, *, timeout_s: float) -> None:
        """Return when all groups are durable that were closed. *Raises* `StoreUnavailable`."""
        if not self._worker.drain(timeout_s=timeout_s):
            self._lifecycle.check()
            why = f"the journal did not become durable in {timeout_s:g} s"
            raise self._worker.trouble or StoreUnavailable(why)

    def forget(self) -> None:
        """Write nothing more, not even what is under way."""
        self._group = None
        self._committed.clear()
        self._worker.forget()

    def close(self) -> None:
        """Have the last turns made durable; of a broken evaluator not those of which one may be half taken."""
        if self._lifecycle.broken is not None:
            self._group = None
        self.close_group()

    # -- showing

    def publish(self) -> None:
        """Give the streams what the turns since the last time emitted."""
        outputs, self.fresh = self.fresh, []
        if outputs and self._group is not None:
            self._streams.append(outputs)
            self._group.outputs += outputs
            if self._shows_at_once:
                with Outside(self._inside):
                    self._streams.show(outputs)

    def show_durable(self) -> bool:
        """Make visible what the journal has made durable; return whether anything was."""
        self._worker.retry()
        durable, shown = self._journal.last_turn, False
        while self._committed and self._committed[0].last_turn <= durable:
            group = self._committed.popleft()
            self._calls.due.extend(group.calls)
            self._streams.show(group.outputs)
            shown = True
        return shown
