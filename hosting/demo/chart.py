"""The results as a picture: four views of the year, drawn from the streams of the run that was killed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hosting.demo.data import AIRPORTS
from hosting.demo.queries import NEW_YORK
from hosting.demo.tables import Record, Streams, airline, last_of
from reliable_rx.errors import SourceFailed

INK, FAINT = "#26323d", "#d8dee4"
COLORS = ("#1f6f8b", "#e07a3f", "#7a9e3f", "#8c5fa8", "#c44569")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
CARRIERS_DRAWN = 4
FIRST_HOUR = 5


def draw(streams: Streams, carriers: dict[str, str], to: Path, title: str) -> Path:
    """Draw the chart into the file *to*. *Raises* `SourceFailed` if matplotlib is not there."""
    try:
        import matplotlib
    except ImportError as error:
        raise SourceFailed(
            "matplotlib is not installed, so no chart is drawn; run: pip install 'reliable-rx[demo]'", source="chart"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context({"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT}):
        figure, places = plt.subplots(2, 2, figsize=(15, 9.5), layout="constrained")
        layout: Any = figure.get_layout_engine()
        layout.set(h_pad=0.18, w_pad=0.12)
        figure.suptitle(title, fontsize=15, fontweight="bold", x=0.01, ha="left")
        hours = streams["departures_per_hour"]
        delay_by_hour(places[0, 0], figure, hours)
        cancelled_by_day(places[0, 1], hours)
        carriers_over_the_year(places[1, 0], streams["rolling_delay"], carriers)
        cost_of_weather(places[1, 1], streams["delay_by_weather"])
        figure.savefig(to, dpi=110)
        plt.close(figure)
    return to


def heading(axes: Any, text: str, stream: str) -> None:
    axes.set_title(text, loc="left", fontsize=12, fontweight="bold", color=INK, pad=20)
    axes.text(0, 1.02, f"stream {stream}", transform=axes.transAxes, fontsize=9, color="#7b8794")
    axes.tick_params(length=0, colors=INK)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def local(record: Record) -> datetime:
    return datetime.fromtimestamp(record["time"], NEW_YORK)


def delay_by_hour(axes: Any, figure: Any, hours: Sequence[Record]) -> None:
    """A map of the average delay by month and hour of the day."""
    delay = [[0.0] * 24 for _ in MONTHS]
    count = [[0] * 24 for _ in MONTHS]
    for record in hours:
        at = local(record)
        delay[at.month - 1][at.hour] += record["delay_min"]
        count[at.month - 1][at.hour] += record["departures"]
    nothing = float("nan")
    average = [
        [d / c if c else nothing for d, c in list(zip(ds, cs, strict=True))[FIRST_HOUR:]]
        for ds, cs in zip(delay, count, strict=True)
    ]
    shown = axes.imshow(average, aspect="auto", cmap="YlOrRd", vmin=0, vmax=45)
    axes.set_yticks(range(12), MONTHS)
    axes.set_xticks(range(0, 24 - FIRST_HOUR, 2), [f"{hour}:00" for hour in range(FIRST_HOUR, 24, 2)])
    heading(axes, "The day gets later: average delay by scheduled hour", "departures_per_hour")
    axes.spines["bottom"].set_visible(False)
    bar = figure.colorbar(shown, ax=axes, pad=0.01, fraction=0.04)
    bar.set_label("minutes")
    bar.outline.set_visible(False)


def cancelled_by_day(axes: Any, hours: Sequence[Record]) -> None:
    """Cancelled flights a day, airport upon airport, with the worst days named."""
    days: dict[Any, dict[str, int]] = {}
    for record in hours:
        day = days.setdefault(local(record).date(), dict.fromkeys(AIRPORTS, 0))
        day[record["origin"]] += record["cancelled"]
    dates = sorted(days)
    floor = [0] * len(dates)
    for airport, color in zip(AIRPORTS, COLORS, strict=False):
        heights = [days[date][airport] for date in dates]
        axes.bar(dates, heights, bottom=floor, width=1.0, color=color, label=airport)
        floor = [low + height for low, height in zip(floor, heights, strict=True)]
    for date, total in named_peaks(dates, floor):
        axes.annotate(
            f"{date:%d %b}: {total:,}", (date, total), xytext=(6, -2), textcoords="offset points", va="top", fontsize=9
        )
    axes.grid(axis="y", color=FAINT)
    axes.set_axisbelow(True)
    axes.set_ylabel("flights")
    by_month(axes, dates)
    axes.legend(frameon=False, ncols=3, loc="upper right")
    heading(axes, "Cancelled flights a day", "departures_per_hour")


def named_peaks(dates: Sequence[Any], totals: Sequence[int]) -> list[tuple[Any, int]]:
    """The three worst days, no two of them in one week."""
    peaks: list[tuple[Any, int]] = []
    for total, date in sorted(zip(totals, dates, strict=True), reverse=True):
        if len(peaks) < 3 and total and all(abs(date - other) > timedelta(days=7) for other, _ in peaks):
            peaks.append((date, total))
    return peaks


def by_month(axes: Any, dates: Sequence[Any]) -> None:
    """Name the months if there are several, else the days."""
    if not dates:
        return
    axes.set_xlim(dates[0], dates[-1])
    import matplotlib.dates

    ticks: Any = matplotlib.dates
    long = dates[-1] - dates[0] > timedelta(days=60)
    axes.xaxis.set_major_locator(ticks.MonthLocator() if long else ticks.AutoDateLocator(maxticks=8))
    axes.xaxis.set_major_formatter(ticks.DateFormatter("%b" if long else "%d %b"))


def carriers_over_the_year(axes: Any, records: Sequence[Record], carriers: dict[str, str]) -> None:
    """The rolling delay of the carriers that fly most, a week's average each."""
    weeks: dict[str, dict[Any, list[int]]] = {}
    for record in records:
        day = local(record).date()
        week = day - timedelta(days=day.timetuple().tm_yday % 7)
        weeks.setdefault(record["carrier"], {}).setdefault(week, []).append(record["average_min"])
    most = sorted(weeks, key=lambda code: -sum(map(len, weeks[code].values())))[:CARRIERS_DRAWN]
    for code, color in zip(most, COLORS, strict=False):
        dates = sorted(weeks[code])
        values = [sum(weeks[code][date]) / len(weeks[code][date]) for date in dates]
        axes.plot(dates, values, color=color, linewidth=2.2, label=airline(carriers, code))
    axes.grid(axis="y", color=FAINT)
    axes.set_ylim(top=1.22 * axes.get_ylim()[1])
    axes.set_ylabel("minutes, last 50 flights")
    by_month(axes, sorted({date for code in most for date in weeks[code]}))
    axes.legend(frameon=False, ncols=2, loc="upper right")
    heading(axes, "How the big carriers are doing: rolling average delay, by week", "rolling_delay")


def cost_of_weather(axes: Any, records: Sequence[Record]) -> None:
    """The average delay and the share of late flights under each sky."""
    last = sorted(last_of(records, "sky"), key=lambda r: r["delay_min"] / r["departures"])
    averages = [record["delay_min"] / record["departures"] for record in last]
    names = [record["sky"] for record in last]
    axes.barh(names, averages, color=[COLORS[1] if name != "fair" else COLORS[0] for name in names], height=0.62)
    for place, (record, average) in enumerate(zip(last, averages, strict=True)):
        share = 100 * record["late"] / record["departures"]
        axes.text(
            average,
            place,
            f"  {average:.0f} min · {share:.0f} % over an hour · {record['departures']:,} flights",
            va="center",
            fontsize=9.5,
        )
    axes.set_xlim(0, max(averages, default=1) * 1.75)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    heading(axes, "What the weather costs: average delay under each sky", "delay_by_weather, over weather_at_departure")
