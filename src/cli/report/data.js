/* SPDX-License-Identifier: MIT */
/* data.js -- the page's data: parts, each a script element that is never run, of deflated columns in base64
 * (trace_report_parts.c writes them). A part is unpacked when somebody asks for it. */
'use strict';

const Data = (() => {
  const utf8 = new TextDecoder();

  async function inflate(text) {
    const packed = await fetch('data:application/octet-stream;base64,' + text);
    return new Uint8Array(await new Response(packed.body.pipeThrough(new DecompressionStream('deflate'))).arrayBuffer());
  }

  function reader(bytes) {
    let p = 0;
    const number = () => {
      let b = bytes[p++], x = b & 127, m = 128;
      while (b > 127) { b = bytes[p++]; x += (b & 127) * m; m *= 128; }
      return x;
    };
    const text = n => utf8.decode(bytes.subarray(p, p += n));
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const float = () => { p += 4; return view.getFloat32(p - 4, true); };
    return { number, text, float, more: () => p < bytes.length, kind: () => bytes[p++] };
  }

  const kinds = {
    u(r, n) { const a = new Float64Array(n); for (let i = 0; i < n; i++) a[i] = r.number(); return a; },
    s(r, n) { const a = new Float64Array(n); for (let i = 0; i < n; i++) a[i] = back(r.number()); return a; },
    d(r, n) {
      const a = new Float64Array(n);
      for (let i = 0, last = 0; i < n; i++) a[i] = last += back(r.number());
      return a;
    },
    f(r, n) { const a = new Float32Array(n); for (let i = 0; i < n; i++) a[i] = r.float(); return a; },
    t(r, n) { const a = new Array(n); for (let i = 0; i < n; i++) a[i] = r.text(r.number()); return a; },
  };
  const back = x => x % 2 ? -(x + 1) / 2 : x / 2;

  /* Columns by name; of names that come again a list of all is in `lists`. */
  function columns(bytes) {
    const r = reader(bytes), out = { lists: {} };
    while (r.more()) {
      const name = r.text(r.number()), kind = String.fromCharCode(r.kind()), n = r.number();
      r.number(); /* how many bytes */
      const column = kinds[kind](r, n);
      (out.lists[name] ||= []).push(column);
      out[name] ??= column;
    }
    return out;
  }

  const loaded = document.readyState === 'loading'
    ? new Promise(done => document.addEventListener('DOMContentLoaded', done, { once: true })) : Promise.resolve();
  const parts = {};

  /* null where the trace has none. What stands before the scripts is there at once. */
  async function load(id, early) {
    if (!early) await loaded;
    const at = document.getElementById(id);
    if (!at) return null;
    const text = at.textContent;
    if (!early) at.remove(); /* its memory is the page's */
    return columns(await inflate(text));
  }
  const part = (name, early) => parts[name] ||= load('part-' + name, early);
  const other = name => parts['other ' + name] ||= load('other-' + name, true);
  return { part, other };
})();
