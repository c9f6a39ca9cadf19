#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/plot.py -- draws grouped bars as SVG from a CSV such as `quern bench -o csv` writes. Python's standard library is all it needs.

    quern bench a.gguf b.gguf -b 1,8 -o csv > speed.csv
    python3 bench/plot.py speed.csv speed.svg --panel test --group model --series batch --limit limit_tokens_per_second

Each row of the file is a bar: its panel, group and series are columns of the file. --where COLUMN=VALUE leaves other rows out, and two rows
that would be the same bar are an error. --limit names a column whose value is drawn as a line across the bar. The picture follows the
reader's light or dark setting, and the same file always gives the same picture.
"""
import argparse
import csv
import math
import os
import sys
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 880, 64, 16
TITLE, LEGEND, HEAD, PLOT, FOOT = 34, 26, 26, 190, 34   # heights: the first two once, the others in each panel
LETTER, DIGIT = 6.5, 6      # widths in the two sizes of text, about
COLORS = ["#3f7fd0", "#e08a2c", "#4a9c5d", "#b3548f", "#8a7a4e", "#5aa7b0", "#c9534f", "#7d6bc0"]
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 } .value { font-size: 10px } .tick { fill: #6e7781; font-size: 11px }
  .grid { stroke: #d0d7de } .limit { stroke: #cf222e; stroke-width: 2 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .tick { fill: #9198a1 } .grid { stroke: #3d444d } .limit { stroke: #ff7b72 } }
  .inside { fill: #ffffff }
"""


def fail(text):
    sys.exit("plot.py: " + text)


def number(row, column, line):
    text = row[column].strip()
    if not text:
        return None     # not measured: no bar
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        fail(f"line {line}: {column} is \"{text}\"; a number from 0 up is expected")
    return value


def read(options):
    """{panel: {(group, series): (value, limit)}} and the names of each in the file's order."""
    wanted = []
    for text in options.where:
        column, equals, value = text.partition("=")
        if not equals:
            fail(f"--where \"{text}\" is not COLUMN=VALUE")
        wanted.append((column, value))
    bars, groups, series = {}, {}, {}
    try:
        with open(options.input, newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            columns = [options.panel, options.group, options.series, options.value, options.limit] + [column for column, _ in wanted]
            for column in columns:
                if column and column not in (rows.fieldnames or []):
                    fail(f"{options.input} has no column \"{column}\"; it has {', '.join(rows.fieldnames or ['none'])}")
            for row in rows:
                if None in row or None in row.values():
                    fail(f"line {rows.line_num}: {len(rows.fieldnames)} fields are expected, as in the first line")
                if any(row[column] != value for column, value in wanted):
                    continue
                panel, group, one = (row[column] if column else "" for column in (options.panel, options.group, options.series))
                group = os.path.basename(group).removesuffix(".gguf")
                bar = bars.setdefault(panel, {})
                if (group, one) in bar:
                    fail(f"line {rows.line_num}: a second bar for \"{panel}\", \"{group}\", \"{one}\"; choose rows with --where")
                limit = number(row, options.limit, rows.line_num) if options.limit else None
                bar[group, one] = (number(row, options.value, rows.line_num), limit)
                groups[group] = series[one] = True
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        fail(f"{options.input}: {error}")
    if not bars:
        fail(f"{options.input} has no row to draw")
    return bars, list(groups), list(series)


def ticks(top):
    """Steps of 1, 2 or 5 times a power of ten, at most six, up to the first that is not below top."""
    top = top if top > 0 else 1.0
    raw = top / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * (1 - 1e-9))
    return [i * step for i in range(math.ceil(top / step - 1e-9) + 1)]


