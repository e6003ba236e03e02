"""A real browser without a window, driven over the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The program, or ``None`` on a machine without one."""
OPTIONS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-sandbox",  # tests run as root in containers, where Chromium has none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--window-size=1280,800",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
WAIT_S = 30.0


class Browser:
    """A started browser with one tab, in a loop of its own; a context manager that ends it."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [CHROMIUM, *OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._loop = asyncio.new_event_loop()
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        """Holds what the browser said by itself: requests, messages of the console, errors."""
        try:
            self._loop.run_until_complete(self._connect())
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _connect(self) -> None:
        self._session = aiohttp.ClientSession()
        file = Path(self._profile.name) / "DevToolsActivePort"
        async with asyncio.timeout(WAIT_S):
            while not (file.exists() and "\n" in file.read_text()):
                await asyncio.sleep(0.02)
        port = file.read_text().splitlines()[0]
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as answer:
            [tab] = [each for each in await answer.json() if each["type"] == "page"]
        self._socket = await self._session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0)

    def call(self, method: str, **parameters: Any) -> Any:
        """Calls a method of the protocol and returns its result."""
        return self._loop.run_until_complete(self._call(method, parameters))

    async def _call(self, method: str, parameters: dict[str, Any]) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        message = await self._message(lambda one: one.get("id") == number)
        assert "error" not in message, message
        return message["result"]

    async def _message(self, is_meant: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Returns the first such message; events before it are kept."""
        async with asyncio.timeout(WAIT_S):
            while True:
                message: dict[str, Any] = json.loads((await self._socket.receive()).data)
                if "method" in message:
                    self.events.append(message)
                if is_meant(message):
                    return message

    def open(self, address: str) -> None:
        """Goes to a page; returns when that is loaded."""
        before = len(self.events)
        self.call("Page.navigate", url=address)

        def is_loaded(message: dict[str, Any]) -> bool:
            return message.get("method") == "Page.loadEventFired"

        if not any(map(is_loaded, self.events[before:])):
            self._loop.run_until_complete(self._message(is_loaded))

    def run(self, script: str) -> Any:
        """Returns the value of an expression of JavaScript; that of a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """Waits until an expression is true, and returns its value."""
        script = f"""new Promise((done, fail) => {{
            const end = Date.now() + {WAIT_S * 1000 - 5000};
            const look = () => {{
                let found = null;
                try {{ found = {script}; }} catch (error) {{ found = null; }}
                if (found) done(found);
                else if (Date.now() > end) fail(new Error("not in time: " + document.body.innerText.slice(0, 2000)));
                else setTimeout(look, 50);
            }};
            look();
        }})"""
        return self.run(script)

    def key(self, key: str) -> None:
        """Presses a key of the keyboard."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            more = text if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    def click(self, selector: str) -> None:
        """Clicks with the mouse on the middle of an element."""
        x, y = self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            " if (found instanceof HTMLElement) found.scrollIntoView({ block: 'nearest' });"
            " const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, width: int, height: int, *, dark: bool = False, mobile: bool = False) -> bytes:
        """Returns the page as PNG, in a window of that size."""
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        """Ends the browser."""
        self._process.terminate()
        self._process.wait(WAIT_S)
        self._loop.run_until_complete(self._session.close())
        self._loop.close()
        self._profile.cleanup()
