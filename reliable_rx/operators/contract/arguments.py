"""What the arguments of operators must be, read from the types that the operators declare for them.

RxPY takes any argument and fails at the first event; un-hosted so do we. A host asks here before a query begins. It
says no only to what can never work: the declared types are the ones that a type checker would have held the caller to.
Rejected: checks in every operator (a selector may make one for each element), and all types checked at run time.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import _lru_cache_wrapper, cache, partial
from numbers import Real
from types import FunctionType, MethodType
from typing import Any

from reactivex import Observable
from reactivex.abc import DisposableBase
from reactivex.internal import ArgumentOutOfRangeException

from reliable_rx.class_of import name_of
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.operators.contract.signatures import signature_of
from reliable_rx.query.other_names import known_elsewhere
from reliable_rx.shown import bounded_repr, cut_end

DURATIONS = frozenset(("Relative", "RelativeTime", "float"))
OTHERS = {"Awaitable": Awaitable, "Iterable": Iterable, "Observable": Observable, "int": int}
"""What may be given in the place of a function, by its declared name."""
NO_KEY = (
    "a query has no key, which is that of each group or window: read it in the sub-query, as in flat_map(lambda group: "
    "group.map(lambda value: (group.key, value)))"
)
Check = Callable[[Operator, str, Any], str | None]


def fault_of(op: Operator) -> str | None:
    """Say which argument of *op* can never work, and what to write; None if there is none.

    >>> import reliable_rx as rx
    >>> fault_of(rx.operators.map(5))
    'its mapper must be a function, got 5'
    """
    kind: Any = type(op)
    for name, check, optional in checks(kind):
        value = getattr(op, name, None)
        if value is None and optional:
            continue
        fault = check(op, name, value)
        if fault is not None:
            return fault
    return None


@cache
def checks(kind: Any) -> tuple[tuple[str, Check, bool], ...]:
    """Return for each parameter of a kind of operator how to look at it, and whether it may be None."""
    found: list[tuple[str, Check, bool]] = []
    for field in fields(kind) if is_dataclass(kind) else ():
        plain = str(field.type).removesuffix(" | None")
        check = check_for(plain)
        if check is not None and not field.name.startswith("_"):
            found.append((field.name, check, plain != field.type))
    return tuple(found)


def check_for(declared: str) -> Check | None:
    if "Callable[" in declared:
        return check_of_functions(ast.parse(declared, mode="eval").body)
    if declared == "Time":
        return lambda op, name, value: None if isinstance(value, datetime) else fault_of_duration(name, value)
    if declared in DURATIONS:
        return lambda op, name, value: fault_of_duration(name, value)
    if declared == "int":
        return lambda op, name, value: fault_of_count(name, value)
    if declared == "Any":
        return lambda op, name, value: fault_of_coroutine(op, name, value)
    return None


def check_of_functions(declared: ast.expr) -> Check:
    """Return how to look at a function, at what may also be something else, or at a tuple of such."""
    members = list(members_of(declared))
    function = next(each for each in members if "Callable[" in ast.unparse(each))
    others = tuple(OTHERS[ast.unparse(each).split("[")[0]] for each in members if each is not function)
    inside: list[Any] = getattr(getattr(function, "slice", None), "elts", [])
    if ast.unparse(function).startswith("tuple["):
        return check_of_tuple([check_of_functions(each) for each in inside if ast.unparse(each) != "..."])
    count = len(inside[0].elts) if isinstance(inside[0], ast.List) else None

    def check(op: Operator, name: str, value: Any) -> str | None:
        is_other = not callable(value) and isinstance(value, others)
        return None if is_other else fault_of_function(op, name, value, count)

    return check


def check_of_tuple(each: list[Check]) -> Check:
    """Return how to look at a tuple with a check for each place, or with one for all."""

    def check(op: Operator, name: str, values: Any) -> str | None:
        pairs = zip(each if len(each) > 1 else each * len(values), values, strict=True)
        return next((fault for check, value in pairs if (fault := check(op, name, value)) is not None), None)

    return check


def members_of(declared: ast.expr) -> Iterator[ast.expr]:
    """Yield the members of a union."""
    if isinstance(declared, ast.BinOp):
        yield from members_of(declared.left)
        yield from members_of(declared.right)
    else:
        yield declared


def fault_of_function(op: Operator, name: str, value: Any, count: int | None) -> str | None:
    if not callable(value):
        return f"its {name} must be a function, got {cut(value)}"
    within = wrapped(value)
    if within is not None:
        return fault_of_function(op, name, within, count)
    try:
        return fault_of_coroutine(op, name, value) or (None if count is None else fault_of_arity(name, value, count))
    except Exception:  # of a proxy each attribute may raise: nothing is known of it
        return None


def wrapped(value: Any) -> Any:
    """Return the user's function in an object of ours that hands on its arguments as they are."""
    if not is_dataclass(value) or not type(value).__module__.startswith("reliable_rx.operators."):
        return None
    return next((getattr(value, each.name) for each in fields(value) if "Callable[..." in str(each.type)), None)


