/* SPDX-License-Identifier: MIT */
/* values.js -- what values were: a role's layers by tokens; below, what each layer would say (lens.js). */
'use strict';

/* "ffn_res" of "ffn_res-3". */
const roleOf = key => key.replace(/-\d+$/, '');
const finite = x => x === x && Math.abs(x) !== Infinity;
const short = x => x === x ? Number(x.toPrecision(4)).toString() : 'none is finite';

/* Rows of values by node, summed up over steps, as src/cli/trace_values.c does it. */
function sumValues(from, to) {
  const v = trace.values, nodes = trace.nodes, of = new Map();
  for (let k = 0; k < v.n; k++) {
    if (v.step[k] < from || v.step[k] > to) continue;
    const key = nodes.key[trace.plans[trace.steps.plan[v.step[k]]].base + v.node[k]];
    let s = of.get(key);
    if (!s) of.set(key, s = { name: key, rows: 0, min: Infinity, max: -Infinity, sum: 0, squares: 0, n: 0, peak: -1, nan: 0, inf: 0, zero: 0, channel: -1 });
    for (let r = v.at[k]; r < v.at[k + 1]; r++) {
      const n = v.size[k] - v.nan[r] - v.inf[r], peak = Math.max(v.max[r], -v.min[r]);
      s.rows++;
      s.nan += v.nan[r];
      s.inf += v.inf[r];
      s.zero += v.zero[r];
      if (n <= 0 || ![v.min[r], v.max[r], v.mean[r], v.rms[r]].every(finite)) continue;
      s.min = Math.min(s.min, v.min[r]);
      s.max = Math.max(s.max, v.max[r]);
      s.n += n;
      s.sum += v.mean[r] * n;
      s.squares += v.rms[r] * v.rms[r] * n;
      if (peak > s.peak) { s.peak = peak; s.channel = v.channel[r]; }
    }
  }
  for (const s of of.values()) {
    const known = s.n > 0;
    s.mean = known ? s.sum / s.n : null;
    s.rms = known ? Math.sqrt(s.squares / s.n) : null;
    if (!known) s.min = s.max = null;
  }
  return [...of.values()];
}

/* Of the selected steps; all of them: what stats says. */
const valueSums = {
  key: null, kept: null, of: null,
  rows() {
    const key = selection.steps ? selection.steps.join('-') : 'all';
    if (this.key !== key) {
      this.kept = !trace.values ? [] : selection.steps ? sumValues(...selection.steps) : trace.stats.values;
      this.of = new Map(this.kept.map(r => [r.name, r]));
      this.key = key;
    }
    return this.kept;
  },
  find(name) { this.rows(); return this.of.get(name); },
};

