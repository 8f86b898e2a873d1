"""Spark's names of a query are other names of what it has."""

import pytest

import pointstamp as ps
from support.streams import put

NAMES = {
    "runId": "run_id",
    "isActive": "is_active",
    "lastProgress": "last_progress",
    "recentProgress": "recent_progress",
}


def test_sparks_names_say_and_do_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("query")
    flow = ps.Dataflow("words")
    flow.output("counts", flow.stream_input("words", "word string").count("word"))
    put(folder / "in", "1", {"word": ["a", "a"]})
    query = flow.start(ps.io.files(folder / "in"), checkpoint=folder / "c", output=folder / "o")
    try:
        query.processAllAvailable(60)
        assert query.epoch == 0
        assert query.awaitTermination(0) is False
        assert query.isActive
    finally:
        query.stop()
    assert query.last_progress is not None
    assert query.awaitTermination(60) is True
    for theirs, ours in NAMES.items():
        assert getattr(query, theirs) == getattr(query, ours)
