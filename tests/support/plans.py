"""Random plans: nested loops, operators with several ports, doors of every kind, and names that mean harm.

They are written with ``PlanBuilder`` alone, so that what reads plans can be tested without what users write
them with. A loop may be opened again under its name after others have read what left it.
"""

import random
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import strategies as st

from pointstamp.flow.builder import PlanBuilder, Scope, wired
from pointstamp.flow.plan import EVERYWHERE, STAY, ExchangeBy, InputPort, NodeKind, Pact, Plan, RoundLimit
from pointstamp.topology.domain import EPOCHS
from pointstamp.topology.ports import SourcePort
from pointstamp.topology.summary import Summary, delay, enter, feedback, identity, leave

SCHEMA = pa.schema([("src", pa.int64()), ("dst", pa.int64())])

HARMFUL_NAMES = (
    'say "no"',
    "</text><script>alert(1)</script>",
    "a & b < c",
    "two\nlines",
    "end",
    "1. first",
    "`back` #quot; 100%",
    "\x00\x07\ud800",
    "日本語の名前がとても長いのでどこかで切らなければならないはずです",
    "x" * 200,
    "]]> --> |label|",
    "",
)


@dataclass
class _Writer:
    rng: random.Random
    builder: PlanBuilder
    streams: dict[Scope, list[SourcePort]] = field(default_factory=dict)

    def name(self, usual: str) -> str:
        return self.rng.choice(HARMFUL_NAMES) if self.rng.random() < 0.2 else usual

    def some(self, scope: Scope) -> SourcePort:
        return self.rng.choice(self.streams[scope])

    def pact(self) -> Pact:
        pacts: list[Pact] = [STAY, ExchangeBy(("src",)), ExchangeBy(("src", "dst")), EVERYWHERE]
        return self.rng.choice(pacts)

    def keep(self, index: int, outputs: int, scope: Scope) -> list[SourcePort]:
        made = [SourcePort(self.builder.plan.nodes[index].index, number) for number in range(outputs)]
        self.streams.setdefault(scope, []).extend(made)
        return made

    def operator(self, scope: Scope) -> None:
        ports = [
            wired(self.name(f"in {n}"), self.some(scope), self.pact()) for n in range(self.rng.randint(1, 3))
        ]
        outputs = {f"out {n}": SCHEMA for n in range(self.rng.randint(1, 3))}
        summaries = None
        if self.rng.random() < 0.3:
            stays, later = identity(len(scope)), delay(2, len(scope))
            ways: list[tuple[Summary, ...]] = [(), (stays,), (later,)]
            pairs = [(i, o) for i in range(len(ports)) for o in range(len(outputs))]
            summaries = {pair: self.rng.choice(ways) for pair in pairs}
        node = self.builder.add(
            NodeKind.OPERATOR, self.name("operator"), scope, ports, outputs, summaries=summaries
        )
        self.keep(node.index, len(outputs), scope)

    def door(self, kind: NodeKind, source: SourcePort, scope: Scope, rounds: int, summary: Summary) -> None:
        node = self.builder.add(
            kind,
            self.name(kind.value),
            scope,
            [wired("in", source)],
            {"out": SCHEMA},
            input_rounds=rounds,
            summaries={(0, 0): (summary,)},
        )
        self.keep(node.index, 1, scope)

    def loop(self, scope: Scope) -> None:
        inside = (*scope, self.rng.choice(["labels", "ranks", self.name("loop")]))
        depth = len(inside)
        for _ in range(self.rng.randint(1, 2)):
            self.door(NodeKind.ENTER, self.some(scope), inside, len(scope), enter(len(scope)))
        variables = [self.variable(inside) for _ in range(self.rng.choice([1, 1, 2, 5]))]
        self.fill(inside)
        # What is fed back must not be the variable itself: an operator stands between.
        self.operator(inside)
        for port in variables:
            port.source = self.streams[inside][-1]
            port.pact = ExchangeBy(("src",)) if self.rng.random() < 0.5 else STAY
        for _ in range(self.rng.randint(1, 2)):
            self.door(NodeKind.LEAVE, self.some(inside), scope, depth, leave(depth))

    def variable(self, scope: Scope) -> InputPort:
        unwired = InputPort("in", None)
        node = self.builder.add(
            NodeKind.FEEDBACK,
            self.name("variable"),
            scope,
            [unwired],
            {"out": SCHEMA},
            summaries={(0, 0): (feedback(len(scope)),)},
        )
        if self.rng.random() < 0.5:
            node.limit = RoundLimit(self.rng.choice([1, 50]), self.rng.random() < 0.5)
        self.keep(node.index, 1, scope)
        return unwired

    def fill(self, scope: Scope) -> None:
        for _ in range(self.rng.randint(1, 4)):
            kind = self.rng.random()
            if kind < 0.3 and len(scope) < 3:
                self.loop(scope)
            elif kind < 0.4:
                self.door(NodeKind.DELAY, self.some(scope), scope, len(scope), delay(1, len(scope)))
            else:
                self.operator(scope)


def random_plan(seed: int) -> Plan:
    """One plan for each seed."""
    rng = random.Random(seed)
    builder = PlanBuilder(rng.choice(["flow", *HARMFUL_NAMES]), EPOCHS)
    writer = _Writer(rng, builder)
    for number in range(rng.randint(1, 3)):
        node = builder.add(NodeKind.INPUT, f"input {number}", (), [], {"out": SCHEMA})
        writer.keep(node.index, 1, ())
    again = InputPort("in", None)
    if has_cycle := rng.random() < 0.3:
        # A cycle outside loops, into the next epoch.
        later = {(0, 0): (delay(1),)}
        variable = builder.add(NodeKind.FEEDBACK, "variable", (), [again], {"out": SCHEMA}, summaries=later)
        writer.keep(variable.index, 1, ())
    writer.fill(())
    if has_cycle:
        writer.operator(())
        again.source = writer.streams[()][-1]
    for number in range(rng.randint(0, 3)):
        port = wired("in", writer.some(()), writer.pact())
        builder.add(NodeKind.OUTPUT, f"output {number}", (), [port], {})
    return builder.plan


def plans() -> st.SearchStrategy[Plan]:
    """Random plans for properties."""
    return st.integers(0, 1_000_000).map(random_plan)
