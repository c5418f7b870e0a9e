"""Signatures are RxPY's, and type checkers can infer what a pipe gives."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import reactivex
from reactivex import operators as plain_ops

import reliable_rx as rx
from reliable_rx import creation
from reliable_rx import operators as ops

HERE = Path(__file__).parent


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    """What a caller sees of the parameters; the name of ``*args`` he does not."""
    return [
        (None if p.kind is p.VAR_POSITIONAL else p.name, p.kind, p.default)
        for p in inspect.signature(function).parameters.values()
    ]


def without_additions(ours: Any, theirs: Any) -> list[tuple[str, Any, Any]]:
    """Our shape less the keyword-only parameters that RxPY does not have: no call written for RxPY passes them."""
    known = {name for name, *_ in shape(theirs)}
    return [each for each in shape(ours) if each[0] in known or each[1] is not inspect.Parameter.KEYWORD_ONLY]


def check_signature(ours: Any, theirs: Any) -> None:
    shared = without_additions(ours, theirs)
    assert shared == shape(theirs), ours
    assert all(each in shared or each[2] is not inspect.Parameter.empty for each in shape(ours)), ours


def test_operators_have_the_signatures_of_rxpy() -> None:
    """Names, order, kinds and defaults of parameters are RxPY's: changing the import is all there is to do."""
    for name in sorted(set(ops.__all__) & set(plain_ops.__all__)):
        check_signature(getattr(ops, name), getattr(plain_ops, name))


def test_creation_functions_have_the_signatures_of_rxpy() -> None:
    """The same for creation functions."""
    for name in sorted(set(creation.__all__) & set(vars(reactivex))):
        check_signature(getattr(rx, name), getattr(reactivex, name))


@pytest.mark.slow
def test_mypy_infers_pipes() -> None:
    """mypy, strict, infers the element types in `typing_queries.py`."""
    check = [sys.executable, "-m", "mypy", "--strict", str(HERE / "typing_queries.py"), "--follow-imports", "silent"]
    pytest.importorskip("mypy")
    result = subprocess.run(check, cwd=HERE.parent, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
