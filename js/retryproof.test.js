import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { FakeLocks, K1, network, paid, problem, request, setup } from './fakes.js';
import { journalSuite } from './journal.suite.js';
import { Client, MemoryJournal, NotSentError, RetryproofError, classify, newKey } from './retryproof.js';

describe('journal suite on memory', () => {
  for (const [name, check] of journalSuite) test(name, () => check(new MemoryJournal()));
});

test('the key is durable in the journal before the first byte leaves', async () => {
  const journal = new MemoryJournal();
  let durable;
  const { client, sent } = setup([async (init) => {
    durable = await journal.get(init.headers['idempotency-key']);
    return paid;
  }], { journal });
  const got = await client.send(request);
  assert.equal(got.outcome, 'done');
  assert.equal(durable.state, 'pending');
  assert.equal(durable.tries, 1);
  assert.equal(durable.doubtful, 1, 'an open try is in doubt until it is answered');
  assert.equal(durable.body, sent[0].body);
  assert.match(sent[0].key, /^[0-9a-f-]{36}$/);
});

test('nothing is sent when the journal cannot be written', async () => {
  const journal = new MemoryJournal();
  journal.claim = async () => { throw new Error('disk full'); };
  const { client, sent } = setup([paid], { journal });
  await assert.rejects(client.send(request), (e) => e instanceof RetryproofError && e.code === 'journal' && e.outcome === 'not-done');
  assert.equal(sent.length, 0);
});

test('the send waits until the journal write is complete', async () => {
  const journal = new MemoryJournal();
  const claim = journal.claim.bind(journal);
  let complete;
  journal.claim = (e) => new Promise((resolve) => { complete = () => resolve(claim(e)); });
  const { client, sent } = setup([paid], { journal });
  const done = client.send(request);
  await new Promise(setImmediate);
  assert.equal(sent.length, 0);
  complete();
  await done;
  assert.equal(sent.length, 1);
});

// case 27
test('one key through every answer that settles nothing', async () => {
  const script = [network(), 'hang', problem(409, 'in-progress', { 'retry-after': '2' }), { status: 202, body: { id: 'pay_7', state: 'PROCESSING' }, headers: { location: '/payments/pay_7' } },
    { status: 500, body: 'oops', type: 'text/plain' }, problem(429, 'too-many', { 'retry-after': '1' }), problem(401, 'unauthorized'), paid];
  const { client, sent, clock } = setup(script);
  const got = await client.send({ ...request, key: K1 });
  assert.deepEqual(sent.map((s) => s.key), Array(8).fill(K1));
  assert.equal(new Set(sent.map((s) => s.body)).size, 1, 'all sends are alike');
  assert.equal(got.outcome, 'done');
  assert.equal(got.tries, 8);
  assert.equal(got.location, '/payments/pay_7');
  // half of 500·2^n; Retry-After plus half of 500; none after a 401
  assert.deepEqual(clock.sleeps, [250, 500, 2250, 2000, 4000, 1250]);
});

// case 27
test('a refusal after a doubtful try does not free the key', async () => {
  for (const refusal of [problem(422, 'key-reused'), problem(400, 'invalid'), problem(403, 'forbidden')]) {
    const { client, sent } = setup([network(), refusal]);
    const got = await client.send(request);
    assert.equal(got.outcome, 'pending', `${refusal.status} says nothing about the first try`);
    assert.equal(got.reason, refusal.body.code);
    assert.equal(sent.length, 2, 'repeating a refusal is pointless');
    const again = await client.send(request);
    assert.equal(again.key, got.key);
  }
});

test('what lets go of the key, and what does not', async () => {
  const cases = [
    [{ status: 200, body: { state: 'SUCCEEDED' } }, 'done'],
    [{ status: 201, body: { id: 'x' } }, 'done'],
    [{ status: 204 }, 'done'],
    [{ status: 200, body: { state: 'FAILED' } }, 'declined'],
    [problem(402, 'declined'), 'declined'],
    [{ status: 200, body: { state: 'VOID' } }, 'void'],
    [problem(409, 'void'), 'void'],
    [problem(422, 'key-reused'), 'refused'],
    [problem(400, 'invalid'), 'refused'],
    [problem(413, 'too-large'), 'refused'],
    [{ status: 200, body: { state: 'PROCESSING' } }, 'pending'],
    [{ status: 202, body: { state: 'SUCCEEDED' } }, 'pending'],
    [problem(409, 'in-progress'), 'pending'],
    [{ status: 409, body: '', type: 'text/plain' }, 'pending'],
    [{ status: 503, body: { code: 'unavailable' } }, 'pending'],
    [{ status: 200, body: '<h1>Welcome to our hotel</h1>', type: 'text/html' }, 'pending'],
    [{ status: 200, body: '{"id":', type: 'application/json' }, 'pending'],
    ['hang', 'pending'],
    [network(), 'pending'],
  ];
  for (const [answer, want] of cases) {
    const { client, sent } = setup([answer], { maxTries: 2 });
    const first = await client.send(request);
    assert.equal(first.outcome, want, JSON.stringify(answer));
    const second = await client.send(request);
    const kept = want === 'pending' || want === 'done';
    assert.equal(second.key === first.key, kept, 'the key is kept while the intent is pending, and when it is done');
    if (kept) assert.equal(new Set(sent.map((s) => s.key)).size, 1);
  }
});

