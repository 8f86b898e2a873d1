"""A recorded run in a real browser: what a person sees at each step, and what the models hold beside it.

Families, and what only each can find:
- *steps*: the page adds events up by itself, so only the page shows whether they add up;
- *findings*: a run that broke a rule, or a world that failed, opens where it did;
- *crashes*: generations beside each other, of which each has a state of its own.
"""

import shlex
from pathlib import Path

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from pointstamp.cli.dashboard import sight_of
from pointstamp.cli.main import main
from pointstamp.dashboard.server import Dashboard
from pointstamp.simulate.case import Case, prepared
from pointstamp.simulate.crash.events import Crashed, GenerationBegan
from pointstamp.simulate.crash.seeds import CrashOutcome, CrashSimulator, crash_trace
from pointstamp.simulate.crash.trace import CrashTrace, save_crashes
from pointstamp.simulate.seeds import Simulator
from pointstamp.verify.trace import Header, Trace, describe_event, load, save
from pointstamp.worker.events import MessagePulled
from support.browsers import click, quiet, texts, until
from support.sights import KEEPS_FOR_EVER, halving, numbers

pytestmark = pytest.mark.browser


def world() -> Trace:
    flow = halving()
    simulator = Simulator(flow.plan, prepared(flow.plan, {"numbers": [numbers(0, 3)]}), file="halving.py")
    return simulator.trace(simulator.run(Case(3, 2)))


def go(browser: WebDriver, step: int) -> str:
    """Move to a step; the words of its event."""
    browser.execute_script(
        "const bar = document.querySelector('.bar input'); bar.value = arguments[0];"
        "bar.dispatchEvent(new Event('input'))",
        step,
    )
    until(browser, lambda: texts(browser, "#event")[0].startswith(f"{step:,} of"))
    return texts(browser, "#event")[0].partition(": ")[2]


def table(browser: WebDriver, name: str) -> dict[str, tuple[str, str]]:
    """The rows of one of the tables: what it is of, the model's side, the worker's side."""
    cells = texts(browser, f".{name}-table tbody td")
    names = [each.partition(" has yet")[0] for each in cells[::3]]
    return dict(zip(names, zip(cells[1::3], cells[2::3], strict=True), strict=True))


# Steps.


def test_a_recorded_world_is_stepped_through_with_the_model_beside_it(
    browser: WebDriver, tmp_path: Path
) -> None:
    trace = world()
    save(trace, tmp_path / "world.jsonl")
    with Dashboard(sight_of(str(tmp_path / "world.jsonl"))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, "#event") and texts(browser, "#event")[0].startswith("0 of"))
        assert set(table(browser, "points").values()) == {("2", "2")}  # one for each worker, known to all
        click(browser, "[aria-label='Next event']")
        assert describe_event(trace.header.shape, trace.events[1]) in texts(browser, "#event")[0]
        pulled = next(at for at, event in enumerate(trace.events) if isinstance(event, MessagePulled))
        assert go(browser, pulled) == describe_event(trace.header.shape, trace.events[pulled])
        assert texts(browser, "#agrees") == ["The model agrees: it allows every event up to this one."]
        assert any(model != own for model, own in table(browser, "points").values())
        assert any("not received yet" in each for each in texts(browser, ".points-table .differs"))
        click(browser, "[aria-label='To the last event']")
        assert table(browser, "points") == {}
        assert set(table(browser, "frontiers").values()) == {("complete", "complete")}
        assert texts(browser, ".known h3")[2:] == [
            "Capabilities that worker 0 holds (0)",
            "Messages in flight (0)",
        ]
        assert texts(browser, "#figures dd") == [str(len(trace.events)), "2", "complete", "valid"]
        quiet(browser)


# Findings.


