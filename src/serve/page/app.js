// app.js -- the page: conversations at the side, the one that is open, what is typed.
import * as db from './db.js';
import {models} from './api.js';
import {Conversation} from './conversation.js';
import {View} from './message.js';
import {edit as edit_settings} from './settings.js';
import {Live} from './live.js';
import {el, $, button} from './dom.js';

let current = null;      // Conversation
let views = new Map();   // message id -> View
let records = [];        // of all conversations, the last one used first
const kept_settings = () => JSON.parse(localStorage.getItem('settings') ?? '{}');

function notice(text) {
  $('notice').textContent = text;
  $('notice').hidden = !text;
}

// ---- the list at the side ----

async function show_list() {
  records = (await db.conversations()).sort((a, b) => b.changed - a.changed);
  $('list').replaceChildren(...records.map(r => el('li', {className: r.id === current?.record.id ? 'open' : ''},
    el('button', {type: 'button', className: 'title', 'aria-current': r.id === current?.record.id ? 'true' : null,
      onclick: () => open(r.id)}, r.title || 'New conversation'),
    button('✕', `Delete "${r.title}"`, () => remove(r)))));
}

async function remove(record) {
  if (!confirm(`Delete "${record.title || 'New conversation'}"?`)) return;
  const shown = current?.record.id === record.id ? current : null;
  const conversation = running.get(record.id) ?? shown ?? new Conversation(record);
  if (current === conversation) current = null;
  await conversation.remove();
  await show_list();
  if (!current) await (records.length ? open(records[0].id) : begin());
}

// ---- the conversation ----

async function begin() {
  if (current && !current.messages.size) return $('input').focus();
  current = Conversation.create(kept_settings());
  current.record.model = $('model').value;
  opened();
}

async function open(id) {
  if (current?.record.id === id) return;
  const record = records.find(r => r.id === id);
  if (!record) return;
  current = running.get(id) ?? await Conversation.load(record);
  opened();
}

const running = new Map(); // conversations that are being answered, whichever is on the screen

function opened() {
  localStorage.setItem('last', current.record.id);
  choose_model(current.record.model);
  if (narrow.matches) show_side(false);
  show_path();
  to_end(true);
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
  $('stop').hidden = !busy;
}

const near_end = () => $('log').scrollHeight - $('log').scrollTop - $('log').clientHeight < 80;
function to_end(always) {
  if (always || near_end()) $('log').scrollTop = $('log').scrollHeight;
}

async function generate(parent) {
  const conversation = current;
  let frame = 0;
  const changed = m => {
    if (frame) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      if (current !== conversation) return;
      const follow = near_end();
      if (!views.has(m.id)) show_path();
      views.get(m.id)?.show();
      if (follow) to_end(true);
    });
  };
  running.set(conversation.record.id, conversation);
  const answer = conversation.answer(parent, changed);
  show_path();
  to_end(true);
  const m = await answer;
  running.delete(conversation.record.id);
  if (m.status === 401) notice('The server wants a key: it goes into Settings.');
  if (current === conversation) {
    show_path();
    $('input').focus({preventScroll: true});
  }
  show_list();
}

const actions = {
  async edit(m, text) {
    if (current.running || !text.trim()) return;
    const anew = await current.add(m.parent, {role: 'user', content: text});
    await generate(anew.id);
  },
  async again(m) {
    if (!current.running) await generate(m.parent);
  },
  async go(m) {
    if (current.running) return;
    await current.choose(m);
    show_path();
    views.get(m.id)?.element.focus();
  },
  // Results of tools follow one another; the model is asked once all calls have one.
  async answer(m, call, content) {
    const given = current.path().filter(r => r.role === 'tool' && m.calls.some(c => c.id === r.call)).map(r => r.call);
    const last = await current.add(current.record.leaf, {role: 'tool', call: call.id, content});
    if (m.calls.every(c => c.id === call.id || given.includes(c.id))) await generate(last.id);
    else show_path();
  },
};

// ---- models ----

function choose_model(name) {
  if (name && ![...$('model').options].some(o => o.value === name)) $('model').append(el('option', {value: name}, `${name} (not here)`));
  if (name) $('model').value = name;
}

async function read_models() {
  try {
    const found = await models();
    $('model').replaceChildren(...found.map(m => el('option', {value: m.id}, m.id)));
    choose_model(current?.record.model);
    notice('');
    return true;
  } catch (e) {
    notice(e.status === 401 ? 'The server wants a key: it goes into Settings.'
      : `The server does not answer (${e.message}). What is here can be read.`);
    return false;
  }
}

// ---- what is typed ----

async function send() {
  const text = $('input').value;
  if (!text.trim() || current.running) return;
  $('input').value = '';
  grow();
  current.record.model = $('model').value;
  const m = await current.add(current.record.leaf, {role: 'user', content: text});
  await generate(m.id);
}

function grow() {
  const input = $('input');
  input.rows = Math.min(10, input.value.split('\n').length);
}

function open_settings() {
  edit_settings(current.record.settings, async settings => {
    current.record.settings = settings;
    localStorage.setItem('settings', JSON.stringify(settings));
    if (current.messages.size) await current.save();
    read_models();
  });
}

const narrow = matchMedia('(max-width: 700px)'); // then there is room for the list or for a conversation

function show_side(shown) {
  document.body.classList.toggle('aside', !shown);
  $('menu').setAttribute('aria-expanded', shown);
}

async function export_all() {
  const all = await Promise.all(records.map(async r => ({...r, messages: await db.messages(r.id)})));
  const url = URL.createObjectURL(new Blob([JSON.stringify(all)], {type: 'application/json'}));
  el('a', {href: url, download: 'conversations.json'}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function import_all() {
  const input = el('input', {type: 'file', accept: '.json,application/json', onchange: async () => {
    try {
      for (const {messages, ...record} of JSON.parse(await input.files[0].text())) {
        await db.putConversation(record);
        for (const m of messages) await db.putMessage(m);
      }
    } catch (e) {
      notice(`This file cannot be read: ${e.message}`);
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
$('model').onchange = () => { current.record.model = $('model').value; };
const live = new Live($('live'), $('live-open'));
$('live-open').onclick = () => live.toggle();

document.addEventListener('keydown', e => {
  if ($('settings').open) return;
  if (e.key === 'Escape' && current?.running) current.running.stop();
  const keys = {n: begin, s: open_settings, l: () => live.toggle()};
  if (e.altKey && !e.ctrlKey && keys[e.key]) { e.preventDefault(); keys[e.key](); }
  if (e.altKey && (e.key === 'ArrowUp' || e.key === 'ArrowDown')) {
    const at = records.findIndex(r => r.id === current?.record.id) + (e.key === 'ArrowUp' ? -1 : 1);
    if (records[at]) { e.preventDefault(); open(records[at].id); }
  }
});
addEventListener('unhandledrejection', e => notice(e.reason?.message ?? String(e.reason)));
setInterval(() => { if (!$('notice').hidden && !document.hidden) read_models(); }, 5000);

if (narrow.matches) {
  show_side(false);
  $('input').placeholder = 'Message'; // the rest has no room
}
await read_models();
await show_list();
const last = localStorage.getItem('last');
await (records.some(r => r.id === last) ? open(last) : records.length ? open(records[0].id) : begin());
document.body.dataset.ready = 'true';
