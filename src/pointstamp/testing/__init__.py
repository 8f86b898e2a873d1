"""The testing kit: contracts of sinks and sources, a scripted source, assertions.

``sink_claims`` and ``source_claims`` are what every sink and every source promises, as functions that raise
AssertionError with a message; ``fault_steps`` lets a process die before any of its steps. ``script`` is a
source that sends, pauses, ends and aborts by a list of commands, and ``published`` compares what was
published. None of it needs pytest.
"""

from pointstamp.testing.fault_steps import Died, SteppingStorage, Steps
from pointstamp.testing.published import assert_published, assert_table, published_epochs
from pointstamp.testing.script import ABORT, END, PAUSE, ScriptAbortedError, ScriptCommand, ScriptedSource
from pointstamp.testing.sink_claims import SINK_CLAIMS, SINK_SCHEMAS, SeenRows, SinkSubject, check_sink
from pointstamp.testing.source_claims import (
    ARRIVALS_MAX,
    SOURCE_CLAIMS,
    SOURCE_SCHEMA,
    SourceSubject,
    check_source,
)

__all__ = [
    "ABORT",
    "ARRIVALS_MAX",
    "END",
    "PAUSE",
    "SINK_CLAIMS",
    "SINK_SCHEMAS",
    "SOURCE_CLAIMS",
    "SOURCE_SCHEMA",
    "Died",
    "ScriptAbortedError",
    "ScriptCommand",
    "ScriptedSource",
    "SeenRows",
    "SinkSubject",
    "SourceSubject",
    "SteppingStorage",
    "Steps",
    "assert_published",
    "assert_table",
    "check_sink",
    "check_source",
    "published_epochs",
]
