/* SPDX-License-Identifier: MIT */
/* model.js -- what the views share: the trace with its parts joined, the one selection, and sums over it.
 *
 * A node of a plan is a row of `nodes`; views know it by its key, the name that quern trace stats has for it. Sums are
 * computed as src/cli/trace_sums.c and qn_trace_cost_of do. */
'use strict';

const trace = { stats: null, steps: null, nodes: null, plans: [], lanes: [], choices: null, values: null, usage: null, parts: {} };

/* ---- the selection: a key of a node, steps from .. to (indexes, both in), a lane; it is in the address ---- */

const selection = { node: null, steps: null, lane: null };
const watchers = [];
const onSelect = fn => watchers.push(fn);

function select(change, quiet) {
  Object.assign(selection, change);
  if (!quiet) writeAddress();
  for (const fn of watchers) fn(change);
}

function writeAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const put = (name, value) => value === null ? words.delete(name) : words.set(name, value);
  put('node', selection.node);
  put('steps', selection.steps && selection.steps.join('-'));
  put('thread', selection.lane);
  try { history.replaceState(null, '', '#' + words); } catch { location.hash = words; }
}

/* How a view looks (what it is coloured by, ..) is in the address too. */
const options = {
  get(name, otherwise) { return new URLSearchParams(location.hash.slice(1)).get(name) ?? otherwise; },
  set(name, value) {
    const words = new URLSearchParams(location.hash.slice(1));
    words.set(name, value);
    try { history.replaceState(null, '', '#' + words); } catch { location.hash = words; }
  },
};

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1)), n = trace.steps ? trace.steps.n : 0;
  const range = /^(\d+)-(\d+)$/.exec(words.get('steps') || '');
  const node = words.get('node'), lane = words.get('thread');
  select({
    node: node !== null && trace.nodes && trace.nodes.of.has(node) ? node : null,
    steps: range && n ? [Math.min(+range[1], n - 1), Math.min(+range[2], n - 1)].sort((a, b) => a - b) : null,
    lane: lane !== null && /^\d+$/.test(lane) ? +lane : null,
  }, true);
}

/* ---- parts, joined ---- */

const IS = { COMPUTES: 8, SHARED: 16, FILE: 2, ACTIVATIONS: 1, RESIDENT: 3 };

/* Starts of rows in a flat column, from how many each row has. */
function starts(counts) {
  const at = new Int32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) at[i + 1] = at[i] + counts[i];
  return at;
}

function joinPlans(p) {
  const n = p.key.length, base = starts(p.n_nodes), src = starts(p.n_src), rank = starts(p.rank), nodes = p;
  nodes.n = n;
  nodes.plan = new Int32Array(n);
  trace.plans = Array.from(p.plan, (id, i) => ({ id, index: i, base: base[i], n: p.n_nodes[i] }));
  for (const plan of trace.plans) nodes.plan.fill(plan.index, plan.base, plan.base + plan.n);
  const places = starts(p.n_places);
  for (const plan of trace.plans) {
    plan.places = p.place_name.slice(places[plan.index], places[plan.index + 1]).map(safe);
    plan.placeBytes = p.place_bytes.slice(places[plan.index], places[plan.index + 1]);
  }
  nodes.sources = i => { const b = base[nodes.plan[i]]; return Array.from(p.src.subarray(src[i], src[i + 1]), s => b + s); };
  nodes.shapeOf = i => Array.from(p.shape.subarray(rank[i], rank[i + 1]));
  nodes.key = p.key.map(safe);
  nodes.op = p.op.map(safe);
  nodes.of = new Map(); /* key -> rows */
  nodes.key.forEach((key, i) => nodes.of.has(key) ? nodes.of.get(key).push(i) : nodes.of.set(key, [i]));
  nodes.computes = i => (p.flags[i] & IS.COMPUTES) !== 0;
  nodes.inFile = i => p.space[i] === IS.FILE && !nodes.computes(i);
  trace.nodes = nodes;
  joinUses();
}

/* Which rows that compute read which of a file: through views. */
function joinUses() {
  const nodes = trace.nodes;
  nodes.weights = Array.from({ length: nodes.n }, () => null);
  nodes.users = Array.from({ length: nodes.n }, () => null);
  for (let i = 0; i < nodes.n; i++) {
    if (!nodes.computes(i)) continue;
    for (const s of nodes.sources(i)) {
      const root = trace.plans[nodes.plan[i]].base + nodes.root[s];
      if (!nodes.inFile(root)) continue;
      (nodes.weights[i] ||= []).push(root);
      (nodes.users[root] ||= []).push(i);
    }
  }
}

