/* SPDX-License-Identifier: MIT */
/* table.js -- the table behind a view: sorted by a click on a heading, rows that select, copied as CSV. */
'use strict';

/* A field as other programs read it; what a table program would compute is text. */
function csvField(x) {
  if (typeof x === 'number') return String(x);
  const text = String(x ?? ''), guarded = /^[=+\-@]/.test(text) ? "'" + text : text;
  return /[",\n\r']/.test(guarded) ? '"' + guarded.replaceAll('"', '""') + '"' : guarded;
}
const csvOf = t => [t.columns.map(c => c.name), ...t.rows].map(r => r.map(csvField).join(',')).join('\n') + '\n';

const SHOWN = 500;

/* make(): {columns: [{name, show, pick}], rows: [[..]]}; show turns a number into words, pick a row into a selection. */
class Table {
  constructor(parent, make) {
    this.make = make;
    this.order = null;
    this.box = el('div', { className: 'scroll' });
    this.note = el('span');
    const copy = el('button', { type: 'button', className: 'copy', onclick: () => this.copy(copy) }, 'copy as CSV');
    this.details = el('details', { className: 'behind' }, el('summary', {}, 'table'), el('div', { className: 'bar' }, copy, this.note), this.box);
    this.details.addEventListener('toggle', () => this.redraw());
    parent.append(this.details);
  }
  csv() { return csvOf(this.make()); }
  async copy(button) {
    const text = this.csv();
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch { done = copyByHand(text); }
    button.textContent = done ? 'copied' : 'not allowed';
    setTimeout(() => { button.textContent = 'copy as CSV'; }, 1500);
  }
  redraw() {
    if (!this.details.open) return;
    const t = this.make(), marks = marked();
    let rows = t.rows;
    if (this.order !== null) {
      const [k, sign] = this.order;
      rows = [...rows].sort((a, b) => sign * (a[k] > b[k] ? 1 : a[k] < b[k] ? -1 : 0));
    }
    this.note.textContent = rows.length > SHOWN ? `the first ${SHOWN} of ${rows.length} rows; CSV has all` : `${rows.length} rows`;
    this.box.replaceChildren(el('table', {}, el('thead', {}, el('tr', {}, ...t.columns.map((c, k) => this.heading(c, k)))),
      el('tbody', {}, ...rows.slice(0, SHOWN).map(r => this.row(t, r, marks)))));
  }
  heading(c, k) {
    const sort = () => { this.order = [k, this.order && this.order[0] === k ? -this.order[1] : k === 0 ? 1 : -1]; this.redraw(); };
    return el('th', { scope: 'col' }, el('button', { type: 'button', onclick: sort }, c.name));
  }
  row(t, r, marks) {
    const cells = t.columns.map((c, k) => {
      const text = c.show && typeof r[k] === 'number' ? c.show(r[k]) : String(r[k] ?? '');
      return c.pick ? el('td', {}, el('button', { type: 'button', onclick: () => select(c.pick(r)) }, text)) : el('td', {}, text);
    });
    return el('tr', { className: t.columns[0].pick && t.columns[0].isNode && marks.has(r[0]) ? 'at' : '' }, ...cells);
  }
}

/* Where a page from a file may not use the clipboard. */
function copyByHand(text) {
  const area = el('textarea', { value: text });
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}

/* Rows of quern trace stats, with its columns. */
const pickNode = r => ({ node: r[0] });
function statsTable(rows, isNode) {
  const columns = [{ name: 'name', pick: isNode ? pickNode : undefined, isNode }, { name: 'count' }, { name: 'ns', show: words.ns }, { name: 'wait_ns', show: words.ns },
    { name: 'p50_ns', show: words.ns }, { name: 'p99_ns', show: words.ns }, { name: 'max_ns', show: words.ns }, { name: 'bytes', show: words.bytes },
    { name: 'weight_bytes', show: words.bytes }, { name: 'ops', show: words.count }, { name: 'roofline', show: words.percent }];
  return { columns, rows: rows.map(r => columns.map(c => r[c.name])) };
}
