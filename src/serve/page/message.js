// message.js -- one message as an element.
import {el, $, button, copyButton} from './dom.js';
import {update} from './markdown.js';
import {whole} from './conversation.js';

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

function state_of(m, elsewhere) {
  if (m.state === 'streaming' && elsewhere) return 'is being written in another tab';
  if (m.state === 'stopped') return 'stopped';
  if (m.state === 'interrupted') return 'the page was closed while this was written';
  if (m.state === 'failed') return m.error;
  return ENDS[m.finish] ?? '';
}

// Tokens, each with its probability; a line below says what could have stood where the focus is. One Tab goes to the
// token that was looked at last, arrows to the others.
function probabilities(m) {
  const told = ([text, logprob, top]) => [[text, logprob], ...top.filter(([t]) => t !== text)].map(([t, p]) =>
    `${JSON.stringify(t)} ${percent(p)}`);
  const spans = m.tokens.map((t, i) => el('span', {className: `p${Math.min(9, Math.floor(10 * Math.exp(t[1])))}`,
    tabIndex: i ? -1 : 0, title: told(t).join('\n')}, t[0]));
  const line = el('p', {className: 'alternatives', role: 'status'},
    'Tap a token, or go to it with the arrow keys: this line tells its alternatives.');
  let at = 0;
  const go = to => {
    if (!spans[to]) return;
    spans[at].tabIndex = -1;
    spans[at = to].tabIndex = 0;
    const [itself, ...others] = told(m.tokens[at]);
    line.textContent = others.length ? `${itself}, others: ${others.join(', ')}` : itself;
    if (document.activeElement !== spans[at]) spans[at].focus();
  };
  const to_it = e => go(spans.indexOf(e.target));
  const by_key = e => {
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: spans.length - 1}[e.key];
    if (to === undefined || e.altKey || e.ctrlKey) return;
    e.preventDefault();
    go(to);
  };
  return [el('p', {className: 'tokens', onclick: to_it, onfocusin: to_it, onkeydown: by_key}, spans), line];
}

// One call of a tool. Its element stays while the call grows, and while a result is typed.
class Call {
  constructor(answer) {
    this.answer = answer;
    this.name = el('code');
    this.text = el('pre');
    this.element = el('details', {className: 'call'}, el('summary', {}, this.name), this.text);
    this.form = null;
  }

  show(c, open, busy) {
    let text = c.arguments;
    try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* still coming, or broken: as it is */ }
    const name = `${c.name}(${c.arguments.length > 60 ? '…' : c.arguments})`;
    if (this.name.textContent !== name) this.name.textContent = name;
    if (this.text.textContent !== text) this.text.textContent = text;
    if (open === Boolean(this.form)) return;
    this.form?.remove();
    this.form = null;
    if (!open) return;
    const result = el('textarea', {rows: 2, placeholder: 'What the tool says', 'aria-label': `Result of ${c.name}`});
    this.form = el('form', {onsubmit: e => { e.preventDefault(); this.answer(c, result.value); }}, result,
      el('button', {'data-idle': true, disabled: busy}, 'Answer'));
    this.element.append(this.form);
    this.element.open = true;
  }
}

export class View {
  // `page` has edit, again, go, answer; see app.js. Buttons with data-idle wait while an answer is written.
  constructor(conversation, m, page) {
    Object.assign(this, {conversation, m, page});
    this.text = el('div', {className: 'text'});
    this.thoughts = el('div', {className: 'text'});
    this.summary = el('summary');
    this.reasoning = el('details', {className: 'reasoning', hidden: true}, this.summary, this.thoughts);
    this.calls = el('div');
    this.call_views = [];
    this.form = null; // in which the message is written anew
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
    if (!this.form) this.show_text(writing); // else what is typed in it stays
    this.reasoning.hidden = !m.reasoning;
    if (m.reasoning) {
      update(this.thoughts, m.reasoning, writing && !m.content && !m.calls);
      this.summary.textContent = writing && !m.content && !m.calls ? 'Thinking …' : `Thought for ${(m.thought ?? 0).toFixed(1)} s`;
    }
    if (m.calls) this.show_calls();
    const note = state_of(m, this.conversation.elsewhere);
    this.note.hidden = !note;
    this.note.textContent = note;
    this.note.className = m.state === 'failed' ? 'note bad' : 'note';
    this.stats.textContent = m.role === 'assistant' ? statistics(m) : '';
    this.element.setAttribute('aria-busy', writing);
    this.show_actions(writing);
  }

