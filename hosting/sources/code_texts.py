"""The texts that code stands in: files and cells. An app whose texts are what they were is no edited one.

Code that a process sets late (a method, a registered function) is reached later on, or no more. So what was reached at
two moments differs, though all of it stands in the same texts. A text counts only if all that is reached of it stands
there: a file may have been edited since it was loaded. Other code, as `dataclass` makes it, goes by itself.

Rejected: the code that was reached at the start of the first run (which classes values have is known when they come,
and to read all of the app's takes milliseconds each), and comparing what was reached as a set of functions (one that is
set in the place of another would be an edit, and most of a checkpoint would be such sets).
"""

from __future__ import annotations

import linecache
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType

from reliable_rx.class_of import module_of
from reliable_rx.functions.code_digest import code_digest, digest_of

Codes = list[tuple[str, str]]
"""Names and digests of functions."""


def texts_of(functions: Iterable[FunctionType], kinds: Iterable[type]) -> Iterator[str]:
    """Yield a digest of each text in which code stands, and what else tells functions that stand in none."""
    by_path: dict[str, Codes] = {}
    for each in functions:
        code = each.__code__
        by_path.setdefault(code.co_filename, []).append((each.__qualname__, code_digest(code)))
    for path in filter(None, map(file_of, kinds)):
        by_path.setdefault(path, [])  # it may have no function
    for path, codes in by_path.items():
        linecache.checkcache(path)
        text = "".join(linecache.getlines(path))
        if {code for _, code in codes} <= _codes_in(text, path):
            yield digest_of(text.encode(errors="backslashreplace"))
        else:
            yield from (f"{name}={code}" for name, code in codes)


def file_of(kind: type) -> str:
    """Return the file of the module of a class; nothing if it has none, as cells have none."""
    found = getattr(sys.modules.get(str(module_of(kind))), "__file__", None)
    return found if isinstance(found, str) else ""


@lru_cache(maxsize=64)
def _codes_in(text: str, path: str) -> frozenset[str]:
    """Return the digests of all code of a text; none if it cannot be compiled."""
    try:
        waiting = [compile(text, path, "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    found = set[str]()
    while waiting:
        code = waiting.pop()
        found.add(code_digest(code))
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return frozenset(found)
