"""One subscription: what a source has of a partition, handed to one consumer, batch by batch, at its own pace.

At most one batch is outstanding. The consumer may know better than we where it is (it was restarted, it keeps its
position with its data): it says so in a `Resume`, and is given exactly what follows. A batch that fails is tried again
with growing pauses, event by event, so that it is known which one cannot be delivered; then a `Verdict` decides.

A subscription has no thread. `step` does one thing and says when to be called again: a crew of threads calls it (see
`hosting.subscriptions.manager`), or the evaluator's loop where observers are quick (`hosting.edges.egress`). Rejected:
delivering to consumers one after the other (the slowest sets the pace), a flag "events may have been seen already" (ids
say which).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from checkpoint.format.stored_errors import trace_of
from hosting.engine.blame import blamed
from hosting.reports.log import LOG
from hosting.reports.tracebacks import with_trace
from hosting.subscriptions.consumers import Consumer, Delivering, Failing, Record, Resume, Resuming, Verdict, checked
from reliable_rx.errors import PositionUnavailable, StoreUnavailable, described
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.reliable import Batch, DeadLetter, Reader, SequencedEnd, Source, Waking

AHEAD = 1000
POLL_S = 0.02


class Report(Protocol):
    """Says what is wrong with a subscription; without a message, that it is well again."""

    def __call__(
        self, kind: str, message: str | None, *, error: Exception | None = None, level: int = logging.WARNING
    ) -> None: ...


class Subscription:
    """One consumer of one partition. `step` is called by one thread at a time, everything else by any.

    *status* is ``waiting`` (nothing to read yet), ``live``, ``ended``, ``stopped``, ``faulted`` or ``disposed``;
    *error* says why it has stopped. *position* is the next id that has not been handed over.
    """

    def __init__(
        self,
        name: str,
        consumer: Consumer,
        delivering: Delivering,
        *,
        clock: Callable[[], float],
        draw: Callable[[], float],
        wake: Callable[[], None],
        confirmed: Callable[[int], None] | None = None,
        released: Callable[[], None] = lambda: None,
        report: Report = lambda kind, message, *, error=None, level=0: None,
        check: Callable[[str], None] = lambda what: None,
        check_start: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.consumer, self.delivering = name, consumer, delivering
        self.wake, self.check, self._check_start = wake, check, check_start
        self.status = "waiting"
        self.error: Exception | None = None
        self.position = 0
        self.skipped = 0
        self._clock, self._draw, self._confirmed, self._released = clock, draw, confirmed, released
        self._report, self._troubled = report, False
        self._origin: tuple[Source, str] | None = None
        self._reader: Reader | None = None
        self._asked = self._busy = False
        self._wanted: int | None = None
        self._ahead: list[Record] = []
        self._end: Batch | None = None
        self._fetched = 0
        self._after = -1
        self._told = -1
        self._resumed: int | None = None
        self._singly_until = -1
        self._failing: tuple[int, int, float] | None = None
        self._retry_at = 0.0

    # -- from any thread

    def attach(self, source: Source, partition: str, at: int | None) -> None:
        """Read *partition* of *source* from id *at* on, unless the consumer says otherwise; or from `start` on."""
        self._origin, self._asked = (source, partition), False
        if at is not None and self.status in ("waiting", "live"):
            self.start(at)

    def start(self, n: int | None = None, /) -> None:
        """Deliver from id *n* on, *n* included; by default from where it is. Also after it has stopped.

        *Raises* `PositionUnavailable` if that is known at once.
        """
        self.check(f"start of subscription {self.name!r}")
        self._check_start()
        self._wanted = self.next if n is None else n
        self._failing, self._retry_at, self.error = None, 0.0, None
        self.status = "waiting" if self._origin is None else "live"
        self.wake()
        if isinstance(self.error, PositionUnavailable):
            raise self.error

    @property
    def next(self) -> int:
        """The id to go on at: where it was told to start, if it has not yet, or *position*."""
        wanted = self._wanted
        return self.position if wanted is None else wanted

    @property
    def is_idle(self) -> bool:
        """Whether everything that was there has been delivered. Only who calls `step` can rely on it."""
        waits = self._wanted is None and self._reader is not None
        return self.status == "live" and waits and not self._ahead and self._end is None

    def detach(self) -> None:
        """There is nothing to read any more, for now. What is kept for the name stays."""
        self.check(f"detach of subscription {self.name!r}")
        self._origin = None
        self.status = "waiting" if self.status == "live" else self.status
        self.wake()

    def dispose(self) -> None:
        """Deliver nothing more, and let go what is kept for the name."""
        self.halt()
        self._released()

    def halt(self) -> None:
        """Deliver nothing more. What is kept for the name stays, as it would over a crash."""
        self.check(f"disposal of subscription {self.name!r}")
        self.status = "disposed"
        self.wake()

    def refuse(self, error: Exception) -> None:
        """Stop because of *error*."""
        self._judged("stopped", error)
        self.wake()

    def acknowledge(self, n: int, /) -> None:
        """*n* and all before are safe with the consumer."""
        self.check(f"acknowledge of subscription {self.name!r}")
        reader = self._reader
        if reader is not None:
            reader.acknowledge(n)

    # -- one thing at a time

    def step(self) -> float | None:
        """Do one thing; return in how many seconds to be called again, or None if not before it is woken."""
        if self._busy:  # the consumer has made us go on: what it causes comes after it
            return None
        self._busy = True
        try:
            return self._step()
        except StoreUnavailable as error:  # nothing is lost; it comes again
            self.error = error
            self._trouble(f"its store or its source is not to be had: {described(error)}; it is tried again", error)
            return POLL_S
        except BaseException as raised:  # the source's: nothing that could be skipped
            self._stop("stopped", blamed(raised))
            return None
        finally:
            self._busy = False

    def _step(self) -> float | None:
        if self.status != "live":
            if self.status != "ended" or self._origin is None:  # what was delivered is yet to be acknowledged
                self._close()
            return None
        left_s = self._retry_at - self._clock()
        if left_s > 0:
            return left_s
        if self._wanted is not None or self._reader is None:
            return self._open()
        more = not self._ahead and self._end is None and self._collect(self._reader)
        if self._ahead:
            return self._deliver()
        self._confirm()
        self._well()
        if self._end is not None:
            return self._finish(self._end)
        if more:
            return 0.0
        return None if isinstance(self._reader, Waking) else POLL_S

    def _open(self) -> float | None:
        position, self._wanted = self._wanted, None
        if not self._asked and isinstance(self.consumer, Resuming):
            try:
                answer = checked("resume", self.consumer.resume())
            except BaseException as raised:
                error = blamed(raised)
                self._wanted = position
                return self._failed(error, None)
            position = answer.position if answer is not None else position
        self._asked = True
        self._seek(self.position if position is None else position)
        return 0.0

    def _seek(self, position: int) -> None:
        self._close()
        origin = self._origin
        if origin is None:
            return
        source, partition = origin
        self._ahead, self._end, self._singly_until = [], None, -1
        self.position = self._fetched = position
        self._after = self._told = position - 1
        self._reader = source.open(partition, position)
        if isinstance(self._reader, Waking):
            self._reader.on_available(self.wake)

    def _collect(self, reader: Reader) -> bool:
        """Read ahead what is there, without what nobody wants; return whether there was anything."""
        before = self._fetched
        for _ in range(AHEAD):
            batch = reader.fetch(AHEAD - len(self._ahead))
            if batch.rejected:
                last = batch.rejected[-1]
                what = f"passes over {plural(len(batch.rejected), 'record')} that could not be read, the last at "
                self._report("subscriber skips", f"{what}{last.position:,}: {last.error}")
            if batch.first > self._fetched + batch.skipped:
                raise PositionUnavailable(
                    f"{self.name!r} wants id {self._fetched:,}, but the source goes on at {batch.first:,}",
                    wanted=self._fetched,
                    first=batch.first,
                    end=batch.next,
                )
            records = [each for each in enumerate(batch.values, batch.first) if each[0] >= self._fetched]
            self._ahead += [each for each in records if self._keeps(each[1])]
            self._fetched = max(self._fetched, batch.next)
            if batch.ended or batch.error is not None:
                self._end = batch
            if self._end is not None or not batch.values or len(self._ahead) >= self.delivering.batch:
                break
        self.position = self._ahead[0][0] if self._ahead else self._fetched
        return self._fetched > before

    def _keeps(self, value: Any) -> bool:
        try:
            return self.delivering.keep is None or bool(self.delivering.keep(value))
        except BaseException as raised:  # rather once too often than never
            blamed(raised)
            return True

    def _deliver(self) -> float | None:
        singly = self._ahead[0][0] <= self._singly_until
        portion = self._ahead[: 1 if singly else self.delivering.batch]
        try:
            answer = checked("deliver", self.consumer.deliver(portion, self._after))
        except BaseException as raised:
            return self._failed(blamed(raised), portion)
        if answer is not None:
            return self._resume(answer, portion)
        self._after, self._resumed = portion[-1][0], None
        return self._go_on(len(portion))

    def _go_on(self, count: int) -> float:
        """The first *count* events are done, one way or another."""
        del self._ahead[:count]
        self._failing = None
        self._well()
        self.position = self._ahead[0][0] if self._ahead else self._fetched
        self._confirm()
        return 0.0

    def _confirm(self) -> None:
        """Acknowledge what is done; what was only passed over, a thousand at a time."""
        n = self.position - 1
        if n - self._told >= (1 if self._after > self._told else AHEAD):
            self._confirm_to(n)

    def _confirm_to(self, n: int) -> None:
        if self._confirmed is not None:
            self._confirmed(n)  # first, for the source may then forget it
            self.acknowledge(n)
        self._told = n

    def _resume(self, answer: Resume, portion: Sequence[Record]) -> float | None:
        if answer.position == self._resumed:
            error = RuntimeError(
                f"consumer {self.name!r} was given what follows {answer}, and says so again instead of taking it"
            )
            return self._failed(error, portion)
        self._resumed = answer.position
        self._seek(answer.position)
        return 0.0

    def _finish(self, end: Batch) -> float | None:
        try:
            self.consumer.end(end.next, end.error)
        except BaseException as raised:
            return self._failed(blamed(raised), None)
        self._well()
        self._confirm_to(end.next if isinstance(self._reader, SequencedEnd) else end.next - 1)
        if self.status == "live":
            self.status = "ended"
        return None

    # -- when it does not work

    def _trouble(self, message: str, error: Exception, *, level: int = logging.WARNING) -> None:
        self._troubled = True
        self._report("subscriber", message, error=error, level=level)

    def _well(self) -> None:
        if self._troubled:
            self._troubled = False
            self._report("subscriber", None)

    def _failed(self, error: Exception, portion: Sequence[Record] | None) -> float | None:
        """Try again, or give the verdict."""
        now, retry = self._clock(), self.delivering.retry
        at = portion[0][0] if portion else -1
        attempt, since = 1, now
        if self._failing is not None and self._failing[0] == at:
            attempt, since = self._failing[1] + 1, self._failing[2]
        if portion and len(portion) > 1:
            self._singly_until = portion[-1][0]
        pause_s = retry.pause_s(attempt, self._draw())
        if now + pause_s - since <= retry.within_s or (portion is not None and len(portion) > 1):
            self._failing, self._retry_at, self.error = (at, attempt, since), now + pause_s, error
            where = "" if at < 0 else f" at id {at:,}"
            self._trouble(f"it raised{where}: {described(error)}; it is tried again for {retry.within_s:g} s", error)
            return pause_s
        return self._judge(error, portion)

    def _judge(self, error: Exception, portion: Sequence[Record] | None) -> float | None:
        verdict = self.delivering.verdict
        if verdict in (Verdict.STOP, Verdict.FAULT) or portion is None:
            self._stop("faulted" if verdict is Verdict.FAULT else "stopped", error)
            return None
        if self.delivering.park is not None:
            try:
                self.delivering.park(self._letter(portion[0], error))
            except BaseException as raised:  # it cannot be put aside: nothing is passed over
                self.error, self._retry_at = blamed(raised), self._clock() + self.delivering.retry.most_s
                n = portion[0][0]
                self._trouble(f"what takes its letters raised at id {n:,}; it is tried again", self.error)
                return self.delivering.retry.most_s
        self.skipped += 1
        self._after = portion[0][0]
        done = "put aside" if self.delivering.park is not None else "left out"
        what = f"cannot take id {self._after:,}, which is {done}, as {self.skipped:,} since it began"
        self._report("subscriber skips", f"{what}: {described(error)}", error=error)
        return self._go_on(1)

    def _letter(self, record: Record, error: Exception) -> DeadLetter:
        partition = self._origin[1] if self._origin is not None else ""
        return DeadLetter(self.name, partition, record[0], record[1], described(error), trace_of(error))

    def _judged(self, status: str, error: Exception) -> None:
        """Report *error*, then show *status*: who waits for it finds the report, and may start it from there."""
        self.error, was = error, self.status
        kept = "nothing is kept for it" if status == "faulted" else "what follows is kept for it until it is started"
        what = f"is {status} at id {self.position:,}, and {kept}: {described(error)}"
        self._trouble(f"{what}; mend it and call `start`, or unsubscribe it", error, level=logging.ERROR)
        if self.error is error and self.status == was:
            self.status = status

    def _stop(self, status: str, error: Exception) -> None:
        self._close()
        self._judged(status, error)
        if isinstance(self.consumer, Failing):
            try:
                self.consumer.failed(error)
            except BaseException as raised:
                failed = blamed(raised)
                LOG.error("%s", with_trace(f"consumer {self.name!r} failed while it was told that it had", failed))

    def _close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
