"""A store that a script has made is looked after by the command line, which is told of the script."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lanes import at_each_commit, left_to_commits, of_lane

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator
from hosting.cli.scripts import is_script
from reliable_rx.testing.steps import add

ROOT = str(Path(__file__).parent.parent)
DEFINED = """
import dataclasses, os, sys
import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import App, ListSource, QueryEvaluator

@dataclasses.dataclass(frozen=True)
class Data:
    a: int

def failing(x):
    return Data(1 // (x != 2))

n = rx.source("n")
"""
DONE = """
    print("it runs")
    count, how = int(sys.argv[1]), sys.argv[2]
    evaluator = QueryEvaluator(SqliteStore("store"), checkpoint_interval_s=1e9)
    evaluator.source("n", ListSource(list(range(count)), follow=True))
    evaluator.create("fails", n.map(failing))
    evaluator.create("seen", n.scan(lambda a, x: a | {Data(x % 2)}, frozenset()).map(len))
    evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= count)
    evaluator.flush()
    if how == "kill":
        os._exit(0)
    evaluator.checkpoint()
    evaluator.close()
"""
BARE = DONE.replace("\n    ", "\n")
WITH_APP = """
NUMBERS = App(checkpoint_interval_s=1e9)
NUMBERS.source("n", lambda: ListSource(list(range(int(os.environ["COUNT"])), ), follow=True))
NUMBERS.query("fails", n.map(failing))
NUMBERS.query("seen", n.scan(lambda a, x: a | {Data(x % 2)}, frozenset()).map(len))
if __name__ == "__main__":
    count, how = int(os.environ["COUNT"]), sys.argv[2]
    evaluator = NUMBERS.evaluator(SqliteStore("store"))
    evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= count)
    evaluator.flush()
    if how == "kill":
        os._exit(0)
    evaluator.checkpoint()
    evaluator.close()