def fault_of_coroutine(op: Operator, name: str, value: Any) -> str | None:
    if inspect.iscoroutinefunction(value) and not op.calls_out:
        return f"its {name} is an async function, for which nobody waits: use map_async(...) to ask the world outside"
    if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        return f"its {name} is a generator function, and what it makes can be read only once: let it return a list"
    return None


def fault_of_arity(name: str, value: Any, count: int) -> str | None:
    """Say whether *value* cannot be called with *count* arguments, where that can be known for sure."""
    function = value
    while isinstance(function, (partial, _lru_cache_wrapper)):
        function = function.func if isinstance(function, partial) else function.__wrapped__
    shown = getattr(function, "__name__", type(function).__name__)
    if not isinstance(function, (FunctionType, MethodType)):
        function = getattr(type(function), "__call__", None)  # noqa: B004 - an object's own
        if isinstance(value, type) or not isinstance(function, FunctionType):
            return None
    signature = signature_of(value)
    if signature is None:
        return None
    try:
        signature.bind(*[None] * count)
    except TypeError:
        given = "no arguments" if not count else "one argument" if count == 1 else f"{count} arguments"
        return f"its {name} is called with {given}, but {shown}{signature} takes others: correct the function"
    return None


def fault_of_duration(name: str, value: Any) -> str | None:
    is_number = isinstance(value, Real) and not math.isnan(value)
    if is_number or isinstance(value, timedelta) or hasattr(value, "total_seconds"):
        return None
    return f"its {name} must be a number of seconds or a timedelta, got {cut(value)}"


def fault_of_count(name: str, value: Any) -> str | None:
    try:
        operator.index(value)
    except TypeError:
        return f"its {name} must be a whole number, got {cut(value)}"
    return None


def check_count(name: str, count: Any, least: int) -> None:
    """*Raises* `TypeError` for what is no whole number, `ArgumentOutOfRangeException` for one that is too small."""
    fault = fault_of_count(name, count) if type(count) is not int else None
    if fault is not None:
        raise TypeError(fault.removeprefix("its "))
    if count < least:
        raise ArgumentOutOfRangeException(f"{name} must be {least} or more, got {count}")


def check_function(name: str, function: Any, *arguments: str) -> None:
    """*Raises* `TypeError` for what cannot be called with *arguments*, where that can be known, or is asynchronous."""
    called = f"{name} is called with ({', '.join(arguments)})"
    if not callable(function):
        raise TypeError(f"{called}, got {cut(function)}: give a function")
    if is_async(function):
        kind = "generator" if inspect.isgeneratorfunction(function) else "async"
        raise TypeError(f"{called} and not awaited, got the {kind} function {cut(function)}: give a plain function")
    signature = signature_of(function)
    if signature is None:
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        takes = f"{getattr(function, '__name__', 'this one')}{signature}"
        raise TypeError(f"{called}, but {takes} takes others: correct the function") from error


def check_callable(name: str, function: Any) -> None:
    """*Raises* `TypeError` for what is no function, or asynchronous, whatever its arguments are."""
    if not callable(function):
        raise TypeError(f"{name} must be a function, got {cut(function)}")
    if is_async(function):
        raise TypeError(f"{name} is not awaited, got the function {cut(function)}: give a plain function")


def check_methods(what: str, thing: Any, methods: Mapping[str, tuple[str, ...]]) -> None:
    """*Raises* `TypeError` where *thing* has not all of *methods*, or one that cannot be called with its arguments."""
    for name, arguments in methods.items():
        if not hasattr(thing, name):
            wanted = f"{name}({', '.join(arguments)})"
            raise TypeError(f"{what} is {cut(thing)}, which has no method {wanted}: give it one")
        check_function(f"{name} of {what}", getattr(thing, name), *arguments)


def is_async(function: Any) -> bool:
    """Whether a call of *function* only makes a coroutine or a generator."""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    try:
        return any(each(function) or each(type(function).__call__) for each in kinds)
    except Exception:  # of a proxy each attribute may raise
        return False


