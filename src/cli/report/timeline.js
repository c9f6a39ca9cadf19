/* SPDX-License-Identifier: MIT */
/* timeline.js -- a lane a thread: spans above, nodes below. Where events are narrower than a pixel, groups of 8, 64, 512 ..
 * of them are drawn, in the colour of the operation that took longest and as dense as they are; so a million events cost
 * what the screen is wide. */
'use strict';

const GROUP = 8;

/* The first of numbers in order that is not below another. */
function firstAfter(numbers, x) {
  let lo = 0, hi = numbers.length;
  while (lo < hi) { const mid = (lo + hi) >> 1; if (numbers[mid] >= x) hi = mid; else lo = mid + 1; }
  return lo;
}

/* Events of a lane in the order of their begins, as rows to draw: first one by one, then groups. */
class Track {
  constructor(lane, rows) {
    this.lane = lane;
    this.rows = rows;
    const n = rows.length, begin = new Float64Array(n), end = new Float64Array(n), tone = new Uint8Array(n);
    rows.forEach((e, k) => { begin[k] = lane.begin[e]; end[k] = lane.begin[e] + lane.ns[e]; tone[k] = Track.toneOf(lane, e); });
    this.levels = [{ n, begin, end, tone, busy: null }];
    while (this.levels.at(-1).n > 256) this.levels.push(Track.group(this.levels.at(-1)));
  }
  static toneOf(lane, e) {
    const i = Track.nodeOf(lane, e);
    return i < 0 ? 9 : opColour.index(trace.nodes.op[i]);
  }
  static nodeOf(lane, e) {
    return lane.node[e] < 0 || lane.step[e] < 0 ? -1 : trace.plans[trace.steps.plan[lane.step[e]]].base + lane.node[e];
  }
  static group(below) {
    const n = Math.ceil(below.n / GROUP), begin = new Float64Array(n), end = new Float64Array(n), tone = new Uint8Array(n), busy = new Float64Array(n);
    const time = new Float64Array(10);
    for (let k = 0; k < n; k++) {
      const from = k * GROUP, to = Math.min(below.n, from + GROUP);
      time.fill(0);
      let last = 0;
      for (let i = from; i < to; i++) {
        const ns = below.busy ? below.busy[i] : below.end[i] - below.begin[i];
        time[below.tone[i]] += ns;
        busy[k] += ns;
        last = Math.max(last, below.end[i]);
      }
      begin[k] = below.begin[from];
      end[k] = last;
      tone[k] = time.indexOf(Math.max(...time));
    }
    return { n, begin, end, tone, busy };
  }
  /* The first row of a level that ends after a time. */
  static first(level, t) {
    let lo = 0, hi = level.n;
    while (lo < hi) { const mid = (lo + hi) >> 1; if (level.end[mid] > t) hi = mid; else lo = mid + 1; }
    return lo;
  }
  /* The finest level of which at most `most` rows are between two times. */
  pick(from, to, most) {
    for (const level of this.levels) {
      const a = Track.first(level, from), b = Track.first({ ...level, end: level.begin }, to);
      if (b - a <= most || level === this.levels.at(-1)) return { level, a, b: Math.min(level.n, b + 1) };
    }
  }
}

