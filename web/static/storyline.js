// The story as a sequence: who sends what to whom, which lines make a step, and
// where everything is drawn. Pure functions.

// A line at one of these was caused by whoever works on its step.
const SPOKEN_TO = new Set(['phone', 'network', 'keys', 'ledger', 'PSP', 'queue', 'screen']);

const written = (n, digits) => (Number.isFinite(n) ? n.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: 6 }) : '–');

/** Groups the digits of a whole number: 15,000. */
export const grouped = (n) => written(n, 0);

/** A time as the story writes it: 0.45, 14.00, 7,200.02. */
export const clock = (seconds) => written(seconds, 2);

/** A pause in words, of its two largest units: "1 h 53 min". */
export function span(seconds) {
  let rest = Math.round(seconds);
  return [['d', 86_400], ['h', 3600], ['min', 60], ['s', 1]].flatMap(([unit, n]) => {
    const count = Math.floor(rest / n);
    rest %= n;
    return count > 0 ? [`${count} ${unit}`] : [];
  }).slice(0, 2).join(' ');
}

/** "1 charge", "2 charges". */
export const count = (n, word) => `${grouped(n)} ${word}${n === 1 ? '' : 's'}`;

// Who works on a step: its own name, or the first of its lines that is a worker's.
function workers(lines, actors) {
  const by = new Map();
  for (const { tag, where } of lines) {
    if (!tag || by.has(tag)) continue;
    if (actors.includes(tag)) by.set(tag, tag);
    else if (!SPOKEN_TO.has(where)) by.set(tag, where);
  }
  return by;
}

// The processor does not say who asked. It is the newest of those who have come to
// the call, or gave up on it; one that was answered without a call is not.
function askers(lines, by) {
  let coming = [];
  const gaveUp = new Set();
  return lines.map(({ tag, op, what }) => {
    const others = coming.filter((t) => t !== tag);
    if (op === 'charge' || op === 'replay') return by.get(coming.pop());
    if (op === 'deadline') gaveUp.add(tag);
    if (op === 'tap' || op === 'adopt' || (op === 'row' && what.endsWith('before any call'))) coming = [...others, tag];
    if (op === 'answer' && !gaveUp.has(tag)) coming = others;
    return undefined;
  });
}

/**
 * Gives every line its arrow: from, to and a kind of "call", "answer", "lost",
 * "charge" or "crash". A line without both ends is a note at its place.
 */
export function route(actors, lines) {
  const by = workers(lines, actors);
  const asked = askers(lines, by);
  let caller;
  return lines.map((line, i) => {
    const { where, tag, op, what } = line;
    const worker = by.get(tag);
    let from = worker;
    let to = where;
    let kind = 'call';
    switch (op) {
      case 'tap': [from, to] = ['phone', worker]; break;
      case 'copy': [from, to] = ['network', worker]; break;
      case 'answer':
        [from, to] = [where, tag.endsWith('′') ? 'network' : 'phone'];
        kind = /\b(lost|nobody listens)$/.test(what) ? 'lost' : 'answer';
        break;
      case 'charge': case 'replay':
        [from, caller] = [asked[i], asked[i]];
        if (op === 'charge') kind = 'charge';
        break;
      case 'lost': [from, to, kind] = ['PSP', caller, 'lost']; break;
      case 'arrive': [from, to] = ['PSP', where]; break;
      case 'send': [from, to] = [where, 'queue']; break;
      case 'receive': [from, to] = ['queue', where]; break;
      case 'push': [from, to] = [where, 'screen']; break;
      case 'delete': [from, to] = [where, 'ledger']; break;
      case 'intent': [from, to, kind] = ['ledger', where, 'answer']; break;
      case 'stored': case 'dropped': case 'screen': from = where; break;
      case 'crash': [from, kind] = [where, 'crash']; break;
      case 'refused': [from, to, kind] = ['phone', worker, 'lost']; break;
      default: if (/^(adopt|settle)$/.test(op) && !SPOKEN_TO.has(where)) [from, to] = [where, 'ledger'];
    }
    const arrow = from !== to && actors.includes(from) && actors.includes(to);
    if (!arrow && kind !== 'crash') kind = 'note';
    return { ...line, from: arrow ? from : where, to: arrow ? to : where, kind };
  });
}

/** The steps in their order: the story's events, each with its rows as words. */
export function steps(rows) {
  const found = new Map();
  for (const r of rows) {
    const s = found.get(r.n) ?? { n: r.n, at: r.at, words: [] };
    s.words.push(r.where === s.where ? r.what : `${r.where}: ${r.what}`);
    s.where = r.where;
    found.set(r.n, s);
  }
  return [...found.values()].sort((a, b) => a.n - b.n).map(({ n, at, words }) => ({ n, at, words: words.join('; ') }));
}