// case 6
test('answers from before anything ran leave no doubt, so a later refusal is definite', async () => {
  const { client } = setup([problem(429, 'too-many'), problem(401, 'unauthorized'), problem(425, 'too-early'), problem(400, 'invalid')]);
  assert.equal((await client.send(request)).outcome, 'refused');
});

// case 27
test('no 5xx is a proof that nothing ran, whatever its code', async () => {
  for (const code of ['too-late', 'unavailable', 'conflict', 'read-only', 'unknown', 'too-many']) {
    assert.equal(classify({ status: 503, code }).doubt, true, code);
    const { client } = setup([problem(503, code), problem(404, 'not-found')]);
    const got = await client.send(request);
    assert.equal(got.outcome, 'pending', code);
    assert.equal((await client.send(request)).key, got.key, code);
  }
});

test('a killed app finds its intent and resumes it with the same key', async () => {
  const journal = new MemoryJournal();
  const before = setup([() => new Promise(() => {})], { journal });
  before.client.send(request).catch(() => {}); // never ends: the app dies here
  while (before.sent.length === 0) await new Promise(setImmediate);

  const after = setup([problem(400, 'invalid'), paid], { journal });
  const [found] = await after.client.pending({ caller: 'u1' });
  assert.equal(found.key, before.sent[0].key);
  const [refused] = await after.client.resume({ caller: 'u1' });
  assert.equal(refused.outcome, 'pending', 'the killed send stays in doubt, so a refusal settles nothing');
  const [got] = await after.client.resume({ caller: 'u1' });
  assert.equal(got.outcome, 'done');
  assert.deepEqual(after.sent.map((s) => [s.key, s.body]), Array(2).fill([before.sent[0].key, before.sent[0].body]));
  assert.deepEqual(await after.client.pending(), []);
});

test('an intent is resumed for its own caller only', async () => {
  const { client, sent } = setup([paid], {
    online: () => true,
    authorize: (entry) => (entry.caller === 'u2' ? { Authorization: 'Bearer demo-u2' } : null),
  });
  const got = await client.send(request);
  assert.equal(got.outcome, 'pending');
  assert.equal(got.reason, 'unauthorized');
  assert.deepEqual(await client.resume({ caller: 'u2' }), []);
  assert.equal(sent.length, 0);
});

test('two callers with one intent name have two keys', async () => {
  const { client } = setup([network()], { maxTries: 1 });
  const a = await client.send(request);
  const b = await client.send({ ...request, caller: 'u2' });
  assert.notEqual(a.key, b.key);
});

test('a 401 asks for new credentials once and never journals them', async () => {
  const asked = [];
  const { client, sent, journal } = setup([problem(401, 'unauthorized'), paid], {
    authorize: (_, state) => { asked.push(state.refused); return { Authorization: `Bearer t${asked.length}` }; },
  });
  assert.equal((await client.send(request)).outcome, 'done');
  assert.deepEqual(sent.map((s) => s.auth), ['Bearer t1', 'Bearer t2']);
  assert.deepEqual(asked, [false, true]);
  assert.ok(!JSON.stringify(await journal.list()).includes('Bearer'));

  const stuck = setup([problem(401, 'unauthorized')]);
  const got = await stuck.client.send(request);
  assert.equal(got.outcome, 'pending');
  assert.equal(stuck.sent.length, 2);
  await assert.rejects(stuck.client.send({ ...request, headers: { Authorization: 'Bearer x' } }), { code: 'intent-invalid', outcome: 'not-done' });
});

