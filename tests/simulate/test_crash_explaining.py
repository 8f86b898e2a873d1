"""The failure-free run that explains a run with crashes is built from its events, and judged.

Families, and what only each can find:
- explanations: that steps are kept and dropped by epoch, and that a trace in a file is enough;
- refusals: that the judge of explanations sees a message, a capability or a move that is missing or doubled;
- the commands: what ``simulate --crashes`` and ``explain`` say to a user, of a trace and of a checkpoint.
"""

from pathlib import Path

import pytest

from pointstamp.cli.main import main
from pointstamp.connectors.memory import Rows
from pointstamp.connectors.source import Unit
from pointstamp.errors import UsageError
from pointstamp.journal.history import Entry, FlowShape, PartSaved
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.query.start_checks import query_id_at
from pointstamp.simulate.crash.events import GenerationBegan, Happened
from pointstamp.simulate.crash.seeds import CrashOutcome, CrashSimulator, crash_trace
from pointstamp.simulate.crash.setting import CrashRun
from pointstamp.simulate.crash.trace import CrashTrace, load_crashes, save_crashes
from pointstamp.simulate.seeds import cases
from pointstamp.storage.local import LocalStorage
from pointstamp.worker.events import MessagePulled, MessageSent, Notified
from support.broken_recovery import OfBefore, simulator_of, sound_flows

FORGETFUL = """
import pointstamp as ps

class Tally:
    outputs = "k long, n long"

    def __init__(self):
        self.seen = {}
        self.arrived = {}

    def on_receive(self, context, input, batch):
        self.arrived.setdefault(context.epoch, []).extend(batch.column("k").to_pylist())
        context.notify_at()

    def on_notify(self, context):
        for k in self.arrived.pop(context.epoch):
            self.seen[k] = self.seen.get(k, 0) + 1
        context.send([{"k": k, "n": n} for k, n in sorted(self.seen.items())])

flow = ps.Dataflow("tally")
numbers = flow.stream_input("numbers", "k long")
flow.output("out", ps.operator("tally", Tally(), numbers=numbers.exchange("k")))
inputs = {"numbers": [[{"k": 1}, {"k": 2}], [{"k": 1}], [{"k": 2}, {"k": 3}]]}
"""


def crashed(simulator: CrashSimulator) -> CrashOutcome:
    """The first world in which a later generation resumed from a snapshot."""
    for case in cases(range(100), 2, 3, (2, 3)):
        outcome = simulator.run(case)
        assert isinstance(outcome, CrashOutcome)
        assert isinstance(outcome.run, CrashRun)
        began = [event for _, event in outcome.run.happened if isinstance(event, GenerationBegan)]
        if any(event.restored >= 1 for event in began) and outcome.explained is not None:
            dropped = len(outcome.explained.moves) - outcome.explained.kept
            if dropped:
                return outcome
    raise AssertionError("nothing was ever restored")


@pytest.fixture(scope="module")
def simulator() -> CrashSimulator:
    simulator = simulator_of(sound_flows()["carried"]())
    simulator.world = OfBefore  # an epoch is a tick, so that what is taken out or put in is known
    return simulator


@pytest.fixture(scope="module")
def trace(simulator: CrashSimulator) -> CrashTrace:
    return crash_trace(simulator, crashed(simulator))


# Explanations.


def test_an_explanation_keeps_the_epochs_that_were_gone_on_from_and_drops_the_rest(trace: CrashTrace) -> None:
    explained = trace.explained()
    assert explained.flaw is None
    ends = {generation: end for generation, _, end in explained.kept_to}
    for each in explained.moves:
        assert (each.number is not None) == (each.move.last <= ends[each.generation])
    assert [each.number for each in explained.moves if each.number is not None] == list(range(explained.kept))


def test_a_trace_in_a_file_explains_the_run_as_well(trace: CrashTrace, tmp_path: Path) -> None:
    save_crashes(trace, tmp_path / "trace")
    assert load_crashes(tmp_path / "trace") == trace
    assert load_crashes(tmp_path / "trace").explained() == trace.explained()


def test_the_trace_of_a_query_that_began_with_a_savepoint_is_explained_from_there(tmp_path: Path) -> None:
    simulator = simulator_of(sound_flows()["carried"]())
    for case in cases(range(100), 2, 3, (1, 2)):
        run = simulator.crash_run(case)
        if run.successor is not None and run.successor.crashes:
            break
    assert run.successor is not None
    outcome = simulator.judged(case, run.successor)
    assert outcome.explained is not None
    save_crashes(crash_trace(simulator, outcome), tmp_path / "trace")
    saved = load_crashes(tmp_path / "trace")
    assert saved.header.since >= 0
    assert saved.explained() == outcome.explained
    assert saved.explained().flaw is None


def test_what_is_no_trace_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("no trace")
    with pytest.raises(UsageError, match="is not a trace of a run with crashes"):
        load_crashes(tmp_path / "other")
    with pytest.raises(UsageError, match="cannot be read as a trace"):
        load_crashes(tmp_path / "nowhere")


# Refusals.


