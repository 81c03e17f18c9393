// The pane beside the table: everything known of one case.

function parameterTable(c) {
  const facts = [...Object.entries(c.parameters)
    .map(([name, value]) => [name, valueText(value)]),
  ['steps', c.steps], ['ranks', c.ranks], ['seed', c.seed]];
  return el('dl', {class: 'figures'}, facts.map(([name, text]) =>
    el('div', {}, el('dt', {title: name}, name), el('dd', {}, String(text)))));
}

function checkTable(c) {
  const checks = c.checks.filter((check) => !isContract(check));
  if (checks.length === 0) return null;
  const bad = (check) => check.verdict === 'match' ? 1 : 0;
  const sorted = [...checks].sort((a, b) => bad(a) - bad(b));
  const number = (value) => el('td', {class: 'number'},
    figure(toNumber(value)));
  const row = (check) => [
    el('tr', {class: check.verdict}, el('th', {scope: 'row',
      title: [rankText(check.rank), check.standard, check.text]
        .filter(Boolean).join(', ')},
    el('i', {'aria-label': check.verdict},
      SYMBOLS[VERDICTS.indexOf(check.verdict)]),
    el('span', {}, check.name,
      (c.ranks > 1 || check.rank !== 0) &&
        el('small', {}, rankText(check.rank)))),
    number(check.norm_l2), number(check.max_abs), number(check.ulp_max)),
    check.text && check.verdict !== 'match' &&
      el('tr', {class: 'why ' + check.verdict},
      el('td', {colspan: 4}, check.criterion &&
        el('span', {class: 'tag'}, check.criterion), ' ', check.text,
      check.index !== undefined &&
        el('span', {class: 'hint'}, ' at element ' + integer(check.index)))),
  ];
  return el('div', {class: 'block'}, el('h3', {}, 'Checks'),
    el('table', {class: 'checks'},
      el('thead', {}, el('tr', {}, el('th', {}, 'tensor'),
        ['rel. L2', 'max abs', 'max ulp'].map((t) =>
          el('th', {class: 'number'}, t)))),
      el('tbody', {}, sorted.map(row).flat().filter(Boolean))));
}

function contractList(c) {
  const fields = c.checks.filter(isContract);
  if (fields.length === 0) return null;
  const differing = fields.filter((check) => check.verdict !== 'match');
  const agree = fields.length - differing.length;
  const item = (check) => el('li', {class: check.verdict},
    el('b', {}, check.name.slice('contract.'.length)),
    c.ranks > 1 && el('small', {}, rankText(check.rank)),
    el('span', {}, check.text || check.verdict));
  return el('div', {class: 'block'}, el('h3', {}, 'Contract'),
    differing.length > 0 && el('ul', {class: 'contract'}, differing.map(item)),
    agree > 0 && el('p', {class: 'hint'}, plural(agree, 'field') +
      (agree === 1 ? ' agrees' : ' agree')));
}

// A bar a side on one scale, and the ratio.
function costView(title, target, golden, text) {
  if (!(target > 0) && !(golden > 0)) return null;
  return el('div', {class: 'cost'}, el('h4', {}, title),
    pairBars(target, golden, text),
    el('p', {}, 'target ', el('b', {}, text(target)), ', golden ',
      el('b', {}, text(golden)), Number.isNaN(ratio(target, golden)) ? ''
        : ', ' + times(ratio(target, golden))));
}

function costs(c) {
  const memory = (v) => v > 0 ? bytes(v) : '–';
  const parts = [
    costView('time', toNumber(c.seconds), toNumber(c.golden_seconds), seconds),
    costView('peak memory', toNumber(c.peak_bytes),
      toNumber(c.golden_peak_bytes), memory),
    c.slower && el('p', {class: c.slower > 1.5 ? 'slow' : 'hint'},
      times(c.slower) + ' of the time of its baseline')].filter(Boolean);
  return parts.length > 0 && el('div', {class: 'block'},
    el('h3', {}, 'Time and memory'), parts);
}

function showDetail(i) {
  const pane = byId('detail');
  if (i < 0) {
    pane.replaceChildren(el('p', {class: 'hint empty-pane'},
      'Select a case to see its parameters, checks and the command that ' +
      'repeats it alone.'));
    return;
  }
  const c = cases[i];
  // Left out where one of the checks below says the same.
  const told = (check) => check.verdict !== 'match' && check.text &&
    c.message?.endsWith(check.text);
  const reason = c.checks.some(told) ? '' : c.message ?? '';
  pane.replaceChildren(...[
    el('div', {class: 'detail-head'}, badge(c.code),
      el('span', {class: 'hint'}, [ENDING_TEXT[c.ending], c.tier,
        c.invalid && 'must be refused'].filter(Boolean).join(' · '))),
    el('h3', {class: 'detail-name'}, c.module, el('b', {}, '/' + c.case)),
    reason && el('p', {class: 'reason'}, reason),
    c.again && command(c.again),
    c.log && el('p', {class: 'log'}, el('span', {class: 'hint'}, 'log '),
      el('code', {}, c.log)),
    checkTable(c), contractList(c), costs(c),
    el('div', {class: 'block'}, el('h3', {}, 'Parameters'), parameterTable(c)),
  ].filter(Boolean));
  pane.scrollTop = 0;
}
