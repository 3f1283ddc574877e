import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FakeLocks, network, paid, problem, request, setup } from './fakes.js';
import { MemoryJournal, NotSentError, RetryproofError, classifyResolve } from './retryproof.js';

const ask = () => 'https://shop.example/payments/resolve';
const voided = { status: 200, body: { id: 'pay_7', state: 'VOID' } };
const tick = () => new Promise(setImmediate);

// A client with one intent whose only send was lost.
async function doubtful(script, options = {}) {
  const s = setup([network(), ...script], { resolveUrl: ask, maxTries: 1, ...options });
  const { key } = await s.client.send(request);
  return { ...s, key };
}

test('a key that the server never saw is voided, and the next tap makes a new one', async () => {
  const { client, sent, key } = await doubtful([voided, paid]);
  const got = await client.resolve(key);
  assert.equal(got.outcome, 'void');
  assert.equal(got.entry.slot, undefined);
  const next = await client.send(request);
  assert.equal(next.outcome, 'done');
  assert.notEqual(next.key, key);
  assert.equal((await client.resolve(key)).outcome, 'void', 'a settled key is answered from the journal');
  assert.equal(sent.length, 3);
});

test('a question is a POST with the key and no body, and counts as no send', async () => {
  const { client, sent, key, events } = await doubtful([{ status: 202, body: { state: 'PROCESSING' }, headers: { location: '/payments/pay_7' } }], {
    authorize: (entry) => ({ Authorization: `Bearer ${entry.caller}` }),
  });
  const got = await client.resolve(key);
  assert.deepEqual([got.outcome, got.reason, got.location], ['pending', 'status 202', '/payments/pay_7']);
  assert.deepEqual([got.entry.tries, got.entry.doubtful], [1, 1]);
  const question = sent.at(-1);
  assert.deepEqual([question.url, question.init.method, question.key, question.body, question.auth], [ask(), 'POST', key, undefined, 'Bearer u1']);
  assert.deepEqual(events.slice(-3).map((e) => e.type), ['asking', 'answer', 'paused']);
});

// case 27
test('what a question settles, and what it does not', async () => {
  const cases = [
    [{ status: 200, body: { state: 'SUCCEEDED' } }, 'done'],
    [{ status: 200, body: { state: 'FAILED' } }, 'declined'],
    [voided, 'void'],
    [problem(409, 'void'), 'void'],
    [problem(409, 'in-progress', { 'retry-after': '1' }), 'pending'],
    [problem(409, 'something-new'), 'pending'],
    [{ status: 202, body: { state: 'SUCCEEDED' } }, 'pending'],
    [{ status: 200, body: { state: 'PROCESSING' } }, 'pending'],
    [{ status: 200, body: { state: 'REQUIRES_ACTION' } }, 'pending'],
    [{ status: 200, body: {} }, 'pending'],
    [{ status: 204 }, 'pending'],
    [{ status: 200, body: '<h1>Welcome to our hotel</h1>', type: 'text/html' }, 'pending'],
    [{ status: 200, body: '{"state":"VOID"', type: 'application/json' }, 'pending'],
    [{ status: 303, body: { state: 'VOID' } }, 'pending'],
    [problem(401, 'unauthorized'), 'pending'],
    [problem(403, 'forbidden'), 'pending'],
    [problem(404, 'not-found'), 'pending'],
    [problem(400, 'key-malformed'), 'pending'],
    [problem(402, 'declined'), 'pending'],
    [problem(503, 'unavailable'), 'pending'],
    ['hang', 'pending'],
    [network(), 'pending'],
    [new NotSentError(), 'pending'],
  ];
  for (const [answer, want] of cases) {
    const { client, key } = await doubtful([answer], { maxTries: 1 });
    const got = await client.resolve(key);
    assert.equal(got.outcome, want, JSON.stringify(answer));
    assert.equal(got.entry.doubtful, 1, 'a question takes no doubt away');
    assert.equal((await client.pending()).length, want === 'pending' ? 1 : 0);
  }
});

test('a question is repeated within the bounds while the answer is not final', async () => {
  const { client, key, sent, clock } = await doubtful([problem(409, 'in-progress', { 'retry-after': '2' }), problem(503, 'unavailable'), { status: 200, body: { state: 'SUCCEEDED' } }]);
  assert.equal((await client.resolve(key, { maxTries: 5 })).outcome, 'done');
  assert.deepEqual(sent.map((s) => s.key), Array(4).fill(key));
  assert.deepEqual(clock.sleeps, [2250, 500]);
});

