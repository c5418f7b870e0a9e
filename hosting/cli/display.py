"""What a hosted app is doing: a live view on a terminal, a line every few seconds elsewhere.

A thread of its own draws, so that the loop that takes turns pays next to nothing for being watched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from hosting.cli.terminal import Lines, drawn_over, say
from hosting.cli.wording import moment, plural, size, span, table
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.evaluator.sidecars import CompanionFigures
from hosting.reports.causes import HANDED_ON, short_cause
from hosting.reports.incidents import Incident
from hosting.reports.statistics import QueryFigures, Statistics
from reliable_rx.errors import cut_middle

LIVE_INTERVAL_S = 0.5
PLAIN_INTERVAL_S = 2.0
HEARTBEAT_S = 60.0
SHOWN_MAX = 16
INCIDENT_MAX = 240
"""How much of an incident is in a line: the log has all of it."""
ASK_S = 0.25
"""How long the display waits for a sample: a longer turn is shown at the next line."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An evaluator at one moment. *lags* are the events a source has and we have not taken, where it can tell."""

    at: float
    statistics: Statistics
    queries: tuple[QueryFigures, ...]
    others: int
    lags: dict[tuple[str, str], int]


def sample(evaluator: QueryEvaluator) -> Sample:
    """Look at *evaluator*."""
    with evaluator.lock:
        names = evaluator.queries()
        queries = tuple(evaluator.query(name) for name in names[:SHOWN_MAX])
        statistics = evaluator.statistics()
    lags = {
        key: end - position
        for key, position in statistics.positions.items()
        if key[0] in evaluator.intake.sources
        and (end := known_end(evaluator.intake.sources[key[0]], key[1])) is not None
    }
    return Sample(time.monotonic(), statistics, queries, len(names) - len(queries), lags)


def known_end(source: Any, partition: str) -> int | None:
    """Return the id behind the last event of a partition of *source*, if it can tell without going far."""
    look = getattr(source, "end_of", None)
    end = look(partition) if callable(look) else None
    return end if isinstance(end, int) else None


def rate(now: int, before: int, seconds: float) -> str:
    return f"{(now - before) / seconds:,.0f}/s" if seconds > 0 else "–"


class View(Protocol):
    """A way to show samples."""

    interval_s: float

    def show(self, now: Sample, before: Sample) -> None: ...
    def close(self, last: Sample, before: Sample) -> None: ...


class PlainView:
    """A line when something has changed, and one a minute that says that nothing has."""

    interval_s = PLAIN_INTERVAL_S

    def __init__(self) -> None:
        self._said: object = None
        self._said_at = 0.0

    def show(self, now: Sample, before: Sample) -> None:
        state = what_matters(now.statistics)
        if state == self._said and now.at < self._said_at + HEARTBEAT_S:
            return
        self._said, self._said_at = state, now.at
        say(f"{time.strftime('%H:%M:%S')}  {summary(now, before)}")

    def close(self, last: Sample, before: Sample) -> None:
        """Nothing is held open, and what is said at the end says more."""


def what_matters(now: Statistics) -> object:
    """Return what is worth a line when it is another one."""
    open_now = [(each.kind, each.subject, each.level) for each in now.incidents]
    generation = 0 if now.checkpoint is None else now.checkpoint.generation
    return now.events_in, now.events_out, generation, query_counts(now), now.trouble, now.waits, open_now


def summary(now: Sample, before: Sample) -> str:
    """Say everything that matters in one line."""
    new, old, seconds = now.statistics, before.statistics, now.at - before.at
    parts = [
        f"{new.events_in:,} events in ({rate(new.events_in, old.events_in, seconds)}), {new.events_out:,} out",
        checkpoint_age(new),
        query_counts(new),
    ]
    if now.lags:
        parts.append(f"lag {sum(now.lags.values()):,}")
    parts += map(companion_summary, new.companions)
    if new.trouble:
        parts.append(f"waiting: {new.trouble}")
    parts += [f"{name} waits for {what}" for name, what in list(new.waits.items())[:SHOWN_MAX]]
    if new.incidents:
        causes = [each for each in new.incidents if HANDED_ON not in each.message]
        newest = cut_middle(str([*new.incidents, *causes][-1]), INCIDENT_MAX)
        parts.append(f"{plural(len(new.incidents), 'incident')}: {newest}")
    return " · ".join(parts)


def checkpoint_age(statistics: Statistics) -> str:
    figures = statistics.checkpoint
    if figures is None:
        return "no checkpoint in this run yet"
    return f"checkpoint {figures.generation:,}, {span(figures.age_s)} old"


def companion_summary(figures: CompanionFigures) -> str:
    """
    >>> companion_summary(CompanionFigures("rides", "running", 41, 5000, 1234.5, 0.4, 120))
    'rides: batch 41, 1,234/s, 400 ms, 120 rows of state'
    """
    parts = [figures.status] if figures.batch is None else [
        f"batch {figures.batch:,}", f"{figures.rows_per_s:,.0f}/s", span(figures.latency_s)
    ]  # fmt: skip
    state = [f"{plural(figures.state_rows, 'row')} of state"] if figures.state_rows else []
    return f"{figures.name}: {', '.join(parts + state)}"


def query_counts(statistics: Statistics) -> str:
    counts = (
        (statistics.queries_running, "running"),
        (statistics.queries_completed, "completed"),
        (statistics.queries_failed, "failed"),
    )
    return "queries: " + (", ".join(f"{count:,} {what}" for count, what in counts if count) or "none")


