"""Texts of the code of queries, which are kept for the newest queries only."""

from __future__ import annotations

import pytest

import reliable_rx as rx
from hosting import code_text


def test_texts_that_are_known_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it all are forgotten and read again: a process with many queries keeps none of them for good."""
    monkeypatch.setattr(code_text, "KNOWN_MAX", 2)
    monkeypatch.setattr(code_text, "KNOWN", {})
    for k in range(5):
        assert code_text.text_of(rx.source("n").map(lambda x, k=k: x + k).node) is not None
        assert len(code_text.KNOWN) <= 2
