"""Random logical plans as data, with the rows of their inputs, and what DuckDB makes of them.

A generator is given choices one by one, so that hypothesis can shrink them and a seed can make them fast. The
oracle writes a plan as SQL, one common table expression per operator, and computes a recursion round by
round; it shares no code with the rules or with what computes tables.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps
from pointstamp.errors import FlowError, OperatorError
from pointstamp.expressions import functions
from pointstamp.expressions.tree import (
    Expression,
    col,
    lit,
    when,
)
from pointstamp.incremental.window_functions import OrderFunction
from pointstamp.plan import logical
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Scan, Variable
from pointstamp.plan.lowering import Lowering
from pointstamp.reduce.aggregate import Aggregate

LONG: Final = pa.int64()
T: Final = pa.schema({"a": LONG, "b": LONG, "s": pa.string(), "w": LONG})
U: Final = pa.schema({"a": LONG, "c": LONG, "s": pa.string(), "w": LONG})
G: Final = pa.schema({"a": LONG, "d": LONG})
K: Final = pa.schema({"k": LONG, "v": LONG, "gone": pa.bool_()})
SCHEMAS: Final = {"t": T, "u": U, "g": G, "k": K}

Row = tuple[Any, ...]
Rows = Counter[Row]
Pick = Callable[[int], int]


def scan(name: str) -> Scan:
    """Return the table of one of the inputs."""
    match name:
        case "g":
            return Scan("g", G)
        case "k":
            return Scan("k", K, "upserts", "gone", ("k",))
        case _:
            return Scan(name, SCHEMAS[name], "weights", "w")


@dataclass
class World:
    """A plan with several outputs, and the rows of its inputs by epoch."""

    roots: list[LogicalOperator]
    epochs: list[dict[str, list[Row]]] = field(default_factory=list)


def world_of_seed(seed: int) -> World:
    """Return a random plan with rows."""
    random = Random(seed)
    return make_world(random.randrange)


def make_world(pick: Pick) -> World:
    """Return a plan and rows made by choices: ``pick(n)`` is a number below n."""
    made = Generator(pick)
    roots = [made.table(1 + pick(4)) for _ in range(1 + pick(2))]
    return World(roots, make_epochs(pick))


def make_epochs(pick: Pick) -> list[dict[str, list[Row]]]:
    """Return rows for all inputs; what is deleted is there."""
    present: dict[str, list[Row]] = {"t": [], "u": []}
    keys: set[int] = set()
    epochs: list[dict[str, list[Row]]] = []
    for _ in range(2 + pick(2)):
        epoch: dict[str, list[Row]] = {}
        for name in SCHEMAS:
            rows: list[Row] = []
            for _ in range(pick(6)):
                one, other = ((None, -1, 0, 1, 2, 3)[pick(6)] for _ in range(2))
                if name in present:
                    if present[name] and not pick(3):
                        gone = present[name].pop(pick(len(present[name])))
                        rows.append((*gone, -1))
                        continue
                    row = (one, other, (None, "x", "y")[pick(3)])
                    present[name].append(row)
                    rows.append((*row, 1))
                elif name == "g":
                    rows.append((one, other))
                else:
                    key = pick(4)
                    if any(row[0] == key for row in rows):
                        continue
                    is_gone = key in keys and not pick(3)
                    keys = keys - {key} if is_gone else keys | {key}
                    rows.append((key, other, is_gone))
            epoch[name] = rows
        epochs.append(epoch)
    return epochs


class Generator:
    """Makes operators by choices; a table that was made once can be read again."""

    def __init__(self, pick: Pick) -> None:
        self._pick = pick
        self._known: list[LogicalOperator] = []
        self._names = 0

    def table(self, depth: int) -> LogicalOperator:
        """Return a table of so many operators, one above the other."""
        if self._known and not self._pick(6):
            return self._known[self._pick(len(self._known))]
        if depth <= 0:
            return scan(self._one_of(["t", "t", "u", "g", "k"]))
        kinds = [
            *[self._project] * 3,
            *[self._filter] * 5,
            *[self._join] * 6,
            *[self._union] * 2,
            *[self._aggregate] * 3,
            *[self._distinct] * 2,
            *[self._top] * 2,
            self._set_operation,
            self._functions,
            self._window,
            self._mapped,
            self._as_of,
            *[self._recursion] * 3,
            self._star,
            self._top_of_left_join,
            self._distinct_of_join,
            *[self._filter_of_outer_join] * 2,
            self._guarded,
            self._never,
            *[self._places] * 2,
            self._grouping_sets,
            *[self._twice] * 2,
            self._best,
        ]
        rows = self.table(depth - 1)
        try:
            made: LogicalOperator = self._one_of(kinds)(rows, depth)
        except FlowError:
            made = rows  # no column of a type that is needed, or a name that is there already
        if len(made.schema) > 6:
            made = self._some_columns(made)
        self._known.append(made)
        return made

    def _one_of(self, values: Sequence[Any]) -> Any:  # noqa: ANN401
        return values[self._pick(len(values))]

    def _fresh(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _numbers(self, schema: pa.Schema) -> list[str]:
        found = [each.name for each in schema if each.type == LONG]
        if not found:
            raise FlowError("no numbers")
        return found

    def _some(self, names: Sequence[str], most: int = 9) -> list[str]:
        return [name for name in names if self._pick(2)][:most]

    # Expressions.

    def number(self, schema: pa.Schema) -> Expression:
        """Return an expression of whole numbers, which can raise."""
        one, other = (col(self._one_of(self._numbers(schema))) for _ in range(2))
        value = lit(self._pick(5) - 1).cast("long")
        match self._pick(10):
            case 0 | 1 | 2 | 3:
                return one
            case 4:
                return one + value
            case 5:
                return one - other
            case 6:
                return functions.coalesce(one, value)
            case 7:
                return when(self.condition(schema, 0), one).otherwise(value)
            case 8:
                return value
            case _:
                return lit(10).cast("long") % one

    def condition(self, schema: pa.Schema, depth: int = 1) -> Expression:
        """Return a condition."""
        one, other = (col(self._one_of(self._numbers(schema))) for _ in range(2))
        value = lit(self._pick(5) - 1)
        match self._pick(16 if depth else 10):
            case 0 | 1:
                return one > value
            case 2:
                return one == value
            case 3:
                return one <= value
            case 4:
                return one.is_null()
            case 5:
                return one.is_not_null()
            case 6:
                return one == other
            case 7:
                return functions.coalesce(one, lit(1).cast("long")) == value
            case 8:
                return one.eq_null_safe(value.cast("long"))
            case 9:
                return (lit(10).cast("long") % one) > value
            case 10 | 11:
                return self.condition(schema, depth - 1) & self.condition(schema, depth - 1)
            case 12:
                return self.condition(schema, depth - 1) | self.condition(schema, depth - 1)
            case 13:
                return ~self.condition(schema, depth - 1)
            case 14:
                return (one != 0) & ((lit(10).cast("long") % one) > value)
            case _:
                return (lit(1) < lit(2)) & (one > value) & (one < lit(self._pick(3)))

    # Operators.

    def _some_columns(self, rows: LogicalOperator) -> LogicalOperator:
        names = self._some(rows.schema.names, 5) or rows.schema.names[:1]
        return logical.Project(rows, tuple((name, col(name)) for name in names))

    def _project(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        del depth
        columns = [(name, col(name)) for name in self._some(rows.schema.names)]
        columns += [(self._fresh(), self.number(rows.schema)) for _ in range(self._pick(3))]
        columns = columns or [(self._fresh(), self.number(rows.schema))]
        return logical.Project(rows, tuple(columns))

    def _filter(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        del depth
        return logical.Filter(rows, self.condition(rows.schema))

    def _join(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        other = self.table(depth - 1)
        kind = self._one_of(
            ["inner", "inner", "inner", "left", "left", "right", "full", "semi", "anti", "cross"]
        )
        keys: tuple[tuple[str, str], ...] = ()
        if kind != "cross":
            one, two = self._one_of(self._numbers(rows.schema)), self._one_of(self._numbers(other.schema))
            keys = ((one, two),)
        made = logical.Join(rows, other, kind, keys)
        if not self._pick(3):
            made = logical.Join(rows, other, kind, keys, self.condition(made.pair))
        if kind == "cross":
            made = logical.Join(rows, self._top(other, 0, keys=()), kind, keys, made.condition)
        return made

    def _star(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        """Return a join with many rows for each row, and one with a table that has a key."""
        one = self._one_of(self._numbers(rows.schema))
        first = self._one_of(["inner", "inner", "left", "right", "full"])
        many = logical.Join(rows, self.table(depth - 2), first, ((one, "a"),), suffix="_of_many")
        kind = self._one_of(["inner", "inner", "semi", "anti", "left"])
        return logical.Join(many, scan("k"), kind, ((self._one_of(self._numbers(rows.schema)), "k"),))

    def _top_of_left_join(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        other = scan("k") if self._pick(2) else self.table(depth - 2)
        key = self._numbers(other.schema)[0]
        joined = logical.Join(rows, other, "left", ((self._one_of(self._numbers(rows.schema)), key),))
        by = (f"{self._one_of(rows.schema.names)} desc",) if self._pick(2) else ()
        keys = tuple(self._some(rows.schema.names, 1))
        return logical.TopK(joined, 1 + self._pick(2), keys, by)

    def _distinct_of_join(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        other = self.table(depth - 2)
        keys = ((self._one_of(self._numbers(rows.schema)), self._one_of(self._numbers(other.schema))),)
        joined = logical.Join(rows, other, "inner", keys)
        return logical.Distinct(
            self._some_columns(logical.Project(joined, tuple((n, col(n)) for n in rows.schema.names)))
        )

    def _filter_of_outer_join(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        other = self.table(depth - 2)
        keys = ((self._one_of(self._numbers(rows.schema)), self._one_of(self._numbers(other.schema))),)
        joined = logical.Join(rows, other, self._one_of(["left", "right", "full"]), keys)
        side = joined.schema.names[len(rows.schema) :] if self._pick(2) else rows.schema.names
        fields = [joined.schema.field(name) for name in side]
        return logical.Filter(joined, self.condition(pa.schema(fields), 0))

    def _never(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        """Return a join with rows that there never are, or an aggregate of them."""
        other = self.table(depth - 2)
        one, two = self._one_of(self._numbers(rows.schema)), self._one_of(self._numbers(other.schema))
        never = logical.Filter(other, (col(two) > 2) & (col(two) < 1))
        if self._pick(2):
            return self._aggregate(never, 0)
        kind = self._one_of(["inner", "left", "right", "full", "anti"])
        return logical.Join(rows, never, kind, ((one, two),))

    def _guarded(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        """Return rows of a condition that raises where an earlier one is false, or null."""
        del depth
        one = col(self._one_of(self._numbers(rows.schema)))
        guard = one != 0 if self._pick(2) else when(one != 0, one == one)
        return logical.Filter(
            logical.Filter(rows, guard), (lit(10).cast("long") % one) > lit(self._pick(3) - 1)
        )

    def _union(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        other = self.table(depth - 1)
        names = self._numbers(rows.schema)[:3]
        theirs = self._numbers(other.schema)
        one = logical.Project(rows, tuple((name, col(name)) for name in names))
        two = logical.Project(other, tuple((name, col(self._one_of(theirs))) for name in reversed(names)))
        return logical.Union((one, two) if self._pick(4) else (one, one, two))

    def _set_operation(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        union = self._union(rows, depth)
        one, two = union.inputs[0], union.inputs[-1]
        kind = self._one_of([logical.Except, logical.Intersect])
        made: LogicalOperator = kind(one, two, keeps_copies=bool(self._pick(2)))
        return made

    def _aggregate(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        del depth
        numbers = self._numbers(rows.schema)
        keys = self._some(rows.schema.names, 2)
        made: list[tuple[str, Aggregate]] = []
        for _ in range(1 + self._pick(3)):
            kind = self._one_of(["count", "count", "sum", "min", "max"])
            where = None if self._pick(3) else self.condition(rows.schema, 0)
            value: Any = None if kind == "count" and self._pick(2) else self._one_of(numbers)
            if value is not None and not self._pick(3):
                value = self.number(rows.schema)
            made.append((self._fresh(), Aggregate(kind, value, where=where)))
        return logical.Aggregate(rows, tuple(keys), tuple(made))

    def _distinct(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        del depth
        return logical.Distinct(self._some_columns(rows) if self._pick(2) else rows)

    def _top(self, rows: LogicalOperator, depth: int, keys: tuple[str, ...] | None = None) -> LogicalOperator:
        del depth
        chosen = tuple(self._some(rows.schema.names, 1)) if keys is None else keys
        words = ["", " desc", " nulls last", " desc nulls first"]
        by = tuple(f"{name}{self._one_of(words)}" for name in self._some(rows.schema.names, 2))
        if keys is not None:
            return logical.TopK(rows, 2, (), by)
        rank = self._fresh() if not self._pick(3) else None
        ties = rank is None and bool(by) and not self._pick(3)
        return logical.TopK(rows, 1 + self._pick(3), chosen, by, ties=ties, rank=rank)

    def _functions(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        del depth
        numbers = self._numbers(rows.schema)
        kind = self._one_of(["row_number", "rank", "lag", "running_sum"])
        column = None if kind in ("row_number", "rank") else self._one_of(numbers)
        keys = tuple(self._some(rows.schema.names, 1))
        by = (self._one_of(rows.schema.names),)
        return logical.WindowFunctions(rows, keys, by, ((self._fresh(), OrderFunction(kind, column)),))

    def _places(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        """Return rows whose number in an order is bounded."""
        del depth
        keys, name = tuple(self._some(rows.schema.names, 1)), self._fresh()
        by = (f"{self._one_of(rows.schema.names)}{self._one_of(['', ' desc'])}",)
        numbered = logical.WindowFunctions(rows, keys, by, ((name, OrderFunction("row_number")),))
        place, most = col(name), 1 + self._pick(2)
        return logical.Filter(numbered, self._one_of([place <= most, place < most + 1, place == most]))

    def _grouping_sets(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        """Return aggregates by two keys, by the first of them, and of all rows."""
        del depth
        one, other = self._one_of(self._numbers(rows.schema)), self._one_of(self._numbers(rows.schema))
        one_key, other_key, sums, count = (self._fresh() for _ in range(4))
        given = logical.Project(rows, ((one_key, col(one)), (other_key, col(other)), (sums, col(one))))
        parts = []
        for keys in ((one_key, other_key), (one_key,), ()):
            found = logical.Aggregate(
                given, keys, ((count, Aggregate("count")), (f"{sums} of", Aggregate("sum", sums)))
            )
            shown = [
                (key, col(key) if key in keys else lit(None).cast("long")) for key in (one_key, other_key)
            ]
            kept = (*shown, (count, col(count)), (f"{sums} of", col(f"{sums} of")))
            parts.append(logical.Project(found, kept))
        return logical.Union(tuple(parts))

    def _twice(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        """Return a join by one of two columns that are the same."""
        other = self.table(depth - 2)
        name, again = self._one_of(self._numbers(rows.schema)), self._fresh()
        both = logical.Project(rows, (*((each, col(each)) for each in rows.schema.names), (again, col(name))))
        kind = self._one_of(["inner", "left", "right", "full", "full", "semi"])
        key = self._one_of(self._numbers(other.schema))
        made = logical.Join(both, other, kind, ((self._one_of([name, again]), key),), suffix="_of_twice")
        return logical.Project(made, tuple((each, col(each)) for each in made.schema.names[-5:]))

    def _best(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        """Return the greatest or least value of each key, mostly of a table that only grows."""
        del depth
        given = scan("g") if self._pick(3) else rows
        kind, numbers = self._one_of(["max", "min"]), self._numbers(given.schema)
        asked = Aggregate(kind, self._one_of(numbers))
        return logical.Aggregate(given, (self._one_of(numbers),), ((self._fresh(), asked),))

    def _window(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        del depth
        at = self._one_of(self._numbers(rows.schema))
        return logical.TimeWindow(rows, at, 2, start=self._fresh(), end=self._fresh())

    def _mapped(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        del depth
        name = self._numbers(rows.schema)[0]
        place = rows.schema.get_field_index(name)

        def add_one(batch: pa.RecordBatch) -> pa.RecordBatch:
            """Return the rows with one number more by one."""
            return batch.set_column(place, name, pc.add(batch.column(place), 1))

        return logical.MapBatches(rows, add_one, rows.schema, version=name)

    def _as_of(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        other = self.table(depth - 2)
        mine, theirs = self._numbers(rows.schema), self._numbers(other.schema)
        if len(mine) < 2 or len(theirs) < 2:
            raise FlowError("a column for the key and one for the time are needed")
        kind = self._one_of(["inner", "left"])
        return logical.AsOfJoin(rows, other, ((mine[0], theirs[0]),), (mine[-1], theirs[-1]), kind=kind)

    # Recursion.

    def _recursion(self, rows: LogicalOperator, depth: int) -> LogicalOperator:
        del depth
        numbers = self._numbers(rows.schema)
        one, other = self._one_of(numbers), self._one_of(numbers)
        plain = logical.Project(rows, (("src", col(one)), ("dst", col(other)), ("tag", col(numbers[0]))))
        edges = logical.Distinct(logical.Filter(plain, col("src").is_not_null() & col("dst").is_not_null()))
        kind = self._one_of([self._closure, self._closure, self._mutual, self._counting, self._distances])
        made: LogicalOperator = kind(edges)
        match self._pick(4):
            case 0:
                return logical.Filter(made, self.condition(made.schema, 0))
            case 1 | 2:
                column = made.schema.names[0]
                return logical.Filter(made, col(column) == lit(self._pick(4)))
            case _:
                return self._some_columns(made)

    def _closure(self, edges: LogicalOperator) -> LogicalOperator:
        """Return who is reached from where, with a tag that stays as it is."""
        start = logical.Project(edges, (("root", col("src")), ("node", col("dst")), ("tag", col("tag"))))
        variable = Variable(start.schema, name="reached")
        if self._pick(2):
            other = logical.Project(edges, (("src", col("src")), ("dst", col("dst"))))
            step: LogicalOperator = logical.Join(
                variable, logical.Distinct(other), "inner", (("node", "src"),)
            )
            step = logical.Project(step, (("root", col("root")), ("node", col("dst")), ("tag", col("tag"))))
        else:
            renamed = logical.Project(edges, (("root", col("src")), ("mid", col("dst"))))
            step = logical.Join(logical.Distinct(renamed), variable, "inner", (("mid", "root"),))
            step = logical.Project(step, (("root", col("root")), ("node", col("node")), ("tag", col("tag"))))
        body = logical.Distinct(logical.Union((start, step)))
        return Recursive(Iterate((variable,), (start,), (body,)))

    def _mutual(self, edges: LogicalOperator) -> LogicalOperator:
        """Return who is reached in an even, or an odd, number of steps."""
        start = logical.Distinct(logical.Project(edges, (("root", col("src")), ("node", col("src")))))
        even, odd = Variable(start.schema, name="even"), Variable(start.schema, name="odd")

        def step(table: LogicalOperator) -> LogicalOperator:
            joined = logical.Join(table, edges, "inner", (("node", "src"),))
            return logical.Project(joined, (("root", col("root")), ("node", col("dst"))))

        bodies = logical.Distinct(logical.Union((start, step(odd)))), logical.Distinct(step(even))
        return Recursive(Iterate((even, odd), (start, None), bodies), self._pick(2))

    def _counting(self, edges: LogicalOperator) -> LogicalOperator:
        """Return rows that count up to a bound, with copies."""
        start = logical.Project(edges, (("root", col("src")), ("n", col("dst")), ("tag", col("tag"))))
        variable = Variable(start.schema, name="counted")
        more = logical.Project(
            logical.Filter(variable, col("n") < 3),
            (("root", col("root")), ("n", col("n") + lit(1).cast("long")), ("tag", col("tag"))),
        )
        return Recursive(Iterate((variable,), (start,), (logical.Union((start, more)),)))

    def _distances(self, edges: LogicalOperator) -> LogicalOperator:
        """Return the least number of steps to each node from those that have a number."""
        none = lit(0).cast("long")
        start = logical.Project(logical.Filter(edges, col("src") == 1), (("node", col("src")), ("far", none)))
        variable = Variable(start.schema, name="distance")
        joined = logical.Join(variable, edges, "inner", (("node", "src"),))
        step = logical.Project(joined, (("node", col("dst")), ("far", col("far") + lit(1).cast("long"))))
        least = logical.Aggregate(
            logical.Union((start, step)), ("node",), (("far", Aggregate("min", "far")),)
        )
        return Recursive(Iterate((variable,), (logical.Distinct(start),), (least,)))


# The tables that pointstamp makes.


def divides_by_zero(error: OperatorError) -> bool:
    """Return whether an error is one that the expressions of the generator raise; any other is a mistake."""
    return "by zero" in str(error)


def run(
    outputs: Mapping[str, LogicalOperator],
    epochs: Sequence[Mapping[str, Sequence[Row]]],
    workers: int = 1,
) -> dict[str, list[Rows]]:
    """Return the rows of each output after each epoch."""
    flow, _ = flow_of(outputs)
    results = flow.run(inputs_of(epochs), workers=workers)
    made: dict[str, list[Rows]] = {}
    for name, operator in outputs.items():
        total: Rows = Counter()
        made[name] = []
        for number in range(len(epochs)):
            table = results[name].get(number)
            for row in [] if table is None else table.to_pylist():
                key = tuple(row[column] for column in operator.schema.names)
                total[key] += row["diff"]
            made[name].append(Counter({key: count for key, count in total.items() if count}))
    return made


def flow_of(outputs: Mapping[str, LogicalOperator]) -> tuple[ps.Dataflow, Lowering]:
    """Return a flow with these outputs, and what its operators were lowered to."""
    flow = ps.Dataflow("plan")
    streams = {name: flow.stream_input(name, schema) for name, schema in SCHEMAS.items() if name != "k"}
    keyed = flow.table("k", K, key="k", deleted="gone")

    def read(each: Scan) -> ps.Table:
        if each.kind == "upserts":
            return keyed.select(*each.schema.names)
        stream = streams[each.input]
        if each.columns is not None:
            marker = [] if each.marker is None else [each.marker]
            stream = stream.select(*each.schema.names, *marker)
        return stream.to_table(weight=each.marker) if each.kind == "weights" else stream.to_table()

    lowering = Lowering(list(outputs.values()), read)
    for name, operator in outputs.items():
        flow.output(name, lowering.table(operator))
    return flow, lowering


def inputs_of(epochs: Sequence[Mapping[str, Sequence[Row]]]) -> dict[str, list[pa.Table]]:
    """Return the inputs of a flow with these rows."""
    return {
        name: [
            pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in epoch[name]], schema)
            for epoch in epochs
        ]
        for name, schema in SCHEMAS.items()
    }
