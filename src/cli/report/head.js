/* SPDX-License-Identifier: MIT */
/* head.js -- what was recorded, on what, at what cost, and what could not be measured. */
'use strict';

/* What a recording may lack: whether it is there, what it is, what would measure it. */
const MEASURES = [
  [() => trace.stats.system.read_bytes !== null, 'bytes read from disk', 'the system lets a process see its own /proc/self/io'],
  [() => trace.stats.system.major_faults !== null, 'page faults', 'a recording of at least 40 ms'],
  [() => trace.steps ? trace.steps.has_tokens.some(x => x) : true, 'ids of tokens', 'record without --trace-no-tokens'],
  [() => trace.parts.faults, 'which tensor each page fault was in', () => trace.stats.notes.faults ?? 'record where perf_event_open is allowed'],
  [() => trace.parts.residency, 'which bytes of the file are resident', 'record a model whose file is mapped and your own'],
];

const headView = {
  id: 'head', title: 'Head', about: 'what was recorded, on which machine, and what recording it cost', early: true,
  build(box) {
    const s = trace.stats, notes = s.notes, total = Object.values(s.accounts_ns).reduce((a, b) => a + b, 0);
    if (s.damage !== null)
      box.append(el('p', { className: 'missing bad' }, el('b', {}, 'The trace is damaged '), safe(s.damage) + '. What was before the damage is here.'));
    if (s.filter !== null) box.append(el('p', { className: 'missing bad' }, el('b', {}, 'Not all was recorded: '), `only ${safe(s.filter)}. Sums are of what is here; what needs the rest is not measured.`));
    if (s.end === 'its size was limited') box.append(el('p', { className: 'missing bad' }, el('b', {}, 'The recording ended early: '), 'its size was limited (--trace-limit). What came later is not here.'));
    if (s.cut_steps) box.append(el('p', { className: 'missing bad' }, el('b', {}, `The end of ${words.count(s.cut_steps)} step${s.cut_steps === 1 ? '' : 's'} is not in the file: `), 'they are in no sum.'));
    if (s.dropped) box.append(el('p', { className: 'missing bad' }, el('b', {}, `${words.count(s.dropped)} records were lost: `), 'the disk or the writer was too slow. Sums are of what is here.'));
    const figure = (value, name) => el('div', { className: 'figure' }, el('b', {}, value), el('span', {}, name));
    const rates = Object.entries(s.phases).filter(([, p]) => p.tokens > 0 && p.ns > 0)
      .map(([name, p]) => figure((p.tokens / p.ns * 1e9).toFixed(p.tokens / p.ns > 1e-7 ? 1 : 3), `tokens/s, ${name}`));
    const decode = s.phases.decode || s.phases.prompt;
    box.append(el('div', { className: 'figures' }, ...rates,
      figure(words.count(s.steps), 'steps'), figure(words.count(s.events), 'events'), figure(String(s.threads), s.threads === 1 ? 'thread' : 'threads'),
      decode && decode.bytes !== null ? figure((decode.bytes / decode.ns).toFixed(2), `GB/s, ${s.phases.decode ? 'decode' : 'prompt'}`) : null,
      figure(words.ns(s.ns), 'recorded'), figure(words.percent(total > 0 ? s.event_ns * s.events / total : 0), `cost of tracing, ${s.event_ns.toFixed(0)} ns an event`)));
    const o = trace.overview, rows = Object.entries(notes).filter(([key]) => key !== 'event_ns');
    const list = el('dl', { className: 'notes' });
    const row = (name, value) => list.append(el('dt', {}, name), el('dd', {}, value));
    for (const [key, value] of rows) row(safe(key), key === 'unix_time' ? new Date(value * 1000).toISOString().replace('T', ' ').slice(0, 19) + ' UTC' : safe(value));
    o.file.forEach((path, i) => row('file', `${safe(path)}, ${words.bytes(o.file_bytes[i])}`));
    const others = total > 0 ? (s.accounts_ns.preempted ?? 0) / total : 0;
    row('roofline', `${s.read_gb_s.toFixed(2)} GB/s and ${s.gops.toFixed(2)} Gop/s: the best that nodes of this trace came to` +
      (others > 0.05 ? `; others had the cores for ${words.percent(others)} of the threads' time, on a quiet machine it is higher` : ''));
    box.append(list);
    const lacks = MEASURES.filter(([there]) => !there());
    if (lacks.length) box.append(el('p', { className: 'missing' }, el('b', {}, 'Not measured: '), lacks.map(([, what, how]) => `${what} (${safe(typeof how === 'function' ? how() : how)})`).join('; ')));
  },
  table() {
    const s = trace.stats, rows = [['damage', s.damage ?? '']];
    for (const key of ['ns', 'steps', 'events', 'dropped', 'end', 'filter', 'cut_steps', 'threads', 'node_events', 'node_ns', 'lost_nodes', 'event_ns', 'read_gb_s', 'gops']) rows.push([key, s[key] ?? '']);
    for (const [key, value] of Object.entries(s.system)) rows.push(['system ' + key, value ?? 'not measured']);
    for (const [key, k] of Object.entries(s.kinds)) rows.push([key + ' count', k.count], [key + ' ns', k.ns]);
    for (const [key, p] of Object.entries(s.phases)) for (const f of ['steps', 'tokens', 'ns', 'bytes', 'weight_bytes']) rows.push([key + ' ' + f, p[f] ?? 'not measured']);
    for (const [key, value] of Object.entries(s.notes)) rows.push([safe(key), safe(value)]);
    return { columns: [{ name: 'what' }, { name: 'value' }], rows };
  },
};
