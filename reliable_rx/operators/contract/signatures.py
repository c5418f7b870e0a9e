"""The signature with which a function can be called: its own, and not what it says of itself.

`inspect.signature` follows `__wrapped__`, and `functools.wraps` copies `__signature__` along with what else a wrapped
function has. Both tell of the function that was wrapped, to which a decorator may give more, or less, than it is given.
"""

from __future__ import annotations

import inspect
from functools import _lru_cache_wrapper, partial
from inspect import Signature
from types import FunctionType, MethodType
from typing import Any


def signature_of(function: Any) -> Signature | None:
    """Return with what *function* can be called; None where that cannot be known.

    >>> from functools import wraps
    >>> def inner(a, b): ...
    >>> @wraps(inner)
    ... def outer(n, a, b): ...
    >>> str(signature_of(outer)), str(signature_of(partial(outer, 1)))
    ('(n, a, b)', '(a, b)')
    """
    try:
        own = _own(function)
        return None if own is None else inspect.signature(own, follow_wrapped=False)
    except Exception:  # what is written in C may not say, and of a proxy each attribute may raise
        return None


def _own(function: Any) -> Any:
    """Return what is called like *function* and has nothing else to say; None if that is not to be had."""
    if isinstance(function, FunctionType):
        own = FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)
        own.__kwdefaults__ = function.__kwdefaults__
        return own
    if isinstance(function, MethodType):
        within = _own(function.__func__)
        return None if within is None else MethodType(within, function.__self__)
    if isinstance(function, _lru_cache_wrapper):
        return _own(function.__wrapped__)
    if isinstance(function, partial):
        within = _own(function.func)
        return None if within is None else partial(within, *function.args, **function.keywords)
    if isinstance(function, type) or hasattr(function, "__text_signature__"):
        return function
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object's own
    return MethodType(_own(call), function) if isinstance(call, FunctionType) else None
