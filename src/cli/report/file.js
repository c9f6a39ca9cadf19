/* SPDX-License-Identifier: MIT */
/* file.js -- which bytes of the model's file are used, when, and where they came from. A tensor's bytes of a step are what its
 * readers must touch: rows of a table, chosen experts; so they sum to the weights of quern trace stats. */
'use strict';

const fileView = {
  id: 'file', title: 'File', about: 'the model\'s file from its first byte to its last, steps downwards; wheel or + and - zoom to a page',
  needs: () => fileView.tensors.length ? null : missing('no tensor of a file is in this trace.', 'Record a model whose file is mapped.'),
  build(box) {
    const tools = el('div', { className: 'tools' }), again = () => { this.arrange(); this.chart.redraw(); };
    this.order = choose(tools, 'order', 'file', ['offset', 'use'], again);
    const files = [...new Set(this.tensors.map(t => t.file))];
    this.file = files.sort((a, b) => this.bytesIn(b) - this.bytesIn(a))[0];
    if (files.length > 1) {
      const pick = el('select', { onchange: () => { this.file = +pick.value; again(); } }, ...files.map(f => el('option', { value: f }, this.nameOf(f))));
      tools.append(el('label', {}, 'file'), pick);
    }
    tools.append(el('button', { type: 'button', onclick: () => this.range.set(this.range.first, this.range.last) }, 'all of it'));
    this.sum = el('span');
    tools.append(this.sum);
    box.append(tools);
    this.chart = new Chart(box, { height: 360, label: 'Bytes of the file', paint: (g, w, h, c) => this.paint(g, w, h, c), key: e => this.range.key(e),
      zoomable: (e, x) => this.wheel(e, x), drag: (...a) => this.drag(...a) });
    this.arrange();
    this.count();
    if (!trace.parts.faults) box.append(missing('which bytes came from disk.', safe(trace.stats.notes.faults ?? 'The recording has no samples of page faults.')));
    if (!trace.parts.residency) box.append(missing('which bytes are in memory.', 'The recording has no residency of this file.'));
  },
  selected() { this.count(); },
  bytesIn(file) { return this.tensors.reduce((a, t) => a + (t.file === file ? t.bytes : 0), 0); },
  nameOf(file) { const k = Array.from(trace.overview.file_id).indexOf(file); return k < 0 ? 'file ' + file : safe(trace.overview.file[k]); },
  sizeOf(file) { const k = Array.from(trace.overview.file_id).indexOf(file); return k < 0 ? 0 : trace.overview.file_bytes[k]; },
  /* A tensor is a stretch of a file, whatever plans call it. */
  gather() {
    const nodes = trace.nodes, of = new Map();
    this.tensors = [];
    this.ofNode = new Map();
    for (let i = 0; i < nodes.n; i++) {
      if (!nodes.inFile(i) || nodes.root[i] !== i - trace.plans[nodes.plan[i]].base) continue;
      const at = nodes.file[i] + ' ' + nodes.offset[i];
      if (!of.has(at)) {
        of.set(at, { key: nodes.key[i], file: nodes.file[i], offset: nodes.offset[i], bytes: nodes.bytes[i], i, use: Infinity, touched: 0, steps: 0, experts: null, faults: 0 });
        this.tensors.push(of.get(at));
      }
      const t = of.get(at);
      for (const u of nodes.users[i] || []) t.use = Math.min(t.use, u - trace.plans[nodes.plan[i]].base);
      this.ofNode.set(i, t);
    }
    this.tensors.sort((a, b) => a.file - b.file || a.offset - b.offset);
  },
  arrange() {
    const shown = this.tensors.filter(t => t.file === this.file), used = [...shown].sort((a, b) => a.use - b.use || a.offset - b.offset);
    let x = 0;
    for (const t of used) { t.x = this.order() === 'use' ? x : t.offset; x += t.bytes; }
    this.shown = shown;
    this.inUse = used.filter(t => t.use < Infinity);
    const last = this.order() === 'use' ? x : Math.max(this.sizeOf(this.file), ...shown.map(t => t.offset + t.bytes));
    this.range = new Range(0, Math.max(last, 4096), 4096, () => this.chart.redraw());
  },
  BINS: 40,
  /* What readers touch of their weights in a step, as a share of these. */
  count() {
    const [from, to] = stepRange(), n = to - from + 1, steps = trace.steps, nodes = trace.nodes, cost = {};
    this.bins = Math.max(1, Math.min(this.BINS, n));
    for (const t of this.tensors) Object.assign(t, { touched: 0, steps: 0, row: new Float64Array(this.bins), experts: null, faults: 0 });
    const perPlan = trace.plans.map(plan => this.readers(plan)), still = trace.plans.map(() => null);
    for (let s = from; s <= to && steps.n; s++) {
      const plan = steps.plan[s], bin = Math.floor((s - from) * this.bins / n);
      still[plan] ||= perPlan[plan].map(r => r.experts ? 0 : Math.min(1, costOf(r.i, s, cost).weight / r.whole));
      perPlan[plan].forEach((r, k) => {
        const share = r.experts ? Math.min(1, costOf(r.i, s, cost).weight / r.whole) : still[plan][k];
        for (const t of r.tensors) { t.touched += t.bytes * share; t.row[bin] += share; t.steps++; }
        if (r.experts) this.countExperts(r, s);
      });
    }
    this.countFaults(from, to);
    const touched = this.tensors.reduce((a, t) => a + t.touched, 0), whole = this.tensors.reduce((a, t) => a + t.bytes, 0), never = this.tensors.filter(t => !t.touched).reduce((a, t) => a + t.bytes, 0);
    this.sum.textContent = n && steps.n ? `${words.bytes(touched / n)} touched a step of ${words.bytes(whole)}; ${words.bytes(never)} never` : '';
  },
  readers(plan) {
    const nodes = trace.nodes, out = [];
    for (let i = plan.base; i < plan.base + plan.n; i++) {
      const weights = nodes.weights[i];
      if (!weights) continue;
      out.push({ i, experts: nodes.n_experts[i], whole: weights.reduce((a, k) => a + nodes.bytes[k], 0) || 1, tensors: weights.map(k => this.ofNode.get(k)).filter(Boolean) });
    }
    return out;
  },
  countExperts(r, s) {
    const sources = trace.nodes.sources(r.i), choice = trace.choices && sources.length > 2 ? trace.choices.find(s, trace.nodes.root[sources[2]]) : undefined;
    if (choice === undefined) return;
    const c = trace.choices, seen = new Set();
    for (let k = c.at[choice]; k < c.at[choice + 1]; k++) seen.add(c.id[k]);
    for (const t of r.tensors) {
      t.experts ||= new Float64Array(r.experts);
      for (const id of seen) if (id >= 0 && id < r.experts) t.experts[id]++;
    }
  },
  countFaults(from, to) {
    const f = trace.parts.faults, s = trace.steps;
    this.faults = [];
    if (!f) return;
    const begin = selection.steps ? s.begin[from] : -Infinity, end = selection.steps ? s.begin[to] + Math.max(0, s.ns[to]) : Infinity;
    for (let k = 0; k < f.at.length; k++) {
      if (f.at[k] < begin || f.at[k] > end || f.file[k] < 0) continue;
      const t = this.tensorAt(f.file[k], f.offset[k]);
      if (t) t.faults++;
      this.faults.push({ file: f.file[k], offset: f.offset[k], major: f.major[k], t });
    }
  },
  tensorAt(file, offset) {
    let lo = 0, hi = this.tensors.length;
    while (lo < hi) { const mid = (lo + hi) >> 1, t = this.tensors[mid]; if (t.file < file || (t.file === file && t.offset <= offset)) lo = mid + 1; else hi = mid; }
    const t = this.tensors[lo - 1];
    return t && t.file === file && offset < t.offset + t.bytes ? t : null;
  },
  wheel(e, x) {
    if (document.activeElement !== this.chart.canvas && !e.ctrlKey) return false;
    this.range.zoom(Math.exp(e.deltaY / 400), this.range.from + (x - this.left) / this.room * (this.range.to - this.range.from));
    return true;
  },
  drag(what, x0, x1) {
    if (what === 'down') { this.dragFrom = [this.range.from, this.range.to]; return; }
    const [from, to] = this.dragFrom, by = (x0 - x1) / this.room * (to - from);
    this.range.set(from + by, to + by);
  },
  paint(g, w, h, chart) {
    const left = this.left = 74, room = this.room = w - left - 4, { from, to } = this.range, X = b => left + (b - from) / (to - from) * room;
    this.marks = marked();
    g.save();
    g.beginPath(); g.rect(left, 0, room, h); g.clip();
    this.paintJumps(g, X, 58);
    const rows = [['all steps', 62, 26], ['from disk', 92, 14], ['in memory', 110, 14]], top = 132, bottom = 18;
    const most = Math.max(...this.shown.map(t => t.touched / t.bytes), 1e-9);
    for (const t of this.shown) {
      const x = X(t.x), width = X(t.x + t.bytes) - x;
      if (x > left + room || x + width < left) continue;
      this.paintTensor(g, t, x, width, most, top, h - bottom, chart);
    }
    this.paintFaults(g, X, 92, 14);
    this.paintResidency(g, X, 110, 14);
    this.paintOffsets(g, X, from, to, h, room);
    g.restore();
    g.fillStyle = colour.css('faint');
    g.fillText('jumps', 4, 46);
    for (const [name, y, tall] of rows) g.fillText(name, 4, y + tall / 2);
    g.fillText('steps ↓', 4, top + 8);
  },
  paintTensor(g, t, x, width, most, top, bottom, chart) {
    const wide = Math.max(0.7, width - (width > 4 ? 0.7 : 0)), on = this.marks.has(t.key), tall = (bottom - top) / this.bins, perBin = (trace.steps.n ? stepRange()[1] - stepRange()[0] + 1 : 1) / this.bins;
    if (t.experts && width > t.experts.length * 1.5) this.paintExperts(g, t, x, width);
    else {
      g.fillStyle = t.touched ? heat('c0', Math.sqrt(t.touched / t.bytes / most)) : colour.css('grid');
      g.fillRect(x, 62, wide, 26);
    }
    if (width > 2 || !this.faint) for (let b = 0; b < this.bins; b++) {
      const share = Math.min(1, t.row[b] / perBin);
      if (share <= 0) continue;
      g.fillStyle = heat('c0', share);
      g.fillRect(x, top + b * tall, wide, Math.max(1, tall - (tall > 5 ? 0.7 : 0)));
    }
    g.fillStyle = colour.css('text');
    const text = fit(g, t.key, width - 6);
    if (text) g.fillText(text, x + 3, 75);
    if (on) { g.strokeStyle = colour.css('mark'); g.lineWidth = 2; g.strokeRect(x, 61, Math.max(2, wide), bottom - 61); g.lineWidth = 1; }
    chart.hit(x, 58, width, bottom - 58, () => this.words(t), () => select({ node: t.key }));
  },
  paintExperts(g, t, x, width) {
    const most = Math.max(...t.experts, 1), each = width / t.experts.length;
    t.experts.forEach((n, k) => {
      g.fillStyle = n ? heat('c4', n / most) : colour.css('grid');
      g.fillRect(x + k * each, 62, Math.max(0.6, each - (each > 3 ? 0.5 : 0)), 26);
    });
  },
  words(t) {
    const n = Math.max(1, stepRange()[1] - stepRange()[0] + 1), users = trace.nodes.users[t.i] || [];
    return `${t.key}\n${words.bytes(t.bytes)} at ${words.count(t.offset)}, ${trace.nodes.shapeOf(t.i).join(' × ')} ${trace.nodes.dtype[t.i]}\n` +
      (t.use === Infinity ? 'nobody reads it' : `read by ${users.map(u => trace.nodes.key[u]).join(', ')}\n${words.bytes(t.touched / n)} touched a step`) +
      (t.experts ? `\n${t.experts.filter(x => x > 0).length} of ${t.experts.length} experts were chosen` : '') +
      (trace.parts.faults ? `\n${t.faults} page faults` : '');
  },
  /* An arc where the next tensor that is used does not lie behind the one before. */
  paintJumps(g, X, base) {
    let jumps = 0;
    g.strokeStyle = colour.css('c3');
    for (let k = 1; k < this.inUse.length; k++) {
      const a = this.inUse[k - 1], b = this.inUse[k];
      if (Math.abs(b.offset - a.offset - a.bytes) < 4096) continue;
      jumps++;
      const x0 = X(a.x + a.bytes), x1 = X(b.x), tall = Math.min(54, 6 + Math.abs(x1 - x0) / 6);
      g.globalAlpha = 0.55;
      g.beginPath(); g.moveTo(x0, base); g.bezierCurveTo(x0, base - tall, x1, base - tall, x1, base); g.stroke();
    }
    g.globalAlpha = 1;
    g.fillStyle = colour.css('faint');
    g.fillText(`${jumps} of ${Math.max(0, this.inUse.length - 1)} times the next tensor that is used does not lie behind the one before`, this.left + 4, 7);
  },
  paintFaults(g, X, y, tall) {
    g.fillStyle = colour.css('grid');
    if (!trace.parts.faults) return this.hatch(g, y, tall);
    for (const f of this.faults) {
      if (f.file !== this.file) continue;
      const x = X(f.t && this.order() === 'use' ? f.t.x + f.offset - f.t.offset : f.offset);
      g.fillStyle = colour.css(f.major ? 'bad' : 'c1');
      g.fillRect(x, y, 1.5, tall);
    }
  },
  paintResidency(g, X, y, tall) {
    const r = trace.parts.residency;
    if (!r) return this.hatch(g, y, tall);
    for (const { at, bytes, in: here, file } of this.resident(r).values()) {
      if (file !== this.file) continue;
      const t = this.tensorAt(file, at), x = X(this.order() === 'use' && t ? t.x + at - t.offset : at), width = X(bytes) - X(0), share = Math.min(1, here / bytes);
      g.fillStyle = t && t.touched ? heat('c2', share) : heat('c5', share); /* in memory, and nobody touched it */
      g.fillRect(x, y, Math.max(0.7, width), tall);
    }
  },
  resident(r) {
    if (this.residentKept) return this.residentKept;
    const now = new Map(), at = starts(r.n);
    for (let k = 0; k < r.at.length; k++)
      for (let u = 0; u < r.n[k]; u++) now.set(r.file[k] + ' ' + (r.first[k] + u), { at: (r.first[k] + u) * r.unit[k], bytes: r.unit[k], in: r.pages[at[k] + u] * r.page[k], file: r.file[k] });
    return this.residentKept = now;
  },
  hatch(g, y, tall) {
    g.fillStyle = colour.css('faint');
    g.fillText('not measured', this.left + 4, y + tall / 2);
  },
  paintOffsets(g, X, from, to, h, room) {
    g.fillStyle = colour.css('faint');
    for (const t of ticks(from, to, room / 110).at) g.fillText(to - from < 1e6 ? words.count(Math.round(t)) : words.bytes(t), X(t) + 2, h - 6);
  },
  /* Of all steps what the library worked out; of selected ones what is counted here. */
  table() {
    const e = trace.parts.extents, at = new Map(), of = (t, name) => { const k = at.get(t.file + ' ' + t.offset), x = e && k !== undefined ? e[name][k] : -1; return x < 0 ? 'not measured' : x; };
    if (e) e.offset.forEach((offset, k) => at.set(e.file[k] + ' ' + offset, k));
    return { columns: [{ name: 'name', pick: pickNode, isNode: true }, { name: 'file' }, { name: 'offset' }, { name: 'bytes', show: words.bytes }, { name: 'touched', show: words.bytes }, { name: 'steps' },
      { name: 'page faults' }, { name: 'ever touched', show: words.bytes }, { name: 'in memory', show: words.bytes }, { name: 'never touched', show: words.bytes }, { name: 'came into memory', show: words.bytes }],
      rows: this.tensors.map(t => [t.key, this.nameOf(t.file), t.offset, t.bytes, t.touched, t.steps, trace.parts.faults ? t.faults : 'not measured',
        t.use === Infinity ? 0 : of(t, 'ever'), of(t, 'resident'), of(t, 'unused'), of(t, 'grown')]) };
  },
};