/* Keys that a selected key marks: itself, the weights that it reads, or what reads it. */
function marked() {
  const out = new Set(), nodes = trace.nodes;
  if (selection.node === null || !nodes) return out;
  out.add(selection.node);
  for (const i of nodes.of.get(selection.node) || [])
    for (const k of (nodes.inFile(i) ? nodes.users[i] : nodes.weights[i]) || []) out.add(nodes.key[k]);
  return out;
}

function joinSteps(p, names) {
  const steps = p;
  steps.n = p.number.length;
  steps.sightAt = starts(p.n_sights);
  steps.tokenAt = starts(p.n_tokens);
  steps.accounts = names.map(name => p['account_' + name]);
  trace.steps = steps;
}

function joinChoices(p) {
  const at = starts(p.n_ids), of = new Map();
  for (let i = 0; i < p.step.length; i++) {
    const key = p.step[i] * 16777216 + p.node[i];
    of.set(key, i);
  }
  const gateAt = new Int32Array(p.step.length);
  for (let i = 0, g = 0; i < gateAt.length; i++) { gateAt[i] = p.has_gates[i] ? g : -1; g += p.has_gates[i] ? p.n_ids[i] : 0; }
  trace.choices = { ...p, at, gateAt, n: p.step.length, find: (step, node) => of.get(step * 16777216 + node) };
}

/* A row of `values` is what one step has of a node: rows at .. of the flat columns. */
function joinValues(p) {
  trace.values = { ...p, n: p.step.length, at: starts(p.rows) };
}

/* A lane's events, with their begins; levels of groups of 8, for drawing many of them at once. */
function joinEvents(p) {
  trace.lanes = Array.from(p.lane, (id, i) => {
    const [kind, step, node, gap, ns, wait] =
      ['kind', 'step', 'node', 'gap', 'ns', 'wait'].map(name => p.lists[name][i]);
    const n = kind.length, begin = gap; /* in place */
    for (let k = 0, end = 0; k < n; k++) { begin[k] += end; end = begin[k] + ns[k]; }
    return { id, index: i, thread: p.thread[i], member: p.member[i], dropped: p.dropped[i], n,
      kind, step, node, begin, ns, wait, marks: p.lists.mark[i].map(safe) };
  });
}

async function loadTrace() {
  const overview = trace.overview = await Data.part('overview', true);
  trace.stats = JSON.parse(overview.stats[0]);
  trace.kinds = overview.kinds;
  trace.phases = overview.phases;
  trace.accounts = overview.accounts.map((name, i) => ({ name, text: overview.account_texts[i] }));
  const other = await Data.other('overview');
  if (other) trace.other = { stats: JSON.parse(other.stats[0]), path: other.path[0], difference: await Data.other('difference') };
}

async function loadRest() {
  const names = ['steps', 'plans', 'choices', 'usage', 'events', 'faults', 'pauses', 'residency', 'extents', 'curves', 'values', 'lens'];
  const parts = await Promise.all(names.map(name => Data.part(name))), [steps, plans, choices, usage, events] = parts;
  trace.parts = Object.fromEntries(names.map((name, k) => [name, parts[k]]));
  joinSteps(steps, trace.overview.accounts);
  joinPlans(plans);
  if (choices) joinChoices(choices);
  if (trace.parts.values) joinValues(trace.parts.values);
  trace.usage = usage;
  joinEvents(events);
}

/* ---- what a node costs in a step: as qn_trace_cost_of ---- */

function expertsOf(i, step) {
  const nodes = trace.nodes, sources = nodes.sources(i);
  const choice = sources.length > 2 && trace.choices ? trace.choices.find(step, nodes.root[sources[2]]) : undefined;
  if (choice !== undefined) return trace.choices.n_distinct[choice];
  return nodes.n_experts[i] * (1 - Math.pow(1 - 1 / nodes.n_experts[i], nodes.n_used[i]));
}

function costOf(i, step, out) {
  const nodes = trace.nodes, steps = trace.steps, sight = nodes.sight[i];
  out.weight = nodes.weight_bytes[i];
  out.cache = nodes.cache_bytes[i];
  out.act = nodes.act_bytes[i];
  out.ops = nodes.ops[i];
  if (sight > 0 && sight <= steps.n_sights[step]) {
    const at = steps.sightAt[step] + sight - 1;
    out.cache += nodes.cell_bytes[i] * steps.cells[at];
    out.ops += nodes.cell_ops[i] * steps.pairs[at];
  }
  if (nodes.n_experts[i] > 0) out.weight += nodes.expert_bytes[i] * expertsOf(i, step);
  return out;
}

/* ---- sums over the selected steps ---- */

function stepRange() {
  return selection.steps || [0, trace.steps.n - 1];
}

