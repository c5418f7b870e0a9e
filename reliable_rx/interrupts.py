"""A real Ctrl-C, told from a `KeyboardInterrupt` that a user's code raises by itself.

One that a function raised was raised by a `raise` in the innermost frame of its traceback; a signal's handler raises it
between two byte codes, or inside something that waits. A handler that is written in Python has a `raise` too, but it is
given the frame that it interrupts, and so has its caller's frame in a variable.

Wherever code of the user runs (functions, and what values do when they are stored, read, shown or compared), all that
it raises is caught, and `let_through` is asked first.
"""

from __future__ import annotations

from opcode import opmap

from reliable_rx.class_of import is_a

_RAISE = opmap["RAISE_VARARGS"]


def is_interrupt(raised: KeyboardInterrupt) -> bool:
    """Whether a signal has raised it, and no function by itself."""
    at = last = raised.__traceback__
    while at is not None:
        frame = at.tb_frame
        if frame.f_back is not None and any(each is frame.f_back for each in frame.f_locals.values()):
            return True
        last, at = at, at.tb_next
    return last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE


def let_through(raised: BaseException) -> None:
    """Raise *raised* again if it is an interrupt; anything else is what some code of the user has raised.

    >>> let_through(SystemExit(3))
    """
    if is_a(raised, KeyboardInterrupt) and is_interrupt(raised):
        raise raised
