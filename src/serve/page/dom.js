// dom.js -- elements by hand. Text is only ever set as text: no HTML of anyone's is parsed.

export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (name in e && name !== 'list') e[name] = value;
    else e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children.filter(c => c !== undefined && c !== null && c !== false));
  return e;
}

export const $ = id => document.getElementById(id);

export async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = el('textarea', {value: text});
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

export function button(label, title, onclick) {
  return el('button', {type: 'button', title, onclick}, label);
}

export function copyButton(text) {
  const b = button('Copy', 'Copy', async () => {
    await copy(text());
    b.textContent = 'Copied';
    setTimeout(() => { b.textContent = 'Copy'; }, 1200);
  });
  return b;
}
