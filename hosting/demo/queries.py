"""What a person running an airport would want to know, as it happens: eight standing queries in plain Rx.

Nothing in here knows that it is hosted, killed or recovered. The name of a function is the name of its stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import reliable_rx as rx
from hosting.demo.data import Flight, Weather

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
NEW_YORK = ZoneInfo("America/New_York")
NEW_YEAR = datetime(2013, 1, 1, tzinfo=NEW_YORK)
LATE_MIN = 60

flights: rx.Query[Flight] = rx.source("flights")
weather: rx.Query[Weather] = rx.source("weather")


def minutes(flight: Flight) -> int:
    """The delay of a flight that departed."""
    return flight.delay_min or 0


def departed(flight: Flight) -> bool:
    return flight.delay_min is not None


def cancelled(flight: Flight) -> bool:
    return flight.delay_min is None


def late(flight: Flight) -> bool:
    return minutes(flight) > LATE_MIN


# -- the worst delay of each carrier so far


def worst_delay() -> rx.Observable[Flight]:
    """Every flight that leaves later than any of its carrier before."""
    return flights.filter(departed).group_by(lambda flight: flight.carrier).flat_map(
        lambda carrier: carrier.scan(later).distinct_until_changed()
    )  # fmt: skip


def later(worst: Flight, flight: Flight) -> Flight:
    return flight if minutes(flight) > minutes(worst) else worst


# -- departures by the hour


class Hour(NamedTuple):
    """An airport's hour; *delay_min* is that of all its departures together."""

    time: float
    origin: str
    departures: int
    cancelled: int
    late: int
    delay_min: int


def departures_per_hour() -> rx.Observable[Hour | None]:
    """Every airport's hours by the clock, counted from midnight of New Year on."""
    return rx.timer(NEW_YEAR).flat_map(
        lambda _: flights.window_with_time(HOUR_S).flat_map(
            lambda hour: hour.group_by(lambda flight: flight.origin).flat_map(
                lambda airport: airport.reduce(counted, None)
            )
        )
    )


