"""All sinks of an evaluator: opened behind the replay, fed, and flushed before a checkpoint.

What one of them cannot do is its own affair: see `hosting.edges.sink_writer`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import count
from logging import WARNING
from time import monotonic
from typing import Any

from checkpoint.store import Store
from hosting.edges.egress import Stream
from hosting.edges.holders import StreamHolders
from hosting.edges.moved_sinks import place_taken, tell_left, tell_new, tell_taken
from hosting.edges.pause import Pause
from hosting.edges.refused_sink import answering
from hosting.edges.sink_positions import (
    UNMADE,
    Known,
    Labels,
    begins_at,
    check_apart,
    check_label,
    holder_of,
    is_sink,
    matched,
    read_known,
    target_of,
)
from hosting.edges.sink_writer import SinkWriter, checked_policy, tamed
from hosting.edges.sinks_ahead import AHEAD_MAX, ahead_of_store, check_had, passed_over, refuses_start
from hosting.edges.streams import Streams
from hosting.engine.cycles import there_are
from hosting.engine.engine import QueryEngine
from hosting.engine.side_streams import why_never_of_source
from hosting.reports.incidents import Incidents
from hosting.reports.statistics import SinkFigures
from reliable_rx.errors import StoreUnavailable
from reliable_rx.handled import forget, note, noted
from reliable_rx.names import query_of
from reliable_rx.operators.contract.choices import Delivery, OnError
from reliable_rx.reliable import Sink, Source


class Outlets:
    """All sinks of an evaluator.

    *sources* and *declared* are its inputs and what it was told to create, by name; *change* holds its lock for what
    changes it, and *checkpoint* takes a checkpoint.
    """

    def __init__(
        self,
        engine: QueryEngine,
        store: Store,
        *,
        sources: Mapping[str, Source],
        declared: Container[str],
        streams: Streams,
        holders: StreamHolders,
        incidents: Incidents,
        delivery: Delivery,
        buffer_events_max: int,
        change: Callable[[str], AbstractContextManager[Any]],
        pauses: bool,
        checkpoint: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._engine, self._store, self._sources, self._declared = engine, store, sources, declared
        self._streams, self._holders, self._incidents, self._delivery = streams, holders, incidents, delivery
        self._change, self._checkpoint, self._wake = change, checkpoint, wake
        self.buffer_events_max = buffer_events_max
        self.all: list[SinkWriter] = []
        self.held: dict[str, dict[str, int]] = {}
        self.left: dict[str, dict[str, Known]] = {}
        """The sinks of each stream that the app had and has not declared."""
        self.are_told = True
        """Whether all sinks of the app are declared here: commands that only change queries have none."""
        self.streams: frozenset[str] | None = None
        """Where they are not: which streams have sinks in the app; None: not known."""
        self.had: frozenset[str] = frozenset()
        """The queries and sources that the store had before this start."""
        self.is_writing = self.has_passed_over = False
        self.clock = monotonic if pauses else None
        """Tells how long a sink that is not available is not tried again; None: it is at each step."""

    def add(self, stream: str, sink: Sink, *, on_error: OnError = "fail") -> None:
        """Send *stream* to *sink*. *Raises* `ValueError` for a policy it cannot keep, or if it is a sink already."""
        with self._change("sink"):
            self._add(stream, sink, on_error)
        self._wake()

    def _add(self, stream: str, sink: Sink, on_error: OnError) -> None:
        before = next((each.stream for each in self.all if each.sink is sink), None)
        if before is not None:
            raise ValueError(f"this sink is that of stream {before!r} already; make another one for {stream!r}")
        sink = answering(sink)
        self._check_target(stream, sink)
        policy, most, pause = checked_policy(stream, sink, on_error), self.buffer_events_max // 2, Pause(self.clock)
        writer = SinkWriter(stream, sink, on_error=policy, holders=self._holders, unflushed_max=most, pause=pause)
        check_label(
            stream, writer.label, {each.label for each in self.all if each.stream == stream and not each.failure}
        )
        self._name(writer)
        self.all.append(writer)

    def _check_target(self, stream: str, sink: Sink) -> None:
        """*Raises* `ValueError` if a sink that is written has the target of *sink*."""
        target, knows_position = target_of(sink), hasattr(sink, "stored_position")
        for name, source in self._sources.items():
            check_apart(name, source, stream, sink)
        for each in self.all if target is not None else ():
            may_share = each.stream != stream and not knows_position  # it adds to what is there, as a service may
            if each.failure is None and not each.is_closed and target_of(each.sink) == target and not may_share:
                raise ValueError(
                    f"{target} is that of another sink of stream {each.stream!r}, and one alone may write it: give "
                    f"this one another"
                    + ("; where a cell of a notebook was run again, the first one goes on" * (each.stream == stream))
                )

    def check_source(self, name: str, source: Source) -> None:
        """*Raises* `ValueError` if *source* would read what a sink writes."""
        for each in self.all:
            check_apart(name, source, each.stream, each.sink)

    def reopen(self, stream: str) -> None:
        """Have the failed sinks of *stream* opened anew, before anything is written next. *Raises* `KeyError`."""
        with self._change("reopen"):
            writers = [each for each in self.all if each.stream == stream]
            if not writers:
                known = there_are(dict.fromkeys(each.stream for each in self.all), stream)
                raise KeyError(f"stream {stream!r} has no sink; {known}")
            for writer in writers:
                if writer.renew():
                    self._go_on(writer)
        self._wake()

    def _go_on(self, writer: SinkWriter) -> None:
        """Have what is opened in the place of *writer*, which had failed, go on behind what that one had."""
        position = writer.flushed if writer.was_open else self._known(writer)
        self.held = {**self.held, writer.stream: {**self.held.get(writer.stream, {}), writer.holder: position}}

    def hold(self, known: dict[str, dict[str, int]], labels: dict[str, Labels]) -> None:
        """Before a replay: nothing of it may be forgotten that a holder or a sink may still want."""
        held = self.held = {name: self._matched(name, holders, labels.get(name, {})) for name, holders in known.items()}
        for name, holders in held.items():
            sinks = frozenset(writer.holder for writer in self.all if writer.stream == name)
            self._holders.restore(self._stream(name), holders, sinks=sinks)
        for writer in self.all:
            self._stream(writer.stream).hold(writer.holder, self._known(writer))

    def _matched(self, stream: str, known: dict[str, int], labels: Labels) -> dict[str, int]:
        """Return the *known* positions of a stream under the names that its holders have in this run."""
        before = {holder_of(each.number): each for each in read_known(known, labels)}
        here = [each for each in self.all if each.stream == stream]
        found = {holder_of(each.number): each for each in matched([*before.values()], here)}
        for writer, holder in zip(here, found, strict=False):
            writer.name(holder, was_known=holder in before)
            writer.is_back = writer.was_known and before[holder].was_declared is None and writer.label != UNMADE
        away = [*found][len(here) :]
        was = {holder: before[holder].was_declared for holder in away}
        self.left[stream] = {holder: found[holder]._replace(was_declared=was[holder]) for holder in away}
        others = {holder: position for holder, position in known.items() if not is_sink(holder)}
        return others | {holder: each.position for holder, each in found.items()}

    def labels(self) -> dict[str, Labels]:
        """Return what tells the sinks of each stream from one another, and whether it is declared, by their holders."""
        found: dict[str, Labels] = {}
        for stream in self.left:
            is_gone = self.are_told and (None if self._lacks_one(stream) else True)
            found[stream] = {holder: each.stored(is_gone=is_gone) for holder, each in self._away(stream)}
        for writer in self.all:
            found.setdefault(writer.stream, {})[writer.holder] = writer.label, True, writer.kind
        return found

    def undeclared(self) -> Iterator[tuple[str, str, Known]]:
        """Give the sinks that the app, whose sinks are not here, does not declare any more, with stream and holder."""
        for stream in list(self.left):
            for holder, each in list(self._away(stream)):
                if each.was_declared is False or (self.streams is not None and stream not in self.streams):
                    yield stream, holder, each

    def _away(self, stream: str) -> Iterator[tuple[str, Known]]:
        """Give the sinks of *stream* that nobody has declared in this run, and that nobody has let go."""
        here, used = self._streams.get(stream), {each.holder for each in self.all if each.stream == stream}
        for holder, each in self.left.get(stream, {}).items():
            if holder not in used and here is not None and holder in here.holders:
                yield holder, each

    def _name(self, writer: SinkWriter) -> None:
        """Have *writer* hold the stream in its own place, if it is known or has failed, or else in a new one."""
        stream, label = writer.stream, writer.label
        for failed in self.all:
            if failed.stream == stream and failed.failure is not None and failed.label == label != UNMADE:
                self.all = [each for each in self.all if each is not failed]
                self._go_on(failed)
                writer.name(failed.holder, was_known=True)
                return
        away = dict(self._away(stream))
        for holder, each in away.items():
            if each.label == label:
                writer.name(holder, was_known=True)
                self._incidents.resolve("holder", f"{stream}/{holder}")
                return
        used = {each.holder for each in self.all if each.stream == stream} | self.left.get(stream, {}).keys()
        writer.name(next(holder for holder in map(holder_of, count()) if holder not in used))
        self.held[stream] = {**self.held.get(stream, {}), writer.holder: begins_at(writer.kind, away.values(), 0)}

    def _known(self, writer: SinkWriter) -> int:
        """Return the position of a sink that does not know it."""
        return self.held.get(writer.stream, {}).get(writer.holder, 0)

    def _stream(self, name: str) -> Stream:
        """Return a stream, also of a query that the replay is yet to create."""
        return self._streams.get(name) or self._streams.open(name, self._engine.emitted(name))

    def open(self) -> None:
        """Ask every sink where it stands. One that refuses to open has failed; the others go on.

        *Raises* `PositionUnavailable` if one has ids that this store has never given.
        """
        for writer in self.all:
            if writer.is_new:
                self._open(writer, starting=True)
        self._settle_left()
        if self.has_passed_over:  # no turn says so, and a replay would use these ids
            self._checkpoint()
        self.pump()

    def _settle_left(self) -> None:
        """Of the sinks that nobody declares, find those that have moved, and tell of the others."""
        if not self.are_told:
            return
        for writer in self.all:
            self._take_place(writer)
        for name in self.left:
            here = [each for each in self.all if each.stream == name]
            new = [each for each in here if not each.was_known]
            may_be_it = [each for each in here if each.is_back] + [each for each in new if each.is_open]
            for holder, each in list(self._away(name)):
                if each.label == UNMADE and may_be_it:
                    self._holders.release(name, holder)
                    tell_taken(may_be_it.pop(0), each, self._holders)
                elif not self._lacks_one(name):
                    tell_left(self._stream(name), holder, each, new)

    def _lacks_one(self, stream: str) -> bool:
        """Whether a sink of *stream* could not be made, which may be any that seems not to be declared."""
        return any(each.stream == stream and each.label == UNMADE for each in self.all)

    def _take_place(self, writer: SinkWriter) -> None:
        """Let go of the sink that is not declared any more, and is this one."""
        left = dict(self._away(writer.stream))
        if not left or not writer.is_open:
            return
        holder = place_taken(writer, left)
        if holder is not None:
            writer.was_known = True
            self._holders.release(writer.stream, holder)
            tell_taken(writer, left[holder], self._holders)

    def _open(self, writer: SinkWriter, *, starting: bool = False) -> None:
        stream = self._stream(writer.stream)
        writer.lacks_stream = not self._is_there(stream) and stream.name not in self._store.streams()
        if writer.lacks_stream:
            if query_of(stream.name) not in self._declared:  # as it is before the start has created it
                self._wait_for_stream(writer)
            return
        try:
            position = writer.open(self._known(writer), self._store.owner)
            if position > stream.next_id:
                self._skip_to(stream, position, starting=starting)
            writer.begin(stream, position)
            if not writer.was_known and writer.had is None and position:
                tell_new(writer, position, self._holders)
            if not starting:
                self._take_place(writer)
            self._warn_if_never(writer, stream)
        except BaseException as error:
            if starting and refuses_start(error):
                raise  # it may be the wrong store
            if writer.holder not in stream.holders:  # declared after the start: what it lacks is kept
                stream.keep_for(writer.holder, self._known(writer))
            writer.take(tamed(error), stream)
            if writer.failure is not None and not writer.was_known and self._known(writer):
                tell_new(writer, self._known(writer), self._holders)  # mended, it is known by then

    def _is_there(self, stream: Stream) -> bool:
        """Whether somebody writes to *stream*, or something is in it."""
        sources, queries = self._sources, self._engine.standing
        query = query_of(stream.name)
        return stream.next_id > 0 or query in queries or query in sources

    def _wait_for_stream(self, writer: SinkWriter) -> None:
        readers = self._engine.readers
        message = f"there is no query of that name, nor was there one; {there_are(readers.names(), writer.stream)}"
        self._incidents.report("sink", writer.subject, f"{message}; it is written once there is one")

    def _warn_if_never(self, writer: SinkWriter, stream: Stream) -> None:
        query, name, sources = query_of(stream.name), stream.name, self._sources
        if query == name or stream.next_id:
            return
        source = sources.get(query)
        why = self._engine.readers.missing(name) if source is None else why_never_of_source(name, source)
        if why is not None:
            self._incidents.report("sink idle", writer.subject, f"nothing is written: {why}", level=WARNING)

    def _skip_to(self, stream: Stream, position: int, *, starting: bool) -> None:
        """A sink knows ids that the evaluator does not: only possible where outputs were visible before the journal."""
        ahead = position - stream.next_id
        if self._delivery == "exactly_once" or not starting or ahead > AHEAD_MAX:
            others = {each.stream for each in self.all}
            check_had(self._engine, self._store, stream.name, position, had=self.had, others=others)
            raise ahead_of_store(self._store, stream.name, position, stream.next_id)
        stream.skip_to(passed_over(stream.name, stream.next_id, position))
        self._streams.changed[stream.name] = None
        self._engine.continue_ids(stream.name, position)
        self.has_passed_over = True
        for each in self.all:
            if each.stream == stream.name:
                each.old = position

    def pump(self) -> bool:
        """Write what has become visible everywhere; return whether anything was.

        A sink may call the evaluator: then nothing is written until its call has returned.
        """
        return bool(self.all) and not self.is_writing and self._each(self._pump)

    def _pump(self, writer: SinkWriter, stream: Stream) -> bool:
        if writer.is_new and not writer.pause.is_on and (not writer.lacks_stream or self._is_there(stream)):
            self._open(writer)
        return writer.pump(stream)

    def _each(self, write: Callable[[SinkWriter, Stream], bool | None]) -> bool:
        """Call *write* for every sink; return whether one of the calls said so."""
        moved = False
        self.is_writing, token = True, note()
        try:
            for writer in self.all:
                moved = bool(write(writer, self._stream(writer.stream))) or moved
        finally:
            self.is_writing = False
            forget(token)
        return moved

    @property
    def trouble(self) -> StoreUnavailable | None:
        """Why no turns are taken, if a sink is not available."""
        for writer in self.all:  # no generator: it is asked at each step
            if writer.trouble is not None:
                return writer.trouble
        return None

    def lacking(self) -> list[tuple[SinkWriter, int]]:
        """Return the sinks that go on, with the id behind what there is for each."""
        return [(each, self._stream(each.stream).next_id) for each in self.all if each.failure is None]

    def retry(self) -> None:
        """Have sinks that are not available tried again at once."""
        for writer in self.all:
            writer.pause.end()

    @property
    def lacks_some(self) -> bool:
        """Whether a sink that has failed has not got all of its stream."""
        return any(each.failure is not None and each.flushed < self._stream(each.stream).next_id for each in self.all)

    @property
    def has_unflushed(self) -> bool:
        """Whether a sink was given what it has not been asked to make durable."""
        return any(writer.has_unflushed for writer in self.all)

    def flush(self) -> None:
        """Make everything written durable, but not from within a call of a sink. *Raises* `StoreUnavailable`."""
        if not self.is_writing:
            self.pump()
            self._each(SinkWriter.flush)
        if self.trouble is not None:
            raise self.trouble

    def figures(self) -> tuple[SinkFigures, ...]:
        """Describe every sink."""
        return tuple(
            SinkFigures(each.stream, each.holder, each.status, each.on_error, each.flushed, each.skipped)
            for each in self.all
        )

    @noted()
    def close(self) -> None:
        for writer in self.all:
            if writer.failure is None and not writer.is_closed:
                writer.close()
