// live.js -- what the engine does now: rates, cells, queue, streams. Reads /metrics and /slots once a second while it is
// open, and nothing otherwise.
import {get} from './api.js';
import {el} from './dom.js';

const KEPT = 120; // seconds of the curves
const SVG = 'http://www.w3.org/2000/svg';

// Prometheus text: {name: sum over its labels}
function parse(text) {
  const found = {};
  for (const line of text.split('\n')) {
    const m = line.match(/^([a-z_:][\w:]*)(?:\{[^}]*\})?\s+(\S+)/i);
    if (m) found[m[1]] = (found[m[1]] ?? 0) + Number(m[2]);
  }
  return found;
}

function svg(tag, attributes) {
  const e = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}

function curve(values) {
  const most = Math.max(1e-9, ...values);
  const points = values.map((v, i) => `${KEPT - values.length + i},${30 - 28 * v / most}`).join(' ');
  const picture = svg('svg', {viewBox: `0 0 ${KEPT - 1} 30`, preserveAspectRatio: 'none', 'aria-hidden': 'true'});
  picture.append(svg('polyline', {points}));
  return picture;
}

function cells(parts, all) { // [[class, cells]]
  const picture = svg('svg', {viewBox: `0 0 ${Math.max(1, all)} 1`, preserveAspectRatio: 'none', 'aria-hidden': 'true'});
  let x = 0;
  for (const [name, width] of parts) {
    picture.append(svg('rect', {x, width, height: 1, class: name}));
    x += width;
  }
  return el('div', {className: 'cells'}, picture);
}

const pairs = rows => el('dl', {}, ...rows.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
const count = n => (n ?? 0).toLocaleString('en').replaceAll(',', ' ');

export class Live {
  constructor(element, opener) {
    Object.assign(this, {element, opener, rates: [], before: null, timer: 0});
  }

  toggle() {
    this.element.hidden = !this.element.hidden;
    this.opener.setAttribute('aria-expanded', !this.element.hidden);
    clearInterval(this.timer);
    if (this.element.hidden) return;
    this.before = null;
    this.timer = setInterval(() => this.look(), 1000);
    this.look();
  }

  async look() {
    if (document.hidden || this.looking) return;
    this.looking = true;
    try {
      const [text, streams] = await Promise.all([get('metrics').then(r => r.text()), get('slots').then(r => r.json())]);
      this.show(parse(text), streams, performance.now());
    } catch (e) {
      this.element.replaceChildren(el('p', {className: 'note bad'}, `The server does not answer: ${e.message}`));
      this.before = null;
    }
    this.looking = false;
  }

  show(now, streams, at) {
    const before = this.before ?? {now, at}, seconds = (at - before.at) / 1000;
    const rate = name => (seconds > 0 ? ((now[name] ?? 0) - (before.now[name] ?? 0)) / seconds : 0);
    this.before = {now, at};
    const written = rate('quern_tokens_generated_total'), read = rate('quern_tokens_read_total'), steps = rate('quern_n_steps_total');
    if (seconds > 0) this.rates = [...this.rates, written].slice(-KEPT);
    const [all, own, shared, cached, free] = ['', '_stream', '_shared', '_cached', '_free'].map(kind => now[`quern_n${kind}_cells`] ?? 0);
    this.element.replaceChildren(
      el('h2', {}, 'Tokens a second'), curve(this.rates),
      pairs([['written', written.toFixed(1)], ['of prompts read', read.toFixed(0)], ['steps', steps.toFixed(1)],
        ['a step of decoding', `${(1000 * (now.quern_decode_seconds ?? 0)).toFixed(1)} ms`]]),
      el('h2', {}, 'Cells of the context'), cells([['held', own], ['shared', shared], ['cached', cached]], all),
      pairs([['all', count(all)], ['of answers under way', count(own)], ['shared with the cache', count(shared)],
        ['cached for the next turn', count(cached)], ['free', count(free)]]),
      el('h2', {}, 'Requests'),
      pairs([['streams', count(now.quern_n_streams)], ['queued', count(now.quern_n_queued)],
        ['taken', count(now.quern_n_requests_total)], ['prompt tokens from the cache', count(now.quern_tokens_reused_total)]]),
      el('h2', {}, 'Streams'), this.table(streams.filter(s => s.is_processing)));
  }

  table(streams) {
    if (!streams.length) return el('p', {className: 'note'}, 'none');
    return el('div', {className: 'scroll'}, el('table', {}, el('thead', {}, el('tr', {}, ...['', 'read', 'cached', 'written']
      .map(h => el('th', {}, h)))), el('tbody', {}, ...streams.map(s => el('tr', {}, el('td', {}, s.state),
      el('td', {className: 'right'}, `${s.n_prompt_tokens_read}/${s.n_prompt_tokens}`),
      el('td', {className: 'right'}, count(s.n_prompt_tokens_cached)), el('td', {className: 'right'}, count(s.n_decoded)))))));
  }
}
