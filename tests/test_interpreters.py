"""A store outlives the Python that made it: every interpreter that is here goes on from what another one left behind.

They need nothing installed: a folder with links to the pure-Python packages that the library imports is enough.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import reactivex
import typing_extensions
from lanes import at_each_commit, at_night, left_to_commits

from hosting.cli.command import main

ROOT = Path(__file__).parent.parent
PROCESS = Path(__file__).parent / "interpreter_process.py"
TREES = Path(__file__).parent / "trees_process.py"
HERE = ".".join(map(str, sys.version_info[:2]))


@cache
def interpreters() -> dict[str, str]:
    """Return the interpreters that are here and new enough, by minor version; this one first."""
    found = {HERE: sys.executable}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    known = [str(path) for path in sorted(pyenv.glob("3.*/bin/python"))]
    named = [shutil.which(f"python3.{minor}") for minor in range(11, 15)]
    for each in (*known, *named):
        if each is not None:
            told = subprocess.run([each, "--version"], capture_output=True, text=True, check=False).stdout
            version = re.match(r"Python (3\.(\d+))", told)
            if version and 11 <= int(version[2]) <= 13:
                found.setdefault(version[1], each)
    return found


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the packages that any interpreter can import."""
    folder = tmp_path_factory.mktemp("packages") / "site-packages"  # where the user's modules are not
    folder.mkdir()
    for each in (reactivex, cloudpickle):
        (folder / each.__name__).symlink_to(Path(str(each.__file__)).parent)
    (folder / "typing_extensions.py").symlink_to(str(typing_extensions.__file__))
    return folder