def _kept(trace: CrashTrace, kind: type) -> int:
    """Where an event of this kind stands that belongs to a move that is kept."""
    for each in trace.explained().moves:
        acts = [act for act in each.move.acts if isinstance(act, kind)] if each.number is not None else []
        if acts:
            return trace.happened.index(Happened(each.generation, acts[0]))
    raise AssertionError(kind)


def _with(trace: CrashTrace, happened: list[Happened]) -> CrashTrace:
    return CrashTrace(trace.header, tuple(happened))


@pytest.mark.parametrize("kind", [MessageSent, MessagePulled])
def test_a_message_that_is_missing_from_the_events_is_no_explanation(trace: CrashTrace, kind: type) -> None:
    position = _kept(trace, kind)
    happened = [each for number, each in enumerate(trace.happened) if number != position]
    assert _with(trace, happened).explained().flaw is not None


def test_a_message_that_is_pulled_twice_is_no_explanation(trace: CrashTrace) -> None:
    position = _kept(trace, MessagePulled)
    happened = [*trace.happened[:position], trace.happened[position], *trace.happened[position:]]
    assert _with(trace, happened).explained().flaw is not None


def test_a_time_that_is_told_too_early_is_no_explanation(trace: CrashTrace) -> None:
    told = trace.happened[_kept(trace, Notified)]
    position = next(
        number
        for number, (generation, event) in enumerate(trace.happened)
        if generation == told.generation and isinstance(event, MessagePulled)
    )
    early = [*trace.happened[:position], told, *trace.happened[position:]]
    assert "is complete, and in the explanation" in str(_with(trace, early).explained().flaw)


def test_a_generation_that_went_on_elsewhere_is_no_explanation(trace: CrashTrace) -> None:
    # The last one: an earlier one may have found its snapshot damaged, and led nowhere.
    *_, started = (
        n
        for n, each in enumerate(trace.happened)
        if isinstance(each.event, GenerationBegan) and each.event.restored > 0
    )
    generation, began = trace.happened[started]
    assert isinstance(began, GenerationBegan)
    other = GenerationBegan(began.workers, began.restored - 1, began.is_newest)
    happened = [*trace.happened[:started], Happened(generation, other), *trace.happened[started + 1 :]]
    assert "resumed after epoch" in str(_with(trace, happened).explained().flaw)


# The commands.


@pytest.mark.long
def test_simulate_with_crashes_names_an_operator_without_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CrashSimulator, "world", OfBefore)  # a savepoint would show it without any crash
    flow = tmp_path / "tally.py"
    flow.write_text(FORGETFUL)
    assert main(["simulate", str(flow), "--workers", "1-2"]) == 0
    capsys.readouterr()
    found = main(
        ["simulate", str(flow), "--workers", "1-2", "--crashes", "0-3", "--trace", str(tmp_path / "trace")]
    )
    said = capsys.readouterr().out
    assert found == 1
    assert "operator 'tally' keeps seen and declares no state" in said
    assert "CRASH: " in said
    replay = said.rpartition("replay: ")[2].split()
    assert main(replay[1:]) == 1
    assert "declares no state" in capsys.readouterr().out
    assert main(["explain", str(tmp_path / "trace")]) == 0, "pointstamps are as they should be; rows are not"
    assert "without failures" in capsys.readouterr().out


@pytest.mark.parametrize("crashes", ["x", "3-1", "-1"])
def test_a_number_of_crashes_that_is_none_is_refused(
    crashes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "flow.py", f"--crashes={crashes}"]) == 2
    assert "needs a number of crashes, 2, or a range, 0-4" in capsys.readouterr().err


def test_explain_shows_both_runs_side_by_side(
    trace: CrashTrace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_crashes(trace, tmp_path / "trace")
    assert main(["explain", str(tmp_path / "trace"), "--all"]) == 0
    said = capsys.readouterr().out
    assert "CRASH" in said
    assert "dropped" in said
    assert "explained: " in said


def test_explain_reads_the_journal_of_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = LocalStorage(tmp_path)
    for generation in range(2):
        journal: Journal[Entry] = Journal.open(storage, Entry, query=query_id_at(storage))
        journal.start_generation("a test", 0.0)
        ledger = Ledger(journal, {"words": Rows(())})
        if generation == 0:
            ledger.begin(FlowShape("word count", "q", {}))
            ledger.tick({"words": [Unit("0:1:a", ())]}, 1, final=False)
        ledger.commit(generation, [PartSaved("part", 1, 0)], [], is_whole=True, settled=generation)
        ledger.tick({"words": [Unit(f"{generation + 1}:1:b", ())]}, generation + 2, final=False)
    assert main(["explain", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "tick 0 takes 1 of 'words'" in said
    assert "epoch 1, as generation 2 computed them" in said
    assert "what is published is epochs 0 to 1, of a run without failures that takes ticks 0 to 2" in said


def test_explain_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(tmp_path / "nowhere")]) == 2
    assert main(["explain", str(tmp_path)]) == 2
    assert "is not a checkpoint: it holds no journal" in capsys.readouterr().err
