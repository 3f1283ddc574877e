import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FakeLocks, K1, network, paid, problem, request, setup } from './fakes.js';
import { Client, IndexedDBJournal, MemoryJournal, RetryproofError, newKey, systemClock } from './retryproof.js';

const tick = () => new Promise(setImmediate);

// withGlobal hands a global to work, and takes it away again.
async function withGlobal(name, descriptor, work) {
  const before = Object.getOwnPropertyDescriptor(globalThis, name);
  Object.defineProperty(globalThis, name, { configurable: true, ...descriptor });
  try { return await work(); } finally {
    if (before) Object.defineProperty(globalThis, name, before); else delete globalThis[name];
  }
}

test('a key that another caller used is refused, and nothing of its answer is told', async () => {
  const { client, sent } = setup([{ status: 200, body: { secret: 'of u1' } }]);
  await client.send({ ...request, key: K1 });
  await assert.rejects(client.send({ ...request, key: K1, caller: 'u2' }), (e) => e.code === 'intent-invalid' && e.outcome === 'not-done' && e.entry === undefined);
  assert.equal(sent.length, 1);
  assert.equal((await client.send({ ...request, key: K1 })).body.secret, 'of u1');
});

test('what is no plain JSON is refused instead of being sent as {}', async () => {
  const form = new FormData();
  form.append('amount', '3000');
  const circle = {};
  circle.self = circle;
  const bad = [form, new URLSearchParams('amount=3000'), new Blob(['x']), new Map([['amount', 3000]]), new Set([1]), new Uint8Array([1, 2]), Buffer.from('x'), new ArrayBuffer(2),
    { amount: NaN }, { at: new Date(NaN) }, { list: [undefined] }, { deep: { map: new Map() } }, 10n, Symbol('x'), () => {}, circle, new (class Order { amount = 1; })()];
  const { client, sent, journal } = setup([paid]);
  for (const body of bad) {
    await assert.rejects(client.send({ ...request, body }), { code: 'intent-invalid', outcome: 'not-done' });
    await assert.rejects(client.send({ ...request, meaning: body }), { code: 'intent-invalid', outcome: 'not-done' });
  }
  await assert.rejects(client.send({ ...request, headers: new Headers({ 'x-a': '1' }) }), { code: 'intent-invalid' });
  assert.equal(sent.length + (await journal.list()).length, 0);
  const good = ['text', '', 0, null, false, [1, ['a', null]], { at: new Date(0), none: undefined, url: new URL('https://a.example/') }, Object.create(null)];
  for (const [i, body] of good.entries()) assert.equal((await client.send({ ...request, intent: `order ${i}`, body })).outcome, 'done');
  assert.equal(sent[6].body, '{"at":"1970-01-01T00:00:00.000Z","url":"https://a.example/"}');
});

test('without IndexedDB every call says that the journal is missing, and nothing is sent', async () => {
  const insecure = { get() { throw new DOMException('The operation is insecure.', 'SecurityError'); } };
  for (const where of [{ value: undefined }, insecure]) {
    await withGlobal('indexedDB', where, async () => {
      let sent = 0;
      const client = new Client({ locks: null, fetch: async () => { sent++; return new Response('{}'); }, resolveUrl: () => 'https://shop.example/resolve' });
      const calls = [client.send(request), client.retry(K1), client.resolve(K1), client.pending(), client.entries(), client.resume(), client.prune(), client.release(K1, 'void')];
      for (const call of calls) await assert.rejects(call, (e) => e instanceof RetryproofError && e.code === 'journal' && e.cause !== undefined);
      assert.equal(sent, 0);
    });
  }
});

test('IndexedDB is asked for durable writes', async () => {
  const asked = [];
  const later = (fill) => { const request = {}; setImmediate(() => { fill(request); }); return request; };
  const store = { put() {}, get: () => later((r) => { r.result = undefined; r.onsuccess(); }), index: () => store, add: () => later((r) => r.onsuccess()) };
  const db = { transaction: (...args) => { asked.push(args); const tx = { objectStore: () => store }; setTimeout(() => tx.oncomplete(), 5); return tx; } };
  const journal = new IndexedDBJournal({ indexedDB: { open: () => later((r) => { r.result = db; r.onsuccess(); }) } });
  await journal.claim({ key: K1, slot: 's' });
  assert.deepEqual(asked, [['intents', 'readwrite', { durability: 'strict' }]]);
});

