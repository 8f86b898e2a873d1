"""The server of a dashboard, without a browser: who is answered, with what, and at which cost.

Families, and what only each can find:
- *strangers*: who does not know the token learns nothing, and changes nothing;
- *cost*: nobody who does not look costs anything, and many who look cost what one does;
- *numbers*: what machines are told is what ``query.progress()`` says.
"""

import gc
import json
import re
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from pointstamp import QueryOptions
from pointstamp.dashboard.prometheus import HELP
from pointstamp.dashboard.server import REQUESTS_MAX, Dashboard
from pointstamp.errors import FlowError, UsageError
from support.options import with_options
from support.sights import Still, chain, halving, halving_query, write

SECONDS_MAX = 60.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def still() -> Still:
    return Still(chain(4, loops=1))


@pytest.fixture
def served(still: Still) -> Iterator[Dashboard]:
    with Dashboard(still) as dashboard:
        yield dashboard


def got(address: str) -> tuple[int, bytes]:
    try:
        with urlopen(address, timeout=SECONDS_MAX) as answer:  # noqa: S310 - our own address
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def posted(address: str, body: str, **headers: str) -> int:
    request = Request(address, body.encode(), headers, method="POST")  # noqa: S310 - our own address
    try:
        with urlopen(request, timeout=SECONDS_MAX) as answer:  # noqa: S310
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def wait_until(is_true: Any) -> None:  # noqa: ANN401
    deadline = monotonic() + SECONDS_MAX
    while not is_true():
        assert monotonic() < deadline
        sleep(0.01)


# Strangers.


@pytest.mark.parametrize(
    "path", ["", "/", "/about", "/events", "/metrics", "/wrong/", "/wrong/about", "/%2e%2e/", "//"]
)
def test_who_does_not_know_the_token_gets_403_and_no_other_word(served: Dashboard, path: str) -> None:
    assert got(f"http://127.0.0.1:{served.port}{path}") == (403, b"forbidden")


def test_a_part_of_the_token_is_no_token(served: Dashboard) -> None:
    assert got(served.address[:-2] + "/about")[0] == 403
    assert got(served.address + "about")[0] == 200


def test_two_dashboards_have_different_tokens(served: Dashboard, still: Still) -> None:
    with Dashboard(still) as other:
        token = urlsplit(other.address).path
        assert got(f"http://127.0.0.1:{served.port}{token}about")[0] == 403


def test_only_files_of_the_page_are_served(served: Dashboard) -> None:
    assert got(served.address + "main.js")[0] == 200
    for path in ("none.js", "../server.py", "%2e%2e/server.py", "static/main.js", "server.py", "main"):
        assert got(served.address + path)[0] == 404


def test_only_this_machine_can_reach_it_unless_asked(served: Dashboard) -> None:
    assert urlsplit(served.address).hostname == "127.0.0.1"


def test_it_is_served_over_ipv6_where_that_is_asked(still: Still) -> None:
    with Dashboard(still, host="::1") as dashboard:
        assert dashboard.address.startswith(f"http://[::1]:{dashboard.port}/")
        assert got(dashboard.address + "main.js")[0] == 200


def test_nothing_is_done_that_was_not_confirmed(served: Dashboard, still: Still) -> None:
    assert posted(served.address + "stop", "") == 400
    assert posted(f"http://127.0.0.1:{served.port}/wrong/stop", "", **{"X-Pointstamp": "confirmed"}) == 403
    assert still.done == []
    assert posted(served.address + "savepoint", "one", **{"X-Pointstamp": "confirmed"}) == 200
    assert still.done == [("savepoint", "one")]


def test_the_page_names_no_other_host() -> None:
    files = list((ROOT / "src" / "pointstamp" / "dashboard" / "static").iterdir())
    assert {"index.html", "main.js"} <= {file.name for file in files}
    for file in files:
        found = re.findall(r"https?://[^'\"\s]+", file.read_text())
        assert set(found) <= {"http://www.w3.org/2000/svg"}, file.name


def test_a_port_that_is_taken_is_named(served: Dashboard, still: Still) -> None:
    with pytest.raises(UsageError, match=f"port {served.port}"):
        Dashboard(still, port=served.port)


