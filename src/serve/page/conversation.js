// conversation.js -- a conversation is a tree of messages; what is shown is the path from its root to one leaf. Editing
// and answering again make siblings, nothing is overwritten.
import * as db from './db.js';
import {chat} from './api.js';

const SAVE_EVERY = 300; // ms: what a crash of the browser may lose
const id = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 8);

export class Conversation {
  constructor(record, messages = []) {
    this.record = record;
    this.messages = new Map(messages.map(m => [m.id, m]));
    for (const m of messages) if (m.state === 'streaming') m.state = 'interrupted'; // the page was gone
    this.running = null;
    this.deleted = false; // nothing of it is written down any more
  }

  static create(settings) {
    return new Conversation({id: id(), title: '', model: '', settings, leaf: null, changed: Date.now()});
  }

  static async load(record) {
    return new Conversation(record, await db.messages(record.id));
  }

  children(parent) {
    return [...this.messages.values()].filter(m => m.parent === parent).sort((a, b) => a.created - b.created);
  }

  path(leaf = this.record.leaf) {
    const found = [];
    for (let m = this.messages.get(leaf); m && found.length <= this.messages.size; m = this.messages.get(m.parent)) found.push(m);
    return found.reverse();
  }

  async save() {
    this.record.changed = Date.now();
    if (!this.deleted) await db.putConversation(this.record);
  }

  async write(m) {
    if (!this.deleted) await db.putMessage(m);
  }

  // What is under way for it ends first.
  async remove() {
    this.deleted = true;
    this.running?.stop();
    await this.running?.ended;
    await db.remove(this.record.id);
  }

  put(parent, fields) {
    const m = {conversation: this.record.id, id: id(), parent, created: Date.now(), content: '', state: 'done', ...fields};
    this.messages.set(m.id, m);
    this.record.leaf = m.id;
    if (!this.record.title && m.role === 'user') this.record.title = m.content.trim().split('\n')[0].slice(0, 80);
    return m;
  }

  async add(parent, fields) {
    const m = this.put(parent, fields);
    await Promise.all([this.write(m), this.save()]);
    return m;
  }

  // Shows the branch through a message, down to its newest leaf.
  async choose(m) {
    for (let next = m; next; next = this.children(next.id).at(-1)) m = next;
    this.record.leaf = m.id;
    await this.save();
  }

  request(leaf) {
    const {system, tools, n_probs, ...sampling} = this.record.settings;
    const messages = this.path(leaf).filter(m => m.role !== 'assistant' || m.content || m.calls?.length).map(m => ({
      role: m.role, content: m.content,
      ...(m.reasoning ? {reasoning_content: m.reasoning} : {}),
      ...(m.calls?.length ? {tool_calls: m.calls.map(c => ({id: c.id, type: 'function',
        function: {name: c.name, arguments: c.arguments}}))} : {}),
      ...(m.role === 'tool' ? {tool_call_id: m.call} : {}),
    }));
    if (system) messages.unshift({role: 'system', content: system});
    const given = Object.fromEntries(Object.entries(sampling).filter(([, v]) => v !== '' && v !== null && v !== undefined));
    return {model: this.record.model || undefined, messages, ...given,
      ...(tools ? {tools: JSON.parse(tools)} : {}), ...(n_probs ? {logprobs: true, top_logprobs: +n_probs} : {})};
  }

  // Answers the message `parent`; `changed(m)` is called after each piece. What came is kept whatever happens.
  async answer(parent, changed) {
    const m = this.put(parent, {role: 'assistant', state: 'streaming', model: this.record.model});
    const stop = new AbortController(), began = performance.now();
    let timer = 0, first = 0; // written down soon after each piece, also where no other follows
    const save_soon = () => { timer ||= setTimeout(() => { timer = 0; this.write(m); }, SAVE_EVERY); };
    let end;
    this.running = {message: m, stop: () => stop.abort(), ended: new Promise(resolve => { end = resolve; })};
    try {
      await Promise.all([this.write(m), this.save()]);
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
    } finally {
      clearTimeout(timer);
      this.running = null;
      end();
    }
    await Promise.all([this.write(m), this.save()]);
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