function newRow(name) {
  return { name, count: 0, ns: 0, wait_ns: 0, bytes: 0, weight_bytes: 0, ops: 0, limit: 0, each: [] };
}

const layerName = layer => layer < 0 ? 'outside of layers' : String(layer);

/* The nearest rank, as trace_sums.c has it. */
const percentile = (sorted, percent) => sorted[Math.ceil(sorted.length * percent / 100) - 1];

function settle(rows) {
  for (const r of rows) {
    const each = Float64Array.from(r.each).sort();
    r.p50_ns = percentile(each, 50);
    r.p99_ns = percentile(each, 99);
    r.max_ns = each[r.count - 1];
    r.roofline = r.ns > 0 ? Math.min(1, r.limit / r.ns) : 0;
    delete r.each;
  }
  return rows.sort((a, b) => b.ns - a.ns || (a.name < b.name ? -1 : 1));
}

function computeSums(from, to) {
  const nodes = trace.nodes, cost = {}, of = [new Map(), new Map(), new Map()];
  const KIND = trace.kinds.indexOf('node'), { read_gb_s: read, gops } = trace.stats;
  const row = (map, name) => { let r = map.get(name); if (!r) map.set(name, r = newRow(name)); return r; };
  for (const lane of trace.lanes) {
    if (lane.member !== 0) continue;
    for (let e = 0; e < lane.n; e++) {
      const step = lane.step[e];
      if (lane.kind[e] !== KIND || step < from || step > to || lane.node[e] < 0 || trace.steps.ns[step] < 0) continue;
      const i = trace.plans[trace.steps.plan[step]].base + lane.node[e];
      costOf(i, step, cost);
      const bytes = cost.weight + cost.cache + cost.act;
      const limit = Math.max(read > 0 ? bytes / read : 0, gops > 0 ? cost.ops / gops : 0);
      for (const r of [row(of[0], nodes.op[i]), row(of[1], layerName(nodes.layer[i])), row(of[2], nodes.key[i])]) {
        r.count++;
        r.ns += lane.ns[e];
        r.wait_ns += lane.wait[e];
        r.bytes += bytes;
        r.weight_bytes += cost.weight;
        r.ops += cost.ops;
        r.limit += limit;
        r.each.push(lane.ns[e]);
      }
    }
  }
  return { operations: settle([...of[0].values()]), layers: settle([...of[1].values()]), nodes: settle([...of[2].values()]) };
}

/* Tables of operations, layers and nodes of the selected steps; all steps: what stats says. */
let sumsKey = null, sumsKept = null;
function sums() {
  if (!selection.steps || !trace.lanes.length) return trace.stats;
  const key = selection.steps.join('-');
  if (sumsKey !== key) [sumsKey, sumsKept] = [key, computeSums(...selection.steps)];
  return sumsKept;
}

const rowsByName = new WeakMap();
function sumOf(name) {
  const s = sums();
  if (!rowsByName.has(s)) rowsByName.set(s, new Map(s.nodes.map(r => [r.name, r])));
  return rowsByName.get(s).get(name);
}

/* Accounts of the selected steps, in ns, in the order of trace.accounts; null: not measured. */
function accountSums() {
  if (!selection.steps || !trace.steps) return trace.accounts.map(a => trace.stats.accounts_ns[a.name]);
  const [from, to] = selection.steps;
  return trace.steps.accounts.map((column, k) => {
    if (trace.stats.accounts_ns[trace.accounts[k].name] === null) return null;
    let sum = 0;
    for (let i = from; i <= to; i++) sum += column[i];
    return sum;
  });
}

/* ---- words ---- */

/* Controls, and what turns the direction of text, are shown and do nothing. */
function safe(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g,
    c => '\\x' + c.charCodeAt(0).toString(16).padStart(2, '0'));
}

const words = {
  ns(x) {
    const a = Math.abs(x);
    return a >= 1e9 ? (x / 1e9).toFixed(3) + ' s' : a >= 1e6 ? (x / 1e6).toFixed(3) + ' ms'
      : a >= 1e3 ? (x / 1e3).toFixed(2) + ' µs' : x.toFixed(0) + ' ns';
  },
  bytes(x) {
    const a = Math.abs(x);
    return a >= 1e9 ? (x / 1e9).toFixed(2) + ' GB' : a >= 1e6 ? (x / 1e6).toFixed(2) + ' MB'
      : a >= 1e3 ? (x / 1e3).toFixed(1) + ' kB' : x.toFixed(0) + ' B';
  },
  percent: x => (100 * x).toFixed(x < 0.0995 ? 2 : 1) + ' %',
  count: x => x.toLocaleString('en-US').replace(/,/g, '\u2009'),
};
