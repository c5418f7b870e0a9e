"""Writer of one sink: feeds it in order, flushes it, and keeps what it cannot write its own problem.

Three kinds of failure are told apart. The place is not available (`OSError`): the same call is made again behind a
pause, and no turns are taken meanwhile. The partition has another owner (`LeaseLost`): the evaluator stops. Anything
else is the sink's: values of a call that failed are given again in halves, until the one that cannot be written stands
alone, and with that one is done what `on_error` says:

* ``fail``: the sink is written no more in this run. Its holder is *absent* (`hosting.edges.holders`): its stream keeps
  what it lacks until the buffer is full, and then lets go of it, so that it never stops the turns of others.
* ``skip`` and ``dead_letter``: the sink steps over the id; a dead letter goes into the sink itself, beside the values.

A dead letter of a sink is not a value of a stream: what a sink refuses is no function of the turns, and a replay could
not repeat it. Rejected: a turn for each refusal (a journal entry for what has no effect on any query, and a stream
whose own sink may refuse), a second sink for letters (two places, so no transaction: a crash between them loses or
doubles a letter).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

from checkpoint.format.salvage import Unreadable
from checkpoint.format.stored_errors import trace_of
from hosting.edges.closing import let_go
from hosting.edges.egress import Stream
from hosting.edges.holders import Patience, StreamHolders
from hosting.edges.lost_values import runs_lost
from hosting.edges.pause import Pause
from hosting.edges.sink_positions import kind_of, label_of
from hosting.edges.sink_remedies import GO_ON_BEHIND, blames_value, tried_with, ways_on
from hosting.edges.sinks_ahead import COMES_AGAIN
from hosting.engine.blame import blamed
from hosting.engine.turns import Output
from hosting.reports.log import LOG
from hosting.sinks.callback import reached_by
from hosting.sinks.origins import claim
from hosting.sinks.text import error_text, told
from reliable_rx.class_of import is_a, is_odd
from reliable_rx.errors import (
    LeaseLost,
    PositionUnavailable,
    StoreOwned,
    StoreUnavailable,
    ValueRefused,
    invariant,
)
from reliable_rx.failpoints import probe
from reliable_rx.operators.contract.choices import OnError, check_choice
from reliable_rx.reliable import DeadLetter, Origin, Sink, Skipping

READ_MAX = 10_000
NO_ANSWER = (
    "write of the sink returned False, which says neither what it lacks nor why: let it raise ValueRefused for a value "
    "that it cannot take, or an OSError to be called again"
)


class SinkWriter:
    """One sink of one stream, flushed at the latest when *unflushed_max* notifications wait for that."""

    def __init__(
        self,
        stream: str,
        sink: Sink,
        *,
        on_error: OnError,
        holders: StreamHolders,
        unflushed_max: int,
        pause: Pause,
    ) -> None:
        self.stream, self.sink, self.on_error, self.pause = stream, sink, on_error, pause
        self.name("")
        self.label, self.kind = label_of(sink), kind_of(sink)
        self.had = cast(int | None, None)
        """Where it stood when it was opened, if it knew that itself."""
        self.position = self.flushed = 0
        self.old = 0
        """Below this id are values of earlier runs, which may be unreadable."""
        self.skipped = 0
        self.is_open = self.is_closed = self.lacks_stream = self.was_open = False
        self.trouble: StoreUnavailable | None = None
        self.failure: Exception | None = None
        self._given = range(0)
        """The ids of a call that was not taken, until that is told."""
        self._holders, self._incidents, self._unflushed_max = holders, holders.incidents, unflushed_max

    def name(self, holder: str, *, was_known: bool = False) -> None:
        """Hold the stream under the name *holder*; before anything is held."""
        self.holder, self.subject, self.was_known = holder, f"{self.stream}, {holder}", was_known
        self.is_back = False
        """Whether it may have been one that could not be made the last time."""

    @property
    def status(self) -> str:
        """What becomes of what the stream emits."""
        if self.failure is not None:
            return "failed"
        return "waiting" if self.trouble is not None else "open" if self.is_open else "closed"

    @property
    def is_new(self) -> bool:
        """Whether it is still to be opened."""
        return not self.is_open and self.failure is None and not self.is_closed

    def renew(self) -> bool:
        """Forget that it failed, so that it is opened again; return whether it had."""
        failed, self.failure = self.failure is not None, None
        if failed:
            self.is_closed, self.was_known = False, self.was_known or self.was_open
        return failed

    def open(self, known: int, store: str) -> int:
        """Ask the sink where it stands, *known* if it does not know; return it. *Raises* whatever the sink raises.

        *store* is the owner that the ids of its stream are of.
        """
        claim(self.sink, Origin(self.stream, store=store))
        position = self.had = self.sink.open(self.stream)
        self._remark()
        if position is not None and position < known and self.was_known:
            LOG.warning(
                "sink %r has %s of the %s ids that were durable in it: was its file deleted, moved or cut, or is it "
                "new? What it lacks is written again, as far as its stream has it",
                self.subject, f"{position:,}", f"{known:,}",
            )  # fmt: skip
        return known if position is None else position

    def begin(self, stream: Stream, position: int) -> None:
        """Write from id *position* on; ids that the stream no longer has are stepped over, or the sink fails."""
        self.is_open, self.was_open, self.old = True, True, stream.next_id
        self.position = self.flushed = position
        stream.hold(self.holder, position)
        try:
            stream.check(position)
        except PositionUnavailable as error:
            missing = f"ids {position:,} to {stream.first - 1:,} of the stream are no longer kept ({error.message})"
            if self.on_error == "fail" or position > stream.next_id:
                raise PositionUnavailable(f"{missing}; {GO_ON_BEHIND}", **error.fields, names_way=True) from None
            self._step_over(position, stream.first, None, PositionUnavailable(missing, **error.fields))
            self.position = stream.first
        self.trouble = None
        self.pause.end()
        self._incidents.resolve("sink", self.subject)

    def pump(self, stream: Stream) -> bool:
        """Write what is visible and not written yet; return whether anything was."""
        if not self.is_open or self.pause.is_on or (self.position >= stream.visible and self.trouble is None):
            return False
        before = self.position
        try:
            self._write(stream)
            if self.trouble is not None or stream.next_id - self.flushed > self._unflushed_max:
                self._flush(stream)
                stream.trim()
        except BaseException as error:
            self.take(tamed(error), stream)
        else:
            self._is_well()
        return self.position > before

    def flush(self, stream: Stream) -> None:
        """Make it durable, then let the stream forget it."""
        if not self.has_unflushed or self.trouble is not None:
            return
        try:
            self._flush(stream)
        except BaseException as error:
            self.take(tamed(error), stream)
        else:
            self._is_well()

    @property
    def has_unflushed(self) -> bool:
        """Whether the sink was given what it has not been asked to make durable."""
        return self.flushed < self.position and self.failure is None

    def close(self) -> None:
        """Close the sink, whatever it says to that."""
        self.is_open, self.is_closed = False, True
        let_go(f"sink {self.subject!r}", self.sink.close)

    # -- writing

    def _write(self, stream: Stream) -> None:
        while (before := self.position) < stream.visible:
            for segment in stream.read(before, READ_MAX):
                if segment.values:
                    (self._give if segment.first >= self.old else self._give_old)(segment.first, segment.values)
                if segment.ended:
                    self._give_end(segment)
                self.position = segment.next
            invariant(self.position > before, f"stream {self.stream!r} still has id {before:,}, which a sink wants")

    def _give(self, first: int, values: Sequence[Any]) -> None:
        """Write *values*; if some cannot be written, the others."""
        waiting = [(first, values)]
        while waiting:
            n, part = waiting.pop()
            self.position = n
            error = self._tried(n, part)
            if error is None:
                continue
            if len(part) == 1:
                self._step_over(n, n + 1, part[0], error)
            else:
                cut = _cut(n, len(part), error)
                waiting += [(n + cut, part[cut:]), (n, part[:cut])]

    def _give_old(self, first: int, values: Sequence[Any]) -> None:
        """Write *values* of an earlier run, except for those that cannot be read any more."""
        begin = 0
        for place, behind, lost in runs_lost(values, each=self.on_error == "dead_letter"):
            if begin < place:
                self._give(first + begin, values[begin:place])
            begin = behind
            self._leave_out(first + place, first + behind, values[place], lost)
        if begin < len(values):
            self._give(first + begin, values[begin:])

    def _leave_out(self, n: int, until: int, value: Any, lost: Unreadable) -> None:
        """Do what is to be done with ids whose value cannot be read, or comes again under a later one."""
        self.position = n
        if lost.reason != COMES_AGAIN:
            which = f"id {n:,}" if until == n + 1 else f"ids {n:,} to {until - 1:,}"
            error = ValueRefused(f"{which} cannot be read any more: {lost.kind}: {lost.reason}", n=n)
            self._step_over(n, until, value, error)
        elif isinstance(self.sink, Skipping):
            self.sink.skip(n, until, COMES_AGAIN, None)

    def _tried(self, n: int, values: Sequence[Any]) -> Exception | None:
        """Write *values*; return why one of them cannot be written."""
        try:
            answer: Any = self.sink.write(n, values)  # type: ignore[func-returns-value]
            if answer is False:
                raise TypeError(NO_ANSWER)
        except BaseException as raised:
            error = tamed(raised)
            if not blames_value(error):
                self._given = range(n, n + len(values))
                raise
            return error
        return None

    def _give_end(self, segment: Output) -> None:
        n = segment.next - 1
        self.position = n
        try:
            self.sink.end(n, segment.error)
        except BaseException as raised:
            error = tamed(raised)
            if not blames_value(error):
                self._given = range(n, n + 1)
                raise
            self._step_over(n, n + 1, segment.error, error)

    def _step_over(self, n: int, until: int, value: Any, error: Exception) -> None:
        """Do what is to be done with what cannot be written."""
        if self.on_error == "fail" or not isinstance(self.sink, Skipping):
            raise error
        letter = None
        why = told(error)
        if self.on_error == "dead_letter":
            letter = DeadLetter(self.stream, "", n, value, why, trace_of(error))
        self.sink.skip(n, until, why, letter)
        self.skipped += until - n
        done = "left out" if letter is None else "set aside as dead letters"
        message = f"notifications {done} in this run: {self.skipped:,}; the last, id {until - 1:,}: {why}"
        self._incidents.report("sink skips", self.subject, message, error=error, level=logging.WARNING)

    def _flush(self, stream: Stream) -> None:
        probe("sink.before_flush")
        self.sink.flush()
        probe("sink.after_flush")
        self.flushed = self.position
        probe("sink.before_acknowledge")
        stream.acknowledge(self.holder, self.position - 1)

    # -- failing

    def take(self, error: Exception, stream: Stream) -> None:
        """Do with an error of the sink what is to be done: wait, stop everything, or fail."""
        if self._stops_all(error):
            raise error
        if isinstance(error, OSError) and not isinstance(error, (StoreOwned, LeaseLost)):
            self._wait(error)
        else:
            self._fail(error, stream)
        self._given = range(0)

    def _stops_all(self, error: BaseException) -> bool:
        """Whether a lease is lost that this one had: a sink that was never fenced has none, and is another's."""
        return is_a(error, LeaseLost) and getattr(error, "fields", {}).get("epoch") != 0

    def _wait(self, error: OSError) -> None:
        reached = reached_by(self.sink)
        if isinstance(error, StoreUnavailable):
            self.trouble = error
        else:
            why, ids = told(error), range(reached, reached + 1) if reached in self._given else self._given
            message = f"the sink of stream {self.stream!r} is not available: {why}; it is tried again{tried_with(ids)}"
            self.trouble = StoreUnavailable(message)
            self.trouble.__cause__ = error
        self.pause.begin(at=max(self.position, reached))
        self._incidents.report("sink", self.subject, self.trouble.message, error=error, level=logging.WARNING)

    def _is_well(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            self.pause.end()
            self._incidents.resolve("sink", self.subject)

    def _fail(self, error: Exception, stream: Stream) -> None:
        """Write no more; what was written before is made durable, if that can be."""
        if self.flushed < self.position:
            try:
                self._flush(stream)
            except BaseException as second:  # then it is written again, if the sink is ever well
                if self._stops_all(second):
                    raise
                LOG.warning("sink %r could not be flushed before it failed: %s", self.subject, told(tamed(second)))
        self.position = self.flushed
        self.failure, self.trouble = error, None
        self.pause.end()
        lacks = f"it lacks what comes from id {self.flushed:,} on" if self.is_open else "what it has cannot be told"
        mend = ways_on(error, self.sink, self.stream, on_error=self.on_error, is_open=self.is_open)
        self.close()
        stream.leave(self.holder, self._holders.absence("its sink has failed", Patience.NONE))
        lacks += "; the stream keeps what it has of that until its buffer is full"
        self._incidents.report(
            "sink",
            self.subject,
            f"{told(error)}; this {kind_of(self.sink)} is written no more: {lacks}; {mend}",
            error=error,
        )

    def _remark(self) -> None:
        remark = getattr(self.sink, "remark", None)
        if isinstance(remark, str) and remark:
            self._incidents.report("sink opened", self.subject, remark, level=logging.WARNING)


def _cut(first: int, count: int, error: Exception) -> int:
    """Return how many values to try by themselves: those before the one that is named, or else half of them."""
    named = error.fields.get("n") if isinstance(error, ValueRefused) else None
    before = named - first if isinstance(named, int) else count // 2
    return min(max(before, 1), count - 1)


def tamed(error: BaseException) -> Exception:
    """Return *error*; what a user's code raised to end the process is an error of the sink. *Raises* interrupts."""
    if is_a(error, Exception) and not is_odd(error):
        return error
    cause = blamed(error)
    found = ValueRefused(f"the sink raised {error_text(error)}", n=None)
    found.__cause__ = cause
    return found


def checked_policy(stream: str, sink: Any, on_error: OnError) -> OnError:
    """Return *on_error*. *Raises* `ValueError` if there is no such policy, or if the sink cannot do what it says."""
    check_choice(f"on_error of the sink of {stream!r}", on_error, OnError)
    if on_error != "fail" and not isinstance(sink, Skipping):
        kind = type(sink).__name__
        raise ValueError(
            f"a {kind} cannot leave ids out, so the sink of {stream!r} cannot have on_error={on_error!r}: use 'fail', "
            f"or give it a method skip (see reliable_rx.reliable.Skipping)"
        )
    if on_error == "dead_letter" and getattr(sink, "keeps_letters", True) is False:
        raise ValueError(
            f"a {type(sink).__name__} has no place for dead letters, so the sink of {stream!r} cannot have "
            f"on_error='dead_letter': give it on_dead_letter=, or use 'skip'"
        )
    return on_error
