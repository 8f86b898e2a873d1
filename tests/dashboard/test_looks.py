"""How the page looks to people: what differs looks different, and can be read, found and reached.

Families, and what only each can find:
- *holding back*: queries that are held back in four ways, each of which the page shows in its own way;
- *large*: a flow of 200 operators that can be read, folded and zoomed;
- *reading*: the contrast of every text, in light and dark, as the browser has worked it out;
- *past*: the charts of time, and what is kept, which a person looks into;
- *proxies*: a page behind a path that it knows nothing of.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

import pointstamp as ps
from pointstamp.dashboard.server import Dashboard
from pointstamp.query.query import Query
from support.browsers import SECONDS_MAX, click, quiet, requests, resize, texts, until
from support.options import with_options
from support.sights import Still, chain, numbers

pytestmark = pytest.mark.browser

# Holding back.

KINDS = {
    "input": "Input may still send",
    "held": "Capability is held",
    "backlog": "Batches wait",
    "loop": "Batches circulate",
    "slow": "Slow operator",
}


class HeldBack(Still):
    """A sight whose output is held back in every way at once, each by an operator of its own."""

    def why(self, output: str) -> dict[str, Any]:
        held = [
            {"kind": kind, "operator": number, "words": f"{kind} of {output}", "way": [number, 6]}
            for number, kind in enumerate(KINDS)
        ]
        return {"output": output, "held": held, "words": []}


LOOKS = """
const look = (each, ...names) => {
  const style = getComputedStyle(each);
  return names.map((name) => style[name]).join();
};
return {
  rows: [...document.querySelectorAll('#reasons li')].map((each) => [
    each.className, each.firstChild.textContent,
    look(each, 'borderLeftStyle', 'borderLeftColor', 'borderLeftWidth')]),
  nodes: [...document.querySelectorAll('.node.origin')].map((each) => [each.dataset.holds,
    look(each.querySelector('.box'), 'stroke', 'strokeDasharray')]),
};
"""


@pytest.mark.parametrize("dark", [False, True])
def test_each_way_of_holding_back_has_its_own_words_and_its_own_look(
    browser: WebDriver, *, dark: bool
) -> None:
    resize(browser, 1280, 720, dark=dark)
    with Dashboard(HeldBack(chain(5, loops=1))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, '[data-output="out 6"]'))
        click(browser, '[data-output="out 6"]')
        until(browser, lambda: len(texts(browser, "#reasons li")) == len(KINDS))
        found = browser.execute_script(LOOKS)
        assert {kind: words for kind, words, _ in found["rows"]} == KINDS
        assert len({look for _, _, look in found["rows"]}) == len(KINDS)
        assert {kind for kind, _ in found["nodes"]} == set(KINDS)
        assert len({look for _, look in found["nodes"]}) == len(KINDS)
        quiet(browser)


COVERED: Final = """
const covers = [...document.querySelectorAll('.key, .tools')].map((each) => each.getBoundingClientRect());
return [...document.querySelectorAll('.canvas .node')].filter((node) => {
  const box = node.getBoundingClientRect();
  return covers.some((each) => box.left < each.right && box.right > each.left
    && box.top < each.bottom && box.bottom > each.top);
}).length;
"""


def test_the_legend_and_the_tools_do_not_cover_the_graph(browser: WebDriver) -> None:
    resize(browser, 1280, 720)
    with Dashboard(HeldBack(chain(12, loops=1))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, ".canvas .node"))
        assert browser.execute_script("return document.querySelectorAll('.canvas .node').length") > 12
        assert browser.execute_script(COVERED) == 0
        quiet(browser)


class Holds:
    """Keeps a capability for what has come, until somebody lets it go."""

    outputs = "start long, x long, rounds long"
    let_go = threading.Event()

    def __init__(self) -> None:
        self.kept: list[ps.timely.Capability] = []

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self.kept.append(context.retain())


def held_flow() -> ps.Dataflow:
    flow = ps.Dataflow("holding")
    rows = flow.stream_input("numbers", "start long, x long, rounds long")
    flow.output("out", ps.operator("holds", Holds(), rows=rows))
    return flow


def endless_flow() -> ps.Dataflow:
    """Rows that go round, a few at a time, and never leave."""
    flow = ps.Dataflow("endless")
    rows = flow.stream_input("numbers", "start long, x long, rounds long")
    with rows.loop("for ever") as loop:
        again = loop.variable("start long, x long, rounds long")
        both = loop.enter(rows).union(again).map_batches(slowly).named("turn")
        loop.feedback(again, both)
        left = loop.leave(both.filter(ps.col("x") < 0))
    flow.output("out", left)
    return flow


def slowly(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, after a moment in which others act."""
    threading.Event().wait(0.005)
    return batch


