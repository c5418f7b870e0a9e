"""Texts of the code of queries, which are kept for the newest queries only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from hosting.engine import code_text


def test_texts_that_are_known_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it all are forgotten and read again: a process with many queries keeps none of them for good."""
    monkeypatch.setattr(code_text, "KNOWN_MAX", 2)
    monkeypatch.setattr(code_text, "KNOWN", {})
    for k in range(5):
        assert code_text.text_of(rx.source("n").map(lambda x, k=k: x + k).node) is not None
        assert len(code_text.KNOWN) <= 2


def text_in(folder: Path, written: str) -> object:
    """Return what is known of the text of the function `f` in a module of the user's."""
    folder.mkdir()
    file = folder / "written.py"
    file.write_text(written)
    space: dict[str, Any] = {"__name__": "written"}
    exec(compile(written, str(file), "exec"), space)
    text = code_text.text_of(rx.source("n").map(space["f"]).node)
    assert text is not None
    return text.functions


@pytest.mark.parametrize(
    "written",
    ["def f(x):\n    return x + {}", "f = lambda x: x + {}", "f = lambda x: f'{{x}} and {}'", "f = lambda x: b'{}' + x",
     "def g(x):\n    return x + {}\nf = lambda x: g(x)", "g, f, h = lambda x: x, lambda x: x + {}, lambda x: x"],
)  # fmt: skip
def test_the_text_of_a_function_changes_with_what_it_does(tmp_path: Path, written: str) -> None:
    """Another constant is another text; a comment, or where the function stands, is none."""
    one, two = (text_in(tmp_path / str(k), written.format(k)) for k in (1, 2))
    lower = text_in(tmp_path / "lower", f"# a comment\n\n{written.format(1)}  # and one more\n")
    assert one and one == lower != two
