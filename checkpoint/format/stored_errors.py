"""Exceptions as data: type, text and traceback, and the exception itself only where it survives being stored.

What a user function raises may be anything: an exception whose constructor takes other arguments than its base was
given pickles and then does not unpickle, one that holds a lock does not pickle, one may raise when it is asked for its
text. So each is tried when it is stored, which is rare. What comes back is the exception, with its type, arguments and
attributes, or a `StoredError` that says the same. The codec does this for every exception, wherever in a value or a
state it lies. So it is with what it was raised from (`__cause__`), or while what was handled (`__context__`), as far as
`CHAIN_MAX` errors go, and with the members of a group, as far as there are no more than `MEMBERS_MAX` of them in all.

Rejected: the exception by value where its class is local (byte code of another interpreter must not be loaded), and
leaving out the attributes that do not pickle (a handler that asks for one would find another error).
"""

from __future__ import annotations

import copyreg
import io
import pickle
import traceback
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

from checkpoint.format.named_fields import reducer_of
from reliable_rx.class_of import is_a, is_odd
from reliable_rx.errors import StoredError, cut_middle, is_heavy, text_of, type_of
from reliable_rx.handled import apart, cut
from reliable_rx.interrupts import let_through

Link = tuple[bool, str, str, bytes | None]
"""Whether the error before was raised from this one, not while it was handled; qualified type, text, and as bytes."""
Member = tuple[str, str, bytes | None, tuple[Link, ...]]
"""Of an error in a group: qualified type, text, as bytes, and what led to it."""
Stored = tuple[str, str, str, bytes | None, tuple[Link, ...]]
"""Qualified type, text, traceback, the exception as bytes that are known to load, and those that led to it."""
TRACE_CHARACTERS_MAX = 20_000
CHAIN_MAX = 10
"""How many errors of a chain of causes are told and stored."""
CAUSE_BYTES_MAX = 1 << 16
"""How long an error that led to another one may be, to be stored as itself and not as what it said."""
ERROR_BYTES_MAX = 1 << 20
"""How long an error may be with which a source ends, to be stored as itself and not as what it said."""
MEMBERS_MAX = 100
"""How many members of a group, of groups in it and of those that led to it are stored one by one."""
MEMBERS_TOLD_MAX = 30
LIBRARY = frozenset({"reliable_rx", "checkpoint", "hosting", "spark_bridge"})
_TRACE = "_stored_trace"
_TRACEBACK: Any = BaseException.__dict__["__traceback__"]
"""Asks no code of a class, which may answer anything."""
_ATOMS = (int, float, complex, str, bytes, bool, type(None))


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return where *error* was raised, whatever its class says."""
    found: TracebackType | None = _TRACEBACK.__get__(error)
    return found


def to_data(error: BaseException) -> Stored:
    """Return *error* as plain data. It never raises, whatever *error* is.

    >>> to_data(ValueError("no"))[:2]
    ('builtins.ValueError', 'no')
    """
    room = _Room()
    with apart(error):
        return type_of(error), text_of(error), trace_of(error), _surviving(error, room), tuple(_links(error, room))


def from_data(kind: str, text: str, trace: str, surviving: bytes | None, links: tuple[Link, ...] = ()) -> BaseException:
    """Return the exception itself if its bytes still load here, else a `StoredError`, with what led to it.

    >>> from_data("app.Refused", "no", "", None)
    StoredError('no')
    """
    return _led(_loaded(kind, text, trace, surviving), links)


def from_store(error: Exception) -> Exception:
    """Return *error* as it would come out of a store, where all may see it before and behind a restart.

    Its traceback is text, and what pickle leaves out is gone. One that is too long is what it said.

    >>> from_store(ValueError("no"))
    ValueError('no')
    """
    cut(error)
    kind, text, trace, surviving, links = to_data(error)
    if surviving is not None and len(surviving) > ERROR_BYTES_MAX:
        surviving = None
    found: Any = from_data(kind, text if surviving is not None else cut_middle(text), trace, surviving, links)
    return found  # type: ignore[no-any-return]


def _led(error: BaseException, links: Iterable[Link]) -> BaseException:
    """Let *error* be what *links* have led to."""
    at = error
    for is_cause, kind, text, surviving in links:
        found = _loaded(kind, text, "", surviving)
        at.__context__ = found
        if is_cause:
            at.__cause__ = found
        at = found
    return error


def _links(error: BaseException, room: _Room) -> Iterator[Link]:
    """Yield what led to *error*, and what led to that."""
    seen = {id(error)}
    while len(seen) < CHAIN_MAX and (found := before(error)) is not None and id(found) not in seen:
        is_cause, data = found is error.__cause__, _surviving(found, room)
        small = data if data is not None and len(data) <= CAUSE_BYTES_MAX else None
        yield is_cause, type_of(found), cut_middle(text_of(found)), small
        seen.add(id(found))
        room.is_whole &= small is not None and len(seen) < CHAIN_MAX
        error = found


def before(error: BaseException) -> BaseException | None:
    """Return what *error* was raised from, or while what was handled, as Python shows it; None if there is none."""
    if is_odd(error):
        return None
    try:
        cause = error.__cause__
        return cause if cause is not None or error.__suppress_context__ else error.__context__
    except BaseException as raised:  # a class may say otherwise
        let_through(raised)
        return None


def _loaded(kind: str, text: str, trace: str, surviving: bytes | None) -> BaseException:
    if surviving is not None:
        try:
            error: BaseException = pickle.loads(surviving)
            _check(error)
            if trace and type(error) is not StoredError:  # which has it among its fields
                error.__dict__[_TRACE] = trace
            return error
        except BaseException as raised:  # its class is gone since, or another one: its data stands for it
            let_through(raised)
    return StoredError(text, type=kind, trace=trace)


def _check(error: BaseException) -> None:
    """*Raises* `TypeError` for what is no error, or one that does not do what all errors do: its data stands for it."""
    if not is_a(error, BaseException) or is_odd(error):
        raise TypeError("its class answers otherwise than those of errors do")


def reduced(error: BaseException) -> tuple[Any, Stored]:
    """Say to pickle what *error* is made of."""
    return from_data, to_data(error)


def trace_of(error: BaseException) -> str:
    """Return the traceback of *error* as text; of one that came out of a store, the one that it had."""
    try:
        known = error.fields.get("trace") if type(error) is StoredError else error.__dict__.get(_TRACE)
        if known is not None:
            return str(known)
        if _is_wide(error):
            return plain_trace(error)
        with apart(error):
            text = "".join(traceback.format_exception(error))
    except BaseException as raised:
        let_through(raised)
        return _bare_trace(error)
    return cut_middle(text, TRACE_CHARACTERS_MAX)


def lasting(error: Exception) -> Exception:
    """Return *error* as all will see it: itself if it survives being stored, else what would come back.

    So nobody sees the one before a restart and the other behind it.

    >>> lasting(ValueError("no"))
    ValueError('no')
    """
    cut(error)
    room = _Room()
    data, links = _surviving(error, room), list(_links(error, room))
    if type(error) is StoredError or data is not None:
        if room.is_whole:
            return error
        found: Any = _loaded(type_of(error), text_of(error), trace_of(error), data)
    else:
        found = StoredError(text_of(error), type=type_of(error), trace=plain_trace(error))
    _led(found, links)
    return found  # type: ignore[no-any-return]


def plain_trace(error: BaseException) -> str:
    """Return the traceback of *error* as a replay gives it too: module, line and function of the user's frames.

    The lines themselves are read from today's files, which may have been edited; frames of this library are another
    release's. Of a recursion that went too deep only the first is told, since how deep that is depends on who called.
    """
    try:
        known = error.fields.get("trace") if type(error) is StoredError else error.__dict__.get(_TRACE)
        if known is not None:
            return str(known)
        with apart(error):
            lines = _told(error, [MEMBERS_TOLD_MAX])
    except BaseException as raised:
        let_through(raised)
        return _bare_trace(error)
    return cut_middle("\n".join(lines), TRACE_CHARACTERS_MAX)


def _bare_trace(error: BaseException) -> str:
    """Return what can be had of one that raises whatever it is asked: where it was raised, and its type."""
    lines = ["Traceback (most recent call last):", *_frames(error), f"{type_of(error)}: {text_of(error)}"]
    return cut_middle("\n".join(lines), TRACE_CHARACTERS_MAX)


def _told(error: BaseException, room: list[int]) -> list[str]:
    """Return the lines of *error* behind those of what led to it, with as many members of groups as have *room*."""
    lines = list[str]()
    for _ in range(CHAIN_MAX):
        what = f"{type_of(error)}: {cut_middle(text_of(error), TRACE_CHARACTERS_MAX)}"
        lines[:0] = ["Traceback (most recent call last):", *_frames(error), what, *_members_told(error, room), ""]
        led = before(error)
        if led is None:
            break
        error = led
    return lines


def _members_told(error: BaseException, room: list[int]) -> Iterator[str]:
    members = error.exceptions if is_a(error, BaseExceptionGroup) else ()
    for number, member in enumerate(members, 1):
        if room[0] <= 0:
            yield f"  and {len(members) - number + 1:,} more"
            return
        room[0] -= 1
        yield f"  {number} of {len(members):,}:"
        yield from (f"    {line}" for line in _told(member, room)[:-1])


def _is_wide(error: BaseException) -> bool:
    """Whether Python would write for long: of members of groups, which may be in several, or what an error holds."""
    waiting, seen, members = [error], {id(error)}, 0
    while waiting:
        at = waiting.pop()
        if is_heavy(at):
            return True
        if is_a(at, BaseExceptionGroup):
            members += len(at.exceptions)
            if members > MEMBERS_MAX:
                return True
            waiting += at.exceptions
        for led in (at.__cause__, at.__context__):
            if led is not None and id(led) not in seen:
                seen.add(id(led))
                waiting.append(led)
    return False


def _frames(error: BaseException) -> list[str]:
    """Name the frames by their modules: code that was stored and is replayed knows no path, and folders are moved."""
    counts: dict[str, int] = {}
    at = traceback_of(error)
    while at is not None:
        code, module = at.tb_frame.f_code, str(at.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in LIBRARY:
            line = f'  File "{module.replace(".", "/")}.py", line {at.tb_lineno}, in {code.co_qualname}'
            counts[line] = counts.get(line, 0) + 1
        at = at.tb_next
    found = [line if count == 1 else f"{line}, more than once" for line, count in counts.items()]
    return found[:1] if is_a(error, RecursionError) else found


class _Room:
    """For how many members of groups there is room yet, and whether all was stored as what it is."""

    __slots__ = ("is_whole", "left")

    def __init__(self) -> None:
        self.left = MEMBERS_MAX
        self.is_whole = True


def _surviving(error: BaseException, room: _Room) -> bytes | None:
    """Return bytes that load as an exception like *error*, or None."""
    is_group = is_a(error, BaseExceptionGroup)
    for made in (_Group(error, room), error, _Bare(error)) if is_group else (error, _Bare(error)):
        try:
            _check(error)
            data = _dumped(made)
            if _is_like(pickle.loads(data), error):
                return data
        except BaseException as raised:
            let_through(raised)
        room.is_whole &= not is_group
    return None


class _ByNames(dict[type, Any]):
    """How what an exception holds is taken apart; an exception itself as it says."""

    def __missing__(self, kind: type) -> Any:
        found = None
        if not issubclass(kind, (BaseException, type)):
            found = copyreg.dispatch_table.get(kind) or reducer_of(kind)
        if found is None:
            raise KeyError(kind)
        return found


class _Pickler(pickle.Pickler):
    __slots__ = ()
    dispatch_table = _ByNames()


def _dumped(made: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, 5).dump(made)
    return buffer.getvalue()


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


class _Group:
    """A group with each member stored as what it is, or as what it said, and with what led to it."""

    def __init__(self, error: Any, room: _Room) -> None:
        self.error = error
        self.room = room

    def __reduce__(self) -> tuple[Any, ...]:
        error, room, members = self.error, self.room, self.error.exceptions
        room.left -= len(members)
        if room.left < 0:
            raise ValueError("there are too many errors in this group to be stored one by one")
        stored = tuple(_member(each, room) for each in members)
        places = {id(each): place for place, each in enumerate(members)}
        arguments = tuple(_placed(each, places) for each in error.args)
        return group, (type(error), error.message, stored, arguments, error.__dict__)


def _member(error: BaseException, room: _Room) -> Member:
    data = _surviving(error, room)
    room.is_whole &= data is not None
    return type_of(error), cut_middle(text_of(error)), data, tuple(_links(error, room))


def _placed(argument: Any, places: dict[int, int]) -> tuple[Any, list[int], bool]:
    """Return an argument of a group, or the places of the members that are in it, and whether it is one of these."""
    if type(argument) in (list, tuple) and all(id(each) in places for each in argument):
        return type(argument), [places[id(each)] for each in argument], False
    return (None, [places[id(argument)]], True) if id(argument) in places else (argument, [], True)


def group(
    kind: type[BaseExceptionGroup[Any]],
    message: str,
    stored: tuple[Member, ...],
    arguments: tuple[tuple[Any, list[int], bool], ...],
    attributes: dict[str, Any],
) -> BaseException:
    """Make a group of its members without calling its constructor."""
    members = [_led(_loaded(kind, text, "", data), links) for kind, text, data, links in stored]
    error: BaseExceptionGroup[Any] = BaseExceptionGroup.__new__(kind, message, members)
    error.args = tuple(
        (members[places[0]] if places else made) if is_one else made(members[place] for place in places)
        for made, places, is_one in arguments
    )
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
