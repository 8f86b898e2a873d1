"""The page in a real browser: what a person sees, does and hears of.

Families, and what only each can find:
- *live*: queries at work, with frontiers that move, an input that holds an output back, a worker that is
  killed, and a driver that is: only a browser shows what becomes of the page;
- *drawing*: graphs of any size, whose parts never lie upon each other;
- *people*: with a keyboard, on a phone, with names that look like markup.
Every test ends with a look at the console and at what was asked for: nothing may leave this machine.
"""

import os
import signal
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pyarrow as pa
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

import pointstamp as ps
from pointstamp.cli.dashboard import sight_of
from pointstamp.dashboard.server import Dashboard
from pointstamp.dashboard.sight import drawn as drawn_plan
from support.browsers import SECONDS_MAX, click, console, quiet, resize, texts, until
from support.sights import Still, chain, halving, halving_query, numbers, write

pytestmark = pytest.mark.browser
TESTS = Path(__file__).parents[1]
ENDED = "The driver has ended, or cannot be reached"


def time_of(browser: WebDriver, operator: str) -> str:
    return "".join(texts(browser, f'.node[data-name="{operator}"] text.time'))


# Live.


def test_the_graph_of_a_loop_appears_with_frontiers_that_move(browser: WebDriver, tmp_path: Path) -> None:
    write(tmp_path / "in", 0)
    query = halving_query(tmp_path, workers=2)
    try:
        with query.dashboard() as dashboard:
            browser.get(dashboard.address)
            until(browser, lambda: time_of(browser, "halve") == "epoch 1, round 0")
            assert texts(browser, ".region text")[0].endswith("loop until 0")
            assert {"numbers", "union", "split", "halve", "count", "lengths"} <= set(
                texts(browser, ".node title")
            )
            assert {"by start", "by rounds"} <= set(texts(browser, ".pact"))
            assert len(texts(browser, ".edge.again")) == 1
            write(tmp_path / "in", 1)
            until(browser, lambda: time_of(browser, "halve") == "epoch 2, round 0")
            until(browser, lambda: "waits for epoch 2" in texts(browser, ".outputs small")[0])
            click(browser, "#tab-time")
            until(browser, lambda: "2 ticks shown" in texts(browser, ".chart .readout")[0])
            click(browser, "#tab-state")
            until(browser, lambda: "distinct" in texts(browser, "tbody td.name"))
            quiet(browser)
    finally:
        query.stop(finish=False)


def test_an_input_that_holds_an_output_back_is_named_by_a_click(browser: WebDriver, tmp_path: Path) -> None:
    flow = ps.Dataflow("two inputs")
    seconds = ps.by_event_time("at", every="1 second", lateness="0 seconds")
    left = flow.stream_input("left", "at timestamp, x long", epochs=seconds)
    right = flow.stream_input("right", "at timestamp, x long", epochs=seconds)
    flow.output("both", left.union(right))
    flow.output("one", right.filter(ps.col("x") > 0))
    rows = pa.table({"at": pa.array([1_000_000, 9_000_000], pa.timestamp("us", "UTC")), "x": [1, 2]})
    query = flow.start(
        left=[rows],
        right=ps.io.files(str(tmp_path)),
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
    )
    try:
        with query.dashboard() as dashboard:
            browser.get(dashboard.address)
            until(browser, lambda: texts(browser, '[data-output="both"]'))
            click(browser, '[data-output="both"]')

            def holding() -> list[tuple[bool, bool]]:
                reasons = [each for each in texts(browser, "#reasons li") if "holds event time back" in each]
                return [("'right'" in each, "'left'" in each) for each in reasons]

            def named() -> bool:
                click(browser, '[data-output="both"]')  # what is shown is that of the click
                return holding() == [(True, False)]

            until(browser, lambda: named())
            until(browser, lambda: texts(browser, '.node.lit[data-name="right"]'))
            until(browser, lambda: texts(browser, ".edge.lit"))
            assert not texts(browser, '.node.lit[data-name="one"]')
            quiet(browser)
    finally:
        query.stop(finish=False)