const valuesView = {
  id: 'values', title: 'Values', about: 'what values were: layers by tokens of the selected steps; and what each layer would say',
  needs: () => trace.values || trace.parts.lens ? null
    : missing('a recording holds times, and values when it is asked for them.', 'quern run MODEL PROMPT --trace FILE --trace-values \'*\' records what each value was like; quern lens MODEL PROMPT --json, and quern trace report FILE --lens FILE, add what each layer would say.'),
  build(box) {
    if (trace.values) this.buildValues(box);
    else box.append(missing('what values were.', 'Record with --trace-values \'*\'.'));
    if (lens.data()) lens.build(box);
    else if (trace.parts.lens) box.append(missing('what each layer would say: the lens of this report can\'t be read.'));
    else box.append(missing('what each layer would say.', 'quern lens MODEL PROMPT --json -o lens.json; quern trace report FILE --lens lens.json.'));
  },
  buildValues(box) {
    const tools = el('div', { className: 'tools' }), roles = this.roles();
    this.role = roles.includes('ffn_res') ? 'ffn_res' : roles[0];
    this.pick = el('select', { ariaLabel: 'role' }, ...roles.map(r => el('option', { value: r }, r)));
    this.pick.value = this.role;
    this.pick.addEventListener('change', () => { this.role = this.pick.value; this.gather(); this.chart.redraw(); });
    tools.append(el('label', {}, 'value'), this.pick);
    this.by = choose(tools, 'colour', 'values', ['rms', 'peak', 'mean', 'zeros'], () => this.chart.redraw());
    this.said = el('span');
    tools.append(this.said);
    box.append(tools);
    this.gather();
    this.chart = new Chart(box, { height: () => 40 + this.layers.length * Math.max(10, Math.min(24, 300 / this.layers.length)), label: 'Values by layer and token', name: 'values', paint: (g, w, h, c) => this.paint(g, w, h, c) });
  },
  roles() {
    const v = trace.values, out = new Set();
    for (let k = 0; k < v.n; k++) out.add(roleOf(trace.nodes.key[trace.plans[trace.steps.plan[v.step[k]]].base + v.node[k]]));
    return [...out];
  },
  selected() {
    if (!trace.values) return;
    if (selection.node !== null && valueSums.find(selection.node)) this.role = roleOf(selection.node);
    this.pick.value = this.role;
    this.gather();
  },
  /* Rows of the role: by layer, then by step and token. */
  gather() {
    const v = trace.values, nodes = trace.nodes, [from, to] = stepRange(), of = new Map(), columns = new Map();
    for (let k = 0; k < v.n; k++) {
      if (v.step[k] < from || v.step[k] > to) continue;
      const i = trace.plans[trace.steps.plan[v.step[k]]].base + v.node[k];
      if (roleOf(nodes.key[i]) !== this.role) continue;
      if (!of.has(nodes.layer[i])) of.set(nodes.layer[i], { layer: nodes.layer[i], key: nodes.key[i], cells: new Map() });
      for (let r = v.at[k]; r < v.at[k + 1]; r++) {
        const at = v.step[k] * 16777216 + v.item[r] + 1;
        if (!columns.has(at)) columns.set(at, { at, step: v.step[k], item: v.item[r] });
        of.get(nodes.layer[i]).cells.set(at, { r, size: v.size[k] });
      }
    }
    this.layers = [...of.values()].sort((a, b) => a.layer - b.layer);
    this.columns = [...columns.values()].sort((a, b) => a.at - b.at);
  },
  measure(cell) {
    const v = trace.values, r = cell.r;
    return { rms: () => v.rms[r], peak: () => Math.max(v.max[r], -v.min[r]), mean: () => Math.abs(v.mean[r]), zeros: () => v.zero[r] / cell.size }[this.by()]();
  },
  token(c) {
    const s = trace.steps;
    if (c.item < 0) return `step ${s.number[c.step]}`;
    const at = s.tokenAt[c.step] + c.item, id = s.has_tokens[c.step] ? s.token[at] : null;
    return `step ${s.number[c.step]}, position ${s.pos[at]}` + (id === null ? '' : `, token ${id}${lens.word(id)}`);
  },
  /* From the least to the greatest that is shown, by factors where they are far apart. */
  scale(shown) {
    let lo = Infinity, hi = -Infinity;
    for (const l of this.layers) for (const c of shown) {
      const cell = l.cells.get(c.at), x = cell ? this.measure(cell) : NaN;
      if (!finite(x)) continue;
      lo = Math.min(lo, x);
      hi = Math.max(hi, x);
    }
    const wide = lo > 0 && hi > 8 * lo;
    this.said.textContent = hi < lo ? '' : `${this.by()} from ${short(lo)} to ${short(hi)}${wide ? ', by factors' : ''}`;
    return x => hi <= lo ? 0.5 : wide ? Math.log(x / lo) / Math.log(hi / lo) : (x - lo) / (hi - lo);
  },
  paint(g, w, h, chart) {
    const left = 74, room = w - left - 4, tall = (h - 22) / Math.max(1, this.layers.length), marks = marked();
    const most = Math.max(1, Math.min(this.columns.length, Math.floor(room / 3))), width = Math.min(40, room / most), shown = this.columns.slice(-most), share = this.scale(shown);
    this.layers.forEach((l, row) => {
      const y = row * tall, on = marks.has(l.key);
      shown.forEach((c, k) => {
        const cell = l.cells.get(c.at);
        if (cell) this.paintCell(g, left + k * width, y, width, tall, l, c, cell, share, chart);
      });
      g.fillStyle = colour.css(on ? 'accent' : 'faint');
      g.fillText(l.layer < 0 ? fit(g, l.key, left - 8) : 'layer ' + l.layer, 4, y + tall / 2);
      if (on) { g.strokeStyle = colour.css('mark'); g.lineWidth = 2; g.strokeRect(left - 1, y + 0.5, width * shown.length + 1, tall - 1); g.lineWidth = 1; }
    });
    g.fillStyle = colour.css('faint');
    g.fillText(this.columns.length > most ? `the last ${most} of ${this.columns.length} tokens` : `${this.columns.length} tokens`, left, h - 9);
  },
  paintCell(g, x, y, width, tall, l, c, cell, share, chart) {
    const v = trace.values, r = cell.r, bad = v.nan[r] + v.inf[r], value = this.measure(cell), gap = width > 4 ? 0.7 : 0;
    g.fillStyle = bad ? colour.css('bad') : finite(value) ? heat('c2', share(value)) : colour.css('grid');
    g.fillRect(x, y, Math.max(0.6, width - gap), tall - (tall > 4 ? 0.7 : 0));
    if (bad && width > 7 && tall > 8) { g.fillStyle = colour.css('raised'); g.fillText('×', x + width / 2 - 3, y + tall / 2); }
    const here = selection.steps && selection.steps[0] === c.step && selection.steps[1] === c.step;
    chart.hit(x, y, width, tall, () => `${l.key}, ${this.token(c)}\nrms ${short(v.rms[r])}, mean ${short(v.mean[r])}, ${short(v.min[r])} to ${short(v.max[r])}` +
      (v.channel[r] >= 0 ? `\nthe greatest at channel ${v.channel[r]} of ${cell.size}` : '') + (v.zero[r] ? `\n${v.zero[r]} are 0` : '') + (bad ? `\n${v.nan[r]} NaN, ${v.inf[r]} infinite` : ''),
      () => select({ node: l.key, steps: here ? null : [c.step, c.step] }));
  },
  table() {
    if (!trace.values) return lens.table();
    const names = ['rows', 'min', 'max', 'mean', 'rms', 'nan', 'inf', 'zero', 'channel'], rounded = new Set(['min', 'max', 'mean', 'rms']);
    return { columns: [{ name: 'name', pick: pickNode, isNode: true }, ...names.map(name => ({ name, show: rounded.has(name) ? short : undefined }))],
      rows: valueSums.rows().map(r => [safe(r.name), ...names.map(name => r[name] ?? '')]) };
  },
};
