/** What is known of an intent. 'pending': nobody knows yet, and the key is kept. */
export type State = 'pending' | 'done' | 'declined' | 'void' | 'refused';

/** The last answer of a server to an intent, as the journal keeps it. */
export interface Answer {
  status: number;
  /** The `code` member of a problem document. */
  code?: string;
  /** The answer came from the server's record (`Idempotency-Replayed: true`). */
  replayed: boolean;
  /** Parsed JSON; absent when it was no JSON or longer than 64 Ki characters. */
  body?: unknown;
}

/** One intent in the journal. Times are milliseconds of the client's clock. */
export interface Entry {
  v: 1;
  key: string;
  caller: string;
  intent: string;
  /** Held while pending and when done: one key per caller and intent. */
  slot?: string;
  meaning: string;
  method: string;
  url: string;
  headers: Record<string, string>;
  body?: string;
  state: State;
  /** Sends that were started. */
  tries: number;
  /** Sends of which nobody knows whether they had an effect. */
  doubtful: number;
  createdAt: number;
  updatedAt: number;
  location?: string;
  last?: { status?: number; code?: string; reason?: string; at: number };
  answer?: Answer;
}

/** Where intents are kept. Every promise means: durable, or not at all. */
export interface Journal {
  /** Adds the entry unless its key, or an entry of its slot, is there; returns the one that stands. */
  claim(entry: Entry): Promise<{ entry: Entry; added: boolean }>;
  /** Replaces the entry by change(entry), atomically; change may return undefined to leave it. Returns the one that stands. */
  update(key: string, change: (entry: Entry) => Entry | undefined): Promise<Entry | undefined>;
  get(key: string): Promise<Entry | undefined>;
  /** All entries, oldest first; ties by key. */
  list(): Promise<Entry[]>;
  remove(key: string): Promise<void>;
}

/** Forgets on restart: for tests and for Node. */
export class MemoryJournal implements Journal {
  claim(entry: Entry): Promise<{ entry: Entry; added: boolean }>;
  update(key: string, change: (entry: Entry) => Entry | undefined): Promise<Entry | undefined>;
  get(key: string): Promise<Entry | undefined>;
  list(): Promise<Entry[]>;
  remove(key: string): Promise<void>;
}

/** Survives restarts; writes with durability 'strict'. */
export class IndexedDBJournal implements Journal {
  /** @param options.name name of the database. Defaults to 'retryproof'. */
  constructor(options?: { name?: string; indexedDB?: IDBFactory });
  claim(entry: Entry): Promise<{ entry: Entry; added: boolean }>;
  update(key: string, change: (entry: Entry) => Entry | undefined): Promise<Entry | undefined>;
  get(key: string): Promise<Entry | undefined>;
  list(): Promise<Entry[]>;
  remove(key: string): Promise<void>;
  close(): Promise<void>;
}

