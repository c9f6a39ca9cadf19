// app.js -- the page: conversations at the side, the one that is open, what is typed.
import * as db from './db.js';
import {models} from './api.js';
import {Conversation, unkept, whole} from './conversation.js';
import {View} from './message.js';
import {edit as edit_settings} from './settings.js';
import {everything, take} from './transfer.js';
import {held, listen, released, tell} from './tabs.js';
import {Live} from './live.js';
import {el, $, button, recall, remember} from './dom.js';

let current = null;      // Conversation
let views = new Map();   // message id -> View
let records = [];        // of all conversations, the last one used first
const kept_settings = () => JSON.parse(recall('settings') ?? '{}');

// What is said above the conversation: of the server until it answers, of the store until it keeps things again, and
// the rest until something else is done.
const said = {server: '', store: '', other: ''};
function notice(kind, text) {
  if (said[kind] === text) return; // a screen reader would say it all again
  said[kind] = text;
  $('notice').textContent = Object.values(said).filter(Boolean).join('\n');
  $('notice').hidden = !$('notice').textContent;
}

Conversation.kept = e => {
  if (!e && unkept.size) return;
  notice('store', e ? `Not kept: this browser stores nothing now (${e.message || e.name}). What is new stays in this page while it `
    + 'is open; Export saves it.' : '');
};

// ---- the list at the side ----

async function show_list() {
  let found = [];
  try { found = await db.conversations(); } catch (e) { Conversation.kept(e); }
  const all = new Map(found.map(r => [r.id, r]));
  for (const [id, c] of unkept) all.set(id, c.record);
  records = [...all.values()].sort((a, b) => b.changed - a.changed);
  const items = [...$('list').children], at = items.findIndex(li => li.contains(document.activeElement));
  const part = at < 0 ? -1 : [...items[at].children].indexOf(document.activeElement), id = items[at]?.dataset.id;
  const item = (r, shown) => el('li', {className: shown ? 'open' : '', 'data-id': r.id},
    el('button', {type: 'button', className: 'title', 'aria-current': shown ? 'true' : null, onclick: () => open(r.id)},
      r.title || 'New conversation'),
    button('✕', `Delete "${r.title}"`, () => remove_record(r), {'aria-label': `Delete "${r.title}"`}));
  $('list').replaceChildren(...records.map(r => item(r, r.id === current?.record.id)));
  if (at < 0) return;
  const now = [...$('list').children]; // the focus stays at the conversation, or at the one in its place
  const to = now.find(li => li.dataset.id === id) ?? now[Math.min(at, now.length - 1)];
  (to?.children[part] ?? $('new')).focus();
}

async function remove_record(record) {
  if (!confirm(`Delete "${record.title || 'New conversation'}"?`)) return;
  const shown = current?.record.id === record.id ? current : null;
  const conversation = running.get(record.id) ?? shown ?? new Conversation(record);
  if (!await conversation.remove()) return notice('other', 'Another tab is writing an answer of this conversation.');
  await gone(conversation);
}

async function gone(conversation) {
  await show_list();
  if (current === conversation) await (records.length ? open(records[0].id) : begin());
}

// ---- the conversation ----

let asked = 0; // of two that are opened at once the last one is shown

async function begin() {
  asked++;
  if (narrow.matches) show_side(false);
  if (current && !current.messages.size && !current.deleted) return $('input').focus();
  current = Conversation.create(kept_settings());
  current.record.model = here.includes($('model').value) ? $('model').value : here[0] ?? '';
  opened();
}

async function open(id) {
  const mine = ++asked;
  if (narrow.matches) show_side(false);
  if (current?.record.id === id && !current.deleted) return;
  const found = running.get(id) ?? unkept.get(id) ?? await Conversation.load(id);
  if (mine !== asked) return;
  if (!found) return show_list();
  current = found;
  opened();
  wait_for_others(found);
}

// A conversation that another tab writes is read again when that ends.
function wait_for_others(c) {
  if (c.elsewhere) released(c.record.id).then(() => reread(c));
}

async function reread(c) {
  if (!await c.read()) c.deleted = true;
  if (c.deleted) return gone(c);
  if (current === c) {
    choose_model(c.record.model);
    show_path();
    if (following) to_end();
  }
  wait_for_others(c);
}

listen(async (what, id) => {
  const c = running.get(id) ?? (current?.record.id === id ? current : null);
  if (c && what === 'removed') {
    c.deleted = true;
    c.running?.stop();
    return gone(c);
  }
  if (c && !c.busy) await reread(c);
  show_list();
});