class LiveView:
    """A screen that is drawn over."""

    interval_s = LIVE_INTERVAL_S

    def __init__(self, draw: Lines) -> None:
        self.draw = draw

    def show(self, now: Sample, before: Sample) -> None:
        self.draw(screen(now, before))

    def close(self, last: Sample, before: Sample) -> None:
        self.show(last, before)


def screen(now: Sample, before: Sample) -> Iterator[str]:
    """Write the live view, line by line."""
    new, old, seconds = now.statistics, before.statistics, now.at - before.at
    yield f"{new.events_in:,} events in   {rate(new.events_in, old.events_in, seconds)}"
    yield f"{new.events_out:,} events out  {rate(new.events_out, old.events_out, seconds)}"
    yield from checkpoint_lines(new)
    yield ""
    yield from table(
        ("source", "partition", "next id", "events/s", "lag", ""),
        (
            (
                source,
                partition,
                position,
                rate(position, old.positions.get((source, partition), position), seconds),
                now.lags.get((source, partition)),
                "ended" if (source, partition) in new.ended else "",
            )
            for (source, partition), position in sorted(new.positions.items())[:SHOWN_MAX]
        ),
        indent="",
    )
    yield ""
    if new.companions:
        yield from companion_lines(new.companions)
        yield ""
    yield from query_lines(now, before)
    if new.trouble:
        yield f"waiting: {new.trouble}"
    yield from incident_lines(new.incidents)


def incident_lines(incidents: Sequence[Incident]) -> Iterator[str]:
    """Write what fails or waits, the newest of many."""
    for each in incidents[-SHOWN_MAX:]:
        times = f" ({each.count:,} times)" if each.count > 1 else ""
        yield f"{each.level.upper()} since {moment(each.since)}: {each}{times}"


def checkpoint_lines(statistics: Statistics) -> Iterator[str]:
    figures, recovery = statistics.checkpoint, statistics.recovery
    if figures is None:
        yield "no checkpoint in this run yet"
    else:
        yield (
            f"checkpoint {figures.generation:,} is {span(figures.age_s)} old: {figures.kind}, "
            f"{plural(figures.rows, 'row')}, {size(figures.bytes)}, pause {span(figures.pause_s)}"
        )
    if statistics.clock and abs(statistics.clock - time.time()) > 60:
        yield f"event time {moment(statistics.clock)}"
    if recovery is not None and recovery.generation:
        yield (
            f"recovered generation {recovery.generation:,} and {plural(recovery.replayed_events, 'event')} "
            f"in {span(recovery.seconds)}"
        )


def companion_lines(companions: Sequence[CompanionFigures]) -> Iterator[str]:
    yield from table(
        ("beside", "status", "batch", "rows in", "rows/s", "latency", "state rows"),
        (
            (
                each.name,
                each.status,
                each.batch,
                each.rows,
                f"{each.rows_per_s:,.0f}/s",
                span(each.latency_s),
                each.state_rows,
            )
            for each in companions[:SHOWN_MAX]
        ),
        indent="",
    )


def query_lines(now: Sample, before: Sample) -> Iterator[str]:
    emitted = {query.name: query.emitted for query in before.queries}
    yield from table(
        ("query", "status", "emitted", "per s", "waiting", ""),
        (
            (
                query.name,
                query.status,
                query.emitted,
                rate(query.emitted, emitted.get(query.name, query.emitted), now.at - before.at),
                query.waiting,
                remark(query),
            )
            for query in now.queries
        ),
        indent="",
    )
    if now.others > 0:
        yield f"… and {now.others:,} more ({query_counts(now.statistics)})"


def remark(query: QueryFigures) -> str:
    """Say why a query has failed, or what it waits for."""
    if query.error:
        return short_cause(query.error, query.failed_at, query.upstream)
    return "" if query.held_back is None else f"{query.held_back.waiting:,} events wait for {query.held_back}"


@contextmanager
def best_view(*, plain: bool) -> Iterator[View]:
    """Choose how to show samples here."""
    if plain:
        yield PlainView()
        return
    with drawn_over() as draw:
        yield PlainView() if draw is None else LiveView(draw)


class Monitor:
    """Shows an evaluator for as long as it is entered.

    It is made in the thread of the loop, which takes the samples itself, between two turns and when asked: a thread
    that waits for the lock of a busy loop waits long. What is shown was taken just then, or as soon as the turn at work
    is over.
    """

    def __init__(self, evaluator: QueryEvaluator, view: View) -> None:
        self.evaluator = evaluator
        self.view = view
        self.wanted = False
        self.latest = self.shown = sample(evaluator)
        self.done, self.taken = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._watch, name="display", daemon=True)

    def serve(self) -> None:
        """Take a sample if one is wanted; to be called between turns."""
        if self.wanted:
            self.latest = sample(self.evaluator)
            self.wanted = False
            self.taken.set()

    def _watch(self) -> None:
        while not self.done.wait(self.view.interval_s):
            self._ask()
            if self.latest is not self.shown and not self.done.is_set():
                self.view.show(self.latest, self.shown)
                self.shown = self.latest

    def _ask(self) -> None:
        """Have the loop take a sample, and wait for it for a moment."""
        self.taken.clear()
        self.wanted = True
        self.evaluator.wake()
        self.taken.wait(ASK_S)

    def __enter__(self) -> Monitor:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.done.set()
        self.taken.set()
        self.thread.join()
        last = sample(self.evaluator)
        self.view.close(last, self.shown)