def check_number(name: str, value: Any, *, least: float | None = None) -> None:
    """*Raises* `TypeError` for what is no number, `ValueError` for one below *least*; without it, it is positive."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, got {cut(value)}")
    if not (value > 0 if least is None else value >= least):
        wanted = "positive" if least is None else f"{least:g} or more"
        raise ValueError(f"{name} must be {wanted}, got {cut(value)}")


def check_key(what: str, key: Any) -> None:
    """*Raises* `TypeError` for a key by which nothing can be looked up.

    >>> check_key("the key of group_by", [1])
    Traceback (most recent call last):
    TypeError: the key of group_by is a list, by which nothing can be looked up: let it be a tuple, a text or a number
    """
    try:
        hash(key)
    except TypeError as error:
        kind = type(key).__name__
        raise TypeError(
            f"{what} is a {kind}, by which nothing can be looked up: let it be a tuple, a text or a number"
        ) from error


def check_boundaries(operator: str, value: Any) -> None:
    """*Raises* `TypeError` for a number in the place of the sequence whose elements end a window or a list."""
    if isinstance(value, (Real, timedelta)):
        clock = "tumbling_window(size_s)" if operator == "window" else "buffer_with_time(timespan)"
        raise TypeError(
            f"{operator} ends with what another sequence emits, got {cut(value)}: write {clock} for so many seconds, "
            f"or {operator}_with_count(count) for so many elements"
        )


def no_text(value: Any) -> Any:
    """Return what is given where a query is wanted. *Raises* `TypeError` for a text."""
    if isinstance(value, str):
        raise TypeError(
            f"expected an observable, a future or an iterable, got the text {cut(value)}: write "
            f"reliable_rx.source({cut(value)}) for the source of that name, or reliable_rx.of(...) for the value"
        )
    return value


def described(value: Any) -> str:
    """Say what *value* is, which should be a query, and what to write instead."""
    if value is None:
        return "None: let the function that is to make it return it"
    if isinstance(value, DisposableBase):
        return "a subscription, which a host makes by itself: return the sequence, without .subscribe(...)"
    if inspect.isawaitable(value):
        return f"{cut(value)}: use map_async(...) for what is to be awaited"
    if half := half_a_query(value, "query"):
        return half
    behind = "write .map(...) behind it for a function" if callable(value) else "use map for a plain value"
    return f"{cut(value)}; {behind}"


def place_in(key: Any) -> int:
    """Return the place of an element in a query. *Raises* `TypeError` for what is no number."""
    try:
        return operator.index(key)
    except TypeError:
        what = f"a query is indexed by the places of its elements, got {cut(key)}"
        raise TypeError(f"{what}: write .map(lambda each: each[{cut(key)}]) for a part of each") from None


def half_a_query(what: Any, before: str) -> str | None:
    """Say what is missing from *what* to be a query, if it is an operator or a method that was not called."""
    if isinstance(what, Operator):
        return (
            f"the operator {what.name} with nothing before it, not a query: write {before}.pipe({what.name}(...)), "
            f"with the operator's arguments"
        )
    if isinstance(getattr(what, "__self__", None), Observable):
        return f"the method {what.__name__} of a query, which is not called: write .{what.__name__}(...)"
    return None


def no_operator(query: Any, name: str) -> AttributeError:
    """Return the error for an attribute that no query has, with the nearest one that it has."""
    if name.startswith("_"):  # what protocols ask for
        return AttributeError(f"{type(query).__name__!r} object has no attribute {name!r}", name=name, obj=query)
    if name == "key":
        return AttributeError(NO_KEY, name=name)
    guess = known_elsewhere(name) or nearest(name, dir(type(query))) or ", nor another attribute of this name"
    return AttributeError(f"a query has no operator {name!r}{guess}", name=name)  # Python would guess, given the query


def no_attribute(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """Return the error for a *name* that a *module* of this library does not have, with the nearest of its *names*."""
    guess = known_elsewhere(name) or nearest(name, names)
    return AttributeError(f"module {module!r} has no attribute {name!r}{guess}", name=name)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the question for that one of *names* that was meant; nothing if none is near, or *name* is a protocol's.

    >>> nearest("sorce", ["source", "_sorce"]), nearest("__path__", ["path"])
    (": did you mean 'source'?", '')
    >>> nearest("mpa", ["max", "map"])
    ": did you mean 'map'?"
    """
    public = [] if name.startswith("_") else [each for each in names if not each.startswith("_")]
    close = get_close_matches(name, public)
    of_its_letters = [each for each in close if sorted(each) == sorted(name)]
    return f": did you mean {(of_its_letters or close)[0]!r}?" if close else ""


def cut(value: Any) -> str:
    """Return *value* as a message shows it.

    >>> cut([1, 2]), len(cut("x" * 58)), len(cut("x" * 59))
    ('[1, 2]', 60, 60)
    """
    try:
        text = bounded_repr(value, 60)
    except BaseException as raised:
        let_through(raised)
        return f"a {name_of(type(value))} that cannot be shown"
    if "\n" in text:  # a data frame, say
        text = " ".join(text.split())
    return cut_end(text, 60)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return *count* with its noun.

    >>> plural(1, "row"), plural(1200, "row"), plural(2, "query", "queries")
    ('1 row', '1,200 rows', '2 queries')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
