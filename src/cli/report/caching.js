/* SPDX-License-Identifier: MIT */
/* caching.js -- what a step would read from disk with less memory for weights, by what is kept: played back from the recorded
 * order of use (qn_trace_get_curves). It is what would be, not what was. */
'use strict';

const cachingView = {
  id: 'caching', title: 'Caching', half: true, about: 'bytes read from disk a step, if so much of the weights stayed in memory: played back from the recorded order of use',
  needs: () => trace.parts.curves ? null : missing('what less memory would cost.', 'Record at least two steps of a model whose file is mapped.'),
  COLOURS: [2, 3, 4, 8],
  build(box) {
    const tools = el('div', { className: 'tools' }), again = () => { this.say(); this.chart.redraw(); };
    this.c = trace.parts.curves;
    this.points = this.c.memory.length;
    this.slider = el('input', { type: 'range', min: 0, max: 1000, value: options.get('memory', 750), ariaLabel: 'memory for weights', oninput: () => { options.set('memory', this.slider.value); again(); } });
    this.disk = el('input', { type: 'number', min: 0.05, step: 0.05, value: options.get('disk', ''), placeholder: '?', ariaLabel: 'GB a second that the disk reads', oninput: () => { options.set('disk', this.disk.value); again(); } });
    tools.append(el('label', {}, 'I have', this.slider), el('label', {}, 'my disk reads', this.disk, 'GB/s'));
    box.append(tools);
    this.chart = new Chart(box, { height: 250, label: 'Hit curves', paint: (g, w, h, c) => this.paint(g, w, h, c) });
    this.said = el('p', { className: 'missing' });
    box.append(this.said);
    this.say();
  },
  room() { return this.c.used[0] * +this.slider.value / 1000; },
  /* Bytes that a step reads, by a policy, at a point or between two. */
  at(policy, p) { return this.c.read[policy * this.points + p] / this.c.steps[0]; },
  between(policy, room) {
    const m = this.c.memory;
    let p = 1;
    while (p < this.points - 1 && m[p] < room) p++;
    const t = m[p] > m[p - 1] ? Math.max(0, Math.min(1, (room - m[p - 1]) / (m[p] - m[p - 1]))) : 0;
    return this.at(policy, p - 1) + (this.at(policy, p) - this.at(policy, p - 1)) * t;
  },
  stepNs() {
    const phase = trace.stats.phases.decode && trace.stats.phases.decode.steps > 1 ? trace.stats.phases.decode : null;
    const all = phase ? [phase] : Object.values(trace.stats.phases), steps = all.reduce((a, p) => a + p.steps, 0);
    return steps ? all.reduce((a, p) => a + p.ns, 0) / steps : 0;
  },
  say() {
    const room = this.room(), disk = +this.disk.value, ns = this.stepNs(), c = this.c, touched = c.touched[0] / c.steps[0];
    const list = show => c.policy.map((name, k) => `${show(this.between(k, room))} (${name})`).join(', ');
    this.said.replaceChildren(el('b', {}, `With ${words.bytes(room)} of ${words.bytes(c.used[0])}, `), `a step that touches ${words.bytes(touched)} would read ${list(words.bytes)}. ` +
      (disk > 0 && ns > 0 ? `At ${disk} GB/s, with nothing read ahead: ${list(b => (1e9 / (ns + b / disk)).toFixed(2) + ' steps/s')}.`
        : 'Steps a second: how fast your disk reads is not measured; fill it in.') + ` From ${c.steps[0]} steps.`);
  },
  paint(g, w, h, chart) {
    const c = this.c, left = 62, bottom = 30, room = w - left - 12, used = c.used[0] || 1, most = Math.max(1, ...c.policy.map((_, k) => this.at(k, 0)));
    const X = b => left + b / used * room, Y = b => h - bottom - b / most * (h - bottom - 22);
    g.textAlign = 'right';
    for (const t of ticks(0, most, 4).at) {
      g.strokeStyle = colour.css('grid');
      g.beginPath(); g.moveTo(left, Math.round(Y(t)) + 0.5); g.lineTo(w - 12, Math.round(Y(t)) + 0.5); g.stroke();
      g.fillStyle = colour.css('faint');
      g.fillText(words.bytes(t), left - 5, Y(t));
    }
    g.textAlign = 'center';
    for (let k = 0; k <= 4; k++) g.fillText(words.bytes(used * k / 4), Math.min(X(used * k / 4), w - 28), h - bottom + 10);
    g.fillText('memory for weights', left + room / 2, h - 7);
    g.textAlign = 'left';
    let at = left; // of the name
    c.policy.forEach((name, k) => {
      g.strokeStyle = g.fillStyle = colour.of(this.COLOURS[k % 4]);
      g.lineWidth = 2;
      g.setLineDash([[], [9, 3, 2, 3], [2, 2], [6, 3]][k % 4]);
      g.beginPath();
      for (let p = 0; p < this.points; p++) g[p ? 'lineTo' : 'moveTo'](X(c.memory[p]), Y(this.at(k, p)));
      g.stroke();
      g.fillRect(at, 4, 12, 3);
      g.fillText(name, at + 16, 7);
      at += g.measureText(name).width + 28;
      for (let p = 0; p < this.points; p++) chart.hit(X(c.memory[p]) - 6, Y(this.at(k, p)) - 6, 12, 12, `${name}: ${c.text[k]}\n${words.bytes(this.at(k, p))} read a step with ${words.bytes(c.memory[p])}`);
    });
    g.setLineDash([]);
    g.strokeStyle = colour.css('accent');
    g.lineWidth = 1.5;
    const x = X(this.room());
    g.beginPath(); g.moveTo(x, 14); g.lineTo(x, h - bottom); g.stroke();
    g.lineWidth = 1;
  },
  table() {
    const c = this.c;
    return { columns: [{ name: 'memory', show: words.bytes }, ...c.policy.map(name => ({ name: 'read a step, ' + name, show: words.bytes }))],
      rows: Array.from(c.memory, (m, p) => [m, ...c.policy.map((_, k) => this.at(k, p))]) };
  },
};
