# SPDX-License-Identifier: MIT
"""docs/SERVE.md has every path, option and metric of the server."""
import re, subprocess, sys
from lib import Server, run

quern, source = sys.argv[1:3]
with open(source + "/docs/SERVE.md") as f:
    page = f.read()
words = set(re.findall(r"`([^`\s]+)", page))


def missing(names):
    return sorted(n for n in names if n not in words)


def test_paths():
    with open(source + "/src/serve/routes.def") as f:
        paths = re.findall(r'^ROUTE\(\s*\w+,\s*"([^"]+)"', f.read(), re.M)
    known = {re.sub(r"/(ID|NAME)\b.*", "/*", w) for w in words}
    assert len(paths) > 40 and not [p for p in paths if p != "/page/*" and p not in known], [p for p in paths if p not in known]


def test_options():
    text = subprocess.run([quern, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.M)) - {"--help"}
    assert len(options) > 60 and not missing(options), missing(options)


def test_metrics():
    """Those of the server; what the library counts is told together."""
    with Server(quern, source + "/models/chat.gguf") as s:
        text = s.get("/metrics")[1].decode()
    own = set(re.findall(r"^# TYPE quern_(\w+)", text.split("# HELP quern_gguf_parses_total")[0], re.M))
    assert len(own) > 25 and not missing(own), missing(own)


if __name__ == "__main__":
    sys.exit(run(globals()) > 0)
