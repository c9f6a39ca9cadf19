// markdown.js -- what models write, as elements: headings, paragraphs, lists, quotes, tables, code; emphasis, code
// spans, links. Nothing is ever parsed as HTML, and no address but http, https and mailto becomes a link. A picture is
// shown as a link: the page asks no other server for anything.
import {el, append, copyButton} from './dom.js';
import {highlighted} from './highlight.js';

const DEEPEST = 12; // lists in quotes in lists ..: deeper ones are text

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*))?$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+|$)/;
const QUOTE = /^ {0,3}> ?/;
const DELIMITERS = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

const LONGEST = 1000; // of lines with a meaning: regular expressions take their time with longer ones

const blank = line => line.trim() === '';
const indent = line => line.match(/^ */)[0].length;
const ordered = item => /\d/.test(item[2]);
const fence_of = line => line.length < LONGEST && line.match(FENCE);
const is_table = (line, next) =>
  line.includes('|') && next !== undefined && next.length < LONGEST && next.includes('-') && DELIMITERS.test(next);
const begins_block = (line, next) =>
  fence_of(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line) || is_table(line, next);

// Lines from `at` on that make one block: the index behind it.
function block_end(lines, at) {
  const fence = fence_of(lines[at]);
  let i = at + 1;
  if (fence) {
    const closes = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
    while (i < lines.length && !closes.test(lines[i])) i++;
    return Math.min(i + 1, lines.length);
  }
  if (HEADING.test(lines[at]) || RULE.test(lines[at])) return i;
  if (QUOTE.test(lines[at])) {
    while (i < lines.length && (QUOTE.test(lines[i]) || (!blank(lines[i]) && !begins_block(lines[i], lines[i + 1])))) i++;
    return i;
  }
  if (is_table(lines[at], lines[i])) {
    while (i < lines.length && lines[i].includes('|')) i++;
    return i;
  }
  const item = lines[at].match(ITEM);
  if (item) {
    const least = item[1].length;
    for (; i < lines.length; i++) {
      if (!blank(lines[i])) {
        const next = lines[i].match(ITEM);
        if (!next && indent(lines[i]) <= least && blank(lines[i - 1])) break;
        if (!next && indent(lines[i]) <= least && begins_block(lines[i], lines[i + 1])) break;
        if (next && next[1].length < least) break;
        if (next && next[1].length <= least + 1 && ordered(next) !== ordered(item)) break; // a list of the other kind
      }
    }
    while (blank(lines[i - 1])) i--;
    return i;
  }
  if (indent(lines[at]) >= 4) {
    while (i < lines.length && (blank(lines[i]) || indent(lines[i]) >= 4)) i++;
    while (blank(lines[i - 1])) i--;
    return i;
  }
  while (i < lines.length && !blank(lines[i]) && !begins_block(lines[i], lines[i + 1])) i++;
  return i;
}

export function split(text) {
  const lines = text.replaceAll('\t', '    ').split(/\r\n?|\n/), found = [];
  for (let i = 0; i < lines.length;) {
    if (blank(lines[i])) { i++; continue; }
    const end = block_end(lines, i);
    found.push(lines.slice(i, end).join('\n'));
    i = end;
  }
  return found;
}

// Code. While it grows, its text is one text node that grows too: what is selected stays so, the line that is scrolled
// to as well, and a frame costs what came in it. The colours come when it ends.
function figure(language, text, growing) {
  const inner = el('code');
  const e = el('figure', {className: 'code'},
    el('figcaption', {}, el('span', {}, language || 'text'), copyButton(() => text)), el('pre', {tabIndex: 0}, inner));
  const node = document.createTextNode('');
  e.set = (now, growing) => {
    text = now;
    if (!growing) return inner.replaceChildren(), append(inner, highlighted(text, language));
    if (!node.parentNode) inner.append(node);
    text.startsWith(node.data) ? node.appendData(text.slice(node.length)) : node.data = text;
  };
  e.set(text, growing);
  return e;
}

// What is in a fence, less the indentation of its first line, and whether it has ended.
function fenced(lines, fence) {
  const closed = lines.length > 1 && lines.at(-1).trim().startsWith(fence[1]), least = indent(lines[0]);
  let inner = lines.slice(1, closed ? -1 : undefined);
  if (least) inner = inner.map(l => l.slice(Math.min(indent(l), least)));
  return {closed, text: inner.join('\n')};
}

function table(lines) {
  const cells = line => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map(c => c.trim().replaceAll('\\|', '|'));
  const align = cells(lines[1]).map(c => c.endsWith(':') ? (c.startsWith(':') ? 'center' : 'right') : 'left');
  const row = (tag, line) => el('tr', {}, cells(line).slice(0, align.length).map((c, i) =>
    el(tag, {className: align[i]}, inline(c))));
  return el('div', {className: 'scroll', tabIndex: 0}, el('table', {},
    el('thead', {}, row('th', lines[0])), el('tbody', {}, lines.slice(2).map(l => row('td', l)))));
}

