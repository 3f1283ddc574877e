// Draws the sequence diagram. Four drawings share a box: actors and times stay at
// its edges while the arrows scroll.

import { clock, layout, SIZE } from '/storyline.js';

const SVG = 'http://www.w3.org/2000/svg';
const HEAD = 34; // height of the actors' names
const GUTTER = 92; // width of the numbers and times

function shape(tag, attributes = {}, ...children) {
  const e = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

const sheet = (name, width, height, ...children) => shape('svg', { class: name, width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' }, ...children);
const line = (name, x1, y1, x2, y2) => shape('line', { class: name, x1, y1, x2, y2 });
const text = (name, x, y, words, anchor) => shape('text', { class: name, x, y, 'text-anchor': anchor }, words);
const cross = (x, y, r) => shape('path', { class: 'cross', d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}` });

function arrow({ x1, x2, y, kind }) {
  const way = Math.sign(x2 - x1);
  if (kind === 'lost') { // broken off on its way
    const end = x1 + (x2 - x1) * 0.62;
    return [line('line', x1, y, end - way * 5, y), cross(end, y, 5)];
  }
  const head = `M${x2 - way * 8} ${y - 4.5}L${x2 - way} ${y}L${x2 - way * 8} ${y + 4.5}`;
  return [shape('circle', { class: 'from', cx: x1, cy: y, r: 2.5 }), line('line', x1, y, x2 - way * 2, y), shape('path', { class: 'head', d: kind === 'answer' ? head : `${head}Z` })];
}

function mark({ x1, y, kind, op }) {
  if (kind === 'crash') return [cross(x1, y, 6)];
  if (op === 'boot') return [shape('circle', { class: 'boot', cx: x1, cy: y, r: 5 })];
  return [shape('circle', { class: 'dot', cx: x1, cy: y, r: 4 })];
}

function drawRow(r, pick) {
  const moves = r.x1 !== r.x2;
  const group = shape('g', { class: `row ${r.kind}`, 'data-n': r.n },
    shape('title', {}, `${r.n}, at ${clock(r.at)} s. ${r.where}: ${r.what}`),
    ...(moves ? arrow(r) : mark(r)),
    text('label', r.text.x, moves ? r.y - 6 : r.y + 4, r.text.text));
  group.addEventListener('click', () => pick(r.n));
  return group;
}

// A lifeline, broken where its process is dead.
function lifeline(actor, x, plan) {
  const parts = [];
  let from = 0;
  for (const d of plan.dead.filter((gone) => gone.actor === actor)) {
    parts.push(line('life', x, from, x, d.y1));
    from = Math.min(d.y2, plan.height);
    parts.push(line('life gone', x, d.y1, x, from));
  }
  if (from < plan.height) parts.push(line('life', x, from, x, plan.height));
  return parts;
}

// What marks a step: the band behind its rows.
const bands = (plan, width) => plan.rows.map((r) => shape('rect', { class: 'band', 'data-n': r.n, x: 0, y: r.top, width, height: SIZE.row }));

/**
 * Draws actors and routed rows into a box. pick is called with the step that was
 * clicked. Returns show(n), which draws step n as the current one.
 */
export function draw(box, actors, rows, snapshots, pick) {
  const plan = layout(actors, rows, box.clientWidth - GUTTER);
  const heads = actors.map((a) => text('actor', plan.x.get(a), 22, a, 'middle'));
  const times = plan.rows.flatMap((r, i) => [
    ...(plan.rows[i - 1]?.n === r.n ? [] : [text('n', 26, r.y, String(r.n), 'end')]),
    ...(r.timed ? [text('time', GUTTER - 8, r.y, clock(r.at), 'end')] : []),
  ]);
  const taken = snapshots.filter((s) => s.row >= 0).flatMap(({ name, row }) => {
    const y = plan.rows[row].top + SIZE.row;
    return [line('taken', 0, y, plan.width, y), text('pause', 4, y - 3, name)];
  });
  const pauses = plan.rows.filter((r) => r.pause).map((r) => text('pause', 8, r.pause.y + 4, `⋯ ${r.pause.text}`));
  const groups = plan.rows.map((r) => drawRow(r, pick));
  const body = sheet('arrows', plan.width, plan.height, ...bands(plan, plan.width), ...actors.flatMap((a) => lifeline(a, plan.x.get(a), plan)), ...taken, ...pauses, ...groups);
  const gutter = sheet('times', GUTTER, plan.height, ...bands(plan, GUTTER), ...times);
  const corner = sheet('corner', GUTTER, HEAD, text('time', GUTTER - 8, 22, 'seconds', 'end'));
  box.replaceChildren(corner, sheet('heads', plan.width, HEAD, ...heads), gutter, body);
  box.scrollTo(0, 0);
  const marked = [...box.querySelectorAll('[data-n]')];
  return (n) => {
    for (const e of marked) {
      const of = Number(e.dataset.n);
      e.classList.toggle('current', of === n);
      e.classList.toggle('later', of > n);
    }
    follow(box, plan.rows.filter((r) => r.n === n));
  };
}

// Scrolls the box, never the page, to the rows of a step.
function follow(box, rows) {
  if (rows.length === 0) return;
  const [top, bottom] = [rows[0].top, rows.at(-1).top + SIZE.row];
  const xs = rows.flatMap((r) => [r.x1, r.x2]);
  const [left, right] = [Math.min(...xs) - 24, Math.max(...xs) + 24];
  const [high, wide] = [box.clientHeight - HEAD, box.clientWidth - GUTTER];
  const to = {};
  if (top < box.scrollTop || bottom > box.scrollTop + high) to.top = bottom - top > high ? top : (top + bottom - high) / 2;
  if (left < box.scrollLeft || right > box.scrollLeft + wide) to.left = right - left > wide ? left : (left + right - wide) / 2;
  box.scrollTo(to);
}