test('credentials that cannot be had are a passing trouble', async () => {
  let n = 0;
  const { client, sent } = setup([paid], { authorize: () => { if (n++ === 0) throw new Error('token server down'); return {}; } });
  assert.equal((await client.send(request)).outcome, 'done');
  assert.equal(sent.length, 1);
});

test('offline: nothing is sent and no doubt is noted', async () => {
  let online = false;
  const { client, sent } = setup([new NotSentError(), problem(400, 'invalid')], { online: () => online, maxTries: 3 });
  const first = await client.send(request);
  assert.equal(first.outcome, 'pending');
  assert.equal(first.reason, 'offline');
  assert.equal(first.tries, 0);
  assert.equal(sent.length, 0);
  online = true;
  const second = await client.send(request);
  assert.equal(second.key, first.key);
  assert.equal(second.outcome, 'refused', 'a send that never left is not in doubt');
});

test('another meaning cannot take over a pending intent', async () => {
  const { client, sent } = setup([network(), paid], { maxTries: 1 });
  const first = await client.send(request);
  await assert.rejects(client.send({ ...request, body: { order_id: '42', amount: 3500 } }), (e) => e.code === 'intent-changed' && e.entry.key === first.key);
  assert.equal(sent.length, 1);
  const again = await client.send({ ...request, body: { amount: 3000, order_id: '42' } });
  assert.equal(again.key, first.key, 'the order of members is no meaning');
  assert.equal(sent[1].body, sent[0].body, 'the journaled bytes are sent');
});

test('an application\'s own key is never replaced', async () => {
  const { client, sent } = setup([network(), paid], { maxTries: 1 });
  await client.send(request);
  await assert.rejects(client.send({ ...request, key: K1 }), { code: 'intent-pending', outcome: 'not-done' });
  const got = await client.send({ ...request, intent: 'another', key: K1 });
  assert.equal(got.key, K1);
  const replayed = await client.send({ ...request, intent: 'another', key: K1 });
  assert.equal(replayed.outcome, 'done');
  assert.deepEqual(sent.slice(1).map((s) => s.key), [K1, K1]);
  await assert.rejects(client.send({ ...request, key: 'has blank' }), { code: 'intent-invalid' });
});

test('taps during a run join it', async () => {
  let answer;
  const { client, sent } = setup([() => new Promise((resolve) => { answer = () => resolve(paid); })]);
  const taps = [client.send(request), client.send(request), client.send(request)];
  while (!answer) await new Promise(setImmediate);
  answer();
  const got = await Promise.all(taps);
  assert.equal(sent.length, 1);
  assert.deepEqual(got.map((r) => r.outcome), ['done', 'done', 'done']);
});

const replay = { ...paid, headers: { 'idempotency-replayed': 'true' } };

// case 27
test('a tap after the end sends the same key, in this tab and in another', async () => {
  const journal = new MemoryJournal();
  const here = setup([paid, replay], { journal });
  const first = await here.client.send(request);
  const again = await here.client.send(request);
  const there = await setup([replay], { journal, onEvent: (e) => here.events.push(e) }).client.send(request);
  for (const got of [again, there]) {
    assert.deepEqual([got.outcome, got.key, got.replayed, got.body], ['done', first.key, true, paid.body]);
  }
  assert.equal(here.sent[1].body, here.sent[0].body, 'the journaled bytes are sent');
  assert.deepEqual([there.tries, there.entry.doubtful], [3, 0]);
  assert.equal((await journal.list()).length, 1);
  assert.equal(here.events.filter((e) => e.type === 'settled').length, 1, 'it is settled once');
});

// case 27
test('done is never left, whatever another send of it hears', async () => {
  for (const [answer, options] of [[network()], ['hang'], [problem(503, 'unknown')], [problem(402, 'declined')], [problem(409, 'void')], [problem(400, 'invalid')],
    [{ status: 202 }], [paid, { online: () => false }], [paid, { authorize: () => null }]]) {
    const { client, journal } = setup([paid]);
    const first = await client.send(request);
    const after = setup([answer], { journal, ...options });
    const got = await after.client.send(request);
    assert.deepEqual([got.outcome, got.key, got.status, got.body], ['done', first.key, 201, paid.body], JSON.stringify(answer));
    assert.equal((await journal.get(first.key)).state, 'done');
    assert.ok(after.sent.length <= 1, 'it is asked once');
    assert.equal((await after.client.pending()).length, 0);
  }
});

