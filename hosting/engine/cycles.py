"""Which query reads which other's stream: what is read must be there, and nothing may read what is made of itself.

A stream that reaches itself again goes round within one turn, for ever. So every way by which a query comes to read a
stream asks here first: its declaration, its creation, an edit, and a selector that names a stream while events run.
What selectors read at the moment is counted, as it is in no plan; it follows from the rows, so that a replay finds the
same.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hosting.engine.routes import top_of
from hosting.engine.side_streams import why_never, why_never_of_source, with_side_outputs
from reliable_rx.errors import QueryRefused
from reliable_rx.names import query_of

if TYPE_CHECKING:
    from hosting.engine.hosted_query import Standing
    from hosting.engine.turns import Create
    from reliable_rx.runtime.instance import Instance

NAMED_MAX = 20
Reads = Callable[[str], Iterable[str]]
"""The streams that a query reads."""


class Readers:
    """What the standing queries of an engine read of each other."""

    def __init__(self, standing: Mapping[str, Standing], live: Mapping[str, Any], suspended: Mapping[str, Any]) -> None:
        self.standing, self.live, self.suspended = standing, live, suspended
        self.declared: dict[str, frozenset[str]] = {}
        """What queries read that are yet to be created."""
        self.coming: dict[str, Create] = {}
        """Queries that one call creates, while the others of that call are checked."""
        self.chosen: dict[str, Counter[str]] = {}
        """The streams that selectors read at the moment, by the query that they are in."""
        self.unknown: dict[str, str] = {}
        """By query, the last stream that a selector has named and that was not there."""

    def reads(self, name: str) -> Iterable[str]:
        """Name what the stream *name* is made of."""
        coming = self.coming.get(name)
        if coming is not None:
            return tuple(coming.code.sources)
        standing = self.standing.get(name)
        if standing is None or query_of(name) != name:
            return made_of(name, self.declared)
        return (*standing.plan.sources, *self.chosen.get(name, ()))

    def connected(self, names: Collection[str]) -> set[str]:
        """Return the queries *names*, with those that read them or one another's streams, directly or not."""
        if not names:
            return set()
        beside = defaultdict[str, set[str]](set)
        for reader in self.standing:
            for stream in {*self.reads(reader), *waited_for(self.standing[reader])}:
                owner = query_of(stream) if query_of(stream) in self.standing else stream
                if owner in self.standing or owner in names:
                    beside[owner].add(reader)
                    beside[reader].add(owner)
        found, waiting = {*names}, [*names]
        while waiting:
            new = beside[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    def declare(self, name: str, sources: frozenset[str]) -> None:
        """Note a query that will be created later. *Raises* `QueryRefused` for one that would read itself."""
        refuse_cycle(name, sources, self.reads)
        self.declared[name] = sources

    def sources_of(self, names: Container[str]) -> set[str]:
        """Return what the declared queries among *names* read."""
        return {source for name, sources in self.declared.items() if name in names for source in sources}

    def check(self, name: str, sources: frozenset[str]) -> None:
        """*Raises* `QueryRefused` for a source that is neither declared nor another's stream, and for a cycle."""
        for source in sources:
            if source in self.live:
                continue
            refuse_cycle(name, sources, self.reads)
            missing = self.missing(source)
            if missing is not None:
                what = f"{name!r} reads {source!r}, but {missing}; a query is declared behind those that it reads"
                raise QueryRefused(what, path=f"/{source}")

    def missing(self, stream: str) -> str | None:
        """Say why *stream* will never have anything; None if it may have."""
        query = query_of(stream)
        coming = self.coming.get(query)
        if coming is not None:
            return why_never(stream, policy=coming.policy, clock=coming.clock) if query != stream else None
        if stream in self.live or stream in self.standing or query in self.suspended:
            return None
        standing = self.standing.get(query)
        if standing is not None:
            return why_never(stream, policy=standing.policy, clock=getattr(standing.clock, "spec", None))
        if query in self.live:
            return why_never_of_source(stream)
        return f"no source or query has that name; {there_are(self.names(), stream)}"

    def names(self) -> list[str]:
        """Name all that can be read."""
        there = [(each.name, each.policy, getattr(each.clock, "spec", None)) for each in self.standing.values()]
        queries = (each for each in there if query_of(each[0]) == each[0])
        return sorted({*self.live, *with_side_outputs(queries), *self.standing})

    def choose(self, instance: Instance, source: str) -> None:
        """*instance* reads *source* from now on; if it is inside a query, a selector has named that."""
        if instance.parent is not None and source not in self.live:
            self.chosen.setdefault(name := name_of(instance), Counter())[source] += 1
            self.note(name, (source,))

    def note(self, name: str, sources: Iterable[str]) -> None:
        """The selectors of *name* name *sources*: remember one that is not there."""
        for source in sources:
            if source not in self.live and source not in self.standing and self.missing(source) is not None:
                self.unknown[name] = source

    def waits_for(self, name: str, stream: str) -> bool:
        """Whether the query *name* runs and has a selector that reads *stream*, or whose clock waits for it."""
        standing = self.standing.get(name)
        if standing is None or standing.status != "running":
            return False
        return stream in self.chosen.get(name, ()) or stream in waited_for(standing)

    def leave(self, instance: Instance, source: str) -> None:
        """It no longer does."""
        if instance.parent is None or not self.chosen:
            return
        chosen = self.chosen.get(name := name_of(instance))
        if chosen is not None and source in chosen:
            chosen[source] -= 1
            if not chosen[source]:
                del chosen[source]
            if not chosen:
                del self.chosen[name]

    def refusal(self, instance: Instance, source: str) -> QueryRefused | None:
        """Return what is wrong if *instance* reads *source*, which a selector has named."""
        if instance.parent is None or source in self.live:
            return None
        try:
            refuse_cycle(name_of(instance), (source,), self.reads)
        except QueryRefused as refused:
            return refused
        return None


def waited_for(standing: Standing) -> Collection[str]:
    """Return the streams that the clock of a query waits for; also those that its selectors have named."""
    mark = getattr(standing.clock, "watermark", None) if standing.clock is not None else None
    return () if mark is None else mark.sources


def name_of(instance: Instance) -> str:
    """Return the name of the query that *instance* is part of."""
    return top_of(instance).key  # type: ignore[return-value]


def made_of(name: str, reads: Mapping[str, Iterable[str]]) -> Iterable[str]:
    """Name what the stream *name* is made of, by what queries read; beside a query it is that."""
    query = query_of(name)
    return reads.get(name, ()) if query == name else (query,)


def refuse_cycle(name: str, sources: Iterable[str], reads: Reads) -> None:
    """*Raises* `QueryRefused` if *name* would read, by way of *sources*, what is made of itself.

    >>> refuse_cycle("a", ["b"], {"b": ["c", "n"], "c": ["a"]}.get)
    Traceback (most recent call last):
    reliable_rx.errors.QueryRefused: 'a' reads 'b', which reads 'c', which reads 'a': what it emits would come back to \
it for ever; take one of these inputs away, or feed back through a pushed input
    """
    found = path_to(name, sources, reads)
    if found is not None:
        way = ", which reads ".join(repr(each) for each in found)
        raise QueryRefused(
            f"{name!r} reads {way}: what it emits would come back to it for ever; take one of these inputs away, or "
            f"feed back through a pushed input",
            path=f"/{found[0]}",
        )


def path_to(name: str, sources: Iterable[str], reads: Reads) -> list[str] | None:
    """Return the names from one of *sources* to *name*, each of which reads the next; None if none does."""
    came_from: dict[str, str | None] = dict.fromkeys(sources)
    waiting = list(came_from)
    while waiting:
        at = waiting.pop()
        if at == name:
            way: list[str] = []
            each: str | None = at
            while each is not None:
                way.append(each)
                each = came_from[each]
            return way[::-1]
        for before in reads(at) or ():
            if before not in came_from:
                came_from[before] = at
                waiting.append(before)
    return None


def there_are(names: Iterable[str], wanted: str) -> str:
    """Say what there is, and what was meant perhaps.

    >>> there_are(["orders", "prices"], "ordres")
    "did you mean 'orders'? There are: orders, prices"
    """
    known = sorted(names)
    close = difflib.get_close_matches(wanted, known, n=1) if isinstance(wanted, str) else []
    guess = f"did you mean {close[0]!r}? There" if close else "there"
    more = ", …" if len(known) > NAMED_MAX else ""
    return f"{guess} are: {', '.join(known[:NAMED_MAX]) or 'none'}{more}"
