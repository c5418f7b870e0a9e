"""Operators that split a sequence by key into inner sequences that they own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex import Observable
from reactivex.observable.groupedobservable import GroupedObservable

from reliable_rx.operator import Context, Stage

A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class GroupBy(Stage, name="group_by"):
    yields_inner = True
    inner_limit = "groups_max"
    key_mapper: Callable[[Any], Hashable]
    element_mapper: Callable[[Any], Any] | None = None

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        groups, key_mapper, element_mapper = cx.groups(), self.key_mapper, self.element_mapper
        for value in values:
            key = key_mapper(value)
            group = groups.get(key)
            if group is None:
                cx.emit(cx.begin(key))
                group = groups.get(key)
                if group is None:  # what came downstream has ended us
                    return
            group.feed((value if element_mapper is None else element_mapper(value),))


def group_by(
    key_mapper: Callable[[A], K],
    element_mapper: Callable[[A], B] | None = None,
    subject_mapper: Callable[[], Any] | None = None,
) -> Callable[[Observable[A]], Observable[GroupedObservable[K, Any]]]:
    """Split the sequence into one inner sequence per key.

    >>> import reliable_rx as rx
    >>> rx.range(5).group_by(lambda x: x % 2).flat_map(lambda g: g.sum().map(lambda n: (g.key, n))).to_list().run()
    [(0, 6), (1, 4)]

    *State*: one row per key, which also holds the state of what reads the group; bounded by `Limits.groups_max`.
    *Raises* `TypeError` for a *subject_mapper*: a group is fed by the host, use operators behind it instead.
    """
    if subject_mapper is not None:
        raise TypeError("group_by takes no subject_mapper here: put start_with, take or replay behind the group")
    return GroupBy(key_mapper, element_mapper)
