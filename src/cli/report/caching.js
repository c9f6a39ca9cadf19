/* SPDX-License-Identifier: MIT */
/* caching.js -- what a cache of so many bytes would have kept of what the steps touched: computed from the recorded order of
 * use, for whole tensors, and experts one by one. It is what would be, not what was. */
'use strict';

const POLICIES = [
  ['keep-first', 'what comes first is kept, the rest is read each time', 2],
  ['optimal', 'what is used latest goes: no policy can do better', 8],
  ['LFU', 'what was used least goes', 4],
  ['LRU', 'what was used longest ago goes: about what a page cache does', 3],
];

/* Bytes read for a stream of [unit, ..] with units' sizes, by a cache of so many bytes. */
const caches = {
  'keep-first'(stream, size, room) {
    const kept = new Set(), seen = new Set();
    let used = 0, read = 0;
    for (const u of stream) {
      if (!seen.has(u)) { seen.add(u); if (used + size[u] <= room) { kept.add(u); used += size[u]; } read += size[u]; }
      else if (!kept.has(u)) read += size[u];
    }
    return read;
  },
  LRU(stream, size, room) {
    const kept = new Map();
    let used = 0, read = 0;
    for (const u of stream) {
      if (kept.delete(u)) { kept.set(u, 1); continue; }
      read += size[u];
      if (size[u] > room) continue;
      for (const v of kept.keys()) { if (used + size[u] <= room) break; kept.delete(v); used -= size[v]; }
      kept.set(u, 1);
      used += size[u];
    }
    return read;
  },
  LFU: (stream, size, room) => byWorth(stream, size, room, (u, k, count) => count[u]),
  optimal: (stream, size, room, next) => byWorth(stream, size, room, (u, k, count, due) => -due[u], next),
};

/* Evicts what is worth least; what comes is not kept when it is worth no more than all that is there. */
function byWorth(stream, size, room, worth, next) {
  const kept = new Set(), count = new Float64Array(size.length), due = new Float64Array(size.length);
  let used = 0, read = 0;
  for (let k = 0; k < stream.length; k++) {
    const u = stream[k];
    count[u]++;
    if (next) due[u] = next[k];
    if (kept.has(u)) continue;
    read += size[u];
    if (size[u] > room) continue;
    while (used + size[u] > room) {
      let least = -1;
      for (const v of kept) if (least < 0 || worth(v, k, count, due) < worth(least, k, count, due)) least = v;
      if (worth(least, k, count, due) > worth(u, k, count, due)) { least = -2; break; }
      kept.delete(least);
      used -= size[least];
    }
    if (used + size[u] <= room) { kept.add(u); used += size[u]; }
  }
  return read;
}

