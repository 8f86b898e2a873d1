"""Make the pictures of dashboard.md and completion.md: situations as a person would meet them.

Run it with ``make screenshots``, and look at the pictures before you commit them. They need Chromium.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from selenium.webdriver.remote.webdriver import WebDriver

import pointstamp as ps
from pointstamp.cli.dashboard import sight_of
from pointstamp.dashboard.server import Dashboard
from support.browsers import chromium, click, resize, texts, until
from support.sights import halved, halving_query, numbers, write

ROOT: Final = Path(__file__).parent.parent
IMAGES: Final = ROOT / "docs" / "images"


COUNTING: Final = """
import pyarrow.compute as pc
import pointstamp as ps
from support.sights import halved, numbers

flow = ps.Dataflow("halving")
given = flow.stream_input("numbers", "start long, x long, rounds long")
with given.loop("until 0") as loop:
    again = loop.variable("start long, x long, rounds long")
    done, going = loop.enter(given).union(again).exchange("start").split(pc.field("x") == 0)
    loop.feedback(again, going.map_batches(halved).named("halve"))
    left = loop.leave(done)
flow.output("lengths", left.group_by("rounds", running=True).count())
inputs = {"numbers": [numbers(0, 3), numbers(1, 3)]}
"""


def main() -> int:
    """Make all pictures, or those that are named."""
    wanted = sys.argv[1:] or list(SITUATIONS)
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            resize(browser, 1280, 720)
            (Path(folder) / name).mkdir()
            SITUATIONS[name](browser, Path(folder) / name)
            print(name, flush=True)
    return 0


def shoot(browser: WebDriver, name: str) -> None:
    """Save what the page shows."""
    browser.save_screenshot(str(IMAGES / f"dashboard-{name}.png"))


def slowly(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Half of each number, after a while."""
    time.sleep(0.004)
    return halved(batch)


def loop(browser: WebDriver, folder: Path) -> None:
    """A loop in the middle of an epoch."""
    flow = ps.Dataflow("halving")
    given = flow.stream_input("numbers", "start long, x long, rounds long")
    with given.loop("until 0") as around:
        again = around.variable("start long, x long, rounds long")
        done, going = around.enter(given).union(again).exchange("start").split(pc.field("x") == 0)
        around.feedback(again, going.map_batches(slowly).named("halve"))
        left = around.leave(done)
    flow.output("lengths", left.group_by("rounds", running=True).count())
    flow.output("finished", left)
    query = flow.start(
        numbers=[numbers(epoch, 60) for epoch in range(4000)],
        checkpoint=folder / "checkpoint",
        output=folder / "out",
        workers=2,
        options=ps.QueryOptions(snapshots=ps.SnapshotPolicy(seconds=1.0)),
    )
    try:
        with query.dashboard() as dashboard:
            browser.get(dashboard.address)
            until(browser, lambda: "in flight" in "".join(texts(browser, ".region .turn")))
            until(browser, lambda: texts(browser, "#figures dd")[0] != "none")
            time.sleep(2.0)
            shoot(browser, "loop")
    finally:
        query.stop(finish=False)


def why(browser: WebDriver, folder: Path) -> None:
    """Two inputs with event time, of which one is silent."""
    flow = ps.Dataflow("orders and payments")
    seconds = ps.by_event_time("at", every="1 second", lateness="0 seconds")
    orders = flow.stream_input("orders", "at timestamp, customer long, amount long", epochs=seconds)
    payments = flow.stream_input("payments", "at timestamp, customer long, amount long", epochs=seconds)
    large = orders.filter(ps.col("amount") > 0).named("above 0")
    flow.output("balances", large.union(payments).group_by("customer", running=True).count())
    flow.output("large orders", large)
    times = pa.array([1_000_000, 9_000_000], pa.timestamp("us", "UTC"))
    rows = {"at": times, "customer": [1, 2], "amount": [5, 7]}
    (folder / "payments").mkdir()
    query = flow.start(
        orders=[pa.table(rows)],
        payments=ps.io.files(str(folder / "payments")),
        checkpoint=folder / "checkpoint",
        output=folder / "out",
        workers=2,
    )
    try:
        with query.dashboard() as dashboard:
            browser.get(dashboard.address)
            until(browser, lambda: "epoch" in "".join(texts(browser, ".node .time")))
            click(browser, '[data-output="balances"]')
            until(browser, lambda: "holds event time back" in "".join(texts(browser, "#reasons li")))
            time.sleep(1.0)
            shoot(browser, "why")
    finally:
        query.stop(finish=False)


