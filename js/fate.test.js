import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { network, request, setup } from './fakes.js';
import { classifyStrict } from './retryproof.js';

// What each answer means: marked as the server's record, unmarked, and unmarked after a
// send whose end nobody knows. The Go client is held to the same list.
const cases = JSON.parse(readFileSync(new URL('fate.cases.json', import.meta.url), 'utf8'));
const marks = [{ 'idempotency-replayed': 'true' }, { 'idempotency-key-expires': 'Wed, 04 Mar 2026 05:06:07 GMT' }, { 'idempotent-replayed': 'true' }];

// Bytes, so that no content type is guessed.
const answer = ({ status, type, headers, body = '' }, mark = {}) => (status === undefined ? network()
  : new Response([204, 304].includes(status) ? null : new TextEncoder().encode(body), { status, headers: { ...(type && { 'content-type': type }), ...headers, ...mark } }));

async function outcome(script, options) {
  const { client } = setup(script, { maxTries: script.length, ...options });
  return client.send(request);
}

// case 27
test('both clients judge every answer alike', async () => {
  assert.ok(cases.length > 50);
  for (const c of cases) {
    const clean = await outcome([answer(c)]);
    assert.equal(clean.outcome, c.clean, c.name);
    if (c.clean === 'pending') assert.equal(clean.entry.doubtful > 0, c.leavesDoubt, `${c.name}: doubt`);
    assert.equal((await outcome([network(), answer(c)])).outcome, c.doubt, `${c.name} after a lost send`);
    assert.equal((await outcome([answer(c)], { classify: classifyStrict })).outcome, c.strict ?? c.clean, `${c.name} strictly`);
    for (const mark of c.status ? marks : []) {
      for (const options of [{}, { classify: classifyStrict }]) {
        assert.equal((await outcome([network(), answer(c, mark)], options)).outcome, c.marked, `${c.name} with ${Object.keys(mark)}`);
      }
    }
  }
});

// case 27
test('a redirect is not followed and keeps the key', async () => {
  const opaque = Object.defineProperties(new Response(), { type: { value: 'opaqueredirect' }, status: { value: 0 } }); // what a browser shows
  for (const redirect of [opaque, new Response(null, { status: 302, headers: { location: '/login' } })]) {
    const { client, sent } = setup([redirect, { status: 201, body: { state: 'SUCCEEDED' } }], { maxTries: 1 });
    const got = await client.send(request);
    assert.deepEqual([got.outcome, got.reason, got.entry.doubtful], ['pending', 'redirect', 1]);
    assert.equal(sent[0].init.redirect, 'manual');
    assert.deepEqual([(await client.send(request)).outcome, sent[1].key], ['done', sent[0].key]);
  }
});

// case 27
test('a gateway\'s 402 after a lost send keeps the key, and the server\'s own lets it go', async () => {
  const quota = { status: 402, body: 'your quota is used up', type: 'text/plain' };
  const own = { status: 402, body: { state: 'FAILED' }, headers: { 'idempotency-replayed': 'true' } };
  const { client, sent } = setup([{ status: 504 }, quota, own, { status: 201, body: {} }], { maxTries: 2 });
  assert.equal((await client.send(request)).outcome, 'pending');
  assert.equal((await client.send(request)).outcome, 'declined');
  assert.equal((await client.send(request)).outcome, 'done');
  const keys = sent.map((s) => s.key);
  assert.equal(new Set(keys.slice(0, 3)).size, 1);
  assert.notEqual(keys[3], keys[0]);
});

// case 27
test('a stored refusal is a decline, whatever was lost before', async () => {
  for (const status of [404, 409, 410, 422]) {
    const { client, sent } = setup([network(), { status, body: { state: 'FAILED', reason: 'no funds' }, headers: { 'idempotency-replayed': 'true' } }]);
    const got = await client.send(request);
    assert.deepEqual([got.outcome, got.body.reason, sent.length], ['declined', 'no funds', 2], String(status));
  }
});