class App:
    """The runs of one app on one store."""

    def __init__(self, store: Path, links: Path) -> None:
        self.store = store
        self.env = {**os.environ, "PYTHONPATH": f"{links}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}

    def python(self, version: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [interpreters()[version], *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=120)

    def told(self, version: str, *arguments: str) -> Any:
        """Return what a run prints, which is to end well."""
        ran = self.python(version, *arguments)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def run(self, version: str, count: int, end: str = "stop", *more: str) -> dict[str, Any]:
        ran = self.python(version, str(PROCESS), str(self.store), str(count), end, *more)
        assert ran.returncode == {"stop": 0, "kill": 9, "refused": 3}[end], ran.stderr
        return {**json.loads(ran.stdout), "log": ran.stderr}


@pytest.fixture
def app(tmp_path: Path, links: Path) -> App:
    return App(tmp_path / "store", links)


def others() -> list[str]:
    found = [version for version in interpreters() if version != HERE]
    if not found:
        pytest.skip("there is no other interpreter here")
    return found


def visits(*, whole: bool = True) -> list[str]:
    """Return the order in which interpreters take turns: there and back again, twice at home."""
    return [HERE, *others(), HERE, HERE] if whole else [HERE, others()[0], HERE]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, links: Path) -> dict[str, Any]:
    """What the streams hold where one interpreter has done all of it."""
    said: dict[str, Any] = App(tmp_path_factory.mktemp("alone") / "store", links).run(HERE, 40)["streams"]
    return said


def upto(alone: dict[str, Any], streams: dict[str, Any]) -> None:
    """Assert that *streams* are a beginning of what one interpreter emits, ids included, and a long one."""
    for name in alone:
        assert streams[name] == alone[name][: len(streams[name])], name


@left_to_commits
@pytest.mark.parametrize("whole", [False, True], ids=["one other", "all others"])
def test_each_interpreter_goes_on_after_a_clean_stop(app: App, alone: dict[str, Any], whole: bool) -> None:
    """Stopped cleanly, a store is gone on from by any interpreter as if one had run all along, with the same ids.

    A function in a state is the exception: it stays behind, its operator begins afresh, and the report says so.
    """
    for number, (before, version) in enumerate(pairwise([HERE, *visits(whole=whole)])):
        said = app.run(version, 8 * (number + 1))
        if version != before:
            assert f"Python {before} (this is {version})" in said["warnings"][0]
            assert said["reports"]["scan"] == "kept: /scan"
            assert "dropped" in said["reports"]["functions"] or "fresh" in said["reports"]["functions"]
        lost = {"functions"}
        upto({name: values for name, values in alone.items() if name not in lost}, said["streams"])
        assert said["status"]["failed"] == "failed"
    assert len(said["streams"]["scan"]) == 8 * len(visits(whole=whole))


@left_to_commits
def test_an_upgrade_that_goes_well_is_no_incident(app: App) -> None:
    """It is one line in the log; what it gives up is an incident that names the queries, until the next start."""
    other = others()[0]
    for gone, lasts in (("without=functions,rules", False), ("without=rules", True)):
        app.run(HERE, 4, "stop", gone)
        said = app.run(other, 8, "stop", gone)
        told = [each for each in said["incidents"] if each.startswith("recovery")]
        assert len(told) == lasts and all("'functions' was given up" in each for each in told)
        assert said["log"].count("went on from what was stored") == 1, said["log"]
        shutil.rmtree(app.store)


@left_to_commits
def test_behind_a_kill_only_the_same_interpreter_goes_on(app: App, alone: dict[str, Any]) -> None:
    """Killed, a store is refused by another interpreter, by both versions and with the way; then that way works."""
    count = 0
    for before, version in pairwise(visits()[:-1]):
        count += 5
        app.run(before, count, "kill")
        refused = app.run(version, count, "refused")
        assert f"Python {before} (this is {version})" in refused["message"]
        assert f"start it once with Python {before}" in refused["message"]
        assert "store repair" in refused["message"]
        app.run(before, count)
        said = app.run(version, count + 1)
        upto({name: values for name, values in alone.items() if name != "functions"}, said["streams"])
        count += 1


@left_to_commits
def test_what_the_app_does_not_declare_is_suspended(app: App) -> None:
    """A query created at run time sees no events under another interpreter, is told of, and is not lost."""
    version = others()[-1]
    assert app.run(HERE, 10, "stop", "made")["streams"]["made"][-1] == [9, 50.0]
    for count, end in ((12, "stop"), (14, "kill"), (16, "stop")):  # stored again, and read out of a checkpoint again
        said = app.run(version, count, end)
        assert "made" not in said["status"]
        assert any("suspended 'made'" in each and f"Python {HERE}" in each for each in said["incidents"])
    said = app.run(version, 18, "kill", "made")
    assert said["reports"]["made"] == "kept: /scan"
    assert said["streams"]["made"][10:] == [[10, 66.5], [11, 84.0]]
    assert not any("suspended" in each for each in said["incidents"])
    assert app.run(version, 19, "stop", "made")["streams"]["made"][-1] == [12, 102.5]


ENDED = ("failed", "taken", "summed")


@pytest.mark.parametrize(
    "left", [at_each_commit(",".join(ENDED)), at_each_commit("")], ids=["those that have ended", "all"]
)
def test_who_is_left_undeclared_for_a_while_is_what_it_was(app: App, left: str) -> None:
    """An app that another interpreter runs does not declare some queries, stops, and does so again.
    Back at home all of them stand where they stood: with end, error, place, trace and skipped events."""
    version = others()[-1]
    before = app.run(HERE, 12, "stop", "made")
    names = left or ",".join(each for each in before["status"])
    app.run(version, 12, "stop", f"without={names}")
    app.run(version, 12, "stop", f"without={names}")
    back = app.run(HERE, 12, "kill", "made")
    assert back["ends"] == before["ends"]
    assert {**back["streams"], "functions": 0} == {**before["streams"], "functions": 0}
    assert [each for each in back["incidents"] if each.startswith("suspended")] == []
    on = app.run(HERE, 16, "stop", "made")
    for name in (*ENDED, *(["scan", "groups", "windows", "timed", "skipping", "made"] if not left else [])):
        assert on["streams"][name][: len(before["streams"][name])] == before["streams"][name]
        if name in ENDED:
            assert (on["streams"][name], on["ends"][name]) == (before["streams"][name], before["ends"][name]), name
    assert on["streams"]["scan"][-1] == [15, 376]


@left_to_commits
@pytest.mark.parametrize("home", [False, at_each_commit(True)], ids=["there", "back at home"])
@pytest.mark.parametrize("left", ["timed_too", at_night("timed,timed_too"), at_night("timed")])
def test_a_suspended_query_gets_what_waited_for_a_clock_that_others_share(app: App, left: str, home: bool) -> None:
    """What waited behind the lateness when it was suspended gets to it once, and nothing that came meanwhile."""
    version = others()[0]
    app.run(HERE, 8)
    app.run(version, 12, "stop", f"without={left}")
    app.run(version, 12, "kill", f"without={left}")
    app.run(version, 12, "stop", f"without={left}")
    said = app.run(HERE if home else version, 20)
    streams = said["streams"]
    windows = [value for _, values in streams["timed"] for value in values]
    for name, found in (("timed", windows), ("timed_too", [value for _, value in streams["timed_too"]])):
        wanted = [float(n) for n in range(20) if name not in left.split(",") or not 8 <= n < 12]
        assert found == wanted[: len(found)] and len(found) >= len(wanted) - 6, name


@left_to_commits
def test_the_interpreter_that_made_it_wakes_what_another_has_suspended(app: App) -> None:
    """Nobody declares it: it goes on from its state, and it is told that it has missed something."""
    version = others()[-1]
    app.run(HERE, 10, "stop", "made")
    app.run(version, 12)
    said = app.run(HERE, 14, "kill")
    assert said["streams"]["made"][9:] == [[9, 50.0], [10, 62.5], [11, 76.0]]
    assert any("no longer suspended: 'made'" in each and "missed" in each for each in said["warnings"])
    assert [each for each in said["incidents"] if each.startswith("suspended")] == []
    assert app.run(HERE, 15)["streams"]["made"][12:] == [[12, 90.5]]


@left_to_commits
@pytest.mark.parametrize("command", ["dispose", "restart"])
def test_a_command_leaves_alone_what_it_is_not_about(app: App, command: str) -> None:
    """A command of another interpreter that would suspend other queries is refused, and changes nothing."""
    version = others()[-1]
    before = app.run(HERE, 10, "stop", "made")
    told = app.python(version, "-m", "hosting.cli", command, str(app.store), "made", "--yes")
    assert (told.returncode, "this would suspend 'map'" in told.stderr) == (1, True), told.stderr
    assert f"Python {HERE} (this is {version})" in told.stderr
    back = app.run(HERE, 10, "stop", "made")
    assert (back["ends"], back["streams"]) == (before["ends"], before["streams"])
    assert back["warnings"] == []


@left_to_commits
def test_looking_needs_no_code(app: App) -> None:
    """`inspect` and `tail` of another interpreter show all that is data, also behind a kill."""
    app.run(HERE, 10)
    app.run(HERE, 12, "kill", "made")
    for version in others():
        shown = app.python(version, "-m", "hosting.cli", "inspect", str(app.store), "--all")
        assert shown.returncode == 0, shown.stderr
        assert f"written by Python {HERE}" in shown.stdout
        assert "whose code is not loaded here" in shown.stdout
        assert "/scan" in shown.stdout
        state = app.python(version, "-m", "hosting.cli", "inspect", str(app.store), "--state", "scan")
        assert "value = 145" in state.stdout, state.stdout + state.stderr
        tail = app.python(version, "-m", "hosting.cli", "tail", str(app.store), "scan")
        assert tail.stdout.splitlines()[-1] == "9\t145", tail.stderr


@left_to_commits
def test_a_repair_passes_over_what_another_interpreter_did(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    """Turns of another interpreter are passed over once the app is named and that is agreed to.

    No state is given up for a class that is not here, as that of `rules` would be.
    """
    app.run(others()[0], 5, "stop", "without=rules")
    for count in (8, 10):  # in several groups of the journal
        used = app.run(others()[0], count, "kill", "without=rules")["streams"]
    assert main(["store", "repair", str(app.store), "--yes"]) == 2
    assert "--app" in capsys.readouterr().err
    declared = app.store.with_name("declared_sources.py")
    declared.write_text(
        "from hosting import App, ListSource\napp = App()\napp.source('n', ListSource(list(range(10)), follow=True))\n"
        "app.source('at', ListSource([{'at': float(i)} for i in range(10)], follow=True))\n"
    )
    assert main(["store", "repair", str(app.store), "--app", f"{declared}:app", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "cannot be taken again" in shown
    kept = "repair: its state is kept, and it goes on when the app that declares it starts"
    assert f"query 'scan': code of Python {others()[0]} (this is {HERE})\n    {kept}" in shown
    said = app.run(HERE, 15)
    assert said["status"]["scan"] == "running"
    for name in ("map", "scan", "named", "groups"):  # no id that was used is used again
        assert len(said["streams"][name]) == len(used[name]) + 10, name
        assert said["streams"][name][:4] == used[name][:4] and "unreadable" in str(said["streams"][name][4:])


TEXTS_PROCESS = """
import base64, json, sys
from class_texts import TEXTS, made_anew, shown
from checkpoint.format.class_shape import shape_of
from checkpoint.format.codec import decode, encode
given = json.loads(sys.stdin.read())
written, read, shapes = {}, {}, {}
for name in TEXTS:
    with made_anew(name) as value:
        written[name] = base64.b64encode(encode(value)).decode()
        shapes[name] = repr(shape_of(type(value)))
    if name in given:
        with made_anew(name):
            read[name] = repr(shown(decode(base64.b64decode(given[name]))))
print(json.dumps([written, read, shapes]))
"""


@left_to_commits
def test_each_interpreter_reads_the_values_of_the_others(app: App) -> None:
    """A class that nobody has edited is none that differs, however it is written, and whatever it is built on."""
    app.env["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).parent}"

    def run(version: str, given: dict[str, str]) -> list[dict[str, str]]:
        command = [interpreters()[version], "-c", TEXTS_PROCESS]
        ran = subprocess.run(command, env=app.env, input=json.dumps(given), capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        said: list[dict[str, str]] = json.loads(ran.stdout)
        return said

    first = {version: run(version, {}) for version in interpreters()}
    written = {version: said[0] for version, said in first.items()}
    for _, _, shapes in first.values():
        assert {name: shapes[name] for name in shapes if shapes[name] != first[HERE][2][name]} == {}
    expected = run(HERE, written[HERE])[1]
    for made, read in product(interpreters(), interpreters()):
        found = run(read, written[made])[1]
        assert {name: found[name] for name in found if found[name] != expected[name]} == {}, (made, read)


FAILING = Path(__file__).parent / "mended_process.py"
MENDED = {
    "its own function": ("if x != 100", "if x != 5"),
    "a helper": ("return n - BELOW", "return n + BELOW"),
    "a method of a class": ("return n / self.number", "return n / (self.number or 1)"),
    "an operator": ('n.map(lambda x: f"', 'n.filter(lambda x: x != 5).map(lambda x: f"'),
}
"""Edits by which the query no longer fails at the events that follow."""
LEFT = {
    "nothing": ("", ""),
    "layout and comments": ("    return n - BELOW", "    # as it is\n    return (n\n            - BELOW)"),
    "annotations": ("def less(n: int) -> int", "def less(n: Any) -> object"),
    "another query": ("x + 7", "x + 8"),
    "a place": ("BELOW = 5", "# a line more\nBELOW = 5"),
}
"""What is no edit of the query's functions."""


def changed(app: App, before: str, after: str, *arguments: str, version: str) -> dict[str, Any]:
    """Run the app of `mended_process.py` with a change, and return what it says."""
    text, path = FAILING.read_text(), app.store.with_name("mended.py")
    assert before in text
    path.write_text(text.replace(before, after, 1))
    ran = app.python(version, str(path), str(app.store), *arguments)
    assert ran.returncode == (0 if arguments[1] == "stop" else 9), ran.stderr
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


@pytest.mark.parametrize("change", [*(at_night(each) for each in list(MENDED)[1:]), at_each_commit(next(iter(MENDED)))])
@pytest.mark.parametrize("between", ["stop", "kill", "undeclared"])
def test_a_query_that_failed_is_mended_in_the_step_to_another_python(app: App, change: str, between: str) -> None:
    """It runs again as behind an edit, with the next events and ids, and what had failed with it; others stand.

    So it does if the process is killed at once, and its failure was taken again behind a kill; and if it was suspended
    for a while.
    """
    for version in others():
        end = "kill" if between == "kill" else "stop"
        changed(app, "", "", "8", end, version=HERE)
        failed = changed(app, "", "", "8", "stop", version=HERE)
        assert failed["bad"][:2] == ["failed", 6]
        if between == "undeclared":
            without = changed(app, "queries().items():", "[*queries().items()][2:]:", "8", "stop", version=version)
            assert without.keys() == {"taken", "incidents"}
        said = changed(app, *MENDED[change], "12", end, version=version)
        assert said["bad"][:2] == ["running", 10], said
        assert "begins afresh" in said["bad"][2] and said["reads"][0] == "running"
        assert said["taken"][:2] == failed["taken"][:2]
        assert not any(each.startswith("query") for each in said["incidents"])
        assert changed(app, *MENDED[change], "13", "stop", version=version)["bad"][:2] == ["running", 11]
        shutil.rmtree(app.store)


@pytest.mark.parametrize("change", [*(at_night(each) for each in list(LEFT)[1:]), at_each_commit(next(iter(LEFT)))])
def test_a_query_that_was_not_mended_stays_failed_under_another_python(app: App, change: str) -> None:
    """Neither the failed nor the completed ones run again, and what is said names the way."""
    for version in others():
        failed = changed(app, "", "", "8", "stop", version=HERE)
        for _ in range(2):
            said = changed(app, *LEFT[change], "12", "stop", version=version)
            assert [said[each][:2] for each in ("bad", "taken")] == [failed[each][:2] for each in ("bad", "taken")]
            (told,) = [each for each in said["incidents"] if each.startswith("query 'bad'")]
            assert f"`reliable-rx restart {app.store} bad`" in told
        shutil.rmtree(app.store)


@left_to_commits
def test_every_python_writes_the_text_of_a_function_alike(app: App) -> None:
    """The functions of the tests and of the library itself: what each tells of them is the same."""
    files = [
        str(each) for folder in ("tests", "hosting", "reliable_rx") for each in sorted((ROOT / folder).glob("*.py"))
    ]
    trees = [app.told(each, str(TREES), *files) for each in (HERE, *others())]
    for there in trees[1:]:
        assert len(there) > 0.98 * len(trees[0])
        assert {name: trees[0][name] for name in there if name in trees[0]} == {
            name: there[name] for name in there if name in trees[0]
        }


def refused(app: App, before: str, after: str, version: str) -> str:
    """Start the app of `mended_process.py` with a change, which is refused, and return what it says."""
    text, path = FAILING.read_text(), app.store.with_name("mended.py")
    assert before in text
    path.write_text(text.replace(before, after, 1))
    ran = app.python(version, str(path), str(app.store), "8", "stop")
    assert ran.returncode == 1 and "CheckpointRefused" in ran.stderr
    return ran.stderr


@left_to_commits
def test_behind_a_kill_another_python_says_which_functions_have_changed_as_well(app: App) -> None:
    """By their names, and that the edit comes behind the turns; of an app that nobody has edited nothing is said."""
    for version in others():
        changed(app, "", "", "4", "stop", version=HERE)
        changed(app, "", "", "8", "kill", version=HERE)
        for change, names in (
            ("a helper", "__main__.less"),
            ("a method of a class", "__main__.Division.of"),
            ("its own function", "__main__.queries.<locals>.<lambda>"),
        ):
            said = refused(app, *MENDED[change], version)
            assert f"(changed since, and an edit behind these turns then: '{names}')" in said, said
            assert f"start it once with Python {HERE}" in said
        for before, after in LEFT.values():
            if (before, after) != LEFT["another query"]:
                assert "changed since" not in refused(app, before, after, version)
        edited = changed(app, *MENDED["a helper"], "8", "stop", version=HERE)
        assert edited["taken"][:2] == ["completed", 4]
        assert changed(app, *MENDED["a helper"], "9", "stop", version=version)["taken"][:2] == ["completed", 4]
        shutil.rmtree(app.store)
