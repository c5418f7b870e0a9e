"""A function that comes out of a store does what it did when it was put in, whatever idiom it is written in."""

from __future__ import annotations

import ast
import importlib
import os
import pickle
import pickletools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from lanes import every, left_to_commits
from other_pythons import Pythons
from stored_idioms import CODE, IDIOMS, SAME, USUAL, plant
from test_interpreters import HERE, interpreters, links

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format import code, held_objects
from checkpoint.format.by_value import encode_query
from checkpoint.format.codec import decode, encode
from hosting import ListSource, QueryEvaluator

__all__ = ["links"]
PROCESS = Path(__file__).parent / "stored_idioms.py"
MAKES_CODE = ("CodeType", "_make_function", "_make_skeleton_class", "_make_skeleton_enum", "marshal")


Stored = dict[str, tuple[bytes, str, str]]
"""By idiom: its bytes, what the function gives, and its identity."""
Loaded = dict[str, tuple[str, str]]


def process(*arguments: str, python: str = sys.executable, path: str = "") -> str:
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, str(PROCESS), *arguments]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the modules, and the file with what was stored of them."""
    folder = tmp_path_factory.mktemp("idioms")
    plant(folder)
    process("write", str(folder), "stored")
    return folder


@pytest.fixture(scope="module")
def stored(planted: Path) -> Stored:
    found: Stored = pickle.loads((planted / "stored").read_bytes())
    return found


@pytest.fixture(scope="module", params=["imported", "not imported"])
def loaded(planted: Path, request: pytest.FixtureRequest) -> Loaded:
    found: Loaded = ast.literal_eval(process("read", str(planted), "stored", request.param))
    return found


@pytest.fixture(scope="module")
def away(planted: Path) -> Loaded:
    found: Loaded = ast.literal_eval(process("read", str(planted), "stored", "away"))
    return found


def test_what_is_loaded_does_what_was_stored(stored: Stored, loaded: Loaded) -> None:
    """In a process of its own, also before the module is imported, a loaded function gives what the stored one gave,
    and is told as the same."""
    wrong = {idiom: (stored[idiom][1:], loaded[idiom]) for idiom in IDIOMS if loaded[idiom] != stored[idiom][1:]}
    assert not wrong


@pytest.mark.parametrize("idiom", every(4, [*SAME, *CODE, *USUAL]))
def test_what_is_loaded_without_its_module_is_the_same_or_is_not_loaded(
    stored: Stored, away: Loaded, idiom: str
) -> None:
    """Where a module cannot be imported, the copies of its objects stand for them, or the query does not load."""
    assert away[idiom][0].startswith("ModuleNotFoundError") or away[idiom] == stored[idiom][1:]


HOLDING = """
class Config:
    def __init__(self, rate, missing): self.rate, self.missing = rate, missing
MISSING = object()
OTHER = Config(1, MISSING)
CONFIG = Config(@, MISSING)
def f(x, config=CONFIG, missing=MISSING, other=OTHER):
    assert config is CONFIG and missing is MISSING and config.missing is MISSING and other is OTHER
    return x * config.rate
"""


@pytest.mark.parametrize("now", [2, 3, 0], ids=["the same", "edited", "gone"])
def test_an_object_that_was_edited_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: int) -> None:
    """What a module holds today stands for what was stored if it is the same; else the copy does, everywhere."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(text: str) -> Any:
        (tmp_path / "idiom_held.py").write_text(text)
        sys.modules.pop("idiom_held", None)
        importlib.invalidate_caches()
        return importlib.import_module("idiom_held")

    try:
        plan: Any = rx.source("n").map(load(HOLDING.replace("@", "2")).f)
        data = encode_query(plan.node)
        module = load(HOLDING.replace("@", str(now)) if now else "class Config: pass")
        f = decode(data).op.mapper
        assert f(5) == 10
        assert [f.__defaults__[1] is getattr(module, "MISSING", None)] == [now > 0]
        assert [f.__defaults__[0] is getattr(module, "CONFIG", None)] == [now == 2]
        assert f.__defaults__[0].missing is f.__defaults__[1]
    finally:
        sys.modules.pop("idiom_held", None)


