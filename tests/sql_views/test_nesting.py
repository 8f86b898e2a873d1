# ruff: noqa: E501, S608 - queries are made for tests, and read best in one line
"""Long and deep queries are compiled in little time, or rejected with SqlError and never a RecursionError.

Families, and what only each can find:
- chains of operands: a tree that is as high as the chain is long;
- operands inside of operands: functions that call themselves for each level, when a text is read, compiled,
  sent to a worker and run;
- joins without ON: a parser that reads what follows twice for each join.
"""

import time
from collections.abc import Callable

import cloudpickle
import pytest

import pointstamp as ps
from pointstamp.errors import SqlError

TABLES = {"t": "k long, a long, b string", "u": "k long, c string"}

CHAINS: dict[str, Callable[[int], str]] = {
    "or": lambda n: "select k from t where " + " or ".join(f"a = {i}" for i in range(n)),
    "and": lambda n: "select k from t where " + " and ".join(f"a <> {i + 9}" for i in range(n)),
    "or of and": lambda n: "select k from t where " + " or ".join(f"(a = {i} and k = 1)" for i in range(n)),
    "concatenation": lambda n: "select k from t where length(" + " || ".join("b" for _ in range(n)) + f") = {n}",
    "in": lambda n: f"select k from t where a in ({', '.join(map(str, range(n)))})",
    "case": lambda n: "select case " + " ".join(f"when a = {i} then 1" for i in range(n)) + " end as k from t",
}  # fmt: skip

NESTED: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: f"select {'(' * n}a{')' * n} as x from t",
    "case": lambda n: f"select {'case when a = 1 then 0 else ' * n}a{' end' * n} as x from t",
    "not": lambda n: f"select k from t where {'not ' * n}(a = 1)",
    "minus": lambda n: f"select {'- ' * n}a as x from t",
    "calls": lambda n: f"select {'abs(' * n}a{')' * n} as x from t",
    "sums": lambda n: f"select {' + '.join('a' for _ in range(n))} as x from t",
    "queries": lambda n: f"select k from {'(select * from ' * n}t{')' * n}",
    "exists": lambda n: f"select k from t where {'exists (select 1 from u where ' * n}true{')' * n}",
}  # fmt: skip


@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_of_a_thousand_operands_is_accepted(chain: str) -> None:
    flow = ps.sql(CHAINS[chain](1_000), TABLES)
    found = flow.run(t=[[{"k": 1, "a": 2, "b": "x"}]], u=[])["result"][0].to_pylist()
    assert found == [{"k": 1, "diff": 1}]


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("levels", [25, 40, 90, 1_000, 20_000])
def test_nesting_is_accepted_and_runs_or_is_rejected(kind: str, levels: int) -> None:
    try:
        flow = ps.sql(NESTED[kind](levels), TABLES)
    except SqlError as error:
        assert levels > (25 if kind in ("queries", "exists") else 40)
        assert "nested" in str(error)  # noqa: PT017 - both outcomes are right for many levels
        return
    assert cloudpickle.dumps(flow.plan)
    flow.run(t=[[{"k": 1, "a": 2, "b": "x"}]], u=[])


def test_a_union_of_many_queries_is_accepted() -> None:
    query = " union all ".join(f"select k + {i} as k from t" for i in range(200))
    found = ps.sql(query, TABLES).run(t=[[{"k": 1, "a": 2, "b": "x"}]], u=[])["result"][0]
    assert sorted(found.column("k").to_pylist()) == list(range(1, 201))


def test_the_time_for_joins_without_on_does_not_double_with_each_of_them() -> None:
    joins = "".join(f" join u u{i}" for i in range(40))
    conditions = " and ".join(f"t.k = u{i}.k" for i in range(40))
    began = time.process_time()
    flow = ps.sql(f"select t.k from t{joins} where {conditions}", TABLES)
    assert time.process_time() - began < 20  # two to the power of 40 is years
    assert len([node for node in flow.plan.nodes if node.name.startswith("join")]) == 40
