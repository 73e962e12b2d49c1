"""A headless Chromium, driven over the WebDriver protocol (https://www.w3.org/TR/webdriver2).

In: the programs `chromium` and `chromedriver`. Out: `Browser`. The protocol is JSON over HTTP, so
that the standard library is enough.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_STARTED = re.compile(r"started successfully on port (\d+)")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference


def is_installed() -> bool:
    return shutil.which("chromedriver") is not None and shutil.which("chromium") is not None


class Browser:
    """One window; `with Browser(folder) as browser:`."""

    def __init__(self, folder: Path, size: tuple[int, int] = (1440, 900)) -> None:
        self.folder = folder
        self.size = size
        self.session = ""

    def __enter__(self) -> Browser:
        log = self.folder / "chromedriver.log"
        with log.open("wb") as stream:
            self.driver = subprocess.Popen(
                ["chromedriver", "--port=0"],
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, "HOME": str(self.folder)},
            )
        self.port = self._port(log)
        # Without a sandbox: root and most containers cannot have one, and the pages are our own.
        flags = [
            "--no-sandbox", "--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run",
            "--force-device-scale-factor=1", f"--window-size={self.size[0]},{self.size[1]}",
            f"--user-data-dir={self.folder / 'profile'}",
        ]  # fmt: skip
        options = {
            "binary": shutil.which("chromium"),
            "args": flags,
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{made['sessionId']}"
        return self

    def __exit__(self, *problem: object) -> None:
        try:
            if self.session:
                self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait(20)

    def _port(self, log: Path) -> int:
        for _ in range(400):
            found = _STARTED.search(log.read_text(errors="replace"))
            if found:
                return int(found[1])
            assert self.driver.poll() is None, log.read_text(errors="replace")
            time.sleep(0.05)
        raise AssertionError("chromedriver does not start: " + log.read_text(errors="replace"))

    def call(self, method: str, path: str, body: object = None) -> Any:
        data = None if method != "POST" else json.dumps({} if body is None else body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=data,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            raise AssertionError(problem.read().decode()) from None

    # --- what tests do ---------------------------------------------------------------------------

    def open(self, page: Path) -> None:
        """Load a file and wait for its script."""
        self.call("POST", f"{self.session}/url", {"url": page.as_uri()})

    def run(self, script: str, *arguments: object) -> Any:
        body = {"script": script, "args": list(arguments)}
        return self.call("POST", f"{self.session}/execute/sync", body)

    def settle(self) -> None:
        """Two frames: what was asked for has been painted."""
        script = (
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"
        )
        self.call("POST", f"{self.session}/execute/async", {"script": script, "args": []})

    def errors(self) -> list[str]:
        """What the console was told since the last time."""
        entries = self.call("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] != "INFO"]

    def find(self, selector: str) -> str:
        body = {"using": "css selector", "value": selector}
        found: str = self.call("POST", f"{self.session}/element", body)[_ELEMENT]
        return found

    def click(self, selector: str) -> None:
        self.call("POST", f"{self.session}/element/{self.find(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        path = f"{self.session}/element/{self.find(selector)}/value"
        self.call("POST", path, {"text": text})

    def pointer(self, selector: str, *steps: tuple[str, int, int]) -> None:
        """`("move", x, y)`, `("down", 0, 0)`, `("up", 0, 0)`; from the middle of the element."""
        origin = {_ELEMENT: self.find(selector)}
        actions = [
            {"type": "pointerMove", "origin": origin, "x": x, "y": y, "duration": 30}
            if what == "move"
            else {"type": f"pointer{what.capitalize()}", "button": 0}
            for what, x, y in steps
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": actions})

    def wheel(self, selector: str, dx: int, dy: int) -> None:
        origin = {_ELEMENT: self.find(selector)}
        scroll = {"type": "scroll", "origin": origin, "x": 0, "y": 0, "deltaX": dx, "deltaY": dy}
        self._act({"type": "wheel", "id": "wheel", "actions": [scroll]})

    def keys(self, text: str) -> None:
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keys", "actions": actions})

    def _act(self, source: dict[str, object]) -> None:
        self.call("POST", f"{self.session}/actions", {"actions": [source]})

    def dark(self) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        self.devtools("Emulation.setEmulatedMedia", features=features)

    def devtools(self, command: str, **parameters: object) -> Any:
        body = {"cmd": command, "params": parameters}
        return self.call("POST", f"{self.session}/goog/cdp/execute", body)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("GET", f"{self.session}/screenshot")))