const running = new Map(); // conversations that are being answered, whichever is on the screen

function opened() {
  remember('last', current.record.id);
  notice('other', '');
  choose_model(current.record.model);
  show_path();
  to_end();
  show_list();
  $('input').focus();
}

// The path to the leaf; elements of messages that stay are kept.
function show_path() {
  const old = views;
  views = new Map();
  const elements = current.path().map(m => {
    const known = old.get(m.id);
    const view = known?.m === m ? known : new View(current, m, actions);
    if (known === view) view.show();
    views.set(m.id, view);
    return view.element;
  });
  const log = $('log');
  elements.forEach((e, i) => { if (log.children[i] !== e) log.insertBefore(e, log.children[i] ?? null); });
  while (log.children.length > elements.length) log.lastChild.remove();
  if (!elements.length) log.append(el('p', {className: 'empty'}, 'Say something. Everything stays on this machine: the conversation in this browser, the model in its server.'));
  show_running();
}

function show_running() {
  const busy = Boolean(current.running);
  $('send').hidden = busy;
  $('send').disabled = current.busy;
  $('stop').hidden = !busy;
  for (const b of $('log').querySelectorAll('[data-idle]')) b.disabled = current.busy;
}

// ---- the end of the conversation is followed, until somebody scrolls up and as soon as they are back ----

let following = true, top_was = 0, height_was = 0;

const at_end = () => $('log').scrollHeight - $('log').scrollTop - $('log').clientHeight < 4;

$('log').onscroll = () => {
  const log = $('log');
  if (log.scrollTop < top_was && log.scrollHeight >= height_was) following = false;
  else if (log.scrollTop > top_was && at_end()) following = true;
  [top_was, height_was] = [log.scrollTop, log.scrollHeight];
};
// The scrolling itself comes later, and perhaps after more text.
const upward = () => { if ($('log').scrollTop > 0) following = false; };
$('log').addEventListener('wheel', e => { if (e.deltaY < 0) upward(); }, {passive: true});
$('log').addEventListener('keydown', e => {
  if (!e.altKey && ['ArrowUp', 'PageUp', 'Home'].includes(e.key)) upward();
});

// The heights of messages that were never seen are estimates: what is near the end gets its own in the frames after.
function to_end(frames = 2) {
  following = true;
  const log = $('log');
  log.scrollTop = log.scrollHeight;
  [top_was, height_was] = [log.scrollTop, log.scrollHeight];
  if (frames) requestAnimationFrame(() => { if (following) to_end(frames - 1); });
}

async function generate(c, parent) {
  let frame = 0;
  const changed = m => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (current !== c) return;
      if (!views.has(m.id)) show_path();
      views.get(m.id)?.show();
      if (following) to_end(0);
    });
  };
  notice('other', '');
  running.set(c.record.id, c);
  let m = null;
  try {
    const answer = c.answer(parent, changed);
    if (current === c) {
      show_path();
      to_end();
    }
    m = await answer;
  } finally {
    running.delete(c.record.id);
    if (current === c) {
      const focus = document.activeElement;
      show_path();
      if (following) to_end();
      if (!focus || focus === document.body || focus === $('stop')) $('input').focus({preventScroll: true});
    }
    show_list();
  }
  if (m.status === 401) notice('server', 'The server wants a key: it goes into Settings.');
  if (m.status === 404) read_models(); // the model may be gone
}

const actions = {
  async edit(m, text) {
    const c = current;
    if (c.busy || !text.trim()) return;
    await generate(c, c.put(m.parent, {role: 'user', content: text}).id);
  },
  async again(m) {
    const c = current;
    if (!c.busy) await generate(c, m.parent);
  },
  async go(m) {
    const c = current;
    if (c.busy) return;
    await c.choose(m);
    if (current !== c) return;
    show_path();
    views.get(m.id)?.element.focus();
  },
  // Results of tools follow one another; the model is asked once all calls have one.
  async answer(m, call, content) {
    const c = current;
    if (c.busy) return;
    const last = c.put(c.record.leaf, {role: 'tool', call: call.id, content});
    const given = new Set(c.path().filter(r => r.role === 'tool').map(r => r.call));
    if (m.calls.every(one => !whole(one) || given.has(one.id))) return generate(c, last.id);
    show_path();
    await c.save();
  },
};

// ---- models ----

let here = []; // names of the models that the server has

