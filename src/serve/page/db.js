// db.js -- conversations in the browser (IndexedDB). A message is a record of its own, so that writing one while it
// streams costs the same in a conversation of any length.

let opened;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open('quern', 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore('conversations', {keyPath: 'id'});
      request.result.createObjectStore('messages', {keyPath: ['conversation', 'id']})
        .createIndex('conversation', 'conversation');
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

async function within(stores, mode, work) {
  const db = await open();
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(stores, mode);
    const request = work(...stores.map(name => transaction.objectStore(name)));
    transaction.oncomplete = () => resolve(request?.result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

export const conversations = () => within(['conversations'], 'readonly', c => c.getAll());
export const messages = id => within(['messages'], 'readonly', m => m.index('conversation').getAll(id));
export const putConversation = c => within(['conversations'], 'readwrite', s => s.put(c));
export const putMessage = m => within(['messages'], 'readwrite', s => s.put(m));
export const remove = id => within(['conversations', 'messages'], 'readwrite', (c, m) => {
  c.delete(id);
  const cursor = m.index('conversation').openKeyCursor(id);
  cursor.onsuccess = () => {
    if (!cursor.result) return;
    m.delete(cursor.result.primaryKey);
    cursor.result.continue();
  };
});