def stuck_flow() -> ps.Dataflow:
    flow = ps.Dataflow("stuck")
    rows = flow.stream_input("numbers", "start long, x long, rounds long")
    flow.output("out", rows.map_batches(stuck).named("ask"))
    return flow


def stuck(batch: pa.RecordBatch) -> pa.RecordBatch:
    threading.Event().wait(SECONDS_MAX)
    return batch


@contextmanager
def started(flow: ps.Dataflow, folder: Path, **how: Any) -> Iterator[Query]:  # noqa: ANN401 - as start has it
    query = flow.start(
        numbers=[numbers(0, 3), numbers(1, 3)],
        checkpoint=folder / "checkpoint",
        output=folder / "out",
        **with_options(how),
    )
    try:
        yield query
    finally:
        query.stop(finish=False)


@pytest.mark.parametrize(
    ("flow", "kind", "who", "how"),
    [
        (held_flow, "held", "holds", {}),
        (endless_flow, "loop", "turn", {}),
        pytest.param(stuck_flow, "slow", "ask", {"processes": 1}, marks=pytest.mark.long),
    ],
)
def test_what_really_holds_a_query_back_is_shown_in_its_way(
    browser: WebDriver,
    tmp_path: Path,
    flow: Callable[[], ps.Dataflow],
    kind: str,
    who: str,
    how: dict[str, Any],
) -> None:
    with started(flow(), tmp_path, **how) as query, query.dashboard() as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, '[data-output="out"]'))
        click(browser, '[data-output="out"]')
        # Rows that go round are seen at one operator, and a moment later at another.
        until(browser, lambda: any(who in each for each in texts(browser, f"#reasons .{kind}")))
        until(browser, lambda: texts(browser, f'.node.origin[data-holds="{kind}"] title') == [who])
        quiet(browser)


# Large.


def scale(browser: WebDriver) -> float:
    moved = str(
        browser.execute_script("return document.querySelector('.canvas svg > g').getAttribute('transform')")
    )
    return float(moved.partition("scale(")[2].rstrip(")"))


def test_two_hundred_operators_can_be_read_and_zoomed(browser: WebDriver) -> None:
    with Dashboard(Still(chain(200, loops=6))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, ".node"))
        assert scale(browser) >= 0.6  # smaller letters than these nobody can read
        sizes = browser.execute_script(
            "return [...document.querySelectorAll('.node text.name')].slice(0, 20).map("
            "(each) => each.getBoundingClientRect().height)"
        )
        assert min(sizes) >= 7
        click(browser, "[aria-label='Larger']")
        larger = scale(browser)
        assert larger > 0.6
        browser.execute_script(
            "document.querySelector('.canvas svg').dispatchEvent("
            "new WheelEvent('wheel', {deltaY: 600, clientX: 300, clientY: 300, cancelable: true}))"
        )
        assert scale(browser) < larger
        browser.find_element(By.XPATH, "//button[text()='Fit']").click()
        wide, high, box = browser.execute_script(
            "const svg = document.querySelector('.canvas svg'), box = svg.firstChild.getBoundingClientRect();"
            "return [svg.clientWidth, svg.clientHeight, [box.width, box.height]]"
        )
        assert box[0] <= wide + 1
        assert box[1] <= high + 1
        quiet(browser)


# Reading.

