// The top of the page: what ran, the verdict, the modules, stale goldens; and
// its end: the API and both sides in full.

const sideText = (side) =>
  [side.implementation, side.version].filter(Boolean).join(' ') +
  (side.device ? ', ' + side.device : '');

function drawSides() {
  const side = (label, text) => el('div', {}, el('dt', {}, label),
    el('dd', {title: text}, text));
  byId('sides').append(side('golden', sideText(page.golden)),
    side('target', sideText(page.target)));
  byId('foot').append(el('span', {}, 'goldens in ', el('b', {}, page.store)),
    el('span', {}, 'began ' + page.began + ', took ' +
      seconds(toNumber(page.seconds))));
}

function verdictSentence() {
  const c = page.counts, of = ' of ' + plural(c.total, 'case');
  if (c.mismatch > 0)
    return integer(c.mismatch) + of + (c.mismatch === 1 ? ' differs' : ' differ');
  if (c.total === 0) return 'Nothing was compared';
  if (c.incomplete > 0) return integer(c.incomplete) + of +
    ' could not be compared';
  if (page.verdict !== 'match') return 'Not every module was run to its end';
  if (c.empty === 0) return 'All ' + plural(c.total, 'case') + ' agree';
  return plural(c.match, 'case') + (c.match === 1 ? ' agrees, ' : ' agree, ') +
    integer(c.empty) + ' more ' + (c.empty === 1 ? 'is' : 'are') + ' empty';
}

// How cases ended that were not compared: never part of what passed.
function endingsText() {
  return Object.entries(page.endings).filter(([key]) => key !== 'compared')
    .sort((a, b) => b[1] - a[1])
    .map(([key, count]) => integer(count) + ' ' + ENDING_TEXT[key]).join(', ');
}

// Rounded down: 100 % means every one.
function percent(share) {
  const tenths = Math.floor(share * 1000 + 1e-9);
  return tenths === 1000 ? '100 %' : (tenths / 10).toFixed(1) + ' %';
}

// Of the cases that have something to compare: empty ones are evidence
// neither for nor against.
const tested = (counts) => counts.total - counts.empty;
const passRate = (counts) =>
  percent(tested(counts) ? counts.match / tested(counts) : 0);

function drawBanner() {
  const notes = [...page.warnings];
  if (page.interrupted)
    notes.unshift('Interrupted: the cases that were not reached are ' +
      'incomplete.');
  fillBanner({verdict: VERDICTS.indexOf(page.verdict), counts: page.counts,
    sentence: verdictSentence(), what: 'cases', onCount: showOnly,
    hint: [plural(page.modules.length, 'module'), 'pass rate ' +
      passRate(page.counts), endingsText()].filter(Boolean).join(' · '),
    notices: notes});
}

function moduleCost(module) {
  const sum = (key) => module.cases.reduce((s, c) => s + toNumber(c[key]), 0);
  const most = (key) => module.cases.reduce((m, c) =>
    Math.max(m, toNumber(c[key]) || 0), 0);
  return {golden: sum('golden_seconds'), target: sum('seconds'),
    peak: most('peak_bytes'), goldenPeak: most('golden_peak_bytes'),
    slower: most('slower')};
}

function worstCell(module) {
  const worst = module.worst;
  if (!worst) return el('td', {class: 'worst'}, '–');
  return el('td', {class: 'worst ' + worst.verdict},
    el('button', {type: 'button', class: 'link', title: 'Show ' + worst.case,
      onclick: (event) => {
        event.stopPropagation();
        chooseNamed(module.module + '/' + worst.case);
      }}, el('b', {}, figure(toNumber(worst.norm_l2))),
    el('span', {}, worst.check + ' · ' + worst.case)));
}

// Two thin bars, target over golden, on one scale.
function pairBars(target, golden, text) {
  const most = Math.max(target, golden);
  const bar = (value, kind) => {
    const node = el('span', {class: kind});
    node.style.width = most > 0 ? 100 * value / most + '%' : 0;
    return node;
  };
  return el('div', {class: 'pair', title: 'target ' + text(target) +
    ', golden ' + text(golden)}, bar(target, 'target'), bar(golden, 'golden'));
}

function costCells(module, anySlower) {
  const cost = moduleCost(module);
  const memory = (v) => v > 0 ? bytes(v) : '–';
  return [
    el('td', {class: 'number'}, seconds(cost.target)),
    el('td', {}, pairBars(cost.target, cost.golden, seconds)),
    el('td', {class: 'number'}, times(ratio(cost.target, cost.golden))),
    anySlower && el('td', {class: 'number' +
      (cost.slower > 1.5 ? ' slow' : '')}, times(cost.slower || NaN)),
    el('td', {class: 'number'}, memory(cost.peak)),
    el('td', {class: 'number'}, times(ratio(cost.peak, cost.goldenPeak)))];
}

