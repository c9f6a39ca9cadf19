/* SPDX-License-Identifier: MIT */
/* app.js -- the frame: views in their order, finding, keys, what is selected. A view is an object in a file of its own and a
 * row here: {id, title, about, half, early, needs(), build(box), tables}. needs() says what is missing, as elements or
 * text, or null; `early` views need the overview alone. */
'use strict';

const VIEWS = [headView, accountsView, timelineView, rooflineView, cachingView, graphView, fileView, memoryView, expertsView, valuesView, compareView];

const byId = id => document.getElementById(id);

/* "Not measured": what is missing, and what would measure it. */
function missing(what, how) {
  return el('p', { className: 'missing' }, el('b', {}, 'Not measured: '), what, how ? ' ' + how : '');
}

function frameOf(view) {
  const section = el('section', { className: 'view' + (view.half ? ' half' : ''), id: view.id });
  section.setAttribute('aria-labelledby', view.id + '-title');
  section.append(el('header', {}, el('h2', { id: view.id + '-title' }, view.title), el('span', { className: 'about' }, view.about)));
  view.box = el('div');
  section.append(view.box);
  return section;
}

function build(view) {
  const lacks = view.needs ? view.needs() : null;
  view.link.classList.toggle('none', lacks !== null);
  view.box.replaceChildren();
  Chart.all = Chart.all.filter(c => c.canvas.isConnected);
  if (lacks !== null) view.box.append(lacks);
  else {
    view.build(view.box);
    view.tables = view.table ? [new Table(view.box, () => view.table())] : [];
  }
  view.there = lacks === null;
  view.box.parentElement.dataset.state = lacks === null ? 'shown' : 'missing';
}

onSelect(() => {
  for (const view of VIEWS) {
    if (!view.there) continue;
    if (view.selected) view.selected();
    for (const t of view.tables || []) t.redraw();
  }
  Chart.redrawAll();
  showSelection();
});

/* ---- the strip of what is selected ---- */

function chip(name, value, clear) {
  return el('span', { className: 'chip' }, el('span', {}, name), el('b', {}, value),
    el('button', { type: 'button', title: 'clear', ariaLabel: 'clear ' + name, onclick: () => select(clear) }, '×'));
}
const fact = (name, value) => el('span', { className: 'fact' }, el('span', {}, name + ' '), value);

function nodeFacts(key) {
  const nodes = trace.nodes, i = nodes && (nodes.of.get(key) || [])[0], out = [];
  if (i === undefined) return out;
  out.push(fact('operation', nodes.op[i]), fact('shape', nodes.shapeOf(i).join(' × ') + ' ' + nodes.dtype[i]));
  if (nodes.inFile(i)) out.push(fact('in the file', `${words.bytes(nodes.bytes[i])} at ${words.count(nodes.offset[i])}`));
  for (const w of nodes.weights[i] || []) out.push(fact('reads', nodes.key[w]));
  const r = sumOf(key);
  if (r) out.push(fact('time', words.ns(r.ns)), fact('median', words.ns(r.p50_ns)), fact('waiting', words.percent(r.ns ? r.wait_ns / r.ns : 0)),
    fact('rate', (r.ns ? r.bytes / r.ns : 0).toFixed(2) + ' GB/s'), fact('of the roofline', words.percent(r.roofline)));
  return out;
}

function stepWords([a, b]) {
  const s = trace.steps, n = b - a + 1;
  let tokens = 0, ns = 0;
  for (let i = a; i <= b; i++) { tokens += s.n_tokens[i]; ns += Math.max(0, s.ns[i]); }
  return `${n === 1 ? s.number[a] : s.number[a] + ' to ' + s.number[b]} (${trace.phases[s.phase[a]]}, ${tokens} tokens, ${words.ns(ns)})`;
}

function showSelection() {
  const at = byId('selection'), parts = [];
  if (selection.node !== null) parts.push(chip('node', selection.node, { node: null }), ...nodeFacts(selection.node));
  if (selection.steps && trace.steps) parts.push(chip('steps', stepWords(selection.steps), { steps: null }));
  if (selection.lane !== null) parts.push(chip('thread', String(selection.lane), { lane: null }));
  at.hidden = parts.length === 0;
  at.replaceChildren(...parts);
}

/* ---- finding ---- */

const find = { rows: [], at: 0 };

function findKeys(text) {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean), out = [];
  if (!trace.nodes || !wanted.length) return out;
  for (const [key, rows] of trace.nodes.of) {
    if (!wanted.every(w => key.toLowerCase().includes(w))) continue;
    out.push({ key, i: rows[0], first: key.toLowerCase().startsWith(wanted[0]) ? 0 : 1 });
    if (out.length > 2000) break;
  }
  return out.sort((a, b) => a.first - b.first || a.key.length - b.key.length || (a.key < b.key ? -1 : 1)).slice(0, 40);
}

