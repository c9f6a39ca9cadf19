// api.js -- the server's own endpoints, and streams of events.
import {recall} from './dom.js';

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

function headers() {
  const key = recall('key');
  return {'Content-Type': 'application/json', ...(key ? {Authorization: `Bearer ${key}`} : {})};
}

async function checked(response) {
  if (response.ok) return response;
  const text = await response.text();
  let message = text || response.statusText;
  try {
    const error = JSON.parse(text).error;
    message = error.message ?? error;
  } catch { /* not JSON: as it is */ }
  throw new Refused(response.status, message);
}

export async function get(path, signal) {
  return checked(await fetch(path, {headers: headers(), signal}));
}

export async function models() {
  return (await (await get('v1/models')).json()).data;
}

// Lines of "data:" of each event, as they come.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      held += value;
      let end;
      while ((end = held.indexOf('\n\n')) >= 0) {
        const data = held.slice(0, end).split('\n').filter(l => l.startsWith('data:')).map(l => l.slice(5).trimStart());
        held = held.slice(end + 2);
        if (data.length) yield data.join('\n');
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Chunks of a chat completion. Throws Refused for an error of the server, also in mid-stream, and when the stream
// ends without its last event. The header lets a proxy keep a conversation on one server, whose cache has it.
export async function* chat(conversation, body, signal) {
  const response = await checked(await fetch('v1/chat/completions', {
    method: 'POST', headers: {...headers(), 'X-Conversation': conversation}, signal,
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
  }));
  for await (const data of events(response.body)) {
    if (data === '[DONE]') return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Refused(chunk.error.code ?? 500, chunk.error.message ?? String(chunk.error));
    yield chunk;
  }
  throw new Refused(0, 'the server ended the answer in the middle');
}
