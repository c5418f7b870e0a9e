"""`reliable-rx restart` of a query in the partitions of a group: where it has failed, while no node runs."""

from __future__ import annotations

import json
import re
import shlex
import signal
from contextlib import closing
from pathlib import Path

import pytest
from cli_process import cli, running, wait_for
from lanes import at_each_commit, left_to_commits
from price_app import SINK, mend, write_app

from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator
from hosting.cli.wording import FAILED


@pytest.mark.parametrize("follow", [False, at_each_commit(True)], ids=["ended", "handed over"])
def test_a_query_of_a_group_is_run_again_where_it_has_failed(follow: bool, tmp_path: Path) -> None:
    """The partition where it failed is named, the other is left alone, and status has forgotten the failure."""
    write_app(tmp_path, follow=follow)
    command = ("node", "app.py", "--store", "g", "--gather", "0", "--plain")
    if follow:
        with running(*command, cwd=tmp_path) as process:
            wait_for(process, "orders/a fails")
            refused = cli("restart", "g", "prices", "--app", "app.py", cwd=tmp_path, code=1).stderr
            assert "stop its nodes first" in refused
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    else:
        cli(*command, "--until-ended", cwd=tmp_path, code=FAILED)
    assert "prices" in cli("status", "--store", "g", cwd=tmp_path, code=FAILED).stdout
    mend(tmp_path)
    said = cli("restart", "g", "prices", "--app", "app.py", cwd=tmp_path).stdout
    assert "orders/a: it had failed with ConnectionError" in said and "restarted in 1 partition" in said
    cli("status", "--store", "g", cwd=tmp_path)
    assert "in no partition" in cli("restart", "g", "prices", "--app", "app.py", cwd=tmp_path).stdout
    if follow:
        with running(*command, cwd=tmp_path) as process:
            wait_for(process, "2 partitions here")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        assert process.returncode == 0


def test_a_restart_in_a_group_says_what_it_needs(tmp_path: Path) -> None:
    """The app, and a query that it declares."""
    write_app(tmp_path)
    cli("node", "app.py", "--store", "g", "--gather", "0", "--plain", "--until-ended", cwd=tmp_path, code=FAILED)
    assert "--app MODULE:APP" in cli("restart", "g", "prices", cwd=tmp_path, code=2).stderr
    assert "declares no query 'price'" in cli("restart", "g", "price", "--app", "app.py", cwd=tmp_path, code=2).stderr


NODE = ("node", "app.py", "--group", "my g", "--gather", "0", "--plain", "--until-ended")


@pytest.fixture(params=["a folder", "database"])
def where(request: pytest.FixtureRequest) -> str:
    return request.param if request.param == "a folder" else request.getfixturevalue("postgres").new_database()


def pasted(command: str, cwd: Path, **expected: int) -> str:
    """Do what a message says in a shell, with the app of this test."""
    words = shlex.split(command.replace("MODULE:APP", "app.py"))
    assert words[0] == "reliable-rx"
    said = cli(*words[1:], cwd=cwd, **expected)
    return said.stdout + said.stderr


def check_well(where: str, folder: Path) -> None:
    """The next node has the sink told of the end, and nothing fails."""
    assert "the next node that starts" in cli("status", "--store", where, cwd=folder).stdout
    cli(*NODE, "--store", where, cwd=folder)
    rows = [json.loads(line) for line in (folder / "a-b.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [0, 1, 2] and rows[2]["completed"]
    assert "the next node that starts" not in cli("status", "--store", where, cwd=folder).stdout


def test_what_the_log_of_a_node_says_is_the_way_back(where: str, tmp_path: Path) -> None:
    """The call that it names for a failed query mends that, and `status` and sinks know it afterwards."""
    write_app(tmp_path, failing="a/b", beside=SINK)
    log = cli(*NODE, "--store", where, cwd=tmp_path, code=FAILED).stderr
    mend(tmp_path)
    (command,) = set(re.findall("`(reliable-rx restart [^`]*)`", log))
    assert "restarted in 1 partition" in pasted(command, tmp_path)
    check_well(where, tmp_path)


@left_to_commits
def test_the_store_of_a_partition_is_not_restarted_beside_its_group(where: str, tmp_path: Path) -> None:
    """Its group would go on saying that it fails, and its sinks lack the end: what does more is named."""
    write_app(tmp_path, failing="a/b", beside=SINK)
    cli(*NODE, "--store", where, cwd=tmp_path, code=FAILED)
    mend(tmp_path)
    store = ["--name", "my%20g/orders/a%2Fb", where]
    if where == "a folder":
        store = [str(next((tmp_path / where).glob("partitions/*/orders/a%2[Ff]b/*")))]
    said = cli("restart", *store, "prices", cwd=tmp_path, code=2).stderr
    (command,) = re.findall("`([^`]*)`", said)
    pasted(command, tmp_path)
    check_well(where, tmp_path)


def test_what_was_mended_beside_the_group_is_told_to_it(tmp_path: Path) -> None:
    """Where a query runs again, or has ended well, and the group does not know, the call has it know."""
    write_app(tmp_path, failing="a/b", beside=SINK)
    cli(*NODE, "--store", "g", cwd=tmp_path, code=FAILED)
    mend(tmp_path)
    (store,) = (tmp_path / "g").glob("partitions/*/orders/a%2[Ff]b/*")
    with SqliteStore(store) as found, closing(QueryEvaluator(found)) as evaluator:
        found.group, evaluator.incidents.place = ("g", "my g"), "orders/a/b"  # as who has its lease
        evaluator.source("orders", ListSource({"a/b": []}))
        evaluator.start()
        evaluator.restart("prices")
    cli("status", "--store", "g", cwd=tmp_path, code=FAILED)
    assert "in no partition" in cli("restart", "g", "prices", "--app", "app.py", cwd=tmp_path).stdout
    check_well("g", tmp_path)
