"""Queries as data: operators over named sources, nothing running.

A `Query` *is* a `reactivex.Observable`, so it can be subscribed to, mixed with plain RxPY and typed by RxPY's own
annotations; asked for its ``node`` it gives a tree of `Node`s, the plan, which a host can run, hash, draw and save.
It is a tree and not a graph because an Rx observable used twice is subscribed twice. Identity inside it is a *path*
such as ``/scan`` or ``/flat_map/inner/map.2``: names with an ordinal, so that inserting a ``map`` does not move the
state of the ``scan`` behind it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Never, NoReturn, TypeVar

import reactivex
from reactivex import abc
from reactivex.internal.utils import is_future

from reliable_rx.names import check_name, only_name
from reliable_rx.operators.contract.arguments import described, no_operator, no_text, place_in
from reliable_rx.operators.contract.operator import Operator, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.shown import bounded_repr

if TYPE_CHECKING:
    from reactivex import GroupedObservable as Keyed

    from reliable_rx.fluent_methods import Fluent  # pyright: ignore[reportMissingModuleSource]
    from reliable_rx.runtime.inner_sequences import Subject
else:
    from typing import Generic as Keyed

    from reliable_rx.query.piping import Piped as Fluent

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
K = TypeVar("K")


class Node(NamedTuple):
    """One operator of a plan with the nodes it reads from."""

    op: Operator
    inputs: tuple[Node, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """As one flat list, since pickling a tree recurs, and a long pipe is a deep tree."""
        return (_grown, ([(each.op, len(each.inputs)) for each in walk(self)],))


@frozen
class SourceLeaf(Operator, name="source"):
    """A named source; *key_mapper* says that only events with the row's key are wanted, so that a host can route."""

    source: str
    key_mapper: Callable[[Any], Any] | None = None
    key: Any = None


@frozen
class ForeignLeaf(Operator, name="foreign"):
    """A plain observable: runs un-hosted only."""

    observable: reactivex.Observable[Any]


@frozen
class PlainOperator(Stage, name="plain"):
    """An operator of plain RxPY whose state nobody can save: runs un-hosted only, and says what to do here."""

    runs_plain = True
    operator: str
    make: Callable[..., reactivex.Observable[Any]]
    instead: str

    def observable(self, inputs: tuple[Node, ...]) -> reactivex.Observable[Any]:
        """Return what runs un-hosted, given the plans before it."""
        return self.make(*[Query(each) for each in inputs])

    def refusal(self) -> str | None:
        return f"{self.operator} has no state that could be saved; {self.instead}"


@frozen
class InnerLeaf(Operator, name="inner"):
    """An inner sequence by reference to the subject that feeds it."""

    subject: Subject

    def __reduce__(self) -> tuple[Any, ...]:
        from reliable_rx.runtime.inner_sequences import restore_leaf

        return (restore_leaf, self.subject.reference())


@frozen
class SymbolLeaf(Operator, name="inner"):
    """The inner sequence of a shared sub-plan: bound to a real one when the sub-plan is opened."""

    symbol: Query[Any]


@frozen
class HubLeaf(Operator, name="shared"):
    """What a hub shares, wherever it is read."""

    token: str


new = object.__new__
new_node = partial(tuple.__new__, Node)
ATOMS = frozenset((int, float, str, bytes))
ITERABLES = (list, tuple, str, bytes, set, frozenset, dict, deque)
"""What is read as a sequence that comes at once: it can be read again, and may be kept as it is."""
LEAVES = (SourceLeaf, ForeignLeaf, InnerLeaf, SymbolLeaf, HubLeaf)