const cachingView = {
  id: 'caching', title: 'Caching', half: true, about: 'bytes read from disk a step, if so much of what the steps touch were kept: computed from the order of use',
  needs: () => fileView.tensors.length && trace.steps.n ? null : missing('no tensor of a file was used.', 'Record a model whose file is mapped.'),
  POINTS: 20, MOST: 6000,
  build(box) {
    const tools = el('div', { className: 'tools' });
    this.slider = el('input', { type: 'range', min: 0, max: this.POINTS, value: Math.round(this.POINTS / 2), ariaLabel: 'memory for weights', oninput: () => { this.say(); this.chart.redraw(); } });
    this.disk = el('input', { type: 'number', min: 0.05, step: 0.05, placeholder: 'GB/s', ariaLabel: 'GB a second that the disk reads', oninput: () => { this.say(); this.chart.redraw(); } });
    tools.append(el('label', {}, 'I have', this.slider), el('label', {}, 'my disk reads', this.disk, 'GB/s'));
    this.chart = null;
    box.append(tools);
    this.chart = new Chart(box, { height: 250, label: 'Hit curves', paint: (g, w, h, c) => this.paint(g, w, h, c) });
    this.said = el('p', { className: 'missing' });
    box.append(this.said);
    this.compute();
  },
  selected() { this.compute(); },
  /* The units that steps touch, in order: tensors, and of experts those that were chosen. */
  compute() {
    const [from, to] = stepRange(), unit = new Map(), names = [];
    this.size = [];
    this.stream = [];
    const use = (name, bytes) => {
      let u = unit.get(name);
      if (u === undefined) { unit.set(name, u = this.size.length); this.size.push(bytes); names.push(name); }
      this.stream.push(u);
    };
    const readers = trace.plans.map(plan => fileView.readers(plan)), cost = {};
    let s = from;
    for (; s <= to && this.stream.length < this.MOST; s++)
      for (const r of readers[trace.steps.plan[s]]) {
        const share = Math.min(1, costOf(r.i, s, cost).weight / r.whole), sources = trace.nodes.sources(r.i);
        const choice = r.experts && trace.choices && sources.length > 2 ? trace.choices.find(s, trace.nodes.root[sources[2]]) : undefined;
        for (const t of r.tensors) {
          if (choice === undefined) use(t.key, t.bytes * (r.experts ? share : share));
          else for (const id of new Set(trace.choices.id.subarray(trace.choices.at[choice], trace.choices.at[choice + 1]))) use(t.key + ' ' + id, t.bytes / r.experts);
        }
      }
    this.steps = s - from;
    this.names = names;
    this.curves();
    this.say();
  },
  curves() {
    const whole = this.whole = this.size.reduce((a, b) => a + b, 0), next = new Float64Array(this.stream.length), due = new Map();
    for (let k = this.stream.length; k-- > 0;) { next[k] = due.get(this.stream[k]) ?? Infinity; due.set(this.stream[k], k); }
    this.touched = this.stream.reduce((a, u) => a + this.size[u], 0);
    /* the first time a unit is read is not the cache's fault: after warm-up */
    this.points = POLICIES.map(([name]) => Array.from({ length: this.POINTS + 1 }, (_, p) =>
      Math.max(0, caches[name](this.stream, this.size, whole * p / this.POINTS * (1 + 1e-12), next) - whole) / Math.max(1, this.steps - 1)));
    this.most = Math.max(1, ...this.points.map(c => c[0]));
  },
  stepNs() {
    const [from] = stepRange(), s = trace.steps;
    let ns = 0, n = 0;
    for (let i = from; i < from + this.steps; i++) if (s.ns[i] > 0) { ns += s.ns[i]; n++; }
    return n ? ns / n : 0;
  },
  say() {
    const p = +this.slider.value, room = this.whole * p / this.POINTS, disk = +this.disk.value, ns = this.stepNs();
    this.said.replaceChildren(el('b', {}, `With ${words.bytes(room)} for weights, `), `${words.percent(p / this.POINTS)} of what these ${this.steps} steps touch, a step would read ` +
      POLICIES.map(([name], k) => `${words.bytes(this.points[k][p])} (${name})`).join(', ') + '. ' +
      (disk > 0 && ns > 0 ? `At ${disk} GB/s, if nothing else overlapped: ` + POLICIES.map(([name], k) => `${(1e9 / (ns + this.points[k][p] / disk)).toFixed(2)} steps/s (${name})`).join(', ') + '.'
        : 'Steps a second: not measured, how fast your disk reads; fill it in.') +
      ' Computed for whole tensors; quern run --memory BYTES does it.');
  },
  paint(g, w, h, chart) {
    const left = 62, bottom = 30, room = w - left - 12, X = p => left + p / this.POINTS * room, Y = b => h - bottom - b / this.most * (h - bottom - 22);
    g.textAlign = 'right';
    for (const t of ticks(0, this.most, 4).at) {
      g.strokeStyle = colour.css('grid');
      g.beginPath(); g.moveTo(left, Math.round(Y(t)) + 0.5); g.lineTo(w - 12, Math.round(Y(t)) + 0.5); g.stroke();
      g.fillStyle = colour.css('faint');
      g.fillText(words.bytes(t), left - 5, Y(t));
    }
    g.textAlign = 'center';
    for (let p = 0; p <= this.POINTS; p += 5) g.fillText(words.bytes(this.whole * p / this.POINTS), Math.min(X(p), w - 28), h - bottom + 10);
    g.fillText('memory for weights', left + room / 2, h - 7);
    g.textAlign = 'left';
    POLICIES.forEach(([name, text, c], k) => {
      g.strokeStyle = g.fillStyle = colour.of(c);
      g.lineWidth = 2;
      g.setLineDash([[], [6, 3], [2, 2], [9, 3, 2, 3]][k]);
      g.beginPath();
      this.points[k].forEach((b, p) => g[p ? 'lineTo' : 'moveTo'](X(p), Y(b)));
      g.stroke();
      g.fillRect(left + k * 88, 4, 12, 3);
      g.fillText(name, left + 16 + k * 88, 7);
      this.points[k].forEach((b, p) => chart.hit(X(p) - 6, Y(b) - 6, 12, 12, `${name}: ${text}\n${words.bytes(b)} read a step with ${words.bytes(this.whole * p / this.POINTS)}`));
    });
    g.setLineDash([]);
    g.strokeStyle = colour.css('accent');
    g.lineWidth = 1.5;
    const x = X(+this.slider.value);
    g.beginPath(); g.moveTo(x, 14); g.lineTo(x, h - bottom); g.stroke();
    g.lineWidth = 1;
  },
  table() {
    return { columns: [{ name: 'memory', show: words.bytes }, ...POLICIES.map(([name]) => ({ name: 'read a step, ' + name, show: words.bytes }))],
      rows: Array.from({ length: this.POINTS + 1 }, (_, p) => [this.whole * p / this.POINTS, ...this.points.map(c => c[p])]) };
  },
};
