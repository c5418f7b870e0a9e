"""Every error at the command line is one sentence with a remedy on stderr, and an exit code that is not 0."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from cli_process import cli, write
from lanes import crossed
from postgres_server import PostgresServer

import reliable_rx as rx
from checkpoint import PostgresStore, SqliteStore
from hosting import App, QueryEvaluator
from hosting.app import Options
from hosting.cli import main
from hosting.cli.command import parser
from hosting.partitioned.opening import open_group
from reliable_rx.errors import StoreUnavailable


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "no_such_module:app"], 2, "there is no module 'no_such_module'"),
        (["run", "missing.py:app"], 2, "there is no file missing.py"),
        (["run", ":app"], 2, "no module is named"),
        (["run", "hosting:nothing"], 2, "hosting has no 'nothing'"),
        (["run", "hosting.app:Options"], 2, "not an App"),
        (["inspect", "nowhere"], 2, "there is no store in nowhere"),
        (["tail", "nowhere", "x"], 2, "there is no store in nowhere"),
        (["inspect", "empty"], 0, ""),
        (["tail", "empty", "x"], 2, "the store has no stream 'x'; it has none yet"),
        (["demo", "--out", "full"], 2, "full is not empty"),
        (["export", "no_such_module:app", "x", "out"], 2, "there is no module 'no_such_module'"),
        (["status", "--store", "nowhere"], 2, "there is neither a store nor a group in nowhere"),
        (["offsets", "show", "--store", "nowhere"], 2, "there is neither a store nor a group in nowhere"),
        (["offsets", "migrate", "--from", "x", "--to", "x"], 2, "the same place"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_one_sentence(
    arguments: Sequence[str],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The sentence names the thing; there is no traceback."""
    monkeypatch.chdir(tmp_path)
    SqliteStore("empty").close()
    write(tmp_path, "something", "")
    (tmp_path / "full").mkdir()
    write(tmp_path, "full/of", "my letters")
    assert main(arguments) == code
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == (1 if code else 0)
    assert (tmp_path / "full/of").read_text() == "my letters"


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["run"], ["tail", "s", "x", "--from", "-1"], ["demo", "--events", "0"]], ids=" ".join
)
def test_bad_usage_is_2(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What argparse refuses is refused before anything is touched."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: reliable-rx" in capsys.readouterr().err


BROKEN = {
    "1 / 0": "ZeroDivisionError: division by zero",
    "sys.exit(0)": "SystemExit: 0",
    "sys.exit()": "SystemExit",
}
"""What a module does, and what is said of it."""


@pytest.mark.parametrize("does, where, command", crossed(BROKEN, ["module", "function"], ["run", "node"]))
def test_an_app_that_cannot_be_imported_says_where(does: str, where: str, command: str, tmp_path: Path) -> None:
    """The error, the file and the line; no traceback, and no end that looks as if all were well."""
    head = "import sys; from hosting import App"
    text = f"{head}\n{does}\napp = App()\n" if where == "module" else f"{head}\ndef app():\n    {does}\n"
    write(tmp_path, "broken.py", text)
    refused = cli(command, "broken.py:app", "--store", "store", cwd=tmp_path, code=2)
    place = f"broken.py:{2 if where == 'module' else 3}"
    assert BROKEN[does] in refused.stderr and place in refused.stderr and "Traceback" not in refused.stderr


MODULES = {
    "its imports are relative": ("shop", "from .parts import n", ".", "shop/app.py", "give shop.app"),
    "in a package": (
        "shop/night",
        "from ..parts import n",
        "shop",
        "night/app.py",
        "give shop.night.app, in the folder",
    ),
    "it names its folder": ("shop", "from shop.parts import n", "shop", "app.py", "give shop.app, in the folder"),
}


@pytest.mark.parametrize("which", MODULES)
def test_a_module_of_a_package_is_told_its_name(which: str, tmp_path: Path) -> None:
    """A file that is imported by itself does not find its package: under the name and in the folder told, it does."""
    folder, imports, here, given, says = MODULES[which]
    (tmp_path / folder).mkdir(parents=True)
    for package in ("shop", folder) if "names" not in which else ():
        write(tmp_path, f"{package}/__init__.py", "")
    write(tmp_path, "shop/parts.py", "import reliable_rx as rx\nn = rx.of(1)\n")
    write(tmp_path, f"{folder}/app.py", f"from hosting import App\n{imports}\napp = App()\napp.query('q', n)\n")
    (refused,) = cli("run", given, cwd=tmp_path / here, code=2).stderr.splitlines()
    assert says in refused and "app.py:2" in refused, refused
    named = refused.rpartition("give ")[2].split(",")[0]
    cli("run", named, "--store", "store", cwd=tmp_path)


MISTAKES = {
    "a policy": ("app.query('q', n, policy='skipp')", "'skipp'"),
    "an argument": ("rx.operators.take('3')", "'3'"),
    "a name twice": ("app.source('n', ListSource([1]))", "is taken"),
    "a sink of nothing": ("app.sink('m', JsonLinesSink('m.jsonl'))", "no query is called"),
    "a syntax error": ("app.query('q' n)", "SyntaxError"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_placed_where_the_user_made_it(mistake: str, tmp_path: Path) -> None:
    """The place that is named is the last line of the user's own, not one of the library."""
    line, said = MISTAKES[mistake]
    head = "import reliable_rx as rx\nfrom hosting import App, JsonLinesSink, ListSource\napp = App()\n"
    write(tmp_path, "mistaken.py", f"{head}n = app.source('n', ListSource([1]))\ndef make():\n    {line}\nmake()\n")
    complaint = cli("run", "mistaken.py:app", cwd=tmp_path, code=2).stderr
    assert "mistaken.py:6" in complaint and said in complaint, complaint


def test_a_query_over_nothing_is_refused_by_name(tmp_path: Path) -> None:
    """The sentence of the library is the sentence of the command."""
    write(
        tmp_path,
        "lonely.py",
        "import reliable_rx as rx\nfrom hosting import App\napp = App()\napp.query('q', rx.source('missing'))\n",
    )
    refused = cli("run", "lonely.py:app", cwd=tmp_path, code=1)
    assert "'q' reads 'missing'" in refused.stderr


@pytest.mark.parametrize(
    "declared, code, says",
    [("", 2, "declares no query"), ("app.query('q', rx.of(1))", 1, "'q' reads no source")],
)
def test_a_node_has_something_to_run(declared: str, code: int, says: str, tmp_path: Path) -> None:
    """An app of which nodes can share nothing is refused, and no node waits for partitions that never come."""
    write(tmp_path, "app.py", f"import reliable_rx as rx\nfrom hosting import App\napp = App()\n{declared}\n")
    said = cli("node", "app.py", "--store", "g", "--plain", cwd=tmp_path, code=code).stderr
    assert says in said and len(said.splitlines()) == 1


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """--version names the command and its version."""
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("reliable-rx ")


def test_every_command_has_help() -> None:
    """The help of every command says what it is for."""
    commands = next(each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))
    looking, mending = ["inspect", "tail"], ["restart", "dispose", "holders", "release", "store"]
    assert list(commands.choices) == ["run", *looking, *mending, "demo", "export", "node", "status", "offsets"]
    assert all(each.description for each in commands.choices.values())


NASTY = ["", "a\nb", "a\0b", "\udced\udca0\udc80", "x" * 70_000]


LOOKED_UP = {"--store", "--app", "--from", "--to", "--new-offsets", "--assignor", "--state"}
"""Options with an address, or with what must be there already."""


def options_of(each: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, argparse.Action]]:
    """Yield the options of all commands under *each* that take any text, with their command."""
    for action in each._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from options_of(command)
        elif action.option_strings and action.nargs is None and action.choices is None:
            yield each, action


def test_every_name_on_the_command_line_is_checked() -> None:
    """An option that takes a text either is looked up, or refuses what could not be stored as any name is refused."""
    found = [(command, each) for command, each in options_of(parser()) if each.option_strings[0] not in LOOKED_UP]
    assert {each.option_strings[0] for _, each in found if each.type is None} == set()
    names = [(command, each) for command, each in found if getattr(each.type, "__qualname__", "").startswith("called.")]
    assert {each.option_strings[0] for _, each in names} == {"--group", "--name", "--instance", "--tag", "--room"}
    names += [(command, each) for command, each in found if each.option_strings == ["--only"]]
    for command, each in names:
        for name in NASTY:
            with pytest.raises(argparse.ArgumentError, match=f"{each.option_strings[0]}: .*;") as refused:
                command._get_value(each, f"n/{name}" if each.dest == "only" else name)
            assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "command", ["node a.py:app", "status", "offsets show", "restart g q", "dispose g q", "holders g", "release g q"]
)
def test_a_bad_name_is_bad_usage(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a group that is none is refused before anything is opened, with what to do about it."""
    where = ["--store", str(tmp_path)] if command.split()[0] in ("node", "status", "offsets") else []
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), *where, "--group", "\udced"])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "argument --group: a group cannot be called '\\udced': " in said and "leave that out" in said
    assert "--traceback" not in said.splitlines()[-1] and not [*tmp_path.iterdir()]


def test_the_options_of_an_app_are_those_of_the_evaluator() -> None:
    """An app can say everything about how it is hosted, but for what only tests turn."""
    import inspect

    parameters = inspect.signature(QueryEvaluator).parameters
    assert set(parameters) - set(Options.__annotations__) == {"store", "clock", "background", "lend"}


def test_an_unknown_option_is_refused_at_once() -> None:
    """The error names the arguments there are."""
    with pytest.raises(TypeError, match="App has no argument 'speed'; it takes delivery"):
        App(speed=3)  # type: ignore[call-arg]


def test_a_sink_for_an_unknown_stream_is_refused_at_once() -> None:
    """The error names the streams there are."""
    with pytest.raises(KeyError, match="no query is called 'x'"):
        App().sink("x", print)  # type: ignore[arg-type]


def test_a_pushed_input_says_that_nobody_hosts_it() -> None:
    """Pushing before hosting is refused with the remedy."""
    with pytest.raises(RuntimeError, match=r"call app\.evaluator"):
        App().push("x").on_next(1)


NO_STORE = {
    "restart": ["restart", "{}", "q"],
    "dispose": ["dispose", "{}", "q"],
    "repair": ["store", "repair", "{}"],
    "release": ["release", "{}", "q", "me"],
    "holders": ["holders", "{}"],
    "inspect": ["inspect", "{}"],
    "tail": ["tail", "{}", "q"],
    "status": ["status", "--store", "{}"],
}


@pytest.mark.parametrize("kind", ["missing", "empty", "file", "link"])
@pytest.mark.parametrize("name", NO_STORE)
def test_where_no_store_is_none_is_made(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that works on a store refuses another place with exit code 2, and leaves it as it was."""
    place = tmp_path / "place"
    if kind == "empty":
        place.mkdir()
    elif kind == "file":
        place.write_text("text")
    elif kind == "link":
        place.symlink_to("/not/mounted")
    assert main([each.format(place) for each in NO_STORE[name]]) == 2
    told = capsys.readouterr().err
    assert ("a link to /not/mounted, which is not there" in told) == (kind == "link")
    assert ("neither a store nor a group in" if name == "status" else "there is no store in") in told
    assert str(place) in told
    assert [each for each in tmp_path.rglob("*") if each != place] == []
    assert place.exists() == (kind not in ("missing", "link"))


@pytest.mark.parametrize(
    "line", ["run app.py --store s", "restart s q", "dispose s q", "release s q x", "store repair s"]
)
def test_a_store_in_use_is_1(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that changes a store on which something runs is called as it should be, and does not work now."""
    write(tmp_path, "app.py", "from hosting import App\napp = App()\n")
    with contextlib.chdir(tmp_path), SqliteStore("s") as store, closing(QueryEvaluator(store)) as evaluator:
        evaluator.create("q", rx.of(1))
        evaluator.run()
        evaluator.checkpoint()
        assert main(line.split()) == 1
        assert "is open already" in capsys.readouterr().err


@pytest.mark.parametrize("below", [".", "a", "a/b"])
def test_a_link_to_nowhere_is_no_place_for_a_store(tmp_path: Path, below: str) -> None:
    """A disk may not be mounted: the error says where the link leads, and that is made by nobody."""
    (tmp_path / "place").symlink_to(tmp_path / "disk" / "data")
    with pytest.raises(StoreUnavailable, match=r"place is a link to .*data, which is not there: mount it"):
        SqliteStore(tmp_path / "place" / below)
    assert not (tmp_path / "disk").exists()


THERE = {
    "nowhere": "there is no such folder .*stores near it: orders",
    "order": "stores near it: orders, stock",
    "far/away": "there is no folder far either",
    "a.py": "it is a file",
    "empty": "it is an empty folder",
    "orders/checkpoint.sqlite": "it is a file; its folder is a store",
    "many": "that folder has a, notes.txt; stores near it: many/a",
    "nodes": "a group of nodes shares it .*status --store nodes",
}


@pytest.mark.parametrize(
    "where, command", crossed(THERE, ["inspect", "tail", "restart", "dispose", "holders", "status"])
)
def test_what_is_there_instead_of_a_store_is_said(
    command: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path where no store is: what is there, and which stores are near it."""
    monkeypatch.chdir(tmp_path)
    for each in ("orders", "stock", "many/a"):
        SqliteStore(each).close()
    Path("empty").mkdir()
    for file in ("many/notes.txt", "a.py"):
        Path(file).touch()
    open_group("nodes", "g").close()
    if where == "nodes" and command in ("status", "restart", "dispose", "holders"):  # these are for groups, too
        return
    more = {"tail": ["q"], "restart": ["q"], "dispose": ["q"]}.get(command, [])
    assert main(["status", "--store", where] if command == "status" else [command, where, *more]) == 2
    assert re.search(THERE[where], capsys.readouterr().err)


@pytest.mark.parametrize("line", ["inspect {}", "tail {} q", "store repair {}"])
def test_where_a_group_lives_its_stores_are_named(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command for one store names those of the partitions, the newest of each, and takes what it has named."""
    monkeypatch.chdir(tmp_path)
    with SqliteStore("s") as store, closing(QueryEvaluator(store)) as evaluator:
        evaluator.create("q", rx.of(1))
        evaluator.run()
        evaluator.checkpoint()
    open_group("my nodes", "g").close()
    for epoch in ("a/9", "a/10", "b/1"):
        shutil.copytree("s", f"my nodes/partitions/g/n/{epoch}")
    assert main([each.format("my nodes") for each in line.split()]) == 2
    (named,) = re.findall("stores of its partitions: (.*); give the folder of one", capsys.readouterr().err)
    a, b = (shlex.split(each)[0] for each in named.split(", "))
    assert a.endswith("/n/a/10") and b.endswith("/n/b/1")
    is_repair = line.startswith("store")
    assert main([each.format(a) for each in line.split()]) == (2 if is_repair else 0)
    assert not is_repair or "its files are whole" in capsys.readouterr().err


def asked(line: str, dsn: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Give a command that is refused, and return what is said."""
    assert main([dsn if word == "DSN" else word for word in line.split()]) in (1, 2)
    return capsys.readouterr().err


@pytest.mark.parametrize("line", ["inspect DSN", "status --store DSN", "restart DSN q", "store repair DSN"])
def test_which_store_of_a_database_is_meant_is_asked(
    line: str, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where that is not clear those that are there are named, and looking makes neither tables nor stores."""
    dsn = postgres.new_database()
    assert "there are no stores in this database" in asked(line, dsn, capsys)
    assert "there are no stores in this database" in asked(line, dsn, capsys), "no tables were made"
    for name in ("shop", "stock"):
        PostgresStore(dsn, name).close()
    assert "say which store with --name; there are: shop, stock" in asked(line, dsn, capsys)
    assert "there is no store 'other' in the database; there are: shop, stock" in asked(
        f"{line} --name other", dsn, capsys
    )
    if "status" in line or "restart" in line:  # these are for groups, too
        with closing(open_group(dsn, "g")) as opened:
            opened.registry.swap(0, b"{}", notice=False)
        assert "say which with --group: g, or with --name one of the stores shop, stock" in asked(line, dsn, capsys)
        assert "'shop' is the store of one program, and no group: give --name shop" in asked(
            f"{line} --group shop", dsn, capsys
        )
        assert "and not both" in asked(f"{line} --group g --name shop", dsn, capsys)


def test_a_store_of_which_only_the_journal_is_there_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was killed before its first checkpoint: what it has is behind the next start, and not nothing."""
    with SqliteStore(tmp_path / "store") as store:
        evaluator = QueryEvaluator(store, background=False)
        evaluator.push("n").push([1])
        evaluator.create("q", rx.source("n"))
        while evaluator.step():
            pass
        evaluator.abandon()
    assert main(["tail", str(tmp_path / "store"), "q"]) == 2
    assert "none yet, and 3 turns in the journal, which the next start takes again" in capsys.readouterr().err