class Query(Fluent[T_co]):
    """A plan in the clothes of an observable.

    >>> import reliable_rx as rx
    >>> rx.source("orders").pipe(rx.operators.map(str), rx.operators.take(2))
    source('orders').map(str).take(2)
    """

    _subscribe = None
    op: Operator
    inputs: tuple[Query[Any] | Node, ...]
    origin: Operator
    """What stands first in the chain that ends here."""

    def __init__(self, node: Node) -> None:
        self.op, self.inputs = at = node
        while at.inputs:
            at = at.inputs[0]
        self.origin = at.op
        self.node = node

    @cached_property
    def node(self) -> Node:
        """The plan as data; most queries that a selector makes are run by the plan of another and need none."""
        pipe: list[Query[Any]] = [self]  # a long one is too deep to recur into
        at = self
        while len(at.inputs) == 1:
            before = at.inputs[0]
            if type(before) is Node or "node" in before.__dict__:
                break
            pipe.append(before)  # type: ignore[arg-type]
            at = before  # type: ignore[assignment]
        if len(at.inputs) > 1:
            make_nodes(at.inputs)
        for at in reversed(pipe):
            vars(at)["node"] = node_of(at)
        return self.__dict__["node"]  # type: ignore[no-any-return]

    @cached_property
    def lock(self) -> threading.RLock:  # type: ignore[override, unused-ignore]
        """RxPY gives each observable a lock at birth; a query makes one only when an RxPY operator asks."""
        return threading.RLock()

    def _subscribe_core(
        self, observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        from reliable_rx.unhosted.subscribing import run

        return run(self.node, observer, scheduler)

    def run(self, scheduler: abc.SchedulerBase | None = None) -> T_co:
        """Subscribe un-hosted and wait for the last value. *Raises* `TypeError` for a group or window."""
        if isinstance(self.origin, (InnerLeaf, SymbolLeaf)):
            raise TypeError(
                "run() would wait for ever for the end of a group or window, which comes with later events: return the "
                "sequence itself, as in flat_map(lambda group: group.count())"
            )
        return super().run(scheduler)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Query, (self.node,))

    def __repr__(self) -> str:
        from reliable_rx.query.explain import one_line

        return one_line(self.node)

    def explain(self) -> str:
        """Draw the plan as text, one operator a line with its path."""
        from reliable_rx.query.explain import draw

        return draw(self.node)

    @property
    def content_hash(self) -> str:
        """A hash of what the query does: equal for equal operators, parameters and code."""
        from reliable_rx.query.identity import content_hash

        return content_hash(self.node)

    @property
    def is_hostable(self) -> bool:
        """Whether nothing in the plan is a plain observable or an operator of plain RxPY."""
        return not any(isinstance(node.op, (ForeignLeaf, PlainOperator)) for node in walk(self.node))

    def bind(self, **sources: reactivex.Observable[Any]) -> Query[T_co]:
        """Replace named sources by plain observables, to run the query un-hosted.

        >>> import reliable_rx as rx
        >>> rx.source("n").map(lambda n: n + 1).bind(n=rx.of(1, 2)).run()
        3

        *Raises* `TypeError` for a name that is no source of the query's, if one of these goes without.
        """
        from reliable_rx.query.rebuilt import bound, check_bound

        check_bound(self.node, sources)

        return Query(bound(self.node, sources))

    if not TYPE_CHECKING:  # a type checker knows what there is, and would take a query for an iterable

        def __getattr__(self, name: str) -> NoReturn:
            raise no_operator(self, name)

        def __iter__(self) -> NoReturn:
            raise TypeError(
                f"{str(self)[:60]} cannot be iterated over, as its values are yet to come: host it and read its stream,"
                f" or un-hosted write query.pipe(to_list()).run()"
            )

        def __len__(self) -> NoReturn:
            raise TypeError(f"{str(self)[:60]} has no length, as its values are yet to come: count() counts them")

    def __bool__(self) -> bool:
        return True

    def __add__(self, other: reactivex.Observable[T]) -> Query[T_co | T]:
        from reliable_rx.creation import concat

        if not isinstance(other, reactivex.Observable):
            return NotImplemented
        return concat(self, other)

    __iadd__ = __add__

    def __getitem__(self, key: slice | int) -> Query[T_co]:
        from reliable_rx.operators.take_skip_last import slice as sliced

        bounds = key if isinstance(key, slice) else slice(place_in(key), key + 1, 1)
        return as_query(sliced(bounds.start, bounds.stop, bounds.step)(self))


class Inner(Keyed[K, T], Query[T]):
    """A reference to a live inner sequence: a group (with its *key*) or a window.

    Type checkers take it for RxPY's `GroupedObservable` as well, for which functions written for RxPY ask.
    """

    def __init__(self, subject: Subject) -> None:
        self.op = self.origin = InnerLeaf(subject)
        self.inputs = ()
        self.subject = subject

    @property
    def key(self) -> K:  # type: ignore[override]
        return self.subject.given_key  # type: ignore[no-any-return]

    def __copy__(self) -> Inner[K, T]:
        return self

    def __deepcopy__(self, memo: object) -> Inner[K, T]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from reliable_rx.runtime.inner_sequences import restore_inner

        return (restore_inner, self.subject.reference())

    def __repr__(self) -> str:
        return f"<inner {bounded_repr(self.subject.key, 60)}>"


