// Draws. Text goes in as text, never as markup, and only when it changed, so that
// a screen reader hears each thing once.

import { bodyOf, dollars, isRefund, saw, shortKey } from '/words.js';

const at = (id) => document.getElementById(id);
const drawn = new Map();

function changed(what, data) {
  const now = JSON.stringify(data);
  if (drawn.get(what) === now) return false;
  drawn.set(what, now);
  return true;
}

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

export function text(id, value) {
  if (at(id).textContent !== value) at(id).textContent = value;
}

const STATES = { pending: 'unfinished', done: 'paid', declined: 'declined', void: 'void', refused: 'refused' };
const REFUND_STATES = { ...STATES, done: 'refunded', declined: 'not refunded' };

export function journal(entries) {
  if (!changed('journal', entries)) return;
  at('journal-none').hidden = entries.length > 0;
  at('prune').hidden = !entries.some((e) => e.state !== 'pending');
  at('journal').replaceChildren(...entries.slice(-8).reverse().map((e) => {
    const { order_id: order, amount, merchant_id: payee } = bodyOf(e);
    const item = element('li', { 'data-key': shortKey(e.key), 'data-state': e.state },
      element('code', {}, shortKey(e.key)),
      element('span', { class: `badge ${e.state}` }, (isRefund(e) ? REFUND_STATES : STATES)[e.state]),
      element('span', { class: 'what' }, isRefund(e) ? `${e.intent} · ${e.caller}` : `order ${order} · ${dollars(amount)} · ${e.caller} → ${payee}`),
      element('span', { class: 'tries' }, `${e.tries} ${e.tries === 1 ? 'send' : 'sends'}`));
    return item;
  }));
}

const NOTES = 3; // that fit on the phone

/** What a buyer's phone shows. Another buyer's notes are old news, not read aloud. */
export function screen({ to, notifications = [], alerts = 0, shown = notifications.length }) {
  if (!changed('screen', { to, notifications, alerts, shown })) return;
  const list = at('notes');
  list.setAttribute('aria-live', list.dataset.to === to ? 'polite' : 'off');
  list.dataset.to = to;
  text('alerts', alerts > 0 ? `${shown} shown, ${alerts} ${alerts === 1 ? 'alert' : 'alerts'}` : '');
  at('notes-none').hidden = notifications.length > 0;
  at('notes-more').hidden = shown <= NOTES;
  text('notes-more', `${shown - NOTES} more`);
  const before = new Map([...list.children].map((li) => [li.dataset.note, li]));
  const now = notifications.slice(0, NOTES).map((n) => {
    const id = `${to}|${n.replace_id}|${n.replace_id ? '' : n.at}`;
    const note = before.get(id) ?? element('li', { 'data-note': id }, element('b'), element('span'), element('small'));
    before.delete(id);
    const words = [n.title, n.body, n.alerts > 1 ? `replaced, ${n.alerts} alerts` : ''];
    for (const [i, part] of words.entries()) if (note.children[i].textContent !== part) note.children[i].textContent = part;
    return note;
  });
  for (const li of [...list.children]) if (!now.includes(li)) li.remove();
  for (const [i, li] of now.entries()) if (list.children[i] !== li) list.insertBefore(li, list.children[i] ?? null);
}

// An id may break after each of its parts.
function breakable(id) {
  return element('code', {}, ...id.split(/(?<=:)/).flatMap((part) => [part, element('wbr')]));
}

const FINAL = { SUCCEEDED: 'done', FAILED: 'declined', VOID: 'void' };

/** The payment's state and its hops; sends is how often this phone sent it, by its journal. */
export function payment(state, rows, sends) {
  if (!changed('payment', { state, rows, sends })) return;
  at('state').hidden = !state;
  text('state', state ?? '');
  at('state').className = `badge ${FINAL[state] ?? 'pending'}`;
  at('hops').hidden = rows.length === 0;
  at('hops-none').hidden = rows.length > 0;
  const labels = ['Hop', 'Id', 'Guard', 'Memory', 'What it saw'];
  at('hops').tBodies[0].replaceChildren(...rows.map((r) => {
    const counts = r.hop === 'phone' && sends > 0 ? { sends, ...r.saw } : r.saw;
    const cells = [r.hop, r.id, r.guard, r.memory, saw(counts)].map((v) => String(v || '–'));
    return element('tr', { role: 'row' }, ...cells.map((v, i) => (i === 0
      ? element('th', { scope: 'row', role: 'rowheader' }, v)
      : element('td', { role: 'cell', 'data-label': labels[i] }, i === 1 ? breakable(v) : v))));
  }));
}

/** The refunds of the payment that is shown. */
export function refunds(list) {
  if (!changed('refunds', list)) return;
  at('refunds').hidden = list.length === 0;
  at('refunds').replaceChildren(...list.map((r) => element('li', { 'data-state': r.state },
    element('b', {}, `Refund ${dollars(r.amount, r.currency)}`),
    element('span', { class: `badge ${FINAL[r.state] ?? 'pending'}` }, r.state),
    breakable(r.id))));
}

export function answer({ status, code, replayed, reason }) {
  text('a-status', status === undefined ? `none (${reason})` : String(status));
  text('a-code', code ?? '–');
  text('a-replayed', status === undefined ? '–' : String(replayed === true));
}
