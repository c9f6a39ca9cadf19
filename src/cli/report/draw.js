/* SPDX-License-Identifier: MIT */
/* draw.js -- what views draw with: elements, colours, and a chart: a canvas that knows what lies where on it. */
'use strict';

/* An element: text is text, never markup. */
function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name in e && name !== 'list') e[name] = value;
    else e.setAttribute(name, value);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

const colour = {
  kept: {},
  css(name) { return this.kept[name] ??= getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim(); },
  of(i) { return this.css('c' + i % 10); },
  forget() { this.kept = {}; },
};

/* Operations get colours in the order of their time; the tenth and others share the last. */
const opColour = {
  rank: null,
  index(op) {
    this.rank ||= new Map(trace.stats.operations.map((r, i) => [r.name, Math.min(i, 9)]));
    return this.rank.get(op) ?? 9;
  },
  of(op) { return colour.of(this.index(op)); },
};

/* A colour between the ground and another, for heat: from 0 to 1. */
function heat(name, share) {
  const from = rgb(colour.css('sunk')), to = rgb(colour.css(name)), t = Math.max(0, Math.min(1, share));
  return 'rgb(' + from.map((c, i) => Math.round(c + (to[i] - c) * (0.08 + 0.92 * t))).join(',') + ')';
}
function rgb(hex) {
  const h = hex.length === 4 ? [...hex.slice(1)].map(c => c + c).join('') : hex.slice(1);
  return [0, 2, 4].map(i => parseInt(h.slice(i, i + 2), 16));
}

const tip = {
  at: null,
  show(text, x, y) {
    const t = document.getElementById('tip');
    t.textContent = text;
    t.hidden = false;
    const w = t.offsetWidth, h = t.offsetHeight;
    t.style.left = Math.max(4, Math.min(innerWidth - w - 4, x + 14)) + 'px';
    t.style.top = (y + 18 + h > innerHeight ? Math.max(4, y - h - 10) : y + 18) + 'px';
  },
  hide() { document.getElementById('tip').hidden = true; },
};

/* A canvas that is drawn anew when something changed, once a frame, at the screen's resolution. `hits` are rectangles
 * that it has drawn: hovered they show `text`, clicked they do `pick`; arrow keys go from one to the next. */
