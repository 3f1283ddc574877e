// Amounts, and what happened in plain words. Pure functions.

/** The most cents that one payment may have: the API's own limit. */
export const MOST = 99_999_999;

/** Reads dollars as whole cents, without floating point; undefined when it is no amount or more than MOST. */
export function cents(text) {
  const m = /^\s*\$?\s*(\d{1,7})(?:[.,](\d{1,2}))?\s*$/.exec(text);
  if (!m) return undefined;
  const value = Number(m[1]) * 100 + Number((m[2] ?? '').padEnd(2, '0'));
  return value > 0 && value <= MOST ? value : undefined;
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

const CANCEL = /\/payments\/([^/?#]+)\/cancel$/;

/** Whether an entry asks for a payment's money back. */
export function isRefund(entry) { return CANCEL.test(entry.url ?? ''); }

/** The payment that an entry's answer names, or undefined; of a refund the one that it is of. */
export function paymentOf(entry) {
  if (isRefund(entry)) return decodeURIComponent(CANCEL.exec(entry.url)[1]);
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

// A refusal in the server's own words, where it has some.
const why = ({ body, code, status }) => body?.detail ?? code ?? status;

/** One short line about the end of a run. */
export function say(result) {
  if (isRefund(result.entry)) return sayRefund(result);
  const { amount, merchant_id: payee } = bodyOf(result.entry);
  const money = dollars(amount);
  switch (result.outcome) {
    case 'done': return result.replayed
      ? `${money} was paid already. The server knew the key and gave its first answer again: nothing was charged twice.`
      : `Paid ${money} to ${payee}, once. The order keeps its key: another tap would be the same payment.`;
    case 'declined': return 'Declined: nothing was charged, and under this key nothing will be. The next tap makes a new key.';
    case 'void': return 'The server closed this key for ever: nothing was charged under it. The next tap makes a new key.';
    case 'refused': return `The server refused the request (${why(result)}) before anything ran. Correct it, then pay again.`;
  }
  if (REASONS[result.reason]) return REASONS[result.reason];
  if (result.status === 202 && result.reason === 'status 202') return `The server has it and is still finding out whether ${money} was charged. The key is kept; the page keeps asking.`;
  if (result.reason === 'timeout' || result.reason === 'network') return `No answer. ${money} may be paid, or not; nobody here can know. Tap again: the same key goes out, so it is charged once at most. Or ask whether it went through.`;
  return `No final answer (${result.reason}). The key is kept. Tap again: it is charged once at most.`;
}

function sayRefund({ outcome, body, replayed, reason, code, status }) {
  const money = Number.isSafeInteger(body?.amount) ? dollars(body.amount) : 'the money';
  switch (outcome) {
    case 'done': return replayed
      ? `The refund of ${money} was done already. The server gave its first answer again: nothing was given back twice.`
      : `Refunded ${money}, once.`;
    case 'declined': return 'The card processor refused the refund: nothing was given back.';
    case 'void': case 'refused': return `The server refused the refund (${why({ body, code, status })}) before anything ran.`;
  }
  if (reason === 'not-sent' || reason === 'offline') return 'Offline: the refund did not leave the phone. It waits in the journal. Go online and tap Refund again.';
  if (status === 202 && reason === 'status 202') return `The server has the refund and is still finding out whether ${money} went back. The page keeps asking.`;
  if (reason === 'in-progress') return 'The refund is still being worked on, so this send ran nothing. Tap Refund again in a moment.';
  return `No final answer (${reason}). The refund may be done, or not. Tap Refund again: a payment is cancelled once, so nothing goes back twice.`;
}

/** One short line about the answer to "Did it go through?". */
export function sayResolved(result) {
  const { amount, merchant_id: payee } = bodyOf(result.entry);
  switch (result.outcome) {
    case 'done': return `Yes: ${dollars(amount)} was paid to ${payee}, once. The order keeps its key: another tap would be the same payment.`;
    case 'declined': return 'No: it was declined. Nothing was charged, and under this key nothing will be. You can tap again, with a new key.';
    case 'void': return 'No: it is not paid and never will be. The server closed the key, even for a request that arrives late. You can tap again, with a new key.';
  }
  switch (result.reason) {
    case 'status 202': case 'in-progress': return 'It is still being worked on: nobody knows yet. The key is kept. Ask again in a moment.';
    case 'not-sent': case 'offline': return 'Offline: the question did not leave the phone. The key is kept. Go online and ask again.';
    case 'timeout': case 'network': return 'No answer to the question. The key is kept. Ask again, or tap again: it is charged once at most.';
  }
  return `No final answer (${result.reason}). The key is kept. Ask again, or tap again: it is charged once at most.`;
}

/** What became of a request that was held in front of the server. */
export function sayLate({ status, code, replayed }) {
  if (status === undefined) return 'The held request was lost on its way.';
  if (code === 'void') return `Now the held request has arrived, too late: ${status} void. Nothing was charged.`;
  if (replayed) return `Now the held request has arrived: ${status}, the first answer again. Nothing was done twice.`;
  return `Now the held request has arrived: ${status}${code ? ` ${code}` : ''}.`;
}

/** "requests 3 · repeats dropped 1" of what a hop saw. */
export function saw(counts) {
  return Object.entries(counts ?? {}).map(([name, n]) => `${name.replaceAll('_', ' ')} ${n}`).join(' · ') || '–';
}
