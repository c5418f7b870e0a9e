"""The classes that hostile draws are made of: each does one legal thing that no library likes to meet.

They lie at the top of a module, so that they pickle by name wherever they pickle at all.
"""

from __future__ import annotations

import itertools
import threading
from enum import Enum
from typing import Any

DEEP = 10_000
_ADDRESSES = itertools.count(0x7F0000000000, 16)

# -- values


class Text(str):
    """A text that is none to who asks for exactly `str`."""


class Number(int):
    """A number that is none to who asks for exactly `int`."""


class Bare:
    """Compares by identity, and its text tells an address."""


class Slotted:
    """Has no `__dict__`."""

    __slots__ = ("inside",)

    def __init__(self) -> None:
        self.inside = 1


class Colour(Enum):
    RED = "red"


class NeverEqual:
    """Raises when it is compared."""

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError("not to be compared")

    __hash__ = object.__hash__


class NeverHashed:
    """Raises when it is hashed."""

    def __hash__(self) -> int:
        raise ArithmeticError("not to be hashed")


class Speechless:
    """Raises when it is shown."""

    def __repr__(self) -> str:
        raise ArithmeticError("not to be shown")

    __str__ = __repr__


class NeverOrdered:
    """Raises when it is ordered."""

    def __lt__(self, other: object) -> bool:
        raise ArithmeticError("not to be ordered")

    __gt__ = __le__ = __ge__ = __lt__


class Agreeable:
    """Says yes to whatever it is compared with, and is no number."""

    def __lt__(self, other: object) -> bool:
        return True

    __gt__ = __le__ = __ge__ = __lt__


class NeverFloat(float):
    """A number that raises when it is compared, added, or asked for a plain one."""

    def __lt__(self, other: object) -> bool:
        raise ArithmeticError("not to be counted with")

    __gt__ = __le__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = __lt__

    def __float__(self) -> float:
        raise ArithmeticError("not to be counted with")


class NeverStored:
    """Raises when it is pickled."""

    def __reduce__(self) -> Any:
        raise ArithmeticError("not to be stored")


class LeavesWhenStored:
    """Ends the process, if it is let, when it is pickled."""

    def __reduce__(self) -> Any:
        raise SystemExit(3)


class NeverRead:
    """Pickles, and raises when it is unpickled."""

    def __init__(self) -> None:
        self.inside = 1

    def __setstate__(self, state: Any) -> None:
        raise ArithmeticError("not to be read")


class LeavesWhenRead:
    """Pickles, and ends the process, if it is let, when it is unpickled."""

    def __reduce__(self) -> Any:
        return leave, ()


class InterruptsWhenStored:
    """Raises what a Ctrl-C raises when it is pickled."""

    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


class InterruptsWhenRead:
    """Pickles, and raises what a Ctrl-C raises when it is made again."""

    def __reduce__(self) -> Any:
        return interrupt, ()


class InterruptsWhenFilled:
    """Pickles, and raises what a Ctrl-C raises when it is given its state."""

    def __init__(self) -> None:
        self.inside = 1

    def __setstate__(self, state: Any) -> None:
        raise KeyboardInterrupt


class InterruptsWhenCompared:
    """Raises what a Ctrl-C raises when it is compared or hashed, and what is no `Exception` when it is shown."""

    def __repr__(self) -> str:
        raise Deadly("not to be shown")

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise KeyboardInterrupt

    def __hash__(self) -> int:
        raise KeyboardInterrupt


class StopsWhenRead:
    """Pickles, and raises what closes a generator when it is made again."""

    def __reduce__(self) -> Any:
        return stop, ()


class DeadlyWhenFilled:
    """Pickles, and raises what is no `Exception` when it is given its state."""

    def __init__(self) -> None:
        self.inside = 1

    def __setstate__(self, state: Any) -> None:
        raise Deadly("not to be read")


class DeadlyWhenStored:
    """Raises what is no `Exception` when it is pickled."""

    def __reduce__(self) -> Any:
        raise Deadly("not to be stored")


class NeverCopied:
    """Raises when it is copied, and pickles."""

    def __copy__(self) -> Any:
        raise ArithmeticError("not to be copied")

    def __deepcopy__(self, memo: Any) -> Any:
        raise ArithmeticError("not to be copied")


class Falsely:
    """Raises when its truth, its length or its attributes are asked for."""

    def __bool__(self) -> bool:
        raise ArithmeticError("not to be judged")

    def __len__(self) -> int:
        raise ArithmeticError("not to be measured")

    def __iter__(self) -> Any:
        raise ArithmeticError("not to be walked")


def leave() -> Any:
    raise SystemExit(3)


def interrupt() -> Any:
    raise KeyboardInterrupt


def stop() -> Any:
    raise GeneratorExit


def itself() -> list[Any]:
    """Return a list that holds itself."""
    found: list[Any] = [1]
    found.append(found)
    return found


def nested(depth: int = DEEP) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def counting() -> Any:
    yield 1


async def awaited() -> int:
    return 1


def coroutine() -> Any:
    """Return a coroutine that has been closed, so that nobody is warned of it."""
    made = awaited()
    made.close()
    return made


# -- errors


class Refused(ValueError):
    """Its constructor takes other arguments than it keeps, so it pickles and does not unpickle."""

    def __init__(self, place: str, amount: int) -> None:
        super().__init__(f"{place}: {amount}")
        self.amount = amount


class Holding(RuntimeError):
    """Holds a lock, so it does not pickle."""

    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


class Wordless(Exception):
    """Raises when it is asked for its text."""

    def __str__(self) -> str:
        raise ArithmeticError("no words")

    __repr__ = __str__


class Unequal(Exception):
    """Raises when it is compared or hashed."""

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


class LeavingError(Exception):
    """Ends the process, if it is let, when it is pickled."""

    def __reduce__(self) -> Any:
        raise SystemExit(3)


class InterruptingError(Exception):
    """Raises what a Ctrl-C raises when it is pickled, and what is no `Exception` when it is asked for its text."""

    def __reduce__(self) -> Any:
        raise KeyboardInterrupt

    def __str__(self) -> str:
        raise Deadly("no words")

    __repr__ = __str__


class DeadlyError(Exception):
    """Raises what is no `Exception` when it is made again."""

    def __reduce__(self) -> Any:
        return stop, ()


class Telling(Exception):
    """Its text is another one each time, as if it told an address."""

    def __init__(self) -> None:
        super().__init__(f"<object at {next(_ADDRESSES):#x}>")


class Deadly(BaseException):
    """Is no `Exception`."""


def chained() -> BaseException:
    error, error.__cause__ = Refused("late", 1), Holding()
    return error


def round_about() -> BaseException:
    error = ValueError()
    error.args = (error,)
    return error


def doubled() -> BaseException:
    """Return a group of one group twice, which is so too, and so on: Python shows every member of each."""
    error: Exception = Holding()
    for _ in range(40):
        error = ExceptionGroup("again", [error, error])
    return error


def entangled() -> BaseException:
    """Return an error with a list of one list twice, which is so too, and so on: small, and endless if shown."""
    value: Any = "a"
    for _ in range(40):
        value = [value, value]
    return ValueError(value, {"of": value})
