"""Operators that return a list of two sequences: what passes a test, and what does not.

Both read one subscription, by way of `share`, so that the source is subscribed to once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.filtering import filter, filter_indexed
from reliable_rx.operators.sharing import share
from reliable_rx.query.query import Query

A = TypeVar("A", bound=Any)


@dataclass(frozen=True)
class Negated:
    """The opposite of *predicate*."""

    predicate: Callable[..., Any]

    def __call__(self, *args: Any) -> bool:
        return not self.predicate(*args)


def partition(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], list[Query[A]]]:
    """Return two sequences: the elements that pass *predicate*, and the others.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> def marked(s):
    ...     odd, even = s.pipe(partition(lambda x: x % 2))
    ...     return odd.pipe(rx.operators.merge(even.pipe(rx.operators.map(lambda x: -x))))
    >>> diagram(marked, "-1-2-3-|")
    -1-2--3-|
    -1--2-3-|

    *predicate* is called once for each of the two that is subscribed to.

    *State*: none but that of the shared subscription.
    """
    return lambda source: two_of(source, filter(predicate), filter(Negated(predicate)))


def partition_indexed(predicate_indexed: Callable[[A, int], Any]) -> Callable[[Observable[A]], list[Query[A]]]:
    """Return two sequences: the elements that pass *predicate_indexed*, which also gets their index, and the others.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda s: s.pipe(partition_indexed(lambda x, i: i % 2))[0], "-a-b-c-|")
    -a-b-c-|
    ---b---|

    *State*: a counter for each of the two, and that of the shared subscription.
    """
    return lambda source: two_of(source, filter_indexed(predicate_indexed), filter_indexed(Negated(predicate_indexed)))


def two_of(source: Observable[A], *filters: Callable[[Observable[A]], Query[A]]) -> list[Query[A]]:
    """Put each of *filters* behind one shared subscription to *source*."""
    shared = source.pipe(share())
    return [each(shared) for each in filters]
