/* SPDX-License-Identifier: MIT */
/* roofline.js -- a dot a node: operations a byte against operations a second, the area its time; the roof is what this
 * machine did at its best in this run. */
'use strict';

const powerOf10 = e => e < -2 || e > 4 ? '1e' + e : e < 0 ? (10 ** e).toPrecision(1) : String(10 ** e);

const rooflineView = {
  id: 'roofline', title: 'Roofline', about: 'a dot a node, its area the time; below the slope memory bounds it, below the flat roof arithmetic', half: true,
  needs: () => trace.stats.read_gb_s > 0 && trace.stats.gops > 0 ? null
    : missing('no node both read and computed.', 'Record without --trace-ops, a model and not a tensor program without products.'),
  build(box) {
    this.chart = new Chart(box, { height: 330, label: 'Roofline', paint: (g, w, h, c) => this.paint(g, w, h, c) });
  },
  paint(g, w, h, chart) {
    const { read_gb_s: read, gops } = trace.stats, left = 46, bottom = 30, top = 10, right = 10;
    const rows = sums().nodes.filter(r => r.ops > 0 && r.bytes > 0 && r.ns > 0).map(r => ({ r, x: r.ops / r.bytes, y: r.ops / r.ns }));
    const whole = rows.reduce((a, d) => a + d.r.ns, 0) || 1;
    const lo = Math.floor(Math.log10(Math.min(gops / read, ...rows.map(d => d.x)))), hi = Math.ceil(Math.log10(Math.max(gops / read * 3, ...rows.map(d => d.x))));
    const yTop = Math.ceil(Math.log10(gops * 1.5) * 2) / 2, yLow = Math.floor(Math.log10(Math.max(1e-6, Math.min(gops, ...rows.map(d => d.y)))));
    const X = v => left + (Math.log10(v) - lo) / (hi - lo) * (w - left - right), Y = v => top + (yTop - Math.log10(v)) / (yTop - yLow) * (h - top - bottom);
    g.strokeStyle = colour.css('grid');
    g.fillStyle = colour.css('faint');
    for (let e = lo; e <= hi; e++) {
      const x = Math.round(X(10 ** e)) + 0.5;
      g.beginPath(); g.moveTo(x, top); g.lineTo(x, h - bottom); g.stroke();
      g.textAlign = 'center';
      g.fillText(powerOf10(e), x, h - bottom + 9);
    }
    g.textAlign = 'right';
    for (let e = yLow; e <= yTop; e++) {
      const y = Math.round(Y(10 ** e)) + 0.5;
      g.beginPath(); g.moveTo(left, y); g.lineTo(w - right, y); g.stroke();
      g.fillText(powerOf10(e), left - 4, y);
    }
    g.textAlign = 'left';
    g.fillText('Gop/s ↑', left + 4, top + 6);
    g.textAlign = 'right';
    g.fillText('operations a byte', w - right, h - 6);
    this.paintRoof(g, X, Y, lo, hi, read, gops);
    this.paintDots(g, rows, whole, X, Y, chart);
  },
  paintRoof(g, X, Y, lo, hi, read, gops) {
    g.strokeStyle = colour.css('text');
    g.lineWidth = 1.6;
    g.beginPath(); g.moveTo(X(10 ** lo), Y(10 ** lo * read)); g.lineTo(X(gops / read), Y(gops)); g.lineTo(X(10 ** hi), Y(gops)); g.stroke();
    g.lineWidth = 1;
    g.fillStyle = colour.css('text');
    g.textAlign = 'right';
    g.fillText(`${gops.toFixed(0)} Gop/s`, X(10 ** hi) - 2, Y(gops) - 8);
    g.textAlign = 'left';
    g.fillText(`${read.toFixed(1)} GB/s`, X(gops / read) + 6, Y(gops) + 12);
  },
  paintDots(g, rows, whole, X, Y, chart) {
    const marks = marked();
    rows.sort((a, b) => b.r.ns - a.r.ns);
    for (const { r, x, y } of rows) {
      const i = (trace.nodes && trace.nodes.of.get(r.name) || [])[0], radius = Math.max(2, Math.min(34, Math.sqrt(r.ns / whole) * 75)), on = marks.has(r.name);
      g.fillStyle = i === undefined ? colour.of(9) : opColour.of(trace.nodes.op[i]);
      g.globalAlpha = on ? 1 : 0.6;
      g.beginPath(); g.arc(X(x), Y(y), radius, 0, 7); g.fill();
      g.globalAlpha = 1;
      g.strokeStyle = on ? colour.css('mark') : colour.css('raised');
      g.lineWidth = on ? 2.5 : 0.8;
      g.stroke();
      g.lineWidth = 1;
      chart.hit(X(x) - radius, Y(y) - radius, 2 * radius, 2 * radius,
        `${r.name}\n${words.ns(r.ns)} in ${r.count}\n${(r.bytes / r.ns).toFixed(2)} GB/s, ${y.toFixed(2)} Gop/s\n${x.toFixed(2)} operations a byte, ${words.percent(r.roofline)} of the roofline`,
        () => select({ node: r.name }));
    }
  },
  table() { return statsTable(sums().nodes, true); },
};