test('two keys of an application\'s own are two intents, also for the same request', async () => {
  const { client, sent } = setup([paid, paid]);
  const buy = { url: 'https://api.example/buy', body: { item: 'tea' } };
  for (const key of ['K-1', 'K-2']) {
    const got = await client.send({ ...buy, key });
    assert.equal(got.outcome, 'done');
    assert.equal(got.key, key);
  }
  assert.equal(sent.length, 2);
});

// case 27
test('what is done keeps its meaning and its name until it is forgotten', async () => {
  const { client, sent } = setup([paid]);
  const first = await client.send(request);
  await assert.rejects(client.send({ ...request, body: { order_id: '42', amount: 3500 } }), { code: 'intent-changed', outcome: 'not-done', message: /done with another meaning/ });
  await assert.rejects(client.send({ ...request, key: K1 }), { code: 'intent-done', outcome: 'not-done' });
  assert.equal(sent.length, 1);
  assert.equal((await client.retry(first.key)).outcome, 'done');
  assert.equal(sent.length, 1, 'a retry of what is done is answered from the journal');
  assert.equal(await client.prune({ keep: 1 }), 0);
  assert.equal((await client.send(request)).key, first.key);
  assert.equal(await client.prune({ keep: 0 }), 1);
  assert.notEqual((await client.send(request)).key, first.key, 'what is forgotten is new');
});

test('two sends at once that do not wait carry one key, and the first settlement stands', async () => {
  let finish;
  const { client, sent, journal } = setup([() => new Promise((resolve) => { finish = () => resolve(paid); }), problem(409, 'in-progress')], { maxTries: 1 });
  const taps = [client.send(request, { exclusive: false }), client.send(request, { exclusive: false })];
  assert.equal((await taps[1]).outcome, 'pending');
  finish();
  assert.equal((await taps[0]).outcome, 'done');
  assert.equal(sent[0].key, sent[1].key);
  const [entry] = await journal.list();
  assert.equal(entry.state, 'done');
  assert.equal(entry.tries, 2);
});

test('of two tabs only one resumes an intent', async () => {
  const journal = new MemoryJournal();
  await setup([network()], { journal, maxTries: 1 }).client.send(request);
  const locks = new FakeLocks();
  let answer;
  const a = setup([() => new Promise((resolve) => { answer = () => resolve(paid); })], { journal, locks });
  const b = setup([paid], { journal, locks });
  const first = a.client.resume();
  while (!answer) await new Promise(setImmediate);
  const [elsewhere] = await b.client.resume();
  assert.equal(elsewhere.outcome, 'pending');
  assert.equal(elsewhere.reason, 'elsewhere');
  const tap = b.client.send(request); // a tap waits for the other tab's end
  answer();
  assert.equal((await first)[0].outcome, 'done');
  assert.equal((await tap).outcome, 'done');
  assert.equal(b.sent.length, 0);
});

test('locks that are refused do not stop a send', async () => {
  const { client } = setup([paid], { locks: { request: async () => { throw new DOMException('opaque origin', 'SecurityError'); } } });
  assert.equal((await client.send(request)).outcome, 'done');
});

test('a run is bounded by tries and by its budget', async () => {
  const tries = setup([network()], { maxTries: 4 });
  assert.equal((await tries.client.send(request)).reason, 'network');
  assert.equal(tries.sent.length, 4);

  const budget = setup([problem(503, 'unavailable', { 'retry-after': '3600' })]);
  const got = await budget.client.send(request);
  assert.equal(got.outcome, 'pending');
  assert.equal(budget.sent.length, 1, 'no pause goes past the budget');
  assert.equal(budget.events.at(-1).type, 'paused');
});

test('the pauses have full jitter under a doubling cap', async () => {
  const draws = [0, 0.999, 0.5, 0.25, 0.5, 0.5, 0.5, 0.5];
  const { client, clock } = setup([network()], { random: () => draws.shift(), maxDelay: 3000, maxTries: 6 });
  await client.send(request);
  assert.deepEqual(clock.sleeps, [999, 1000, 750, 1500]); // 0 is no pause
});

test('Retry-After as a date is read against the sender\'s clock', async () => {
  const headers = { date: 'Sun, 06 Nov 1994 08:49:37 GMT', 'retry-after': 'Sun, 06 Nov 1994 08:49:40 GMT' };
  const { client, clock } = setup([problem(503, 'unavailable', headers), problem(503, 'x', { 'retry-after': 'soon' }), paid], { random: () => 0 });
  await client.send(request);
  assert.deepEqual(clock.sleeps, [3000]);
});