class Chart {
  constructor(parent, { height, label, paint, key, zoomable, drag, name }) {
    Object.assign(this, { height, paint, key, drag, hits: [], at: -1, dirty: true, ms: 0 });
    this.canvas = el('canvas', { tabIndex: 0, role: 'img' });
    this.canvas.setAttribute('aria-label', label);
    this.canvas.dataset.name = name || label;
    parent.append(this.canvas);
    this.g = this.canvas.getContext('2d');
    Chart.all.push(this);
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    this.listen(zoomable);
  }
  redraw() { if (!this.dirty) { this.dirty = true; } Chart.schedule(); }
  draw() {
    const width = this.canvas.clientWidth, height = typeof this.height === 'function' ? this.height(width) : this.height;
    if (!width) return;
    const begin = performance.now(), dots = devicePixelRatio || 1;
    this.dirty = false;
    this.w = width;
    this.h = height;
    if (this.canvas.width !== Math.round(width * dots) || this.canvas.height !== Math.round(height * dots)) {
      this.canvas.width = Math.round(width * dots);
      this.canvas.height = Math.round(height * dots);
      this.canvas.style.height = height + 'px';
    }
    this.g.setTransform(dots, 0, 0, dots, 0, 0);
    this.g.clearRect(0, 0, width, height);
    this.g.font = '11px ' + getComputedStyle(document.body).fontFamily;
    this.g.textBaseline = 'middle';
    this.hits = [];
    this.paint(this.g, width, height, this);
    if (this.at >= 0 && this.hits[this.at] && document.activeElement === this.canvas) {
      const h = this.hits[this.at];
      this.g.strokeStyle = colour.css('accent');
      this.g.lineWidth = 2;
      this.g.strokeRect(h.x - 1, h.y - 1, h.w + 2, h.h + 2);
    }
    this.ms = performance.now() - begin;
  }
  hit(x, y, w, h, text, pick) { this.hits.push({ x, y, w, h, text, pick }); }
  find(x, y) {
    for (let i = this.hits.length; i-- > 0;) {
      const h = this.hits[i];
      if (x >= h.x && x < h.x + Math.max(h.w, 2) && y >= h.y && y < h.y + h.h) return i;
    }
    return -1;
  }
  words(h) { return typeof h.text === 'function' ? h.text() : h.text; }
  listen(zoomable) {
    const c = this.canvas, place = e => { const r = c.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
    let down = null;
    c.addEventListener('pointermove', e => {
      const [x, y] = place(e);
      if (down && this.drag) {
        if (Math.abs(x - down.x) > 3) down.moved = true;
        if (down.moved) this.drag('move', down.x, x, e);
        return;
      }
      const i = this.find(x, y);
      c.style.cursor = i >= 0 && this.hits[i].pick ? 'pointer' : this.drag ? 'crosshair' : '';
      if (i >= 0 && this.hits[i].text) tip.show(this.words(this.hits[i]), e.clientX, e.clientY);
      else tip.hide();
    });
    c.addEventListener('pointerleave', () => tip.hide());
    c.addEventListener('pointerdown', e => {
      if (e.button) return;
      const [x] = place(e);
      down = { x, moved: false };
      if (this.drag) { c.setPointerCapture(e.pointerId); this.drag('down', x, x, e); }
    });
    c.addEventListener('pointerup', e => {
      const [x, y] = place(e), was = down;
      down = null;
      if (!was) return;
      if (was.moved && this.drag) return this.drag('up', was.x, x, e);
      const i = this.find(x, y);
      if (i >= 0 && this.hits[i].pick) this.hits[i].pick(e);
    });
    if (zoomable) c.addEventListener('wheel', e => {
      if (!zoomable(e, place(e)[0])) return;
      e.preventDefault();
    }, { passive: false });
    c.addEventListener('keydown', e => this.press(e));
    c.addEventListener('blur', () => { tip.hide(); this.redraw(); });
    c.addEventListener('focus', () => this.redraw());
  }
  press(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (this.key && this.key(e)) return e.preventDefault();
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    const can = this.hits.map((h, i) => h.pick ? i : -1).filter(i => i >= 0);
    if (step && can.length) {
      const now = can.indexOf(this.at), h = this.hits[this.at = can[(now + step + can.length) % can.length]];
      const r = this.canvas.getBoundingClientRect();
      if (h.text) tip.show(this.words(h), r.left + h.x + h.w / 2, r.top + h.y + h.h / 2);
      this.redraw();
      e.preventDefault();
    } else if (e.key === 'Enter' && this.hits[this.at] && this.hits[this.at].pick) {
      this.hits[this.at].pick(e);
      e.preventDefault();
    }
  }
  static schedule() {
    if (Chart.frame) return;
    Chart.frame = requestAnimationFrame(() => {
      Chart.frame = 0;
      for (const c of Chart.all) if (c.dirty) try { c.draw(); } catch (e) { console.error(e); } /* others are drawn all the same */
    });
  }
  static redrawAll() { for (const c of Chart.all) c.redraw(); }
}
Chart.all = [];
Chart.frame = 0;

/* A picture of steps of 1, 2 or 5 between from and to: about n of them. */
function ticks(from, to, n) {
  const raw = (to - from) / Math.max(1, n), ten = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map(x => x * ten).find(x => x >= raw) || raw, out = [];
  for (let x = Math.ceil(from / step) * step; x <= to + step * 1e-9; x += step) out.push(x);
  return { step, at: out };
}

/* Text that is cut to a width; nothing when not even a few letters fit. */
function fit(g, text, width) {
  if (width < 14) return '';
  const letters = Math.floor(width / 5.6);
  if (text.length <= letters && g.measureText(text).width <= width) return text;
  let cut = text.slice(0, Math.max(1, letters));
  while (cut.length > 1 && g.measureText(cut + '…').width > width) cut = cut.slice(0, -1);
  return cut.length > 1 ? cut + '…' : '';
}

function legend(parent, rows) {
  parent.replaceChildren(...rows.map(([c, name, value]) => {
    const mark = el('i');
    mark.style.background = c;
    return el('li', {}, mark, name, value === undefined ? '' : ' ', value === undefined ? '' : el('b', {}, value));
  }));
}

/* Buttons of which one is pressed; which is in the address. */
function choose(parent, label, name, values, changed) {
  const buttons = values.map(value => el('button', { type: 'button', onclick: () => { options.set(name, value); show(); changed(value); } }, value));
  const now = () => { const v = options.get(name, values[0]); return values.includes(v) ? v : values[0]; };
  const show = () => buttons.forEach(b => b.setAttribute('aria-pressed', b.textContent === now()));
  parent.append(el('label', {}, label), ...buttons);
  show();
  return now;
}

/* A range of one axis that is zoomed and dragged: wheel, drag, arrow keys, + and -, Home. */
class Range {
  constructor(from, to, least, changed) { Object.assign(this, { first: from, last: to, from, to, least, changed }); }
  set(from, to) {
    const width = Math.max(this.least, Math.min(to - from, this.last - this.first));
    const mid = (from + to) / 2;
    from = to - from === width ? from : mid - width / 2;
    from = Math.max(this.first, Math.min(from, this.last - width));
    this.from = from;
    this.to = from + width;
    this.changed();
  }
  zoom(by, at = (this.from + this.to) / 2) { this.set(at - (at - this.from) * by, at + (this.to - at) * by); }
  move(share) { const by = (this.to - this.from) * share; this.set(this.from + by, this.to + by); }
  key(e) {
    const act = { ArrowLeft: () => this.move(-0.15), ArrowRight: () => this.move(0.15), ArrowUp: () => this.zoom(0.7), ArrowDown: () => this.zoom(1 / 0.7),
      '+': () => this.zoom(0.7), '-': () => this.zoom(1 / 0.7), Home: () => this.set(this.first, this.last) }[e.key];
    if (!act) return false;
    act();
    return true;
  }
}