/** Time in milliseconds. sleep rejects with the signal's reason when it aborts. */
export interface Clock {
  now(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
export const systemClock: Clock;

export type Verdict = 'done' | 'declined' | 'void' | 'refused' | 'keep';
export interface Judgement {
  verdict: Verdict;
  /** This try may have had, or may yet have, an effect. */
  doubt: boolean;
  then: 'retry' | 'authorize' | 'stop';
}
export interface JudgedAnswer {
  /** 0 for a redirect in a browser, which shows no more of it. */
  status: number;
  /** The `code` member of a problem document. */
  code?: string;
  /** The `state` member of a JSON object. */
  state?: string;
  /** false for HTML and for broken JSON. */
  readable?: boolean;
  /** Marked as the server's record of the key: Idempotency-Replayed, Idempotency-Key-Expires or Idempotent-Replayed. */
  stored?: boolean;
  body?: unknown;
}

/**
 * Judges one answer. While another try is in doubt, 'refused' never lets the key go, and
 * 'declined' and 'void' do for a marked answer or the code 'void' only.
 */
export function classify(answer: JudgedAnswer): Judgement;

/** classify, but an unmarked 2xx without a final state is asked for again. For servers that mark every final answer. */
export function classifyStrict(answer: JudgedAnswer): Judgement;

/**
 * Judges the answer to "what became of my key?": a final state settles the intent,
 * everything else is 'keep'.
 */
export function classifyResolve(answer: JudgedAnswer): { verdict: 'done' | 'declined' | 'void' | 'keep'; then: 'retry' | 'authorize' | 'stop' };

export interface Event {
  type: 'journaled' | 'reused' | 'sending' | 'asking' | 'answer' | 'waiting' | 'paused' | 'settled' | 'journal-failed';
  key: string;
  entry: Entry;
  at: number;
  status?: number;
  code?: string;
  replayed?: boolean;
  reason?: string;
  /** 'waiting': milliseconds until the next try. */
  wait?: number;
  error?: unknown;
}

/** Bounds of one run; an intent outlives any number of runs. */
export interface Bounds {
  /** Tries in one run. Defaults to 8. */
  maxTries?: number;
  /** Milliseconds until a try without an answer, or a wait for authorize, ends. Defaults to 10000. */
  tryTimeout?: number;
  /** Milliseconds; the n-th pause is random in [0, baseDelay * 2^(n-1)). Defaults to 500. */
  baseDelay?: number;
  /** Milliseconds; the longest pause that the client chooses itself. Defaults to 30000. */
  maxDelay?: number;
  /** Milliseconds; no pause goes past it, not even a Retry-After. Defaults to 120000. */
  budget?: number;
}

export interface ClientOptions extends Bounds {
  /** Defaults to a new IndexedDBJournal. */
  journal?: Journal;
  /** Defaults to the global fetch. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Defaults to systemClock. */
  clock?: Clock;
  /** In [0, 1). Defaults to Math.random. */
  random?: () => number;
  /** Defaults to navigator.locks; null for none. */
  locks?: Pick<LockManager, 'request'> | null;
  /** Whether a send can leave at all. Defaults to navigator.onLine. */
  online?: () => boolean;
  /**
   * Headers with the credentials of entry.caller, asked before every send and
   * never journaled; null when that caller is not signed in. `refused` is true
   * after a 401. `signal` aborts when nobody waits for them any more, after tryTimeout for one: close
   * a sign-in dialog then, since the next try asks anew. Defaults to none.
   */
  authorize?: (entry: Entry, state: { refused: boolean; signal: AbortSignal }) => Record<string, string> | Headers | null | Promise<Record<string, string> | Headers | null>;
  /** For example classifyStrict. Defaults to classify. */
  classify?: typeof classify;
  /** Defaults to classifyResolve. */
  classifyResolve?: typeof classifyResolve;
  /** Where to ask what became of an entry's key, by POST. No default: resolve needs it. */
  resolveUrl?: (entry: Entry) => string;
  /** Told of every step. Defaults to nothing. */
  onEvent?: (event: Event) => void;
  /** Defaults to newKey. */
  newKey?: () => string;
}

export interface IntentRequest {
  url: string;
  /** Defaults to 'POST'. */
  method?: string;
  /** Journaled; credentials are refused here. Defaults to none. */
  headers?: Record<string, string>;
  /**
   * Plain JSON, or a string that is sent as it is. Written once, so that all sends are alike.
   * Forms, files, maps, NaN and the like are refused: JSON would write something else.
   */
  body?: unknown;
  /** The signed-in user: a key belongs to one caller. Defaults to ''. */
  caller?: string;
  /**
   * What the user wants, named after the thing, for example 'pay order 42'. Once done, the same name
   * means the same effect until it is pruned. Defaults to the key, if one is given, and else to the method,
   * the URL and the meaning: without a name, whoever buys the same thing twice pays once.
   */
  intent?: string;
  /** What must be equal for a send to be a repeat; plain JSON. Defaults to the body. */
  meaning?: unknown;
  /** A key of the application's own, never one that another caller used. Defaults to a new one. */
  key?: string;
}

export interface SendOptions extends Bounds {
  /** Ends the run; the intent stays pending. */
  signal?: AbortSignal;
  /** false: do not wait for another run of the same intent. Safe: both carry the key. Defaults to true. */
  exclusive?: boolean;
}

export interface ResolveOptions extends Bounds {
  /** Defaults to the client's. */
  resolveUrl?: (entry: Entry) => string;
  /** Ends the run; the intent stays pending. */
  signal?: AbortSignal;
}

export interface Result {
  outcome: State;
  key: string;
  tries: number;
  status?: number;
  code?: string;
  body?: unknown;
  replayed: boolean;
  location?: string;
  /**
   * Why it is still pending: 'timeout', 'network', 'redirect', 'not-sent', 'offline', 'authorize' (it failed),
   * 'unauthorized', 'elsewhere', 'journal' (of a resume), a code or a status.
   */
  reason?: string;
  entry: Entry;
}

export class Client {
  constructor(options?: ClientOptions);
  send(request: IntentRequest, options?: SendOptions): Promise<Result>;
  retry(key: string, options?: SendOptions): Promise<Result>;
  /**
   * Asks what became of a journaled intent, instead of sending it again. 'void': the
   * server knew nothing of the key and never will run it; the next send makes a new
   * one. Rejected with code 'no-resolve-url' when there is nowhere to ask.
   */
  resolve(key: string, options?: ResolveOptions): Promise<Result>;
  pending(filter?: { caller?: string }): Promise<Entry[]>;
  entries(): Promise<Entry[]>;
  /** Rejected only when the journal cannot be read, or the signal aborts. */
  resume(options?: SendOptions & { caller?: string }): Promise<Result[]>;
  release(key: string, state: Exclude<State, 'pending'>): Promise<Entry | undefined>;
  /** Forgets settled intents except the newest `keep` (50). An intent that is forgotten is new: its next send makes a new key. */
  prune(options?: { keep?: number }): Promise<number>;
}

/** code: 'journal', 'intent-changed', 'intent-pending', 'intent-done', 'intent-invalid', 'not-journaled' or 'no-resolve-url'. */
export class RetryproofError extends Error {
  constructor(code: string, message: string, about?: { outcome?: 'not-done' | 'unknown'; entry?: Entry; cause?: unknown });
  code: string;
  /** What is known of the effect. */
  outcome: 'not-done' | 'unknown';
  entry?: Entry;
}

/** Thrown by a fetch of the application's own: the request certainly never left. */
export class NotSentError extends Error {
  constructor(message?: string);
  notSent: true;
}

/** A random UUID. */
export function newKey(source?: Crypto): string;