test('an abort ends the run and keeps the intent', async () => {
  const stop = new AbortController();
  const { client, journal } = setup([() => { stop.abort(new Error('the user left')); return new Promise(() => {}); }, paid]);
  await assert.rejects(client.send(request, { signal: stop.signal }), /the user left/);
  const [entry] = await journal.list();
  assert.equal(entry.state, 'pending');
  assert.equal(entry.doubtful, 1);
  assert.equal((await client.send(request)).key, entry.key);
  await assert.rejects(client.send(request, { signal: AbortSignal.abort(new Error('before')) }), /before/);
  assert.equal((await journal.list()).length, 1, 'an aborted call journals nothing');
});

test('an abort of one joined tap leaves the others', async () => {
  let answer;
  const stop = new AbortController();
  const { client } = setup([() => new Promise((resolve) => { answer = () => resolve(paid); })]);
  const first = client.send(request, { signal: stop.signal });
  const second = client.send(request);
  while (!answer) await new Promise(setImmediate);
  stop.abort(new Error('gone'));
  await assert.rejects(first, /gone/);
  answer();
  assert.equal((await second).outcome, 'done');
});

test('an answer that cannot be written down still counts', async () => {
  const journal = new MemoryJournal();
  const update = journal.update.bind(journal);
  let n = 0;
  journal.update = (...a) => { if (++n === 2) throw new Error('disk full'); return update(...a); };
  const { client, events } = setup([paid], { journal });
  assert.equal((await client.send(request)).outcome, 'done');
  assert.ok(events.some((e) => e.type === 'journal-failed'));
  assert.equal((await client.pending()).length, 1, 'it is asked again after a restart');
});

test('a retry that cannot be journaled is not sent, and unknown', async () => {
  const journal = new MemoryJournal();
  const update = journal.update.bind(journal);
  let n = 0;
  journal.update = (...a) => { if (++n >= 3) throw new Error('disk full'); return update(...a); };
  const { client, sent } = setup([network()], { journal });
  await assert.rejects(client.send(request), { code: 'journal', outcome: 'unknown' });
  assert.equal(sent.length, 1);
});

test('the events tell the whole story, and a faulty listener harms nothing', async () => {
  const { client, events } = setup([network(), { ...paid, headers: { 'idempotency-replayed': 'true' } }]);
  const got = await client.send(request);
  assert.equal(got.replayed, true);
  assert.deepEqual(events.map((e) => e.type), ['journaled', 'sending', 'answer', 'waiting', 'sending', 'answer', 'settled']);
  const deaf = setup([paid], { onEvent: () => { throw new Error('display'); } });
  assert.equal((await deaf.client.send(request)).outcome, 'done');
});

test('release settles by hand; prune keeps what is pending', async () => {
  const { client } = setup([network()], { maxTries: 1 });
  const a = await client.send({ ...request, intent: 'a' });
  const b = await client.send({ ...request, intent: 'b' });
  assert.equal((await client.release(a.key, 'void')).state, 'void');
  assert.equal((await client.release(a.key, 'done')).state, 'void', 'the first settlement stands');
  assert.equal(await client.prune({ keep: 0 }), 1);
  assert.deepEqual((await client.entries()).map((e) => e.key), [b.key]);
  await assert.rejects(client.release(b.key, 'pending'), RangeError);
  await assert.rejects(client.retry('nobody'), { code: 'not-journaled' });
});

test('a large answer is not kept', async () => {
  const { client } = setup([{ status: 200, body: { big: 'x'.repeat(70_000) } }]);
  const got = await client.send(request);
  assert.equal(got.outcome, 'done');
  assert.equal(got.body, undefined);
});

test('unsafe bounds are refused', () => {
  assert.throws(() => new Client({ journal: new MemoryJournal(), maxTries: 0 }), RangeError);
  assert.throws(() => new Client({ journal: new MemoryJournal(), tryTimeout: NaN }), RangeError);
});

test('newKey makes UUIDs, also without randomUUID', () => {
  const v4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  assert.match(newKey(), v4);
  assert.match(newKey({ getRandomValues: (b) => b.fill(0xff) }), v4);
});

test('classify knows nothing of an answer without a status it knows', () => {
  assert.deepEqual(classify({ status: 0 }), { verdict: 'keep', doubt: true, then: 'retry' });
  assert.deepEqual(classify({ status: 303 }), { verdict: 'keep', doubt: true, then: 'retry' });
  assert.equal(classify({ status: 409, code: 'something-new' }).verdict, 'keep');
});
