"""Values as text: JSON that reads back as what was written, and short descriptions of values and errors.

`json` refuses two things that JSON can say: an integer of more digits than Python converts (4,300), and half of a
surrogate pair. Both are written here, the one digit by digit, the other as an escape; what JSON cannot say is a
`ValueError` or `TypeError`. NaN and the infinities are that too: a bare ``NaN`` is an error to other readers, and null
or text would be another value. Rejected: `sys.set_int_max_str_digits` (it counts for the whole process).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from reliable_rx.class_of import is_a, path_of
from reliable_rx.errors import ReliableRxError, cut_middle, described
from reliable_rx.interrupts import let_through
from reliable_rx.shown import bounded_repr, cut_end, is_light

ERROR_CHARACTERS_MAX = 10_000
VALUE_CHARACTERS_MAX = 1_000
JSON_CHARACTERS_MAX = 1_000_000_000
JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False)
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def to_json(plain: Any) -> str:
    """Write a plain value as JSON text that UTF-8 can hold.

    >>> to_json({"a": [1, "\\ud800"]})
    '{"a":[1,"\\\\ud800"]}'
    >>> to_json(10**5000) == "1" + "0" * 5000
    True

    *Raises* `TypeError`, `ValueError` or `RecursionError` for what JSON cannot say.
    """
    try:
        text = JSON.encode(plain)
    except ValueError:  # an integer of very many digits
        text = "".join(_pieces(plain))
    return text if text.isascii() else _without_surrogates(text)


def bounded(encode: Callable[[Any], Any], value: Any) -> Any:
    """Return what *encode* makes of *value*. *Raises* `ValueError` for what would have endlessly many characters."""
    plain = encode(value)
    if not is_light(plain, JSON_CHARACTERS_MAX):
        raise ValueError(f"what encode= returns has over {JSON_CHARACTERS_MAX:,} characters; let it return less")
    return plain


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        if _PAIR.search(text):
            message = "the text holds both halves of a surrogate pair as two characters, which JSON reads as one"
            raise ValueError(message) from None
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def _pieces(plain: Any) -> Iterator[str]:
    """Write a value piece by piece, integers with all their digits."""
    if isinstance(plain, dict):
        yield "{"
        for count, (key, item) in enumerate(plain.items()):
            yield f"{',' if count else ''}{_key(key)}:"
            yield from _pieces(item)
        yield "}"
    elif isinstance(plain, (list, tuple)):
        yield "["
        for count, item in enumerate(plain):
            yield "," if count else ""
            yield from _pieces(item)
        yield "]"
    elif isinstance(plain, int) and not isinstance(plain, bool):
        yield digits(plain)
    else:
        yield JSON.encode(plain)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return JSON.encode(key)
    return f'"{"".join(_pieces(key))}"'


def digits(number: int) -> str:
    """Return all digits of *number*.

    >>> digits(-12), len(digits(10**5000))
    ('-12', 5001)
    """
    try:
        return int.__repr__(number)
    except ValueError:
        return format(Decimal(int(number)), "f")


def shown(value: Any, *, most: int = VALUE_CHARACTERS_MAX) -> str:
    """Describe any value in at most *most* characters that UTF-8 can hold.

    >>> shown("a" * 2000, most=10), shown(b"x")
    ("'aaaaaaaa…", "b'x'")
    """
    try:
        if is_a(value, BaseExceptionGroup):  # its text has every member of each group within it
            return error_text(value, most=most)
        is_number = type(value) is int and is_light(value)
        text = digits(value) if is_number else bounded_repr(value, most)
    except BaseException as raised:  # whatever a `__repr__` raises
        let_through(raised)
        text = f"<{path_of(type(value))} without a repr>"
    return _safe(cut_end(text, most))


def error_text(error: BaseException, *, most: int = ERROR_CHARACTERS_MAX) -> str:
    r"""Say what an error is in at most *most* characters that UTF-8 can hold.

    >>> error_text(ValueError("bad day \ud800"))
    'ValueError: bad day \\ud800'
    """
    return _safe(cut_middle(described(error), most))


def _safe(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def told(error: BaseException) -> str:
    """Say what an error says; one of ours needs no type in front of it."""
    return error.message if isinstance(error, ReliableRxError) else error_text(error)
