"""The sections of an app: which queries live together, and over which partitions they are spread.

Queries that read each other, or one source, belong together: each of their partitions is one evaluator. Queries of
several sources are spread if these have the same partitions, as logs that were split by the same key have. Queries of
scope ``all`` live in one evaluator that reads every partition. A lease's partition is named by its section: after its
sources, or ``*`` for the one that sees all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from checkpoint.offsets.store import Committed
from checkpoint.store import Store
from hosting.app import App, Declared, DeclaredSink, made_source, sink_at
from hosting.edges.closing import let_go
from hosting.edges.positions import Point
from hosting.edges.refused_sink import RefusedSink
from hosting.edges.sink_positions import UNMADE, check_label, kind_of, label_of
from hosting.edges.sink_writer import checked_policy, tamed
from hosting.edges.start_positions import Start
from hosting.engine.cycles import made_of, refuse_cycle
from hosting.engine.lineage import check_partitions
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.evaluator.serial_executor import Lend
from hosting.partitioned.keys import AND, PARTS, WHOLE, WHOLE_PARTITION, Key, key_of
from hosting.partitioned.lease_guard import LeaseGuard
from hosting.partitioned.places import Place
from hosting.partitioned.targets import Targets
from hosting.partitioned.words import Partition, Shard
from hosting.sinks.origins import claim
from hosting.sources.definition import hand_on
from reliable_rx.errors import QueryRefused, ReliableRxError, SourceFailed, StoreUnavailable, described
from reliable_rx.names import query_of
from reliable_rx.operators.contract.choices import OnError
from reliable_rx.query.query import Query
from reliable_rx.query.size import check_size
from reliable_rx.reliable import Fencing, Listed, Listing, Origin, Reader, Sink, Source
from reliable_rx.runtime.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """Queries that live together, and the *sources* they read, by name."""

    name: str
    sources: Mapping[str, Source]
    queries: Mapping[str, Declared]
    sinks: Sequence[DeclaredSink]
    options: Mapping[str, Any]
    targets: Targets = field(default_factory=Targets)

    @property
    def whole(self) -> bool:
        """Whether one evaluator sees all partitions."""
        return self.name == WHOLE

    def check(self) -> None:
        """*Raises* `QueryRefused` if the app of this node has no such section."""
        if not self.queries:
            raise QueryRefused(
                f"this node's app has no queries over {self.name!r}, as that of another node of the group has; "
                f"run the same version of the app on all nodes",
                path=f"/{self.name}",
            )

    def shards(self) -> list[Shard]:
        """List the partitions as they are now. *Raises* `SourceFailed` if its sources have not the same ones."""
        if self.whole:
            return [Shard(WHOLE_PARTITION)]
        listings = {name: listing_of(source) for name, source in self.sources.items()}
        self._check_same(listings)
        merged: dict[str, Listing] = {}
        for each in (each for listing in listings.values() for each in listing):
            before = merged.setdefault(each.name, each)
            if before is not each:
                parents = tuple(dict.fromkeys(before.parents + each.parents))
                merged[each.name] = replace(before, parents=parents, weight=before.weight + each.weight)
        return [self._shard(each) for each in merged.values()]

    def _shard(self, listing: Listing) -> Shard:
        parents = tuple(Partition(self.name, each) for each in listing.parents)
        own = Partition(self.name, listing.name)
        return Shard(own, parents, base=listing.base, room=listing.room, weight=listing.weight)

    def _check_same(self, listings: Mapping[str, Sequence[Listing]]) -> None:
        names = {source: {each.name for each in listing} for source, listing in listings.items()}
        first, *others = names.items()
        for source, found in others:
            if found != first[1]:
                odd = ", ".join(sorted(found ^ first[1])[:5])
                raise SourceFailed(
                    f"the queries {', '.join(self.queries)} read {first[0]!r} and {source!r} partition by partition, "
                    f'but only one of them has {odd}; split both by the same key, or give these queries scope="all"',
                    source=source,
                )

    def keys(self, place: Place) -> dict[Key, tuple[str, str]]:
        """Name the positions at *place*: which partition of which source each is of."""
        if not self.whole:
            return self.keys_of([(source, place.partition.name) for source in self.sources])
        return self.keys_of([(name, each.name) for name, source in self.sources.items() for each in listing_of(source)])

    def keys_of(self, partitions: Iterable[tuple[str, str]]) -> dict[Key, tuple[str, str]]:
        """Name the positions of *partitions* (source and name)."""
        return {key_of(self.name, *each): each for each in partitions}

    def starts(self, keys: Mapping[Key, tuple[str, str]], committed: Mapping[Key, Committed]) -> dict[str, Start]:
        """Return where partitions of each source begin that a store does not know: where the group has come to."""
        starts: dict[str, dict[str, Point]] = {source: {} for source in self.sources}
        for key, found in committed.items():
            source, partition = keys[key]
            starts[source][partition] = found.position
        return dict(starts)

    def sinks_at(self, place: Place, *, alive: Callable[[], bool]) -> list[OpenSink]:
        """Make the sinks for *place* and fence out every earlier epoch; they write only while the lease is *alive*.

        One that cannot be made or fenced refuses to open, and so fails alone. *Raises* `LeaseLost` if a later epoch has
        been there, `OSError` where it is not available.
        """
        with ExitStack() as undo:
            found = list[OpenSink]()
            for stream, declared, on_error in self.sinks:
                labels = [each.sink.label for each in found if each.stream == stream]
                sink, label = fenced_at(place, stream, declared, on_error, self.targets, labels)
                undo.callback(let_go, called(stream, place), sink.close)
                found.append(OpenSink(stream, LeaseGuard(sink, place, alive, label=label), on_error))
            undo.pop_all()
            return found

    def evaluator(
        self, place: Place, store: Store, sinks: Sequence[OpenSink], *, starts: Mapping[str, Start], lend: Lend
    ) -> QueryEvaluator:
        """Build what runs the queries at *place*; what is new to *store* is read from where *starts* has its source."""
        evaluator = self._with_inputs(place, store, starts, lend=lend)
        for name, each in self.queries.items():
            evaluator.create(name, each.query, policy=each.policy, limits=each.limits, clock=each.clock)
        for stream, sink, on_error in sinks:
            evaluator.sink(stream, sink, on_error=on_error)
        return evaluator

    def bare(
        self, place: Place, store: Store, *, starts: Mapping[str, Start] = MappingProxyType({}), **overruling: Any
    ) -> QueryEvaluator:
        """Build what takes the turns at *place*, with *overruling* options, without sinks, as `App.bare` does."""
        evaluator = self._with_inputs(place, store, starts, **overruling)
        evaluator.outlets.are_told, evaluator.lifecycle.mends = False, True
        evaluator.outlets.streams = frozenset(each.stream for each in self.sinks)
        for name, each in self.queries.items():
            evaluator.engine.suspended.declare(name, each.query, each.policy, each.limits, each.clock)
        return evaluator

    def _with_inputs(
        self, place: Place, store: Store, starts: Mapping[str, Start], **overruling: Any
    ) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, **{**self.options, **overruling})
        evaluator.incidents.place, evaluator.reporter.status.file = str(place.partition), None  # its node tells
        evaluator.guard.keeps = evaluator.definitions.is_first = False
        for name, source in self.sources.items():
            one = source if self.whole else OnePartition(source, place.partition.name)
            evaluator.source(name, one, start=starts.get(name))
        return evaluator


class OpenSink(NamedTuple):
    """A sink at its place, and what is done with what it cannot write."""

    stream: str
    sink: LeaseGuard
    on_error: OnError


def fenced_at(
    place: Place, stream: str, declared: Any, on_error: OnError, targets: Targets, labels: Collection[str]
) -> tuple[Sink, str]:
    """Make a sink for *place* and fence it; in place of one that refuses that, return one that refuses to open.

    It is returned with its label.
    """
    sink: Sink | None = None
    try:
        sink = sink_at(place, declared)
        label = label_of(sink)
        checked_policy(stream, sink, on_error)
        targets.check(stream, str(place.partition), sink)
        check_label(stream, label, labels)
        claim(sink, Origin(stream, store=place.identity, partition=str(place.partition), group=place.group))
        if isinstance(sink, Fencing):
            sink.fence(place.epoch)
    except BaseException as raised:  # a sink is somebody else's code
        if sink is not None:
            let_go(called(stream, place), sink.close)
        error = tamed(raised)
        if isinstance(error, ReliableRxError) and isinstance(error, OSError):
            raise
        if isinstance(error, OSError):
            what = f"{called(stream, place)} is not available: {described(error)}"
            raise StoreUnavailable(f"{what}; it is tried again with its partition") from error
        return RefusedSink(error, stands_for="sink" if sink is None else kind_of(sink)), UNMADE
    return sink, label


def called(stream: str, place: Place) -> str:
    """Say which sink is meant that no evaluator has numbered."""
    return f"the sink of {stream!r} at {place.partition}"


class OnePartition:
    """One partition of a source, as a source."""

    def __init__(self, source: Source, partition: str) -> None:
        self._source, self._partition = source, partition
        hand_on(source, self, but=("listing",))  # which the group follows

    def partitions(self) -> Sequence[str]:
        return [self._partition]

    def open(self, partition: str, at: int, /) -> Reader:
        return self._source.open(partition, at)


def listing_of(source: Source) -> Sequence[Listing]:
    """Return the partitions of any source as they are listed now."""
    found = source.listing() if isinstance(source, Listed) else [Listing(name) for name in source.partitions()]
    check_partitions(type(source).__name__, [each.name for each in found], [each.room for each in found])
    return found


def sections_of(app: App) -> list[Section]:
    """Return the sections of *app*. *Raises* `QueryRefused` for what cannot be spread as it is declared."""
    if app.pushed or app.feeds:
        raise QueryRefused(
            f"{', '.join(app.pushed) or 'a feed'} is pushed into one evaluator, which nodes do not share; host this "
            f"app with `reliable-rx run`, or push into a log that all nodes can read",
            path="/",
        )
    if app.companions:
        raise QueryRefused(
            "a companion runs beside one evaluator, and nodes would start it once each; host this app with "
            "`reliable-rx run`, or run what it starts in a process of its own",
            path="/",
        )
    for each in app.sinks:
        check_made_for_place(each)
    for source in app.sources:
        check_source(source)
    reads = {name: sources_of(each.query, name) for name, each in app.queries.items()}
    for name, read in reads.items():
        refuse_cycle(name, read, lambda each: made_of(each, reads))
    roots = {name: roots_of(name, reads) for name in reads}
    without = next((name for name, found in roots.items() if not found and app.queries[name].scope != "all"), None)
    if without is not None:
        raise QueryRefused(
            f"{without!r} reads no source, so there is no partition of it that nodes could share: host this app with "
            f'`reliable-rx run`, give the query scope="all", or have it read a source',
            path=f"/{without}",
        )
    _check_scopes(app, reads)
    sources = {name: made_source(name, source) for name, source in app.sources.items()}
    return [_section(app, names, roots, sources) for names in _together(app, roots)]


def check_source(name: str) -> None:
    """*Raises* `QueryRefused` for a name that could not be told in that of a section, or of a position."""
    if odd := next((each for each in PARTS if each in name), None):
        raise QueryRefused(
            f"the source {name!r} cannot be read by a group of nodes, which names its positions by sources, put "
            f"together with {' and '.join(map(repr, PARTS))}: leave the {odd!r} out, or host this app with "
            f"`reliable-rx run`",
            path="/",
        )


def check_made_for_place(declared: DeclaredSink) -> None:
    """*Raises* `QueryRefused` for a sink that is there already: each lease of each partition opens one of its own."""
    sink = declared.sink
    if not callable(sink) or (hasattr(sink, "flush") and not isinstance(sink, type)):
        raise QueryRefused(
            f"the sink of {declared.stream!r} is one {type(sink).__name__} for all partitions, but on a node a sink is "
            f"a function of its place: write lambda place: {type(sink).__name__}(...)",
            path="/",
        )


def sources_of(query: object, name: str) -> frozenset[str]:
    """Name the sources and the streams that *query* reads."""
    if not isinstance(query, Query):
        what = f"{name!r} is {type(query).__name__}, not a query: begin with reliable_rx.source(...)"
        raise QueryRefused(what, path="/")
    check_size(query.node)
    return Plan(query.node, symbolic=True).sources


def roots_of(name: str, reads: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The sources behind a query, also those behind the queries that it reads, or that set aside what it reads."""
    found: set[str] = set()
    for each in map(query_of, reads[name]):
        found |= roots_of(each, reads) if each in reads and each != name else {each}
    return frozenset(found)