LOOKING = "RATE = 2\ndef f(x): return x * globals()['RATE']"
INTERRUPTED = "import signal\nsignal.raise_signal(signal.SIGINT)"


def test_an_interrupt_while_a_module_is_imported_is_none_of_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the module of a stored function is imported goes through, as no error of that module does."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        (tmp_path / "idiom_looking.py").write_text(LOOKING)
        query: Any = rx.source("n").map(importlib.import_module("idiom_looking").f)
        data = encode_query(query.node)
        for text in ("raise ValueError", INTERRUPTED):
            (tmp_path / "idiom_looking.py").write_text(text)
            sys.modules.pop("idiom_looking", None)
            importlib.invalidate_caches()
            with pytest.raises(KeyboardInterrupt) if text is INTERRUPTED else nullcontext():
                decode(data)
    finally:
        signal.signal(signal.SIGINT, before)
        sys.modules.pop("idiom_looking", None)


UNSEEN = object()
STATES: dict[str, tuple[Any, Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "bare": (UNSEEN, lambda a, x: a if x < 5 else (x if a is UNSEEN else -x), str),
    "in a list": ([], lambda a, x: [UNSEEN], lambda a: a[0] is UNSEEN),
    "with a function": ([], lambda a, x: [UNSEEN, lambda: UNSEEN], lambda a: a[0] is UNSEEN is a[1]()),
}


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("state", STATES)
def test_a_sentinel_in_a_state_is_itself(state: str, cleanly: bool) -> None:
    """A seed that is a bare object is compared with its name at the first event, and so it is behind a restart."""
    seed, step, shown = STATES[state]
    numbers, store = [1, 2], MemoryStore()
    for _ in range(2):
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource(numbers, follow=True))
        evaluator.create("q", rx.source("n").scan(step, seed).map(lambda a: "unseen" if a is UNSEEN else shown(a)))
        while evaluator.step():
            pass
        found = [value for part in evaluator.stream("q").read(0, 100) for value in part.values]
        if cleanly:
            evaluator.checkpoint()
        evaluator.close()
        numbers, store = [*numbers, 3, 5, 6], store.reopen()
    assert found == (["unseen"] * 3 + ["5", "-6"] if state == "bare" else [True] * 5)


def made_in(data: bytes) -> Iterator[str]:
    """Yield what the pickle *data* names that makes code, but not what lies wrapped in it."""
    for _, argument, _ in pickletools.genops(data):
        if isinstance(argument, str) and argument in MAKES_CODE:
            yield argument


@pytest.mark.parametrize("idiom", every(5, IDIOMS))
def test_code_is_never_loaded_by_another_interpreter(stored: Stored, idiom: str, interpreters: Pythons) -> None:
    """Whatever holds byte code, in whatever wrapping, says whose it is, and is refused by others."""
    data = stored[idiom][0]
    assert list(made_in(data)) == []
    if idiom in CODE:
        interpreters.change()
        with pytest.raises(code.OtherCode):
            decode(data)


@left_to_commits
@pytest.mark.parametrize("version", [version for version in interpreters() if version != HERE])
def test_other_interpreters_run_what_is_data_and_refuse_the_rest(
    planted: Path, stored: Stored, links: Path, version: str
) -> None:
    """Another interpreter gives what this one gives, or `OtherCode`: never another value, never a dead process."""
    said = process("read", str(planted), "stored", python=interpreters()[version], path=str(links))
    found: Loaded = ast.literal_eval(said)
    refused = {idiom for idiom in found if found[idiom][0].startswith("OtherCode")}
    assert set(CODE) <= refused
    assert [idiom for idiom in found.keys() - refused if found[idiom][0] != stored[idiom][1]] == []


def test_places_of_sentinels_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, each is itself, and at most so many places are kept."""
    monkeypatch.setattr(held_objects, "HELD_MAX", 3)
    monkeypatch.setattr(held_objects, "_BARE", {})
    module = sys.modules[__name__]
    for number in range(8):
        monkeypatch.setattr(module, f"BARE_{number}", object(), raising=False)
        assert decode(encode([vars(module)[f"BARE_{number}"]])) == [vars(module)[f"BARE_{number}"]]
        assert len(held_objects._BARE) <= 3
