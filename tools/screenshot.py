#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
r"""tools/screenshot.py OUT.svg COMMAND LINE... -- a terminal as it looks, for README: runs COMMAND in tmux, types each LINE
once a prompt waits (a last line that ends in ">" or "="), captures the screen with its colours and draws it.

    tools/screenshot.py docs/chat.svg "build/quern chat models/chat.gguf --tools examples/weather.json --think on --temp 0" \
        "What is 12 + 30?" "How is the weather in Paris?" '{"degrees": 7, "sky": "rainy"}' "How many minutes are in 3 hours?" /stats
"""
import html, os, re, subprocess, sys, tempfile, time

COLUMNS, ROWS = 84, 40
CELL_W, CELL_H, SIZE, MARGIN, BAR = 8.4, 19, 14, 16, 28
BACKGROUND, FOREGROUND = "#1b1f27", "#d7dae0"
COLOURS = {30: "#5c6370", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2", 37: FOREGROUND}


class Terminal:
    def __init__(self, command, folder):
        self.base = ["tmux", "-u", "-S", os.path.join(folder, "tmux"), "-f", "/dev/null"]
        env = dict(os.environ, XDG_STATE_HOME=folder, LC_ALL="C.UTF-8", TERM="xterm-256color")
        env.pop("NO_COLOR", None)
        self.tm("new-session", "-d", "-s", "s", "-x", str(COLUMNS), "-y", str(ROWS), command, env=env)

    def tm(self, *arguments, env=None):
        return subprocess.run(self.base + list(arguments), check=True, env=env, capture_output=True, text=True).stdout

    def lines(self, *flags):
        lines = self.tm("capture-pane", "-p", "-t", "s", *flags).split("\n")
        while lines and not lines[-1].strip():
            lines.pop()
        return lines

    def wait(self):
        """Until a prompt stands there twice alike."""
        before = None
        for _ in range(300):
            lines = self.lines()
            if lines and lines[-1].rstrip().endswith((">", "=")) and lines == before:
                return
            before = lines
            time.sleep(0.1)
        sys.exit("no prompt came:\n" + "\n".join(lines))


def runs(line, style):
    """(text, style) of a captured line; tmux writes SGR sequences only, and they hold over the ends of lines."""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not part.startswith("\x1b"):
            if part:
                yield part, dict(style)
            continue
        for code in (int(c or 0) for c in part[2:-1].split(";")):
            if code == 0:
                style.clear()
            elif code == 1:
                style["font-weight"] = "bold"
            elif code == 2:
                style["opacity"] = "0.55"
            elif code == 39:
                style.pop("fill", None)
            elif code in COLOURS:
                style["fill"] = COLOURS[code]


def draw(lines, title):
    width = COLUMNS * CELL_W + 2 * MARGIN
    height = len(lines) * CELL_H + 2 * MARGIN + BAR
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">' % (width, height, width, height),
           '<rect width="100%%" height="100%%" rx="8" fill="%s"/>' % BACKGROUND]
    for i, colour in enumerate(("#e06c75", "#e5c07b", "#98c379")):
        out.append('<circle cx="%d" cy="%d" r="6" fill="%s"/>' % (MARGIN + 6 + 20 * i, BAR / 2 + 4, colour))
    out.append('<g font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="%d" fill="%s" xml:space="preserve">'
               % (SIZE, FOREGROUND))
    out.append('<text x="%d" y="%d" opacity="0.6">%s</text>' % (MARGIN + 72, BAR / 2 + 9, html.escape(title)))
    state = {}
    for row, line in enumerate(lines):
        column = 0
        for text, style in runs(line, state):
            shown = text.strip(" ")
            if shown:
                x = MARGIN + (column + len(text) - len(text.lstrip(" "))) * CELL_W
                y = BAR + MARGIN + row * CELL_H + SIZE
                attributes = "".join(' %s="%s"' % item for item in style.items())
                out.append('<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>'
                           % (x, y, len(shown) * CELL_W, attributes, html.escape(shown)))
            column += len(text)
    return "\n".join(out + ["</g>", "</svg>", ""])


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal("exec " + sys.argv[2], folder)
        try:
            for line in sys.argv[3:]:
                terminal.wait()
                terminal.tm("send-keys", "-t", "s", "-l", line)
                terminal.tm("send-keys", "-t", "s", "Enter")
            terminal.wait()
            lines = terminal.lines("-e")
        finally:
            terminal.tm("kill-server")
    with open(sys.argv[1], "w") as f:
        f.write(draw(lines, re.sub(r"\S*/", "", sys.argv[2])))


main()
