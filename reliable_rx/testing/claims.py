"""Claims of the conformance suites: each raises `AssertionError` with what is not so.

Rejected: `assert`, which does nothing under ``python -O`` and which pytest explains only in files that it rewrites.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refuses(kind: type[Exception], what: str) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what} must raise {kind.__name__}")


def same(found: object, wanted: object, what: str) -> None:
    expect(found == wanted, f"{what}: {found!r} instead of {wanted!r}")


def expect(condition: bool, claim: str) -> None:
    if not condition:
        raise AssertionError(f"not so: {claim}")