function list(lines, depth, growing) {
  const first = lines[0].match(ITEM), items = [];
  for (const line of lines) {
    const m = line.match(ITEM);
    if (m && m[1].length <= first[1].length + 1 && (items.length === 0 || m[1].length < items.at(-1).inner))
      items.push({inner: m[0].length, lines: [line.slice(m[0].length)], loose: false});
    else if (blank(line))
      items.at(-1).lines.push('');
    else
      items.at(-1).lines.push(line.slice(Math.min(indent(line), items.at(-1).inner)));
  }
  const start = ordered(first) ? {start: parseInt(first[2], 10)} : {};
  return el(ordered(first) ? 'ol' : 'ul', {...start, dir: 'auto'}, items.map(item => {
    const task = item.lines[0].match(/^\[([ xX])\]\s+/);
    if (task) item.lines[0] = item.lines[0].slice(task[0].length);
    const inner = blocks(item.lines.join('\n'), depth + 1, growing && item === items.at(-1));
    const tight = inner[0]?.tagName === 'P' ? [...inner[0].childNodes, ...inner.slice(1)] : inner;
    return el('li', {}, task && el('input', {type: 'checkbox', disabled: true, checked: task[1] !== ' '}), tight);
  }));
}

const blocks = (text, depth, growing) => split(text).map((b, i, all) => block(b, depth, growing && i === all.length - 1));

