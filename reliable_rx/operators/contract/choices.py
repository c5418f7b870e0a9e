"""Arguments that are one of a few words, as types that a type checker knows and one check for all at run time.

Three of them say what is done with something bad, each at another place: `policy` of a query, `on_error` of a sink,
`on_bad_record` of a source. They have one set of words, so they are easily taken for each other; who gives a function
the keyword of another is told which it has. Rejected: one keyword for all three (what is left out, and where a dead
letter lies, is another thing each time), and enumerations (one more import for each word).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar, get_args

from reliable_rx.shown import bounded_repr

Policy = Literal["fail", "skip", "dead_letter"]
"""What becomes of an event at which a function of a query raises."""
OnError = Literal["fail", "skip", "dead_letter"]
"""What becomes of what a sink cannot write."""
OnBadRecord = Literal["fail", "skip", "dead_letter"]
"""What becomes of a record that a source cannot read."""
Late = Literal["drop", "keep", "side"]
"""What becomes of an event that comes behind the clock of a query on event time."""
Delivery = Literal["exactly_once", "at_least_once"]
"""When outputs become visible: once they are durable, or at once."""
Scope = Literal["partition", "all"]
"""What of its sources a query must see where nodes share the partitions."""
Effects = Literal["always", "live"]
"""Whether the effects of an operator are repeated with the turns of a replay."""

FATES: Mapping[str, tuple[str, Any]] = {
    "policy": ("a query (App.query, QueryEvaluator.create)", Policy),
    "on_error": ("a sink (App.sink, QueryEvaluator.sink)", OnError),
    "on_bad_record": ("a source (FileSource, KafkaSource, push)", OnBadRecord),
    "late": ("the clock of a query (event_time)", Late),
}
"""The keywords that say what becomes of something bad, where each belongs, and its words."""
P = ParamSpec("P")
R = TypeVar("R")


def check_choice(what: str, value: Any, choice: Any) -> None:
    """*Raises* `ValueError` if *value* is none of the words of the type *choice*.

    >>> check_choice("late", "skip", Late)
    Traceback (most recent call last):
    ValueError: late must be one of drop, keep, side, got 'skip'
    """
    words = get_args(choice)
    if not (isinstance(value, str) and value in words):
        raise ValueError(f"{what} must be one of {', '.join(words)}, got {bounded_repr(value, 60)[:60]}")


def names_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Have *function* answer a keyword that it does not take by the one that was meant, and too few by what it needs.

    >>> @names_keywords
    ... def sink(stream: str, *, on_error: OnError = "fail") -> None: ...
    >>> sink("q", policy="skip")
    Traceback (most recent call last):
    TypeError: sink has no argument 'policy', which is that of a query (App.query, QueryEvaluator.create): here it is \
on_error, one of fail, skip, dead_letter
    >>> sink()
    Traceback (most recent call last):
    TypeError: sink is called without stream: write sink(stream)
    """
    parameters = inspect.signature(function).parameters
    named = [each for each in parameters.values() if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    takes = [each.name for each in named if each.name != "self"]
    needed = [each.name for each in named if each.default is each.empty]
    known = frozenset(takes)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs.keys() <= known:
            raise TypeError(
                unknown_keyword(called(function), next(each for each in kwargs if each not in known), takes)
            )
        if len(args) < len(needed) and (missing := [each for each in needed[len(args) :] if each not in kwargs]):
            raise TypeError(too_few(called(function), missing, needed))
        return function(*args, **kwargs)

    return checked


def called(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__").rpartition(".")[2]


def too_few(function: str, missing: Iterable[str], needed: Iterable[str]) -> str:
    """Say what *function* is to be called with."""
    without = " and ".join(each for each in missing if each != "self")
    return f"{function} is called without {without}: write {function}({', '.join(e for e in needed if e != 'self')})"


def unknown_keyword(function: str, given: str, takes: Iterable[str]) -> str:
    """Say what *function* has in place of the keyword *given*."""
    there = list(takes)
    what = f"{function} has no argument {given!r}"
    if given in FATES:
        what += f", which is that of {FATES[given][0]}"
        own = next((each for each in FATES if each in there), None)
        return f"{what}: " + (
            f"here it is {own}, one of {', '.join(get_args(FATES[own][1]))}" if own else "give it there"
        )
    close = difflib.get_close_matches(given, there, n=1)
    return f"{what}; " + (f"did you mean {close[0]!r}? " if close else "") + f"it takes {', '.join(there)}"
