"""The demo, with a few days of flights: it really kills, and nothing is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_process import cli

from hosting.cli.command import main
from hosting.demo.queries import QUERIES
from hosting.demo.verdict import compare


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the demo once with several days of flights, killed twice."""
    folder = tmp_path_factory.mktemp("demo")
    done = cli("demo", "--out", "out", "--events", "6000", "--kills", "2", "--seed", "3", cwd=folder)
    return folder / "out", done.stdout


@pytest.mark.slow
@pytest.mark.commit
def test_nothing_is_lost_duplicated_or_reordered(told: tuple[Path, str]) -> None:
    """It was killed, and every stream is what it is without kills."""
    out, text = told
    assert re.search(r"killed [12] times?", text)
    assert "lost 0 · duplicated 0 · reordered 0" in text
    assert compare(QUERIES, out / "plain/streams", out / "killed/streams").clean


@pytest.mark.slow
@pytest.mark.commit
def test_every_query_answers(told: tuple[Path, str]) -> None:
    """Every query has its table, and every departure has its weather."""
    out, text = told
    assert all(f"{name}   " in text for name in QUERIES)
    joined = (out / "killed/streams/weather_at_departure.jsonl").read_text().splitlines()
    flights = [line.split(",") for line in (out / "data/flights.csv").read_text().splitlines()[1:]]
    assert len(joined) == sum(flight[5] != "NA" for flight in flights) + 1
    assert json.loads(joined[-1]) == {"id": len(joined) - 1, "completed": True}


@pytest.mark.slow
@pytest.mark.commit
def test_hours_count_every_flight_once(told: tuple[Path, str]) -> None:
    """Departures and cancellations of all hours are all flights, and every hour begins with the clock."""
    out, _ = told
    lines = (out / "killed/streams/departures_per_hour.jsonl").read_text().splitlines()
    hours = [json.loads(line)["value"] for line in lines[:-1]]
    assert sum(hour["departures"] + hour["cancelled"] for hour in hours) == 6000
    assert all(hour["time"] % 3600 == 0 for hour in hours)


@pytest.mark.slow
@pytest.mark.commit
def test_a_chart_is_drawn(told: tuple[Path, str]) -> None:
    """A PNG stands where the demo says."""
    out, text = told
    assert "chart    out/flights.png" in text
    assert (out / "flights.png").read_bytes().startswith(b"\x89PNG")


def test_a_difference_is_counted(tmp_path: Path) -> None:
    """A record that is gone, or there twice, is found: the verdict is no formality."""
    lines = [f'{{"id":{number},"value":{number * number}}}\n' for number in range(20)]
    for folder in ("plain", "killed"):
        (tmp_path / folder).mkdir()
        for name in QUERIES:
            (tmp_path / folder / f"{name}.jsonl").write_text("".join(lines))
    assert compare(QUERIES, tmp_path / "plain", tmp_path / "killed").clean
    (tmp_path / "killed/rolling_delay.jsonl").write_text("".join([*lines[:10], lines[9], *lines[12:]]))
    verdict = compare(QUERIES, tmp_path / "plain", tmp_path / "killed")
    assert str(verdict) == "lost 2 · duplicated 1 · reordered 0" and not verdict.clean


def test_how_often_it_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as is asked for; else what its help says: five times, with Spark three."""
    kills: list[int] = []

    def run(out: Path, **options: Any) -> int:
        kills.append(options["kills"])
        return 0

    monkeypatch.setattr("hosting.demo.job.run_demo", run)
    monkeypatch.setattr("hosting.cli.command.brought_demo", lambda name: run)
    for arguments in ([], ["--spark"], ["--kills", "0"], ["--spark", "--kills", "1"]):
        assert main(["demo", *arguments]) == 0
    assert kills == [5, 3, 0, 1]


@pytest.mark.slow
@pytest.mark.commit
def test_a_second_demo_replaces_the_first(told: tuple[Path, str]) -> None:
    """The folder of a demo may be used again, and its seed repeats the moments."""
    out, _ = told
    done = cli("demo", "--out", "out", "--events", "500", "--kills", "0", cwd=out.parent)
    assert "killed 0 times" in done.stdout
    assert "lost 0 · duplicated 0 · reordered 0" in done.stdout
