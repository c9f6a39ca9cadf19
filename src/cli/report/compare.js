/* SPDX-License-Identifier: MIT */
/* compare.js -- two traces: what takes longer, by name; as quern trace diff. */
'use strict';

const compareView = {
  id: 'compare', title: 'Compare', about: 'what takes longer in this trace than in the other, by operation, layer or node',
  needs: () => trace.other ? null : el('p', { className: 'missing' }, el('b', {}, 'One trace: '), 'quern trace report THIS OTHER shows what differs.'),
  build(box) {
    const tools = el('div', { className: 'tools' }), again = () => { this.chart.redraw(); for (const t of this.tables || []) t.redraw(); };
    this.by = choose(tools, 'by', 'compare', ['operations', 'layers', 'nodes'], again);
    tools.append(el('span', { className: 'mono' }, `this: ${safe(trace.overview.path[0])}   other: ${safe(trace.other.path)}`));
    box.append(tools, this.phases(), this.values());
    this.chart = new Chart(box, { height: () => 24 + Math.min(24, this.rows().length) * 22, label: 'What differs', paint: (g, w, h, c) => this.paint(g, w, h, c) });
  },
  phases() {
    const out = el('div', { className: 'figures' }), mine = trace.stats.phases, theirs = trace.other.stats.phases;
    for (const name of Object.keys(mine)) {
      if (!theirs[name] || !mine[name].steps || !theirs[name].steps) continue;
      const a = theirs[name].ns / theirs[name].steps, b = mine[name].ns / mine[name].steps;
      out.append(el('div', { className: 'figure' }, el('b', {}, `${words.ns(b)}`), el('span', {}, `a step of ${name}; ${words.ns(a)} in the other, ${(b / a).toFixed(3)} times`)));
    }
    return out;
  },
  /* Of two traces with hashes of values: which differs first. */
  values() {
    const d = trace.other.difference;
    if (!d || !d.compared[0]) return missing('which value differs first.', 'Record both with --trace-hash.');
    return el('p', { className: 'missing' }, el('b', {}, 'Values: '), `${words.count(d.differ[0])} of ${words.count(d.compared[0])} rows that both have differ. ` +
      (d.key ? `The first is ${safe(d.key[0])}, step ${d.step[0]}.` : ''));
  },
  rows() {
    const mine = trace.stats[this.by()], theirs = new Map(trace.other.stats[this.by()].map(r => [r.name, r])), out = [];
    const pair = (name, a, b) => out.push({ name, a, b, change: (b ? b.ns : 0) - (a ? a.ns : 0) });
    for (const r of mine) { pair(r.name, theirs.get(r.name), r); theirs.delete(r.name); }
    for (const [name, r] of theirs) pair(name, r, undefined);
    return out.sort((x, y) => Math.abs(y.change) - Math.abs(x.change));
  },
  paint(g, w, h, chart) {
    const rows = this.rows().slice(0, 24), marks = marked(), names = Math.min(190, w * 0.35), mid = names + (w - names) / 2, half = (w - names) / 2 - 70;
    const most = Math.max(1, ...rows.map(r => Math.abs(r.change)));
    g.fillStyle = colour.css('faint');
    g.textAlign = 'right';
    g.fillText('faster here', mid - 8, 8);
    g.textAlign = 'left';
    g.fillText('slower here', mid + 8, 8);
    rows.forEach((r, k) => {
      const y = 20 + k * 22, width = Math.abs(r.change) / most * half, x = r.change < 0 ? mid - width : mid, isNode = this.by() === 'nodes';
      g.fillStyle = colour.css('text');
      g.textAlign = 'left';
      g.fillText(fit(g, isNode || this.by() === 'operations' ? r.name : r.name === 'outside of layers' ? r.name : 'layer ' + r.name, names - 8), 2, y + 9);
      g.fillStyle = r.change < 0 ? colour.of(2) : colour.of(3);
      g.fillRect(x, y, Math.max(1, width), 16);
      if (isNode && marks.has(r.name)) { g.strokeStyle = colour.css('mark'); g.lineWidth = 2; g.strokeRect(x, y, Math.max(1, width), 16); g.lineWidth = 1; }
      g.fillStyle = colour.css('text');
      g.textAlign = r.change < 0 ? 'right' : 'left';
      g.fillText((r.change < 0 ? '−' : '+') + words.ns(Math.abs(r.change)), r.change < 0 ? x - 5 : x + width + 5, y + 9);
      g.textAlign = 'left';
      chart.hit(0, y - 2, w, 20, () => this.words(r), isNode ? () => select({ node: r.name }) : undefined);
    });
  },
  words(r) {
    const each = x => x ? `${words.ns(x.ns / x.count)} each of ${x.count}, ${words.bytes(x.bytes / x.count)}` : 'not there';
    return `${r.name}\nother: ${each(r.a)}\nthis: ${each(r.b)}`;
  },
  table() {
    const of = (x, field) => x ? x[field] / x.count : 0;
    return { columns: [{ name: 'name', pick: this.by() === 'nodes' ? pickNode : undefined, isNode: this.by() === 'nodes' }, { name: 'count other' }, { name: 'count this' },
      { name: 'ns other', show: words.ns }, { name: 'ns this', show: words.ns }, { name: 'bytes other', show: words.bytes }, { name: 'bytes this', show: words.bytes }, { name: 'change ns', show: words.ns }],
      rows: this.rows().map(r => [r.name, r.a ? r.a.count : 0, r.b ? r.b.count : 0, of(r.a, 'ns'), of(r.b, 'ns'), of(r.a, 'bytes'), of(r.b, 'bytes'), r.change]) };
  },
};