def source(name: str, *given: Never) -> Query[Any]:
    """Name an input that a host will provide.

    >>> source("orders")
    source('orders')
    """
    return Query(Node(SourceLeaf(check_name("input", only_name(name, given)))))


def as_input(value: Any) -> Query[Any]:
    """Take what an operator is given as a query. *Raises* `TypeError` for a text, which would be its letters."""
    return value if isinstance(value, Query) else as_query(no_text(value))


def as_query(value: Any) -> Query[Any]:
    """Take a query, a plain observable, a future or an iterable as a query."""
    if isinstance(value, Query):
        return value
    if isinstance(value, reactivex.Observable) or is_future(value):
        return Query(Node(ForeignLeaf(reactivex.from_future(value) if is_future(value) else value)))
    if isinstance(value, Iterable):
        from reliable_rx.creation import from_iterable

        return from_iterable(value)
    raise TypeError(f"expected an observable, a future or an iterable, got {described(value)}")


def node_of(query: Query[Any]) -> Node:
    """Return the plan of a *query* whose inputs have theirs."""
    inputs = tuple([each if type(each) is Node else each.node for each in query.inputs])  # type: ignore[union-attr]
    return new_node((query.op, inputs))


def make_nodes(queries: Iterable[Query[Any] | Node]) -> None:
    """Give *queries*, and all that they read from, their plans; what is read twice has one."""
    waiting = list(queries)
    while waiting:
        at = waiting[-1]
        if isinstance(at, Node) or "node" in at.__dict__:
            waiting.pop()
        elif without := [each for each in at.inputs if not isinstance(each, Node) and "node" not in each.__dict__]:
            waiting += without
        else:
            vars(at)["node"] = node_of(at)


def apply(op: Operator, *inputs: Any) -> Query[Any]:
    """Put *op* behind its *inputs*."""
    query: Query[Any] = new(Query)
    query.op, query.inputs, query.origin = op, (), op
    if inputs:
        query.inputs = queries = tuple([as_input(each) for each in inputs])
        query.origin = queries[0].origin
    return query


def behind(op: Operator, source: Any, /) -> Query[Any]:
    """Apply to a query or to any plain observable."""
    if not isinstance(source, Query):
        source = as_query(source)
    query: Query[Any] = new(Query)  # past `__init__`, as selectors make queries all the time
    query.op, query.inputs, query.origin = op, (source,), source.origin
    return query


def walk(node: Node) -> Iterator[Node]:
    """Yield *node* and all that stands before it."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += at.inputs[::-1]


def _grown(flat: list[tuple[Operator, int]]) -> Node:
    """Undo `Node.__reduce__`."""
    made: list[Node] = []
    for op, count in reversed(flat):
        inputs = tuple([made.pop() for _ in range(count)])
        made.append(Node(op, inputs))
    return made[0]


def hubs_of(node: Node) -> dict[str, Node]:
    """Return the shared parts that occur in a plan, by their tokens."""
    found: dict[str, Node] = {}
    waiting, seen = [node], {id(node)}
    while waiting:
        each = waiting.pop()
        if each.op.counts_readers:
            found[each.op.token] = each  # type: ignore[attr-defined]
        fresh = [before for before in each.inputs if id(before) not in seen]
        seen.update(map(id, fresh))
        waiting += fresh
    return found


Operator.__call__ = behind  # type: ignore[method-assign]


def parameters(op: Operator) -> dict[str, Any]:
    """Return the parameters of *op* by name, leaving out what is at its default."""
    kind: Any = type(op)
    named = parameter_names(kind)
    return {name: value for name, default in named if not is_default(value := getattr(op, name), default)}


def is_default(value: Any, default: Any) -> bool:
    """Whether a parameter was left out; one that has been through bytes is equal to its default, but another object."""
    return value is default or (type(value) in ATOMS and type(value) is type(default) and value == default)


@cache
def parameter_names(kind: type[Operator]) -> tuple[tuple[str, Any], ...]:
    """Return the names of an operator's parameters with their defaults."""
    return tuple((f.name, f.default) for f in fields(kind) if not f.name.startswith("_")) if is_dataclass(kind) else ()
