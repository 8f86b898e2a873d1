"""The web server of a dashboard: static files, data, and access by token.

It is the standard library's, with a thread for each request. The token is the first part of every path, so
the page needs relative addresses only and works behind a proxy that puts something before them. A reader who
does not know it gets 403 and no other word. A program may send the token in the header ``Authorization:
Bearer`` instead, and leave it out of the path. The token is random, or the user's own, which is never
printed.

Moments go out as server-sent events. The number of requests at a time is
bounded, no request waits for a worker, and a reader that does not read is cut off.
"""

import hmac
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EADDRINUSE
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from socket import AF_INET, AF_INET6, socket
from threading import BoundedSemaphore, Thread
from time import thread_time
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from pointstamp.dashboard.sight import Sight, SightError
from pointstamp.errors import PointstampError, UsageError

REQUESTS_MAX: Final = 32
"""So many requests are answered at a time, open pages among them; further ones are turned away."""

TOKEN_VARIABLE: Final = "POINTSTAMP_DASHBOARD_TOKEN"  # noqa: S105 - its name
"""The variable of the environment that sets the token of every dashboard of this process."""

_TOKEN_LENGTH_MIN: Final = 16
_TOKEN: Final = re.compile(rf"[A-Za-z0-9\-_.~]{{{_TOKEN_LENGTH_MIN},}}")
_SILENT_SECONDS: Final = 5.0
_STUCK_SECONDS: Final = 10.0
_BODY_BYTES_MAX: Final = 4096
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)


class Dashboard:
    """A page that is served until it is closed, or this process ends; its address is ``address``."""

    def __init__(
        self, sight: Sight, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None
    ) -> None:
        given = chosen_token(token)
        self._sight = sight
        self._beat = Beat(sight)
        self._token = secrets.token_urlsafe(18) if given is None else given
        self._is_given = given is not None
        try:
            self._server = self._serve_at(host, port)
        except OSError as error:
            raise UsageError(
                f"dashboard: cannot listen at port {port} of {host}: {error.strerror or error}. Give "
                "another port, or 0 for a free one."
            ) from error
        self._thread = Thread(target=self._server.serve_forever, name="pointstamp-dashboard", daemon=True)
        self._thread.start()
        self._is_open = True
        _opened.add(self)

    def _serve_at(self, host: str, port: int) -> "_Server":
        """Take a port that is free, or at which this process shows something that has ended."""
        try:
            return _Server((host, port), self._sight, self._beat, self._token)
        except OSError as error:
            ended = [each for each in _opened if each.port == port and each._sight.is_over]  # noqa: SLF001
            if error.errno != EADDRINUSE or not ended:
                raise
        for each in ended:
            each.close()
        return _Server((host, port), self._sight, self._beat, self._token)

    @property
    def address(self) -> str:
        """The address to open in a browser, with the token that permits access."""
        return f"{self._place}{self._token}/"

    @property
    def shown_address(self) -> str:
        """The address to print: with a random token, but without a token that the user has set."""
        return self._place if self._is_given else self.address

    @property
    def _place(self) -> str:
        host, port = cast("tuple[str, int]", self._server.server_address[:2])
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    @property
    def port(self) -> int:
        """The port that the page is served at."""
        return int(self._server.server_address[1])

    @property
    def lookers(self) -> int:
        """The number of open pages."""
        return self._beat.lookers

    def close(self) -> None:
        """Serve no more; closing again does nothing."""
        if self._is_open:
            self._is_open = False
            self._beat.end()
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            _opened.discard(self)

    def __enter__(self) -> "Dashboard":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Dashboard('{self.shown_address}'{'' if self._is_open else ', closed'})"

    def _repr_html_(self) -> str:
        """The link that a notebook shows."""
        address = escape(self.shown_address, quote=True)
        return f'<a href="{address}" target="_blank" rel="noopener">dashboard: {address}</a>'


# The beat: moments of a sight, taken a few times a second while a browser is connected.
#
# All browsers share one beat.
#
# The thread starts with the first looker and ends with the last: who has closed the browser costs nothing. If
# making a moment takes long, there are fewer of them, so that they never take more than a small share of
# time.

BEAT_SECONDS: Final = 0.25
"""There are at most four moments a second."""

SHARE_MAX: Final = 0.005
"""The share of a processor that making moments may take."""

_SLOWEST_SECONDS: Final = 5.0


class Beat:
    """Makes moments and keeps the last one; ``lookers`` wait for the next with ``after``."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._changed = threading.Condition()
        self._lookers = 0
        self._number = 0
        self._last = b"{}"
        self._thread: threading.Thread | None = None
        self._is_over = False

    @contextmanager
    def looking(self) -> Iterator[Callable[[int, float], tuple[int, bytes]]]:
        """While the block lasts, moments are made."""
        with self._changed:
            self._lookers += 1
            if self._thread is None and not self._is_over:
                self._thread = threading.Thread(target=self._run, name="pointstamp-beat", daemon=True)
                self._thread.start()
        try:
            yield self._after
        finally:
            with self._changed:
                self._lookers -= 1
                self._changed.notify_all()

    @property
    def lookers(self) -> int:
        """The number of open pages."""
        return self._lookers

    def _after(self, number: int, timeout_seconds: float) -> tuple[int, bytes]:
        """The next moment after the one with this number, or the same if there is none in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number or self._is_over, timeout_seconds)
            return self._number, self._last

    @property
    def is_over(self) -> bool:
        """Whether there will be no moment any more."""
        return self._is_over

    def end(self) -> None:
        """Make no more moments."""
        with self._changed:
            self._is_over = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_SLOWEST_SECONDS)

    def _run(self) -> None:
        while True:
            begun = thread_time()
            made = msgspec.json.encode(self._sight.moment())
            took = thread_time() - begun
            with self._changed:
                self._number += 1
                self._last = made
                self._changed.notify_all()
                pause = min(max(BEAT_SECONDS - took, took / SHARE_MAX), _SLOWEST_SECONDS)
                self._changed.wait_for(lambda: self._is_over or not self._lookers, pause)
                if self._is_over or not self._lookers:
                    self._thread = None
                    return


