// db.js -- conversations in the browser (IndexedDB). A message is a record of its own, so that writing one while it
// streams costs the same in a conversation of any length.

let opened = null;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open('quern', 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore('conversations', {keyPath: 'id'});
      request.result.createObjectStore('messages', {keyPath: ['conversation', 'id']})
        .createIndex('conversation', 'conversation');
    };
    request.onsuccess = () => {
      request.result.onclose = () => { opened = null; }; // the browser took it away: the next call opens it again
      resolve(request.result);
    };
    request.onerror = () => { opened = null; reject(request.error); };
  });
  return opened;
}

// All of the work is done or nothing.
async function within(stores, mode, work) {
  const db = await open();
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(stores, mode);
    let result;
    transaction.oncomplete = () => resolve(result?.());
    transaction.onerror = transaction.onabort = () =>
      reject(transaction.error ?? new Error('a transaction was aborted'));
    try {
      result = work(...stores.map(name => transaction.objectStore(name)));
    } catch (e) {
      reject(e);
      transaction.abort();
    }
  });
}

const both = ['conversations', 'messages'];

export const conversations = () => within(['conversations'], 'readonly', c => {
  const all = c.getAll();
  return () => all.result;
});

// {record, messages}; no record: it is not there
export const read = id => within(both, 'readonly', (c, m) => {
  const record = c.get(id), messages = m.index('conversation').getAll(id);
  return () => ({record: record.result, messages: messages.result});
});

export const put = (records, messages) => within(both, 'readwrite', (c, m) => {
  for (const r of records) c.put(r);
  for (const one of messages) m.put(one);
});

export const remove = id => within(both, 'readwrite', (c, m) => {
  c.delete(id);
  const cursor = m.index('conversation').openKeyCursor(id);
  cursor.onsuccess = () => {
    if (!cursor.result) return;
    m.delete(cursor.result.primaryKey);
    cursor.result.continue();
  };
});
