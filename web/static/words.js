// Amounts, and what happened in plain words. Pure functions.

/** Reads dollars as whole cents, without floating point; undefined when it is no amount. */
export function cents(text) {
  const m = /^\s*\$?\s*(\d{1,7})(?:[.,](\d{1,2}))?\s*$/.exec(text);
  if (!m) return undefined;
  const value = Number(m[1]) * 100 + Number((m[2] ?? '').padEnd(2, '0'));
  return value > 0 ? value : undefined;
}

/** Shows minor units of a two-digit currency. */
export function dollars(minor, currency = 'USD') {
  if (!Number.isSafeInteger(minor)) return '–';
  const digits = String(Math.abs(minor)).padStart(3, '0');
  const whole = digits.slice(0, -2).replace(/\B(?=(\d{3})+$)/g, ',');
  return `${minor < 0 ? '−' : ''}${currency === 'USD' ? '$' : `${currency} `}${whole}.${digits.slice(-2)}`;
}

/** Enough of a key to tell it from others on this page. */
export function shortKey(key) { return key.length > 9 ? `${key.slice(0, 8)}…` : key; }

/** The journaled request of an entry, {} when it has none. */
export function bodyOf(entry) {
  try { return JSON.parse(entry.body) ?? {}; } catch { return {}; }
}

/** The payment that an entry's answer names, or undefined. */
export function paymentOf(entry) {
  const id = entry.answer?.body?.id ?? entry.answer?.body?.payment_id;
  if (typeof id === 'string') return id;
  const m = /\/payments\/([^/?#]+)$/.exec(entry.location ?? '');
  return m ? decodeURIComponent(m[1]) : undefined;
}

const REASONS = {
  'not-sent': 'Offline: nothing left the phone. The key waits in the journal. Go online and tap again.',
  offline: 'Offline: nothing left the phone. The key waits in the journal. Go online and tap again.',
  'in-progress': 'The first send is still being worked on, so this one ran nothing. The key is kept. Tap again in a moment.',
  'too-many': 'The server is busy and ran nothing. The key is kept. Tap again in a moment.',
  unavailable: 'The server could not look the key up, so it ran nothing. The key is kept. Tap again.',
  'too-late': 'The send arrived too late, so the server ran nothing. The key is kept. Tap again.',
  unauthorized: 'The sign-in was refused. The key is kept for when it works again.',
  elsewhere: 'Another tab is sending this payment.',
};

/** One short line about the end of a run. */
export function say(result) {
  const { amount, merchant_id: payee } = bodyOf(result.entry);
  const money = dollars(amount);
  switch (result.outcome) {
    case 'done': return result.replayed
      ? `${money} was paid already. The server knew the key and gave its first answer again: nothing was charged twice.`
      : `Paid ${money} to ${payee}, once. The phone lets go of the key.`;
    case 'declined': return 'Declined: nothing was charged, and under this key nothing will be. The next tap makes a new key.';
    case 'void': return 'The server closed this key for ever: nothing was charged under it. The next tap makes a new key.';
    case 'refused': return `The server refused the request (${result.code ?? result.status}) before anything ran. Correct it, then pay again.`;
  }
  if (REASONS[result.reason]) return REASONS[result.reason];
  if (result.status === 202 && result.reason === 'status 202') return `The server has it and is still finding out whether ${money} was charged. The key is kept; the page keeps asking.`;
  if (result.reason === 'timeout' || result.reason === 'network') return `No answer. ${money} may be paid, or not; nobody here can know. Tap again: the same key goes out, so it is charged once at most.`;
  return `No final answer (${result.reason}). The key is kept. Tap again: it is charged once at most.`;
}

/** "requests 3 · repeats dropped 1" of what a hop saw. */
export function saw(counts) {
  return Object.entries(counts ?? {}).map(([name, n]) => `${name.replaceAll('_', ' ')} ${n}`).join(' · ') || '–';
}
