"""A checkpoint in which graph operators have saved something else than they keep now is rejected."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp import graphs
from pointstamp.errors import RecoveryError
from pointstamp.graphs.gathering import Gathered
from pointstamp.graphs.search_operator import Search
from support.graph_flows import ALGORITHMS


def run(folder: Path, name: str, epochs: int) -> None:
    """The flow of an algorithm over so many files; those that were read before are not read again."""
    (folder / "edges").mkdir(exist_ok=True)
    for epoch in range(epochs):
        pq.write_table(
            pa.table({"src": [epoch], "dst": [epoch + 1], "w": [1]}), folder / "edges" / f"{epoch}.parquet"
        )
    flow = ps.Dataflow(name)
    edges = flow.table("edges", "src long, dst long, w long", weight="w")
    flow.output(name, ALGORITHMS[name](graphs.Graph(edges), []))
    query = flow.start(
        edges=ps.io.files(str(folder / "edges")),
        checkpoint=str(folder / "checkpoint"),
        output=str(folder / "out"),
        available_now=True,
    )
    query.await_termination(60)


@pytest.mark.parametrize(("name", "logic"), [("scc", Gathered), ("wcc", Search)])
def test_another_layout_of_what_was_saved_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, logic: type[Any]
) -> None:
    save = logic.save

    def save_otherwise(self: object, *, changes_only: bool) -> Mapping[str, ps.ports.Piece]:
        pieces = save(self, changes_only=changes_only)
        return {f"former {which}": piece for which, piece in pieces.items()}

    with monkeypatch.context() as before:
        before.setattr(logic, "save", save_otherwise)
        run(tmp_path, name, 1)
    with pytest.raises(
        RecoveryError, match=f"operator '{name}' failed when it was restored at .*'former .* a new output"
    ):
        run(tmp_path, name, 2)