function showFound() {
  const list = byId('found'), nodes = trace.nodes;
  list.hidden = find.rows.length === 0;
  list.replaceChildren(...find.rows.map((r, k) => el('li', { className: k === find.at ? 'at' : '', onmousedown: e => { e.preventDefault(); take(k); } },
    r.key, el('span', {}, nodes.inFile(r.i) ? words.bytes(nodes.bytes[r.i]) + ' in the file' : nodes.op[r.i]))));
  const at = list.children[find.at];
  if (at) at.scrollIntoView({ block: 'nearest' });
}

function take(k) {
  if (!find.rows[k]) return;
  select({ node: find.rows[k].key });
  find.rows = [];
  showFound();
  byId('find').blur();
}

function listenFind() {
  const input = byId('find');
  input.addEventListener('input', () => { find.rows = findKeys(input.value); find.at = 0; showFound(); });
  input.addEventListener('blur', () => { byId('found').hidden = true; });
  input.addEventListener('keydown', e => {
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      find.at = Math.max(0, Math.min(find.rows.length - 1, find.at + (e.key === 'ArrowDown' ? 1 : -1)));
      showFound();
      e.preventDefault();
    } else if (e.key === 'Enter') take(find.at);
    else if (e.key === 'Escape') { input.value = ''; find.rows = []; showFound(); input.blur(); }
    e.stopPropagation();
  });
}

/* ---- keys ---- */

const KEYS = [['/', 'find a tensor'], ['1 .. 9', 'go to a view'], ['[ and ]', 'the step before, the step after'], ['Tab', 'to the next picture or button'],
  ['arrows', 'in a picture: the next thing; in the timeline and the file: move and zoom'], ['Enter', 'select it'], ['+ - Home', 'zoom; all of it'],
  ['p', 'play the tokens'], ['Esc', 'clear the selection'], ['?', 'these keys']];

function stepBy(n) {
  if (!trace.steps || !trace.steps.n) return;
  const now = selection.steps ? (n > 0 ? selection.steps[1] : selection.steps[0]) + n : n > 0 ? 0 : trace.steps.n - 1;
  const to = Math.max(0, Math.min(trace.steps.n - 1, now));
  select({ steps: [to, to] });
}

function listenKeys() {
  const help = byId('help');
  help.append(el('h2', {}, 'Keys'), el('dl', {}, ...KEYS.flatMap(([k, text]) => [el('dt', {}, el('kbd', {}, k)), el('dd', {}, text)])),
    el('form', { method: 'dialog' }, el('button', {}, 'close')));
  byId('keys').addEventListener('click', () => help.showModal());
  document.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey || help.open || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    const act = { '/': () => { byId('find').focus(); byId('find').select(); }, '?': () => help.showModal(), Escape: () => select({ node: null, steps: null, lane: null }),
      '[': () => stepBy(-1), ']': () => stepBy(1), p: () => timelineView.play() }[e.key];
    if (act) act();
    else if (/^[1-9]$/.test(e.key) && VIEWS[e.key - 1]) goTo(VIEWS[e.key - 1]);
    else return;
    e.preventDefault();
  });
}

function goTo(view) {
  view.box.parentElement.scrollIntoView();
  const first = view.box.querySelector('canvas, button, summary');
  if (first) first.focus({ preventScroll: true });
}

/* ---- the beginning ---- */

function watchViews() {
  const seen = new Map();
  const observer = new IntersectionObserver(entries => {
    for (const e of entries) seen.set(e.target.id, e.isIntersecting);
    const at = VIEWS.find(v => seen.get(v.id));
    for (const v of VIEWS) v.link.classList.toggle('at', v === at);
  }, { rootMargin: '-15% 0px -60% 0px' });
  for (const v of VIEWS) observer.observe(v.box.parentElement);
}

function watchLight() {
  const anew = () => { colour.forget(); Chart.redrawAll(); for (const v of VIEWS) if (v.there && v.recolour) v.recolour(); };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', anew);
  matchMedia('print').addEventListener('change', () => { anew(); for (const c of Chart.all) c.draw(); });
}

function fail(e) {
  document.body.dataset.failed = '1';
  byId('views').prepend(el('p', { className: 'missing bad' }, 'This report cannot be shown: ' + safe(String(e && e.message || e))));
  console.error(e);
}

async function start() {
  for (const view of VIEWS) {
    view.link = el('a', { href: '#' + view.id, onclick: e => { e.preventDefault(); goTo(view); } }, view.title);
    byId('nav').append(view.link);
    byId('views').append(frameOf(view));
  }
  await loadTrace();
  byId('what').textContent = safe(trace.overview.path[0]);
  document.title = safe(trace.overview.path[0]) + ' - Quern';
  for (const view of VIEWS) if (view.early) build(view);
  document.body.dataset.first = String(Math.round(performance.now()));
  await new Promise(done => setTimeout(done)); /* what is there is painted first */
  await loadRest();
  fileView.gather();
  readAddress();
  for (const view of VIEWS) { build(view); await new Promise(done => setTimeout(done)); }
  for (const c of Chart.all) c.redraw();
  showSelection();
  addEventListener('hashchange', readAddress);
  listenFind();
  listenKeys();
  watchViews();
  watchLight();
  requestAnimationFrame(() => setTimeout(() => { document.body.dataset.ready = String(Math.round(performance.now())); }));
}
start().catch(fail);