test('a refusal of the question stops the run, and a 401 asks for credentials once more', async () => {
  const stopped = await doubtful([problem(404, 'not-found')]);
  assert.equal((await stopped.client.resolve(stopped.key, { maxTries: 5 })).reason, 'not-found');
  assert.equal(stopped.sent.length, 2);
  const asked = [];
  const again = await doubtful([problem(401, 'unauthorized'), voided], { authorize: (_, s) => { asked.push(s.refused); return {}; } });
  assert.equal((await again.client.resolve(again.key, { maxTries: 5 })).outcome, 'void');
  assert.deepEqual(asked, [false, false, true]);
});

test('without a URL nobody is asked, and the error says so', async () => {
  const { client, key, sent } = await doubtful([voided], { resolveUrl: undefined });
  for (const resolveUrl of [undefined, () => '', 'https://shop.example/payments/resolve']) {
    await assert.rejects(client.resolve(key, { resolveUrl }), (e) => e instanceof RetryproofError && e.code === 'no-resolve-url' && e.outcome === 'unknown');
  }
  assert.equal(sent.length, 1);
  assert.equal((await client.resolve(key, { resolveUrl: (entry) => `${entry.url}/resolve` })).outcome, 'void');
  assert.equal(sent.at(-1).url, ask());
  await assert.rejects(client.resolve('nobody', { resolveUrl: ask }), { code: 'not-journaled' });
});

for (const [where, locks] of [['in one tab', null], ['in another tab', new FakeLocks()]]) {
  test(`a question waits for a send that is under way ${where}`, async () => {
    const journal = new MemoryJournal();
    let answer;
    const sender = setup([() => new Promise((resolve) => { answer = () => resolve(network()); })], { journal, locks, maxTries: 1, resolveUrl: ask });
    const asker = locks ? setup([voided], { journal, locks, resolveUrl: ask }) : sender;
    const sending = sender.client.send(request);
    while (!answer) await tick();
    const [{ key }] = await journal.list();
    const questions = [asker.client.resolve(key), asker.client.resolve(key)];
    for (let i = 0; i < 5; i++) await tick();
    assert.equal(sender.sent.length, 1);
    assert.ok(!locks || asker.sent.length === 0);
    const first = answer;
    answer = undefined;
    first();
    assert.equal((await sending).outcome, 'pending');
    if (!locks) {
      while (!answer) await tick();
      assert.equal(sender.sent[1].url, ask());
      answer();
    }
    const got = await Promise.all(questions);
    assert.deepEqual(got.map((r) => r.outcome), Array(2).fill(locks ? 'void' : 'pending'));
    assert.equal(asker.sent.filter((s) => s.url === ask()).length, 1, 'two questions are one');
  });
}

test('a tap during a question waits for it, and sends nothing under a voided key', async () => {
  let answer;
  const { client, sent, key } = await doubtful([() => new Promise((resolve) => { answer = () => resolve(voided); })]);
  const question = client.resolve(key);
  while (!answer) await tick();
  const tap = client.send(request);
  for (let i = 0; i < 5; i++) await tick();
  answer();
  assert.deepEqual([(await question).outcome, (await tap).outcome], ['void', 'void']);
  assert.equal(sent.length, 2);
});

test('a late answer to a send that did not wait cannot undo what the question settled', async () => {
  let late;
  const { client, journal } = setup([() => new Promise((resolve) => { late = () => resolve(problem(409, 'void')); }), voided], { resolveUrl: ask, maxTries: 1 });
  const sending = client.send(request, { exclusive: false });
  while (!late) await tick();
  const [{ key }] = await journal.list();
  assert.equal((await client.resolve(key)).outcome, 'void');
  late();
  assert.equal((await sending).outcome, 'void');
});

test('an aborted question leaves the intent as it was', async () => {
  const stop = new AbortController();
  const { client, key, journal } = await doubtful([() => { stop.abort(new Error('the user left')); return new Promise(() => {}); }]);
  await assert.rejects(client.resolve(key, { signal: stop.signal }), /the user left/);
  assert.equal((await journal.get(key)).state, 'pending');
});

test('a verdict that cannot be written down still counts, and is asked for again', async () => {
  const { client, key, journal, events } = await doubtful([voided, problem(409, 'void')]);
  const update = journal.update.bind(journal);
  journal.update = () => { throw new Error('disk full'); };
  assert.equal((await client.resolve(key)).outcome, 'void');
  assert.ok(events.some((e) => e.type === 'journal-failed'));
  journal.update = update;
  assert.equal((await client.send(request)).outcome, 'void', 'the server says it once more');
});

test('a judge of the application\'s own cannot refuse a key by a question', async () => {
  const { client, key } = await doubtful([problem(404, 'x')], { online: () => true, classifyResolve: () => ({ verdict: 'refused', then: 'stop' }) });
  assert.equal((await client.resolve(key)).outcome, 'pending');
  assert.deepEqual(classifyResolve({ status: 0 }), { verdict: 'keep', then: 'retry' });
});
