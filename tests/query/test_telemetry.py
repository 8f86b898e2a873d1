"""The numbers of a query for OpenTelemetry: those of /metrics, which are those of ``query.progress()``.

The reader is the SDK's own, in memory; what it collects is what an exporter would send.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData, NumberDataPoint, Sum

import pointstamp as ps
from pointstamp.dashboard.prometheus import HELP
from pointstamp.errors import UsageError
from pointstamp.query.telemetry import Telemetry
from support.sights import halving, halving_query, numbers, write


def told(reader: InMemoryMetricReader) -> dict[str, dict[tuple[tuple[str, Any], ...], float]]:
    """Every number that an exporter would send, by name and attributes."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    assert isinstance(data, MetricsData)
    found: dict[str, dict[tuple[tuple[str, Any], ...], float]] = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            assert scope.scope.name == "pointstamp"
            for metric in scope.metrics:
                assert isinstance(metric.data, Sum) == (HELP[metric.name][0] == "counter")
                for point in metric.data.data_points:
                    assert isinstance(point, NumberDataPoint)
                    attributes = tuple(sorted((point.attributes or {}).items()))
                    found.setdefault(metric.name, {})[attributes] = point.value
    return found


def test_what_is_exported_is_what_progress_says(tmp_path: Path) -> None:
    write(tmp_path / "in", 0)
    query = halving_query(tmp_path, workers=2)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    try:
        query.process_all_available()
        with query.telemetry(provider):
            found, status = told(reader), query.progress()
        assert told(reader) == {}  # nobody is told anything after it was closed
    finally:
        query.stop()
        provider.shutdown()
    flow = ("flow", "halving")
    assert found["pointstamp_up"] == {(flow,): 1}
    assert found["pointstamp_epoch_published"] == {(flow,): query.epoch}
    assert found["pointstamp_generation"] == {(flow,): query.generation}
    assert found["pointstamp_restarts_total"] == {(flow,): query.restarts}
    (put,) = status.inputs
    assert found["pointstamp_rows_in_total"] == {(flow, ("input", "numbers")): put.rows}
    assert found["pointstamp_rows_late_total"] == {(flow, ("input", "numbers")): put.rows_late}
    assert found["pointstamp_input_epoch"] == {(flow, ("input", "numbers")): put.frontier[0][0]}
    outputs = {out.name: out for out in status.outputs}
    assert found["pointstamp_rows_out_total"] == {
        (flow, ("output", name)): out.rows for name, out in outputs.items()
    }
    assert found["pointstamp_output_epoch"] == {
        (flow, ("output", name)): out.epochs_complete for name, out in outputs.items()
    }
    for number, name in enumerate(("pointstamp_kept_rows", "pointstamp_kept_bytes")):
        assert {dict(at)["operator"] + ": " + dict(at)["what"]: n for at, n in found[name].items()} == {
            kept.name: (kept.rows, kept.size_bytes)[number] for kept in status.kept
        }
    assert {dict(at)["worker"] for at in found["pointstamp_worker_memory_bytes"]} == set(
        map(str, status.memory_bytes)
    )
    assert all(number > 0 for number in status.memory_bytes.values())


def test_rows_out_are_known_as_soon_as_an_epoch_is_published(tmp_path: Path) -> None:
    """A member counts them when it saves, after it has told how far it is."""
    query = halving().start(
        numbers=[numbers(epoch) for epoch in range(3)],
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        workers=2,
    )
    try:
        query.process_all_available()
        published = ps.read_changes(tmp_path / "out", "lengths").num_rows
        assert sum(each["rowsOut"].get("lengths", 0) for each in query.recent_progress) == published > 0
        ticks = query._supervisor.timeline.since(0.0)["ticks"][:3]  # what comes after has no rows
        # Round by round the largest number of an epoch is halved until it is 0.
        assert [tick["rounds"] for tick in ticks] == [
            (20 * (tick["first"] + 1)).bit_length() + 1 for tick in ticks
        ]
    finally:
        query.stop(finish=False)


def test_all_instruments_of_a_collection_are_answered_from_one_look() -> None:
    looks: list[int] = []

    def look() -> list[tuple[str, dict[str, str], float]]:
        looks.append(1)
        return [(name, {}, len(looks)) for name in HELP]

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with Telemetry(look, "flow", provider):
        found = told(reader)
    provider.shutdown()
    assert set(found) == set(HELP)
    assert len(looks) == 1


def test_who_has_not_installed_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(UsageError, match=r"Install pointstamp\[otel\]"):
        Telemetry(list, "flow")