test('a send waits for the other tab, also while a resume gives way to it', async () => {
  const journal = new MemoryJournal();
  const locks = new FakeLocks();
  let answer;
  const a = setup([() => new Promise((resolve) => { answer = () => resolve(paid); })], { journal, locks });
  let tap;
  const tapped = { // the user taps while the resume asks for the lock
    async request(name, options, work) {
      if (!tap) {
        tap = b.client.send(request);
        for (let i = 0; i < 5; i++) await tick();
      }
      return locks.request(name, options, work);
    },
  };
  const b = setup([problem(400, 'invalid')], { journal, locks: tapped });
  const first = a.client.send(request);
  while (!answer) await tick();
  const resumed = b.client.resume();
  assert.equal((await resumed)[0].reason, 'elsewhere');
  answer();
  assert.deepEqual([(await first).outcome, (await tap).outcome, b.sent.length], ['done', 'done', 0]);
});

test('a tap joins a resume that sends, and a resume a tap', async () => {
  const journal = new MemoryJournal();
  await setup([network()], { journal, maxTries: 1 }).client.send(request);
  for (const order of ['resume first', 'tap first']) {
    let answer;
    const { client, sent } = setup([() => new Promise((resolve) => { answer = () => resolve(problem(429, 'x')); })], { journal, maxTries: 1 });
    const [first, second] = [() => client.resume(), () => client.send(request)][order === 'tap first' ? 'reverse' : 'slice']();
    const calls = [first()];
    while (!answer) await tick();
    calls.push(second());
    for (let i = 0; i < 5; i++) await tick();
    answer();
    const got = (await Promise.all(calls)).flat();
    assert.deepEqual([got.map((r) => r.reason), sent.length], [['x', 'x'], 1], order);
  }
});

test('one entry that the journal fails at does not stop the others of a resume', async () => {
  const journal = new MemoryJournal();
  const before = setup([network()], { journal, maxTries: 1 });
  const keys = [];
  for (const intent of ['a', 'b', 'c']) keys.push((await before.client.send({ ...request, intent })).key);
  const update = journal.update.bind(journal);
  journal.update = (key, change) => (key === keys[0] ? Promise.reject(new Error('quota')) : update(key, change));
  const { client, sent } = setup([paid], { journal });
  const got = await client.resume();
  assert.deepEqual(got.map((r) => r.reason ?? r.outcome).sort(), ['done', 'done', 'journal']);
  assert.equal(sent.length, 2);
});

test('unsafe bounds of one call are refused before anything is journaled', async () => {
  const { client, sent, journal } = setup([paid], { resolveUrl: () => 'https://shop.example/resolve' });
  for (const bounds of [{ maxTries: NaN }, { tryTimeout: 0 }, { budget: -1 }]) {
    for (const call of [client.send(request, bounds), client.retry(K1, bounds), client.resolve(K1, bounds), client.resume(bounds)]) await assert.rejects(call, RangeError);
  }
  assert.equal(sent.length + (await journal.list()).length, 0);
});

test('credentials that never come are a passing trouble, and an abort ends the wait', async () => {
  let n = 0;
  const { client, clock, sent } = setup([paid], { authorize: () => { if (n++ > 0) return {}; setImmediate(() => clock.expire()); return new Promise(() => {}); } });
  assert.equal((await client.send(request)).outcome, 'done');
  assert.deepEqual([sent.length, clock.sleeps], [1, [250]]);
  const stop = new AbortController();
  const stuck = setup([paid], { authorize: () => { setImmediate(() => stop.abort(new Error('the user left'))); return new Promise(() => {}); } });
  await assert.rejects(stuck.client.send(request, { signal: stop.signal }), /the user left/);
  assert.equal(stuck.sent.length, 0);
});

test('a wait without an end does not end at once', async () => {
  for (const [ms, want] of [[Infinity, 2 ** 31 - 1], [2 ** 31, 2 ** 31 - 1], [10_000, 10_000]]) {
    const asked = [];
    await withGlobal('setTimeout', { value: (done, got) => { asked.push(got); done(); } }, () => systemClock.sleep(ms));
    assert.deepEqual(asked, [want]);
  }
});