CONTRAST = """
const channels = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = ([r, g, b]) => [r, g, b].map((c) => linear(c / 255))
  .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
const ratio = (a, b) => {
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};
const ground = (each) => {
  const box = each.closest('.node')?.querySelector('.box') ?? null;
  if (box) return channels(getComputedStyle(box).fill);
  for (let at = each; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const found = [];
for (const each of document.querySelectorAll('body *')) {
  const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const style = getComputedStyle(each), isDrawn = each instanceof SVGElement;
  if (!own || !each.getClientRects().length || style.visibility === 'hidden') continue;
  if (each.closest('title') || each.closest('.dimmed')) continue;
  const reached = ratio(channels(isDrawn ? style.fill : style.color), ground(each));
  const name = `${each.tagName} ${each.getAttribute('class')} ${each.textContent.slice(0, 30)}`;
  if (reached < 4.5) found.push([name, reached.toFixed(2)]);
}
return found;
"""

MOMENT = {
    "asof": 1.0e9,
    "inputs": [{"name": "rows", "rows": 3, "late": 0, "frontier": [[4]]}],
    "outputs": [{"name": "out 5", "rows": 3, "frontier": [[4]]}],
    "operators": {
        str(number): {
            "frontier": [[4]],
            "batches": 2,
            "waiting": 7,
            "in": 5.0,
            "out": 5.0,
            "busy": 0.5,
            "holds": number == 2,
        }
        for number in range(7)
    },
    "kept": [
        {
            "operator": 2,
            "name": "join",
            "what": "left",
            "rows": 1000,
            "bytes": 64_000,
            "spilled": 48_000,
            "by": {"0": [900, 57_600], "1": [100, 6_400]},
            "keys": [{"key": "ada", "rows": 600, "worker": 0}, {"key": "bob", "rows": 120, "worker": 0}],
        }
    ],
}


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_enough_contrast(browser: WebDriver, *, dark: bool) -> None:
    resize(browser, 1280, 720, dark=dark)
    with Dashboard(HeldBack(chain(4, loops=1), moment=MOMENT)) as dashboard:
        for view in ("flow", "time", "state", "workers"):
            browser.get("about:blank")
            browser.get(f"{dashboard.address}#{view}")
            until(browser, lambda: texts(browser, "#phase") == ["working"])
            if view == "flow":
                click(browser, '[data-output="out 5"]')
                until(browser, lambda: texts(browser, "#reasons li"))
            assert browser.execute_script(CONTRAST) == []
        for mood in ("good", "warn", "bad"):  # those that are not shown now
            browser.execute_script(
                "document.getElementById('phase').className = `pill ${arguments[0]}`;"
                "document.getElementById('notice').hidden = false;"
                "document.getElementById('notice').textContent = 'something';"
                "document.getElementById('notice').className = `notice ${arguments[0]}`",
                mood,
            )
            assert browser.execute_script(CONTRAST) == []
        quiet(browser)


# Past.


class Remembered(Still):
    """A sight with a past: ticks with rounds, snapshots of both kinds, and a restart."""

    def history(self, since: float) -> dict[str, Any]:
        now = 1.0e9
        ticks = [
            {
                "number": n,
                "first": n,
                "last": n,
                "generation": 1,
                "ticked": now - 100 + 10 * n,
                "complete": now - 99 + 10 * n,
                "saved": now - 98 + 10 * n,
                "published": now - 97 + 10 * n,
                "rounds": 3 + n,
                "changed": now,
            }
            for n in range(9)
        ]
        spans = [
            {
                "at": now - 100 + 5 * n,
                "seconds": 5.0,
                "rows": 50,
                "epochs": 1,
                "rounds": 4,
                "latency": [3, 3, 3],
                "memory": {"0": 10**8, "1": 10**8},
            }
            for n in range(18)
        ]
        saved = [
            {
                "epoch": n,
                "begun": now - 98 + 10 * n,
                "done": now - 97 + 10 * n,
                "size_bytes": 1000 + n,
                "is_whole": n == 0,
                "savepoint": None,
            }
            for n in range(9)
        ]
        lost = [{"at": now - 55, "generation": 1, "words": "worker 1 was killed", "went_on": now - 54}]
        return {"ticks": ticks, "hour": spans, "snapshots": saved, "restarts": lost}


