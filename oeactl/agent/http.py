"""HTTP to a server on its own host: no proxy, no redirect, a total time limit, several requests side by side.

Owns: the requests of one message. Refuses: to interpret an answer; a failure to get one is a value too.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from .wire import from_text, operation, to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from .wire import Client, Request

T = TypeVar("T")

LARGEST = 256 << 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Answer(NamedTuple):
    """status 0: none came, ``error`` says why (``refused`` when nobody listens)."""

    status: int
    body: bytes = b""
    error: str = ""
    seconds: float = 0.0

    @property
    def refused(self) -> bool:
        return self.status == 0 and self.error.startswith("ConnectionRefusedError")

    def json(self) -> Any:
        """The body as JSON, None where it is not."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def wire(self) -> dict[str, Any]:
        body = to_text(self.body)
        return {"status": self.status, "body": body, "error": self.error, "seconds": self.seconds}


def fetch(
    url: str,
    path: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    api_key: str | None = None,
    timeout_s: float = 30.0,
) -> Answer:
    """One request; ``timeout_s`` bounds it as a whole, a body that trickles included."""
    begun = time.monotonic()
    headers = {"Connection": "close", "Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    connection = _connection(url, timeout_s)
    try:
        connection.request(method, urlsplit(url).path.rstrip("/") + path, body=body, headers=headers)
        response = connection.getresponse()
        data = _read(response, begun + timeout_s)
        return Answer(response.status, data, "", time.monotonic() - begun)
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, b"", f"{type(error).__name__}: {error}", time.monotonic() - begun)
    finally:
        connection.close()


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or "127.0.0.1"
    if parts.scheme != "https":
        return http.client.HTTPConnection(host, parts.port or 80, timeout=timeout_s)
    context = ssl.create_default_context()
    if host in LOOPBACK:  # no certificate names loopback
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, parts.port or 443, timeout=timeout_s, context=context)


def _read(response: http.client.HTTPResponse, limit: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        part = response.read1(1 << 16)
        if not part:
            return b"".join(parts)
        size += len(part)
        parts.append(part)
        if size > LARGEST:
            raise http.client.HTTPException(f"the answer is larger than {LARGEST} bytes")
        if time.monotonic() > limit:
            raise TimeoutError("the answer was not complete in time")


@operation("http")
def many(request: Request, client: Client) -> list[dict[str, Any]]:
    """Send ``requests`` (method, path, body, timeout_s), ``concurrency`` at a time; answers in order."""

    def one(item: dict[str, Any]) -> dict[str, Any]:
        body = item.get("body")
        answer = fetch(
            request["url"],
            item["path"],
            method=item.get("method", "GET"),
            body=None if body is None else from_text(body),
            api_key=request.get("api_key"),
            timeout_s=item.get("timeout_s", 30.0),
        )
        return answer.wire()

    return side_by_side(one, request["requests"], int(request.get("concurrency", 1)))


def side_by_side(function: Callable[[Any], T], items: list[Any], concurrency: int) -> list[T]:
    """``function`` of each item, in order. No thread outlives this program: a client may go meanwhile."""
    results: list[Any] = [None] * len(items)
    failures: list[BaseException] = []
    todo = iter(enumerate(items))
    turn = threading.Lock()

    def work() -> None:
        while True:
            with turn:
                number, item = next(todo, (-1, None))
            if number < 0:
                return
            try:
                results[number] = function(item)
            except Exception as error:  # noqa: BLE001  # carried over to the caller's thread
                failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(concurrency, len(items)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
