// What the tests put in the place of time, of a server and of Web Locks.

import { Client, MemoryJournal } from './retryproof.js';

export const K1 = '0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e07';
export const request = { caller: 'u1', intent: 'pay order 42', url: 'https://shop.example/payments', body: { order_id: '42', amount: 3000 } };
export const paid = { status: 201, body: { id: 'pay_7', state: 'SUCCEEDED' } };

// Virtual time: sleep advances it at once, except for the timeouts of tries,
// which end only when a fetch hangs.
class FakeClock {
  time = 0;
  sleeps = [];
  hung = 0;
  now = () => this.time;
  sleep = (ms, signal) => new Promise((resolve, reject) => {
    const end = () => { this.time += ms; resolve(); };
    const stop = () => { this.timeouts = this.timeouts.filter((t) => t !== end); reject(signal.reason); };
    if (signal?.aborted) { stop(); return; }
    signal?.addEventListener('abort', stop, { once: true });
    if (ms === 10_000) { this.timeouts.push(end); return; }
    this.sleeps.push(ms);
    this.time += ms;
    setImmediate(resolve);
  });
  timeouts = [];
  expire() { for (const t of this.timeouts.splice(0)) t(); }
}

// A server that answers by script, in short or with a Response; 'hang' never answers, an Error is thrown.
function server(script, clock) {
  const sent = [];
  const fetch = async (url, init) => {
    sent.push({ url, key: init.headers['idempotency-key'], auth: init.headers.authorization, body: init.body, init });
    const next = script.length > 1 ? script.shift() : script[0];
    const answer = typeof next === 'function' ? await next(init) : next;
    if (answer === 'hang') { setImmediate(() => clock.expire()); return new Promise(() => {}); }
    if (answer instanceof Error) throw answer;
    if (answer instanceof Response) return answer;
    const { status, body, headers = {}, type = body?.code ? 'application/problem+json' : 'application/json' } = answer;
    const text = typeof body === 'string' ? body : body === undefined ? '' : JSON.stringify(body);
    return new Response([204, 304].includes(status) ? null : text, { status, headers: { 'content-type': type, ...headers } });
  };
  return { fetch, sent };
}

export function setup(script, options = {}) {
  const clock = new FakeClock();
  const journal = options.journal ?? new MemoryJournal();
  const s = server(script, clock);
  const events = [];
  const client = new Client({ journal, clock, fetch: s.fetch, random: () => 0.5, locks: null, online: () => true, onEvent: (e) => events.push(e), ...options });
  return { client, clock, journal, events, sent: s.sent };
}

export const problem = (status, code, headers) => ({ status, body: { code }, headers });
export const network = () => new TypeError('fetch failed');

// Web Locks, as far as the client uses them.
export class FakeLocks {
  #held = new Map();
  names = [];
  async request(name, { ifAvailable, signal }, work) {
    this.names.push(name);
    if (ifAvailable && this.#held.has(name)) return work(null);
    while (this.#held.has(name)) {
      await this.#held.get(name);
      if (signal?.aborted) throw signal.reason;
    }
    const run = (async () => work({ name }))();
    this.#held.set(name, run.catch(() => {}));
    try { return await run; } finally { this.#held.delete(name); }
  }
}