  show_text(writing) {
    const {m} = this;
    if (this.by_token && m.tokens) this.show_tokens();
    else if (m.role === 'assistant') update(this.text, m.content, writing);
    else this.text.textContent = m.content;
  }

  show_tokens() {
    if (this.shown_tokens === this.m.tokens.length && this.text.firstChild?.className === 'tokens') return;
    this.shown_tokens = this.m.tokens.length;
    this.text.replaceChildren(...probabilities(this.m));
    this.text.blocks = null;
  }

  // A result can be given until the conversation goes on without it.
  show_calls() {
    const {m, conversation} = this, path = conversation.path(), after = path.slice(path.indexOf(m) + 1);
    const answered = new Set(after.filter(r => r.role === 'tool').map(r => r.call));
    const open = m.state !== 'streaming' && !conversation.elsewhere && after.every(r => r.role === 'tool');
    m.calls.forEach((c, i) => {
      if (!c) return;
      this.call_views[i] ??= new Call((c, result) => this.answer(c, result));
      if (!this.call_views[i].element.parentNode) this.calls.append(this.call_views[i].element);
      this.call_views[i].show(c, open && whole(c) && !answered.has(c.id), conversation.busy);
    });
  }

  answer(c, result) {
    if (this.conversation.busy) return;
    this.page.answer(this.m, c, result);
    (this.calls.querySelector('textarea') ?? $('input')).focus();
  }

  show_actions(writing) {
    const {m, conversation, page} = this, siblings = conversation.children(m.parent), at = siblings.indexOf(m);
    const key = `${writing} ${at} ${siblings.length} ${Boolean(m.tokens)}`;
    if (key === this.shown_actions) return;
    this.shown_actions = key;
    if (writing) return this.actions.replaceChildren();
    const waits = {'data-idle': true, disabled: conversation.busy}, wanted = [];
    const branch = (to, label, sign) => el('button', {type: 'button', title: label, 'aria-label': label,
      onclick: () => page.go(to), ...(to ? waits : {disabled: true})}, sign);
    if (siblings.length > 1) wanted.push(branch(siblings[at - 1], 'The branch before', '‹'),
      el('span', {className: 'branch'}, `${at + 1}/${siblings.length}`), branch(siblings[at + 1], 'The branch after', '›'));
    wanted.push(copyButton(() => m.content));
    this.edit_button = button('Edit', 'Write it anew, in a branch of its own', () => this.edit());
    if (m.role === 'user') wanted.push(this.edit_button);
    if (m.role === 'assistant')
      wanted.push(button('Again', 'Another answer, in a branch of its own', () => page.again(m), waits));
    if (m.tokens) {
      const by_token = button(this.by_token ? 'Text' : 'Probabilities', 'Each token with its probability', () => {
        this.by_token = !this.by_token;
        by_token.textContent = this.by_token ? 'Text' : 'Probabilities';
        if (!this.by_token) this.text.replaceChildren();
        this.show();
      });
      wanted.push(by_token);
    }
    this.actions.replaceChildren(...wanted);
  }

  edit() {
    if (this.form) return this.form.querySelector('textarea').focus();
    const rows = Math.min(12, this.m.content.split('\n').length + 1);
    const area = el('textarea', {value: this.m.content, rows, 'aria-label': 'Message'});
    const back = () => { this.form = null; this.show(); this.edit_button.focus(); };
    const send = e => { e.preventDefault(); this.page.edit(this.m, area.value); };
    this.form = el('form', {className: 'edit', onsubmit: send}, area,
      el('button', {'data-idle': true, disabled: this.conversation.busy}, 'Send'), button('Cancel', 'Esc', back));
    area.onkeydown = e => {
      if (e.key === 'Escape') { e.stopPropagation(); back(); }
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); this.form.requestSubmit(); }
    };
    this.text.replaceChildren(this.form);
    area.focus();
  }
}
