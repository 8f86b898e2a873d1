"""No place where a running query shows or stores something contains the password of an address.

A query reads, checkpoints and publishes at addresses with a password in them. Everything that a person or a
program can see of it is searched: progress, status, words, the page with all its answers, metrics, logs, what
is printed, and every object of the checkpoint and of the output.
"""

import json
import logging
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest

import pointstamp as ps
from pointstamp.errors import PointstampError, StorageError
from pointstamp.query.checkpoint_page import CheckpointSight
from support.options import with_options
from support.streams import SECONDS_MAX

SECRET = "SECRETVALUE"  # noqa: S105 - what is looked for
PLACE = f"memory://me:{SECRET}@host"


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


def _flow() -> ps.Dataflow:
    flow = ps.Dataflow("sums")
    rows = flow.stream_input("rows", "k long, v long")
    flow.output("sums", rows.group_by("k", running=True).agg(v=ps.sum("v")))
    return flow


def _start(source: object, **options: Any) -> ps.Query:  # noqa: ANN401 - passed on
    return _flow().start(
        rows=source,
        checkpoint=f"{PLACE}/checkpoint",
        output=f"{PLACE}/out",
        **with_options(options, ps.QueryOptions(dashboard=True)),
    )


def _page(dashboard: Any) -> list[str]:  # noqa: ANN401 - a Dashboard
    found = []
    for path in ("", "about", "moment", "history", "metrics", "why?output=sums"):
        with urllib.request.urlopen(dashboard.address + path, timeout=SECONDS_MAX) as answer:  # noqa: S310 - ours
            found.append(answer.read().decode())
    return found


def test_nothing_that_a_query_shows_or_stores_contains_a_password(
    memory: Any,  # noqa: ANN401 - a file system of fsspec's
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    memory.pipe_file(f"/me:{SECRET}@host/in/1.csv", b"k,v\n1,2\n1,3\n")
    source = ps.io.files(f"{PLACE}/in", "csv", storage_options={"password": SECRET}, settle_seconds=0)
    shown: list[str] = [repr(source), source.describe(), _flow().describe(), repr(_flow().plan)]
    with caplog.at_level(logging.DEBUG, "pointstamp"):
        query = _start(source, verify=True)
        query.process_all_available()
        with query.dashboard() as dashboard:
            shown += _page(dashboard)
        shown += [repr(query), json.dumps(query.last_progress), str(query.status), str(query.why("sums"))]
        shown += [json.dumps(each) for each in query.recent_progress]
        query.stop()
        memory.pipe_file(f"/me:{SECRET}@host/in/2.csv", b"k,v\nnone,2\n")
        with pytest.raises(PointstampError, match="rows do not have the declared types") as found:
            _start(source, restarts=ps.RestartPolicy(restarts_max=0)).awaitTermination(SECONDS_MAX)
        shown += [str(found.value), repr(found.value)]
    sight = CheckpointSight(f"{PLACE}/checkpoint")
    shown += [str(sight.about()), str(sight.moment()), str(sight.history(0.0)), sight.metrics()]
    told = capfd.readouterr()
    shown += [caplog.text, told.out, told.err]
    for text in shown:
        assert SECRET not in text, text[:2000]
    objects = {name: memory.cat_file(name) for name in memory.find(f"/me:{SECRET}@host")}
    assert any("journal" in name for name in objects)
    assert any(name.endswith(".parquet") for name in objects)
    for name, content in objects.items():
        if "/in/" not in name:
            assert SECRET.encode() not in content, name


@pytest.mark.parametrize(
    "give",
    [
        ps.io.files,
        ps.io.delta,
        lambda place: ps.io.published(place, "sums"),
        lambda place: ps.io.files("/in", moved_from=place),
        ps.io.DeltaSink,
        lambda place: _flow().start(rows=[], checkpoint=place, output="/out"),
        lambda place: _flow().start(rows=[], checkpoint="/checkpoint", output=place),
    ],
    ids=["files", "Delta", "published", "moved", "sink", "checkpoint", "output"],
)
def test_a_password_before_the_name_of_a_bucket_is_rejected_where_it_is_given(
    give: Callable[[str], object],
) -> None:
    with pytest.raises(StorageError, match=r"'s3://\*\*\*@bucket/x' has a user before") as found:
        give(f"s3://me:{SECRET}@bucket/x")
    assert SECRET not in "".join(traceback.format_exception(found.value))
