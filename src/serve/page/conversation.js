// conversation.js -- a conversation is a tree of messages; what is shown is the path from its root to one leaf. Editing
// and answering again make siblings, nothing is overwritten.
import * as db from './db.js';
import {chat} from './api.js';
import {hold, held, tell} from './tabs.js';

const SAVE_EVERY = 300; // ms: what a crash of the browser may lose
const id = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 8);

// Those of which something could not be written down: they live in this page only.
export const unkept = new Map();

// A call that was stopped in the middle: nobody can answer it, and a server refuses it.
export function whole(call) {
  try {
    JSON.parse(call.arguments || '{}');
    return true;
  } catch {
    return false;
  }
}

export class Conversation {
  static kept = () => {}; // called after each writing, with the error if it failed

  constructor(record) {
    this.record = record;
    this.messages = new Map();
    this.unwritten = new Set();
    this.running = null;
    this.elsewhere = false; // another tab writes an answer of it: here it can be read
    this.deleted = false; // nothing of it is written down any more
  }

  static create(settings) {
    return new Conversation({id: id(), title: '', model: '', settings, leaf: null, changed: Date.now()});
  }

  // null: it is not there any more
  static async load(id) {
    const c = new Conversation({id});
    return await c.read() ? c : null;
  }

  get busy() {
    return Boolean(this.running) || this.elsewhere || this.deleted;
  }

  // Takes what the browser's store has, after another tab or an import changed it. Messages that are here already stay
  // the same objects. False: it is not there.
  async read() {
    const elsewhere = !this.running && await held(this.record.id);
    const {record, messages} = await db.read(this.record.id);
    if (!record) return unkept.has(this.record.id);
    this.elsewhere = elsewhere && !this.running;
    const own = this.running?.message; // newer here than there
    const model = this.record.model || record.model; // the one that is chosen here stays
    if (!own) Object.assign(this.record, record, {model});
    this.record.settings ??= {};
    for (const m of messages) {
      if (m.id === own?.id || this.unwritten.has(this.messages.get(m.id))) continue;
      m.content ??= '';
      if (m.state === 'streaming' && !this.elsewhere) m.state = 'interrupted'; // the page was gone
      this.messages.set(m.id, Object.assign(this.messages.get(m.id) ?? {}, m));
    }
    if (own) return true;
    const newest = [...this.messages.values()].sort((a, b) => a.created - b.created).at(-1);
    this.record.leaf = this.below(this.messages.get(this.record.leaf) ?? newest);
    return true;
  }

  // The newest leaf under a message
  below(m) {
    const seen = new Set(); // a file that was imported may say anything
    for (let next = m; next && !seen.has(next); next = this.children(next.id).at(-1)) seen.add(m = next);
    return m?.id ?? null;
  }

  children(parent) {
    return [...this.messages.values()].filter(m => m.parent === parent).sort((a, b) => a.created - b.created);
  }

  path(leaf = this.record.leaf) {
    const found = [];
    for (let m = this.messages.get(leaf); m && found.length <= this.messages.size; m = this.messages.get(m.parent)) found.push(m);
    return found.reverse();
  }

  // Writes what is not written yet. A browser that keeps nothing (private windows, a full disk) stops nobody: it goes
  // on in memory, and each writing tries again.
  async keep() {
    if (this.deleted) return;
    const now = [...this.unwritten];
    this.unwritten.clear();
    try {
      await db.put([this.record], now);
      if (!this.unwritten.size) unkept.delete(this.record.id);
      Conversation.kept(null);
    } catch (e) {
      now.forEach(m => this.unwritten.add(m));
      if (!this.deleted) unkept.set(this.record.id, this);
      Conversation.kept(e);
    }
  }

  async save() {
    this.record.changed = Date.now();
    await this.keep();
    if (!this.deleted) tell('changed', this.record.id);
  }

  // What is under way for it ends first. False: another tab is writing it.
  async remove() {
    if (!this.running && await held(this.record.id)) return false;
    this.deleted = true;
    this.running?.stop();
    await this.running?.ended;
    unkept.delete(this.record.id);
    await db.remove(this.record.id).catch(Conversation.kept);
    tell('removed', this.record.id);
    return true;
  }

