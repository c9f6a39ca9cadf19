/* SPDX-License-Identifier: MIT */
/* experts.js -- which experts of which layers are chosen, how even, and how alike by tokens that follow each other. */
'use strict';

const expertsView = {
  id: 'experts', title: 'Experts', about: 'how often each expert of each layer was chosen in the selected steps; the strip below is one layer, token by token',
  needs() {
    if (trace.choices) return null;
    const has = trace.nodes && Array.from(trace.nodes.n_experts).some(x => x > 0);
    return has ? missing('which experts were chosen.', 'Record without --trace-no-experts.')
      : el('p', { className: 'missing' }, el('b', {}, 'No experts: '), 'this model is dense, or its steps were not recorded.');
  },
  build(box) {
    const tools = el('div', { className: 'tools' });
    this.by = choose(tools, 'colour', 'experts', ['use', 'gates'], () => this.chart.redraw());
    this.sum = el('span');
    tools.append(this.sum);
    box.append(tools);
    this.layer = null;
    this.count();
    this.chart = new Chart(box, { height: () => 24 + this.layers.length * Math.max(8, Math.min(24, 260 / this.layers.length)), label: 'Experts by layer', name: 'layers', paint: (g, w, h, c) => this.paint(g, w, h, c) });
    this.strip = new Chart(box, { height: 150, label: 'Experts by token', name: 'tokens', paint: (g, w, h, c) => this.paintStrip(g, w, h, c) });
    if (!trace.choices.has_gates.some(x => x)) box.append(missing('the gates of experts.', 'Record with this version of quern.'));
  },
  selected() {
    this.count();
    const i = selection.node === null ? undefined : (trace.nodes.of.get(selection.node) || [])[0];
    const at = i === undefined ? -1 : this.layers.findIndex(l => l.layer === trace.nodes.layer[i]);
    if (at >= 0) this.layer = this.layers[at].layer;
  },
  count() {
    const [from, to] = stepRange(), c = trace.choices, nodes = trace.nodes, of = new Map();
    for (let k = 0; k < c.n; k++) {
      const step = c.step[k];
      if (step < from || step > to) continue;
      const i = trace.plans[trace.steps.plan[step]].base + c.node[k], layer = nodes.layer[i];
      if (!of.has(layer)) of.set(layer, { layer, key: nodes.key[i], use: [], gates: [], tokens: 0, rows: [] });
      const l = of.get(layer), tokens = trace.steps.n_tokens[step];
      l.tokens += tokens;
      l.rows.push(k);
      for (let j = c.at[k]; j < c.at[k + 1]; j++) {
        l.use[c.id[j]] = (l.use[c.id[j]] || 0) + 1;
        if (c.gateAt[k] >= 0) l.gates[c.id[j]] = (l.gates[c.id[j]] || 0) + c.gate[c.gateAt[k] + j - c.at[k]];
      }
    }
    this.layers = [...of.values()].sort((a, b) => a.layer - b.layer);
    this.nExperts = this.expertCount();
    for (const l of this.layers) this.evenness(l);
    if (this.layer === null && this.layers.length) this.layer = this.layers[0].layer;
    this.say();
  },
  expertCount() {
    let most = 0;
    for (const x of trace.nodes.n_experts) if (x > most) most = x;
    for (const l of this.layers) most = Math.max(most, l.use.length);
    return most;
  },
  evenness(l) {
    const n = this.nExperts, all = l.use.reduce((a, b) => a + (b || 0), 0);
    l.use = Array.from({ length: n }, (_, k) => l.use[k] || 0);
    l.gates = Array.from({ length: n }, (_, k) => l.gates[k] || 0);
    l.entropy = -l.use.reduce((a, x) => a + (x ? x / all * Math.log2(x / all) : 0), 0);
    l.balance = 2 ** l.entropy / n;
    const said = (trace.stats.experts ? trace.stats.experts.layers : []).find(x => x.layer === l.layer);
    l.overlap = said ? said.overlap : NaN;
    l.chance = said ? said.chance : NaN;
  },
  say() {
    const all = this.layers.flatMap(l => l.use).sort((a, b) => b - a), total = all.reduce((a, b) => a + b, 0) || 1;
    const hot = p => all.slice(0, Math.max(1, Math.round(all.length * p))).reduce((a, b) => a + b, 0) / total;
    const mean = f => this.layers.reduce((a, l) => a + f(l), 0) / (this.layers.length || 1), overlap = mean(l => l.overlap);
    if (this.sum) this.sum.textContent = this.layers.length ? `the hottest 1, 5, 10 % take ${[0.01, 0.05, 0.1].map(p => words.percent(hot(p))).join(', ')}; balance ${mean(l => l.balance).toFixed(2)}` +
      (overlap === overlap ? `; neighbours share ${words.percent(overlap)}, by chance ${words.percent(mean(l => l.chance))}` : '') : '';
  },
  paint(g, w, h, chart) {
    const left = 74, room = w - left - 4, n = this.nExperts, tall = (h - 20) / Math.max(1, this.layers.length), gates = this.by() === 'gates', marks = marked();
    const value = (l, k) => gates ? l.gates[k] : l.use[k], most = Math.max(1e-9, ...this.layers.map(l => Math.max(...(gates ? l.gates : l.use))));
    this.layers.forEach((l, r) => {
      const y = r * tall, on = l.layer === this.layer, hasNode = marks.size && (trace.nodes.of.get([...marks][0]) || []).some(i => trace.nodes.layer[i] === l.layer);
      for (let k = 0; k < n; k++) {
        const x = left + k / n * room, width = room / n;
        g.fillStyle = value(l, k) ? heat('c4', value(l, k) / most) : colour.css('grid');
        g.fillRect(x, y, Math.max(0.6, width - (width > 4 ? 0.7 : 0)), tall - (tall > 4 ? 0.7 : 0));
        chart.hit(x, y, width, tall, () => `layer ${l.layer}, expert ${k}\nchosen ${l.use[k]} times by ${l.tokens} tokens, ${words.percent(l.use[k] / (l.tokens || 1))}` +
          (l.gates[k] ? `\nmean gate ${(l.gates[k] / l.use[k]).toFixed(4)}` : ''), () => { this.layer = l.layer; select({ node: l.key }); });
      }
      g.fillStyle = colour.css(on ? 'accent' : 'faint');
      if (tall > 7) g.fillText('layer ' + l.layer, 4, y + tall / 2);
      if (on || hasNode) { g.strokeStyle = colour.css(hasNode ? 'mark' : 'accent'); g.lineWidth = hasNode ? 2 : 1; g.strokeRect(left - 1, y, room + 1, tall - 0.5); g.lineWidth = 1; }
    });
    g.fillStyle = colour.css('faint');
    for (const t of ticks(0, n, Math.max(2, Math.min(n, room / 60))).at) if (t < n && t === Math.round(t)) g.fillText(String(t), left + t / n * room, h - 8);
  },
  /* One layer: a column a token, a dot an expert. */
  paintStrip(g, w, h, chart) {
    const l = this.layers.find(x => x.layer === this.layer), c = trace.choices, s = trace.steps, left = 74, room = w - left - 4, n = this.nExperts;
    if (!l) return;
    const columns = [];
    for (const k of l.rows) {
      const step = c.step[k], tokens = s.n_tokens[step] || 1, each = (c.at[k + 1] - c.at[k]) / tokens;
      for (let t = 0; t < tokens; t++) columns.push({ k, step, token: t, from: c.at[k] + Math.floor(t * each), to: c.at[k] + Math.floor((t + 1) * each) });
      if (columns.length > 20000) break;
    }
    const most = Math.max(1, Math.min(columns.length, Math.floor(room / 3))), width = room / most, first = columns.length - most;
    const tall = (h - 18) / n;
    for (let x = 0; x < most; x++) {
      const col = columns[Math.max(0, first) + x], on = selection.steps && col.step >= selection.steps[0] && col.step <= selection.steps[1];
      for (let j = col.from; j < col.to; j++) {
        const gate = c.gateAt[col.k] >= 0 ? Math.abs(c.gate[c.gateAt[col.k] + j - c.at[col.k]]) : 0.6;
        g.fillStyle = heat(on ? 'c1' : 'c4', 0.3 + 0.7 * Math.min(1, gate));
        g.fillRect(left + x * width, c.id[j] * tall, Math.max(1, width - (width > 4 ? 1 : 0)), Math.max(1.5, tall - 0.5));
      }
      chart.hit(left + x * width, 0, width, h - 18, () => `step ${s.number[col.step]}, position ${s.pos[s.tokenAt[col.step] + col.token] ?? '?'}\nexperts ` +
        Array.from(c.id.subarray(col.from, col.to)).join(', '), () => select({ steps: [col.step, col.step] }));
    }
    g.fillStyle = colour.css('faint');
    g.fillText(`layer ${l.layer}`, 4, 8);
    g.fillText('expert ↓', 4, 24);
    g.fillText(columns.length > most ? `the last ${most} of ${columns.length} tokens` : `${columns.length} tokens`, left, h - 7);
  },
  table() {
    return { columns: [{ name: 'layer' }, { name: 'expert' }, { name: 'use' }, { name: 'gates', show: x => x.toFixed(4) }, { name: 'share', show: words.percent }, { name: 'layer entropy', show: x => x.toFixed(3) },
      { name: 'layer balance', show: x => x.toFixed(3) }, { name: 'layer overlap', show: x => x.toFixed(4) }, { name: 'by chance', show: x => x.toFixed(4) }],
      rows: this.layers.flatMap(l => l.use.map((x, k) => [l.layer, k, x, l.gates[k], l.tokens ? x / l.tokens : 0, l.entropy, l.balance, l.overlap, l.chance])) };
  },
};
