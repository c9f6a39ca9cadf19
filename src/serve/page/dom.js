// dom.js -- elements by hand. Text is only ever set as text: no HTML of anyone's is parsed.

// A call takes some 60,000 arguments at most, and an answer may have more lines.
export function append(e, nodes) {
  for (let i = 0; i < nodes.length; i += 10000) e.append(...nodes.slice(i, i + 10000));
}

// Children: nodes and texts, or arrays of them.
export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (name in e && name !== 'list') e[name] = value;
    else e.setAttribute(name, value === true ? '' : value);
  }
  append(e, children.flat().filter(c => c !== undefined && c !== null && c !== false));
  return e;
}

export const $ = id => document.getElementById(id);

// What is remembered beside conversations. A browser that lets a page keep nothing throws already when it is asked.
export function recall(name, store = 'localStorage') {
  try { return window[store].getItem(name); } catch { return null; }
}
export function remember(name, value, store = 'localStorage') {
  try { value ? window[store].setItem(name, value) : window[store].removeItem(name); } catch { /* so it isn't */ }
}

export async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = el('textarea', {value: text});
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

export function button(label, title, onclick, more = {}) {
  return el('button', {type: 'button', title, onclick, ...more}, label);
}

export function copyButton(text) {
  const b = button('Copy', 'Copy', async () => {
    await copy(text());
    b.textContent = 'Copied';
    setTimeout(() => { b.textContent = 'Copy'; }, 1200);
  });
  return b;
}
