// What every journal must do. node:test runs it on the in-memory journal, the
// browser test on IndexedDB in a real browser.

function expect(ok, message) { if (!ok) throw new Error(message); }

function entry(key, slot, createdAt = 1) {
  return { v: 1, key, slot, caller: 'u1', intent: slot, meaning: 'm', method: 'POST', url: '/', headers: {}, state: 'pending', tries: 0, doubtful: 0, createdAt, updatedAt: createdAt };
}

function free({ slot: _slot, ...rest }) { return { ...rest, state: 'done' }; }

/** [name, check(journal)] pairs; each check gets an empty journal. */
export const journalSuite = [
  ['claim adds once and returns the entry that stands', async (j) => {
    const first = await j.claim(entry('k1', 's1'));
    const second = await j.claim(entry('k2', 's1'));
    expect(first.added && first.entry.key === 'k1', 'the first claim was not added');
    expect(!second.added && second.entry.key === 'k1', 'a second key got the slot of a pending intent');
  }],
  ['of many claims at once exactly one is added', async (j) => {
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => j.claim(entry(`k${i}`, 's1'))));
    expect(all.filter((c) => c.added).length === 1, 'more or fewer than one claim was added');
    expect(new Set(all.map((c) => c.entry.key)).size === 1, 'two claims saw different keys');
  }],
  ['a key that is there is returned, whatever its slot and state', async (j) => {
    await j.claim(entry('k1', 's1'));
    await j.update('k1', free);
    const again = await j.claim(entry('k1', 's2'));
    expect(!again.added && again.entry.state === 'done', 'a settled key was claimed again');
  }],
  ['a settled entry frees its slot', async (j) => {
    await j.claim(entry('k1', 's1'));
    await j.update('k1', free);
    expect((await j.claim(entry('k2', 's1'))).added, 'the slot is still held');
  }],
  ['a done entry that keeps its slot holds it', async (j) => {
    await j.claim(entry('k1', 's1'));
    await j.update('k1', (e) => ({ ...e, state: 'done' }));
    const all = await Promise.all(['k2', 'k3'].map((key) => j.claim(entry(key, 's1'))));
    expect(all.every((c) => !c.added && c.entry.key === 'k1' && c.entry.state === 'done'), 'a second key got the slot of what is done');
  }],
  ['update is atomic', async (j) => {
    await j.claim(entry('k1', 's1'));
    await Promise.all(Array.from({ length: 20 }, () => j.update('k1', (e) => ({ ...e, tries: e.tries + 1 }))));
    const { tries } = await j.get('k1');
    expect(tries === 20, `20 updates left tries at ${tries}`);
  }],
  ['update without a change returns the entry and leaves it', async (j) => {
    await j.claim(entry('k1', 's1'));
    const stands = await j.update('k1', (e) => { e.tries = 99; return undefined; });
    expect(stands.tries === 0 && (await j.get('k1')).tries === 0, 'the entry changed');
    expect(await j.update('nobody', (e) => e) === undefined, 'an absent key was updated');
  }],
  ['a change that throws changes nothing', async (j) => {
    await j.claim(entry('k1', 's1'));
    let thrown;
    await j.update('k1', () => { throw new Error('no'); }).catch((e) => { thrown = e; });
    expect(thrown?.message === 'no', 'the error was swallowed');
    expect((await j.get('k1')).tries === 0, 'the entry changed');
  }],
  ['list is in order of age, then key', async (j) => {
    await j.claim(entry('b', 's1', 2));
    await j.claim(entry('c', 's2', 1));
    await j.claim(entry('a', 's3', 2));
    const keys = (await j.list()).map((e) => e.key).join('');
    expect(keys === 'cab', `order ${keys}`);
  }],
  ['remove forgets, also twice', async (j) => {
    await j.claim(entry('k1', 's1'));
    await j.remove('k1');
    await j.remove('k1');
    expect(await j.get('k1') === undefined && (await j.list()).length === 0, 'the entry is still there');
  }],
];
