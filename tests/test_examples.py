"""The examples run as they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cli_process import cli, running, wait_for

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_embedded_example_runs() -> None:
    """It prints the words that come more than once."""
    done = subprocess.run([sys.executable, EXAMPLES / "embedded.py"], capture_output=True, text=True, check=True)
    assert "('again', 2)" in done.stdout
    assert "'words'" not in done.stdout


def test_orders_go_on_from_run_to_run(tmp_path: Path) -> None:
    """Totals continue, and what is no order is a dead letter."""
    cli("run", EXAMPLES / "orders.py:app", cwd=tmp_path, stdin="ann 3\nbob 4\n")
    cli("run", EXAMPLES / "orders.py:app", cwd=tmp_path, stdin="nonsense\nann 5\n")
    lines = (tmp_path / "totals.jsonl").read_text().splitlines()
    assert lines == ['{"id":0,"value":{"ann":3}}', '{"id":1,"value":{"bob":4}}', '{"id":2,"value":{"ann":8}}']
    letters = cli("tail", "orders.store", "totals.dead_letters", cwd=tmp_path).stdout
    assert '"value": "nonsense"' in letters


def test_sensors_can_be_followed_from_elsewhere(tmp_path: Path) -> None:
    """Averages appear in another process while the app runs."""
    with running("run", EXAMPLES / "sensors.py:app", cwd=tmp_path) as process:
        wait_for(process, "events in")
        with running("tail", "sensors.store", "averages", "--follow", cwd=tmp_path) as tail:
            wait_for(tail, '["north", ')
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