def counted(hour: Hour | None, flight: Flight) -> Hour:
    if hour is None:
        hour = Hour(flight.time // HOUR_S * HOUR_S, flight.origin, 0, 0, 0, 0)
    time, origin, departures, gone, delayed, delay_min = hour
    if flight.delay_min is None:
        return Hour(time, origin, departures, gone + 1, delayed, delay_min)
    return Hour(time, origin, departures + 1, gone, delayed + late(flight), delay_min + flight.delay_min)


# -- routes in trouble


class RouteAlert(NamedTuple):
    """So many flights of a route over an hour late within three hours, up to *time*."""

    time: float
    route: str
    flights: int
    worst_min: int


def route_alerts() -> rx.Observable[RouteAlert]:
    """Routes with three or more flights over an hour late within three hours; told when an hour brought no more."""
    return flights.filter(late).group_by(lambda flight: f"{flight.origin}-{flight.dest}").flat_map(
        lambda route: route.scan(within_three_hours, ()).filter(lambda recent: len(recent) >= 3)
        .map(alert).debounce(HOUR_S)
    )  # fmt: skip


def within_three_hours(recent: tuple[Flight, ...], flight: Flight) -> tuple[Flight, ...]:
    return (*(each for each in recent if each.time > flight.time - 3 * HOUR_S), flight)


def alert(recent: Sequence[Flight]) -> RouteAlert:
    last = recent[-1]
    return RouteAlert(last.time, f"{last.origin}-{last.dest}", len(recent), max(map(minutes, recent)))


# -- how each carrier is doing


class Punctuality(NamedTuple):
    """The average delay of a carrier's last 50 flights (or fewer, at first)."""

    time: float
    carrier: str
    average_min: int


class Recent(NamedTuple):
    """The delays of a carrier's last flights, the latest at *time*."""

    time: float
    carrier: str
    delays_min: tuple[int, ...]


def rolling_delay() -> rx.Observable[Punctuality]:
    """The average delay of each carrier's last 50 departures, whenever it moves by a minute."""
    return flights.filter(departed).group_by(lambda flight: flight.carrier).flat_map(
        lambda carrier: carrier.scan(last_fifty, None).map(punctuality)
        .distinct_until_changed(lambda now: now.average_min)
    )  # fmt: skip


def last_fifty(recent: Recent | None, flight: Flight) -> Recent:
    before = () if recent is None else recent.delays_min[-49:]
    return Recent(flight.time, flight.carrier, (*before, minutes(flight)))


def punctuality(recent: Recent) -> Punctuality:
    return Punctuality(recent.time, recent.carrier, round(sum(recent.delays_min) / len(recent.delays_min)))


# -- the weather at departure


class Departure(NamedTuple):
    """A departure with the latest weather of its airport."""

    time: float
    origin: str
    carrier: str
    number: str
    delay_min: int
    sky: str


def weather_at_departure() -> rx.Observable[Departure]:
    """Every departure joined with the latest weather of its own airport."""
    return weather.group_by(lambda seen: seen.origin).flat_map(
        lambda station: flights.filter(lambda flight: flight.origin == station.key and flight.delay_min is not None)
        .with_latest_from(station).map(lambda pair: departure(*pair))
    )  # fmt: skip


def departure(flight: Flight, seen: Weather) -> Departure:
    return Departure(flight.time, flight.origin, flight.carrier, flight.number, minutes(flight), sky(seen))


def sky(seen: Weather) -> str:
    """Say in a word what a pilot would complain about most."""
    if seen.visibility_mi is not None and seen.visibility_mi < 1:
        return "fog"
    if seen.rain_in is not None and seen.rain_in >= 0.02:
        return "snow" if seen.temp_f is not None and seen.temp_f <= 34 else "rain"
    if seen.wind_mph is not None and seen.wind_mph >= 20:
        return "strong wind"
    return "fair"


# -- what the weather costs: a query over the stream of another


class SkyReport(NamedTuple):
    """All departures under one kind of sky so far."""

    time: float
    sky: str
    departures: int
    late: int
    delay_min: int


def delay_by_weather() -> rx.Observable[SkyReport]:
    """For each kind of sky, what it has cost so far: once a day, if there was any."""
    return rx.source("weather_at_departure").group_by(lambda each: each.sky).flat_map(
        lambda kind: kind.scan(summed, None).sample(DAY_S)
    )  # fmt: skip


def summed(report: SkyReport | None, each: Departure) -> SkyReport:
    departures, delayed, delay_min = (0, 0, 0) if report is None else report[2:]
    return SkyReport(
        each.time, each.sky, departures + 1, delayed + (each.delay_min > LATE_MIN), delay_min + each.delay_min
    )


# -- waves of cancellations


class Wave(NamedTuple):
    """Ten or more flights cancelled at an airport within three hours."""

    time: float
    origin: str
    flights: int
    carriers: tuple[str, ...]


def cancellation_waves() -> rx.Observable[Wave]:
    """Airports that cancel ten or more flights within three hours."""
    return flights.filter(cancelled).group_by(lambda flight: flight.origin).flat_map(
        lambda airport: airport.buffer_with_time(3 * HOUR_S).filter(lambda some: len(some) >= 10).map(wave)
    )  # fmt: skip


def wave(some: Sequence[Flight]) -> Wave:
    return Wave(some[0].time, some[0].origin, len(some), tuple(sorted({flight.carrier for flight in some})))


# -- aircraft that carry their delay along


class KnockOn(NamedTuple):
    """An aircraft over an hour late that left over an hour late once more within twelve hours."""

    time: float
    tail: str
    carrier: str
    before: str
    before_min: int
    again: str
    again_min: int


def knock_on() -> rx.Observable[KnockOn]:
    """Aircraft that bring their delay back and take it out again."""
    return flights.filter(lambda flight: flight.tail != "NA" and departed(flight)).group_by(
        lambda flight: flight.tail
    ).flat_map(
        lambda aircraft: aircraft.pairwise().filter(lambda two: both_late(*two)).map(lambda two: carried(*two))
    )  # fmt: skip


def both_late(before: Flight, again: Flight) -> bool:
    return late(before) and late(again) and again.time - before.time <= 12 * HOUR_S


def carried(before: Flight, again: Flight) -> KnockOn:
    return KnockOn(
        again.time,
        again.tail,
        again.carrier,
        f"{before.origin}-{before.dest}",
        minutes(before),
        f"{again.origin}-{again.dest}",
        minutes(again),
    )


QUERIES = {
    query.__name__: query
    for query in (
        worst_delay, departures_per_hour, route_alerts, rolling_delay, weather_at_departure, delay_by_weather,
        cancellation_waves, knock_on,
    )
}  # fmt: skip
