# SPDX-License-Identifier: MIT
"""A headless Chromium by W3C WebDriver, with nothing but the standard library."""
import base64, json, re, subprocess, time, urllib.error, urllib.request

from lib import PATIENCE

KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Alt": "\ue00a", "Control": "\ue009", "Shift": "\ue008"}


class Browser:
    def __init__(self, width=1200, height=800, dark=False):
        self.process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for line in self.process.stdout:  # it says the port that it found
                found = re.search(r"started successfully on port (\d+)", line)
                if found:
                    break
            else:
                raise RuntimeError("chromedriver doesn't start")
            self.base = f"http://127.0.0.1:{found.group(1)}"
            arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}"]
            wanted = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
            self.base += "/session/" + self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.process.kill()
            raise
        if dark:
            self.cdp("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        if width < 500:  # no window is that narrow
            self.cdp("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True})

    def wait_for(self, what, seconds):
        end = time.monotonic() + seconds
        while True:
            try:
                value = what()
                if value:
                    return value
            except (urllib.error.URLError, ConnectionError):
                pass
            if time.monotonic() > end:
                return None
            time.sleep(0.03)

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, headers={"Content-Type": "application/json"},
                                         data=json.dumps(body or {}).encode() if method == "POST" else None)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(e.read().decode()[:1000]) from None

    def cdp(self, command, parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def go(self, url):
        self.call("POST", "/url", {"url": url})

    def js(self, expression, *arguments):
        return self.call("POST", "/execute/sync", {"script": "return " + expression, "args": list(arguments)})

    def until(self, expression, seconds=PATIENCE):
        value = self.wait_for(lambda: self.js(expression), seconds)
        assert value, f"never true: {expression}\nthe page: {self.js('document.body.innerText')[-1500:]}"
        return value

    def type(self, text, *keys):
        """Text, then keys by name; all but the last of these are held down."""
        act = lambda kind, c: {"type": kind, "value": KEYS.get(c, c)}
        actions = [a for c in text for a in (act("keyDown", c), act("keyUp", c))]
        actions += [act("keyDown", k) for k in keys] + [act("keyUp", k) for k in reversed(keys)]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def console(self):
        return [e["message"] for e in self.call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait()
            self.process.stdout.close()
