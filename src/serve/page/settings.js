// settings.js -- what a conversation asks for beside its messages. A row a field; an empty field is the server's default.
import {el, $, recall, remember} from './dom.js';

const ROWS = [
  // name, label, kind, attributes
  ['system', 'System message', 'textarea', {rows: 3}],
  ['temperature', 'Temperature', 'number', {min: 0, max: 5, step: 0.05}],
  ['top_p', 'Top P', 'number', {min: 0, max: 1, step: 0.01}],
  ['top_k', 'Top K', 'number', {min: 0, max: 1000, step: 1}],
  ['min_p', 'Min P', 'number', {min: 0, max: 1, step: 0.01}],
  ['repeat_penalty', 'Repeat penalty', 'number', {min: 0.5, max: 2, step: 0.01}],
  ['max_tokens', 'Most tokens of an answer', 'number', {min: 1, step: 1}],
  ['seed', 'Seed', 'number', {min: 0, step: 1}],
  ['n_probs', 'Alternatives to keep for each token', 'number', {min: 0, max: 20, step: 1}],
  ['tools', 'Tools: a JSON array, as in the API', 'textarea', {rows: 4, spellcheck: false}],
];

function fault(tools) {
  if (!tools.trim()) return '';
  try {
    return Array.isArray(JSON.parse(tools)) ? '' : 'An array of tools is expected.';
  } catch (e) {
    return e.message;
  }
}

// Opens the dialog; `save(settings)` is called when it is closed with its button.
export function edit(settings, save) {
  const dialog = $('settings'), form = dialog.querySelector('form'), fields = {};
  const rows = ROWS.map(([name, label, kind, attributes]) => {
    fields[name] = el(kind === 'textarea' ? 'textarea' : 'input', {type: kind === 'textarea' ? undefined : kind, name,
      ...attributes, value: settings[name] ?? ''});
    return el('label', {className: kind}, el('span', {}, label), fields[name]);
  });
  const key = el('input', {type: 'password', autocomplete: 'off', value: recall('key') ?? ''});
  form.replaceChildren(el('h2', {}, 'Settings of this conversation'), el('div', {className: 'fields'}, ...rows,
    el('label', {}, el('span', {}, 'Key of the server (kept in this browser)'), key)),
    el('p', {className: 'row'}, el('button', {value: 'save'}, 'Save'), el('button', {value: '', formNoValidate: true}, 'Cancel')));
  fields.tools.oninput = () => fields.tools.setCustomValidity(fault(fields.tools.value));
  dialog.onclose = () => {
    if (dialog.returnValue !== 'save') return;
    remember('key', key.value);
    save(Object.fromEntries(ROWS.map(([name, , kind]) => {
      const {value} = fields[name];
      return [name, kind === 'number' && value !== '' ? +value : value.trim() === '' ? '' : value];
    }).filter(([, value]) => value !== '')));
  };
  dialog.returnValue = '';
  dialog.showModal();
}
