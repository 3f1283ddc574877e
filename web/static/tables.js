// Draws the tables and lists of a run. Text goes in as text, never as markup.

import { clock, count, grouped, holdings } from '/storyline.js';

const at = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

const row = (head, ...cells) => element('tr', {}, element('th', { scope: 'row' }, head), ...cells.map((c) => element('td', {}, c)));
const body = (id) => at(id).querySelector('tbody');
const money = (minor) => (minor / 100).toLocaleString('en-US', { style: 'currency', currency: 'USD' });

export function finalCount(r) {
  const several = (r.ways ?? []).length > 0;
  const balances = Object.entries(r.balances ?? {}).map(([who, n]) => [`Balance of ${who}`, grouped(n)]);
  const facts = several ? [['Designs', grouped(r.ways.length)], ['Charged once', grouped(r.ways.filter((w) => w.charges.length === 1).length)]] : [
    ['Charges', count(r.charges.length, 'charge'), r.charges.length > 1 ? 'bad' : ''],
    ['Charged', grouped(r.charged_total), '', money(r.charged_total)],
    ['Credits', count(r.credits.length, 'credit')], ...balances,
    ['On the screen', grouped(r.notifications.shown), '', count(r.notifications.alerts, 'alert')],
    ...(r.payments.length === 0 ? [] : [['The auditor saw', r.harm === 'none' ? 'no harm' : r.harm, r.harm === 'none' ? '' : 'bad']]), // other designs have no ledger to audit
  ];
  at('count').replaceChildren(...facts.map(([name, value, kind, beside]) => element('div', {},
    element('dt', {}, name), element('dd', { class: kind || undefined }, value, ...(beside ? [' ', element('small', {}, beside)] : [])))));
}

export function answers(list) {
  body('answers').replaceChildren(...(list.length === 0 ? [row('none')] : []), ...list.map((a) => row(a.request, clock(a.at),
    [a.status, a.code, a.body_state].filter(Boolean).join(' ') + (a.lost ? ', lost on its way' : ''), a.from || '–')));
}

export function checks(list) {
  const met = list.filter((c) => c.ok).length;
  at('checked').textContent = `${met} of ${list.length} came out`;
  at('checked').className = `badge ${met === list.length ? 'done' : 'failed'}`;
  at('checks').replaceChildren(...list.map((c) => element('li', { class: c.ok ? 'ok' : 'failed' },
    element('b', {}, c.ok ? '✓ ' : '✗ '),
    element('span', {}, `${c.what}: `, element('em', {}, c.got), c.ok ? '' : `, expected ${c.want}`, c.given ? element('small', {}, ' given') : ''))));
}

export function ways(list = []) {
  at('ways').hidden = list.length === 0;
  body('ways').replaceChildren(...list.map((w) => row(w.approach, grouped(w.charges.length), money(w.charged_total), w.told, w.order ? 'yes' : 'no', w.why)));
}

/** The events in words, each with a button that steps to it. */
export function events(rows, pick) {
  at('events').hidden = rows.length === 0;
  body('events').replaceChildren(...rows.map((r, i) => {
    const button = element('button', { type: 'button', class: 'link', 'aria-label': `Step to event ${r.n}` }, String(r.n));
    button.addEventListener('click', () => pick(r.n));
    const first = rows[i - 1]?.n !== r.n;
    const head = first ? element('th', { scope: 'row', role: 'rowheader' }, button) : element('td', { role: 'cell' });
    return element('tr', { 'data-n': r.n, class: first ? 'first' : undefined, role: 'row' }, head,
      ...[clock(r.at), r.where, r.what].map((c) => element('td', { role: 'cell' }, c)));
  }));
}

export function currentEvent(n) {
  for (const tr of body('events').rows) {
    if (Number(tr.dataset.n) === n) tr.setAttribute('aria-current', 'step');
    else tr.removeAttribute('aria-current');
  }
}

/** A button for each snapshot, which steps to the event before it. */
export function snapshotButtons(placed, rows, pick) {
  at('snaps').replaceChildren(...placed.map(({ name, row: r }) => {
    const n = rows[r]?.n ?? 1;
    const button = element('button', { type: 'button', 'data-snap': name }, name);
    button.addEventListener('click', () => pick(n));
    return button;
  }));
}

/** The latest snapshot of step n beside the one before it. */
export function snapshot(placed, rows, n) {
  const taken = placed.filter(({ row: r }) => r < 0 || rows[r].n <= n);
  const [before, last] = [taken.at(-2), taken.at(-1)];
  for (const b of at('snaps').children) b.setAttribute('aria-pressed', String(b.dataset.snap === last?.name));
  at('snapshot').hidden = !last;
  at('holds-none').hidden = Boolean(last);
  if (!last) return;
  const heads = [before, last].filter(Boolean).map((s) => element('th', { scope: 'col' }, `${s.name}, at ${clock(s.snapshot.at)}`));
  at('snapshot').tHead.replaceChildren(element('tr', {}, element('td', {}), ...heads));
  const was = before && new Map(holdings(before.snapshot));
  body('snapshot').replaceChildren(...holdings(last.snapshot).map(([name, value]) => {
    const tr = row(name, ...(was ? [was.get(name) ?? '–'] : []), value);
    if (was && was.get(name) !== value) tr.lastChild.className = 'changed';
    return tr;
  }));
}
