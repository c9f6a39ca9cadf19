/* SPDX-License-Identifier: MIT */
/* graph.js -- the graph of a plan: layers folded to a bar each, inside of a layer its nodes, from what they read to what
 * reads them. Nodes that only rename memory (views) and weights are left out; edges go through them. */
'use strict';

const graphView = {
  id: 'graph', title: 'Graph', about: 'layers folded; a click unfolds one; what the selected node reads and what reads it lights up',
  needs: () => trace.plans.length ? null : missing('no plan of a graph is in this trace.', 'Record a run without --trace-limit.'),
  build(box) {
    const tools = el('div', { className: 'tools' }), again = () => this.chart.redraw();
    this.by = choose(tools, 'colour', 'graph', ['kind', 'backend', 'time', 'bytes', 'rms'], again);
    this.pickPlan = planPicker(tools, () => { this.open = null; this.lay(); again(); });
    box.append(tools);
    this.note = el('p', { className: 'missing', hidden: true });
    box.append(this.note);
    this.chart = new Chart(box, { height: w => this.heightAt(w), label: 'Graph', paint: (g, w, h, c) => this.paint(g, w, h, c) });
    this.open = null;
    this.lay();
  },
  selected() {
    const i = selection.node === null ? undefined : (trace.nodes.of.get(selection.node) || []).find(k => trace.nodes.plan[k] === this.pickPlan().index);
    if (i === undefined) return;
    const layer = trace.nodes.layer[i];
    if (layer !== this.open && trace.nodes.computes(i)) { this.open = layer; this.lay(); }
  },
  /* What computes among the sources, through views. */
  readsOf(i) {
    const nodes = trace.nodes, out = new Set(), seen = new Set(), todo = [...nodes.sources(i)];
    while (todo.length) {
      const s = todo.pop();
      if (seen.has(s)) continue;
      seen.add(s);
      if (nodes.computes(s)) out.add(s);
      else todo.push(...nodes.sources(s));
    }
    return [...out];
  },
  lay() {
    const plan = this.pickPlan(), nodes = trace.nodes;
    this.groups = [];
    const of = new Map();
    let before = true;
    for (let i = plan.base; i < plan.base + plan.n; i++) {
      if (!nodes.computes(i)) continue;
      const layer = nodes.layer[i];
      if (layer >= 0) before = false;
      const name = layer >= 0 ? layer : before ? 'before' : 'after';
      if (!of.has(name)) { const group = { name, layer, nodes: [] }; of.set(name, group); this.groups.push(group); }
      of.get(name).nodes.push(i);
    }
    this.groups.sort((a, b) => this.rankOf(a) - this.rankOf(b));
    if (this.open === null || !this.groups.some(x => x.layer === this.open)) this.open = (this.groups.find(x => x.layer >= 0) || this.groups[0] || { layer: -1 }).layer;
    this.inside = [];
    for (const group of this.groups) if (group.layer === this.open) this.inside.push(...group.nodes);
    this.depths();
  },
  rankOf: group => group.name === 'before' ? -1 : group.name === 'after' ? Infinity : group.layer,
  depths() {
    const inside = new Set(this.inside), depth = new Map();
    this.edges = [];
    for (const i of this.inside) {
      let d = 0;
      for (const s of this.readsOf(i)) if (inside.has(s)) { d = Math.max(d, depth.get(s) + 1); this.edges.push([s, i]); }
      depth.set(i, d);
    }
    this.columns = [];
    for (const i of this.inside) (this.columns[depth.get(i)] ||= []).push(i);
    this.columns = this.columns.map(c => c || []);
  },
  BOX: 26,
  perRow(w) { return Math.max(2, Math.floor(w / 104)); },
  heightAt(w) {
    let h = 66;
    for (let c = 0; c < this.columns.length; c += this.perRow(w))
      h += Math.max(1, ...this.columns.slice(c, c + this.perRow(w)).map(x => x.length)) * (this.BOX + 8) + 22;
    return Math.max(140, h);
  },
  /* 0 to 1, or null where it is not known. */
  shareOf(i) {
    const by = this.by(), nodes = trace.nodes, r = sumOf(nodes.key[i]);
    if (by === 'time') return r ? Math.sqrt(r.ns / this.mostNs) : 0;
    if (by === 'bytes') return r ? Math.sqrt(r.bytes / this.mostBytes) : 0;
    const v = by === 'rms' ? valueSums.find(nodes.key[i]) : null, [lo, hi] = this.rms;
    return v && v.rms > 0 ? hi > lo ? Math.log(v.rms / lo) / Math.log(hi / lo) : 0.5 : null;
  },
  colourOf(i) {
    const by = this.by(), nodes = trace.nodes;
    if (by === 'kind') return opColour.of(nodes.op[i]);
    if (by === 'backend') return colour.of(Math.max(0, nodes.place[i]));
    const share = this.shareOf(i);
    return share === null ? colour.css('line') : heat({ time: 'c1', rms: 'c2' }[by] || 'c0', share);
  },
  paint(g, w, h, chart) {
    const rows = sums().nodes;
    this.mostNs = Math.max(1, ...rows.map(r => r.ns));
    this.mostBytes = Math.max(1, ...rows.map(r => r.bytes));
    const rms = valueSums.rows().map(r => r.rms).filter(x => x > 0);
    this.rms = rms.reduce(([lo, hi], x) => [Math.min(lo, x), Math.max(hi, x)], [Infinity, 0]);
    this.note.hidden = this.by() !== 'rms' || rms.length > 0;
    if (!this.note.hidden) this.note.replaceChildren(el('b', {}, 'Not measured: '), 'what values were. Record with --trace-values \'*\'.');
    this.marks = marked();
    this.paintGroups(g, w, chart);
    this.paintInside(g, w, h, chart);
  },
  paintGroups(g, w, chart) {
    const n = this.groups.length, width = w / Math.max(1, n), times = this.groups.map(x => x.nodes.reduce((a, i) => a + this.timeOf(i), 0));
    const most = Math.max(...times, 1), parts = this.by() === 'backend' ? 'place' : 'op';
    this.groups.forEach((group, k) => {
      const x = k * width, open = group.layer === this.open, tall = 36 * times[k] / most, name = group.layer < 0 ? group.name : String(group.layer);
      g.fillStyle = colour.css('sunk');
      g.fillRect(x, 0, Math.max(1, width - 2), 38);
      let y = 38;
      for (const [, sum, shown] of this.partsOf(group, parts)) {
        const part = times[k] > 0 ? sum / times[k] * tall : 0;
        g.fillStyle = shown;
        g.fillRect(x, y - part, Math.max(1, width - 2), part);
        y -= part;
      }
      if (group.nodes.some(i => this.marks.has(trace.nodes.key[i]))) { g.fillStyle = colour.css('mark'); g.fillRect(x, 39, width - 2, 3); }
      if (open) { g.strokeStyle = colour.css('accent'); g.lineWidth = 2; g.strokeRect(x + 1, 1, Math.max(1, width - 4), 36); g.lineWidth = 1; }
      g.fillStyle = colour.css(open ? 'text' : 'faint');
      g.textAlign = 'center';
      if (width > 22 || k % Math.ceil(22 / width) === 0) g.fillText(fit(g, name, Math.max(24, width)) || name, x + width / 2, 49);
      g.textAlign = 'left';
      const share = times.reduce((a, b) => a + b, 0);
      chart.hit(x, 0, width, 54, `${group.layer < 0 ? group.name + ' the layers' : 'layer ' + name}: ${group.nodes.length} nodes, ${words.ns(times[k])}, ${words.percent(share ? times[k] / share : 0)}`,
        () => { this.open = group.layer; this.lay(); this.chart.redraw(); });
    });
  },
  timeOf(i) { const r = sumOf(trace.nodes.key[i]); return r ? r.ns / (trace.nodes.of.get(trace.nodes.key[i]).length || 1) : 0; },
  partsOf(group, by) {
    const of = new Map();
    for (const i of group.nodes) {
      const name = trace.nodes[by][i], now = of.get(name) || [name, 0, by === 'op' ? opColour.of(name) : colour.of(Math.max(0, name))];
      now[1] += this.timeOf(i);
      of.set(name, now);
    }
    return [...of.values()].sort((a, b) => b[1] - a[1]);
  },
  place(w) {
    const at = new Map(), per = this.perRow(w), width = w / per;
    let y = 64;
    for (let c = 0; c < this.columns.length; c += per) {
      const row = this.columns.slice(c, c + per), most = Math.max(1, ...row.map(x => x.length));
      row.forEach((column, k) => column.forEach((i, j) => at.set(i, { x: k * width + 3, y: y + (most - column.length) / 2 * (this.BOX + 8) + j * (this.BOX + 8), w: width - 24 })));
      y += most * (this.BOX + 8) + 22;
    }
    return at;
  },
  paintInside(g, w, h, chart) {
    const nodes = trace.nodes, at = this.place(w), lit = ([a, b]) => this.marks.has(nodes.key[a]) || this.marks.has(nodes.key[b]);
    for (const pass of [false, true]) {
      g.strokeStyle = colour.css(pass ? 'accent' : 'line');
      g.lineWidth = pass ? 2 : 1;
      for (const e of this.edges) {
        if (lit(e) !== pass) continue;
        const a = at.get(e[0]), b = at.get(e[1]), x0 = a.x + a.w, y0 = a.y + this.BOX / 2, x1 = b.x, y1 = b.y + this.BOX / 2;
        g.beginPath();
        g.moveTo(x0, y0);
        if (x1 >= x0) g.bezierCurveTo(x0 + (x1 - x0) / 2, y0, x1 - (x1 - x0) / 2, y1, x1, y1);
        else { const mid = (a.y + this.BOX + b.y) / 2; g.bezierCurveTo(x0 + 14, y0, x0 + 14, mid, (x0 + x1) / 2, mid); g.bezierCurveTo(x1 - 14, mid, x1 - 14, y1, x1, y1); }
        g.stroke();
      }
    }
    g.lineWidth = 1;
    for (const [i, r] of at) this.paintNode(g, i, r, chart);
  },
  paintNode(g, i, r, chart) {
    const nodes = trace.nodes, key = nodes.key[i], sum = sumOf(key), on = this.marks.has(key);
    g.fillStyle = this.colourOf(i);
    g.beginPath();
    g.roundRect(r.x, r.y, r.w, this.BOX, 4);
    g.fill();
    if (on) { g.strokeStyle = colour.css('mark'); g.lineWidth = 2; g.stroke(); g.lineWidth = 1; }
    const plain = this.by() === 'kind' || this.by() === 'backend';
    g.fillStyle = plain ? '#14171c' : colour.css('text');
    g.fillText(fit(g, key, r.w - 8), r.x + 5, r.y + 9);
    g.globalAlpha = 0.75;
    g.fillText(fit(g, sum ? words.ns(sum.p50_ns) : nodes.op[i], r.w - 8), r.x + 5, r.y + 19.5);
    g.globalAlpha = 1;
    chart.hit(r.x, r.y, r.w, this.BOX, () => `${key}\n${nodes.op[i]}, ${nodes.shapeOf(i).join(' × ')} ${nodes.dtype[i]}, on ${trace.plans[nodes.plan[i]].places[nodes.place[i]] ?? '?'}` +
      (sum ? `\n${words.ns(sum.ns)} in ${sum.count}, ${words.bytes(sum.bytes / sum.count)} each` : '\nnot recorded in these steps'), () => select({ node: key }));
  },
  table() {
    const nodes = trace.nodes, plan = this.pickPlan(), rows = [];
    for (let i = plan.base; i < plan.base + plan.n; i++)
      if (nodes.computes(i)) {
        const r = sumOf(nodes.key[i]) || {};
        rows.push([nodes.key[i], nodes.op[i], nodes.layer[i], plan.places[nodes.place[i]] ?? '', nodes.shapeOf(i).join('x'), nodes.dtype[i],
          this.readsOf(i).map(k => nodes.key[k]).join(' '), r.count ?? 0, r.ns ?? 0, r.bytes ?? 0]);
      }
    return { columns: [{ name: 'name', pick: pickNode, isNode: true }, { name: 'op' }, { name: 'layer' }, { name: 'backend' }, { name: 'shape' }, { name: 'dtype' },
      { name: 'reads' }, { name: 'count' }, { name: 'ns', show: words.ns }, { name: 'bytes', show: words.bytes }], rows };
  },
};

/* A choice between the plans; first the one that took most time. Views of one plan share it. */
const shownPlan = { index: null, boxes: [] };
function planPicker(tools, changed) {
  const time = trace.plans.map(() => 0), count = trace.plans.map(() => 0), s = trace.steps;
  for (let i = 0; i < s.n; i++) { time[s.plan[i]] += Math.max(0, s.ns[i]); count[s.plan[i]]++; }
  if (shownPlan.index === null) shownPlan.index = time.indexOf(Math.max(...time));
  const box = el('select', { ariaLabel: 'plan' }, ...trace.plans.map(p => el('option', { value: p.index }, `${p.id}: ${p.n} nodes, ${count[p.index]} steps`)));
  box.value = shownPlan.index;
  shownPlan.boxes.push([box, changed]);
  box.addEventListener('change', () => { shownPlan.index = +box.value; for (const [other, fn] of shownPlan.boxes) { other.value = box.value; fn(); } });
  if (trace.plans.length > 1) tools.append(el('label', {}, 'plan'), box);
  return () => trace.plans[shownPlan.index];
}
