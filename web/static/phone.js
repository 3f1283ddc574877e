// The phone: taps become intents, intents are sent by the journaled client, and
// everything that shows is read back from the journal or from the server.

import { Client, IndexedDBJournal } from '/js/retryproof.js';
import { bodyOf, cents, dollars, isRefund, MOST, paymentOf, say, sayLate, sayResolved } from '/words.js';
import { on, serverTrouble, take, troubledFetch, whenLate } from '/trouble.js';
import * as view from '/view.js';

const FINAL = new Set(['SUCCEEDED', 'FAILED', 'VOID']);
const BUSY_MS = 1000; // between looks while something is going on
const CALM_MS = 5000;
const LINGER_MS = 20_000; // events and notifications come after the answer
const JOURNAL = 'retryproof-phone';

const field = (id) => document.getElementById(id);
const bearer = (user) => ({ Authorization: `Bearer demo-${user}` });
const said = (line) => view.text('said', line);

let entries = [];
let last; // the payment that is watched: {id, caller, payee, state, key}
let busyUntil = 0;
let speaking = 0; // runs that will say themselves what came of them
let unsaid = []; // keys on the form whose end has not been said

const otherTabs = channel(); // they share the journal

const client = new Client({
  journal: new IndexedDBJournal({ name: JOURNAL }),
  fetch: troubledFetch,
  authorize: (entry) => bearer(entry.caller),
  resolveUrl: () => '/payments/resolve',
  onEvent: heard,
});

// The other tabs are told at once what changes. Where a browser has no channel, or lets
// none be opened, they find it at their next look.
function channel() {
  try {
    return new BroadcastChannel(JOURNAL);
  } catch {
    return { postMessage() {} };
  }
}

function heard(event) {
  busyUntil = Date.now() + LINGER_MS;
  if (event.type === 'answer') view.answer(event);
  if (event.type === 'waiting') said(`No final answer (${event.reason}). The phone tries again in ${(event.wait / 1000).toFixed(1)} s, with the same key.`);
  watch(event.entry);
  redraw();
  otherTabs.postMessage(event.type);
}

// The entry that paid what an entry is about.
function paying(entry) {
  return isRefund(entry) ? entries.findLast((e) => !isRefund(e) && paymentOf(e) === paymentOf(entry)) : entry;
}

function watch(about) {
  const entry = paying(about);
  const id = entry && paymentOf(entry);
  if (!id || entry.state === 'void') return; // no payment ever was under a voided key
  if (last?.id !== id) last = { id, caller: entry.caller, payee: bodyOf(entry).merchant_id };
  last.key = entry.key;
}

// Reads the journal. A paid order that it has forgotten, by whatever tab, would be new:
// the form leaves it first.
async function read() {
  const now = await client.entries();
  const of = standing();
  if (of?.state === 'done' && !now.some((e) => e.key === of.key)) leavePaid();
  entries = now;
}

async function redraw() {
  await read();
  draw();
}

function draw() {
  view.journal(entries);
  const amount = cents(field('amount').value);
  const of = standing();
  const paid = of?.state === 'done';
  field('tap').disabled = paid;
  field('next').hidden = !paid;
  field('ask').hidden = of?.state !== 'pending' || busy('tap');
  const back = paid ? refundOf(paymentOf(of)) : undefined;
  sayEnds([of, back]);
  field('refund').hidden = !paid || !paymentOf(of);
  field('refund').disabled = back?.state === 'done' || back?.state === 'declined';
  view.text('refund', { done: 'Refunded', declined: 'Not refunded', pending: 'Refund again' }[back?.state] ?? `Refund ${dollars(bodyOf(of ?? {}).amount)}`);
  view.text('tap', paid ? 'Paid' : `${of?.state === 'pending' ? 'Tap again' : 'Pay'}${amount ? ` ${dollars(amount)}` : ''}`);
}

// What another tab, or a send that nobody waits for, has settled is said here.
function sayEnds(shown) {
  const ended = unsaid.map((key) => entries.find((e) => e.key === key && e.state !== 'pending')).filter(Boolean).at(-1);
  unsaid = shown.filter((e) => e?.state === 'pending').map((e) => e.key);
  if (!ended || speaking > 0) return;
  const { status, code, body, replayed } = ended.answer ?? {};
  said(say({ outcome: ended.state, status, code, body, replayed, entry: ended }));
}

const busy = (id) => field(id).hasAttribute('aria-busy');
const intent = () => `pay order ${field('order').value.trim()}`;

// The newest entry of the order and buyer on the form.
function standing() {
  return entries.findLast((e) => e.caller === field('buyer').value && e.intent === intent());
}

