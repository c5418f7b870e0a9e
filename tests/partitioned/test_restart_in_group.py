"""`reliable-rx restart` of a query in the partitions of a group: where it has failed, while no node runs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from cli_process import cli, running, wait_for, write
from lanes import at_each_commit

from hosting.cli.wording import FAILED

APP = """
import pathlib
from hosting import App, JsonLinesSink, ListSource


def price(order):
    if order == 2 and not pathlib.Path("well").exists():
        raise ConnectionError("the price list is not there")
    return order


app = App()
orders = app.source("orders", ListSource({"a": [1, 2, 3], "b": [1, 3]}, follow=FOLLOW))
app.query("prices", orders.map(price))
app.query("count", orders.scan(lambda count, order: count + 1, 0))
"""


@pytest.mark.parametrize("follow", [False, at_each_commit(True)], ids=["ended", "handed over"])
def test_a_query_of_a_group_is_run_again_where_it_has_failed(follow: bool, tmp_path: Path) -> None:
    """The partition where it failed is named, the other is left alone, and status has forgotten the failure."""
    write(tmp_path, "app.py", APP.replace("FOLLOW", str(follow)))
    command = ("node", "app.py", "--store", "g", "--gather", "0", "--plain")
    if follow:
        with running(*command, cwd=tmp_path) as process:
            wait_for(process, "orders/a fails")
            refused = cli("restart", "g", "prices", "--app", "app.py", cwd=tmp_path, code=2).stderr
            assert "stop its nodes first" in refused
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    else:
        cli(*command, "--until-ended", cwd=tmp_path, code=FAILED)
    assert "prices" in cli("status", "--store", "g", cwd=tmp_path, code=FAILED).stdout
    (tmp_path / "well").touch()
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
    write(tmp_path, "app.py", APP.replace("FOLLOW", "False"))
    cli("node", "app.py", "--store", "g", "--gather", "0", "--plain", "--until-ended", cwd=tmp_path, code=FAILED)
    assert "--app MODULE:APP" in cli("restart", "g", "prices", cwd=tmp_path, code=2).stderr
    assert "declares no query 'price'" in cli("restart", "g", "price", "--app", "app.py", cwd=tmp_path, code=2).stderr
