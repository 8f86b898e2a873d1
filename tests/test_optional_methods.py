"""What an object may have is declared: no code asks an object by ``getattr`` or ``hasattr`` for a method.

Optional methods of sources, sinks, operators, stores, aggregates and state are protocols with a default, for
which ``optional.conforms`` asks (``operators/interface.py`` has those of operators). Only the uses below are
left, by file. The list may only shrink: a use that is gone is removed from it, and a new one fails.
"""

import ast
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from pointstamp.connectors.source import complete_source, is_source
from pointstamp.errors import FlowError

SOURCE: Final = Path(__file__).parent.parent / "src" / "pointstamp"

FIELDS: Final = "a field or an attribute whose name is data: of a dataclass, an option, a column, a module"
PYTHON: Final = "what Python gives some objects: __name__, __module__, __file__, __code__, __notes__, __len__"
OTHERS: Final = "what another library, or another version of one, has: pyarrow, pyspark, ibis, fork"
SLOTS: Final = "a slot of this very class that may not have been set"
ONE: Final = "the one place that asks, for the members that a protocol declares"
HOT: Final = "measured: isinstance with a protocol takes microseconds, for each port of each worker"

LEFT: Final[dict[str, tuple[int, str]]] = {
    "__init__.py": (1, FIELDS),
    "arrow/row_hashing.py": (1, OTHERS),
    "arrow/schema.py": (3, OTHERS),
    "cli/describe.py": (1, FIELDS),
    "cli/flowfile.py": (2, FIELDS),
    "cli/run.py": (4, FIELDS),
    "cli/run_spark.py": (1, PYTHON),
    "cli/simulate.py": (1, FIELDS),
    "cli/sql.py": (1, FIELDS),
    "connectors/files/wholeness.py": (1, OTHERS),
    "connectors/json_lines.py": (1, OTHERS),
    "connectors/kafka/cluster.py": (1, OTHERS),
    "connectors/kafka/record_decoding.py": (1, FIELDS),
    "connectors/source.py": (1, FIELDS),
    "dataflow/record.py": (2, FIELDS),
    "driver/feeder.py": (1, OTHERS),
    "driver/gang.py": (1, OTHERS),
    "driver/messages.py": (2, FIELDS),
    "driver/sendable.py": (2, PYTHON),
    "expressions/dates.py": (1, FIELDS),
    "expressions/time_windows.py": (1, OTHERS),
    "flow/plan.py": (3, FIELDS),
    "graphs/__init__.py": (1, FIELDS),
    "graphs/page_rank.py": (4, FIELDS),
    "incremental/asof_join.py": (1, OTHERS),
    "journal/flow_shape.py": (1, FIELDS),
    "operators/capability.py": (7, SLOTS),
    "optional.py": (1, ONE),
    "order/frontier.py": (1, HOT),
    "plan/canonical.py": (13, FIELDS),
    "plan/explain.py": (4, OTHERS),
    "plan/logical.py": (2, FIELDS),
    "plan/lowering.py": (1, FIELDS),
    "plan/optimizer.py": (1, FIELDS),
    "plan/rules/prune_columns.py": (1, FIELDS),
    "plan/rules/rewriting.py": (1, FIELDS),
    "plan/serialization.py": (9, PYTHON),
    "plan/signatures.py": (2, FIELDS),
    "query/options.py": (1, FIELDS),
    "query/timeline.py": (1, FIELDS),
    "redaction.py": (1, FIELDS),
    "reduce/aggregate.py": (1, PYTHON),
    "spark/catalog_sink.py": (1, OTHERS),
    "spark/catalyst/python_batches.py": (1, PYTHON),
    "spark/catalyst/rules.py": (4, FIELDS),
    "spark/crew.py": (1, FIELDS),
    "spark/failures.py": (1, FIELDS),
    "spark/input_log.py": (1, OTHERS),
    "sql_views/condition_parts.py": (1, OTHERS),
    "sql_views/ibis_expressions.py": (2, OTHERS),
    "state/declared.py": (3, FIELDS),
    "state/exact_encoding.py": (1, OTHERS),
    "state/saved.py": (2, PYTHON),
    "storage/anywhere.py": (1, OTHERS),
    "testing/source_claims.py": (1, FIELDS),
    "topology/domain.py": (1, HOT),
    "verify/trace.py": (2, FIELDS),
    "worker/routes.py": (2, PYTHON),
}


def uses(path: Path) -> int:
    tree = ast.parse(path.read_text())
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "hasattr")
        for node in ast.walk(tree)
    )


def test_no_object_is_asked_for_what_is_not_declared() -> None:
    found = Counter({str(path.relative_to(SOURCE)): uses(path) for path in sorted(SOURCE.rglob("*.py"))})
    found = Counter({name: count for name, count in found.items() if count})
    assert len(found) > 10, "the sources were not found"
    new = {name: count for name, count in found.items() if count > LEFT.get(name, (0, ""))[0]}
    assert not new, f"declare what is asked for in a protocol with a default: {new}"
    gone = {name: found[name] for name, (count, _) in LEFT.items() if found[name] < count}
    assert not gone, f"fewer are left than the list has; write these numbers into it: {gone}"


class Wrapped:
    """What an object of a user may be: it passes everything on to another one."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def test_an_object_that_passes_on_what_another_has_has_its_optional_methods() -> None:
    class Inner:
        def watch(self) -> None: ...

        def read(self) -> None: ...

        def after(self) -> None: ...

        def check(self) -> None:
            raise FlowError("checked")

    given: Any = Wrapped(Inner())
    assert is_source(given)
    assert not is_source(Wrapped(object()))
    with pytest.raises(FlowError, match="checked"):
        complete_source(given).check()
    assert complete_source(given).lanes("") is None
