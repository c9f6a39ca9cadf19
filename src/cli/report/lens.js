/* SPDX-License-Identifier: MIT */
/* lens.js -- what quern lens said of a prompt: what each layer would say, token by token, and whom heads look at. A part of
 * the Values view. */
'use strict';

const lens = {
  kept: undefined,
  /* null: there is none, or it is not what it should be. */
  data() {
    if (this.kept !== undefined || !trace.parts.lens) return this.kept ?? null;
    try {
      this.kept = this.checked(JSON.parse(trace.parts.lens.json[0]));
    } catch { this.kept = null; }
    return this.kept;
  },
  checked(d) {
    const n = d.tokens.length, list = (x, size) => Array.isArray(x) && x.length === size;
    const layer = l => Number.isInteger(l.layer) && ['entropy', 'rank', 'p', 'rms', 'max', 'channel', 'top'].every(f => list(l[f], n)) && l.top.every(Array.isArray);
    const heads = l => Number.isInteger(l.layer) && Array.isArray(l.heads) && l.heads.every(h => list(h, n * n));
    if (n === 0 || !list(d.next, n) || !d.words || typeof d.words !== 'object' || !d.layers.length || !d.layers.every(layer)) return null;
    if (d.attention && !d.attention.every(heads)) return null;
    return d;
  },
  /* " (word)" of a token, or nothing. */
  word(id) { const d = this.data(), w = d && d.words && d.words[id]; return typeof w === 'string' ? ` “${safe(w)}”` : ''; },
  text(id) { const w = this.data().words[id]; return typeof w === 'string' ? safe(w.replaceAll('\n', '↵')) : id < 0 ? '' : String(id); },
  build(box) {
    const d = this.data(), tools = el('div', { className: 'tools' });
    this.first = 0;
    tools.append(el('b', {}, 'Lens'));
    this.by = choose(tools, 'colour', 'lens', ['what came', 'the likeliest', 'entropy'], () => this.chart.redraw());
    this.slide = el('input', { type: 'range', min: 0, max: d.tokens.length - 1, value: 0, ariaLabel: 'first token' });
    this.slide.addEventListener('input', () => { this.first = +this.slide.value; this.chart.redraw(); });
    this.slider = el('label', {}, 'from token', this.slide);
    tools.append(this.slider);
    box.append(tools);
    this.chart = new Chart(box, { height: () => 34 + d.layers.length * 19, label: 'What each layer would say', name: 'lens', paint: (g, w, h, c) => this.paint(g, w, h, c) });
    if (d.attention && d.attention.length) this.buildAttention(box);
    else box.append(missing('whom heads look at.', 'quern lens --attention --json.'));
    this.rows = new Table(box, () => this.table());
  },
  /* Entropy; of a long prompt there are more values than a call takes. */
  highest: layers => layers.reduce((a, l) => l.entropy.reduce((b, x) => Math.max(b, x ?? 0), a), 1e-9),
  paint(g, w, h, chart) {
    const d = this.data(), n = d.tokens.length, left = 74, least = 62, fits = Math.max(1, Math.floor((w - left - 4) / least)), shown = Math.min(n, fits);
    this.slider.hidden = shown === n;
    this.slide.max = String(n - shown);
    const from = Math.min(this.first, n - shown), width = Math.min(130, (w - left - 4) / shown), by = this.by();
    const most = this.highest(d.layers);
    for (let k = 0; k < shown; k++) {
      g.fillStyle = colour.css('text');
      g.fillText(fit(g, this.text(d.tokens[from + k]), width - 6) || '·', left + k * width + 3, 9);
    }
    d.layers.forEach((l, row) => {
      const y = 18 + row * 19;
      g.fillStyle = colour.css('faint');
      g.fillText('layer ' + l.layer, 4, y + 9);
      for (let k = 0; k < shown; k++) {
        const t = from + k, x = left + k * width, share = by === 'entropy' ? l.entropy[t] / most : by === 'what came' ? l.p[t] : l.top[t][1];
        g.fillStyle = heat('c0', share);
        g.fillRect(x, y, width - 1, 18);
        g.fillStyle = colour.css('text');
        g.fillText(fit(g, this.text(l.top[t][0]), width - 6), x + 3, y + 9);
        chart.hit(x, y, width, 18, () => this.tell(l, t));
      }
    });
    g.fillStyle = colour.css('faint');
    g.fillText(fit(g, 'the prompt, and below it what each layer finds likeliest to come next', w - left), left, h - 7);
  },
  tell(l, t) {
    const d = this.data(), top = [];
    for (let k = 0; k + 1 < l.top[t].length; k += 2) top.push(`${this.text(l.top[t][k])}  ${words.percent(l.top[t][k + 1] ?? NaN)}`);
    return `layer ${l.layer}, position ${t}, after ${this.text(d.tokens[t])}\n${top.join('\n')}\nwhat came, ${this.text(d.next[t])}: ${words.percent(l.p[t] ?? NaN)}, rank ${l.rank[t]}\nentropy ${(l.entropy[t] ?? NaN).toFixed(2)} bits; rms ${short(l.rms[t] ?? NaN)}, greatest ${short(l.max[t] ?? NaN)} at channel ${l.channel[t]}`;
  },
  /* ---- attention: a row is what a token gives each token to look at ---- */
  buildAttention(box) {
    const d = this.data(), tools = el('div', { className: 'tools' }), again = () => { this.fillHeads(); this.matrix.redraw(); };
    this.layer = el('select', { ariaLabel: 'layer' }, ...d.attention.map((l, k) => el('option', { value: k }, String(l.layer))));
    this.head = el('select', { ariaLabel: 'head' });
    this.layer.addEventListener('change', again);
    this.head.addEventListener('change', () => this.matrix.redraw());
    tools.append(el('b', {}, 'Attention'), el('label', {}, 'layer', this.layer), el('label', {}, 'head', this.head));
    box.append(tools);
    this.fillHeads();
    this.matrix = new Chart(box, { height: w => Math.min(420, 30 + d.tokens.length * Math.min(18, (w - 90) / d.tokens.length)), label: 'Attention by head', name: 'attention', paint: (g, w, h, c) => this.paintHeads(g, w, h, c) });
  },
  fillHeads() {
    const l = this.data().attention[+this.layer.value], now = this.head.value;
    this.head.replaceChildren(...l.heads.map((_, k) => el('option', { value: k }, String(k))), el('option', { value: 'mean' }, 'mean'));
    if (now !== '' && (now === 'mean' || +now < l.heads.length)) this.head.value = now;
  },
  paintHeads(g, w, h, chart) {
    const d = this.data(), l = d.attention[+this.layer.value], n = d.tokens.length, left = 84, size = Math.min((w - left) / n, (h - 24) / n);
    const at = this.head.value === 'mean' ? k => l.heads.reduce((a, x) => a + (x[k] ?? 0), 0) / (l.heads.length || 1) : k => l.heads[+this.head.value][k] ?? 0;
    for (let i = 0; i < n; i++) {
      g.fillStyle = colour.css('faint');
      if (size > 8) g.fillText(fit(g, this.text(d.tokens[i]), left - 8), 4, i * size + size / 2);
      for (let j = 0; j <= i; j++) {
        const weight = at(i * n + j);
        g.fillStyle = heat('c3', Math.sqrt(Math.max(0, weight)));
        g.fillRect(left + j * size, i * size, Math.max(0.6, size - (size > 4 ? 0.6 : 0)), Math.max(0.6, size - (size > 4 ? 0.6 : 0)));
        chart.hit(left + j * size, i * size, size, size, () => `${this.text(d.tokens[i])} (${i}) gives ${this.text(d.tokens[j])} (${j}) ${words.percent(weight)}`);
      }
    }
    g.fillStyle = colour.css('faint');
    g.fillText('rows: who looks; columns: at whom', left, n * size + 12);
  },
  table() {
    const d = this.data(), rows = [];
    for (const l of d ? d.layers : [])
      d.tokens.forEach((id, t) => rows.push([l.layer, t, this.text(id), this.text(d.next[t]), l.rank[t] ?? '', l.p[t] ?? '', l.entropy[t] ?? '', this.text(l.top[t][0] ?? -1), l.top[t][1] ?? '',
        l.rms[t] ?? '', l.max[t] ?? '', l.channel[t] ?? '']));
    return { columns: [{ name: 'layer' }, { name: 'position' }, { name: 'token' }, { name: 'came' }, { name: 'rank' }, { name: 'p', show: words.percent }, { name: 'entropy', show: short }, { name: 'likeliest' },
      { name: 'p of it', show: words.percent }, { name: 'rms', show: short }, { name: 'max', show: short }, { name: 'channel' }], rows };
  },
};
