// Browser client for requests that may be repeated. No dependencies, no build.
//
// Promises: an intent gets one key. The key is in the journal, durably, before
// the first byte of the request leaves, and every later send of that intent
// carries it, even when the intent is done. The key is let go only on an answer that
// says for good that nothing was done, so a timeout, a crash or a second tap, early
// or late, can never turn into a second key.
//
// Does not promise: that one intent has one effect. The server's guard does
// that; this client only makes sure that the guard can recognise a repeat.
//
// A crash leaves behind:
//   before the journal write    nothing; nothing was sent
//   before or during a send     a pending entry whose open try counts as doubtful
//   after the answer            the same; the next send is answered from the
//                               server's record
//   after the journal has it    a done entry; the next send carries its key
// pending() finds such entries after a restart and resume() sends them again.

const JOURNAL_VERSION = 1;
const MAX_KEPT_BODY = 64 * 1024; // characters of an answer that the journal keeps
const SECRET_HEADERS = ['authorization', 'cookie', 'proxy-authorization', 'idempotency-key'];

/** An error that says what is known of the effect: 'not-done' or 'unknown'. */
export class RetryproofError extends Error {
  constructor(code, message, { outcome = 'unknown', entry, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'RetryproofError';
    this.code = code;
    this.outcome = outcome;
    this.entry = entry;
  }
}

/** What a fetch may throw to say that the request certainly never left. */
export class NotSentError extends Error {
  constructor(message = 'the request did not leave this device') {
    super(message);
    this.name = 'NotSentError';
    this.notSent = true;
  }
}

/** Makes a key: a random UUID, also where crypto.randomUUID is missing (plain HTTP). */
export function newKey(source = globalThis.crypto) {
  if (typeof source.randomUUID === 'function') return source.randomUUID();
  const b = source.getRandomValues(new Uint8Array(16));
  b[6] = (b[6] & 0x0f) | 0x40;
  b[8] = (b[8] & 0x3f) | 0x80;
  const hex = Array.from(b, (x) => x.toString(16).padStart(2, '0')).join('');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

const BOUNDS = ['maxTries', 'tryTimeout', 'baseDelay', 'maxDelay', 'budget'];
const NOT_FINAL = new Set(['PROCESSING', 'PENDING', 'UNKNOWN', 'IN_PROGRESS']);
const FAILED = new Set(['FAILED', 'DECLINED']);

/**
 * Judges one answer, as the table in README.md and the Go client do.
 *
 * verdict: 'done' and 'void' settle the intent. 'declined' does when the answer is
 * marked as the server's record (`stored`), and 'refused' and an unmarked 'declined'
 * only when no other try of it is in doubt. 'keep' keeps the key.
 * doubt: this try may have had, or may yet have, an effect.
 * then: what helps, 'retry', 'authorize' or 'stop'.
 */
export function classify({ status, code = '', state = '', readable = true, stored = false }) {
  const keep = (doubt, then = 'retry') => ({ verdict: 'keep', doubt, then });
  const settle = (verdict) => ({ verdict, doubt: false, then: 'stop' });
  if (status >= 200 && status < 300 && status !== 202) {
    if (FAILED.has(state)) return settle('declined');
    if (state === 'VOID') return settle('void');
    if (stored) return settle('done');
    return NOT_FINAL.has(state) || !readable ? keep(true) : settle('done');
  }
  if (status === 409 && code === 'void') return settle('void');
  // A 5xx never proves that nothing ran, whatever its code says: a server that cannot
  // reach its records may not know that it has claimed the key.
  if (!(status >= 300 && status < 500) || (status === 409 && code === 'in-progress')) return keep(true);
  if (stored) return settle(status < 400 ? 'done' : 'declined');
  switch (status) {
    case 307: case 308: case 407: case 421: case 425: case 429: return keep(false);
    case 401: return keep(false, 'authorize');
    case 402: return settle('declined');
    case 408: case 409: return keep(true);
  }
  return status < 400 ? keep(true) : settle('refused'); // a redirect's other place is another request, or a login page
}

/**
 * classify for servers whose every final answer says that it is one: an unmarked 2xx
 * without a final state is asked for again, so that no page of a hotel's network, of
 * whatever type, settles an intent. A server without marks and states would be asked in
 * vain.
 */
export function classifyStrict(answer) {
  const judged = classify(answer);
  const told = answer.stored || answer.state === 'SUCCEEDED';
  return judged.verdict !== 'done' || told ? judged : { verdict: 'keep', doubt: true, then: 'retry' };
}

/**
 * Judges the answer to "what became of my key?". Only a final state settles the
 * intent: 'done', 'declined', or 'void', which says that the key never ran and never
 * will. What is not understood is 'keep', and so is a refusal: it is about the
 * question, not about the key.
 */
export function classifyResolve({ status, code = '', state = '', readable = true }) {
  const keep = (then = 'retry') => ({ verdict: 'keep', then });
  const settle = (verdict) => ({ verdict, then: 'stop' });
  if (status >= 200 && status < 300) {
    if (status === 202 || !readable) return keep();
    if (state === 'SUCCEEDED') return settle('done');
    if (FAILED.has(state)) return settle('declined');
    return state === 'VOID' ? settle('void') : keep();
  }
  if (status === 409 && code === 'void') return settle('void');
  if (status === 401) return keep('authorize');
  const passing = status < 400 || status >= 500 || [408, 409, 425, 429].includes(status);
  return keep(passing ? 'retry' : 'stop');
}

const LONGEST_SLEEP = 2 ** 31 - 1; // a timer that is set for longer ends at once

/** Time for production; tests hand in their own. Milliseconds. */
export const systemClock = {
  now: () => Date.now(),
  sleep: (ms, signal) => new Promise((resolve, reject) => {
    if (signal?.aborted) { reject(signal.reason); return; }
    const stop = () => { clearTimeout(timer); reject(signal.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener('abort', stop); resolve(); }, Math.min(ms, LONGEST_SLEEP));
    signal?.addEventListener('abort', stop, { once: true });
  }),
};

/** A journal that forgets on restart: for tests and for Node. */
export class MemoryJournal {
  #entries = new Map();

  async claim(entry) {
    const all = [...this.#entries.values()];
    const standing = this.#entries.get(entry.key) ?? all.find((e) => e.slot === entry.slot);
    if (standing) return { entry: structuredClone(standing), added: false };
    this.#entries.set(entry.key, structuredClone(entry));
    return { entry: structuredClone(entry), added: true };
  }

  async update(key, change) {
    const standing = this.#entries.get(key);
    if (!standing) return undefined;
    const next = change(structuredClone(standing)) ?? standing;
    this.#entries.set(key, structuredClone(next));
    return structuredClone(next);
  }

  async get(key) { return structuredClone(this.#entries.get(key)); }

  async list() { return [...this.#entries.values()].map((e) => structuredClone(e)).sort(byAge); }

  async remove(key) { this.#entries.delete(key); }
}

/**
 * The durable journal. Every write is one transaction with durability 'strict'
 * and counts only once the transaction is complete. A pending entry holds a slot
 * (caller and intent) in a unique index, and a done one goes on holding it, so that
 * two tabs cannot both make a key for one intent.
 */
export class IndexedDBJournal {
  #name;
  #factory;
  #db;

  constructor({ name = 'retryproof', indexedDB } = {}) {
    this.#name = name;
    this.#factory = indexedDB;
  }

  claim(entry) {
    return this.#within('readwrite', async (store) => {
      const standing = await answered(store.get(entry.key)) ?? await answered(store.index('slot').get(entry.slot));
      if (standing) return { entry: standing, added: false };
      await answered(store.add(entry));
      return { entry, added: true };
    });
  }

  update(key, change) {
    return this.#within('readwrite', async (store) => {
      const standing = await answered(store.get(key));
      if (!standing) return undefined;
      const next = change(structuredClone(standing));
      if (!next) return standing;
      await answered(store.put(next));
      return next;
    });
  }

  get(key) { return this.#within('readonly', (store) => answered(store.get(key))); }

  async list() { return (await this.#within('readonly', (store) => answered(store.getAll()))).sort(byAge); }

  remove(key) { return this.#within('readwrite', (store) => answered(store.delete(key))); }

  /** Lets go of the database, so that it can be deleted or upgraded. */
  async close() {
    const db = await this.#db?.catch(() => undefined);
    this.#db = undefined;
    db?.close();
  }

  async #within(mode, work) {
    const db = await this.#open();
    const tx = db.transaction('intents', mode, mode === 'readwrite' ? { durability: 'strict' } : undefined);
    const complete = new Promise((resolve, reject) => {
      tx.oncomplete = resolve;
      tx.onabort = () => reject(tx.error ?? new Error('the journal transaction was aborted'));
    });
    complete.catch(() => {}); // whoever waits for it below sees it
    let result;
    try {
      result = await work(tx.objectStore('intents'));
    } catch (error) {
      try { tx.abort(); } catch { /* it has ended already */ }
      throw error;
    }
    await complete;
    return result;
  }

  #open() {
    this.#db ??= new Promise((resolve, reject) => {
      const factory = this.#factory ?? globalThis.indexedDB; // where it is forbidden, reading it throws
      if (!factory) throw new Error('there is no IndexedDB here: hand in another journal');
      const request = factory.open(this.#name, JOURNAL_VERSION);
      request.onupgradeneeded = () => {
        request.result.createObjectStore('intents', { keyPath: 'key' }).createIndex('slot', 'slot', { unique: true });
      };
      request.onsuccess = () => {
        const db = request.result;
        const forget = () => { this.#db = undefined; };
        db.onclose = forget;
        db.onversionchange = () => { db.close(); forget(); };
        resolve(db);
      };
      request.onerror = () => reject(request.error);
    });
    this.#db.catch(() => { this.#db = undefined; }); // the next call tries again
    return this.#db;
  }
}

/** Sends intents. See README.md for the options. */
export class Client {
  #options;
  #running = new Map();

  constructor(options = {}) {
    const defaults = {
      journal: undefined,
      fetch: (...args) => globalThis.fetch(...args),
      clock: systemClock,
      random: Math.random,
      locks: globalThis.navigator?.locks,
      online: () => globalThis.navigator?.onLine !== false,
      authorize: () => ({}),
      classify,
      classifyResolve,
      resolveUrl: undefined,
      onEvent: () => {},
      newKey: () => newKey(),
      maxTries: 8,
      tryTimeout: 10_000,
      baseDelay: 500,
      maxDelay: 30_000,
      budget: 120_000,
    };
    this.#options = { ...defaults, ...definedOnly(options) };
    this.#options.journal ??= new IndexedDBJournal();
    checkBounds(this.#options);
  }

  /**
   * Sends one intent until it is settled or this run's bounds are reached. A
   * pending or done intent of the same caller and name is taken up with its own
   * key. What is done is sent once more, and stays done whatever comes of that.
   * The promise is rejected only when nothing could be journaled, when the same
   * intent is there with another meaning, or when the signal aborts.
   */
  async send(request, options = {}) {
    options.signal?.throwIfAborted();
    checkBounds(options);
    const draft = this.#draft(request);
    const { entry, added } = await this.#journal('claim', draft);
    if (!added && entry.caller !== draft.caller) { // its answer is another's too
      throw new RetryproofError('intent-invalid', 'the key is another caller\'s', { outcome: 'not-done' });
    }
    if (!added && request.key !== undefined && entry.key !== request.key) {
      throw new RetryproofError(`intent-${entry.state}`, `this intent is ${entry.state} under another key`, { outcome: 'not-done', entry });
    }
    if (!added && entry.meaning !== draft.meaning) {
      const way = entry.state === 'done' ? 'give another payment another name' : 'settle it first';
      throw new RetryproofError('intent-changed', `this intent is ${entry.state} with another meaning: ${way}`, { outcome: 'not-done', entry });
    }
    this.#emit(added ? 'journaled' : 'reused', entry);
    return this.#work(entry.key, { ...options, again: entry.state === 'done' });
  }

  /** Sends a journaled intent again, with its key. */
  async retry(key, options = {}) { return this.#work(key, options); }

  /**
   * Asks the server what became of a journaled intent, instead of sending it again.
   * A key that the server knows nothing of is voided there forever: the intent is
   * settled as 'void', a send that is still on its way runs nothing, and the next
   * send of the intent makes a new key. Waits for a send that is under way in this
   * tab or in another one.
   */
  async resolve(key, { resolveUrl = this.#options.resolveUrl, ...options } = {}) {
    if (typeof resolveUrl !== 'function') throw nowhereToAsk();
    return this.#work(key, { ...options, exclusive: true, ask: resolveUrl });
  }

  /** The intents that nobody knows the end of, oldest first. */
  async pending({ caller } = {}) {
    const all = await this.entries();
    return all.filter((e) => e.state === 'pending' && (caller === undefined || e.caller === caller));
  }

  /** Everything in the journal, oldest first. */
  entries() { return this.#journal('list'); }

  /**
   * Sends every pending intent again, a few at a time. Another tab's are left to it, and
   * one that the journal fails at stays pending with reason 'journal'.
   */
  async resume({ caller, ...options } = {}) {
    checkBounds(options);
    const todo = await this.pending({ caller });
    const results = new Array(todo.length);
    let next = 0;
    const lane = async () => {
      while (next < todo.length) {
        const i = next++;
        results[i] = await this.#work(todo[i].key, { ...options, ifFree: true }).catch((error) => {
          if (options.signal?.aborted || !(error instanceof RetryproofError)) throw error;
          return result(todo[i], error.code);
        });
      }
    };
    await Promise.all([lane(), lane(), lane(), lane()]);
    return results;
  }

  /**
   * Settles an intent by hand, after the server was asked in another way (a call
   * that voids the key, or a person). Without such proof it opens the door to a
   * second effect.
   */
  async release(key, state) {
    if (!['done', 'declined', 'void', 'refused'].includes(state)) throw new RangeError(`retryproof: no such state: ${state}`);
    const entry = await this.#journal('update', key, (e) => (e.state === 'pending' ? settled(e, state, this.#options.clock.now()) : undefined));
    if (entry) this.#emit('settled', entry);
    return entry;
  }

  /** Forgets settled intents except the newest `keep`. Pending ones always stay. */
  async prune({ keep = 50 } = {}) {
    const done = (await this.entries()).filter((e) => e.state !== 'pending');
    const old = done.slice(0, Math.max(0, done.length - keep));
    for (const e of old) await this.#journal('remove', e.key);
    return old.length;
  }

  #draft({ key, caller = '', intent, url, method = 'POST', headers = {}, body, meaning = body }) {
    const invalid = (message) => new RetryproofError('intent-invalid', message, { outcome: 'not-done' });
    if (!url) throw invalid('the request has no url');
    if (key !== undefined && !/^[\x21-\x7e]{1,255}$/.test(key)) throw invalid('a key is 1 to 255 visible ASCII characters');
    for (const [name, value] of [['headers', headers], ['body', body], ['meaning', meaning]]) {
      if (value !== undefined && !isJSON(value)) throw invalid(`${name} must be plain JSON${name === 'body' ? ' or a string' : ''}: other things would be journaled and sent as something else`);
    }
    for (const name of Object.keys(headers)) {
      if (SECRET_HEADERS.includes(name.toLowerCase())) throw invalid(`${name} must not be journaled: return it from authorize`);
    }
    const address = globalThis.location ? new URL(url, globalThis.location.href).href : String(url);
    const what = stable([method, address, meaning ?? null]);
    const now = this.#options.clock.now();
    return {
      v: JOURNAL_VERSION,
      key: key ?? this.#options.newKey(),
      caller,
      intent: intent ?? what,
      // A key of the application's own is a name: two of them are two intents.
      slot: stable([caller, intent ?? (key === undefined ? what : { key })]),
      meaning: what,
      method,
      url: address,
      headers,
      body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
      state: 'pending',
      tries: 0,
      doubtful: 0,
      createdAt: now,
      updatedAt: now,
    };
  }

  // One run per key in this tab; later callers join it, and a question waits for a
  // send, as a send does for a question. Between tabs a Web Lock does the same, and
  // without one two tabs merely send the same key twice. A run that gives way to
  // another tab (resume) is joined too, but whoever would wait for that tab still does.
  async #work(key, { signal, exclusive = true, ifFree = false, ...bounds }) {
    signal?.throwIfAborted();
    checkBounds(bounds);
    if (!exclusive) return this.#run(key, signal, bounds);
    const running = (kind) => this.#running.get(`${kind} ${key}`);
    const kind = bounds.ask ? 'ask' : ifFree && !running('send') ? 'resume' : 'send';
    const name = `${kind} ${key}`;
    let run = this.#running.get(name);
    if (!run) {
      run = { users: 0, stop: new AbortController() };
      const before = (bounds.ask ? ['send', 'resume'] : ['ask']).map(running).filter(Boolean).map((r) => r.done);
      const resuming = kind === 'send' ? running('resume')?.done : undefined;
      this.#running.set(name, run);
      run.over = () => { if (this.#running.get(name) === run) this.#running.delete(name); };
      const start = () => this.#locked(key, ifFree, run.stop.signal, () => this.#run(key, run.stop.signal, bounds));
      const first = async () => {
        if (before.length > 0) await Promise.allSettled(before);
        const got = await resuming?.catch(() => undefined);
        return got && got.reason !== 'elsewhere' ? got : start();
      };
      run.done = (before.length > 0 || resuming ? first() : start()).finally(run.over);
      run.done.catch(() => {});
    }
    run.users++;
    return new Promise((resolve, reject) => {
      const leave = () => {
        reject(signal.reason);
        if (--run.users === 0) { run.over(); run.stop.abort(signal.reason); }
      };
      signal?.addEventListener('abort', leave, { once: true });
      run.done.then(resolve, reject).finally(() => signal?.removeEventListener('abort', leave));
    });
  }

  async #locked(key, ifFree, signal, work) {
    const { locks } = this.#options;
    if (!locks) return work();
    let entered = false;
    try {
      return await locks.request(`retryproof:${key}`, ifFree ? { ifAvailable: true } : { signal }, async (lock) => {
        entered = true;
        if (!lock) return this.#elsewhere(key);
        return work();
      });
    } catch (error) {
      if (entered || signal.aborted) throw error;
      return work(); // locks are refused here (an opaque origin); the key is what keeps it safe
    }
  }

  async #elsewhere(key) {
    const entry = await this.#journal('get', key);
    return result(entry ?? { key, state: 'pending', tries: 0 }, 'elsewhere');
  }

  async #run(key, signal, bounds) {
    const o = { ...this.#options, ...definedOnly(bounds) };
    const end = o.clock.now() + o.budget;
    let refusals = 0; // of the credentials, in this run
    for (let n = 1; ; n++) {
      signal?.throwIfAborted();
      const step = await this.#attempt(key, o, signal, refusals > 0);
      if (step.entry.state !== 'pending') return result(step.entry);
      let wait = step.retryAfter + o.random() * (step.retryAfter > 0 ? o.baseDelay : Math.min(o.maxDelay, o.baseDelay * 2 ** (n - 1)));
      if (step.then === 'authorize') wait = 0;
      const pointless = step.then === 'stop' || (step.then === 'authorize' && ++refusals > 1);
      if (pointless || n >= o.maxTries || o.clock.now() + wait > end) {
        this.#emit('paused', step.entry, { reason: step.reason });
        return result(step.entry, step.reason);
      }
      this.#emit('waiting', step.entry, { reason: step.reason, wait });
      if (wait > 0) await o.clock.sleep(wait, signal);
    }
  }

  // One try: journal that it starts, send, journal what came of it. A question sends
  // nothing that could have the effect, so it starts no try and leaves every doubt.
  async #attempt(key, o, signal, refused) {
    const standing = await this.#journal('get', key);
    if (!standing) throw new RetryproofError('not-journaled', 'the journal does not hold this key', { outcome: 'not-done' });
    const sendable = (e) => e.state === 'pending' || (e.state === 'done' && o.again === true);
    if (!sendable(standing)) return { entry: standing };
    if (!o.online()) return { entry: standing, then: 'retry', reason: 'offline', retryAfter: 0 };
    let credentials;
    try {
      credentials = await within(o, signal, async (stop) => o.authorize(standing, { refused, signal: stop }));
    } catch (error) {
      if (signal?.aborted) throw error;
      return { entry: standing, then: 'retry', reason: 'authorize', retryAfter: 0 };
    }
    if (!credentials) return { entry: standing, then: 'stop', reason: 'unauthorized', retryAfter: 0 };

    const { ask } = o;
    const opened = ask ? standing : await this.#journal('update', key, (e) => (sendable(e)
      ? { ...e, tries: e.tries + 1, doubtful: e.doubtful + (e.state === 'pending' ? 1 : 0), updatedAt: o.clock.now() } : undefined));
    if (!opened || !sendable(opened)) return { entry: opened ?? standing };
    const outgoing = ask ? { key, url: ask(structuredClone(opened)), method: 'POST', headers: {} } : opened;
    if (!outgoing.url) throw nowhereToAsk();
    this.#emit(ask ? 'asking' : 'sending', opened);

    const answer = await this.#exchange(outgoing, credentials, o, signal);
    answer.proven = ask !== undefined || answer.stored; // the answer speaks of the key, not of this send
    let judged = answer.status === undefined
      ? { verdict: 'keep', doubt: !answer.notSent, then: 'retry' } : (ask ? o.classifyResolve : o.classify)(answer);
    if (ask) judged = { ...judged, verdict: judged.verdict === 'refused' ? 'keep' : judged.verdict, doubt: true };
    const step = { then: judged.then, reason: answer.reason ?? answer.code ?? `status ${answer.status}`, retryAfter: answer.retryAfter ?? 0 };
    const close = (e) => {
      if (e.state === 'pending') return closed(e, answer, judged, o.clock.now());
      return e.state === 'done' && judged.verdict === 'done' ? noted(e, answer, o.clock.now()) : undefined; // done is never left
    };
    try {
      step.entry = await this.#journal('update', key, close) ?? opened;
    } catch (error) {
      // The answer counts even when it cannot be written down: the entry stays
      // pending, and the server will answer its next send the same way.
      step.entry = close(opened) ?? opened;
      this.#emit('journal-failed', step.entry, { error });
    }
    this.#emit('answer', step.entry, { status: answer.status, code: answer.code, replayed: answer.replayed, reason: answer.reason });
    if (step.entry.state !== 'pending') { if (opened.state === 'pending') this.#emit('settled', step.entry); }
    else if (judged.verdict === 'refused') step.then = 'stop'; // only a person, or a call that voids the key, gets further
    return step;
  }

  async #exchange(entry, credentials, o, signal) {
    const { fetch, ask } = o; // not called as a method: the browser's own refuses that
    try {
      return await within(o, signal, async (stop) => {
        const response = await fetch(entry.url, {
          method: entry.method,
          headers: { 'content-type': 'application/json', accept: 'application/json', ...lowerCase(entry.headers), ...lowerCase(credentials), 'idempotency-key': entry.key },
          body: entry.body,
          cache: 'no-store',
          redirect: 'manual', // followed, a POST becomes a GET whose answer says nothing of it
          signal: stop,
        });
        return readAnswer(response, o.clock.now(), ask !== undefined);
      });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      return { reason: error?.notSent ? 'not-sent' : error?.name === 'TimeoutError' ? 'timeout' : 'network', notSent: error?.notSent === true };
    }
  }

  async #journal(method, ...args) {
    try {
      return await this.#options.journal[method](...args);
    } catch (cause) {
      // Without a durable key nothing leaves. An intent that was never sent is
      // not done; what became of earlier sends nobody knows.
      const outcome = method === 'claim' ? 'not-done' : 'unknown';
      throw new RetryproofError('journal', 'the journal could not be used, so nothing more was sent', { outcome, cause });
    }
  }

  #emit(type, entry, extra = {}) {
    try {
      this.#options.onEvent({ type, key: entry.key, entry: structuredClone(entry), at: this.#options.clock.now(), ...extra });
    } catch (error) {
      globalThis.reportError?.(error); // a faulty display must not stop a payment
    }
  }
}

// Waits for work up to tryTimeout and the signal, and tells it when nobody waits any
// more: work of others, an app's sign-in or a fetch, may never end.
async function within(o, signal, work) {
  signal?.throwIfAborted();
  const stop = new AbortController();
  const timer = new AbortController();
  const late = o.clock.sleep(o.tryTimeout, timer.signal).then(() => { throw new DOMException('no answer in time', 'TimeoutError'); });
  let leave;
  const aborted = new Promise((_, reject) => {
    leave = () => reject(signal.reason);
    signal?.addEventListener('abort', leave, { once: true });
  });
  const result = work(stop.signal);
  for (const p of [result, late, aborted]) p.catch(() => {}); // the losers of the race
  try {
    return await Promise.race([result, late, aborted]);
  } finally {
    signal?.removeEventListener('abort', leave);
    timer.abort();
    stop.abort();
  }
}

function checkBounds(options) {
  for (const name of BOUNDS) {
    if (options[name] !== undefined && !(options[name] > 0)) throw new RangeError(`retryproof: ${name} must be greater than 0`);
  }
}

function nowhereToAsk() {
  return new RetryproofError('no-resolve-url', 'nobody was asked: hand in resolveUrl, a function from an entry to the URL that answers what became of its key');
}

// What is done keeps its slot, and with it the intent's name: whoever asks for it once
// more means the same. Of all others the next send makes a new key.
function settled(entry, state, now) {
  const { slot, ...rest } = entry;
  return { ...rest, ...(state === 'done' ? { slot } : {}), state, updatedAt: now };
}

// The entry with what its last answer was.
function noted(entry, answer, now) {
  const next = { ...entry, updatedAt: now };
  next.last = { status: answer.status, code: answer.code, reason: answer.reason, at: now };
  if (answer.location) next.location = answer.location;
  if (answer.status !== undefined) {
    next.answer = { status: answer.status, code: answer.code, replayed: answer.replayed, body: answer.size <= MAX_KEPT_BODY ? answer.body : undefined };
  }
  return next;
}

// Applies an answer to a pending entry. A refusal proves only that its own try
// ran nothing; while another try is in doubt, a new key could mean a second effect.
// A decline that is not marked as the server's record may be some proxy's, and counts
// like a refusal.
function closed(entry, answer, judged, now) {
  const next = { ...noted(entry, answer, now), doubtful: entry.doubtful - (judged.doubt ? 0 : 1) };
  const proven = answer.proven || judged.verdict === 'done' || (judged.verdict === 'void' && answer.code === 'void');
  const definite = judged.verdict !== 'keep' && (next.doubtful === 0 || (proven && judged.verdict !== 'refused'));
  return definite ? settled(next, judged.verdict, now) : next;
}

function result(entry, reason) {
  return {
    outcome: entry.state,
    key: entry.key,
    tries: entry.tries,
    status: entry.answer?.status,
    code: entry.answer?.code,
    body: entry.answer?.body,
    replayed: entry.answer?.replayed ?? false,
    location: entry.location,
    reason: entry.state === 'pending' ? reason : undefined,
    entry,
  };
}

// What counts of an answer. Its code is a problem document's, for a question any JSON's.
async function readAnswer(response, now, asked) {
  const { headers } = response;
  const media = (headers.get('content-type') ?? '').split(';')[0].trim().toLowerCase();
  const text = await response.text();
  let body;
  // A page of HTML is a proxy's or a hotel network's, whatever its status says.
  let readable = media !== 'text/html' && media !== 'application/xhtml+xml';
  if ((/^(application|text)\/json$/.test(media) || media.endsWith('+json')) && text !== '') {
    try { body = JSON.parse(text); } catch { readable = false; }
  }
  const members = body !== null && typeof body === 'object' ? body : {};
  const coded = asked || media === 'application/problem+json';
  const replayed = headers.get('idempotency-replayed') === 'true';
  const stored = replayed || headers.has('idempotency-key-expires') || headers.get('idempotent-replayed') === 'true';
  // A browser shows nothing of a redirect but that it is one.
  const redirect = response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400 && !stored);
  return {
    status: response.status,
    body,
    size: text.length,
    readable,
    stored,
    code: coded && typeof members.code === 'string' ? members.code : undefined,
    state: typeof members.state === 'string' ? members.state : undefined,
    reason: redirect ? 'redirect' : undefined,
    replayed,
    location: headers.get('location') ?? undefined,
    retryAfter: retryAfter(headers, now),
  };
}

