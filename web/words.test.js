import assert from 'node:assert/strict';
import { test } from 'node:test';

import { cents, dollars, isRefund, paymentOf, saw, say, sayLate, sayResolved, shortKey } from './static/words.js';

test('dollars become whole cents without rounding', () => {
  for (const [text, want] of [['30.00', 3000], ['30', 3000], ['30.5', 3050], ['0.29', 29], ['1.15', 115], [' $8,07 ', 807], ['999999.99', 99_999_999]]) {
    assert.equal(cents(text), want, text);
  }
  for (const text of ['', '0', '0.00', '-1', '1.234', '1e3', '1000000.00', '9999999.99', '12345678', '1,000.00', 'ten', '٣']) assert.equal(cents(text), undefined, text);
});

test('cents are shown as dollars', () => {
  for (const [minor, want] of [[3000, '$30.00'], [5, '$0.05'], [1_200_000, '$12,000.00'], [-250, '−$2.50'], [undefined, '–'], [1.5, '–']]) assert.equal(dollars(minor), want);
  assert.equal(dollars(3000, 'EUR'), 'EUR 30.00');
});

test('every end of a run has a line', () => {
  const entry = { body: JSON.stringify({ amount: 3000, merchant_id: 'm1' }) };
  for (const outcome of ['done', 'declined', 'void', 'refused']) assert.match(say({ outcome, entry, status: 400 }), /\.$/);
  assert.match(say({ outcome: 'done', replayed: true, entry }), /already/);
  for (const reason of ['timeout', 'network', 'in-progress', 'offline', 'unauthorized', 'status 500', 'key-reused']) {
    assert.match(say({ outcome: 'pending', reason, entry }), /kept|waits|same key/, reason);
  }
  assert.match(say({ outcome: 'pending', status: 202, reason: 'status 202', entry }), /finding out/);
});

test('every answer to the question has a line, and only a void or a decline says no', () => {
  const entry = { body: JSON.stringify({ amount: 3000, merchant_id: 'm1' }) };
  assert.match(sayResolved({ outcome: 'done', entry }), /^Yes: \$30\.00 was paid to m1/);
  assert.match(sayResolved({ outcome: 'void', entry }), /^No: .* never will be.* new key\.$/);
  assert.match(sayResolved({ outcome: 'declined', entry }), /^No: .* new key\.$/);
  for (const reason of ['status 202', 'in-progress', 'timeout', 'network', 'offline', 'not-sent', 'unauthorized', 'status 500', 'not-found']) {
    assert.match(sayResolved({ outcome: 'pending', reason, entry }), /key is kept.*again/, reason);
  }
});

test('every end of a refund has a line, and none promises a new key', () => {
  const entry = { url: 'https://shop.example/payments/pay_7/cancel' };
  assert.ok(isRefund(entry) && !isRefund({ url: 'https://shop.example/payments' }) && !isRefund({}));
  assert.equal(paymentOf({ ...entry, answer: { body: { id: 'pay_7:cancel' } } }), 'pay_7');
  const lines = [['done'], ['declined'], ['refused'], ['pending', 'timeout'], ['pending', 'offline'], ['pending', 'in-progress'], ['pending', 'status 202', 202]]
    .map(([outcome, reason, status]) => say({ outcome, reason, status, entry, body: { amount: 3000 } }));
  assert.equal(new Set(lines).size, lines.length);
  for (const line of lines) assert.doesNotMatch(line, /key/);
  assert.match(say({ outcome: 'done', replayed: true, entry, body: { amount: 3000 } }), /\$30\.00 was done already/);
});

test('a late request is told by what it was answered', () => {
  assert.match(sayLate({ status: 409, code: 'void' }), /too late: 409 void. Nothing was charged/);
  assert.match(sayLate({ status: 201, replayed: true }), /Nothing was done twice/);
  assert.match(sayLate({ status: 201 }), /arrived: 201\./);
  assert.match(sayLate({}), /lost/);
});

test('a payment is named by the answer or by its place', () => {
  assert.equal(paymentOf({ answer: { body: { id: 'pay_7' } } }), 'pay_7');
  assert.equal(paymentOf({ location: '/payments/pay_7' }), 'pay_7');
  assert.equal(paymentOf({ answer: { body: { code: 'void' } } }), undefined);
});

test('small words', () => {
  assert.equal(shortKey('0192f0c4-5b7e-7c1a'), '0192f0c4…');
  assert.equal(saw({ requests: 3, repeats_dropped: 1 }), 'requests 3 · repeats dropped 1');
  assert.equal(saw(undefined), '–');
});

test('a refusal is told in the server\'s own words', () => {
  const entry = { body: JSON.stringify({ amount: 3000, merchant_id: 'm1' }) };
  assert.match(say({ outcome: 'refused', entry, status: 400, code: 'invalid', body: { detail: 'merchant_id is unknown' } }), /\(merchant_id is unknown\)/);
  assert.match(say({ outcome: 'refused', entry, status: 400, code: 'invalid', body: {} }), /\(invalid\)/);
  assert.match(say({ outcome: 'refused', entry, status: 400 }), /\(400\)/);
});