def test_a_killed_worker_is_a_restart_and_the_page_survives_the_driver(
    browser: WebDriver, tmp_path: Path
) -> None:
    write(tmp_path / "in", 0)
    command = [sys.executable, str(TESTS / "support" / "sights.py"), str(tmp_path)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert driver.stdout is not None
        browser.get(driver.stdout.readline().strip())
        click(browser, "#tab-workers")
        rows = until(browser, lambda: [each for each in texts(browser, "tbody tr") if "process" in each])
        os.kill(int(rows[0].split("process ")[1].split(" ")[0]), signal.SIGKILL)
        click(browser, "#tab-time")
        until(browser, lambda: any("resumed after" in each for each in texts(browser, "#restarts li")))
        assert any("worker 0" in each for each in texts(browser, "#restarts li"))
        generation, restarts = map(int, texts(browser, "#figures dd")[-2:])
        assert generation == restarts + 1 >= 2
        quiet(browser)
        click(browser, "#tab-flow")
        driver.kill()
        until(browser, lambda: ENDED in texts(browser, "#notice")[0])
        assert texts(browser, "#phase") == ["driver not reachable"]
        assert "halve" in texts(browser, ".node title")
        assert all("ERR_" in each or "EventSource" in each for each in console(browser))
    finally:
        driver.kill()
        driver.communicate(timeout=SECONDS_MAX)


def test_a_query_stops_after_a_confirmation_and_not_before(browser: WebDriver, tmp_path: Path) -> None:
    query = halving().start(
        numbers=ps.io.files(str(tmp_path)), checkpoint=tmp_path / "checkpoint", output=tmp_path / "out"
    )
    try:
        with query.dashboard(control=True) as dashboard:
            browser.get(dashboard.address)
            until(browser, lambda: texts(browser, "#phase") == ["waiting for data"])
            click(browser, "#stop")
            click(browser, "#confirm button[value=no]")
            assert query.is_active
            click(browser, "#stop")
            click(browser, "#confirm-yes")
            until(browser, lambda: texts(browser, "#phase") == ["ended"])
            assert query.exception() is None
            quiet(browser)
    finally:
        query.stop(finish=False)


def test_who_was_not_allowed_to_steer_sees_no_buttons_for_it(browser: WebDriver, tmp_path: Path) -> None:
    query = halving().start(numbers=[], checkpoint=tmp_path / "checkpoint", output=tmp_path / "out")
    query.await_termination(SECONDS_MAX)
    with query.dashboard() as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, "#phase") == ["ended"])
        assert texts(browser, "#stop") == []
        status = browser.execute_async_script(
            "fetch('stop', {method: 'POST', headers: {'X-Pointstamp': 'confirmed'}})"
            ".then((answer) => arguments[0](answer.status))"
        )
        assert status == 409


# What was recorded.


def test_a_checkpoint_shows_its_journal(browser: WebDriver, tmp_path: Path) -> None:
    halving().run(numbers=[numbers(0), numbers(1)], checkpoint=tmp_path / "checkpoint")
    with Dashboard(sight_of(str(tmp_path / "checkpoint"))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, "#figures dd"))
        assert texts(browser, "#figures dd")[:3] == ["1", "1", "1"]
        assert {"generation", "flow", "tick", "commit"} <= set(texts(browser, "td.name"))
        quiet(browser)


# Drawing.

BOXES = """
const box = (each) => { const b = each.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]; };
return {
  nodes: [...document.querySelectorAll('.node')].map(
    (each) => [each.dataset.name, box(each.querySelector('.box'))]),
  regions: [...document.querySelectorAll('.region > rect:first-child')].map(box),
};
"""


def drawn(browser: WebDriver) -> dict[str, Any]:
    return cast("dict[str, Any]", browser.execute_script(BOXES))


def apart(one: list[float], other: list[float]) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def within(inner: list[float], outer: list[float]) -> bool:
    return outer[0] <= inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def check_drawing(found: dict[str, Any], graph: dict[str, Any]) -> None:
    """No two nodes lie upon each other, and a node is in as many regions as it has loops around it."""
    boxes = [box for _, box in found["nodes"]]
    for number, box in enumerate(boxes):
        assert all(apart(box, other) for other in boxes[:number])
    depth = {node["name"]: len(node["scope"]) for node in graph["nodes"]}
    for name, box in found["nodes"]:
        around = [region for region in found["regions"] if not apart(box, region)]
        assert all(within(box, region) for region in around)
        assert len(around) == depth[name], name


@pytest.mark.parametrize(("length", "loops"), [(6, 1), (40, 3)])
def test_nothing_lies_upon_anything_else(browser: WebDriver, length: int, loops: int) -> None:
    graph = chain(length, loops=loops)
    with Dashboard(Still(graph)) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: len(texts(browser, ".node")) == length + 3)
        check_drawing(drawn(browser), graph)
        quiet(browser)


def test_a_flow_is_drawn_on_a_page_of_its_own_and_in_a_frame(browser: WebDriver, tmp_path: Path) -> None:
    flow = ps.Dataflow("words")
    words = flow.stream_input("words", "word string")
    flow.output("counts", words.to_table().count("word"))
    (tmp_path / "page.html").write_text(flow.to_html())
    (tmp_path / "notebook.html").write_text(
        f'<!doctype html><link rel="icon" href="data:,">{flow._repr_html_()}'
    )
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for name in ("page.html", "notebook.html"):
            browser.get(f"http://127.0.0.1:{server.server_port}/{name}")
            if name == "notebook.html":
                browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
            until(browser, lambda: {"words", "count", "counts"} <= set(texts(browser, ".node title")))
            boxes = [box for _, box in drawn(browser)["nodes"]]
            assert all(apart(box, other) for number, box in enumerate(boxes) for other in boxes[:number])
            browser.switch_to.default_content()
        server.shutdown()
    complaints = [each for each in console(browser) if "favicon" not in str(each)]
    assert complaints == []


