# SPDX-License-Identifier: GPL-2.0-only
"""Drives a headless Chromium over its debugging pipe; needs nothing but Python's own library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find() -> str | None:
    """The path of a Chromium, if there is one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. `errors` gathers what a user would see in red in the console, `requests` every address asked for."""

    def __init__(self, width: int = 1280, height: int = 1000) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._buffer = b""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command_read, self._write = os.pipe()
        self._read, answer_write = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._profile.name}",
            f"--window-size={width},{height}",
            "about:blank",
        ]
        # Chromium reads commands from descriptor 3 and answers on 4.
        shell = f'exec "$0" "$@" 3<&{command_read} 4>&{answer_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, find() or NAMES[0], *flags],
            pass_fds=(command_read, answer_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(command_read)
        os.close(answer_write)
        self._session: str | None = None
        pages = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in pages if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        os.close(self._write)
        os.close(self._read)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._profile.cleanup()

    def call(self, method: str, timeout: float = 120, **parameters: Any) -> Any:
        """One command of the DevTools protocol and its answer; events meanwhile are noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + timeout
        while True:
            answer = self._receive(until, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _receive(self, until: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(until - time.monotonic(), 0))
            if not ready:
                raise TimeoutError(f"no answer to {what}")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(part.get("value", part)) for part in parameters["args"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = 60) -> None:
        """Until the expression holds."""
        until = time.monotonic() + seconds
        while not self.evaluate(expression):
            if time.monotonic() > until:
                raise TimeoutError(f"never held: {expression}")
            time.sleep(0.05)

    def open(self, path: Path) -> None:
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click_on(self, selector: str) -> None:
        """Scrolls to an element and clicks its middle."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.click(x, y)

    def key(self, name: str) -> None:
        """Presses a key; `name` as in KeyboardEvent.key."""
        codes = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        extra = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            down = extra if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=codes.get(name, 0), **down)

    def screenshot(self, path: Path) -> None:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print_pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
