"""The fluent form: every operator as a method of `Query`, made from `reliable_rx.operators` in one place.

Type checkers read of them in `fluent_methods.pyi`, which is made of the operators as well. What is inherited from RxPY
but not built here is answered with a refusal at the call, so that nobody hosts a query whose state cannot be saved.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

import reactivex
from reactivex import Observable
from reactivex import operators as plain
from reactivex.abc import ObserverBase

from reliable_rx import operators
from reliable_rx.errors import QueryRefused
from reliable_rx.operators.contract.choices import Effects
from reliable_rx.query.query import Query

A = TypeVar("A", bound=Any)


def fluent(name: str) -> Callable[..., Any]:
    """Return the method that applies the operator *name*."""
    operator = getattr(operators, name)

    def method(self: Query[Any], *args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)(self)

    method.__name__, method.__doc__ = name, operator.__doc__
    method.__signature__ = signature_of(operator)  # type: ignore[attr-defined]
    return method


def signature_of(operator: Callable[..., Any]) -> Signature:
    """Return the parameters of *operator* as those of a method, for `help` and notebooks."""
    found = signature(operator)
    own = Parameter("self", Parameter.POSITIONAL_ONLY)
    return found.replace(parameters=[own, *found.parameters.values()], return_annotation=Query)


def unhosted_only(name: str) -> Callable[..., Any]:
    """Return the method that refuses RxPY's operator *name* on a query over named sources."""
    operator = getattr(plain, name)

    def method(self: Query[Any], *args: Any, **kwargs: Any) -> Any:
        if self.is_hostable:
            raise QueryRefused(
                f"{name!r} is an operator of plain reactivex whose state nobody can save: reliable_rx.operators has no "
                f"{name!r} yet; on a stream that leaves the host, use stream.observable().{name}(...)",
                path=name,
            )
        return operator(*args, **kwargs)(self)

    method.__name__, method.__doc__ = name, operator.__doc__
    return method


def do(
    self: Observable[A],
    on_next: ObserverBase[A] | Callable[[A], Any] | None = None,
    on_error: Callable[[Exception], Any] | None = None,
    on_completed: Callable[[], Any] | None = None,
    *,
    effects: Effects = "always",
) -> Query[A]:
    """Call functions with each notification before it is passed on, as `do_action`; an observer serves as well.

    RxPY's method takes functions, and its operator an observer.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).do(print).run()
    1
    2
    2
    """
    if on_next is None or callable(on_next):
        return operators.do_action(on_next, on_error, on_completed, effects=effects)(self)
    if on_error is not None or on_completed is not None:
        raise TypeError("do takes an observer or functions, not both: the observer has an on_error and an on_completed")
    return operators.do(on_next, effects=effects)(self)


def install() -> None:
    """Give `Query` its methods."""
    for name in operators.__all__:
        setattr(Query, name, fluent(name))
    Query.do = do  # type: ignore[method-assign]
    for name in plain.__all__:
        if name not in operators.__all__ and hasattr(reactivex.Observable, name):
            setattr(Query, name, unhosted_only(name))