def _check_scopes(app: App, reads: Mapping[str, frozenset[str]]) -> None:
    for name, sources in reads.items():
        for other in {*map(query_of, sources)} & app.queries.keys():
            if app.queries[other].scope != app.queries[name].scope:
                raise QueryRefused(
                    f"query {name!r} of scope {app.queries[name].scope!r} reads {other!r} of scope "
                    f"{app.queries[other].scope!r}, which lives in other evaluators; give both the same scope, or read "
                    f"its streams as a source of their own",
                    path=f"/{name}",
                )


def _together(app: App, roots: Mapping[str, frozenset[str]]) -> Iterator[list[str]]:
    """Queries by where they live: all that share a source together, those of scope ``all`` in one."""
    whole = [name for name, each in app.queries.items() if each.scope == "all"]
    groups: list[tuple[set[str], list[str]]] = []
    for name in app.queries.keys() - set(whole):
        sources, names = set(roots[name]), [name]
        for group in [group for group in groups if group[0] & sources]:
            groups.remove(group)
            sources, names = sources | group[0], names + group[1]
        groups.append((sources, names))
    yield from sorted((names for _, names in groups), key=lambda names: min(names))
    if whole:
        yield whole


def _section(
    app: App, names: Iterable[str], roots: Mapping[str, frozenset[str]], sources: Mapping[str, Source]
) -> Section:
    queries = {name: each for name, each in app.queries.items() if name in set(names)}
    read = sorted(frozenset[str]().union(*(roots[name] for name in queries)))
    for each in read:
        if each not in sources:
            known = ", ".join(sources) or "none"
            raise QueryRefused(f"no source is called {each!r}; the app declares {known}", path=f"/{min(queries)}")
    whole = next(iter(queries.values())).scope == "all"
    apart = {name for name, each in app.queries.items() if each.scope != "all"} if whole else set()
    buried = set(read) - frozenset[str]().union(*(roots[name] for name in apart))  # a source's letters go once
    return Section(
        WHOLE if whole else AND.join(read),
        {name: sources[name] for name in read},
        queries,
        [each for each in app.sinks if query_of(each.stream) in {*queries, *buried}],
        app.options,
        Targets(sources),
    )