function drawModules() {
  const anySlower = page.modules.some((m) => m.cases.some((c) => c.slower));
  const anyEmpty = page.modules.some((m) => m.counts.empty);
  const head = [['module'], ['cases'], ['match', 'n'],
    ...(anyEmpty ? [['empty', 'n']] : []), ['pass', 'n'],
    ['worst rel. L2, tensor, case'], ['time', 'n'], [''], ['/ golden', 'n'],
    ...(anySlower ? [['/ baseline', 'n']] : []), ['peak', 'n'],
    ['/ golden', 'n']];
  const row = (module, i) => el('tr', {class: module.verdict,
    onclick: () => showModule(i)},
  el('th', {scope: 'row'}, el('div', {},
    el('button', {type: 'button', class: 'link', title: module.module},
      el('i', {'aria-hidden': 'true'},
        SYMBOLS[VERDICTS.indexOf(module.verdict)]), module.module),
    module.tier === 'real' && el('small', {}, 'real'))),
  el('td', {}, countBar(module.counts)),
  el('td', {class: 'number', title: countsText(module.counts)},
    integer(module.counts.match) + '/' + integer(tested(module.counts))),
  anyEmpty && el('td', {class: 'number'}, module.counts.empty
    ? integer(module.counts.empty) : ''),
  el('td', {class: 'number'}, passRate(module.counts)),
  worstCell(module), ...costCells(module, anySlower));
  byId('modules').append(
    el('thead', {}, el('tr', {}, head.map(([title, number]) =>
      el('th', {class: number ? 'number' : ''}, title)))),
    el('tbody', {}, page.modules.map(row)));
  if (page.modules.length === 0)
    byId('modules').append(el('caption', {}, 'No module was run.'));
}

const countsText = (counts) => VERDICTS.filter((v) => counts[v] > 0)
  .map((v) => integer(counts[v]) + ' ' + v).join(', ');

// Stale goldens by module and reason: nothing of the target is at fault.
function drawStale() {
  const groups = new Map();
  cases.forEach((c, i) => {
    if (c.ending !== 'stale') return;
    const key = JSON.stringify([c.module, c.message ?? '']);
    groups.set(key, [...groups.get(key) ?? [], i]);
  });
  if (groups.size === 0) return;
  byId('stale').hidden = false;
  byId('stale-hint').textContent = plural(page.endings.stale, 'case') +
    ' whose golden was made for something else; no failure of numbers, ' +
    'collect again';
  byId('stale-list').append(...[...groups].map(([key, list]) => {
    const [module, message] = JSON.parse(key);
    return el('li', {}, el('b', {}, module), ' ', message, ' ',
      el('button', {type: 'button', class: 'link',
        onclick: () => choose(list[0], true)},
      plural(list.length, 'case') + ', first ' + cases[list[0]].case));
  }));
}

function nameList(title, names, open) {
  const item = (n) => el('li', {}, el('code', {}, n.name ?? n),
    n.uses !== undefined && el('small', {},
      [n.guarded_by.join(', '), plural(n.uses, 'use')].filter(Boolean)
        .join(' · ')));
  return el('details', {open}, el('summary', {}, title + ' ',
    el('b', {}, integer(names.length))),
  el('ul', {class: 'names'}, names.length ? names.map(item)
    : el('li', {class: 'hint'}, 'none')));
}

function drawApi() {
  const api = page.api;
  if (!api) {
    const names = [...new Set(page.modules.flatMap((m) => m.api))].sort();
    byId('api-hint').textContent =
      'the names that these modules guard; --api SCAN.json says of how many';
    byId('api-body').append(nameList('guarded', names, false));
    return;
  }
  const uses = (list) => list.reduce((sum, n) => sum + n.uses, 0);
  const guarded = uses(api.guarded), all = guarded + uses(api.unguarded);
  byId('api-hint').textContent = integer(api.guarded.length) + ' of ' +
    plural(api.total, 'name') + ' guarded' + (all > 0 ? ', ' +
    percent(guarded / all) + ' of ' + plural(all, 'use') : '');
  const bar = el('div', {class: 'bar', 'aria-hidden': 'true'});
  for (const [kind, list] of [['match', api.guarded],
    ['incomplete', api.unguarded]]) {
    const part = el('span', {class: kind});
    part.style.flexGrow = list.length;
    if (list.length) bar.append(part);
  }
  const byUses = (list) => [...list].sort((a, b) => b.uses - a.uses);
  byId('api-body').append(bar, el('div', {class: 'coverage'},
    nameList('unguarded', byUses(api.unguarded), true),
    nameList('guarded', byUses(api.guarded), false),
    api.unknown.length > 0 &&
      nameList('guarded, but not in the scan', api.unknown, false)));
}

// Both sides' facts; what differs is marked.
function drawWhat() {
  const facts = (side) => ({implementation: side.implementation,
    version: side.version, device: side.device,
    ...Object.fromEntries(Object.entries(side.environment)
      .map(([key, value]) => ['environment.' + key, valueText(value)]))});
  const golden = facts(page.golden), target = facts(page.target);
  const names = [...new Set([...Object.keys(golden), ...Object.keys(target)])];
  byId('what').append(
    el('thead', {}, el('tr', {}, el('th'), el('th', {}, 'golden'),
      el('th', {}, 'target'))),
    el('tbody', {}, names.map((name) => el('tr', {}, el('th', {scope: 'row'},
      name.replace(/^environment\./, '')), el('td', {}, golden[name] || '–'),
    el('td', {}, target[name] || '–')))));
  if (page.command) byId('again').append(command(page.command));
}