# Those of this process that are open: one that shows what has ended gives its port to a new one.
_opened: Final[set[Dashboard]] = set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], sight: Sight, beat: Beat, token: str) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        super().__init__(address, _Handler)
        self.sight = sight
        self.beat = beat
        self.token = token
        self._free = BoundedSemaphore(REQUESTS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        if not self._free.acquire(blocking=False):
            with suppress(OSError):
                cast("socket", request).sendall(b"HTTP/1.0 503 Service Unavailable\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """A browser that disconnects during an answer is not an error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "pointstamp"
    sys_version = ""
    timeout = _STUCK_SECONDS

    def do_GET(self) -> None:
        """Answer what the page reads."""
        path = self._path()
        if path is None:
            return
        query = {name: each[0] for name, each in parse_qs(urlsplit(self.path).query).items()}
        sight = self.server.sight
        match path:
            case "events":
                self._events()
            case "about":
                self._json(lambda: sight.about())
            case "moment":
                self._json(lambda: sight.moment())
            case "history":
                self._json(lambda: sight.history(_number(query.get("since", "0"))))
            case "why":
                self._json(lambda: sight.why(query.get("output", "")))
            case "metrics":
                self._send(HTTPStatus.OK, _METRICS_TYPE, sight.metrics().encode())
            case _:
                self._static(path or "index.html")

    def do_POST(self) -> None:
        """Do what a person has confirmed."""
        path = self._path()
        if path is None:
            return
        length = int(_number(self.headers.get("Content-Length", "0")))
        if self.headers.get("X-Pointstamp") != "confirmed" or not 0 <= length <= _BODY_BYTES_MAX:
            self._send(HTTPStatus.BAD_REQUEST, _TYPES["html"], b"not confirmed")
            return
        given = self.rfile.read(length).decode("utf-8", "replace")
        self._json(lambda: {"done": self.server.sight.act(path, given)})

    def _path(self) -> str | None:
        """The path behind the token; None, and 403 was sent, where that is not the right one."""
        path = unquote(urlsplit(self.path).path).lstrip("/")
        token, _, rest = path.partition("/")
        scheme, _, sent = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(
            sent.strip().encode(), self.server.token.encode()
        ):
            return path
        if hmac.compare_digest(token.encode(), self.server.token.encode()):
            if rest or urlsplit(self.path).path.endswith("/"):
                return rest
            self.send_response(HTTPStatus.FOUND)  # relative addresses need the slash
            self.send_header("Location", f"{token}/")
            self.end_headers()
            return None
        self._send(HTTPStatus.FORBIDDEN, "text/plain", b"forbidden")
        return None

    def _json(self, made: Any) -> None:  # noqa: ANN401 - a function to plain data
        try:
            self._send(HTTPStatus.OK, "application/json", msgspec.json.encode(made()))
        except SightError as error:
            self._send(HTTPStatus.CONFLICT, "application/json", msgspec.json.encode({"error": str(error)}))
        except PointstampError as error:
            self._send(
                HTTPStatus.SERVICE_UNAVAILABLE, "application/json", msgspec.json.encode({"error": str(error)})
            )

    def _static(self, path: str) -> None:
        kind = _TYPES.get(path.rpartition(".")[2])
        file = files("pointstamp.dashboard").joinpath("static", path)
        if kind is None or "/" in path or not file.is_file():
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is nothing here")
            return
        self._send(HTTPStatus.OK, kind, file.read_bytes())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self._headers(kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _headers(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")

    def _events(self) -> None:
        """Send moments until the page is closed or the server is."""
        self.send_response(HTTPStatus.OK)
        self._headers("text/event-stream")
        self.send_header("X-Accel-Buffering", "no")
        self.end_headers()
        beat, number = self.server.beat, 0
        with suppress(OSError), beat.looking() as after:
            while not beat.is_over:
                newest, moment = after(number, _SILENT_SECONDS)
                # A comment, where there is nothing new, finds out that a browser has gone.
                self.wfile.write(b": still here\n\n" if newest == number else b"data: " + moment + b"\n\n")
                number = newest

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as the library has it
        """Requests are not logged, because their paths contain the token."""


def chosen_token(given: str | None) -> str | None:
    """Return the token that the user has set, as an argument or in the environment; None where none is set.

    UsageError, without the token, where it is too short to be secret or cannot be part of an address.
    """
    token = os.environ.get(TOKEN_VARIABLE) if given is None else given
    if token is not None and not _TOKEN.fullmatch(token):
        where = TOKEN_VARIABLE if given is None else "the dashboard"
        raise UsageError(
            f"{where}: a token must have at least {_TOKEN_LENGTH_MIN} characters of A-Z, a-z, 0-9, '-', "
            f"'_', '.' and '~', got {len(token)} characters. Make one with "
            'python -c "import secrets; print(secrets.token_urlsafe(18))".'
        )
    return token


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