// `growing`: more of it may come.
export function block(text, depth = 0, growing = false) {
  const lines = text.split('\n'), fence = fence_of(lines[0]), heading = lines[0].match(HEADING);
  if (fence) {
    const {closed, text} = fenced(lines, fence);
    return figure(fence[2], text, growing && !closed);
  }
  if (heading && lines.length === 1)
    return el(`h${Math.min(6, heading[1].length + 1)}`, {}, inline((heading[2] ?? '').replace(/(?:^|\s)#+\s*$/, '')));
  if (RULE.test(lines[0]) && lines.length === 1) return el('hr');
  if (is_table(lines[0], lines[1])) return table(lines);
  if (depth < DEEPEST && QUOTE.test(lines[0]))
    return el('blockquote', {dir: 'auto'}, blocks(lines.map(l => l.replace(QUOTE, '')).join('\n'), depth + 1, growing));
  if (ITEM.test(lines[0])) {
    if (depth < DEEPEST) return list(lines, depth, growing);
  } else if (indent(lines[0]) >= 4) {
    return figure('text', lines.map(l => l.slice(4)).join('\n'), growing);
  }
  return el('p', {}, inline(lines.map(l => l.trimStart()).join('\n')));
}

// ---- within a line ----

const SPECIAL = /\\[!-/:-@[-`{-~]|`+|\*{1,3}|_{1,3}|~~|!?\[|<https?:[^>\s]{1,2000}>|https?:\/\/[^\s<>"'`]{1,2000}|\n/g;
const WORD = /[\p{L}\p{N}_]/u;
const EMPHASIS = {'*': ['em'], '_': ['em'], '**': ['strong'], '__': ['strong'], '***': ['strong', 'em'],
  '___': ['strong', 'em'], '~~': ['del']};

function link(address, content) {
  let url;
  try { url = new URL(address, 'invalid:'); } catch { url = null; }
  if (!url || !['http:', 'https:', 'mailto:'].includes(url.protocol)) return el('span', {}, content);
  return el('a', {href: url.href, target: '_blank', rel: 'noopener noreferrer nofollow'}, content);
}

// Behind the code span whose text begins at `from`, or -1; `mark`: its backticks, as many as end it. What was not found
// once is not looked for again.
function span_end(text, mark, from, none) {
  if (none.has(mark)) return -1;
  for (let end = from; (end = text.indexOf(mark, end)) >= 0;) {
    let behind = end + mark.length;
    while (text[behind] === '`') behind++;
    if (behind === end + mark.length) return behind;
    end = behind;
  }
  none.add(mark);
  return -1;
}

// The text with its code spans blanked out, as long as before: a mark in code is none.
function without_code(text) {
  if (!text.includes('`')) return text;
  const re = /\\[!-/:-@[-`{-~]|`+/g, none = new Set();
  let out = '', from = 0, m;
  while ((m = re.exec(text))) {
    const end = m[0][0] === '`' ? span_end(text, m[0], re.lastIndex, none) : -1;
    if (end < 0) continue;
    out += text.slice(from, m.index) + '\0'.repeat(end - m.index);
    from = re.lastIndex = end;
  }
  return out + text.slice(from);
}

// Where the mark that was opened before `from` is closed, or -1. What was not found once is not looked for again.
function closing(text, mark, from, none) {
  if (none.has(mark)) return -1;
  for (let at = from; (at = text.indexOf(mark, at)) >= 0; at += mark.length) {
    if (at === from || text[at - 1] === ' ' || text[at - 1] === '\\') continue;
    if (mark.length === 1 && (text[at + 1] === mark || text[at - 1] === mark)) continue;
    if (mark[0] === '_' && WORD.test(text[at + mark.length] ?? ' ')) continue;
    return at;
  }
  none.add(mark);
  return -1;
}

// Each [ with its ]
function brackets(text) {
  const open = [], pairs = new Map();
  for (const m of text.matchAll(/\\[[\]\\]|[[\]]/g)) {
    if (m[0] === '[') open.push(m.index);
    else if (m[0] === ']' && open.length) pairs.set(open.pop(), m.index);
  }
  return pairs;
}

// [text](address "title"), from its bracket on
function bracketed(text, at, pairs) {
  const middle = pairs.get(at);
  if (middle === undefined || text[middle + 1] !== '(' || middle > at + LONGEST) return null;
  const rest = text.slice(middle + 2, middle + 2050).match(/^<?((?:[^\s()<>]|\([^\s()]*\))*)>?(?:\s+"[^"]*")?\)/);
  return rest && {label: text.slice(at + 1, middle), address: rest[1], end: middle + 2 + rest[0].length};
}

// `linked`: it stands in a link, where another has no place.
export function inline(text, depth = 0, linked = false) {
  const out = [], none = new Set(), bare = without_code(text);
  let from = 0, m, pairs = null;
  const re = new RegExp(SPECIAL);
  const put = (upto, next, ...nodes) => {
    if (upto > from) out.push(text.slice(from, upto));
    out.push(...nodes);
    from = re.lastIndex = next;
  };
  while ((m = re.exec(text))) {
    const at = m.index, mark = m[0], after = at + mark.length;
    if (mark === '\n') {
      put(at, after, text[at - 1] === ' ' && text[at - 2] === ' ' ? el('br') : '\n');
    } else if (mark[0] === '\\') {
      put(at, after, mark[1]);
    } else if (mark[0] === '`') {
      const end = span_end(text, mark, after, none);
      if (end > 0) put(at, end, el('code', {}, text.slice(after, end - mark.length).replace(/^ (.*) $/s, '$1')));
    } else if (mark.endsWith('[')) {
      const found = depth < DEEPEST && bracketed(text, after - 1, pairs ??= brackets(bare));
      const label = found && inline(found.label || found.address, depth + 1, true);
      if (found) put(at, found.end, linked ? el('span', {}, label) : link(found.address, label));
    } else if (mark[0] === '<') {
      put(at, after, linked ? mark.slice(1, -1) : link(mark.slice(1, -1), [mark.slice(1, -1)]));
    } else if (mark[0] === 'h') {
      const address = mark.replace(/[.,;:!?*_~]+$|(?<!\([^)]*)\)+[.,;:!?]*$/, '');
      put(at, at + address.length, linked ? address : link(address, [address]));
    } else if (depth < DEEPEST && text[after] !== ' ' && !(mark[0] === '_' && WORD.test(text[at - 1] ?? ' '))) {
      const end = closing(bare, mark, after, none);
      if (end > after) {
        const inner = inline(text.slice(after, end), depth + 1, linked);
        put(at, end + mark.length, ...EMPHASIS[mark].reduceRight((nodes, tag) => [el(tag, {}, nodes)], inner));
      }
    }
  }
  put(text.length, text.length);
  return out;
}

// Writes the text into an element, and leaves alone what was there before: an answer that grows costs its last block.
export function update(element, text, growing = false) {
  const now = split(text), old = element.blocks ?? [], last = now.length - 1;
  let same = 0;
  while (same < now.length && same < old.length && now[same] === old[same]) same++;
  if (same && same === now.length && element.growing && !growing) same--; // no more comes: the colours of its code
  if (same === old.length - 1 && grown(element.childNodes[same], now[same], growing && same === last)) same++;
  while (element.childNodes.length > same) element.lastChild.remove();
  append(element, now.slice(same).map((b, i) => block(b, 0, growing && same + i === last)));
  element.blocks = now;
  element.growing = growing;
}

// Code that was open and has more text now: in its old element. False: it is made anew.
function grown(e, text, growing) {
  const lines = text?.split('\n') ?? [], fence = text && fence_of(lines[0]);
  if (!fence || !e.set || e.querySelector('figcaption span').textContent !== (fence[2] || 'text')) return false;
  const now = fenced(lines, fence);
  e.set(now.text, growing && !now.closed);
  return true;
}
