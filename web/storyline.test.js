import assert from 'node:assert/strict';
import { test } from 'node:test';

import { clock, count, grouped, holdings, label, layout, placeSnapshots, queryOf, readQuery, route, SIZE, span, steps } from './static/storyline.js';

const ACTORS = ['phone', 'network', 'api-1', 'api-2', 'keys', 'ledger', 'PSP', 'resolver', 'webhook', 'relay', 'queue', 'w1', 'screen'];

// "n at where tag op what" of each line.
const lines = (text) => text.trim().split('\n').map((l) => {
  const [n, at, where, tag, op, ...what] = l.trim().split('|');
  return { n: Number(n), at: Number(at), where, tag, op, what: what.join('|') };
});
const arrows = (text, actors = ACTORS) => route(actors, lines(text)).map((r) => `${r.from}>${r.to} ${r.kind}`);

const LOST = `
  1|0|phone|A1|tap|sends A1
  2|0.02|keys|A1|claim|payments:u1:K1 was absent
  3|0.02|ledger|A1|row|pay_7 PENDING, before any call
  4|0.28|PSP||charge|charges ch_1
  5|0.45|network|A1′|copy|delivers a copy of A1 to api-2
  5|0.45|api-2|A1′|answer|answers A1′: 409 in-progress, nothing runs
  6|0.54|network||lost|the PSP's reply, due now, is lost
  7|5.02|api-1|A1|deadline|the deadline comes before the PSP's reply
  8|5.02|api-1|A1|answer|answers A1: 202 PROCESSING; the answer is lost
  9|10|phone|A2|tap|sends A2
  9|10.02|ledger|A2|row|pay_7 is UNKNOWN
  9|10.02|api-2|A2|answer|answers A2: 202 PROCESSING
  10|11|resolver|resolve|adopt|picks up pay_7
  10|11.26|PSP||replay|knows the key
  11|11.52|ledger|resolver|settle|pay_7 UNKNOWN → SUCCEEDED`;

test('every message goes from who sends it to who gets it', () => {
  assert.deepEqual(arrows(LOST), [
    'phone>api-1 call', 'api-1>keys call', 'api-1>ledger call', 'api-1>PSP charge', 'network>api-2 call', 'api-2>network answer', 'PSP>api-1 lost',
    'api-1>api-1 note', 'api-1>phone lost', 'phone>api-2 call', 'api-2>ledger call', 'api-2>phone answer', 'resolver>ledger call', 'resolver>PSP call', 'resolver>ledger call']);
  assert.deepEqual(arrows(`
    1|12|relay|relay 1|send|sends ev_7
    2|12|queue|relay 1|stored|a new message
    3|12|relay|relay 1|crash|dies
    4|12.5|webhook|webhook|arrive|evt_1 arrives at api-2
    5|12.5|webhook|webhook|settle|evt_1 is recorded: no move
    6|14.5|w1|work 1|receive|receives ev_7
    7|14.5|ledger|work 1|inbox|one transaction: inbox row ev_7
    8|14.5|w1|work 1|push|pushes
    9|14.5|screen|work 1|screen|1 shown
    10|14.5|queue|work 1|finish|the message is deleted
    11|15|relay|relay 2|delete|deletes the outbox row
    12|15|w1|work 2|intent|the intent is SENT`), [
    'relay>queue call', 'queue>queue note', 'relay>relay crash', 'PSP>webhook call', 'webhook>ledger call', 'queue>w1 call', 'w1>ledger call', 'w1>screen call',
    'screen>screen note', 'w1>queue call', 'relay>ledger call', 'ledger>w1 answer']);
});

test('the processor is asked by who has come to the call, or gave up on it', () => {
  const late = arrows(`
    1|0|phone|A1|tap|sends A1
    2|0|ledger|A1|row|pay_7 PENDING, before any call
    3|0|api-1|A1|pause|stands still
    4|10|phone|A2|tap|sends A2
    5|10|ledger|A2|adopt|A2 takes over
    6|10.2|PSP||charge|charges ch_1
    7|10.5|api-2|A2|answer|answers A2: 201
    8|12|api-1|A1|deadline|the deadline comes
    9|12|api-1|A1|answer|answers A1: 201
    10|12.2|PSP||replay|knows the key`);
  assert.deepEqual([late[5], late[9]], ['api-2>PSP charge', 'api-1>PSP call']);
  const naive = arrows(`
    1|0|phone|A1|tap|sends A1
    2|0|api-1|A1|wait|A1 waits
    3|10|phone|B1|tap|sends B1
    4|10.2|PSP||charge|charges ch_1
    5|10.5|api-2|B1|answer|answers B1: 201
    6|12.2|PSP||charge|charges ch_2
    7|12.5|api-1|A1|answer|answers A1: 201; nobody listens`, ['phone', 'api-1', 'api-2', 'PSP']);
  assert.deepEqual([naive[3], naive[5], naive[6]], ['api-2>PSP charge', 'api-1>PSP charge', 'api-1>phone lost']);
});

