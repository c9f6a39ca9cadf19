// transfer.js -- all conversations into a file, and back. A file is checked whole before any of it is taken, and what
// is here already is never replaced by less.
import * as db from './db.js';
import {unkept} from './conversation.js';

const ROLES = ['user', 'assistant', 'tool'];
const FIELDS = {id: 'string', content: 'string', reasoning: 'string', error: 'string', model: 'string', call: 'string',
  state: 'string', finish: 'string', created: 'number', thought: 'number', seconds: 'number', first: 'number',
  pieces: 'number', usage: 'object'};
const STRING = v => typeof v === 'string', OBJECT = v => typeof v === 'object' && v !== null && !Array.isArray(v);
const CALL = c => c === null || OBJECT(c) && STRING(c.id) && STRING(c.name) && STRING(c.arguments);
const PIECE = p => Array.isArray(p) && STRING(p[0]) && typeof p[1] === 'number';
const TOKEN = t => PIECE(t) && Array.isArray(t[2]) && t[2].every(PIECE);
const each = (list, right) => list === undefined || Array.isArray(list) && list.every(right);

export async function everything() {
  const all = new Map();
  for (const {id} of await db.conversations().catch(() => [])) {
    const {record, messages} = await db.read(id);
    if (record) all.set(id, {...record, messages});
  }
  for (const [id, c] of unkept) all.set(id, {...c.record, messages: [...c.messages.values()]});
  return JSON.stringify([...all.values()]);
}

function check(right, what) {
  if (!right) throw new Error(what);
}

function checked(text) {
  const all = JSON.parse(text);
  check(Array.isArray(all), 'a list of conversations is expected');
  return all.map((c, i) => {
    const where = `conversation ${i + 1}`;
    check(OBJECT(c) && STRING(c.id) && c.id && Array.isArray(c.messages), `${where} has no "id" or no "messages"`);
    const {id, title, model, settings, leaf, changed} = c, ids = new Set(c.messages.map(m => m?.id));
    check(settings === undefined || OBJECT(settings), `${where} has settings that are none`);
    const messages = c.messages.map((m, k) => {
      const of = `message ${k + 1} of ${where}`;
      check(OBJECT(m) && STRING(m.id) && m.id && STRING(m.content) && ROLES.includes(m.role),
        `${of} has no "id", "role" or "content"`);
      check(typeof m.created === 'number' && (m.parent === null || ids.has(m.parent)),
        `${of} has no "created" or no "parent"`);
      for (const [name, type] of Object.entries(FIELDS))
        check(m[name] === undefined || typeof m[name] === type, `${of} has a wrong "${name}"`);
      check(each(m.calls, CALL) && each(m.tokens, TOKEN), `${of} has calls or tokens that are none`);
      return {...m, conversation: id, state: m.state === 'streaming' ? 'interrupted' : m.state};
    });
    return {record: {id, title: STRING(title) ? title : '', model: STRING(model) ? model : '', settings: settings ?? {},
      leaf: ids.has(leaf) ? leaf : null, changed: typeof changed === 'number' ? changed : 0}, messages};
  });
}

// Ids of the conversations that have changed by it. A message that is here in full stays, and of two records the later.
export async function take(text, being_written) {
  const found = checked(text), records = [], messages = [];
  for (const one of found) {
    const {id} = one.record, here = await db.read(id), written = await being_written(id);
    const partial = m => m.state === 'streaming' && !written, known = new Map(here.messages.map(m => [m.id, m]));
    if (!here.record || here.record.changed < one.record.changed && !written) records.push(one.record);
    messages.push(...one.messages.filter(m => !known.has(m.id) || partial(known.get(m.id))));
  }
  await db.put(records, messages);
  return found.map(one => one.record.id);
}
