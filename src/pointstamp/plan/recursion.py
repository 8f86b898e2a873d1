"""Recorded flows as plans for rules: loops become recursions, inputs scans.

A user wires loops of tables by hand: tables enter, variables are fed, and tables leave, in any order. Here
each such loop becomes one ``Iterate``. Tables need not enter it any more, because an operator is inside a
loop if it depends on a variable, and what does not is computed once, outside. An input that directly becomes
a table is a ``Scan``. Loops of streams stay as they are.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pointstamp.plan.logical import (
    Iterate,
    LogicalOperator,
    Recursive,
    Scan,
    ScanKind,
    Values,
    Variable,
    walk,
)
from pointstamp.plan.streams import (
    EnterLoop,
    Feedback,
    Input,
    LeaveLoop,
    LoopScope,
    LoopVariable,
    PerEpoch,
    ToTable,
)


def structured(written: Sequence[LogicalOperator]) -> dict[LogicalOperator, LogicalOperator]:
    """Return for each operator that was written the one that stands for it in a plan for rules."""
    rings = [_Ring(each, written) for each in written if isinstance(each, LoopScope) and each.of_tables]
    while True:
        structuring = _Structuring(written, [each for each in rings if each.is_whole])
        tangled = structuring.run()
        if tangled is None:
            return structuring.made
        tangled.is_whole = False  # it is left and entered again, which no recursion says


def roots_of(made: Iterable[LogicalOperator]) -> list[LogicalOperator]:
    """Return the operators that no other one reads: outputs, and what has effects or was left unread."""
    operators = list(dict.fromkeys(made))
    read = {each for operator in walk(operators) for each in operator.inputs}
    return [each for each in operators if each not in read]


class _Ring:
    """A loop of tables with everything that was wired to it."""

    def __init__(self, scope: LoopScope, written: Sequence[LogicalOperator]) -> None:
        self.scope = scope
        self.variables = [each for each in written if isinstance(each, LoopVariable) and each.loop is scope]
        fed = {each.variable: each for each in written if isinstance(each, Feedback) and each.loop is scope}
        self.feedbacks = [fed.get(each) for each in self.variables]
        self.leaves = [each for each in written if isinstance(each, LeaveLoop) and each.loop is scope]
        self.is_whole = bool(self.variables) and None not in self.feedbacks
        self.iterate: Iterate | None = None
        self.results: dict[LogicalOperator, int] = {}
        """Which result of the recursion each table is that leaves."""

    def parts(self) -> Iterator[LogicalOperator]:
        """Yield what the recursion is made of."""
        for variable, feedback in zip(self.variables, self.feedbacks, strict=True):
            assert feedback is not None, "a loop that is not whole stays as it is"
            yield variable
            if variable.start is not None:
                yield variable.start
            yield feedback.input
        yield from (each.input for each in self.leaves)


class _Structuring:
    """One attempt, with the loops that can become recursions."""

    def __init__(self, written: Sequence[LogicalOperator], rings: Sequence[_Ring]) -> None:
        self._written = written
        self._rings: dict[LogicalOperator, _Ring] = {each.scope: each for each in rings}
        for each in rings:
            each.iterate = None
        self.made: dict[LogicalOperator, LogicalOperator] = {}

    def run(self) -> _Ring | None:
        """Make what stands for each operator; return a loop that would be part of itself, if there is one."""
        open_: set[LogicalOperator] = set()
        for root in self._written:
            if root in self._rings:
                continue
            waiting: list[tuple[LogicalOperator, bool]] = [(root, False)]
            while waiting:
                operator, is_ready = waiting.pop()
                if is_ready:
                    open_.discard(operator)
                    self.made[operator] = self._stand_in(operator)
                elif operator in open_:
                    return next(ring for each in open_ if (ring := self._ring_left(each)) is not None)
                elif operator not in self.made:
                    open_.add(operator)
                    waiting.append((operator, True))
                    waiting.extend((each, False) for each in self._needed(operator) if each not in self.made)
        return None

    def _ring_left(self, operator: LogicalOperator) -> "_Ring | None":
        return self._rings.get(operator.loop) if isinstance(operator, LeaveLoop) else None

    def _needed(self, operator: LogicalOperator) -> list[LogicalOperator]:
        """Return what must have stand-ins before an operator has one."""
        ring = self._ring_left(operator)
        if isinstance(operator, Feedback) and operator.loop is not None:
            ring = self._rings.get(operator.loop)
        if ring is not None:
            return list(ring.parts())
        if isinstance(operator, LoopVariable) and operator.loop in self._rings:
            return []
        return [each for each in operator.inputs if each not in self._rings]

    def _stand_in(self, operator: LogicalOperator) -> LogicalOperator:
        if isinstance(operator, EnterLoop) and operator.loop in self._rings:
            return self.made[operator.input]
        if isinstance(operator, LoopVariable) and operator.loop in self._rings:
            return Variable(
                operator.schema, name=operator.name, origin=operator.origin, written=operator.written
            )
        if (ring := self._ring_left(operator)) is not None:
            return self._recursive(operator, ring)
        if isinstance(operator, Feedback) and operator.loop in self._rings:
            return self._iterate(self._rings[operator.loop])
        if isinstance(operator, ToTable) and (scan := _scan(operator)) is not None:
            return scan
        if isinstance(operator, Values) and operator.anchor is not None:
            is_scanned = isinstance(self.made[operator.anchor], Scan)
            return replace(operator, anchor=None if is_scanned else self.made[operator.anchor])
        if isinstance(operator, PerEpoch):
            parts = [self.made[each] for each in operator.parts]
            return operator.with_inputs([*parts, *operator.variables, operator.body])
        return operator.with_inputs([self.made[each] for each in operator.inputs])

    def _recursive(self, leave: LogicalOperator, ring: _Ring) -> Recursive:
        """Return the result of a recursion that leaves a loop here."""
        assert isinstance(leave, LeaveLoop), "only these leave"
        iterate = self._iterate(ring)
        place = ring.results[self.made[leave.input]]
        return Recursive(iterate, place, name=leave.name, origin=leave.origin, written=leave.written)

    def _iterate(self, ring: _Ring) -> Iterate:
        """Return the recursion that a loop is."""
        if ring.iterate is None:
            variables = [self.made[each] for each in ring.variables]
            starts = [None if each.start is None else self.made[each.start] for each in ring.variables]
            bodies = [self.made[each.input] for each in ring.feedbacks if each is not None]
            left = dict.fromkeys(self.made[each.input] for each in ring.leaves)
            ring.results = {
                body: place
                for place, (variable, body) in enumerate(zip(variables, bodies, strict=True))
                if body in left and body.schema.names == variable.schema.names
            }
            others = [each for each in left if each not in ring.results]
            ring.results |= {each: len(bodies) + place for place, each in enumerate(others)}
            ring.iterate = Iterate(
                tuple(each for each in variables if isinstance(each, Variable)),
                tuple(starts),
                tuple(bodies),
                ring.scope.rounds_max,
                tuple(others),
                name=ring.scope.name,
                origin=ring.scope.origin,
                written=max(each.written or 0 for each in ring.feedbacks if each is not None),
            )
        return ring.iterate


def _scan(table: ToTable) -> Scan | None:
    """Return the scan that an input is that becomes a table as it is; None if it is anything else."""
    given = table.input
    markers: dict[ScanKind, str | None] = {
        "append": None,
        "weights": table.weight,
        "operations": table.operation,
        "snapshots": table.empty,
        "upserts": table.deleted,
    }
    if not isinstance(given, Input) or table.kind not in markers or table.is_event_time:
        return None
    return Scan(
        given.input,
        given.declared,
        table.kind,
        markers[table.kind],
        table.keys,
        table.order,
        table.trusted,
        source=given,
        name=table.name,
        origin=table.origin,
        written=table.written,
    )