test('a sign-in that nobody waits for any more is told so before the next try asks', async () => {
  const signals = [];
  const { client, clock } = setup([paid], {
    authorize: (_, { signal }) => {
      assert.ok(signals.every((s) => s.aborted), 'two dialogs are open');
      signals.push(signal);
      if (signals.length === 4) return {};
      setImmediate(() => clock.expire());
      return new Promise(() => {});
    },
  });
  assert.equal((await client.send(request)).outcome, 'done');
  assert.equal(signals.length, 4);
});

test('credentials change nothing of the key, and may be Headers', async () => {
  const { client, sent } = setup([paid], { authorize: () => new Headers({ 'Idempotency-Key': 'another', Authorization: 'Bearer t' }) });
  await client.send({ ...request, key: K1 });
  assert.deepEqual([sent[0].key, sent[0].auth], [K1, 'Bearer t']);
});

test('no cache answers, and a try that is over lets go of its connection', async () => {
  const { client, sent } = setup(['hang', paid]);
  await client.send(request);
  assert.deepEqual(sent.map((s) => [s.init.cache, s.init.signal.aborted]), Array(2).fill(['no-store', true]));
});

test('a relative URL is journaled as the address that it is', async () => {
  await withGlobal('location', { value: { href: 'https://shop.example/cart/42' } }, async () => {
    const { client, journal } = setup([network()], { maxTries: 1 });
    await client.send({ ...request, url: '/payments' });
    assert.equal((await journal.list())[0].url, 'https://shop.example/payments');
  });
});

test('a run that fails under its lock is not done again without it', async () => {
  let n = 0;
  const { client } = setup([paid], { locks: new FakeLocks(), classify: () => { n++; throw new Error('a bug'); } });
  await assert.rejects(client.send(request), /a bug/);
  assert.equal(n, 1);
});

test('a judge cannot refuse a key by a question, also without any doubt', async () => {
  const { client } = setup([problem(429, 'x'), problem(404, 'x')], { maxTries: 1, resolveUrl: () => 'https://shop.example/resolve', classifyResolve: () => ({ verdict: 'refused', then: 'stop' }) });
  const { key } = await client.send(request);
  const got = await client.resolve(key);
  assert.deepEqual([got.outcome, got.entry.doubtful], ['pending', 0]);
  assert.match(newKey(), /-/);
});

test('what another tab settles just before a send is not sent', async () => {
  const { client, journal, sent } = setup([network(), paid], { maxTries: 1 });
  const { key } = await client.send(request);
  const get = journal.get.bind(journal);
  journal.get = async (k) => {
    const entry = await get(k);
    await client.release(k, 'void');
    return entry;
  };
  assert.equal((await client.retry(key)).outcome, 'void');
  assert.equal(sent.length, 1);
});

test('a judge cannot refuse a key that is in doubt, also by a marked answer', async () => {
  const classify = () => ({ verdict: 'refused', doubt: false, then: 'stop' });
  const { client } = setup([network(), problem(400, 'x', { 'idempotency-replayed': 'true' })], { classify });
  assert.equal((await client.send(request)).outcome, 'pending');
});

test('a tap right after an abort starts anew', async () => {
  const stop = new AbortController();
  const { client, sent } = setup([() => new Promise(() => {}), paid]);
  const left = client.send(request, { signal: stop.signal });
  while (sent.length === 0) await tick();
  stop.abort(new Error('the user left'));
  const again = client.retry(sent[0].key);
  await assert.rejects(left, /the user left/);
  assert.equal((await again).outcome, 'done');
});

test('a question waits for a resume that is under way', async () => {
  let answer;
  const script = [network(), () => new Promise((resolve) => { answer = () => resolve(paid); }), problem(409, 'void')];
  const { client, sent } = setup(script, { maxTries: 1, resolveUrl: () => 'https://shop.example/resolve' });
  const { key } = await client.send(request);
  const resumed = client.resume();
  while (!answer) await tick();
  const asked = client.resolve(key);
  for (let i = 0; i < 5; i++) await tick();
  assert.equal(sent.length, 2);
  answer();
  assert.deepEqual([(await resumed)[0].outcome, (await asked).outcome, sent.length], ['done', 'done', 2]);
});

test('a database that could not be opened is opened at the next call', async () => {
  let opened = 0;
  const open = () => {
    const asked = { error: new Error('busy') };
    opened++;
    setImmediate(() => asked.onerror());
    return asked;
  };
  const journal = new IndexedDBJournal({ indexedDB: { open } });
  for (let i = 0; i < 2; i++) await assert.rejects(journal.get(K1), /busy/);
  assert.equal(opened, 2);
});
