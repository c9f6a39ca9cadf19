// message.js -- one message as an element.
import {el, button, copyButton} from './dom.js';
import {update} from './markdown.js';

const NAMES = {user: 'You', assistant: 'Answer', tool: 'Result of a tool'};
const ENDS = {length: 'the limit of tokens was reached', content_filter: 'filtered'};

const percent = logprob => `${(100 * Math.exp(logprob)).toFixed(1)} %`;

function statistics(m) {
  const n = m.usage?.completion_tokens ?? m.tokens?.length ?? m.pieces;
  const parts = [];
  if (m.model) parts.push(m.model);
  if (n) parts.push(`${n} tokens`);
  if (n > 1 && m.seconds > 0.05) parts.push(`${((n - 1) / m.seconds).toFixed(1)} tokens/s`);
  if (m.first) parts.push(`first after ${m.first.toFixed(2)} s`);
  const read = m.usage?.prompt_tokens, cached = m.usage?.prompt_tokens_details?.cached_tokens;
  if (read) parts.push(`prompt ${read}${cached ? `, ${cached} cached` : ''}`);
  return parts.join(' · ');
}

function state_of(m) {
  if (m.state === 'stopped') return 'stopped';
  if (m.state === 'interrupted') return 'the page was closed while this was written';
  if (m.state === 'failed') return m.error;
  return ENDS[m.finish] ?? '';
}

// Tokens, each with its probability and what could have stood there.
function probabilities(m) {
  return el('p', {className: 'tokens'}, ...m.tokens.map(([text, logprob, top]) => el('span', {
    className: `p${Math.min(9, Math.floor(10 * Math.exp(logprob)))}`, tabIndex: 0,
    title: [`${JSON.stringify(text)}  ${percent(logprob)}`, ...top.map(([t, p]) => `${percent(p).padStart(7)}  ${JSON.stringify(t)}`)].join('\n'),
  }, text)));
}

function call(c, answer) {
  let text = c.arguments;
  try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* still coming, or broken: as it is */ }
  const details = el('details', {className: 'call', open: Boolean(answer)},
    el('summary', {}, el('code', {}, `${c.name}(${c.arguments.length > 60 ? '…' : c.arguments})`)), el('pre', {}, text));
  if (!answer) return details;
  const result = el('textarea', {rows: 2, placeholder: 'What the tool says', 'aria-label': `Result of ${c.name}`});
  details.append(el('form', {onsubmit: e => { e.preventDefault(); answer(c, result.value); }}, result, el('button', {}, 'Answer')));
  return details;
}

export class View {
  // `page` has edit, again, go, answer; see app.js.
  constructor(conversation, m, page) {
    Object.assign(this, {conversation, m, page});
    this.text = el('div', {className: 'text'});
    this.thoughts = el('div', {className: 'text'});
    this.summary = el('summary');
    this.reasoning = el('details', {className: 'reasoning', hidden: true}, this.summary, this.thoughts);
    this.calls = el('div');
    this.note = el('p', {className: 'note', hidden: true});
    this.stats = el('span', {className: 'stats'});
    this.actions = el('span', {className: 'actions'});
    this.element = el('article', {className: `message ${m.role}`, tabIndex: -1},
      el('h2', {className: 'who'}, NAMES[m.role] ?? m.role), this.reasoning, this.text, this.calls, this.note,
      el('footer', {}, this.actions, this.stats));
    this.show();
  }

  show() {
    const {m} = this, writing = m.state === 'streaming';
    if (this.by_token && m.tokens) this.text.replaceChildren(probabilities(m)), this.text.blocks = null;
    else if (m.role === 'assistant') update(this.text, m.content, writing);
    else this.text.textContent = m.content;
    this.reasoning.hidden = !m.reasoning;
    if (m.reasoning) {
      update(this.thoughts, m.reasoning, writing && !m.content && !m.calls);
      this.summary.textContent = writing && !m.content && !m.calls ? 'Thinking …' : `Thought for ${(m.thought ?? 0).toFixed(1)} s`;
    }
    if (m.calls) this.show_calls();
    const note = state_of(m);
    this.note.hidden = !note;
    this.note.textContent = note;
    this.note.className = m.state === 'failed' ? 'note bad' : 'note';
    this.stats.textContent = m.role === 'assistant' ? statistics(m) : '';
    this.element.setAttribute('aria-busy', writing);
    this.show_actions(writing);
  }

  show_calls() {
    const {m, conversation} = this;
    const answered = new Set(conversation.path().filter(r => r.role === 'tool').map(r => r.call));
    const open = c => m.state !== 'streaming' && !answered.has(c.id) && (result => this.page.answer(m, c, result));
    const key = JSON.stringify([m.calls, m.state, [...answered]]);
    if (key === this.shown_calls) return;
    this.shown_calls = key;
    this.calls.replaceChildren(...m.calls.map(c => call(c, open(c) ? (_, text) => open(c)(text) : null)));
  }

  show_actions(writing) {
    const {m, conversation, page} = this, siblings = conversation.children(m.parent), at = siblings.indexOf(m);
    const key = `${writing} ${at} ${siblings.length} ${Boolean(m.tokens)} ${this.by_token}`;
    if (key === this.shown_actions) return;
    this.shown_actions = key;
    if (writing) return this.actions.replaceChildren();
    const wanted = [];
    if (siblings.length > 1) wanted.push(
      el('button', {type: 'button', title: 'The branch before', disabled: at === 0, onclick: () => page.go(siblings[at - 1])}, '‹'),
      el('span', {className: 'branch'}, `${at + 1}/${siblings.length}`),
      el('button', {type: 'button', title: 'The branch after', disabled: at + 1 === siblings.length, onclick: () => page.go(siblings[at + 1])}, '›'));
    wanted.push(copyButton(() => m.content));
    if (m.role === 'user') wanted.push(button('Edit', 'Write it anew, in a branch of its own', () => this.edit()));
    if (m.role === 'assistant') wanted.push(button('Again', 'Another answer, in a branch of its own', () => page.again(m)));
    if (m.tokens) wanted.push(button(this.by_token ? 'Text' : 'Probabilities', 'Each token with its probability', () => {
      this.by_token = !this.by_token;
      this.show();
    }));
    this.actions.replaceChildren(...wanted);
  }

  edit() {
    const area = el('textarea', {value: this.m.content, rows: Math.min(12, this.m.content.split('\n').length + 1), 'aria-label': 'Message'});
    const back = () => { this.text.replaceChildren(); this.show(); };
    const form = el('form', {className: 'edit', onsubmit: e => { e.preventDefault(); this.page.edit(this.m, area.value); }},
      area, el('button', {}, 'Send'), button('Cancel', 'Esc', back));
    area.onkeydown = e => {
      if (e.key === 'Escape') { e.stopPropagation(); back(); }
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); form.requestSubmit(); }
    };
    this.text.replaceChildren(form);
    area.focus();
  }
}