def test_a_query_is_drawn_as_it_was_written_and_its_operators_on_demand(browser: WebDriver) -> None:
    flow = ps.sql(
        "create table o (k bigint, x bigint, w bigint) tblproperties ('weight' = 'w');"
        "select o.k, sum(o.x) s from o where o.x > 1 group by o.k"
    )
    graph = drawn_plan(flow.plan)
    now = {"frontier": [[3]], "batches": 0, "waiting": 2, "in": 5, "out": 7, "busy": 0.1, "holds": False}
    moment = {"operators": {str(node["id"]): now for node in graph["nodes"]}}
    with Dashboard(Still(graph, moment=moment)) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, ".node title"))
        steps = texts(browser, ".node title")
        assert sorted(steps) == ["aggregate", "filter", "o", "result"]
        click(browser, '.node[data-name="aggregate"] .box')
        until(browser, lambda: "aggregate" in texts(browser, ".side h2"))
        facts = " ".join(texts(browser, ".facts dd"))
        assert "group by" not in facts
        assert "sum(" in facts
        assert "SQL, line 1" in facts
        members = sum(1 for node in graph["nodes"] if node.get("step", {}).get("name") == "aggregate")
        assert members > 1
        until(browser, lambda: f"{2 * members} waiting" in texts(browser, ".node.chosen text.right"))
        click(browser, "#all-operators")
        assert sorted(texts(browser, ".node title")) == sorted(each["name"] for each in graph["nodes"])
        assert len(graph["nodes"]) > len(steps) + 2
        check_drawing(drawn(browser), graph)
        click(browser, "#all-operators")
        assert texts(browser, ".node title") == steps
        quiet(browser)


def test_two_hundred_operators_are_folded_found_and_opened(browser: WebDriver) -> None:
    graph = chain(200, loops=6)
    inside = sum(1 for node in graph["nodes"] if node["scope"])
    with Dashboard(Still(graph)) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: len(texts(browser, ".node")) == 203 - inside)
        hidden = next(node for node in graph["nodes"] if len(node["scope"]) == 2)
        search = browser.find_element(By.CSS_SELECTOR, "input[type=search]")
        search.send_keys(hidden["name"], Keys.ENTER)
        until(browser, lambda: texts(browser, ".node.chosen title") == [hidden["name"]])
        assert texts(browser, ".side h2")[-1] == hidden["name"]
        assert 203 - inside < len(texts(browser, ".node")) < 203
        quiet(browser)


# People.


def test_a_keyboard_is_enough(browser: WebDriver) -> None:
    with Dashboard(Still(chain(4, loops=1))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: texts(browser, ".node"))
        node = browser.find_element(By.CSS_SELECTOR, '.node[data-name="operator 1"]')
        browser.execute_script("arguments[0].focus()", node)
        node.send_keys(Keys.ENTER)
        assert texts(browser, ".side h2")[-1] == "operator 1"
        region = browser.find_element(By.CSS_SELECTOR, ".region")
        region.send_keys(Keys.ENTER)
        until(
            browser,
            lambda: (
                browser.find_element(By.CSS_SELECTOR, ".region").get_attribute("aria-expanded") == "false"
            ),
        )
        tab = browser.find_element(By.ID, "tab-flow")
        tab.send_keys(Keys.ARROW_RIGHT)
        assert browser.switch_to.active_element.get_attribute("id") == "tab-time"
        unnamed = browser.execute_script(
            "return [...document.querySelectorAll('button, input, svg, [role=tab]')].filter((each) => "
            "!each.textContent.trim() && !each.getAttribute('aria-label') && !each.labels?.length).length"
        )
        assert unnamed == 0
        quiet(browser)


@pytest.mark.parametrize("view", ["flow", "time", "state", "workers"])
def test_a_phone_shows_all_of_it_without_scrolling_aside(browser: WebDriver, view: str) -> None:
    resize(browser, 390, 844, dark=True)
    with Dashboard(Still(chain(6, loops=1))) as dashboard:
        browser.get(f"{dashboard.address}#{view}")
        until(browser, lambda: texts(browser, "#phase") == ["working"])
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= 390
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(20, 23, 27)"
        quiet(browser)


def test_names_that_look_like_markup_are_names(browser: WebDriver) -> None:
    name = "<img src=x onerror=alert(1)>"
    with Dashboard(Still(chain(3, loops=1, name=name))) as dashboard:
        browser.get(dashboard.address)
        until(browser, lambda: f"{name} 1" in texts(browser, ".node title"))
        click(browser, f'.node[data-name="{name} 1"] .box')
        until(browser, lambda: f"{name} 1" in texts(browser, ".side h2"))
        assert texts(browser, "img") == []
        quiet(browser)
