"""A real Ctrl-C, told from a `KeyboardInterrupt` that a user's code raises by itself.

A signal's handler runs in the main thread and raises it between two byte codes, or inside something that waits. What
a function raises comes from a `raise` in the innermost frame of its traceback, or was thrown into that frame where it
stands at a `yield` or an `await` (since Python 3.13 a `yield` cannot be told: then it is taken for a signal). A
handler that is written in Python has a `raise` too: it is known by its code, as one that is in force, or by its
arguments, which are a number and the frame that it interrupts (it may have put the former handler back before it
raises). Rejected: to put in one of ours (who embeds an evaluator has the say about signals).

Wherever code of the user runs (functions, and what values do when they are stored, read, shown or compared), all that
it raises is caught, and `let_through` is asked first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_VARARGS
from itertools import pairwise
from opcode import opmap
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from reliable_rx.class_of import attribute_of, is_a

_NO_SIGNAL = {
    opmap[name]
    for name in (
        "RAISE_VARARGS", "RERAISE",
        "RETURN_GENERATOR", "POP_TOP", "YIELD_VALUE", "JUMP_BACKWARD_NO_INTERRUPT",
    )
}  # fmt: skip
"""Where no signal is looked at: a function has raised (first row), or an exception was thrown into it (second row)."""
_RAISES_LATER = "asyncio.runners"
"""Where `asyncio.run` is: on Ctrl-C it cancels its task, and then raises."""
_SEND, _RESUME, _BEHIND_AWAIT = opmap["SEND"], opmap["RESUME"], 2
_AWAITS = CO_COROUTINE | CO_ASYNC_GENERATOR


def is_interrupt(raised: KeyboardInterrupt) -> bool:
    """Whether a signal has raised it, and no function by itself."""
    if threading.current_thread() is not threading.main_thread():
        return False
    at = last = raised.__traceback__
    in_force = list(_codes_of_handlers())
    while at is not None:
        if any(at.tb_frame.f_code is code for code in in_force) or _is_handler(at.tb_frame):
            return True
        last, at = at, at.tb_next
    if last is None or last.tb_frame.f_globals.get("__name__") == _RAISES_LATER:
        return True
    return not _is_own(last.tb_frame.f_code, last.tb_lasti)


def _is_own(code: CodeType, at: int) -> bool:
    """Whether what comes out of this instruction was raised by the code. At the `RESUME` of a `yield`, both may be.

    So it is where a generator reads from what is written in C, which may wait: what a coroutine awaits there does not.
    """
    step, argument = code.co_code[at : at + 2]
    if step == _SEND:
        return bool(code.co_flags & _AWAITS)
    return step in _NO_SIGNAL or (step == _RESUME and argument & 3 >= _BEHIND_AWAIT)


def _codes_of_handlers() -> Iterator[CodeType]:
    """Give the code of each handler in force that is written in Python."""
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while is_a(handler, partial):
            handler = handler.func
        if is_a(handler, MethodType):
            handler = handler.__func__
        if not is_a(handler, FunctionType):
            handler = attribute_of(type(handler), "__call__")
        if is_a(handler, FunctionType):
            yield handler.__code__


def _is_handler(frame: FrameType) -> bool:
    """Whether it is the call of a signal's handler: it was given the signal's number and the frame that called it."""
    return any(given is frame.f_back and is_a(number, int) for number, given in pairwise(_arguments(frame)))


def _arguments(frame: FrameType) -> list[Any]:
    code, values = frame.f_code, frame.f_locals
    taken = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & CO_VARARGS:
        more = values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        taken += more if type(more) is tuple else ()  # the name may be bound to something else by now
    return taken


def let_through(raised: BaseException) -> None:
    """Raise *raised* again if it is an interrupt; anything else is what some code of the user has raised.

    >>> let_through(SystemExit(3))
    """
    if is_a(raised, KeyboardInterrupt) and is_interrupt(raised):
        raise raised
