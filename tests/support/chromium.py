"""A headless Chromium, spoken to over its debugging pipe: what a page asks for, says and looks like.

Owns: the process and the DevTools protocol over file descriptors 3 and 4 (JSON, each message ended by a zero
byte). Refuses: the network: no background requests of the browser's own are let out.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
#: Puts the pipe's ends where Chromium looks for them, then becomes it.
_BEGIN = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def found() -> str | None:
    """Chromium's path; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page. asked: every URL it requested. said: what came on its console, and errors."""

    def __init__(self, reading: FileIO, writing: FileIO) -> None:
        self._in, self._out = reading, writing
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.asked: list[str] = []
        self.said: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        self.asked.clear()

    def call(self, method: str, **params: Any) -> Any:
        """One command and its answer; events that come before it are noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url: str, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Load the page anew at that size and scheme, and wait until it is whole."""
        self.asked.clear()
        self.said.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self._loaded = False
        self.call("Page.navigate", url=url)
        while not self._loaded:
            self._next()
        self.eval("document.fonts.ready.then(() => true)")

    def eval(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = self._in.read(1 << 16)
            assert data, "chromium ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        match message.get("method"), message.get("params", {}):
            case "Network.requestWillBeSent", params:
                self.asked.append(params["request"]["url"])
            case "Log.entryAdded", params:
                self.said.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled", params:
                self.said.append(str([one.get("value") for one in params["args"]]))
            case "Runtime.exceptionThrown", params:
                self.said.append(params["exceptionDetails"]["text"])
            case "Page.loadEventFired", _:
                self._loaded = True
        return message


@contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    """A page of a fresh Chromium whose profile lies in ``folder``; it has ended afterwards."""
    path = found()
    assert path is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    begin = [sys.executable, "-c", _BEGIN, str(theirs_in), str(theirs_out)]
    browser = subprocess.Popen(
        [*begin, path, *_FLAGS, *root, f"--user-data-dir={folder}", "about:blank"],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        with FileIO(ours_in, "r") as reading, FileIO(ours_out, "w") as writing:
            yield Page(reading, writing)
    finally:
        browser.terminate()
        try:
            browser.wait(20)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
