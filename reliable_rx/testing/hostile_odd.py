"""Hostile classes that answer with code of their own what everyone asks of a class: what it is, and what it is called.

All are legal, and known from proxies, compiled extensions and object mappers. `VALUES` and `ERRORS` are for
`reliable_rx.testing.hostile`: name, how to make one, and its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_STORABLE, _UNREADABLE, _UNSTORABLE = "storable", "unreadable", "unstorable"


class ComparingMeta(type):
    """Its classes are compared by name, and have no hash."""

    def __eq__(cls, other: object) -> bool:
        return type(other) is type(cls) and type.__repr__(cls) == type.__repr__(other)

    __hash__ = None  # type: ignore[assignment]


class RaisingMeta(type):
    """Its classes raise when they are hashed, compared, or asked what is one of them."""

    def __hash__(cls) -> int:
        raise ArithmeticError("not to be hashed")

    def __eq__(cls, other: object) -> bool:
        raise ArithmeticError("not to be compared")

    def __instancecheck__(cls, instance: object) -> bool:
        raise ArithmeticError("not to be asked")

    __subclasscheck__ = __instancecheck__


class SilentMeta(type):
    """Its classes raise when they are asked for an attribute, as for their name."""

    def __getattribute__(cls, name: str) -> Any:
        raise ArithmeticError("not to be asked")


class Lazy:
    """Says that it is a dict, as lazy proxies do."""

    def __repr__(self) -> str:
        return "Lazy()"

    __class__ = property(lambda self: dict)

    def __reduce__(self) -> Any:
        return Lazy, ()


class LazyText:
    """Says that it is a text, and has the length of one."""

    def __repr__(self) -> str:
        return "LazyText()"

    __class__ = property(lambda self: str)

    def __len__(self) -> int:
        return 3

    def __reduce__(self) -> Any:
        return LazyText, ()


class LazyError:
    """Says that it is an error."""

    __class__ = property(lambda self: ValueError)

    def __reduce__(self) -> Any:
        return LazyError, ()


class OddProxy:
    """A function whose attributes raise what nobody expects, as those of compiled proxies do."""

    def __call__(self, value: Any) -> Any:
        return value

    def __getattr__(self, name: str) -> Any:
        raise ArithmeticError("not to be asked")


class LazyClass:
    """Says that it is a class."""

    __class__ = property(lambda self: type)

    def __reduce__(self) -> Any:
        return LazyClass, ()


class Classless:
    """Raises when it is asked for its class."""

    def __repr__(self) -> str:
        return "Classless()"

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise ArithmeticError("not to be asked")

    def __reduce__(self) -> Any:
        return Classless, ()


class Compared(metaclass=ComparingMeta):
    """Its class has no hash."""

    def __repr__(self) -> str:
        return "Compared()"


class Raising(metaclass=RaisingMeta):
    """Its class raises."""


class Silent(metaclass=SilentMeta):
    """Its class raises when it is asked for its name."""


class Numbered:
    """The module of its class is a number."""

    def __repr__(self) -> str:
        return "Numbered()"

    __module__ = 7  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return numbered, ()


class Described:
    """The module of its class is a descriptor, as of the class of a compiled function."""

    __module__ = property(lambda self: "somewhere")

    def __reduce__(self) -> Any:
        return described, ()


class Silenced:
    """Raises when it is asked for what it has not."""

    def __getattr__(self, name: str) -> Any:
        raise ArithmeticError("not to be asked")


class NeverAsked:
    """Raises when it is asked for anything."""

    def __getattribute__(self, name: str) -> Any:
        raise ArithmeticError("not to be asked")


class Many:
    """Is compared element by element, so that whether it is equal has no truth."""

    def __repr__(self) -> str:
        return "Many()"

    def __eq__(self, other: object) -> Any:
        return Manifold()

    __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __eq__
    __hash__ = None  # type: ignore[assignment]


class Manifold:
    """Has no truth, as an array has none."""

    def __bool__(self) -> bool:
        raise ValueError("the truth of more than one element is ambiguous")


def numbered() -> Numbered:
    return Numbered()


def described() -> Described:
    return Described()


class ClasslessError(Exception):
    """Raises when it is asked for its class."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            raise ArithmeticError("not to be asked")
        return super().__getattribute__(name)


class NeverAskedError(Exception):
    """Raises when it is asked for anything."""

    def __getattribute__(self, name: str) -> Any:
        raise ArithmeticError("not to be asked")


class ComparedError(Exception, metaclass=ComparingMeta):
    """Its class has no hash."""


class SilentError(Exception, metaclass=SilentMeta):
    """Its class raises when it is asked for its name."""


class NumberedError(Exception):
    """The module of its class is a number."""

    __module__ = 7  # type: ignore[assignment]


class FixedError(Exception):
    """Its context cannot be set, and its cause is no exception."""

    __context__ = property(lambda self: None)
    __cause__ = 3  # type: ignore[assignment]


class UntracedError(Exception):
    """Its traceback is no traceback."""

    __traceback__ = 3  # type: ignore[assignment]


class SpacelessError(Exception):
    """Raises when it is asked for its attributes or arguments."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise ArithmeticError("not to be asked")

    args = __dict__


def silenced_text() -> Exception:
    """Return an error whose argument says that it is a text."""
    return ValueError(LazyText())


def odd_arguments() -> Exception:
    """Return an error with arguments of odd classes."""
    return ValueError(Lazy(), Classless(), Compared(), Many(), Numbered())


def led_by_odd() -> Exception:
    """Return an error that odd ones have led to."""
    error = ValueError("late")
    error.__context__ = FixedError("before")
    error.__cause__ = ClasslessError("before")
    return error


VALUES: tuple[tuple[str, Callable[[], Any], str], ...] = (
    ("lazily a dict", Lazy, _STORABLE),
    ("lazily a text", LazyText, _STORABLE),
    ("lazily an error", LazyError, _STORABLE),
    ("lazily a class", LazyClass, _STORABLE),
    ("a dict with a lazy one", lambda: {"a": [Lazy(), Classless()]}, _STORABLE),
    ("classless", Classless, _STORABLE),
    ("of a number for a module", Numbered, _STORABLE),
    ("of a descriptor for a module", Described, _STORABLE),
    ("never asked for more", Silenced, _STORABLE),
    ("equal in parts", Many, _STORABLE),
    ("of a class without hash", Compared, _UNSTORABLE),
    ("of a class that raises", Raising, _UNSTORABLE),
    ("of a silent class", Silent, _UNSTORABLE),
    ("never asked", NeverAsked, _UNSTORABLE),
)
UNDRAWN = frozenset(("classless", "never asked", "ClasslessError", "NeverAskedError"))
"""What Hypothesis asks for its class, so that its strategies leave them out."""
ERRORS: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("ClasslessError", ClasslessError),
    ("NeverAskedError", NeverAskedError),
    ("ComparedError", ComparedError),
    ("SilentError", SilentError),
    ("NumberedError", NumberedError),
    ("FixedError", FixedError),
    ("UntracedError", UntracedError),
    ("SpacelessError", SpacelessError),
    ("lazy text", silenced_text),
    ("odd arguments", odd_arguments),
    ("led by odd ones", led_by_odd),
)