# Cost.


def events(address: str) -> tuple[HTTPConnection, Any]:
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc, timeout=SECONDS_MAX)
    connection.request("GET", f"{parts.path}events")
    return connection, connection.getresponse()


def test_moments_are_made_while_somebody_looks_and_not_longer(served: Dashboard, still: Still) -> None:
    assert still.moments == 0
    connection, answer = events(served.address)
    assert json.loads(answer.readline().removeprefix(b"data: "))["phase"] == "working"
    assert served.lookers == 1
    answer.close()
    connection.close()
    wait_until(lambda: served.lookers == 0)
    made = still.moments
    sleep(1.0)  # four moments long: nothing is there to wait for
    assert still.moments <= made + 1


def test_moments_are_made_once_for_all_who_look(served: Dashboard, still: Still) -> None:
    opened = [events(served.address) for _ in range(8)]
    wait_until(lambda: served.lookers == 8)
    before, begun = still.moments, monotonic()
    for _ in range(4):
        for _, answer in opened:
            answer.readline()
            answer.readline()
    assert still.moments - before <= 4 * (monotonic() - begun) + 6
    for connection, answer in opened:
        answer.close()
        connection.close()


def test_further_requests_are_turned_away_and_find_a_place_later(served: Dashboard) -> None:
    parts = urlsplit(served.address)
    idle = [socket.create_connection((parts.hostname or "", served.port)) for _ in range(REQUESTS_MAX)]
    with socket.create_connection((parts.hostname or "", served.port), timeout=SECONDS_MAX) as refused:
        assert b" 503 " in refused.recv(100)
    for each in idle:
        each.close()
    wait_until(lambda: _is_answered(served))


def _is_answered(served: Dashboard) -> bool:
    try:
        return got(served.address + "about")[0] == 200
    except OSError:
        return False


# Numbers.


def test_machines_are_told_the_numbers_of_progress(tmp_path: Path) -> None:
    write(tmp_path / "in", 0)
    query = halving_query(tmp_path, workers=2)
    try:
        for epoch in (1, 2):
            write(tmp_path / "in", epoch)
        query.process_all_available()
        with query.dashboard() as dashboard:
            lines = got(dashboard.address + "metrics")[1].decode().splitlines()
            status = query.progress()
    finally:
        query.stop()
    told = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    def number(name: str, **labels: str) -> float:
        named = ",".join(f'{label}="{value}"' for label, value in {"flow": "halving", **labels}.items())
        return float(told[f"pointstamp_{name}{{{named}}}"])

    (put,), out = status.inputs, status.outputs[0]
    assert number("rows_in_total", input="numbers") == put.rows == 60
    assert number("rows_out_total", output="lengths") == out.rows
    assert number("output_epoch", output="lengths") == out.epochs_complete == 3
    assert number("epoch_published") == 2
    assert status.kept
    for kept in status.kept:
        owner, _, what = kept.name.rpartition(": ")
        assert number("kept_rows", operator=owner, what=what) == kept.rows
        assert number("kept_bytes", operator=owner, what=what) == kept.size_bytes
    assert number("worker_memory_bytes", worker="0") > 0


def test_every_metric_is_documented() -> None:
    page = (ROOT / "docs" / "howto" / "dashboard.md").read_text()
    assert [name for name in HELP if f"`{name}`" not in page] == []


def test_a_query_that_has_ended_still_says_how(tmp_path: Path) -> None:
    query = halving().start(
        numbers=[],
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        options=QueryOptions(dashboard=True),
    )
    query.await_termination(SECONDS_MAX)
    with query.dashboard() as dashboard:
        moment = json.loads(got(dashboard.address + "moment")[1])
        assert (moment["active"], moment["phase"], moment["error"]) == (False, "ended", None)
        assert got(dashboard.address + "why?output=none")[0] == 409
        assert dashboard.address in dashboard._repr_html_()