"""
SCRIPTS = {
    "guarded": DEFINED + 'if __name__ == "__main__":' + DONE,
    "bare": DEFINED + BARE,
    "with an app": DEFINED + WITH_APP,
}


def run(folder: Path, *arguments: str, count: int = 4) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": ROOT, "COUNT": str(count)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def command(folder: Path, *arguments: str, count: int = 4) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "hosting.cli", *arguments, count=count)


@left_to_commits
@pytest.mark.parametrize("which", SCRIPTS)
def test_a_query_of_a_script_is_restarted_and_disposed_of(tmp_path: Path, which: str) -> None:
    """The script is named, and its classes are found; it is not run, and goes on from what was done."""
    (tmp_path / "script.py").write_text(SCRIPTS[which])
    assert run(tmp_path, "script.py", "4", "stop").returncode == 0
    done = command(tmp_path, "restart", "store", "seen", "--yes")
    assert done.returncode == 2
    assert "the script" in done.stderr
    done = command(tmp_path, "restart", "store", "fails", "--app", "script.py")
    assert (done.returncode, "it runs again" in done.stdout) == (0, True), done.stderr
    assert "it runs\n" not in done.stdout
    done = command(tmp_path, "restart", "store", "seen", "--yes", "--app", "script.py:__main__")
    assert done.returncode == 0, done.stderr
    done = command(tmp_path, "tail", "store", "seen", "--app", "script.py")
    assert done.returncode == 0, done.stderr
    ran = run(tmp_path, "script.py", "6", "stop", count=6)
    assert ran.returncode == 0, ran.stderr
    done = command(tmp_path, "tail", "store", "seen", "--app", "script.py")
    values = [line.split("\t")[-1] for line in done.stdout.splitlines()]
    assert values[-2:] == ["1", "2"], "without state, with the next events"
    done = command(tmp_path, "dispose", "store", "seen", "--yes", "--app", "script.py", count=6)
    assert done.returncode == 0, done.stderr
    done = command(tmp_path, "restart", "store", "seen", "--app", "script.py", count=6)
    assert (done.returncode, "has no query 'seen'" in done.stderr) == (2, True), done.stderr


def test_who_loses_a_state_with_a_restart_is_named(tmp_path: Path) -> None:
    """The question, the answer and the log name all that read the query, and what reads those."""
    with SqliteStore(tmp_path / "store") as store, QueryEvaluator(store) as evaluator:
        evaluator.source("n", ListSource([1, 2], follow=True))
        for name, read in {"base": "n", "mid": "base", "top": "mid", "beside": "n"}.items():
            evaluator.create(name, rx.source(read).scan(add, 0))
        evaluator.run(until=lambda: evaluator.events_in >= 2)
    asked = command(tmp_path, "restart", "store", "base")
    assert asked.returncode == 2
    assert "with a state that a restart drops, and the states of those that read it: mid, top" in asked.stderr
    done = command(tmp_path, "restart", "store", "base", "--yes")
    assert done.returncode == 0 and "so do those that read it, under ids behind an end: mid, top" in done.stdout


@left_to_commits
@pytest.mark.parametrize("which", SCRIPTS)
def test_behind_a_kill_the_sources_are_needed(tmp_path: Path, which: str) -> None:
    """A script whose app has them is enough; of another one it is said that it must be started and stopped once."""
    (tmp_path / "script.py").write_text(SCRIPTS[which])
    assert run(tmp_path, "script.py", "4", "kill").returncode == 0
    done = command(tmp_path, "restart", "store", "fails", "--app", "script.py")
    if which == "with an app":
        assert (done.returncode, "it runs again" in done.stdout) == (0, True), done.stderr
    else:
        assert done.returncode == 2
        assert "start the script, and stop it in order" in done.stderr
    done = command(tmp_path, "store", "repair", "store", "--yes", "--app", "script.py")
    assert done.returncode in (0, 1), done.stderr
    assert "Data" not in done.stdout + done.stderr


@left_to_commits
def test_repair_finds_the_classes_of_a_script(tmp_path: Path) -> None:
    """What starts with its script needs no repair; without the script that is not said."""
    (tmp_path / "script.py").write_text(SCRIPTS["guarded"])
    assert run(tmp_path, "script.py", "4", "stop").returncode == 0
    done = command(tmp_path, "store", "repair", "store", "--yes")
    assert done.returncode == 2
    assert "script" in done.stderr
    done = command(tmp_path, "store", "repair", "store", "--yes", "--app", "script.py")
    assert (done.returncode, "starts as it is" in done.stdout) == (0, True), done.stderr


DECLARED = """
from hosting import App, ListSource
app = App(checkpoint_interval_s=1e9)
app.source("n", lambda: ListSource(list(range(4)), follow=True))
"""
LAYOUTS = {  # where the script lies, what it imports its app and its limit from, and how Python starts it
    "a package's __main__": ("shop/__main__.py", ".parts", ("-m", "shop"), True),
    "a module of a package": ("shop/night/tool.py", "..parts", ("-m", "shop.night.tool"), True),
    "one of a folder without __init__": ("shop/tool.py", ".parts", ("-m", "shop.tool"), False),
    "its imports are not relative": ("shop/tool.py", "shop.parts", ("-m", "shop.tool"), True),
    "a folder's __main__": ("shop/__main__.py", "parts", ("shop",), False),
    "a file beside its app": ("shop/tool.py", "parts", ("shop/tool.py",), False),
}
NAMED: dict[str, Callable[[str], str]] = {
    "file": lambda place: place,
    "file and __main__": lambda place: f"{place}:__main__",
    "module": lambda place: place.removesuffix(".py").replace("/", ".").removesuffix(".__main__") + ":__main__",
}


def laid_out(folder: Path, which: str) -> tuple[str, tuple[str, ...]]:
    """Write the script of a layout; return where it lies, and what Python is given to start it."""
    place, parts, started, is_package = LAYOUTS[which]
    script = folder / place
    script.parent.mkdir(parents=True)
    (folder / "shop" / "parts.py").write_text(DECLARED + "LIMIT = 2\n")
    if is_package:
        for each in {folder / "shop", script.parent}:
            (each / "__init__.py").write_text("")
    app = "app" if script.stem == "__main__" else "app as declared"  # who has one named app may be no script
    what = DEFINED.replace("x != 2", "x != LIMIT") + f"from {parts} import LIMIT, {app}\n"
    script.write_text(f'{what}if __name__ == "__main__":{DONE}')
    return place, started


STARTED = [
    (which, named)
    for which, (_, _, started, _) in LAYOUTS.items()
    for named in NAMED
    if named != "module" or "-m" in started  # it is no module to who starts it as a file
]


@pytest.mark.parametrize("layout", of_lane([*map(at_each_commit, STARTED)], nightly=3))
def test_a_script_is_found_as_what_it_was_started_as(tmp_path: Path, layout: tuple[str, str]) -> None:
    """In a package, its ``__main__``, beside its app: its imports and its classes are found, and it is not run."""
    which, named = layout
    place, started = laid_out(tmp_path, which)
    ran = run(tmp_path, *started, "4", "stop")
    assert ran.returncode == 0, ran.stderr
    app = NAMED[named](place)
    for arguments, said in (
        (("restart", "store", "fails"), "it runs again"),
        (("inspect", "store", "--state", "seen"), "Data(a="),
        (("store", "repair", "store", "--yes"), "starts as it is"),
        (("tail", "store", "seen"), ""),
    ):
        done = command(tmp_path, *arguments, "--app", app)
        assert (done.returncode, said in done.stdout) == (0, True), (arguments, done.stdout, done.stderr)
        assert "it runs\n" not in done.stdout


@pytest.mark.parametrize(
    "text, is_one",
    [("app = 1", False), ("a, app = 1, 2", False), ("app: int = 1", False), ("def app(): ...", False),
     ("class app: ...", False), ("from x import app", False), ("from x import y as app", False),
     ("other = 1", True), ("from x import app as y", True), ("", True)],
)  # fmt: skip
def test_what_declares_no_app_is_a_script(tmp_path: Path, text: str, is_one: bool) -> None:
    """A module hosts an app by whatever gives it that name at its top."""
    file = tmp_path / "module.py"
    file.write_text(text)
    assert is_script(file) is is_one
