/* SPDX-License-Identifier: MIT */
/* memory.js -- what the planner did with the activations' memory: a rectangle a value, from the node that computes it to the
 * last that reads it, at its offset; and what the process had resident over time. */
'use strict';

const memoryView = {
  id: 'memory', title: 'Memory', about: 'activations as planned: from left to right the nodes of a step, upwards the offset; below, the process over time',
  needs: () => trace.plans.length ? null : missing('no plan of a graph is in this trace.', 'Record a run without --trace-limit.'),
  build(box) {
    const tools = el('div', { className: 'tools' });
    this.pickPlan = planPicker(tools, () => { this.lay(); this.chart.redraw(); for (const t of this.tables || []) t.redraw(); });
    this.sum = el('span');
    tools.append(this.sum);
    box.append(tools);
    this.chart = new Chart(box, { height: 240, label: 'Memory of activations', name: 'plan', paint: (g, w, h, c) => this.paint(g, w, h, c) });
    this.lay();
    const resident = trace.usage && trace.usage.resident_bytes.some(x => x > 0);
    if (resident || trace.steps.n) this.time = new Chart(box, { height: 110, label: 'Memory of the process and cells of the cache over time', name: 'time', paint: (g, w, h, c) => this.paintTime(g, w, h, c) });
    if (!resident) box.append(missing('memory of the process.', 'The system was not asked: the recording was shorter than 20 ms.'));
    if (!trace.parts.residency) box.append(missing('which bytes of the model\'s file are resident.', 'Record a model whose file is mapped and your own.'));
  },
  lay() {
    const plan = this.pickPlan(), nodes = trace.nodes;
    this.values = [];
    const last = new Map();
    for (let i = plan.base; i < plan.base + plan.n; i++) {
      const root = plan.base + nodes.root[i];
      last.set(root, Math.max(last.get(root) ?? 0, nodes.last_use[i], i - plan.base));
    }
    for (let i = plan.base; i < plan.base + plan.n; i++) {
      const at = i - plan.base;
      if (nodes.space[i] === IS.ACTIVATIONS && nodes.root[i] === at && nodes.bytes[i] > 0)
        this.values.push({ i, from: at, to: Math.min(plan.n, last.get(i)), offset: nodes.offset[i], bytes: nodes.bytes[i], place: nodes.place[i], scratch: false });
      if (nodes.scratch_bytes[i] > 0)
        this.values.push({ i, from: at, to: at, offset: nodes.scratch[i], bytes: nodes.scratch_bytes[i], place: nodes.place[i], scratch: true });
    }
    this.sum.textContent = plan.places.map((name, k) => `${name}: ${words.bytes(plan.placeBytes[k])} for ${words.bytes(this.values.filter(v => v.place === k && !v.scratch).reduce((a, v) => a + v.bytes, 0))} of values`).join('; ');
  },
  paint(g, w, h, chart) {
    const plan = this.pickPlan(), nodes = trace.nodes, left = 60, bottom = 16, room = w - left - 4, marks = marked();
    const whole = plan.placeBytes.reduce((a, b) => a + b, 0) || 1, base = [];
    plan.placeBytes.reduce((a, b, k) => (base[k] = a, a + b), 0);
    const X = k => left + k / plan.n * room, Y = b => h - bottom - b / whole * (h - bottom - 6);
    g.textAlign = 'right';
    for (const t of ticks(0, whole, 4).at) {
      const y = Math.round(Y(t)) + 0.5;
      g.strokeStyle = colour.css('grid');
      g.beginPath(); g.moveTo(left, y); g.lineTo(w, y); g.stroke();
      g.fillStyle = colour.css('faint');
      g.fillText(words.bytes(t), left - 5, y);
    }
    g.textAlign = 'left';
    for (const v of this.values) {
      const lo = (base[v.place] ?? 0) + v.offset, x = X(v.from), y = Y(lo + v.bytes), width = Math.max(1, X(v.to + 1) - x - 0.5), tall = Math.max(1, Y(lo) - y - 0.5);
      const key = nodes.key[v.i], on = marks.has(key);
      g.fillStyle = v.scratch ? colour.css('c9') : opColour.of(nodes.op[v.i]);
      g.globalAlpha = on ? 1 : v.scratch ? 0.5 : 0.75;
      g.fillRect(x, y, width, tall);
      g.globalAlpha = 1;
      if (on) { g.strokeStyle = colour.css('mark'); g.lineWidth = 2; g.strokeRect(x, y, width, tall); g.lineWidth = 1; }
      g.fillStyle = '#14171c';
      if (tall > 11) { const text = fit(g, key, width - 6); if (text) g.fillText(text, x + 3, y + tall / 2 + 0.5); }
      chart.hit(x, y, width, tall, `${v.scratch ? 'scratch of ' : ''}${key} (${nodes.op[v.i]})\n${words.bytes(v.bytes)} at ${words.count(v.offset)}\nnodes ${v.from} to ${v.to}`, () => select({ node: key }));
    }
    g.fillStyle = colour.css('faint');
    for (const t of ticks(0, plan.n, Math.max(2, room / 90)).at) g.fillText('node ' + Math.round(t), X(t), h - 5);
  },
  /* Resident bytes of the process, and cells that steps see: of the cache, as far as it is read. */
  paintTime(g, w, h, chart) {
    const u = trace.usage, s = trace.steps, left = 60, room = w - left - 46, bottom = 14, from = timelineView.first, to = timelineView.last;
    const X = t => left + (t - from) / (to - from) * room, cells = Array.from({ length: s.n }, (_, i) => s.n_sights[i] ? s.cells[s.sightAt[i]] : 0);
    const line = (values, at, most, c) => {
      g.strokeStyle = c;
      g.lineWidth = 1.6;
      g.beginPath();
      values.forEach((v, i) => g[i ? 'lineTo' : 'moveTo'](X(at[i]), h - bottom - v / most * (h - bottom - 12)));
      g.stroke();
      g.lineWidth = 1;
    };
    g.fillStyle = colour.css('faint');
    if (u && u.resident_bytes.some(x => x > 0)) {
      const values = Array.from(u.resident_bytes, x => Math.max(0, x)), most = values.reduce((a, b) => Math.max(a, b), 0);
      line(values, u.at, most, colour.of(0));
      g.fillStyle = colour.of(0);
      g.textAlign = 'right';
      g.fillText(words.bytes(most), left - 5, 12);
      g.textAlign = 'left';
      g.fillText('process, resident', left + 4, 6);
      values.forEach((v, i) => chart.hit(X(u.at[i]) - 3, 0, 7, h, `${words.bytes(v)} resident after ${words.ns(u.at[i])}`));
    }
    const most = cells.reduce((a, b) => Math.max(a, b), 0);
    if (most > 0) {
      const some = Math.max(1, Math.floor(s.n / 2000)), rows = cells.map((v, i) => i).filter(i => i % some === 0);
      line(rows.map(i => cells[i]), rows.map(i => s.begin[i]), most, colour.of(1));
      g.fillStyle = colour.of(1);
      g.fillText(`${most} cells`, w - 44, 12);
      g.fillText('cells of the cache that a step sees', left + 120, 6);
    }
    g.fillStyle = colour.css('faint');
    const { step, at } = ticks(from, to, room / 110);
    for (const t of at) g.fillText(timelineView.timeWords(t, step), X(t), h - 5);
  },
  table() {
    const nodes = trace.nodes, plan = this.pickPlan();
    return { columns: [{ name: 'name', pick: pickNode, isNode: true }, { name: 'what' }, { name: 'backend' }, { name: 'offset' }, { name: 'bytes', show: words.bytes }, { name: 'from node' }, { name: 'to node' }],
      rows: this.values.map(v => [nodes.key[v.i], v.scratch ? 'scratch' : 'value', plan.places[v.place] ?? '', v.offset, v.bytes, v.from, v.to]) };
  },
};
