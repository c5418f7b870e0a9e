"""Pipes of up to nine operators whose types a checker follows from one to the next; RxPY's stop at seven.

The tenth is accepted too, but then nothing is known of what comes out: put a `pipe` behind the pipe. In the method
mypy follows sixteen: `fluent_methods.pyi` has it for each checker in the form in which that one knows lambdas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar, overload

import reactivex

from reliable_rx.query.plain_names import note

T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")
H = TypeVar("H")
J = TypeVar("J")
K = TypeVar("K")


@overload
def compose() -> Callable[[A], A]: ...
@overload
def compose(op1: Callable[[A], B], /) -> Callable[[A], B]: ...
@overload
def compose(op1: Callable[[A], B], op2: Callable[[B], C], /) -> Callable[[A], C]: ...
@overload
def compose(op1: Callable[[A], B], op2: Callable[[B], C], op3: Callable[[C], D], /) -> Callable[[A], D]: ...
@overload
def compose(
    op1: Callable[[A], B], op2: Callable[[B], C], op3: Callable[[C], D], op4: Callable[[D], E], /
) -> Callable[[A], E]: ...
@overload
def compose(
    op1: Callable[[A], B], op2: Callable[[B], C], op3: Callable[[C], D], op4: Callable[[D], E], op5: Callable[[E], F], /
) -> Callable[[A], F]: ...
@overload
def compose(
    op1: Callable[[A], B],
    op2: Callable[[B], C],
    op3: Callable[[C], D],
    op4: Callable[[D], E],
    op5: Callable[[E], F],
    op6: Callable[[F], G],
    /,
) -> Callable[[A], G]: ...
@overload
def compose(
    op1: Callable[[A], B],
    op2: Callable[[B], C],
    op3: Callable[[C], D],
    op4: Callable[[D], E],
    op5: Callable[[E], F],
    op6: Callable[[F], G],
    op7: Callable[[G], H],
    /,
) -> Callable[[A], H]: ...
@overload
def compose(
    op1: Callable[[A], B],
    op2: Callable[[B], C],
    op3: Callable[[C], D],
    op4: Callable[[D], E],
    op5: Callable[[E], F],
    op6: Callable[[F], G],
    op7: Callable[[G], H],
    op8: Callable[[H], J],
    /,
) -> Callable[[A], J]: ...
@overload
def compose(
    op1: Callable[[A], B],
    op2: Callable[[B], C],
    op3: Callable[[C], D],
    op4: Callable[[D], E],
    op5: Callable[[E], F],
    op6: Callable[[F], G],
    op7: Callable[[G], H],
    op8: Callable[[H], J],
    op9: Callable[[J], K],
    /,
) -> Callable[[A], K]: ...
@overload
def compose(
    op1: Callable[[Any], Any],
    op2: Callable[[Any], Any],
    op3: Callable[[Any], Any],
    op4: Callable[[Any], Any],
    op5: Callable[[Any], Any],
    op6: Callable[[Any], Any],
    op7: Callable[[Any], Any],
    op8: Callable[[Any], Any],
    op9: Callable[[Any], Any],
    op10: Callable[[Any], Any],
    /,
    *operators: Callable[[Any], Any],
) -> Callable[[Any], Any]: ...
def compose(*operators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make one operator of several.

    >>> import reliable_rx as rx
    >>> even_tens = compose(rx.operators.filter(lambda x: x % 2 == 0), rx.operators.map(lambda x: x * 10))
    >>> rx.range(5).pipe(even_tens, rx.operators.to_list()).run()
    [0, 20, 40]
    """

    def composed(source: Any) -> Any:
        return reduce(lambda value, operator: operator(value), operators, source)

    return composed


@overload
def pipe(value: A, /) -> A: ...
@overload
def pipe(value: A, op1: Callable[[A], B], /) -> B: ...
@overload
def pipe(value: A, op1: Callable[[A], B], op2: Callable[[B], C], /) -> C: ...
@overload
def pipe(value: A, op1: Callable[[A], B], op2: Callable[[B], C], op3: Callable[[C], D], /) -> D: ...
@overload
def pipe(
    value: A, op1: Callable[[A], B], op2: Callable[[B], C], op3: Callable[[C], D], op4: Callable[[D], E], /
) -> E: ...
@overload
def pipe(
    value: A,
    op1: Callable[[A], B],
    op2: Callable[[B], C],
    op3: Callable[[C], D],
    op4: Callable[[D], E],
    op5: Callable[[E], F],
    /,
) -> F: ...
@overload
def pipe(
    value: A,
    op1: Callable[[A], B],
    op2: Callable[[B], C],
    op3: Callable[[C], D],
    op4: Callable[[D], E],
    op5: Callable[[E], F],
    op6: Callable[[F], G],
    /,
) -> G: ...
@overload
def pipe(
    value: A,
    op1: Callable[[A], B],
    op2: Callable[[B], C],
    op3: Callable[[C], D],
    op4: Callable[[D], E],
    op5: Callable[[E], F],
    op6: Callable[[F], G],
    op7: Callable[[G], H],
    /,
) -> H: ...
@overload
def pipe(
    value: A,
    op1: Callable[[A], B],
    op2: Callable[[B], C],
    op3: Callable[[C], D],
    op4: Callable[[D], E],
    op5: Callable[[E], F],
    op6: Callable[[F], G],
    op7: Callable[[G], H],
    op8: Callable[[H], J],
    /,
) -> J: ...
@overload
def pipe(
    value: A,
    op1: Callable[[A], B],
    op2: Callable[[B], C],
    op3: Callable[[C], D],
    op4: Callable[[D], E],
    op5: Callable[[E], F],
    op6: Callable[[F], G],
    op7: Callable[[G], H],
    op8: Callable[[H], J],
    op9: Callable[[J], K],
    /,
) -> K: ...
@overload
def pipe(
    value: Any,
    fn1: Callable[[Any], Any],
    fn2: Callable[[Any], Any],
    fn3: Callable[[Any], Any],
    fn4: Callable[[Any], Any],
    fn5: Callable[[Any], Any],
    fn6: Callable[[Any], Any],
    fn7: Callable[[Any], Any],
    fn8: Callable[[Any], Any],
    fn9: Callable[[Any], Any],
    fn10: Callable[[Any], Any],
    /,
    *fns: Callable[[Any], Any],
) -> Any: ...
def pipe(value: Any, /, *fns: Callable[[Any], Any]) -> Any:
    """Hand *value* through functions, one after the other.

    >>> pipe([3, 1, 2], sorted, reversed, list)
    [3, 2, 1]
    """
    return compose(*fns)(value)


class Piped(reactivex.Observable[T_co]):
    """An observable whose `pipe` is typed, by `fluent_methods.pyi`, for as many operators as people write."""

    _is_piped = True

    def pipe(self, /, *operators: Callable[[Any], Any]) -> Any:
        """Put operators behind this sequence, one after the other.

        >>> import reliable_rx as rx
        >>> rx.range(5).pipe(rx.operators.filter(lambda x: x % 2), rx.operators.sum()).run()
        4
        """
        value: Any = self
        kind = type(self)
        for operator in operators:
            before = value
            try:
                value = operator(before)
            except TypeError:
                if callable(operator):
                    raise
                message = f"a pipe takes operators, such as reliable_rx.operators.map(...), got {operator!r}"
                raise TypeError(message) from None
            if type(value) is not kind and not hasattr(value, "_is_piped"):  # isinstance asks an ABC, which takes long
                note(before, value, operator)
        return value
