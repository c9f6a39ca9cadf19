// tabs.js -- other tabs of this browser have the same conversations. Who writes an answer holds the conversation's lock
// meanwhile, and who changed or removed one says so. Where a browser has no locks (a page of another machine without
// TLS), each tab is on its own.

const channel = 'BroadcastChannel' in window ? new BroadcastChannel('conversations') : null;
const name = id => `conversation ${id}`;
const TRIES = 5; // those who wait for its end have it for a moment

export const tell = (what, id) => channel?.postMessage({what, id});

export function listen(heard) {
  if (channel) channel.onmessage = e => heard(e.data.what, e.data.id);
}

export async function held(id) {
  const state = await navigator.locks?.query().catch(() => null);
  return Boolean(state?.held.some(l => l.name === name(id) && l.mode === 'exclusive'));
}

// What gives it back, or null: another tab holds it.
export async function hold(id) {
  if (!navigator.locks) return () => {};
  for (let i = 0; i < TRIES; i++) {
    const release = await new Promise(got => navigator.locks.request(name(id), {ifAvailable: true},
      lock => lock ? new Promise(end => got(end)) : got(null)).catch(() => got(() => {})));
    if (release) return release;
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  return null;
}

export const released = id => navigator.locks.request(name(id), {mode: 'shared'}, () => {});
