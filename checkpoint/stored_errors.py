"""Exceptions as data: type, text and traceback, and the exception itself only where it survives being stored.

What a user function raises may be anything: an exception whose constructor takes other arguments than its base was
given pickles and then does not unpickle, one that holds a lock does not pickle, one may raise when it is asked for its
text. So each is tried when it is stored, which is rare. What comes back is the exception, with its type, arguments and
attributes, or a `StoredError` that says the same. The codec does this for every exception, wherever in a value or a
state it lies.

Rejected: the exception by value where its class is local (byte code of another interpreter must not be loaded), and
leaving out the attributes that do not pickle (a handler that asks for one would find another error).
"""

from __future__ import annotations

import pickle
import traceback
from typing import Any

from reliable_rx.errors import StoredError, cut_middle, text_of, type_of
from reliable_rx.interrupts import let_through

Stored = tuple[str, str, str, bytes | None]
"""Qualified type, text, traceback, and the exception as bytes that are known to load."""
TRACE_CHARACTERS_MAX = 20_000
CHAIN_MAX = 10
"""How many errors of a chain of causes are told."""
LIBRARY = frozenset({"reliable_rx", "checkpoint", "hosting", "spark_bridge"})
_TRACE = "_stored_trace"
_ATOMS = (int, float, complex, str, bytes, bool, type(None))


def to_data(error: BaseException) -> Stored:
    """Return *error* as plain data. It never raises, whatever *error* is.

    >>> to_data(ValueError("no"))[:2]
    ('builtins.ValueError', 'no')
    """
    return type_of(error), text_of(error), trace_of(error), _surviving(error)


def from_data(kind: str, text: str, trace: str, surviving: bytes | None) -> BaseException:
    """Return the exception itself if its bytes still load here, else a `StoredError`.

    >>> from_data("app.Refused", "no", "", None)
    StoredError('no')
    """
    if surviving is not None:
        try:
            error: BaseException = pickle.loads(surviving)
            if trace:
                error.__dict__[_TRACE] = trace
            return error
        except BaseException as raised:  # its class is gone since, or another one: its data stands for it
            let_through(raised)
    return StoredError(text, type=kind, trace=trace)


def reduced(error: BaseException) -> tuple[Any, Stored]:
    """Say to pickle what *error* is made of."""
    return from_data, to_data(error)


def trace_of(error: BaseException) -> str:
    """Return the traceback of *error* as text; of one that came out of a store, the one that it had."""
    try:
        known = error.fields.get("trace") if type(error) is StoredError else error.__dict__.get(_TRACE)
        if known is not None:
            return str(known)
        text = "".join(traceback.format_exception(error))
    except BaseException as raised:
        let_through(raised)
        return ""
    return cut_middle(text, TRACE_CHARACTERS_MAX)


def lasting(error: Exception) -> Exception:
    """Return *error* as all will see it: itself if it survives being stored, else what would come back.

    So nobody sees the one before a restart and the other behind it.

    >>> lasting(ValueError("no"))
    ValueError('no')
    """
    if type(error) is StoredError or _surviving(error) is not None:
        return error
    return StoredError(text_of(error), type=type_of(error), trace=plain_trace(error))


def plain_trace(error: BaseException) -> str:
    """Return the traceback of *error* as a replay gives it too: file, line and function of each frame of the user's.

    The lines themselves are read from today's files, which may have been edited; frames of this library are another
    release's. Of a recursion that went too deep only the first is told, since how deep that is depends on who called.
    """
    try:
        known = error.fields.get("trace") if type(error) is StoredError else error.__dict__.get(_TRACE)
        if known is not None:
            return str(known)
        lines, each = list[str](), error
        for _ in range(CHAIN_MAX):
            lines[:0] = ["Traceback (most recent call last):", *_frames(each), f"{type_of(each)}: {text_of(each)}", ""]
            before = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
            if before is None:
                break
            each = before
    except BaseException as raised:
        let_through(raised)
        return ""
    return cut_middle("\n".join(lines), TRACE_CHARACTERS_MAX)


def _frames(error: BaseException) -> list[str]:
    counts: dict[str, int] = {}
    at = error.__traceback__
    while at is not None:
        code, module = at.tb_frame.f_code, str(at.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in LIBRARY:
            line = f'  File "{code.co_filename}", line {at.tb_lineno}, in {code.co_qualname}'
            counts[line] = counts.get(line, 0) + 1
        at = at.tb_next
    found = [line if count == 1 else f"{line}, more than once" for line, count in counts.items()]
    return found[:1] if isinstance(error, RecursionError) else found


def _surviving(error: BaseException) -> bytes | None:
    """Return bytes that load as an exception like *error*, or None."""
    for made in (error, _Bare(error)):
        try:
            data = pickle.dumps(made, 5)
            if _is_like(pickle.loads(data), error):
                return data
        except BaseException as raised:
            let_through(raised)
            continue
    return None


class _Bare:
    """An exception without its constructor, which may take other arguments than those that it has kept."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return bare, (type(self.error), self.error.args, self.error.__dict__)


def bare(kind: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    """Make an exception of *args* and *attributes* without calling its constructor."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


def _is_like(again: Any, error: BaseException) -> bool:
    """Whether *again* is an exception of the same type, with the same arguments as far as that can be told."""
    if type(again) is not type(error) or len(again.args) != len(error.args):
        return False
    same = all(
        type(new) is type(old) and (type(old) not in _ATOMS or new == old or new != new)
        for new, old in zip(again.args, error.args, strict=True)
    )
    return same and again.__dict__.keys() == error.__dict__.keys()
