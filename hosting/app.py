"""`App`: sources, queries and sinks declared in one place, to be hosted on any store.

A module that declares an app opens nothing and starts nothing, so it may be imported by the command line, by a test
and by an inspector alike; `App.evaluator` makes the thing that runs. Rejected: a configuration file. Queries are
Python, and what names them should stand beside them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypedDict, Unpack

import reliable_rx as rx
from checkpoint.store import Store
from hosting.admission.arguments import check_new, check_options, check_sink, check_source
from hosting.edges.refused_sink import answering
from hosting.edges.retention import Retention
from hosting.edges.sink_positions import check_label, label_of
from hosting.edges.sink_writer import checked_policy
from hosting.engine.admission import check_declared, check_how, no_query
from hosting.engine.blame import blamed
from hosting.engine.cycles import there_are
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.evaluator.ownership import watched
from hosting.evaluator.sidecars import StartCompanion
from hosting.sources.pushed import PushedStream
from reliable_rx.class_of import is_a
from reliable_rx.errors import QueryRefused, ReliableRxError, SourceFailed, StoreUnavailable, TooLate, described
from reliable_rx.event_time import EventTime
from reliable_rx.limits import Limits
from reliable_rx.names import check_name, query_of
from reliable_rx.operators.contract.arguments import check_function
from reliable_rx.operators.contract.choices import (
    Delivery,
    OnBadRecord,
    OnError,
    Policy,
    Scope,
    check_choice,
    names_keywords,
    unknown_keyword,
)
from reliable_rx.operators.contract.signatures import signature_of
from reliable_rx.reliable import Sink, Source
from reliable_rx.runtime.plan import NO_LIMITS

Feed = Callable[[QueryEvaluator], None]


class Declared(NamedTuple):
    """A query of an app. *scope* says what of its sources it must see, when the app is hosted by several nodes."""

    query: rx.Observable[Any]
    policy: Policy
    limits: Limits
    clock: EventTime | None
    scope: Scope


class DeclaredSink(NamedTuple):
    """A sink of an app, or what makes it; *on_error* says what is done with what it cannot write."""

    stream: str
    sink: Sink | Callable[..., Sink]
    on_error: OnError


class Options(TypedDict, total=False):
    """How an app is hosted; see `QueryEvaluator`."""

    delivery: Delivery
    checkpoint_interval_s: float
    checkpoint_events: int
    full_every: int
    batch_events_max: int
    retain_events: int
    retention: Retention | None
    buffer_events_max: int
    idle_s: float
    strict: bool


class Pushed:
    """A durable input declared by an app: to be pushed into while the app is hosted."""

    def __init__(self, name: str, on_bad_record: OnBadRecord = "fail") -> None:
        self.name = name
        self.on_bad_record: OnBadRecord = on_bad_record
        self._stream: Any = None

    @property
    def stream(self) -> PushedStream:
        """The stream behind it. *Raises* `RuntimeError` while the app is not hosted."""
        if self._stream is None:
            raise RuntimeError(f"the app with {self.name!r} is not hosted yet; call app.evaluator(store) first")
        stream: PushedStream = self._stream
        return stream

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(rx.Query, name):
            raise AttributeError(
                f"what is pushed into is no query: write rx.source({self.name!r}).{name}(...)", name=name
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @property
    def end(self) -> int:
        """The id the next value will get: where to go on pushing after a restart."""
        return self.stream.end

    def on_next(self, value: Any) -> int:
        """Append *value*; return its id once it is durable. *Raises* `StoreUnavailable`, and then it is not in."""
        return self.stream.on_next(value)

    def push(self, values: Sequence[Any]) -> int:
        """Append several values at the price of one; return the id of the first."""
        return self.stream.push(values)

    def on_completed(self) -> None:
        """End the stream; durable when this returns."""
        self.stream.on_completed()

    def on_error(self, error: Exception) -> None:
        """End the stream with *error*; durable when this returns."""
        self.stream.on_error(error)


class App:
    """Declare what is to be hosted.

    >>> from checkpoint import MemoryStore
    >>> from hosting import ListSource
    >>> app = App(checkpoint_interval_s=5.0)
    >>> numbers = app.source("numbers", ListSource([1, 2, 3]))
    >>> doubled = app.query("doubled", numbers.map(lambda n: n * 2))
    >>> total = app.query("total", doubled.sum())
    >>> with app.evaluator(MemoryStore()) as evaluator:
    ...     evaluator.run()
    ...     [value for part in evaluator.stream("total").read(0, 10) for value in part.values]
    [12]

    A source or a sink may be given as a function without arguments that makes it: it is called when the app is
    hosted, so that declaring an app opens nothing.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        unknown = sorted(options.keys() - Options.__annotations__.keys())
        if unknown:
            raise TypeError(unknown_keyword("App", unknown[0], Options.__annotations__))
        check_options(options)
        self.options = options
        self.sources: dict[str, Source | Callable[[], Source]] = {}
        self.queries: dict[str, Declared] = {}
        self.sinks: list[DeclaredSink] = []
        self.pushed: dict[str, Pushed] = {}
        self.feeds: list[Feed] = []
        self.companions: list[StartCompanion] = []

    def __repr__(self) -> str:
        return f"App(sources={[*self.sources, *self.pushed]}, queries={list(self.queries)})"

    if not TYPE_CHECKING:  # a type checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_") and hasattr(QueryEvaluator, name):
                said = (
                    f"an app only declares what is to be hosted, and has no {name}: write "
                    f"app.evaluator(store).{name}(...), or run it with: reliable-rx run MODULE:APP"
                )
            raise AttributeError(said, name=name, obj=self)

    @names_keywords
    def source(self, name: str, source: Source | Callable[[], Source]) -> rx.Query[Any]:
        """Declare an input; return it to build queries on. *Raises* `ValueError` for a name that is taken."""
        name = self._check_new("source", name)
        if not callable(source):
            check_source(name, source)
        self.sources[name] = source
        return rx.source(name)

    @names_keywords
    def push(self, name: str, *, on_bad_record: OnBadRecord = "fail") -> Pushed:
        """Declare a durable input that application code pushes into; queries read it as `reliable_rx.source(name)`.

        *on_bad_record* says what becomes of a value that was stored and cannot be loaded any more.
        """
        name = self._check_new("pushed input", name)
        check_choice("on_bad_record", on_bad_record, OnBadRecord)
        self.pushed[name] = Pushed(name, on_bad_record)
        return self.pushed[name]

    @names_keywords
    def query(
        self,
        name: str,
        query: rx.Observable[Any],
        *,
        policy: Policy = "fail",
        limits: Limits = NO_LIMITS,
        clock: EventTime | None = None,
        scope: Scope = "partition",
    ) -> rx.Query[Any]:
        """Declare a standing query; return its stream to build further queries on.

        Its clock is the computer's, or follows its events with *clock* `event_time(...)`. On nodes that share the
        partitions of its sources it is hosted once per partition; with *scope* ``"all"`` once, over all of them.
        """
        check_choice(f"the scope of {name!r}", scope, Scope)
        name = self._check_new("query", name)
        if not isinstance(query, rx.Query):
            raise QueryRefused(no_query(name, query), path="/")
        check_how(name, policy, limits)
        check_declared(name, query)
        self.queries[name] = Declared(query, policy, limits, clock, scope)
        return rx.source(name)

    @names_keywords
    def sink(self, stream: str, sink: Sink | Callable[..., Sink], *, on_error: OnError = "fail") -> None:
        """Send the stream of a query (or its dead letters, its late events, or a source's dead letters) to *sink*.

        A function that makes the sink may take one argument: on nodes that share partitions it is the `Place` at which
        the stream is written, so that each partition has a target of its own; elsewhere it is None.

        *on_error* says what is done with what the sink cannot write: ``"fail"`` stops this sink and nothing else,
        ``"skip"`` leaves it out, ``"dead_letter"`` sets it aside in the sink.

        *Raises* `KeyError` for an unknown stream, `ValueError` for a policy that is unknown or that *sink* cannot keep.
        """
        query = query_of(check_name("stream", stream))
        is_source = stream.endswith(".dead_letters") and (query in self.sources or query in self.pushed)
        if query not in self.queries and not is_source:
            there = there_are(self.queries, stream)
            raise KeyError(f"no query is called {stream!r}, so there is no such stream; {there}")
        if callable(sink):
            check_choice(f"on_error of the sink of {stream!r}", on_error, OnError)
        else:
            check_sink(stream, sink)
            checked_policy(stream, sink, on_error)
            others = [each.sink for each in self.sinks if each.stream == stream and not callable(each.sink)]
            check_label(stream, label_of(answering(sink)), [label_of(answering(each)) for each in others])
        self.sinks.append(DeclaredSink(stream, sink, on_error))

    def feed(self, function: Feed) -> Feed:
        """Run *function* in a thread of its own while the app is hosted, to push into it; also as a decorator.

        Once all feeds have returned and what they pushed has been taken, `reliable-rx run` ends, behind the calls that
        follow from it (`map_async`) and the sinks.
        """
        check_function("a feed", function, "evaluator")
        self.feeds.append(function)
        return function

    def companion(self, function: StartCompanion) -> StartCompanion:
        """Have *function* start a `hosting.evaluator.sidecars.Companion` while the app is hosted; also as a decorator.

        `reliable-rx run` shows its figures, ends when it has ended and all it brought has been taken, and stops it in
        order before the last checkpoint.
        """
        check_function("what starts a companion", function)
        self.companions.append(function)
        return function

    def evaluator(self, store: Store) -> QueryEvaluator:
        """Build what runs this app on *store*. *Raises* `QueryRefused` for a query that cannot be hosted."""
        evaluator = self._with_inputs(store)
        for name, pushed in self.pushed.items():
            pushed._stream = evaluator.intake.sources[name]
        self._create(evaluator)
        with watched(evaluator):
            for stream, sink, on_error in self.sinks:
                evaluator.sink(stream, sink_nowhere(stream, sink), on_error=on_error)
        return evaluator

    def look(self, store: Store) -> QueryEvaluator:
        """Build what starts on *store* as this app does, without its sinks: to see whether it would."""
        evaluator = self._with_inputs(store)
        evaluator.outlets.are_told = False
        self._create(evaluator)
        return evaluator

    def bare(self, store: Store, **overruling: Unpack[Options]) -> QueryEvaluator:
        """Build what takes the turns of this app on *store*, with *overruling* options, without its sinks.

        It creates and edits no query: those that are declared are only taken over where stored code cannot be loaded.
        """
        evaluator = self._with_inputs(store, **overruling)
        evaluator.outlets.are_told, evaluator.lifecycle.mends = False, True
        evaluator.outlets.streams = frozenset(each.stream for each in self.sinks) if self.queries else None
        for name, each in self.queries.items():
            evaluator.engine.suspended.declare(name, each.query, each.policy, each.limits, each.clock)
        return evaluator

    def _with_inputs(self, store: Store, **overruling: Unpack[Options]) -> QueryEvaluator:
        options: Options = {**self.options, **overruling}
        evaluator = QueryEvaluator(store, **options)
        with watched(evaluator):
            for name, source in self.sources.items():
                evaluator.source(name, made_source(name, source))
            for name, pushed in self.pushed.items():
                evaluator.push(name, on_bad_record=pushed.on_bad_record)
        return evaluator

    def _create(self, evaluator: QueryEvaluator) -> None:
        with watched(evaluator):
            for name, each in self.queries.items():
                evaluator.create(name, each.query, policy=each.policy, limits=each.limits, clock=each.clock)

    def start_feeds(self, evaluator: QueryEvaluator, failed: Callable[[Exception], object]) -> list[threading.Thread]:
        """Start the feeds of a hosted app; an error of one of them is told to *failed*.

        That a push behind the end of the evaluator is refused is no failure.
        """

        def run(feed: Feed) -> None:
            try:
                feed(evaluator)
            except BaseException as raised:  # in a thread of its own nobody else would hear of it
                error = blamed(raised)
                if not (evaluator.closed and is_a(error, (StoreUnavailable, TooLate))):  # refused behind the end
                    failed(error)

        threads = [threading.Thread(target=run, args=(feed,), name="feed", daemon=True) for feed in self.feeds]
        for thread in threads:
            thread.start()
        return threads

    def _check_new(self, kind: str, name: str) -> str:
        return check_new(kind, name, self.sources, self.queries, self.pushed)


