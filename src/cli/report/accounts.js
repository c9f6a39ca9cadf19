/* SPDX-License-Identifier: MIT */
/* accounts.js -- every nanosecond of every thread in one account: a stacked bar a step, and the sum. Dragging selects steps
 * for all views. */
'use strict';

const accountsView = {
  id: 'accounts', title: 'Accounts', about: 'every nanosecond of every thread, step by step; drag over steps to select them for all views',
  needs: () => trace.steps.n ? null : missing('no steps are in this trace.', 'Record a run of a model.'),
  build(box) {
    const tools = el('div', { className: 'tools' });
    this.form = choose(tools, 'bars', 'bars', ['time', 'share'], () => this.chart.redraw());
    this.list = el('ul', { className: 'legend' });
    box.append(tools);
    this.sum = new Chart(box, { height: 26, label: 'The sum of the accounts', paint: (g, w, h, c) => this.paintSum(g, w, h, c) });
    box.append(this.list);
    this.chart = new Chart(box, { height: 170, label: 'Accounts, a bar a step', paint: (g, w, h, c) => this.paint(g, w, h, c), drag: (...a) => this.brush(...a) });
    this.selected();
  },
  recolour() { this.selected(); },
  selected() {
    const values = accountSums(), total = values.reduce((a, b) => a + b, 0);
    legend(this.list, trace.accounts.map((a, k) => [colour.of(this.colours[k] ?? k), a.text.replace(/:.*/, ''), values[k] === null ? 'not measured' : words.percent(total > 0 ? values[k] / total : 0)]));
  },
  colours: [0, 1, 4, 3, 5, 7, 2, 9, 6, 8],
  paintSum(g, w, h, chart) {
    const values = accountSums(), total = values.reduce((a, b) => a + Math.max(0, b), 0);
    let x = 0;
    values.forEach((v, k) => {
      if (v === null) return;
      const part = total > 0 ? Math.max(0, v) / total * w : 0;
      g.fillStyle = colour.of(this.colours[k] ?? k);
      g.fillRect(x, 0, Math.max(0, part - (part > 3 ? 1 : 0)), h);
      g.fillStyle = '#14171c';
      const text = fit(g, `${trace.accounts[k].name} ${words.percent(v / total)}`, part - 8);
      if (text) g.fillText(text, x + 5, h / 2 + 1);
      chart.hit(x, 0, part, h, `${trace.accounts[k].text}\n${words.ns(v)}, ${words.percent(v / total)}`);
      x += part;
    });
  },
  /* Steps share a column of pixels when there are more of them: what is drawn is their sum. */
  paint(g, w, h, chart) {
    const s = trace.steps, left = 52, bottom = 16, room = w - left, n = s.n, bars = Math.min(n, Math.floor(room / 2)), share = this.form() === 'share';
    const sums = Array.from({ length: bars }, () => new Float64Array(s.accounts.length + 1));
    for (let i = 0; i < n; i++) {
      const bar = sums[Math.floor(i * bars / n)];
      for (let k = 0; k < s.accounts.length; k++) { const v = Math.max(0, s.accounts[k][i]); bar[k] += v; bar[s.accounts.length] += v; }
    }
    const perStep = b => Math.max(1, Math.ceil((b + 1) * n / bars) - Math.ceil(b * n / bars));
    const height = b => sums[b][s.accounts.length] / perStep(b);
    const sorted = sums.map((_, b) => height(b)).sort((a, b) => a - b);
    const most = sorted[bars - 1], top = share ? 1 : Math.min(most, sorted[Math.floor(bars * 0.98)] * 1.6) || 1, scale = (h - bottom - 8) / top;
    g.strokeStyle = colour.css('grid');
    g.fillStyle = colour.css('faint');
    g.textAlign = 'right';
    for (const t of ticks(0, top, 3).at) {
      const y = Math.round(h - bottom - t * scale) + 0.5;
      g.beginPath(); g.moveTo(left, y); g.lineTo(w, y); g.stroke();
      g.fillText(share ? (t * 100).toFixed(0) + ' %' : t ? words.ns(t).replace(/\.?0+ /, ' ') : '0', left - 5, y);
    }
    g.textAlign = 'left';
    const width = room / bars;
    for (let b = 0; b < bars; b++) {
      const total = sums[b][s.accounts.length], x = left + b * width;
      let y = h - bottom;
      for (let k = 0; k < s.accounts.length; k++) {
        const part = (share ? (total > 0 ? sums[b][k] / total : 0) : sums[b][k] / perStep(b)) * scale;
        g.fillStyle = colour.of(this.colours[k] ?? k);
        g.fillRect(x, Math.max(8, y - part), Math.max(width - (width > 4 ? 1 : 0), 0.6), Math.min(part, y - 8));
        y -= part;
        if (y < 8) break;
      }
      const from = Math.ceil(b * n / bars), to = Math.max(from, Math.ceil((b + 1) * n / bars) - 1);
      chart.hit(x, 0, width, h, () => this.words(from, to, sums[b]), () => select({ steps: [from, to] }));
    }
    g.fillStyle = colour.css('faint');
    for (const t of ticks(0, n - 1, Math.max(2, room / 90)).at) {
      if (t !== Math.round(t) || t >= n) continue;
      g.fillText(String(s.number[t]), left + (t / n) * room, h - 6);
    }
    this.paintBrush(g, left, room, h - bottom);
    this.geometry = { left, room };
  },
  paintBrush(g, left, room, h) {
    const range = this.brushed || selection.steps, n = trace.steps.n;
    if (!range) return;
    const x = left + range[0] / n * room, width = Math.max(2, (range[1] - range[0] + 1) / n * room);
    g.fillStyle = colour.css('ground');
    g.globalAlpha = 0.6;
    g.fillRect(left, 0, x - left, h);
    g.fillRect(x + width, 0, left + room - x - width, h);
    g.globalAlpha = 1;
    g.strokeStyle = colour.css('accent');
    g.lineWidth = 1.5;
    g.strokeRect(x, 1, width, h - 1);
    g.lineWidth = 1;
  },
  words(from, to, sums) {
    const s = trace.steps, names = trace.accounts;
    const rows = Array.from(names, (a, k) => [a.name, sums[k]]).filter(r => r[1] > 0).sort((a, b) => b[1] - a[1]);
    return `step ${stepWords([from, to])}\n` + rows.map(([name, v]) => `${name} ${words.percent(v / sums[names.length])}, ${words.ns(v)}`).join('\n') +
      (from === to && s.has_tokens[from] ? `\ntoken ${s.token[s.tokenAt[from]]} at ${s.pos[s.tokenAt[from]]}` : '');
  },
  brush(what, x0, x1) {
    const { left, room } = this.geometry, n = trace.steps.n;
    const at = x => Math.max(0, Math.min(n - 1, Math.floor((x - left) / room * n)));
    if (what === 'down') return;
    this.brushed = [at(Math.min(x0, x1)), at(Math.max(x0, x1))];
    if (what === 'up') { const range = this.brushed; this.brushed = null; select({ steps: range }); }
    else this.chart.redraw();
  },
  table() {
    const values = accountSums(), total = values.reduce((a, b) => a + b, 0);
    return { columns: [{ name: 'account' }, { name: 'ns', show: words.ns }, { name: 'share', show: words.percent }, { name: 'what it is' }],
      rows: trace.accounts.map((a, k) => values[k] === null ? [a.name, 'not measured', '', a.text] : [a.name, values[k], total > 0 ? values[k] / total : 0, a.text]) };
  },
};