test('a line of a kind that is not known is shown where it is', () => {
  assert.deepEqual(arrows('1|0|ledger|nobody|audit|looks\n2|0|moon|x|tap|sends', ['phone', 'ledger']), ['ledger>ledger note', 'moon>moon note']);
  assert.deepEqual(route([], []), []);
});

test('lines of one event are one step', () => {
  const got = steps(route(ACTORS, lines(LOST)));
  assert.deepEqual(got.map((s) => s.n), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  assert.deepEqual(got[4], { n: 5, at: 0.45, words: 'network: delivers a copy of A1 to api-2; api-2: answers A1′: 409 in-progress, nothing runs' });
});

test('a snapshot stands after the request that was under way', () => {
  const rows = route(ACTORS, lines(LOST));
  const got = placeSnapshots({ P2: { at: 10 }, P1: { at: 0.45 }, P0: { at: -1 }, end: { at: 99 } }, rows);
  assert.deepEqual(got.map((s) => [s.name, s.row]), [['P0', -1], ['P1', 5], ['P2', 11], ['end', 14]]);
  assert.deepEqual(placeSnapshots(undefined, rows), []);
});

test('everything is drawn inside the drawing, in order', () => {
  for (const room of [0, 300, 1400]) {
    const plan = layout(ACTORS, route(ACTORS, lines(LOST)), room);
    assert.ok(plan.width > room - ACTORS.length || room < 900, `${plan.width} of ${room}`);
    for (const [i, r] of plan.rows.entries()) {
      assert.ok(r.x1 >= 0 && r.x1 <= plan.width && r.x2 >= 0 && r.x2 <= plan.width && r.y < plan.height, r.what);
      assert.ok(r.text.x >= 4 && r.text.x + r.text.text.length * SIZE.letter <= plan.width, r.what);
      assert.ok(i === 0 || r.top >= plan.rows[i - 1].top + SIZE.row);
    }
  }
  assert.equal(layout(['phone'], route(['phone'], lines('1|0|phone|A1|ask|asks')), 500).rows.length, 1);
});

test('a long pause is said, and who dies has no line until it starts again', () => {
  const { rows, dead } = layout(['api-1', 'relay'], route(['api-1', 'relay'], lines(`
    1|0|relay|r1|crash|dies
    2|400|relay|r2|boot|starts again
    3|7200|api-1|A1|crash|dies`)));
  assert.deepEqual(rows.map((r) => r.pause?.text), [undefined, '6 min 40 s later', '1 h 53 min later']);
  assert.deepEqual(dead, [{ actor: 'api-1', y1: rows[2].y, y2: Infinity }, { actor: 'relay', y1: rows[0].y, y2: rows[1].y }]);
});

test('numbers, times and labels', () => {
  for (const [n, want] of [[3000, '3,000'], [0, '0'], [-12_345, '-12,345'], [undefined, '–']]) assert.equal(grouped(n), want);
  for (const [s, want] of [[0.45, '0.45'], [14, '14.00'], [7200.02, '7,200.02'], [0.000001, '0.000001'], [NaN, '–']]) assert.equal(clock(s), want);
  for (const [s, want] of [[30, '30 s'], [356, '5 min 56 s'], [7200, '2 h'], [90_000, '1 d 1 h']]) assert.equal(span(s), want);
  assert.deepEqual([count(1, 'charge'), count(2, 'charge'), count(0, 'alert')], ['1 charge', '2 charges', '0 alerts']);
  assert.equal(label('answers A2: 201'), 'A2: 201');
  assert.equal(label('payments:u1:K1 was absent: IN_PROGRESS, H1, owner A1'), 'K1 was absent: IN_PROGRESS, H1…');
  for (const long of ['x'.repeat(99), 'one two three four five six seven eight', '→'.repeat(40)]) assert.ok(label(long).length <= 33, long);
});

test('a query is read as it was written', () => {
  const changed = new Map([['amount', '4200'], ['retry_at', '2 h&x']]);
  assert.deepEqual(readQuery(`?${queryOf('3c-called', changed)}`), { id: '3c-called', changed });
  assert.deepEqual(readQuery(''), { id: 'main', changed: new Map() });
});

test('a snapshot is read out whole', () => {
  const s = { ledger: 'UNKNOWN', key_record: { state: 'COMPLETE', holds: 'pointer', expires_at: 3605.02 }, charges: 1, charged_total: 3000, psp_requests: 2, outbox_rows: 0,
    queue: { sends: 2, stored: 1 }, balances: { m2: 1, m1: 12_000 }, intent: 'none', notifications: { shown: 1, alerts: 2 }, phone_knows: 'nothing' };
  const got = holdings(s);
  assert.deepEqual(got[1], ['key record', 'COMPLETE, pointer, expires 3,605.02']);
  assert.deepEqual(got.filter(([name]) => name.startsWith('balance')), [['balance of m1', '12,000'], ['balance of m2', '1']]);
  assert.deepEqual(got.at(-2), ['shown, alerts', '1, 2']);
  assert.equal(holdings({ ...s, key_record: { state: 'IN_PROGRESS', owner: 'A1', in_progress_until: 5.02 } })[1][1], 'IN_PROGRESS, owner A1, until 5.02');
});
