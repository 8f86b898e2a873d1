"""An S3 of the tests' own: moto in a process, on a free port of loopback, with faults on request.

``python -m support.s3 [DELAY_MS [HOST]]`` says its port and serves until it is ended. Requests wait for the
delay side by side and are then answered one after the other, so that a check and its write are one step.

``GET /-/requests`` gives what was asked since the last such question: method, path, begin and end.
``GET /-/lie`` lets it refuse a second writer that comes later, and let writers pass that come at the same
time, as some stores do; ``GET /-/honest`` ends that.
``GET /-/kill?pid=P&before=N`` kills process P instead of answering the N-th request from then on.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs

BUCKET: Final = "bucket"
SECONDS_MAX: Final = 120
TESTS: Final = str(Path(__file__).parents[1])
KEYS: Final = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Front:
    """What stands before moto: it counts, delays, kills and lies."""

    def __init__(self, app: App, delay_seconds: float) -> None:
        self._app, self._delay, self._lies = app, delay_seconds, False
        self._one = threading.Lock()
        self._asked: list[tuple[str, str, float, float]] = []
        self._victim: tuple[int, int] | None = None

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path.startswith("/-/"):
            return self._order(path, environ, start)
        begin = time.monotonic()
        if self._lies and method == "PUT" and environ.pop("HTTP_IF_NONE_MATCH", None):
            with self._one:
                status: list[str] = []
                head = {**environ, "REQUEST_METHOD": "HEAD", "CONTENT_LENGTH": "0"}
                b"".join(self._app(head, lambda said, *_: status.append(said)))
            time.sleep(0.05)  # whoever looks meanwhile sees nothing, too
            if status[0].startswith("200"):
                start("412 Precondition Failed", [("Content-Type", "application/xml")])
                return [b"<Error><Code>PreconditionFailed</Code><Condition>If-None-Match</Condition></Error>"]
        time.sleep(self._delay)
        with self._one:
            self._look_for_victim()
            answer = list(self._app(environ, start))
            query = environ.get("QUERY_STRING", "")
            self._asked.append((method, f"{path}?{query}" if query else path, begin, time.monotonic()))
            return answer

    def _look_for_victim(self) -> None:
        if self._victim is not None:
            pid, left = self._victim
            self._victim = (pid, left - 1) if left else None
            if not left:
                os.kill(pid, signal.SIGKILL)

    def _order(self, path: str, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._one:
            if path == "/-/kill":
                asked = parse_qs(environ["QUERY_STRING"])
                self._victim = int(asked["pid"][0]), int(asked["before"][0])
            elif path != "/-/requests":
                self._lies = path == "/-/lie"
            answer = json.dumps(self._asked).encode()
            self._asked = []
        start("200 OK", [("Content-Type", "application/json")])
        return [answer]


class S3:
    """The server as a process, from ``with`` to its end; a bucket is there."""

    def __init__(self, delay_ms: int = 0) -> None:
        self._command = [sys.executable, "-m", "support.s3", str(delay_ms)]

    def __enter__(self) -> "S3":
        self._process = subprocess.Popen(
            self._command, env={**os.environ, "PYTHONPATH": TESTS}, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": self.endpoint}
        return self

    @property
    def options(self) -> dict[str, Any]:
        """What fsspec needs to reach it."""
        return {"key": "test", "secret": "test", "endpoint_url": self.endpoint}

    def requests(self) -> list[tuple[str, str, float, float]]:
        """What was asked since the last call."""
        return self._ask("/-/requests")

    def kill(self, pid: int, before: int) -> None:
        """Kill a process instead of answering a request of the future: 0 is the next one."""
        self._ask(f"/-/kill?pid={pid}&before={before}")

    @contextmanager
    def lying(self) -> Iterator[None]:
        """Meanwhile writers of the same object that come at the same time all pass."""
        self._ask("/-/lie")
        try:
            yield
        finally:
            self._ask("/-/honest")

    def _ask(self, path: str) -> list[tuple[str, str, float, float]]:
        return [tuple(each) for each in json.loads(self._request("GET", path))]

    def _request(self, method: str, path: str) -> bytes:
        connection = HTTPConnection(self.endpoint.removeprefix("http://"), timeout=SECONDS_MAX)
        with closing(connection):
            connection.request(method, path)
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 200, content
            return content

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()


def main() -> None:
    """Serve until the process is ended."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server
    from werkzeug.test import Client

    class Silent(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept

        def log(self, kind: str, message: str, *args: Any) -> None:  # noqa: ANN401 - werkzeug's
            """Nothing is said."""

    delay = int(sys.argv[1]) / 1000 if len(sys.argv) > 1 else 0.0
    front = Front(DomainDispatcherApplication(create_backend_app), delay)
    host = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    server = make_server(host, 0, front, threaded=True, request_handler=Silent)
    Client(front).put(f"/{BUCKET}", base_url=f"http://{host}:{server.port}")
    Client(front).get("/-/requests")  # nobody has asked anything yet
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