// The newest refund that was asked for of a payment.
function refundOf(id) {
  return entries.findLast((e) => isRefund(e) && paymentOf(e) === id);
}

function request() {
  const amount = cents(field('amount').value);
  const order = field('order').value.trim();
  for (const [id, ok] of [['amount', amount !== undefined], ['order', order !== '']]) field(id).setAttribute('aria-invalid', String(!ok));
  if (amount === undefined) return { problem: `An amount is dollars and cents, such as 30.00, more than nothing and at most ${dollars(MOST)}.`, at: 'amount' };
  if (order === '') return { problem: 'Which order? Give it a number.', at: 'order' };
  return {
    caller: field('buyer').value,
    intent: intent(),
    url: '/payments',
    body: { order_id: order, amount, currency: 'USD', payment_method: 'pm_1', merchant_id: field('payee').value },
  };
}

// A tap while the one before is at work is the same tap. "Double tap" is there to
// send such a tap all the same.
async function tap() {
  if (busy('tap') && !on('double')) return;
  const wanted = request();
  if (wanted.problem) {
    said(wanted.problem);
    field(wanted.at).focus();
    return;
  }
  const twice = take('double');
  const options = { ...tries(), exclusive: !twice };
  said(standing()?.state === 'pending' ? 'Sending again, with the same key…' : 'The key is in the journal. Sending…');
  await during('tap', async () => tell(await Promise.all((twice ? [1, 2] : [1]).map(() => client.send(wanted, options)))));
}

const tries = () => ({ maxTries: on('auto') ? 8 : 1 });

// Says what came of some work and shows what the journal says now, in one go, so
// that no tap falls between. `over` is told before.
async function speak(work, over = () => {}) {
  speaking++;
  const line = await work().catch(trouble);
  await read().catch(() => {}); // what was known still shows
  over();
  said(line);
  draw();
  speaking--;
}

// Nothing may scroll away under a finger.
const focusOnSaid = () => field('said').focus({ preventScroll: true });

// Shows that a button's work is going on, then what came of it. A button that goes
// away or is done hands its focus to that, where Enter does nothing: somebody who
// presses it once more means this button, not the next one.
async function during(id, work) {
  const focused = document.activeElement === field(id);
  field(id).setAttribute('aria-busy', 'true');
  await speak(work, () => field(id).removeAttribute('aria-busy'));
  const lost = focused && [document.body, field(id)].includes(document.activeElement);
  if (lost && (field(id).hidden || field(id).disabled)) focusOnSaid();
}

// "Did it go through?" sends nothing: it asks, and a key that the server knows
// nothing of is closed there for ever.
async function ask() {
  const of = standing();
  if (of?.state !== 'pending' || busy('ask')) return;
  said('Asking what became of the key…');
  await during('ask', async () => sayResolved(await client.resolve(of.key, tries())));
}

// Gives the whole payment back. What names a cancel is the payment, so however often
// it is sent, it is done once.
async function refund() {
  const of = standing();
  const id = of && paymentOf(of);
  if (of?.state !== 'done' || !id || busy('refund')) return;
  said('The refund is in the journal. Sending…');
  await during('refund', async () => say(await client.send({
    caller: of.caller, intent: `refund order ${bodyOf(of).order_id}`, url: `/payments/${encodeURIComponent(id)}/cancel`,
  }, tries())));
}

// Of two sends the one that settled the intent has the last word.
function tell(results) {
  const best = results.find((r) => r.outcome !== 'pending') ?? results[0];
  return results.length > 1 && best.outcome === 'done'
    ? `Two sends, one key, one payment. ${say({ ...best, replayed: false })}` : say(best);
}

function trouble(error) {
  if (error.code === 'intent-changed') {
    const { amount, merchant_id: payee } = bodyOf(error.entry);
    if (error.entry.state === 'done') return `This order is paid: ${dollars(amount)} to ${payee}. Another payment is another order.`;
    return `This order has an unfinished payment of ${dollars(amount)} to ${payee}. Settle that one first: put those back and tap again.`;
  }
  if (error.code === 'journal') return 'The journal could not be written, so nothing was sent. Is this a private window, or the disk full?';
  return `The page failed: ${error.message}`;
}