def sink_at(place: object, sink: Sink | Callable[..., Sink]) -> Sink:
    """Return the sink for *place*, made if it is given as a function."""
    if callable(sink) and not isinstance(sink, type) and not hasattr(sink, "flush"):
        takes = signature_of(sink)
        takes_place = takes is not None and any(each.default is each.empty for each in takes.parameters.values())
        made_sink: Sink = sink(place) if takes_place else sink()
        return made_sink
    return made(sink, "flush")  # type: ignore[no-any-return]


def sink_nowhere(stream: str, sink: Sink | Callable[..., Sink]) -> Sink:
    """Return the sink where there are no places. *Raises* `QueryRefused` for one that needs a place or is not made."""
    try:
        return sink_at(None, sink)
    except BaseException as raised:  # a sink is somebody else's code
        error = blamed(raised)
        if isinstance(error, ReliableRxError) and error is raised:
            raise
        way = "mend what makes it, or let it connect in open(), which fails or waits by itself"
        what = f"the sink of {stream!r} cannot be made: {described(error)}; {way}"
        if isinstance(error, AttributeError) and error.obj is None and not hasattr(sink, "flush"):
            what = (
                f"the sink of {stream!r} needs the place of a partition, which only a node has ({error}): host this "
                f"app with `reliable-rx node`, or let the function do with None"
            )
        raise QueryRefused(what, path="/") from error


def made_source(name: str, source: Any) -> Any:
    """Return the *source* called *name*, made if it is given as a function. *Raises* `SourceFailed` if that raises."""
    try:
        return made(source, "partitions")
    except BaseException as raised:  # so is a source
        error = blamed(raised)
        if isinstance(error, ReliableRxError) and error is raised:
            raise
        what = f"the source {name!r} cannot be made: {described(error)}; mend what makes it"
        raise SourceFailed(what, source=name) from error


def made(what: Any, method: str) -> Any:
    """Return *what* itself, or what it makes if it is a function."""
    return what() if callable(what) and (isinstance(what, type) or not hasattr(what, method)) else what
