"""Creation of several queries in one call: all of them are checked before the first one is created.

So a call that is refused has changed nothing, and may be made again when the query that is named has been mended. A
query may read those before it in the same call, which is why they are known while the others are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypedDict, TypeVar

from checkpoint.store import Store
from hosting.admission.arguments import check_new
from hosting.edges.ingress import Intake
from hosting.engine.editing import check_fits, is_alike, is_same
from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Create
from hosting.evaluator.following import Declared, Following
from hosting.evaluator.interpreters import Interpreters, is_mended
from hosting.evaluator.undeclared import check_never_read
from hosting.reports.log import LOG
from hosting.reports.store_commands import way_to_restart
from reliable_rx.event_time import EventTime
from reliable_rx.limits import Limits
from reliable_rx.names import query_of
from reliable_rx.operators.contract.choices import Policy

T = TypeVar("T")


class How(TypedDict):
    """How queries are hosted."""

    policy: Policy
    limits: Limits
    clock: EventTime | None


def in_order(declared: Mapping[str, T], reads: Mapping[str, Iterable[str]]) -> dict[str, T]:
    """Return what is *declared* with each query behind those that it reads, and otherwise as it was.

    >>> in_order({"a": 1, "b": 2, "c": 3}, {"a": ["c"], "b": [], "c": ["n"]})
    {'c': 3, 'a': 1, 'b': 2}
    """
    found: dict[str, T] = {}
    for first in declared:
        left = [first]
        while left:
            name = left[-1]
            wanted = [each for each in sorted(map(query_of, reads[name])) if each in declared and each not in found]
            if wanted := [each for each in wanted if each not in left]:  # one that reads itself is refused elsewhere
                left += wanted
            else:
                found.setdefault(left.pop(), declared[name])
    return found


def edits_first(
    declared: Iterable[str], reads: Mapping[str, Iterable[str]], edits: Container[str]
) -> tuple[list[str], list[str]]:
    """Return the names of what is *declared*: those that are *edits*, with what these read, and the rest.

    >>> reads = {"a": ["n"], "b": ["a"], "c": ["b"], "d": ["n"]}
    >>> edits_first(["a", "b", "c", "d"], reads, ["c"]), edits_first(["a", "b", "c", "d"], reads, ["d"])
    ((['a', 'b', 'c'], ['d']), (['d'], ['a', 'b', 'c']))
    """
    names, first = list(declared), set[str]()
    for name in reversed(names):  # each is behind those that it reads
        if name in edits or name in first:
            first |= {name, *map(query_of, reads[name])}
    return [name for name in names if name in first], [name for name in names if name not in first]


class Creation:
    """Creates and edits the queries of one evaluator, or notes them for its start.

    *let_come* lets come what is due by now, *following* runs those again first that a query reads, *soon* has a
    checkpoint taken behind an edit, *settle* closes what was told of redefined names, and *look_at* looks at the
    functions of a query.
    """

    def __init__(
        self,
        engine: QueryEngine,
        intake: Intake,
        store: Store,
        declared: Declared,
        *,
        strict: bool,
        now: Callable[[], float],
        let_come: Callable[[], None],
        following: Following,
        interpreters: Interpreters,
        soon: Callable[[], None],
        settle: Callable[[str], None],
        look_at: Callable[[str], None],
    ) -> None:
        self._engine, self._intake, self._store, self.declared, self._strict = engine, intake, store, declared, strict
        self._now, self._let_come, self._following, self._interpreters = now, let_come, following, interpreters
        self._soon, self._settle, self._look_at = soon, settle, look_at

    def creations(self, queries: Mapping[str, Any], how: How) -> list[Create]:
        """Return the turns that create *queries*. *Raises* `QueryRefused`, `ValueError` if one of them cannot be."""
        engine, time, turns = self._engine, self._now(), list[Create]()
        coming, sources = engine.readers.coming, self._intake.sources
        try:
            with engine.plans.looking_once():
                for name, query in queries.items():
                    turn = engine.creation(check_new("query", name, sources), query, time=time, **how)
                    turns.append(turn)
                    coming[turn.name] = turn
        finally:
            coming.clear()
        return turns

    def create_now(self, queries: Mapping[str, Any], how: How) -> None:
        """Create or edit *queries* while the evaluator runs; a declaration from before the start counts no more."""
        declared = self.declared
        standing = self._engine.standing
        turns = self.creations(queries, how)
        check_never_read(self._engine, self._intake, [turn.name for turn in turns])
        self._interpreters.check_kept([turn.name for turn in turns])
        for turn in [each for each in turns if each.name in standing] if self._strict else ():
            check_fits(self._engine, turn, way_to_restart(self._store, turn.name))
        for turn, query in zip(turns, queries.values(), strict=True):
            before = standing.get(turn.name)
            plan = None if before is None else before.plan
            self._create(turn)
            if plan is not None and standing[turn.name].plan is not plan:
                self._soon()
            self._settle(turn.name)
            self._look_at(turn.name)
            if turn.name in declared:
                declared[turn.name] = (query, how["policy"], how["limits"], how["clock"])

    def declare(self, queries: Mapping[str, Any], how: How) -> None:
        """Note *queries* for the start, or none of them; one that is noted already is edited, as after the start.

        *Raises* `QueryRefused`, `ValueError` for the name of a source.
        """
        engine, before = self._engine, list[tuple[dict[str, Any], str, Any]]()
        declared, reads = self.declared, engine.readers.declared
        known: tuple[dict[str, Any], ...] = (declared, engine.suspended.declared, reads)
        try:
            with engine.plans.looking_once():
                for each, query in queries.items():
                    name = check_new("query", each, self._intake.sources)
                    before += [(each, name, each.get(name)) for each in known]
                    engine.suspended.declare(name, query, **how)
                    is_edit, was = name in declared, before[-2][2]
                    if was is not None and was.plan != engine.suspended.declared[name].plan:
                        LOG.warning("the query %r was created before, as another one: the last one counts", name)
                    declared[name] = (query, how["policy"], how["limits"], how["clock"])
                    if is_edit and any(query_of(source) in declared for source in reads[name]):
                        ordered = in_order(declared, reads)
                        declared.clear()
                        declared.update(ordered)
        except BaseException:
            for names, name, was in reversed(before):
                if was is None:
                    names.pop(name, None)
                else:
                    names[name] = was
            raise

    def declare_again(self) -> None:
        """Let the store's functions, and not those that were defined anew since, go by the declared names."""
        plans = self._engine.plans
        with plans.looking_once():
            if plans.forget_changed():
                for name, (query, policy, limits, clock) in self.declared.items():
                    self._engine.suspended.declare(name, query, policy=policy, limits=limits, clock=clock)

    def create_declared(self, *, but: Container[str]) -> None:
        """Create what was declared before the start and is not there yet, *but* for those that wait.

        Edits come first, and behind them what came due while nothing ran: who begins now has not been there then.
        """
        with self._engine.plans.looking_once():
            edits, reads = {name for name in self.declared if self._is_edit(name)}, self._reads()
            first, rest = edits_first(in_order(self.declared, reads), reads, edits)
            for name in first:
                self._create_one(name, but)
            for name in rest:  # each behind those that it reads; what is as it was takes no turn
                if not self._runs(name):
                    self._let_come()
                self._create_one(name, but)

    def _create_one(self, name: str, but: Container[str]) -> None:
        if name not in but:
            query, policy, limits, clock = self.declared[name]
            for turn in self.creations({name: query}, How(policy=policy, limits=limits, clock=clock)):
                self._create(turn, starting=True)

    def _reads(self) -> dict[str, set[str]]:
        """Return what declared queries read, also by way of those in the store that the app does not declare."""
        readers, found = self._engine.readers, dict[str, set[str]]()
        for name in self.declared:
            waiting, found[name] = [*map(query_of, readers.declared[name])], set()
            while waiting:
                if (each := waiting.pop()) not in found[name]:
                    found[name].add(each)
                    waiting += map(query_of, readers.reads(each)) if each not in self.declared else ()
        return found

    def _is_edit(self, name: str) -> bool:
        """Whether the query *name* goes on as another one or with other classes, or is taken up again."""
        engine, there, turn = self._engine, self._engine.standing.get(name), self._engine.suspended.declared[name]
        if not self._runs(name) or (there is not None and is_same(engine, there, turn)):
            return False  # or only what is stored of it differs, and does the same
        return there is None or not is_alike(engine, there, turn) or turn.code in engine.plans.renewed

    def _runs(self, name: str) -> bool:
        there = self._engine.standing.get(name) or self._engine.suspended.get(name)
        return there is not None and there.status == RUNNING

    def _create(self, turn: Create, *, starting: bool = False) -> None:
        there = self._engine.standing.get(turn.name)
        if there is None or not is_same(self._engine, there, turn) or is_mended(there, turn):
            self._following.run_first(turn, starting=starting)
            self._interpreters.created(turn)
        else:
            self._interpreters.unchanged(there, turn)
