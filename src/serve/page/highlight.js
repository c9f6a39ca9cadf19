// highlight.js -- code in colours, by what most languages share: comments, strings, numbers, words of the language.
import {el} from './dom.js';

const WORDS = new Set(`abstract and as assert async await begin bool boolean break byte case catch char class const
continue def default defer del delete do double elif else elseif end enum except export extends extern false final
finally float fn for foreach from func function global go goto if implements import in include inline int interface is
lambda let long match mod module mut namespace new nil None not null of operator or package pass private protected pub
public raise return self short signed sizeof static str string struct super switch template then this throw throws trait
True False true try type typedef typeof undefined union unsafe unsigned until use using val var virtual void volatile
when where while with yield select insert update delete create table join group order by values into set`.split(/\s+/));

const HASH = /^(?:py|python|sh|bash|zsh|shell|rb|ruby|perl|pl|r|yaml|yml|toml|make|makefile|cmake|dockerfile|awk|jl|julia|nix)$/;
const DASHES = /^(?:sql|lua|hs|haskell|ada|vhdl|elm)$/;
const MARKUP = /^(?:html|xml|svg|vue|markdown|md)$/;
const STRING = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|` + '`(?:[^`\\\\]|\\\\.)*`?';
const REST = String.raw`|\b(?:0[xX][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)\b|[A-Za-z_$][\w$]*`;
const LONGEST = 60000; // beyond it plain: a page must stay quick

export function highlighted(text, language = '') {
  const name = language.toLowerCase();
  if (text.length > LONGEST || name === 'text' || name === 'txt') return [text];
  const comment = MARKUP.test(name) ? '<!--[^]*?(?:-->|$)' : HASH.test(name) ? '#.*' : DASHES.test(name) ? '--.*'
    : String.raw`//.*|/\*[^]*?(?:\*/|$)`;
  const re = new RegExp(`(${comment})|(${STRING})${REST}`, 'g'), out = [];
  let from = 0, m;
  while ((m = re.exec(text))) {
    const kind = m[1] ? 'comment' : m[2] ? 'string' : /^\d/.test(m[0]) ? 'number' : WORDS.has(m[0]) ? 'word' : '';
    if (!kind) continue;
    out.push(text.slice(from, m.index), el('span', {className: kind}, m[0]));
    from = re.lastIndex;
  }
  out.push(text.slice(from));
  return out;
}