async function get(path, caller) {
  const answer = await fetch(path, { headers: bearer(caller), cache: 'no-store', signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw Object.assign(new Error(`status ${answer.status}`), { status: answer.status });
  return answer.json();
}

// Each look is apart: one that fails leaves what it showed, and the next comes.
async function look() {
  const buyer = field('buyer').value;
  const payee = last?.payee ?? field('payee').value;
  await Promise.allSettled([
    redraw(), // another tab writes to the same journal
    lookAtSwitches(),
    get(`/phone/screen?to=${encodeURIComponent(buyer)}`, buyer).then(view.screen),
    get(`/merchants/${encodeURIComponent(payee)}/balance`, buyer).then((b) => view.text('balance', `${dollars(b.balance, b.currency)} (${payee})`)),
    lookAtPayment().catch((error) => { if (error.status === 404) forget(); }),
  ]);
}

// The payment is one of another, older server.
function forget() {
  last = undefined;
  view.payment('', []);
  view.refunds([]);
}

async function lookAtPayment() {
  if (!last) return;
  const watched = last;
  const path = `/payments/${encodeURIComponent(watched.id)}`;
  const [payment, hops] = await Promise.all([get(path, watched.caller), get(`${path}/hops`, watched.caller)]);
  watched.state = payment.state;
  const back = refundOf(watched.id);
  const { refunds } = payment.refunded || back ? await get(`${path}/refunds`, watched.caller) : { refunds: [] };
  if (watched !== last) return;
  const entry = entries.find((e) => e.key === watched.key);
  view.payment(payment.state, hops.hops ?? [], entry?.tries);
  view.refunds(refunds);
  // The page saw the end; the phone hears it by sending its key once more.
  if (FINAL.has(payment.state) && entry?.state === 'pending') await speak(async () => say(await client.retry(watched.key, { maxTries: 1 })));
  const cancelled = refunds.find((r) => r.id === `${watched.id}:cancel`);
  if (FINAL.has(cancelled?.state) && back?.state === 'pending' && back.answer?.status === 202) await speak(async () => say(await client.retry(back.key, { maxTries: 1 })));
}

async function keepLooking() {
  for (;;) {
    if (!document.hidden) await look();
    const going = Date.now() < busyUntil || (last?.state && !FINAL.has(last.state));
    await new Promise((resolve) => { setTimeout(resolve, going ? BUSY_MS : CALM_MS); });
  }
}

// What the last run of the app left unfinished is asked again, with its key.
async function wake() {
  await redraw();
  const open = entries.filter((e) => e.state === 'pending');
  const newest = open.at(-1) ?? entries.findLast((e) => paymentOf(e));
  if (newest) watch(newest);
  if (open.length === 0) {
    leavePaid();
    await redraw();
    return;
  }
  const shown = paying(open.at(-1));
  if (shown) fill(shown);
  await redraw();
  said(`The app was closed in mid-send. Its journal holds ${open.length === 1 ? 'one unfinished request' : `${open.length} unfinished requests`}; sending again with the same ${open.length === 1 ? 'key' : 'keys'}…`);
  await resume('Back after a restart.');
}

const resume = (lead) => speak(async () => {
  const results = await client.resume({ maxTries: 3 });
  return results.length > 0 ? `${lead} ${say(results.at(-1))}` : field('said').textContent;
});

function fill(entry) {
  const { order_id: order, amount, merchant_id: payee } = bodyOf(entry);
  field('buyer').value = entry.caller;
  field('payee').value = payee;
  field('order').value = order;
  field('amount').value = dollars(amount).replace(/[$,]/g, '');
}

// The form goes on to an order that is not paid.
function leavePaid() {
  while (standing()?.state === 'done') nextOrder();
}

function nextOrder() {
  const order = field('order').value.trim();
  const m = /^(.*?)(\d{1,9})$/.exec(order);
  field('order').value = m ? `${m[1]}${Number(m[2]) + 1}` : `${order}-2`;
}

field('pay').addEventListener('submit', (e) => { e.preventDefault(); tap(); });
for (const type of ['input', 'change']) field('pay').addEventListener(type, redraw);
field('ask').addEventListener('click', ask);
field('refund').addEventListener('click', refund);
field('next').addEventListener('click', async () => {
  leavePaid();
  said('A new order is a new intent: the next tap makes a new key.');
  await redraw();
  focusOnSaid();
});
field('prune').addEventListener('click', async () => {
  await client.prune({ keep: 0 });
  otherTabs.postMessage('pruned');
  await redraw();
  field('journal-title').focus();
});
// A key that is held down is one press.
document.addEventListener('keydown', (e) => { if (e.repeat && e.key === 'Enter') e.preventDefault(); });
document.addEventListener('visibilitychange', redraw);
otherTabs.onmessage = redraw;
addEventListener('online', () => resume('Online again.'));

whenLate((answer) => {
  view.answer({ ...answer, reason: 'lost' });
  said(`${field('said').textContent} ${sayLate(answer)}`);
});
const lookAtSwitches = serverTrouble((line) => view.text('trouble-said', line));
wake().catch((error) => said(trouble(error))).then(keepLooking);