  put(parent, fields) {
    const m = {conversation: this.record.id, id: id(), parent, created: Date.now(), content: '', state: 'done', ...fields};
    this.messages.set(m.id, m);
    this.unwritten.add(m);
    this.record.leaf = m.id;
    if (!this.record.title && m.role === 'user') this.record.title = m.content.trim().split('\n')[0].slice(0, 80);
    return m;
  }

  // Shows the branch through a message, down to its newest leaf.
  async choose(m) {
    this.record.leaf = this.below(m);
    await this.save();
  }

  request(leaf) {
    const {system, tools, n_probs, ...sampling} = this.record.settings;
    const path = this.path(leaf), calls = m => m.calls?.filter(whole) ?? [];
    const called = new Set(path.flatMap(calls).map(c => c.id));
    const said = m => m.role === 'assistant' ? m.content || calls(m).length : m.role !== 'tool' || called.has(m.call);
    const messages = path.filter(said).map(m => ({
      role: m.role, content: m.content,
      ...(m.reasoning ? {reasoning_content: m.reasoning} : {}),
      ...(calls(m).length ? {tool_calls: calls(m).map(c => ({id: c.id, type: 'function',
        function: {name: c.name, arguments: c.arguments || '{}'}}))} : {}),
      ...(m.role === 'tool' ? {tool_call_id: m.call} : {}),
    }));
    if (system) messages.unshift({role: 'system', content: system});
    const given = Object.fromEntries(Object.entries(sampling).filter(([, v]) => v !== '' && v !== null && v !== undefined));
    return {model: this.record.model || undefined, messages, ...given,
      ...(tools ? {tools: JSON.parse(tools)} : {}), ...(n_probs ? {logprobs: true, top_logprobs: +n_probs} : {})};
  }

  // Answers the message `parent`; `changed(m)` is called after each piece. What came is kept whatever happens, and it
  // never throws.
  async answer(parent, changed) {
    const m = this.put(parent, {role: 'assistant', state: 'streaming', model: this.record.model});
    const stop = new AbortController(), began = performance.now();
    let timer = 0, first = 0; // written down soon after each piece, also where no other follows
    const save_soon = () => {
      timer ||= setTimeout(() => { timer = 0; this.unwritten.add(m); this.keep(); }, SAVE_EVERY);
    };
    let end, release = null;
    this.running = {message: m, stop: () => stop.abort(), ended: new Promise(resolve => { end = resolve; })};
    try {
      release = await hold(this.record.id);
      if (!release) throw new Error('another tab is writing an answer of this conversation');
      await this.save();
      for await (const chunk of chat(this.record.id, this.request(parent), stop.signal)) {
        const choice = chunk.choices?.[0];
        m.model = chunk.model ?? m.model;
        if (choice) take(m, choice, performance.now() - began);
        if (choice && !first && (m.content || m.reasoning || m.calls)) first = performance.now();
        if (chunk.usage) m.usage = chunk.usage;
        m.pieces = (m.pieces ?? 0) + 1;
        m.seconds = first ? (performance.now() - first) / 1000 : 0;
        m.first = first ? (first - began) / 1000 : 0;
        changed(m);
        save_soon();
      }
      m.state = 'done';
    } catch (e) {
      m.state = stop.signal.aborted ? 'stopped' : 'failed';
      if (!stop.signal.aborted) m.error = e instanceof TypeError ? 'the server cannot be reached' : e.message;
      m.status = e.status;
    }
    clearTimeout(timer);
    this.unwritten.add(m);
    await this.save();
    release?.();
    this.running = null;
    end();
    changed(m);
    return m;
  }
}

// One choice of a chunk into a message.
function take(m, {delta = {}, logprobs, finish_reason}, elapsed) {
  if (delta.reasoning_content) {
    m.reasoning = (m.reasoning ?? '') + delta.reasoning_content;
    m.thought = elapsed / 1000;
  }
  if (delta.content) m.content += delta.content;
  for (const part of delta.tool_calls ?? []) {
    m.calls ??= [];
    const call = m.calls[part.index ?? 0] ??= {id: '', name: '', arguments: ''};
    if (part.id) call.id = part.id;
    call.name += part.function?.name ?? '';
    call.arguments += part.function?.arguments ?? '';
  }
  for (const t of logprobs?.content ?? [])
    (m.tokens ??= []).push([t.token, t.logprob, (t.top_logprobs ?? []).map(a => [a.token, a.logprob])]);
  if (finish_reason) m.finish = finish_reason;
}
