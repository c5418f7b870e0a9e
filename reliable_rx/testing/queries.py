"""`check_query`: any query, random events, random crashes, checkpoints of every kind; equal to plain `reactivex` or
it is a bug.

What `check_operator` does exhaustively for small inputs this does at random for large ones, and through what a
store would hold: generations of full and differential snapshots, written in slices while the run goes on, committed
late, failed or lost with the crash, and the turns since the newest one taken again. So it also finds rows that
nobody marked as touched and rows that should be gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.errors import NondeterminismDetected, QueryRefused, text_of, type_of
from reliable_rx.testing import hostile, hostile_odd
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.marbles import COMPLETED, ERROR, NEXT, RAISED, Timed
from reliable_rx.testing.needed import need_hypothesis
from reliable_rx.testing.oracle import SourceError, compare
from reliable_rx.testing.virtual_time import RUNNERS, Build, Streams, run_plain, run_unhosted

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from hosting.engine.engine import QueryEngine
    from hosting.engine.snapshot import Snapshot
    from hosting.engine.turns import Output, Turn

CRASH, FULL, DIFFERENTIAL, WRITE, COMMIT, FAIL = "crash", "full", "differential", "write", "commit", "fail"
ACTIONS = (CRASH, FULL, DIFFERENTIAL, WRITE, COMMIT, FAIL)
UNMET = hostile_odd.UNDRAWN | {"interrupts when compared"}
"""Values in which what is no `Exception` is raised, which `reactivex` lets pass, and what Hypothesis stumbles over."""
Script = Sequence[Sequence[str]]
"""What to do behind each turn; begins anew when it is over."""


@dataclass
class Durable:
    """What a store would hold: the chunks of the chain so far, what is in no row, and the turns behind it."""

    chunks: list[bytes] = field(default_factory=list)
    header: bytes | None = None
    turns: list[tuple[Turn, list[Output]]] = field(default_factory=list)


class StoredRun(HostedRun):
    """One input through one engine that is checkpointed, crashed and recovered as *script* says."""

    def __init__(self, build: Build, streams: Streams, until_s: float, script: Script) -> None:
        super().__init__(build, streams, until_s, crash=False, batches=True)
        self.script = script
        self.durable = Durable()
        self.attempt: Snapshot | None = None
        self.covered = 0
        self.taken = 0

    def take(self, turn: Turn) -> None:
        super().take(turn)
        check_stored(self.outputs)
        self.durable.turns.append((turn, list(self.outputs)))
        for action in self.script[self.taken % len(self.script)] if self.script else ():
            DO[action](self)
        self.taken += 1

    def begin(self, *, full: bool) -> None:
        from hosting.engine.snapshot import Snapshot

        if self.attempt is None:
            self.attempt = Snapshot(self.engine, full=full or self.durable.header is None)
            self.covered = len(self.durable.turns)

    def write(self) -> None:
        """Write one row of the checkpoint at work."""
        if self.attempt is not None:
            self.attempt.write_some(1)

    def commit(self) -> None:
        """Make the checkpoint at work durable, and forget the turns that it covers."""
        from checkpoint.format.codec import encode

        attempt, self.attempt = self.attempt, None
        if attempt is None:
            return
        while not attempt.write_some(1):
            pass
        before = [] if attempt.full else self.durable.chunks
        left = self.durable.turns[self.covered :]
        self.durable = Durable([*before, *attempt.chunks()], encode(attempt.header), left)

    def fail(self) -> None:
        """Let the commit of the checkpoint at work fail."""
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            attempt.roll_back()

    def recover(self) -> None:
        """Crash: only what is durable is left; load it and take the turns behind it again."""
        from checkpoint.format.codec import decode
        from hosting.engine.snapshot import load

        self.attempt = None
        before = facts(self.engine)
        self.engine = self.new_engine()
        if self.durable.header is not None:
            load(self.engine, self.durable.chunks, decode(self.durable.header))
        for turn, first_time in self.durable.turns:
            again = self.engine.take(compiled(self.engine, turn))
            check_repeated(turn, first_time, again)
        if facts(self.engine) != before:
            raise AssertionError(f"a recovered engine is at {facts(self.engine)}, not where it was: {before}")


DO: dict[str, Callable[[StoredRun], None]] = {
    CRASH: StoredRun.recover,
    FULL: lambda run: run.begin(full=True),
    DIFFERENTIAL: lambda run: run.begin(full=False),
    WRITE: StoredRun.write,
    COMMIT: StoredRun.commit,
    FAIL: StoredRun.fail,
}


def facts(engine: QueryEngine) -> dict[str, Any]:
    """Return what an engine knows that is in no row: a replay must lead there again."""
    return {
        "clock": engine.clock,
        "number": engine.number,
        "orders": engine.orders,
        "live": engine.live,
        "failures": {source: text_of(error) for source, error in engine.failures.items()},
        "drained": engine.drained,
        "next ids": {name: each.emitted for name, each in engine.standing.items()},
    }


def compiled(engine: QueryEngine, turn: Turn) -> Turn:
    """Return *turn* as a journal gives it back: the plan of a creation comes out of its bytes."""
    from checkpoint.format.codec import decode, encode
    from hosting.engine.turns import Create

    if not isinstance(turn, Create):
        return turn
    plan = engine.plans.by_id.get(turn.plan)
    if plan is None:
        plan = engine.plans.compile_stored(turn.plan, decode(encode(turn.code.query)), turn.limits)
    return turn._replace(code=plan)


def check_repeated(turn: Turn, first_time: Sequence[Output], again: Sequence[Output]) -> None:
    """*Raises* `NondeterminismDetected` unless a replayed turn emitted what it did the first time, under the same
    ids."""
    if list(map(plain_output, first_time)) != list(map(plain_output, again)):
        raise NondeterminismDetected(
            f"replaying {turn} gave {list(again)} instead of {list(first_time)}", query=turn[0], turn=0
        )


def check_stored(outputs: Sequence[Output]) -> None:
    """*Raises* `QueryRefused` if something that was emitted does not go into a store and back."""
    from hosting.edges.segments import stored

    spoilt: dict[str, QueryRefused] = {}
    for each in outputs:
        deque(stored(each, spoilt), maxlen=0)
    for refused in spoilt.values():
        raise refused


def plain_output(out: Output) -> tuple[Any, ...]:
    from checkpoint.format.codec import digest

    error = None if out.error is None else (type_of(out.error), text_of(out.error))
    return (out.name, out.first, len(out.values), digest(list(out.values)), out.ended, error)


def run_stored(build: Build, streams: Streams, until_s: float, script: Script) -> list[Timed]:
    """Play *streams* into *build* in an engine that is checkpointed and crashed as *script* says.

    >>> from reliable_rx.testing import draw_marbles, parse_marbles
    >>> script = [["full", "commit"], ["differential"], ["commit", "crash"]]
    >>> draw_marbles(run_stored(lambda ops, rx, s: s.pipe(ops.scan(max)), [parse_marbles("-1-2-1|")], 9, script))
    '-1-2-2|'
    """
    return StoredRun(build, streams, until_s, script).play()


def check_query(
    build: Build | SearchStrategy[Build],
    *,
    reference: Build | None = None,
    sources: int = 1,
    values: SearchStrategy[Any] | None = None,
    events_max: int = 12,
    gaps_s: Sequence[float] = (1.0, 3.0),
    horizon_s: float = 30.0,
    examples: int = 100,
    fresh: bool = True,
) -> None:
    """Check that a query gives the same un-hosted, rebuilt from bytes, hosted and crashed anywhere as on `reactivex`.

    *build* is ``build(ops, rx, *sources)`` or a Hypothesis strategy for such functions; events, crashes and
      checkpoints are drawn by Hypothesis as well. Values, their order, their times and the end must be equal, and
      every replayed turn must emit what it did the first time. Without *values* they are integers from 0 to 5, and in
      every fourth example others among them that a query may meet: None, NaN, texts, what cannot be compared or hashed
      (`reliable_rx.testing.hostile`); where these raise, any error counts. *reference* is what runs
      on plain `reactivex` if *build* uses what it does not have. Every run has other examples, unless *fresh* is False.

    >>> check_query(lambda ops, rx, s: s.pipe(ops.scan(lambda a, x: a + x), ops.debounce(1.5)), examples=10)

    *Raises* `AssertionError` with the smallest example found, `QueryRefused` for a query that cannot be stored, also
    for what it keeps or emits, and what *build* raises with our operators: two that raise alike would be equal.
    """
    need_hypothesis()
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    builds = st.just(build) if callable(build) else build
    usual = timed_streams(sources, st.integers(0, 5) if values is None else values, events_max, gaps_s)
    nasty = timed_streams(sources, st.integers(0, 5) | met(), events_max, gaps_s)
    kinds = st.just(False) if values is not None else st.sampled_from((False, False, False, True))
    inputs = kinds.flatmap(lambda is_nasty: st.tuples(nasty if is_nasty else usual, st.just(not is_nasty)))

    @settings(
        max_examples=examples, deadline=None, print_blob=True, derandomize=not fresh,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(builds, inputs, scripts(), st.integers(0, 7))
    def equal(build: Build, given: tuple[Streams, bool], script: Script, turn: int) -> None:
        streams, wording = given
        build(ops, rx, *(rx.source(f"s{number}") for number in range(sources)))
        scripts = (script, *phrases(turn))
        check_run(build, streams, scripts, reference=reference, horizon_s=horizon_s, wording=wording)

    equal()


def check_run(
    build: Build,
    streams: Streams,
    scripts: Sequence[Script],
    *,
    reference: Build | None = None,
    horizon_s: float = 30.0,
    wording: bool = True,
) -> None:
    """Compare one run with plain `reactivex`: un-hosted, rebuilt, hosted, and crashed as each script says.

    Without *wording* one error counts as another, and what comes of one that plain `reactivex` raises into the source
    is compared between our ways of running only: a `catch` hears of it here.
    """
    until_s = max((each.time_s for stream in streams for each in stream), default=0.0) + horizon_s
    expected = run_plain(reference or build, streams, until_s)
    if not wording and expected and expected[-1].kind == RAISED:
        *before, raised = expected
        expected = run_unhosted(build, streams, until_s)
        count = max(len(before), sum(each.time_s < raised.time_s for each in expected))
        compare("un-hosted", streams, before, expected[:count], wording=False)
    for script in scripts:
        stored = run_stored(build, streams, until_s, script)
        compare(f"stored and crashed by {script}", streams, expected, stored, wording=wording)
    for name, runner in RUNNERS.items():
        compare(name, streams, expected, runner(build, streams, until_s), wording=wording)


def met() -> SearchStrategy[Any]:
    """Return a strategy for nasty values that can be stored and that plain `reactivex` can be given."""
    from hypothesis import strategies as st

    known = [each for each in hostile.VALUES if each.kind == hostile.STORABLE and each.name not in UNMET]
    return st.sampled_from(known).map(lambda each: each.make())


def phrases(turn: int) -> list[Script]:
    """Return scripts that lead straight to where snapshots go wrong, around one turn.

    A checkpoint is written while a turn is taken; several build on one another; a commit fails, and the next checkpoint
    has to have what the failed one took.
    """
    quiet: list[list[str]] = [[]]
    begun = [[FULL, COMMIT], *quiet * turn]
    endings = (
        [[DIFFERENTIAL], [COMMIT, CRASH]],
        [[DIFFERENTIAL], [COMMIT, DIFFERENTIAL, COMMIT, CRASH]],
        [[DIFFERENTIAL, COMMIT], [DIFFERENTIAL, COMMIT], [DIFFERENTIAL, COMMIT, CRASH]],
        [[DIFFERENTIAL], [FAIL, DIFFERENTIAL, COMMIT, CRASH]],
    )
    late = [*quiet * turn, [FULL], [COMMIT, CRASH]]
    return [[*script, *quiet * 20] for script in (late, *(begun + ending for ending in endings))]


def scripts() -> SearchStrategy[Script]:
    """Return a strategy for what happens between turns."""
    need_hypothesis()
    from hypothesis import strategies as st

    return st.lists(st.lists(st.sampled_from(ACTIONS), max_size=3), max_size=8)


def timed_streams(
    sources: int, values: SearchStrategy[Any], events_max: int, gaps_s: Sequence[float]
) -> SearchStrategy[list[list[Timed]]]:
    """Return a strategy for hot streams that are played together and complete, fail or do neither."""
    need_hypothesis()
    from hypothesis import strategies as st

    event = st.tuples(st.integers(0, sources - 1), st.sampled_from(tuple(gaps_s)), values)
    ends = st.lists(st.sampled_from((None, COMPLETED, COMPLETED, ERROR)), min_size=sources, max_size=sources)

    @st.composite
    def made(draw: DrawFn) -> list[list[Timed]]:
        streams: list[list[Timed]] = [[] for _ in range(sources)]
        time_s = 1.0
        for source, gap_s, value in draw(st.lists(event, max_size=events_max)):
            time_s += gap_s
            streams[source].append(Timed(time_s, NEXT, value))
        for stream, kind in zip(streams, draw(ends), strict=True):
            if kind is not None:
                time_s += 1.0
                stream.append(Timed(time_s, kind, SourceError("over") if kind == ERROR else None))
        return streams

    return made()