def test_a_port_of_a_query_that_has_ended_is_taken_over_and_no_other(tmp_path: Path) -> None:
    class Over(Still):
        is_over = True

    with Dashboard(Still(chain(3))) as live, pytest.raises(UsageError, match="cannot listen at port"):
        Dashboard(Over(chain(3)), port=live.port)
    ended = Dashboard(Over(chain(3)))
    with Dashboard(Still(chain(3)), port=ended.port) as served:
        assert served.port == ended.port
        assert got(served.address)[0] == 200
        assert got(ended.address)[0] == 403
    ended.close()


def test_queries_one_after_the_other_are_shown_at_one_port_also_if_only_the_server_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Dashboard(Still(chain(3))) as free:
        port = free.port
    for number in range(3):
        query = halving().start(
            numbers=[],
            checkpoint=tmp_path / f"checkpoint {number}",
            output=tmp_path / f"out {number}",
            available_now=True,
            options=QueryOptions(dashboard=port),
        )
        query.await_termination(SECONDS_MAX)
        assert got(capsys.readouterr().err.split()[-1])[0] == 200
        gc.collect()
    with query.dashboard(port=port):  # which closes it
        pass


# A token of the user's.

TOKEN = "a-token.of_the~users"  # noqa: S105 - of these tests


def test_a_token_that_was_set_opens_the_page_by_its_path_and_by_a_header(still: Still) -> None:
    with Dashboard(still, token=TOKEN) as served:
        place = served.address.removesuffix(f"{TOKEN}/")
        assert served.address == f"{place}{TOKEN}/"
        assert got(f"{served.address}metrics")[0] == 200
        assert got(f"{place}metrics")[0] == 403
        for header, status in {
            f"Bearer {TOKEN}": 200,
            f"bearer  {TOKEN}": 200,
            f"Bearer {TOKEN[:-1]}": 403,
            f"Basic {TOKEN}": 403,
            TOKEN: 403,
            "Bearer": 403,
            "Bearer \xe4": 403,
        }.items():
            request = Request(f"{place}metrics", headers={"Authorization": header})  # noqa: S310 - our own address
            assert answered(request) == status, header


def answered(request: Request) -> int:
    try:
        with urlopen(request, timeout=SECONDS_MAX) as answer:  # noqa: S310 - our own address
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def test_a_token_that_was_set_is_never_shown(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSTAMP_DASHBOARD_TOKEN", TOKEN)
    with Dashboard(still) as served:
        assert TOKEN in served.address
        assert TOKEN not in served.shown_address + repr(served) + served._repr_html_()
        assert got(f"{served.address}about")[0] == 200
        assert TOKEN.encode() not in got(f"{served.address}about")[1] + got(f"{served.address}metrics")[1]


def test_an_argument_goes_before_the_environment(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSTAMP_DASHBOARD_TOKEN", "another-token-of-the-users")
    with Dashboard(still, token=TOKEN) as served:
        assert served.address.endswith(f"/{TOKEN}/")


@pytest.mark.parametrize(
    "token", ["", "short", "fifteen-letters", "with/a/slash/in-it-", "with a space in it", "ä" * 20]
)
def test_a_token_that_cannot_be_used_is_rejected_without_being_shown(token: str, still: Still) -> None:
    with pytest.raises(UsageError, match="must have at least 16 characters") as found:
        Dashboard(still, token=token)
    assert not token or token not in str(found.value)


def test_the_token_of_a_query_is_set_when_it_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flow = halving()
    options: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "output": tmp_path / "out"}
    with pytest.raises(FlowError, match=r"dashboard_token= is set, but dashboard= is not"):
        flow.start(numbers=[], **with_options(options, QueryOptions(dashboard_token=TOKEN)))
    with pytest.raises(UsageError, match="must have at least 16 characters"):
        flow.start(numbers=[], **with_options(options, QueryOptions(dashboard=True, dashboard_token="short")))  # noqa: S106 - rejected
    assert not (tmp_path / "checkpoint").exists()
    query = flow.start(
        numbers=[], **with_options(options, QueryOptions(dashboard=True, dashboard_token=TOKEN))
    )
    query.stop(finish=False)
    told = capfd.readouterr().err
    found = re.search(r"dashboard of '.*' is at (http://127\.0\.0\.1:\d+/)\n", told)
    assert found is not None
    assert TOKEN not in told
    assert got(f"{found[1]}{TOKEN}/metrics")[0] == 200
