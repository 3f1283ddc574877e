// The troubles of this page: a fetch that loses, holds, kills and is offline on
// demand, and the two switches that live on the server.

import { NotSentError } from '/js/retryproof.js';

const box = (id) => document.getElementById(id);

/** Whether a switch is on; `take` turns one that holds for one send off again. */
export const on = (id) => box(id).checked;
export function take(id) {
  const was = on(id);
  box(id).checked = false;
  return was;
}

const LATE_MS = 1500; // so that a person sees the answer to the question first
const held = []; // sends that wait in front of the server
let tellLate = () => {};

/** Whom to tell how a held request was answered: {status, code, replayed}, {} for not at all. */
export function whenLate(tell) { tellLate = tell; }

/** Sends as the switches say. A request is held until another one was answered. */
export async function troubledFetch(url, init) {
  if (on('offline')) throw new NotSentError();
  if (!url.endsWith('/resolve') && take('hold')) {
    held.push(() => fetch(url, { ...init, signal: undefined }));
    throw new DOMException('the request waits in front of the server', 'TimeoutError');
  }
  try {
    return await sent(url, init);
  } finally {
    for (const late of held.splice(0)) setTimeout(arrive, LATE_MS, late);
  }
}

async function arrive(late) {
  try {
    const answer = await late();
    const { code } = await answer.json();
    tellLate({ status: answer.status, code, replayed: answer.headers.get('idempotency-replayed') === 'true' });
  } catch {
    tellLate({});
  }
}

async function sent(url, init) {
  const kill = take('kill');
  const lose = take('lose');
  if (!kill && !lose) return fetch(url, init);
  // The request outlives the page and the client's patience: it arrives.
  const leaving = fetch(url, { ...init, signal: undefined, keepalive: true });
  if (kill) {
    setTimeout(() => location.reload(), 250);
    return new Promise(() => {});
  }
  const answer = await leaving;
  await answer.arrayBuffer();
  throw new DOMException('the answer was lost', 'TimeoutError');
}

/**
 * Ties the switches "psp" and "slow" to the server's own state. Returns what looks
 * at that state, so that they tell the truth after a restart of the server and in
 * another tab.
 */
export function serverTrouble(report) {
  const ids = ['psp', 'slow'];
  let changes = 0; // begun or ended; a look that one overtook is old news
  let changing = 0;
  let known = {};
  let absent = false;
  const show = (state) => {
    known = state;
    box('psp').checked = state.lose_psp_reply === true;
    box('slow').checked = state.slow === true;
  };
  const ask = async (init) => {
    const answer = await fetch('/phone/faults', { ...init, cache: 'no-store', signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw Object.assign(new Error(`status ${answer.status}`), { status: answer.status });
    return answer.json();
  };
  const change = async () => {
    changes++;
    changing++;
    try {
      known = await ask({
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ lose_psp_reply: on('psp'), slow: on('slow') }),
      });
      report('');
    } catch (error) {
      report(`The server did not take the switch (${error.message}).`);
    }
    changes++;
    changing--;
    if (changing === 0) show(known);
  };
  const look = async () => {
    if (absent || changing > 0) return;
    const before = changes;
    try {
      const state = await ask();
      if (changes !== before) return;
      show(state);
      report('');
    } catch (error) {
      if (error.status !== 404) return; // it is away: what it said last is what is known
      absent = true;
      for (const id of ids) { box(id).checked = false; box(id).disabled = true; }
      report('The server’s own troubles cannot be switched here.');
    }
  };
  for (const id of ids) box(id).addEventListener('change', change);
  return look;
}
