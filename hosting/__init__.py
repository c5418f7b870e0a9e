"""What runs: engine, edges, evaluator, sources, sinks, command line. Imports `reliable_rx` and `checkpoint`."""

from hosting.app import App
from hosting.edges.egress import Stream, StreamSource
from hosting.engine.engine import QueryEngine
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.partitioned.beats import Profile
from hosting.partitioned.node import Node
from hosting.partitioned.opening import open_group
from hosting.partitioned.places import Place
from hosting.partitioned.timing import Timing
from hosting.reports.statistics import Statistics
from hosting.sinks import CallbackSink, JsonLinesSink, SqliteTableSink
from hosting.sources import FileSource, GeneratorSource, ListSource
from hosting.sources.pushed import PushedStream
from hosting.sources.shared import SharedSource
from hosting.sources.stored import StoredStreamSource
from hosting.subscriptions.consumers import Delivering, Resume, Retry, Verdict
from hosting.subscriptions.manager import Deliveries
from reliable_rx.event_time import EventTime, event_time
from reliable_rx.reliable import LateEvent

__all__ = [
    "App", "CallbackSink", "Deliveries", "Delivering", "EventTime", "FileSource", "GeneratorSource",
    "JsonLinesSink", "LateEvent", "ListSource", "Node", "Place", "Profile", "PushedStream", "QueryEngine",
    "QueryEvaluator", "Resume", "Retry", "SharedSource", "SqliteTableSink", "Statistics", "StoredStreamSource",
    "Stream", "StreamSource", "Timing", "Verdict", "event_time", "open_group",
]  # fmt: skip