CHART = (
    "const chart = [...document.querySelectorAll('.chart')].find("
    "(each) => each.querySelector('h2').textContent === arguments[0]);"
)
DRAG = """
const svg = chart.querySelector('svg'), box = svg.getBoundingClientRect();
for (const [kind, share] of [['pointerdown', 0.2], ['pointermove', 0.5], ['pointerup', 0.5]]) {
  const clientX = box.x + 52 + share * (box.width - 58);
  svg.dispatchEvent(new PointerEvent(kind, { clientX, clientY: box.y + 20, bubbles: true }));
}
"""


def readout(browser: WebDriver, chart: str) -> str:
    script = f"{CHART} return chart?.querySelector('.readout').textContent ?? ''"
    return cast("str", browser.execute_script(script, chart))


def test_time_shows_rounds_snapshots_and_restarts_and_can_be_zoomed(browser: WebDriver) -> None:
    with Dashboard(Remembered(chain(4, loops=1))) as dashboard:
        browser.get(f"{dashboard.address}#time")
        until(browser, lambda: "epoch 8: 11 rounds" in readout(browser, "Rounds per epoch"))
        assert "epoch 8, incremental: 1.0 KB in 1.0 s" in readout(browser, "Snapshots")
        assert "200 MB" not in readout(browser, "Memory of workers")  # each by itself
        assert readout(browser, "Memory of workers").count("100 MB") == 2
        assert "generation 1" in texts(browser, "#restarts li")[0]
        assert "worker 1 was killed" in texts(browser, "#restarts li")[0]
        ticks = texts(browser, ".chart .readout")[0]
        browser.execute_script(CHART + DRAG, "Snapshots")
        until(browser, lambda: texts(browser, ".chart .readout")[0] != ticks)
        assert "ticks shown" in texts(browser, ".chart .readout")[0]
        browser.find_element(By.XPATH, "//button[text()='Back to now']").click()
        until(browser, lambda: texts(browser, ".chart .readout")[0] == ticks)
        quiet(browser)


def test_state_names_the_largest_keys_and_who_has_more_than_others(browser: WebDriver) -> None:
    with Dashboard(Still(chain(4, loops=1), moment=MOMENT)) as dashboard:
        browser.get(f"{dashboard.address}#state")
        until(browser, lambda: texts(browser, ".keys li"))
        assert texts(browser, ".keys li") == ["ada 600 rows, 60 %, worker 0", "bob 120 rows, 12 %, worker 0"]
        assert "worker 0 has 1.8 \u00d7 the mean" in texts(browser, "tbody tr")[0]
        quiet(browser)


# Proxies.


class Proxy(BaseHTTPRequestHandler):
    """Puts a path before everything, as the proxies of Jupyter and of Spark do."""

    address = ""
    before = "/user/ada/proxy/4040"

    def do_GET(self) -> None:
        parts = urlsplit(self.address)
        if not self.path.startswith(self.before):
            self.send_error(404)
            return
        connection = HTTPConnection(parts.netloc, timeout=SECONDS_MAX)
        connection.request("GET", self.path.removeprefix(self.before))
        answer = connection.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.end_headers()
        while part := answer.read1(65536):
            self.wfile.write(part)
            self.wfile.flush()
        connection.close()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as the library has it
        """Say nothing."""


def test_behind_a_proxy_all_of_it_works_and_nothing_goes_past_the_proxy(browser: WebDriver) -> None:
    still = Still(chain(4, loops=1))
    with Dashboard(still) as dashboard, ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        Proxy.address = dashboard.address
        proxy.daemon_threads = True
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            outside = f"http://127.0.0.1:{proxy.server_port}{Proxy.before}{urlsplit(dashboard.address).path}"
            requests(browser)
            browser.get(outside)
            until(browser, lambda: texts(browser, "#phase") == ["working"])
            until(browser, lambda: still.moments >= 3)
            click(browser, '[data-output="out 5"]')
            until(browser, lambda: "Nothing holds it back" in "".join(texts(browser, ".side")))
            asked = [url for url in requests(browser) if url.startswith("http")]
            assert len(asked) > 10
            assert [url for url in asked if not url.startswith(outside)] == []
            quiet(browser)
        finally:
            browser.get("about:blank")
            dashboard.close()
            proxy.shutdown()
            thread.join(SECONDS_MAX)