def label(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def text(x, y, content, kind="", anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"' + (f' class="{kind}"' if kind else "") + f">{escape(content)}</text>"


def upright(x, y, content, kind, anchor):
    """Text that runs upwards, for bars that are narrower than their number."""
    return (f'<text transform="translate({x + 3.5:.1f} {y:.1f}) rotate(-90)" text-anchor="{anchor}" class="{kind}">{escape(content)}</text>')


def under(x, y, content, wide):
    """The name of a group: in two lines, at a space, where names are too wide for one."""
    first, _, second = content.partition(" ")
    if not wide or not second:
        return [text(x, y, content)]
    return [text(x, y - 2, first), text(x, y + 11, second)]


def line(x1, x2, y, kind):
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y:.1f}" class="{kind}"/>'


def draw_panel(name, bars, groups, series, unit, top):
    """A panel whose upper edge is at `top`. Its scale is its own: prompt and decode differ tenfold."""
    groups = [g for g in groups if any((g, s) in bars for s in series)]
    colors = dict(zip(series, COLORS * (len(series) // len(COLORS) + 1)))
    series = [s for s in series if any((g, s) in bars for g in groups)]
    scale = ticks(max(v for pair in bars.values() for v in pair if v is not None) if any(v is not None for p in bars.values() for v in p) else 1)
    base = top + HEAD + PLOT
    out = [text(LEFT, top + 16, f"{name}, {unit}" if name else unit, "head", "start")]
    for tick in scale:
        y = base - PLOT * tick / scale[-1]
        out += [line(LEFT, WIDTH - RIGHT, y, "grid"), text(LEFT - 6, y + 4, f"{tick:g}", "tick", "end")]
    slot = (WIDTH - LEFT - RIGHT) / len(groups)
    bar = min(48.0, slot * 0.8 / len(series))
    wide = any(len(group) * LETTER > slot for group in groups)
    narrow = any(len(label(v)) * DIGIT > bar - 2 for v, _ in bars.values() if v is not None)
    for i, group in enumerate(groups):
        left = LEFT + slot * (i + 0.5) - bar * len(series) / 2
        for j, one in enumerate(series):
            value, limit = bars.get((group, one), (None, None))
            x = left + bar * j
            if value is not None:
                height = PLOT * value / scale[-1]
                what = escape(f"{group}, {one}: {value:g} {unit}")
                out.append(f'<rect x="{x + 1:.1f}" y="{base - height:.1f}" width="{bar - 2:.1f}" height="{height:.1f}" '
                           f'fill="{colors[one]}"><title>{what}</title></rect>')
                shown = label(value)
                if not narrow:
                    inside = height > 18    # where the line of a limit cannot cross it
                    out.append(text(x + bar / 2, base - height + (13 if inside else -4), shown, "value inside" if inside else "value"))
                else:
                    inside = height > len(shown) * DIGIT + 6
                    out.append(upright(x + bar / 2, base - height + (4 if inside else -4), shown, "value inside" if inside else "value",
                                       "end" if inside else "start"))
            if limit is not None:
                out.append(line(x, x + bar, base - PLOT * limit / scale[-1], "limit"))
        out += under(LEFT + slot * (i + 0.5), base + 18, group, wide)
    return out


def draw(options, bars, groups, series):
    height = TITLE + LEGEND + len(bars) * (HEAD + PLOT + FOOT)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
           f"<title>{escape(options.title)}</title>", f"<style>{STYLE}</style>", text(LEFT, 22, options.title, "title", "start")]
    x, y = LEFT, TITLE + 10
    for j, one in enumerate(series if len(series) > 1 or series[0] else []):
        name = f"{options.series} {one}" if one.replace(".", "").isdigit() else one
        out += [f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{COLORS[j % len(COLORS)]}"/>', text(x + 18, y, name, "", "start")]
        x += 40 + 7 * len(name)
    if options.limit:
        out += [line(x, x + 14, y - 4, "limit"), text(x + 20, y, options.limit_name, "", "start")]
    for i, (name, panel) in enumerate(bars.items()):
        out += draw_panel(name, panel, groups, series, options.unit, TITLE + LEGEND + i * (HEAD + PLOT + FOOT))
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description="Draws grouped bars as SVG from a CSV such as `quern bench -o csv` writes.")
    parser.add_argument("input", metavar="IN.csv")
    parser.add_argument("output", metavar="OUT.svg")
    parser.add_argument("--panel", metavar="COLUMN", default="", help="one panel for each value")
    parser.add_argument("--group", metavar="COLUMN", default="model", help="one group of bars for each value (default: model)")
    parser.add_argument("--series", metavar="COLUMN", default="", help="one colour for each value")
    parser.add_argument("--value", metavar="COLUMN", default="tokens_per_second", help="height of a bar (default: tokens_per_second)")
    parser.add_argument("--limit", metavar="COLUMN", default="", help="a line across each bar, such as limit_tokens_per_second")
    parser.add_argument("--limit-name", metavar="TEXT", default="limit of the machine")
    parser.add_argument("--where", metavar="COLUMN=VALUE", action="append", default=[], help="only rows with this value (may be repeated)")
    parser.add_argument("--title", metavar="TEXT", default="")
    parser.add_argument("--unit", metavar="TEXT", default="tokens/s")
    options = parser.parse_args()
    bars, groups, series = read(options)
    picture = draw(options, bars, groups, series)
    try:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(picture)
    except OSError as error:
        fail(f"{options.output}: {error.strerror}")


if __name__ == "__main__":
    main()
