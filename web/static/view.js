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

export function screen({ notifications = [], alerts = 0, shown = notifications.length }) {
  if (!changed('screen', { notifications, alerts, shown })) return;
  text('alerts', alerts > 0 ? `${shown} shown, ${alerts} ${alerts === 1 ? 'alert' : 'alerts'}` : '');
  at('notes-none').hidden = notifications.length > 0;
  const before = new Map([...at('notes').children].map((li) => [li.dataset.note, li]));
  at('notes').replaceChildren(...notifications.slice(0, 4).map((n) => {
    const id = `${n.replace_id}|${n.at}`;
    const note = before.get(id) ?? element('li', { 'data-note': id }, element('b', {}, n.title), element('span', {}, n.body), element('small'));
    const alerted = n.alerts > 1 ? `replaced, ${n.alerts} alerts` : '';
    if (note.lastChild.textContent !== alerted) note.lastChild.textContent = alerted;
    return note;
  }));
}

// An id may break after each of its parts.
function breakable(id) {
  return element('code', {}, ...id.split(/(?<=:)/).flatMap((part) => [part, element('wbr')]));
}

const FINAL = { SUCCEEDED: 'done', FAILED: 'declined', VOID: 'void' };

export function payment(state, rows) {
  if (!changed('payment', { state, rows })) return;
  at('state').hidden = !state;
  text('state', state ?? '');
  at('state').className = `badge ${FINAL[state] ?? 'pending'}`;
  at('hops').hidden = rows.length === 0;
  at('hops-none').hidden = rows.length > 0;
  const labels = ['Hop', 'Id', 'Guard', 'Memory', 'What it saw'];
  at('hops').tBodies[0].replaceChildren(...rows.map((r) => {
    const cells = [r.hop, r.id, r.guard, r.memory, saw(r.saw)].map((v) => String(v || '–'));
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