// What JSON.stringify writes as what it is: no Map, form, file or NaN, which it would
// write as {} or null; what says itself how it is written, as a Date does, is plain.
function isJSON(value, above = []) {
  switch (typeof value) {
    case 'string': case 'boolean': return true;
    case 'number': return Number.isFinite(value);
    case 'object': break;
    default: return false;
  }
  if (value === null) return true;
  if (above.includes(value) || ArrayBuffer.isView(value)) return false;
  const here = [...above, value];
  if (Array.isArray(value)) return value.every((v) => isJSON(v, here));
  if (typeof value.toJSON === 'function') return isJSON(value.toJSON() ?? undefined, here); // null: no date
  const proto = Object.getPrototypeOf(value);
  if (proto !== null && Object.getPrototypeOf(proto) !== null) return false;
  return Object.values(value).every((v) => v === undefined || isJSON(v, here));
}

// RFC 9110 section 10.2.3: seconds, or a date, which is read against the sender's
// own Date where there is one, since the clocks of phones are set by hand.
function retryAfter(headers, now) {
  const value = headers.get('retry-after')?.trim() ?? '';
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const at = Date.parse(value);
  const sent = Date.parse(headers.get('date') ?? '');
  return Number.isNaN(at) ? 0 : Math.max(0, at - (Number.isNaN(sent) ? now : sent));
}

// JSON with sorted members, so that two spellings of one meaning compare equal.
function stable(value) {
  return JSON.stringify(value, (_, v) => (v !== null && typeof v === 'object' && !Array.isArray(v)
    ? Object.fromEntries(Object.keys(v).sort().map((k) => [k, v[k]])) : v));
}

function answered(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function byAge(a, b) { return a.createdAt - b.createdAt || (a.key < b.key ? -1 : 1); }

function lowerCase(headers) {
  const pairs = typeof headers.entries === 'function' ? [...headers.entries()] : Object.entries(headers); // Headers, or an object
  return Object.fromEntries(pairs.map(([k, v]) => [k.toLowerCase(), v]));
}

function definedOnly(o) { return Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined)); }