/**
 * After which row each snapshot was taken, in the order of time: after all lines of
 * its moment, and after the request that was under way then.
 */
export function placeSnapshots(snapshots, rows) {
  return Object.entries(snapshots ?? {}).map(([name, snapshot]) => {
    let row = rows.findLastIndex((r) => r.at <= snapshot.at);
    while (row >= 0 && rows[row].tag && rows[row + 1]?.tag === rows[row].tag) row++;
    return { name, snapshot, row };
  }).sort((a, b) => a.snapshot.at - b.snapshot.at || a.row - b.row);
}

/** A line's label: short enough to stand on an arrow. */
export function label(what, most = 32) {
  const text = what.replace(/^(payments:u1:|answers |one transaction: )/, '');
  if (text.length <= most) return text;
  const cut = text.slice(0, most);
  const at = cut.lastIndexOf(' ');
  return `${cut.slice(0, at > most / 2 ? at : most).replace(/[,;:]$/, '')}…`;
}

/** Sizes of the drawing in pixels. */
export const SIZE = { lane: 62, row: 34, pause: 22, margin: 44, letter: 6.7, longPause: 30 };

/** Where everything is drawn; the lanes share the room. */
export function layout(actors, rows, room = 0, size = SIZE) {
  const lane = Math.max(size.lane, Math.min(6 * size.lane, Math.floor((room - 2 * size.margin) / Math.max(1, actors.length - 1))));
  const width = (actors.length - 1) * lane + 2 * size.margin;
  const x = new Map(actors.map((a, i) => [a, size.margin + i * lane]));
  let y = 0;
  const drawn = rows.map((r, i) => {
    const since = i > 0 ? r.at - rows[i - 1].at : 0;
    const pause = since >= size.longPause ? { y: y + size.pause / 2, text: `${span(since)} later` } : undefined;
    if (pause) y += size.pause;
    const top = y;
    y += size.row;
    const [x1, x2] = [x.get(r.from), x.get(r.to)];
    return { ...r, x1, x2, top, y: top + size.row * 0.7, pause, text: write(label(r.what, Math.round(lane / 1.9)), x1, x2, width, size), timed: since > 0 || i === 0 };
  });
  return { width, height: y + size.margin / 4, x, rows: drawn, dead: deaths(actors, drawn) };
}

// A label begins at its left end and stays within the drawing; that of a note
// stands on the other side of its dot, when it must.
function write(text, x1, x2, width, size) {
  const long = text.length * size.letter;
  const start = Math.min(x1, x2) + 8;
  const end = width - long - 4;
  return { text, x: Math.max(4, start <= end ? start : Math.min(end, x1 === x2 ? x1 - 8 - long : end)) };
}

// From a crash until the process starts again its line is broken.
function deaths(actors, rows) {
  return actors.flatMap((actor) => rows.flatMap((r, i) => {
    if (r.kind !== 'crash' || r.where !== actor) return [];
    const back = rows.slice(i).find((later) => later.where === actor && later.op !== 'crash');
    return [{ actor, y1: r.y, y2: back?.y ?? Infinity }];
  }));
}

/** The query of a run: the branch, and the constants that were changed. */
export function queryOf(id, changed) {
  const q = new URLSearchParams({ id });
  for (const [name, value] of changed) q.set(name, value);
  return q.toString();
}

/** Reads what queryOf wrote; anything else in it is left to the server to refuse. */
export function readQuery(search) {
  const q = new URLSearchParams(search);
  const id = q.get('id') || 'main';
  q.delete('id');
  return { id, changed: new Map(q) };
}

/** A snapshot as rows of name and text. */
export function holdings(s) {
  const k = s.key_record ?? {};
  const ends = k.state === 'IN_PROGRESS' ? `owner ${k.owner}, until ${clock(k.in_progress_until)}` : k.state === 'COMPLETE' ? `${k.holds}, expires ${clock(k.expires_at)}` : '';
  return [
    ['ledger row', s.ledger], ['key record', [k.state, ends].filter(Boolean).join(', ')],
    ['charges', `${s.charges}, ${grouped(s.charged_total)}`], ['requests at the PSP', grouped(s.psp_requests)],
    ['outbox rows', grouped(s.outbox_rows)], ['sends, messages', `${s.queue?.sends}, ${s.queue?.stored}`],
    ...Object.entries(s.balances ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)).map(([who, n]) => [`balance of ${who}`, grouped(n)]),
    ['notification', s.intent], ['shown, alerts', `${s.notifications?.shown}, ${s.notifications?.alerts}`], ['the phone knows', s.phone_knows],
  ].map(([name, value]) => [name, value || '–']);
}
