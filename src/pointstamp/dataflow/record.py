"""The record of a flow: logical operators in order, lowered immediately.

A verb makes a logical operator and gives it to ``FlowRecord.write``, which lowers it into the plan of the
flow, so that what cannot work is rejected where it is written. The schema of a recorded operator is that of
what it was lowered to.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.flow.builder import Mark, PlanBuilder
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.plan.logical import LogicalOperator, Scan, unchecked, walk
from pointstamp.plan.lowering import Lowering, Physical, lower, read_by
from pointstamp.plan.optimizer import RULES, Optimized, is_switched_on, optimize
from pointstamp.plan.recursion import roots_of, structured
from pointstamp.plan.signatures import identify
from pointstamp.plan.steps import mark_steps
from pointstamp.plan.streams import Feedback, Input, Lowered, Output, PerEpoch, Probed
from pointstamp.topology.domain import EPOCHS

_PACKAGE: Final = str(Path(__file__).parent.parent) + "/"
_NO_COLUMNS: Final = pa.schema([])
_origin: ContextVar[str | None] = ContextVar("where a text says what is written now", default=None)


@contextmanager
def written_at(place: str) -> Iterator[None]:
    """Let a place in a text be the origin of everything that is written in this block."""
    token = _origin.set(place)
    try:
        yield
    finally:
        _origin.reset(token)


def origin() -> str:
    """Return where a user writes now: a place in a text, or the file and line that called this package."""
    if (said := _origin.get()) is not None:
        return said
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Recorded:
    """Something that a user holds: a logical operator of a flow, and what it was lowered to."""

    _record: "FlowRecord"
    _operator: LogicalOperator
    _physical: Physical

    def named(self, name: str) -> Self:
        """Name the operator of the last method call, for errors, plans and status.

        Args:
            name: The name. Call this directly after the method that makes the operator.

        Examples:
            >>> words = ps.Dataflow("words").stream_input("words", "word string")
            >>> print(words.count("word").named("word counts"))
            stream 'word counts'

        """
        self._physical = self._record.renamed(self._operator, name)
        return self

    def _set(self, record: "FlowRecord", operator: LogicalOperator, physical: Physical) -> None:
        self._record = record
        self._operator = operator
        self._physical = physical


class FlowRecord:
    """The operators of a flow as they were written, and the plan that they are lowered into."""

    def __init__(
        self, fresh: Callable[[], PlanBuilder], table: type[Recorded], *, is_optimized: bool = True
    ) -> None:
        self._fresh = fresh
        self.table = table
        """The class of tables, which streams become."""
        self._planned: tuple[int, Plan] | None = None
        self._rewritten: Optimized | None = None
        self.builder = fresh()
        self.is_optimized = is_optimized
        self._last: tuple[LogicalOperator, list[Physical], Mark] | None = None
        """The operator that was written last, what it reads, and the plan before it."""
        self.written: list[LogicalOperator] = []
        self.replaced: set[LogicalOperator] = set()
        """Operators in whose place others were written; they run only if something reads them."""
        self.given: list[Output] = []
        """Outputs of plans that were given as logical operators."""
        self.clock: tuple[Recorded, ...] = ()
        """While a query is translated: all tables that it reads, whose watermarks it waits for."""

    def write(
        self, make: Callable[[], LogicalOperator], *parts: Recorded
    ) -> tuple[LogicalOperator, Physical]:
        """FlowRecord an operator over these parts; return it, and what it was lowered to."""
        with unchecked():
            operator = make()
        known = {each._operator: each._physical for each in parts}
        values = [known[each] for each in read_by(operator)]
        self._last = operator, values, self.builder.mark()
        physical = lower(operator, values, self.builder)
        _settle(operator, getattr(physical, "schema", _NO_COLUMNS), len(self.written))
        self.written.append(operator)
        return operator, physical

    def renamed(self, operator: LogicalOperator, name: str) -> Physical:
        """Lower the operator that was written last again, under another name."""
        if not isinstance(name, str):
            raise FlowError(f"{operator}: a name must be a string, got {name!r}. Give it a string.")
        if self._last is None or self._last[0] is not operator:
            raise FlowError(
                f"{operator}: named('{name}') was called after other operators were added. Call it "
                "directly: stream.filter(...).named('adults')."
            )
        _, values, mark = self._last
        self.builder.undo(mark)
        for each in (operator, operator.body) if isinstance(operator, PerEpoch) else (operator,):
            each.__dict__["name"] = name
        self._planned = None
        return lower(operator, values, self.builder)

    def held(self, given: object) -> Recorded:
        """Return something of a flow as it is, and what was lowered by hand with a record of that."""
        return given if isinstance(given, Recorded) else self.adopted(given)

    def adopted(self, physical: Physical) -> Recorded:
        """Return something that was lowered into this flow by hand."""
        made = Recorded()
        made._set(self, Lowered(physical.schema), physical)
        _settle(made._operator, physical.schema, len(self.written))
        self.written.append(made._operator)
        return made

    def add(self, outputs: Sequence[Output]) -> None:
        """Lower outputs of a plan that is given as logical operators."""
        Lowering(outputs, builder=self.builder).lower_all()
        self.given.extend(outputs)

    def fresh(self) -> PlanBuilder:
        """Return a builder without nodes, for a plan with the options of this one."""
        builder = self._fresh()
        for option in ("broadcast", "memory", "has_chains", "time_zone"):
            setattr(builder.plan, option, getattr(self.builder.plan, option))
        return builder

    def logical(self) -> dict[str, LogicalOperator]:
        """Return what each output shows, by name and in the order of writing."""
        made = structured(self.written)
        written = {each.output: made[each.input] for each in self.written if isinstance(each, Output)}
        return written | {each.output: each.input for each in self.given}

    def optimized(self) -> Optimized | None:
        """Return the optimized plan and the rules that fired; None if the plan runs as it was written."""
        self.plan()
        return self._rewritten

    def plan(self) -> Plan:
        """Return the plan that runs: as it was written, or lowered from what rules have made of that."""
        size = len(self.written) + len(self.given)
        if self._planned is None or self._planned[0] != size:
            self._planned = size, self._lowered_again()
        return self._planned[1]

    def _lowered_again(self) -> Plan:
        written = self.builder.plan
        self._rewritten = None
        if written.root is not EPOCHS:
            return written  # no query runs it, so there is no state to be found again
        stand_ins = structured(self.written)
        as_it_is = any(isinstance(each, Probed | Lowered) for each in self.written)
        needless = set() if as_it_is else {stand_ins[each] for each in self.replaced}
        unread = roots_of(stand_ins.values())
        roots = [*(each for each in unread if each not in needless), *self.given]
        rules = [] if as_it_is or not (self.is_optimized and is_switched_on()) else RULES
        made = optimize(roots, rules)
        is_all = needless.isdisjoint(unread)
        if is_all and all(new is old for new, old in zip(made.roots, roots, strict=True)):
            scopes = {each.loop: each for each in self.written if isinstance(each, Feedback)}
            owners = [scopes.get(each, each) for each in self.builder.owners]
            parts_of = [stand_ins.get(each, each) for each in owners]
            identify(written.nodes, parts_of, roots)
            mark_steps(written.nodes, parts_of)
            return written
        self._rewritten = made
        builder = self.fresh()
        Lowering(made.roots, builder=builder).lower_all()
        for each in (*self.written, *walk(self.given)):
            if isinstance(each, Input | Scan) and each.input not in builder.plan.named(NodeKind.INPUT):
                plain = each if isinstance(each, Input) else Input(each.input, each.declared)
                lower(plain, [], builder)  # its rows are needless, and arrive
        identify(builder.plan.nodes, builder.owners, made.roots)
        mark_steps(builder.plan.nodes, builder.owners)
        for name, node in written.named(NodeKind.INPUT).items():
            builder.plan.named(NodeKind.INPUT)[name].extra_columns = node.extra_columns
        return builder.plan


def _settle(operator: LogicalOperator, schema: pa.Schema, place: int) -> None:
    """Say of a new operator what is known now that it was lowered."""
    for name, value in (("schema", schema), ("origin", origin()), ("written", place)):
        operator.__dict__[name] = value


def physical_of(recorded: Any) -> Physical:  # noqa: ANN401 - whatever a user gave
    """Return what something of a flow was lowered to; for those who write plans, and not for users."""
    return recorded._physical if isinstance(recorded, Recorded) else recorded


def operator_of(recorded: Recorded) -> LogicalOperator:
    """Return the logical operator of a stream or a table; for those who write plans, and not for users."""
    return recorded._operator


def record_of(recorded: Recorded) -> FlowRecord:
    """Return the record of the flow that something belongs to; for those who write plans."""
    return recorded._record


def sides(keys: Any) -> tuple[tuple[str, str], ...]:  # noqa: ANN401 - as joins take it
    """Return what a join is on as pairs of columns, in the order in which they were given."""
    if isinstance(keys, str):
        return ((keys, keys),)
    pairs: Sequence[tuple[str, str]] = (
        list(keys.items()) if isinstance(keys, Mapping) else [(each, each) for each in keys]
    )
    return tuple(pairs)