const timelineView = {
  id: 'timeline', title: 'Timeline', about: 'a lane a thread; wheel or + and - zoom, drag or arrow keys move; what is lighter at the end of a node is waiting at barriers',
  needs: () => trace.lanes.some(l => l.n) ? null : missing('no events are in this trace.', 'Record a run, with a larger --trace-limit or without filters.'),
  build(box) {
    this.tracks = this.makeTracks();
    this.range = new Range(this.first, this.last, 20, () => this.chart.redraw());
    box.append(this.makeTools());
    this.map = new Chart(box, { height: 34, label: 'The whole recording; drag to look at a part', name: 'map', paint: (g, w, h, c) => this.paintMap(g, w, h, c), drag: (...a) => this.dragMap(...a) });
    this.chart = new Chart(box, { height: () => 54 + this.tracks.length * 62, label: 'Timeline of threads', name: 'lanes', paint: (g, w, h, c) => this.paint(g, w, h, c),
      key: e => this.range.key(e), zoomable: (e, x) => this.wheel(e, x), drag: (...a) => this.drag(...a) });
    this.ops = el('ul', { className: 'legend' });
    box.append(this.ops);
    this.recolour();
    this.selected();
  },
  recolour() { legend(this.ops, trace.stats.operations.slice(0, 10).map((r, i) => [colour.of(i), i === 9 ? r.name + ' and others' : r.name])); },
  makeTracks() {
    const NODE = trace.kinds.indexOf('node'), TRANSFER = trace.kinds.indexOf('transfer'), out = [];
    this.first = Infinity;
    this.last = -Infinity;
    for (const lane of trace.lanes) {
      if (!lane.n) continue;
      const nodes = [], spans = [];
      for (let e = 0; e < lane.n; e++) {
        (lane.kind[e] === NODE || lane.kind[e] === TRANSFER ? nodes : spans).push(e);
        this.first = Math.min(this.first, lane.begin[e]);
        this.last = Math.max(this.last, lane.begin[e] + lane.ns[e]);
      }
      const inOrder = (a, b) => lane.begin[a] - lane.begin[b] || lane.ns[b] - lane.ns[a];
      out.push({ lane, nodes: new Track(lane, Int32Array.from(nodes).sort(inOrder)), spans: new Track(lane, Int32Array.from(spans).sort(inOrder)) });
    }
    if (this.last - this.first < 20) this.last = this.first + 20;
    return out.sort((a, b) => (a.lane.member < 0 ? 1e6 : a.lane.member) - (b.lane.member < 0 ? 1e6 : b.lane.member) || a.lane.id - b.lane.id);
  },
  makeTools() {
    const tools = el('div', { className: 'tools' }), n = trace.steps.n;
    this.slider = el('input', { type: 'range', min: 0, max: Math.max(0, n - 1), value: 0, ariaLabel: 'step', oninput: () => this.showStep(+this.slider.value) });
    this.playButton = el('button', { type: 'button', onclick: () => this.play() }, '▶ play');
    this.stepLabel = el('span', { className: 'mono' });
    if (n) tools.append(this.playButton, this.slider, this.stepLabel);
    tools.append(el('button', { type: 'button', onclick: () => this.range.set(this.range.first, this.range.last) }, 'all of it'),
      el('button', { type: 'button', onclick: () => selection.steps && this.look(selection.steps) }, 'selected steps'));
    return tools;
  },
  showStep(i) { select({ steps: [i, i] }); this.look([i, i]); },
  look([a, b]) {
    const s = trace.steps, from = s.begin[a], to = s.begin[b] + Math.max(1, s.ns[b]);
    this.range.set(from - (to - from) * 0.03, to + (to - from) * 0.03);
  },
  play() {
    if (this.timer) { clearInterval(this.timer); this.timer = null; this.playButton.textContent = '▶ play'; return; }
    const n = trace.steps.n;
    if (!n) return;
    let at = selection.steps && selection.steps[0] < n - 1 ? selection.steps[0] : -1;
    this.playButton.textContent = '❚❚ stop';
    this.timer = setInterval(() => {
      if (++at >= n) return this.play();
      this.showStep(at);
    }, 250);
  },
  selected() {
    if (!selection.steps || !trace.steps.n) { this.stepLabel.textContent = ''; return; }
    const i = selection.steps[0], s = trace.steps;
    this.slider.value = i;
    this.stepLabel.textContent = `step ${s.number[i]}` + (s.n_tokens[i] ? `, position ${s.pos[s.tokenAt[i]]}` + (s.has_tokens[i] ? `, token ${s.token[s.tokenAt[i]]}` : '') : '');
  },
  /* ---- moving ---- */
  wheel(e, x) {
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) { this.range.move((e.deltaX || e.deltaY) / 1000); return true; }
    if (document.activeElement !== this.chart.canvas && !e.ctrlKey) return false; /* the page scrolls until the picture is clicked */
    const { left, room } = this.geometry, at = this.range.from + (x - left) / room * (this.range.to - this.range.from);
    this.range.zoom(Math.exp(e.deltaY / 400), at);
    return true;
  },
  drag(what, x0, x1) {
    if (what === 'down') { this.dragFrom = [this.range.from, this.range.to]; return; }
    const [from, to] = this.dragFrom, by = (x0 - x1) / this.geometry.room * (to - from);
    this.range.set(from + by, to + by);
  },
  dragMap(what, x0, x1) {
    if (what === 'down') return;
    const { left, room } = this.geometry, at = x => this.first + (x - left) / room * (this.last - this.first);
    this.range.set(at(Math.min(x0, x1)), at(Math.max(x0, x1)));
  },
  /* ---- painting ---- */
  paintMap(g, w, h, chart) {
    const left = 74, room = w - left - 4, scale = room / (this.last - this.first), { from, to } = this.range;
    this.geometry = { left, room };
    g.fillStyle = colour.css('sunk');
    g.fillRect(left, 0, room, h);
    this.tracks.forEach((t, k) => {
      const rowH = (h - 4) / this.tracks.length, { level, a, b } = t.nodes.pick(this.first, this.last, room);
      this.paintLevel(g, level, a, b, x => left + (x - this.first) * scale, 2 + k * rowH, rowH - 1, left, left + room);
    });
    g.fillStyle = colour.css('faint');
    g.fillText('all', 4, h / 2);
    const x = left + (from - this.first) * scale, width = Math.max(2, (to - from) * scale);
    g.fillStyle = colour.css('ground');
    g.globalAlpha = 0.65;
    g.fillRect(left, 0, x - left, h);
    g.fillRect(x + width, 0, left + room - x - width, h);
    g.globalAlpha = 1;
    g.strokeStyle = colour.css('accent');
    g.strokeRect(x, 0.5, width, h - 1);
    chart.hit(left, 0, room, h, 'drag over what you want to see');
  },
  paintLevel(g, level, a, b, at, y, h, lo, hi) {
    let last = -1, lastTone = -1;
    for (let k = a; k < b; k++) {
      const x0 = Math.max(lo, at(level.begin[k])), x1 = Math.min(hi, at(level.end[k]));
      if (x1 < lo || x0 > hi || (x1 <= last && lastTone === level.tone[k])) continue;
      const wide = Math.max(0.7, x1 - x0), dense = level.busy ? Math.min(1, level.busy[k] / (level.end[k] - level.begin[k] || 1)) : 1;
      g.globalAlpha = 0.25 + 0.75 * dense;
      g.fillStyle = colour.of(level.tone[k]);
      g.fillRect(x0, y, wide, h);
      last = x0 + wide;
      lastTone = level.tone[k];
    }
    g.globalAlpha = 1;
  },
  paint(g, w, h, chart) {
    const { from, to } = this.range, left = 74, room = w - left - 4, scale = room / (to - from), at = t => left + (t - from) * scale;
    this.geometry = { left, room };
    this.map.redraw();
    this.marks = marked();
    g.save();
    g.beginPath(); g.rect(left, 0, room, h); g.clip();
    this.paintRuler(g, at, left, room, h, chart);
    this.tracks.forEach((t, k) => {
      const y = 50 + k * 62;
      this.paintTrack(g, t.spans, at, y, 16, left, room, chart, true);
      this.paintTrack(g, t.nodes, at, y + 18, 36, left, room, chart, false);
    });
    g.restore();
    g.textAlign = 'left';
    this.tracks.forEach((t, k) => {
      const y = 50 + k * 62, on = selection.lane === t.lane.id;
      g.fillStyle = colour.css(on ? 'accent' : 'text');
      g.fillText(t.lane.member < 0 ? `lane ${t.lane.id}` : `thread ${t.lane.member}`, 4, y + 10);
      g.fillStyle = colour.css('faint');
      g.fillText(fit(g, t.lane.dropped ? `${t.lane.dropped} lost` : `${words.count(t.lane.n)}`, 64), 4, y + 26);
      if (on) { g.strokeStyle = colour.css('accent'); g.strokeRect(left - 2, y - 2, room + 2, 58); }
      chart.hit(0, y, left - 4, 54, `thread ${t.lane.thread} of the system, ${words.count(t.lane.n)} events, ${t.lane.dropped} lost`,
        () => select({ lane: on ? null : t.lane.id }));
    });
  },
  /* Time above, steps below it: tokens as a ruler. Faults between two looks of the system's counts are ticks. */
  paintRuler(g, at, left, room, h, chart) {
    const { from, to } = this.range, { step, at: marks } = ticks(from, to, room / 110), s = trace.steps;
    g.fillStyle = colour.css('faint');
    g.strokeStyle = colour.css('grid');
    for (const t of marks) {
      const x = Math.round(at(t)) + 0.5;
      g.beginPath(); g.moveTo(x, 0); g.lineTo(x, h); g.stroke();
      g.fillText(this.timeWords(t, step), x + 3, 8);
    }
    let a = 0, hi = s.n;
    while (a < hi) { const mid = (a + hi) >> 1; if (s.begin[mid] + Math.max(0, s.ns[mid]) >= from) hi = mid; else a = mid + 1; }
    let b = a;
    while (b < s.n && s.begin[b] <= to) b++;
    const by = Math.max(1, Math.ceil((b - a) / (room / 4)));
    for (let i = a; i < b; i += by) {
      const x0 = Math.max(left, at(s.begin[i])), x1 = Math.min(left + room, at(s.begin[i] + Math.max(0, s.ns[i]))), last = Math.min(b - 1, i + by - 1);
      const on = selection.steps && selection.steps[0] <= last && selection.steps[1] >= i;
      g.fillStyle = colour.css(on ? 'accent' : i / by % 2 ? 'line' : 'grid');
      g.fillRect(x0, 18, Math.max(1, x1 - x0 - 0.5), 16);
      g.fillStyle = on ? colour.css('ground') : colour.css('text');
      const text = fit(g, s.n_tokens[i] === 1 ? `${s.pos[s.tokenAt[i]]}` : s.n_tokens[i] > 1 ? `${s.n_tokens[i]} tokens` : `step ${s.number[i]}`, x1 - x0 - 6);
      if (text) g.fillText(text, x0 + 3, 27);
      chart.hit(x0, 18, Math.max(1, x1 - x0), 16, () => 'step ' + stepWords([i, last]), () => select({ steps: [i, last] }));
    }
    this.paintFaults(g, at, from, to, chart);
  },
  paintFaults(g, at, from, to, chart) {
    const u = trace.usage;
    if (trace.parts.faults) return this.paintSamples(g, at, from, to, chart);
    if (!u) return;
    for (let i = 1; i < u.at.length; i++) {
      const major = u.major_faults[i] - u.major_faults[i - 1], minor = u.minor_faults[i] - u.minor_faults[i - 1];
      if (u.at[i] < from || u.at[i - 1] > to || u.major_faults[i] < 0 || !(major + minor)) continue;
      const x = at(u.at[i]), tall = Math.min(10, 2 + Math.log2(1 + major + minor));
      g.fillStyle = colour.css(major ? 'bad' : 'c5');
      g.fillRect(x - 1, 46 - tall, major ? 3 : 2, tall);
      chart.hit(x - 3, 35, 6, 12, `${minor} page faults without reading, ${major} that waited for the disk, in the ${words.ns(u.at[i] - u.at[i - 1])} before`);
    }
  },
  /* Each page fault that the kernel sampled; and where a thread lost its core. At most one a pixel: there may be many. */
  paintSamples(g, at, from, to, chart) {
    const f = trace.parts.faults, p = trace.parts.pauses, few = chart.hits.length + 6000;
    for (let i = firstAfter(f.at, from), last = -9; i < f.at.length && f.at[i] <= to; i++) {
      const x = at(f.at[i]);
      if (x - last < 1 && !(f.major[i] && x > last)) continue;
      last = x;
      g.fillStyle = colour.css(f.major[i] ? 'bad' : 'c5');
      g.fillRect(x - 0.5, f.major[i] ? 35 : 39, f.major[i] ? 2 : 1.2, f.major[i] ? 11 : 7);
      if (chart.hits.length < few) chart.hit(x - 3, 35, 6, 12, () => this.faultWords(f, i));
    }
    if (!p) return;
    const track = trace.lanes.map((_, k) => this.tracks.findIndex(t => t.lane.index === k)), drawn = this.tracks.map(() => -9);
    this.longest ??= p.ns.reduce((m, x) => Math.max(m, x), 0);
    g.fillStyle = colour.css('bad');
    for (let i = firstAfter(p.at, from - this.longest); i < p.at.length && p.at[i] <= to; i++) {
      const k = p.lane[i] < 0 ? -1 : track[p.lane[i]], end = at(p.at[i] + p.ns[i]);
      if (k < 0 || end < this.geometry.left || end - drawn[k] < 0.5) continue;
      const x = Math.max(drawn[k], at(p.at[i]));
      g.fillRect(x, 50 + k * 62 + 55, Math.max(0.5, end - x), 3);
      drawn[k] = end;
      if (chart.hits.length < few) chart.hit(x, 50 + k * 62 + 52, Math.max(4, end - x), 9, () => `lost its core to others for ${words.ns(p.ns[i])}`);
    }
  },
  faultWords(f, i) {
    const t = f.file[i] >= 0 ? fileView.tensorAt(f.file[i], f.offset[i]) : null;
    return `page fault${f.major[i] ? ' that waited for the disk' : ''}${f.ns[i] >= 0 ? ', ' + words.ns(f.ns[i]) : ''}\n` +
      (f.file[i] < 0 ? 'of memory that is no file' : `${t ? t.key : 'no tensor'}, at ${words.count(f.offset[i])} of the file`);
  },
  timeWords(t, step) {
    return step >= 1e9 ? (t / 1e9).toFixed(0) + ' s' : step >= 1e6 ? (t / 1e6).toFixed(0) + ' ms' : step >= 1e3 ? (t / 1e6).toFixed(3) + ' ms'
      : (t / 1e3).toFixed(3) + ' µs';
  },
  paintTrack(g, track, at, y, h, left, room, chart, spans) {
    const { from, to } = this.range, { level, a, b } = track.pick(from, to, Math.max(400, room * 1.2));
    if (level.busy) {
      this.paintLevel(g, level, a, b, at, y, h, left, left + room);
      chart.hit(left, y, room, h, 'zoom in to see single events');
      this.paintMarkedFar(g, track, at, y, h, left, room);
      return;
    }
    const lane = track.lane;
    for (let k = a; k < b; k++) {
      const e = track.rows[k], x0 = at(level.begin[k]), x1 = at(level.end[k]);
      if (x1 < left || x0 > left + room) continue;
      this.paintEvent(g, lane, e, Math.max(left - 1, x0), Math.min(left + room + 1, x1), y, h, level.tone[k], spans ? trace.kinds[lane.kind[e]] : null, chart);
    }
  },
  paintEvent(g, lane, e, x0, x1, y, h, tone, kind, chart) {
    const i = Track.nodeOf(lane, e), wide = Math.max(0.8, x1 - x0 - (x1 - x0 > 3 ? 0.6 : 0)), key = i < 0 ? null : trace.nodes.key[i];
    const waits = lane.ns[e] > 0 ? lane.wait[e] / lane.ns[e] * wide : 0;
    g.fillStyle = kind ? colour.css('line') : colour.of(tone);
    g.fillRect(x0, y, wide, h);
    if (!kind && waits > 0.5) {
      g.fillStyle = colour.css('raised');
      g.globalAlpha = 0.62;
      g.fillRect(x0 + wide - waits, y, waits, h);
      g.globalAlpha = 1;
    }
    const title = key ?? (kind === 'mark' ? lane.marks[this.markIndex(lane, e)] : kind) ?? '?', text = fit(g, title, wide - 6);
    if (text) { g.fillStyle = kind || waits > wide / 2 ? colour.css('text') : '#14171c'; g.fillText(text, x0 + 3, y + h / 2 + 0.5); }
    if (key !== null && this.marks.has(key)) { g.strokeStyle = colour.css('mark'); g.lineWidth = 2; g.strokeRect(x0 + 1, y + 1, Math.max(1, wide - 2), h - 2); g.lineWidth = 1; }
    chart.hit(x0, y, wide, h, () => `${title}${i < 0 ? '' : ' (' + trace.nodes.op[i] + ')'}\n${words.ns(lane.ns[e])} from ${words.ns(lane.begin[e])}` +
      (lane.wait[e] > 0 ? `\n${words.ns(lane.wait[e])} of it waiting` : '') + (lane.step[e] < 0 ? '' : `\nstep ${trace.steps.number[lane.step[e]]}`),
    i < 0 ? (lane.step[e] >= 0 ? () => select({ steps: [lane.step[e], lane.step[e]] }) : undefined) : () => select({ node: key, lane: lane.id }));
  },
  markIndex(lane, e) {
    const MARK = trace.kinds.indexOf('mark');
    let n = 0;
    for (let k = 0; k < e; k++) if (lane.kind[k] === MARK) n++;
    return n;
  },
  /* The selected node where single events are too narrow: a tick for each. */
  paintMarkedFar(g, track, at, y, h, left, room) {
    if (!this.marks.size || track.lane.n > 300000) return;
    const { from, to } = this.range, lane = track.lane, finest = track.levels[0];
    const a = Track.first(finest, from), rows = new Set();
    for (const key of this.marks) for (const i of trace.nodes.of.get(key) || []) rows.add(i);
    g.fillStyle = colour.css('mark');
    let last = -2;
    for (let k = a; k < finest.n && finest.begin[k] < to; k++) {
      if (!rows.has(Track.nodeOf(lane, track.rows[k]))) continue;
      const x = Math.round(at(finest.begin[k]));
      if (x <= last + 1 || x > left + room) continue;
      g.fillRect(x, y, 1, h);
      last = x;
    }
  },
  table() { return statsTable(sums().operations); },
};
