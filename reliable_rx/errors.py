"""The errors of reliable_rx: few, and named after what the caller does next.

Every class derives from the builtin that a caller would already catch, carries its facts as fields, and
says a sentence with a remedy. They live here, below everything, because all four packages raise them.
Rejected: one class per failing part. A caller cannot act on "SqliteStoreWriterError".
"""

from __future__ import annotations

import re
from typing import Any

from reliable_rx.class_of import is_a, name_of, path_of
from reliable_rx.interrupts import let_through
from reliable_rx.shown import bounded_repr, is_light

UNSHOWN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys, or an encoding does not have."""


TEXT_MAX = 4000
"""How many characters are told of an error that would say very many."""


class ReliableRxError(Exception):
    """The common base: catch it to catch everything this library raises on purpose."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        fields: dict[str, Any] = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.fields))


def _rebuild(kind: type[ReliableRxError], message: str, fields: dict[str, Any]) -> ReliableRxError:
    return kind(message, **fields)


class CheckpointRefused(ReliableRxError, ValueError):
    """The stored bytes are not what was written: do not retry, look at the store.

    Fields: *what* is wrong and *where* (file, table, generation).
    """


class StoreUnavailable(ReliableRxError, OSError):
    """The disk did not do what it was asked: nothing was promised, retry when it is well again."""


class StoreOwned(ReliableRxError, OSError):
    """Another process or evaluator owns this store: stop it, or use another one. Field: *owner* (its pid)."""


class LeaseLost(ReliableRxError, PermissionError):
    """Another node has this partition by now: stop and write nothing. Fields: *partition*, *epoch*, *newest*."""


class OffsetsLoading(ReliableRxError, BlockingIOError):
    """An offset store is still reading its log: ask the same store again soon. Field: *where*."""


class OffsetsMoved(ReliableRxError, LookupError):
    """Another offset store is in charge of this group: ask that one. Fields: *group*, *to*."""


class NondeterminismDetected(ReliableRxError, RuntimeError):
    """A replay gave other outputs than the first run: mend the query. Fields: *query*, *turn*."""


class PositionUnavailable(ReliableRxError, LookupError):
    """The wanted events are no longer there (or not yet): start elsewhere. Fields: *wanted*, *first*, *end*."""


class SourceFailed(ReliableRxError, OSError):
    """A source cannot be read: mend the input. Fields: *source*, *partition*, *position*, *method* (of its own)."""


class QueryRefused(ReliableRxError, TypeError):
    """This query cannot be hosted as it is written: change it. Field: *path* of the part that cannot."""


class QueryDisposed(ReliableRxError, LookupError):
    """The query was disposed of, and its stream ends here: wait until one is created under its name. Field: *query*."""


class TooLate(ReliableRxError, RuntimeError):
    """What is asked for had to be asked before: the evaluator has started, or is closed. Make another one."""


class AnswerRefused(ReliableRxError, TypeError):
    """A call out of a query answered with what cannot be recorded: let it return plain data, or raise such an error."""


class ValueRefused(ReliableRxError, TypeError, ValueError):
    """A sink cannot write this value: give the sink a function for it, or declare it with ``on_error=``.

    A query that maps it does so with the values to come.

    Field: *n*, the id of the value.
    """


class LimitExceeded(ReliableRxError, OverflowError):
    """A state grew past its limit: raise the limit or bound the query. Fields: *path*, *limit*, *most*."""


class StoredError(ReliableRxError, RuntimeError):
    """An exception as a store has it, where it could not be stored itself: look at what it was.

    It reads like the exception that it stands for. Fields: *type* (its qualified name), *trace* (its traceback).
    """


class InternalError(ReliableRxError, AssertionError):
    """A bug in reliable_rx: the evaluator has stopped. Recover from the last checkpoint, and report it."""


def type_of(error: BaseException) -> str:
    """Name the type of *error*, also of one that came out of a store without it.

    >>> type_of(KeyError("k")), type_of(StoredError("no", type="app.Refused", trace=""))
    ('builtins.KeyError', 'app.Refused')
    """
    kind = type(error)
    stored = error.__dict__.get("fields", {}).get("type") if kind is StoredError else None
    return str(stored) if stored else path_of(kind)


def text_of(error: BaseException) -> str:
    """Return what *error* says; that of a user may fail at it."""
    try:
        if is_heavy(error):
            return bounded_repr(error.args[0] if len(error.args) == 1 else error.args, TEXT_MAX)
        return str.__str__(str(error))
    except BaseException as failed:
        let_through(failed)
        return f"<its text cannot be had: {name_of(type(failed))}>"


def is_heavy(error: BaseException) -> bool:
    """Whether *error* holds too much to say it. A text of its own may be long, and a group tells only a number."""
    says_text = len(error.args) == 1 and is_a(error.args[0], str)
    return not says_text and type(error).__str__ is not BaseExceptionGroup.__str__ and not is_light(error)


def described(error: BaseException) -> str:
    r"""Say what *error* is in one line, whatever its own text does, and however long it is.

    >>> described(ValueError("no")), described(ValueError("a\nb\ud800")), described(KeyboardInterrupt())
    ('ValueError: no', 'ValueError: a\\nb\\ud800', 'KeyboardInterrupt')
    """
    kind, text = type_of(error).rpartition(".")[2], cut_middle(text_of(error))
    return one_line(f"{kind}: {text}" if text else kind)


def cut_middle(text: str, characters_max: int = TEXT_MAX) -> str:
    """Return *text* without what is too long of it, in its middle: a sentence ends with its remedy.

    >>> cut_middle("the disk is full; make room", 20)
    'the disk i…make room'
    """
    if len(text) <= characters_max:
        return text
    end = (characters_max - 1) // 2
    return f"{text[: characters_max - 1 - end]}…{text[len(text) - end :]}"


def one_line(text: str) -> str:
    r"""Return *text* as one line that a terminal shows and does not obey; what controls one stands there escaped.

    Those are control characters but the tab, halves of surrogate pairs, other ends of lines, and what turns the
    direction of writing.

    >>> one_line("a\tb\n\x1b[31mc\ud800\u202e")
    'a\tb\\n\\x1b[31mc\\ud800\\u202e'
    """
    if text.isprintable():
        return text
    return UNSHOWN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable(text: str, characters_max: int = TEXT_MAX) -> str:
    r"""Return *text* as any log, terminal or file can show it, in its lines: without halves of surrogate pairs or
    control characters, and not endless.

    >>> printable("a\ud800"), printable("abcdef", 4), printable("a\nb\x1b[31m")
    ('a\\ud800', 'ab…f', 'a\nb\\x1b[31m')
    """
    text = cut_middle(text, characters_max)
    return text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))


def invariant(condition: object, claim: str) -> None:
    """Raise `InternalError` unless *condition* holds; unlike ``assert`` it survives ``python -O``.

    >>> invariant(2 > 1, "generations are consecutive")
    """
    if not condition:
        raise InternalError(f"broken invariant: {claim}; this is a bug in reliable_rx, please report it")
