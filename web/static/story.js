// The page of the story: chooses, plays on the server, and steps.

import { clock, placeSnapshots, queryOf, readQuery, route, steps } from '/storyline.js';
import { draw } from '/diagram.js';
import * as tables from '/tables.js';

const { element } = tables;
const at = (id) => document.getElementById(id);

// These constants change most; the others wait behind a click.
const FIRST = ['amount', 'copy_at', 'client_timeout', 'deadline', 'psp_latency', 'retry_at'];

let branches = [];
let parameters = [];
let { id, changed } = readQuery(location.search);
let played; // {rows, steps, snapshots, show} of the run that is shown
let step = 1;
let asking;

class Refused extends Error {}

async function ask(path, signal) {
  const answer = await fetch(path, { signal, cache: 'no-store' });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(body.detail || `The server answered ${answer.status}.`);
  return body;
}

const defaultOf = (p) => branches.find((b) => b.id === id)?.defaults?.[p.name] ?? p.default;

function drawBranches() {
  const groups = new Map();
  for (const b of branches) {
    const option = element('option', { value: b.id }, `${b.id}: ${b.title}${b.not_yet ? ' (not yet)' : ''}`);
    option.disabled = Boolean(b.not_yet);
    if (!groups.has(b.group)) groups.set(b.group, element('optgroup', { label: b.group }));
    groups.get(b.group).append(option);
  }
  at('branch').replaceChildren(...groups.values());
  at('branch').value = id;
}

function drawConstants() {
  const field = (p) => element('p', {},
    element('label', { for: `c-${p.name}` }, p.name.replaceAll('_', ' ')),
    element('input', { id: `c-${p.name}`, name: p.name, inputmode: 'decimal', autocomplete: 'off', maxlength: 20, 'aria-describedby': `a-${p.name}` }),
    element('small', { id: `a-${p.name}` }, p.unit === 's' ? `seconds: ${p.about}` : `${p.unit}: ${p.about}`));
  at('constants').replaceChildren(...FIRST.map((name) => parameters.find((p) => p.name === name)).filter(Boolean).map(field));
  at('others').replaceChildren(...parameters.filter((p) => !FIRST.includes(p.name)).map(field));
}

function fill() {
  for (const p of parameters) {
    const input = at(`c-${p.name}`);
    input.value = changed.get(p.name) ?? defaultOf(p);
    input.classList.toggle('changed', input.value !== defaultOf(p));
  }
  if (parameters.some((p) => changed.has(p.name) && !FIRST.includes(p.name))) at('more').open = true;
}

function readForm() {
  changed = new Map();
  for (const p of parameters) {
    const value = at(`c-${p.name}`).value.trim();
    if (value !== defaultOf(p)) changed.set(p.name, value);
  }
}

// Marks the field that the server's words begin with.
function complain(error) {
  at('trouble').textContent = error instanceof Refused ? error.message : 'The server cannot be reached.';
  const wrong = parameters.find((p) => error.message.startsWith(`${p.name} `) || error.message.startsWith(`${p.name}:`));
  if (!wrong) return;
  const input = at(`c-${wrong.name}`);
  input.setAttribute('aria-invalid', 'true');
  if (at('others').contains(input)) at('more').open = true;
  input.focus();
}

async function play() {
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  at('story').setAttribute('aria-busy', 'true');
  at('trouble').textContent = '';
  for (const input of document.querySelectorAll('[aria-invalid]')) input.removeAttribute('aria-invalid');
  const query = queryOf(id, changed);
  try {
    const result = await ask(`/story/run?${query}`, mine.signal);
    history.replaceState(null, '', `?${query}`);
    fill();
    show(result);
  } catch (error) {
    if (mine.signal.aborted) return;
    complain(error);
  }
  if (asking === mine) at('story').setAttribute('aria-busy', 'false');
}

function show(r) {
  at('branch').value = r.id;
  at('moral').textContent = r.moral;
  at('verdict').hidden = false;
  at('verdict').textContent = r.ok ? 'as expected' : 'not as expected';
  at('verdict').className = `badge ${r.ok ? 'done' : 'failed'}`;
  tables.finalCount(r);
  tables.answers(r.answers);
  tables.checks(r.checks);
  tables.ways(r.ways);
  const rows = route(r.actors, r.lines);
  const snapshots = placeSnapshots(r.snapshots, rows);
  played = { rows, steps: steps(rows), snapshots };
  at('picture').hidden = rows.length === 0;
  at('holds').hidden = snapshots.length === 0;
  at('story').classList.toggle('alone', snapshots.length === 0);
  tables.events(rows, stepTo);
  tables.snapshotButtons(snapshots, rows, stepTo);
  played.show = draw(at('diagram'), r.actors, rows, snapshots, stepTo);
  at('slider').max = Math.max(1, played.steps.length);
  step = 0;
  stepTo(1);
}

function stepTo(n) {
  const to = Math.min(Math.max(1, n), played?.steps.length ?? 0);
  if (to < 1 || to === step) return;
  step = to;
  const s = played.steps[step - 1];
  const head = `Event ${s.n} of ${played.steps.length}, at ${clock(s.at)} s. `;
  at('now').replaceChildren(element('b', {}, head), s.words);
  at('slider').value = step;
  at('slider').setAttribute('aria-valuetext', head + s.words);
  played.show(s.n);
  tables.currentEvent(s.n);
  tables.snapshot(played.snapshots, played.rows, s.n);
}

const KEYS = { ArrowLeft: () => step - 1, ArrowRight: () => step + 1, Home: () => 1, End: () => Infinity };

function listen() {
  for (const box of document.querySelectorAll('.wide')) { // scrolled with the keyboard
    box.tabIndex = 0;
    box.role = 'group'; // the section around it is the landmark
    box.ariaLabel = box.parentElement.querySelector('h2').textContent;
  }
  at('choose').addEventListener('submit', (e) => { e.preventDefault(); readForm(); play(); });
  at('choose').addEventListener('reset', (e) => { e.preventDefault(); changed = new Map(); fill(); play(); });
  at('branch').addEventListener('change', () => { readForm(); id = at('branch').value; fill(); play(); });
  at('slider').addEventListener('input', () => stepTo(Number(at('slider').value)));
  for (const [button, to] of [['first', KEYS.Home], ['back', KEYS.ArrowLeft], ['next', KEYS.ArrowRight], ['last', KEYS.End]]) {
    at(button).addEventListener('click', () => stepTo(to()));
  }
  document.addEventListener('keydown', (e) => {
    const to = KEYS[e.key];
    if (!to || !played || e.ctrlKey || e.altKey || e.metaKey || e.shiftKey || e.target.closest('input, select, summary, .wide')) return;
    e.preventDefault();
    stepTo(to());
  });
}

try {
  ({ branches, parameters } = await ask('/story/branches'));
  drawBranches();
  drawConstants();
  fill();
  listen();
  await play();
} catch (error) {
  complain(error);
  at('story').setAttribute('aria-busy', 'false');
}