def stuck(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A call that does not return for long."""
    time.sleep(600.0)
    return batch


def slow(browser: WebDriver, folder: Path) -> None:
    """A worker that is inside one call for long."""
    flow = ps.Dataflow("prices")
    rows = flow.stream_input("rows", "start long, x long, rounds long")
    priced = rows.exchange("start").map_batches(stuck).named("ask the price service")
    flow.output("prices", priced.group_by("rounds", running=True).count())
    query = flow.start(
        rows=[numbers(0, 1)] * 3, checkpoint=folder / "checkpoint", output=folder / "out", processes=2
    )
    try:
        with query.dashboard() as dashboard:
            browser.get(dashboard.address)
            until(browser, lambda: texts(browser, ".node.slow"))
            click(browser, '[data-output="prices"]')
            until(browser, lambda: texts(browser, "#reasons .slow"))
            shoot(browser, "slow")
    finally:
        query.stop(finish=False)


def past(browser: WebDriver, folder: Path) -> None:
    """A query one of whose workers was killed."""
    write(folder / "in", 0)
    query = halving_query(folder, processes=2)
    try:
        with query.dashboard() as dashboard:
            browser.get(f"{dashboard.address}#time")
            until(browser, lambda: texts(browser, "#phase") == ["waiting for data"])
            for epoch in range(1, 60):
                write(folder / "in", epoch)
                time.sleep(0.5)
                if epoch == 30:
                    os.kill(query.workers()[0][1], signal.SIGKILL)
            until(browser, lambda: "resumed" in "".join(texts(browser, "#restarts li")))
            query.process_all_available()
            click(browser, ".choice button")
            resize(browser, 1280, 1340)
            time.sleep(1.5)
            shoot(browser, "time")
    finally:
        query.stop(finish=False)


def state(browser: WebDriver, folder: Path) -> None:
    """A join in which one key has a third of the rows, with some of its state in files."""
    flow = ps.Dataflow("visits")
    visits = flow.table("visits", "id long, user long")
    users = flow.table("users", "user long, country string", key="user")
    flow.output("visits", visits.join(users, "user"))
    flow.spill_beyond("200 kB")
    (folder / "users").mkdir()
    rows = [{"id": n, "user": 0 if n % 3 == 0 else n % 5_000} for n in range(60_000)]
    query = flow.start(
        visits=[pa.Table.from_pylist(rows[at : at + 10_000]) for at in range(0, 60_000, 10_000)],
        users=ps.io.files(str(folder / "users")),
        checkpoint=folder / "checkpoint",
        output=folder / "out",
        processes=2,
    )
    try:
        with query.dashboard() as dashboard:
            browser.get(f"{dashboard.address}#state")
            known = [{"user": n, "country": "abcd"[n % 4]} for n in range(5_000)]
            pq.write_table(pa.Table.from_pylist(known), folder / "users.part")
            (folder / "users.part").rename(folder / "users" / "users.parquet")
            until(browser, lambda: "join" in browser.find_element("tag name", "main").text)
            query.process_all_available()
            time.sleep(8.0)  # keys are sampled every 5 seconds
            resize(browser, 1280, 410)
            time.sleep(1.0)
            shoot(browser, "state")
    finally:
        query.stop(finish=False)


def trace(browser: WebDriver, folder: Path) -> None:
    """A recorded world, in the middle."""
    file = folder / "halving.py"
    file.write_text(COUNTING)
    record(file, folder, "--replay", "5", "--workers", "2")
    with Dashboard(sight_of(str(folder / "world.jsonl"))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, ".steps li"))
        go(browser, int(browser.execute_script("return document.querySelector('.bar input').max")) // 2)
        shoot(browser, "trace")


def crashes(browser: WebDriver, folder: Path) -> None:
    """A recorded world at a crash."""
    file = folder / "halving.py"
    file.write_text(COUNTING)
    record(file, folder, "--replay", "5", "--workers", "2", "--crashes", "2")
    with Dashboard(sight_of(str(folder / "world.jsonl"))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, ".steps li"))
        click(browser, "[aria-label='To the next crash']")
        time.sleep(0.5)
        shoot(browser, "crashes")


def counting(browser: WebDriver, folder: Path) -> None:
    """Two moments of the run that docs/tutorials/completion.md steps through."""
    record(ROOT / "examples" / "14_counting.py", folder, "--replay", "1", "--workers", "2")
    with Dashboard(sight_of(str(folder / "world.jsonl"))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, ".steps li"))
        resize(browser, 1280, 900)
        for step, name in ((48, "counting"), (85, "counting-complete")):
            go(browser, step)
            shoot(browser, name)


def record(flow: Path, folder: Path, *options: str) -> None:
    """Record a world of a flow into world.jsonl."""
    command = [sys.executable, "-m", "pointstamp.cli.main", "simulate", flow.name, *options]
    command += ["--record", str(folder / "world.jsonl")]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=flow.parent, env=paths)


def go(browser: WebDriver, step: int) -> None:
    """Move to a step of a trace."""
    browser.execute_script(
        "const bar = document.querySelector('.bar input'); bar.value = arguments[0];"
        "bar.dispatchEvent(new Event('input'))",
        step,
    )
    time.sleep(0.5)


SITUATIONS: Final[dict[str, Callable[[WebDriver, Path], Any]]] = {
    "loop": loop,
    "why": why,
    "slow": slow,
    "time": past,
    "state": state,
    "trace": trace,
    "crashes": crashes,
    "counting": counting,
}


if __name__ == "__main__":
    sys.exit(main())
