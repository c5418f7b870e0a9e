"""A digest of what code does: byte code, constants, names and signature, without where it stands.

Names of local variables are left out, since nothing comes of them, unless the code may ask for them (`locals`, `eval`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType
from typing import Any

CODES_MAX = 10_000
TAKES = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
ASKS = frozenset(("locals", "vars", "eval", "exec", "dir", "f_locals", "_getframe", "currentframe"))
"""Names by which code may ask for its own variables."""
SEED_MIN = 1 << 32
CODES: dict[int, tuple[CodeType, str]] = {}


def joined(parts: Iterable[str]) -> str:
    """Return a digest of texts."""
    return digest_of("\0".join(parts).encode(errors="backslashreplace"))


def digest_of(data: bytes) -> str:
    """Return a digest of bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def code_digest(code: CodeType) -> str:
    """Return a digest of what *code* does.

    >>> code_digest(compile("a + 1", "one", "eval")) == code_digest(compile("a  +  1", "other", "eval"))
    True
    """
    known = CODES.get(id(code))
    if known is None:
        if len(CODES) >= CODES_MAX:
            CODES.clear()
        known = CODES[id(code)] = (code, joined(_described(code)))
    return known[1]


def _described(code: CodeType) -> list[str]:
    named = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    if not ASKS.isdisjoint(code.co_names):
        named = (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    return [
        code.co_code.hex() + code.co_exceptiontable.hex(),
        f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags & TAKES}",
        " ".join(named),
        " ".join(code.co_names),
        *map(_constant, _without_seed(code.co_consts) if _is_made_hash(code) else code.co_consts),
    ]


def _is_made_hash(code: CodeType) -> bool:
    """Whether a library has made a `__hash__` from a text: in it stands a number that follows the hash seed."""
    return code.co_name == "__hash__" and code.co_filename.startswith("<")


def _without_seed(constants: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the constants of a made `__hash__`, without the number by which a library tells classes apart."""
    return tuple(
        _without_seed(each) if type(each) is tuple else "seed" if type(each) is int and abs(each) >= SEED_MIN else each
        for each in constants
    )


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return code_digest(value)
    kind = type(value).__qualname__
    if isinstance(value, tuple):
        return f"{kind}:{joined(map(_constant, value))}"
    if isinstance(value, frozenset):
        return f"{kind}:{joined(sorted(map(_constant, value)))}"
    return f"{kind}:{value:x}" if type(value) is int else f"{kind}:{value!r}"