function choose_model(name) {
  const known = [...$('model').options].some(o => o.value === name);
  if (name && !known) $('model').append(el('option', {value: name}, `${name} (not here)`));
  if (name) $('model').value = name;
}

async function read_models() {
  try {
    const found = (await models()).map(m => m.id);
    if (JSON.stringify(found) !== JSON.stringify(here)) {
      here = found;
      $('model').replaceChildren(...here.map(name => el('option', {value: name}, name)));
      choose_model(current?.record.model);
    }
    notice('server', '');
    return true;
  } catch (e) {
    notice('server', e.status === 401 ? 'The server wants a key: it goes into Settings.'
      : `The server does not answer (${e.message}). What is here can be read.`);
    return false;
  }
}

// ---- what is typed ----

async function send() {
  const c = current, text = $('input').value;
  if (!text.trim() || c.busy) return;
  write('');
  c.record.model = $('model').value;
  await generate(c, c.put(c.record.leaf, {role: 'user', content: text}).id);
}

// The line that is typed in survives a reload.
function write(text) {
  $('input').value = text;
  grow();
}

function grow() {
  const input = $('input');
  input.rows = Math.min(10, input.value.split('\n').length);
  remember('draft', input.value, 'sessionStorage');
}

function open_settings() {
  const c = current;
  edit_settings(c.record.settings, async settings => {
    c.record.settings = settings;
    remember('settings', JSON.stringify(settings));
    if (c.messages.size) await c.save();
    read_models();
  });
}

const narrow = matchMedia('(max-width: 700px)'); // then there is room for the list or for a conversation

function show_side(shown) {
  document.body.classList.toggle('aside', !shown);
  $('menu').setAttribute('aria-expanded', shown);
}

async function export_all() {
  const url = URL.createObjectURL(new Blob([await everything()], {type: 'application/json'}));
  el('a', {href: url, download: 'conversations.json'}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function import_all() {
  const input = el('input', {type: 'file', accept: '.json,application/json', onchange: async () => {
    notice('other', '');
    try {
      const ids = await take(await input.files[0].text(), async id => running.has(id) || held(id));
      ids.forEach(id => tell('changed', id));
      if (ids.includes(current.record.id)) await reread(current);
    } catch (e) {
      notice('other', `Nothing was taken from this file: ${e.message}.`);
    }
    show_list();
  }});
  input.click();
}

$('composer').onsubmit = e => { e.preventDefault(); send(); };
$('input').oninput = grow;
$('input').onkeydown = e => {
  if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); }
};
$('stop').onclick = () => current.running?.stop();
$('new').onclick = begin;
$('menu').onclick = () => show_side(document.body.classList.contains('aside'));
$('settings-open').onclick = open_settings;
$('export').onclick = export_all;
$('import').onclick = import_all;
$('model').onfocus = read_models;
$('model').onchange = () => { current.record.model = $('model').value; };
const live = new Live($('live'), $('live-open'));
$('live-open').onclick = () => live.toggle();

document.addEventListener('keydown', e => {
  if ($('settings').open) return;
  if (e.key === 'Escape') {
    if (narrow.matches && !document.body.classList.contains('aside')) show_side(false);
    else current?.running?.stop();
  }
  if (!e.altKey || e.ctrlKey) return;
  // Option makes other letters of them on a Mac: then the key's place counts.
  const letter = /^[a-z]$/i.test(e.key) ? e.key.toLowerCase() : e.code.replace('Key', '').toLowerCase();
  const does = {n: begin, s: open_settings, l: () => live.toggle()}[letter];
  if (does) { e.preventDefault(); does(); }
  if (e.key === 'ArrowUp' || e.key === 'ArrowDown') {
    const at = records.findIndex(r => r.id === current?.record.id) + (e.key === 'ArrowUp' ? -1 : 1);
    if (records[at]) { e.preventDefault(); open(records[at].id); }
  }
});
addEventListener('unhandledrejection', e => notice('other', e.reason?.message ?? String(e.reason)));
setInterval(() => { if (said.server && !document.hidden) read_models(); }, 5000);

if (narrow.matches) {
  show_side(false);
  $('input').placeholder = 'Message'; // the rest has no room
}
write(recall('draft', 'sessionStorage') ?? '');
await read_models();
await show_list();
const last = recall('last');
for (const id of [last, records[0]?.id])
  if (!current && records.some(r => r.id === id)) await open(id).catch(e => notice('other', e.message));
if (!current) await begin();
document.body.dataset.ready = 'true';