def test_a_run_that_broke_a_rule_opens_at_the_event_that_did(browser: WebDriver, tmp_path: Path) -> None:
    trace = world()
    pulled = next(at for at, event in enumerate(trace.events) if isinstance(event, MessagePulled))
    events = (*trace.events[: pulled + 1], *trace.events[pulled:])  # one message is taken twice
    save(Trace(trace.header, events), tmp_path / "world.jsonl")
    with Dashboard(sight_of(str(tmp_path / "world.jsonl"))) as dashboard:
        browser.get(dashboard.address)
        until(
            browser,
            lambda: texts(browser, "#event") and texts(browser, "#event")[0].startswith(f"{pulled + 1} of"),
        )
        assert texts(browser, "#figures dd")[-1] == "invalid"
        (words,) = texts(browser, "#agrees.objects")
        assert words.startswith("The model does not allow this event: invalid")
        assert "RecvCapEnabled" in words
        go(browser, pulled)
        assert texts(browser, "#agrees.agrees")
        go(browser, pulled + 2)
        assert f"stops at event {pulled + 1}" in texts(browser, "#agrees")[0]
        quiet(browser)


def test_a_failing_world_opens_with_the_command_that_it_prints(
    browser: WebDriver,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keeping.py").write_text(KEEPS_FOR_EVER)
    assert main(["simulate", "keeping.py", "--seeds", "3"]) == 1
    (look,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith("look: ")]
    record, show = look.removeprefix("look: ").split("; ")
    assert main(shlex.split(record)[1:]) == 1
    assert show == "pointstamp dashboard world.jsonl"
    with Dashboard(sight_of(shlex.split(show)[2])) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, "#verdict"))
        assert "Completes" in texts(browser, "#verdict")[0]
        last = len(load(Path("world.jsonl")).events) - 1
        until(browser, lambda: texts(browser, "#event")[0].startswith(f"{last} of"))
        assert any("keeps" in each for each in texts(browser, ".known ul li"))
        assert set(table(browser, "points")) == {"epoch 0 at output 0 of 'keeps'"}
        quiet(browser)


def test_a_trace_without_its_beginning_says_so_and_opens_at_its_end(
    browser: WebDriver, tmp_path: Path
) -> None:
    """As the judge of a query with verify=True leaves one, of which it has kept the last part."""
    trace = world()
    told = trace.header
    header = Header(told.flow, 2, told.shape, "broken off", "SnapshotHeldBack", told.replay, left_out=1200)
    save(Trace(header, trace.events[100:200]), tmp_path / "world.jsonl")
    with Dashboard(sight_of(str(tmp_path / "world.jsonl"))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, "#event") and texts(browser, "#event")[0].startswith("99 of"))
        assert texts(browser, "#reason") == ["SnapshotHeldBack"]
        assert "the first 1,200 events are not in the trace" in texts(browser, "#agrees")[0]
        quiet(browser)


# Crashes.


def crashed() -> CrashTrace:
    flow = halving()
    rows = {"numbers": [numbers(0, 3), numbers(1, 3)]}
    simulator = CrashSimulator(flow.plan, prepared(flow.plan, rows), file="halving.py")
    outcome = simulator.run(Case(0, 2, crashes=2))
    assert isinstance(outcome, CrashOutcome)
    return crash_trace(simulator, outcome)


def test_crashes_and_recoveries_are_steps_with_a_state_for_each_generation(
    browser: WebDriver, tmp_path: Path
) -> None:
    trace = crashed()
    save_crashes(trace, tmp_path / "crashes.jsonl")
    crashes = [at for at, each in enumerate(trace.happened) if isinstance(each.event, Crashed)]
    generations = [at for at, each in enumerate(trace.happened) if isinstance(each.event, GenerationBegan)]
    assert crashes
    assert len(generations) >= 2
    with Dashboard(sight_of(str(tmp_path / "crashes.jsonl"))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, "#verdict") and texts(browser, "#event") != [""])
        assert texts(browser, "#verdict") == ["valid: a run without failures explains it"]
        for at in crashes:
            click(browser, "[aria-label='To the next crash']")
            assert texts(browser, "#event")[0].startswith(f"{at:,} of")
            assert texts(browser, ".steps .now.Crashed")
        again = generations[-1]
        assert "generation began" in go(browser, again)
        began = trace.happened[again].event
        assert isinstance(began, GenerationBegan)
        assert set(table(browser, "points").values()) == {(str(began.workers),) * 2}
        assert "Messages in flight (0)" in texts(browser, ".known h3")
        go(browser, len(trace.happened) - 1)
        assert texts(browser, "#agrees.agrees")
        quiet(browser)
