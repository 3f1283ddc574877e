import assert from 'node:assert/strict';
import { test } from 'node:test';

import { cents, dollars, paymentOf, saw, say, shortKey } from './static/words.js';

test('dollars become whole cents without rounding', () => {
  for (const [text, want] of [['30.00', 3000], ['30', 3000], ['30.5', 3050], ['0.29', 29], ['1.15', 115], [' $8,07 ', 807], ['9999999.99', 999_999_999]]) {
    assert.equal(cents(text), want, text);
  }
  for (const text of ['', '0', '0.00', '-1', '1.234', '1e3', '12345678', '1,000.00', 'ten', '٣']) assert.equal(cents(text), undefined, text);
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
