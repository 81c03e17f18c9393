// The pane beside the table: everything known of one row.

const histogramCharts = [];

function factTable(row) {
  const d = rowDetail(row);
  const table = el('table', {class: 'facts'},
    el('thead', {}, el('tr', {}, el('th', {}), el('th', {}, WORDS.golden),
      el('th', {}, WORDS.target))));
  const body = el('tbody');
  const add = (name, golden, target, always = false) => {
    if (!always && !golden && !target) return;
    const differs = golden !== target;
    body.append(el('tr', {class: differs ? 'differs' : ''},
      el('th', {scope: 'row'}, name), el('td', {}, golden || '–'),
      el('td', {}, target || '–', differs && el('span', {class: 'visually-hidden'}, ' (differs)'))));
  };
  const present = (bit) => rows.present[row] & bit ? '' : 'missing';
  if (rows.present[row] !== 3) add('', present(1), present(2), true);
  if (d.golden.name !== d.target.name && rows.present[row] === 3)
    add('name', d.golden.name, d.target.name);
  add('dtype', strings[rows.goldenDtype[row]], strings[rows.targetDtype[row]]);
  if (!ARE_VALUES) add('shape', strings[rows.goldenShape[row]], strings[rows.targetShape[row]]);
  statistics(row).forEach(([name, golden, target]) => add(name,
    Number.isNaN(golden) ? '' : figure(golden, 6),
    Number.isNaN(target) ? '' : figure(target, 6)));
  for (const [key, name] of [['nan', 'NaN'], ['posInf', '+inf'],
    ['negInf', '−inf']]) {
    if (d.golden[key] || d.target[key])
      add(name, integer(d.golden[key] ?? 0), integer(d.target[key] ?? 0));
  }
  const flag = (v) => v === undefined ? '' : v ? 'yes' : 'no';
  add('needs grad', flag(d.golden.requiresGrad), flag(d.target.requiresGrad));
  for (const key of ['value', 'digest', 'file'])
    add(key, d.golden[key] ?? '', d.target[key] ?? '');
  table.append(body);
  return table;
}

// [name, golden, target] of the four statistics.
function statistics(row) {
  const own = targetStatsAt[row];
  return ['max', 'min', 'mean', 'norm'].map((name, i) => {
    const golden = rows.goldenStats[4 * row + i];
    return [name, golden, own < 0 ? golden : rows.targetStats[own + i]];
  });
}

function figureTable(row) {
  const d = rowDetail(row);
  const list = el('dl', {class: 'figures wide'});
  const add = (name, value, digits = 4) => {
    const text = typeof value === 'string' ? value
      : Number.isNaN(value) ? '' : figure(value, digits);
    if (text) list.append(el('div', {}, el('dt', {}, name),
      el('dd', {}, text)));
  };
  add('relative L2', rows.error[row]);
  add('SQNR dB', toNumber(d.sqnr));
  add('cosine', rows.cosine[row], 8);
  add('alpha', rows.alpha[row], 7);
  add('bias', rows.bias[row]);
  add('max abs', rows.maxAbs[row]);
  add('mean abs', toNumber(d.meanAbs));
  add('max rel', rows.maxRel[row]);
  add('mean rel', toNumber(d.meanRel));
  add('RMSE', toNumber(d.rmse));
  add('max ulp', rows.ulpMax[row]);
  add('mean ulp', toNumber(d.ulpMean));
  add('rel ≥ 0.1 %', percent(d.shareOver1e3));
  add('rel ≥ 0.5 %', percent(d.shareOver5e3));
  add('over the bound', d.overBound ? integer(d.overBound) : '');
  add('worst / bound', toNumber(d.worstExcess));
  add('elements', d.elements ? integer(d.elements) : '');
  add('differing', d.mismatches ? integer(d.mismatches) : '');
  add('NaN/inf apart', d.nonfinite ? integer(d.nonfinite) : '');
  add('sign flips', d.signFlips ? integer(d.signFlips) : '');
  add('±0 apart', d.zeroSignFlips ? integer(d.zeroSignFlips) : '');
  add('amplification', toNumber(d.amplification));
  add('judged as', d.judgedDtype ?? '');
  add('worst at', d.place ?? '');
  add(WORDS.golden + ' there', toNumber(d.goldenAt), 6);
  add(WORDS.target + ' there', toNumber(d.targetAt), 6);
  return list.childElementCount
    ? el('div', {class: 'block'}, el('h3', {}, 'Figures'), list,
      d.goldenRounded && el('p', {class: 'hint'},
        'The golden was rounded to the target’s dtype before differencing.'))
    : null;
}

const percent = (share) => share === undefined || share === null ? ''
  : figure(100 * share, 3) + ' %';

function reasonList(row) {
  const reasons = rowDetail(row).reasons;
  if (reasons.length === 0) {
    const why = rows.verdict[row] === MATCH
      ? rows.error[row] === 0 ? 'No difference found.'
        : 'Within the standard’s bounds.' : '';
    return why && el('p', {class: 'hint'}, why);
  }
  return el('ul', {class: 'reasons'}, reasons.map((r) =>
    el('li', {class: r.note ? 'note' : 'decides'},
      el('span', {class: 'tag'}, r.note ? 'note' : r.criterion), ' ', r.text)));
}

// "histogram": [first bucket, count, count, ...].
function histogramCanvas(title, histogram, label) {
  if (!histogram || histogram.length < 2) return null;
  const canvas = el('canvas', {role: 'img', 'aria-label': title});
  const first = histogram[0], counts = histogram.slice(1);
  const tick = {color: cssColor('--muted'), font: {size: 10}, maxRotation: 0,
    autoSkipPadding: 10};
  queueMicrotask(() => histogramCharts.push(new Chart(canvas, {
    type: 'bar',
    data: {labels: counts.map((_, i) => label(first + i)),
      datasets: [{data: counts, backgroundColor: cssColor('--accent'),
        barPercentage: 1, categoryPercentage: 0.9}]},
    options: {animation: false, maintainAspectRatio: false,
      scales: {x: {grid: {display: false}, ticks: tick},
        y: {beginAtZero: true, grid: {color: cssColor('--line')},
          ticks: {...tick, maxTicksLimit: 4, precision: 0,
            callback: (v) => Intl.NumberFormat('en',
              {notation: 'compact'}).format(v)}}},
      plugins: {legend: {display: false},
        tooltip: {displayColors: false}}},
  })));
  return el('figure', {class: 'histogram'}, el('figcaption', {}, title),
    el('div', {}, canvas));
}

const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹';
const power = (exponent) => '2' + (exponent < 0 ? '⁻' : '') +
  String(Math.abs(exponent)).replace(/\d/g, (d) => SUPERSCRIPTS[d]);

// Where in the tensor the worst run of elements lies, and how bad it is there.
function blockView(size, block, elements) {
  if (!block) return null;
  const mark = el('span');
  const share = elements ? block.begin / elements : 0;
  mark.style.left = 100 * share + '%';
  mark.style.width = Math.max(0.6, elements ? 100 * size / elements : 0.6) +
    '%';
  const rmse = toNumber(block.rmse), rms = toNumber(block.goldenRms);
  return el('div', {class: 'strip-row'},
    el('div', {}, 'worst ' + size + ' in a row from ', el('b', {}, block.place),
      ': RMSE ' + figure(rmse) + (rms > 0
        ? ', ' + figure(100 * rmse / rms, 2) + ' % of the golden’s RMS'
        : '')),
    el('div', {class: 'strip', title: 'position in the tensor'}, mark));
}

function distribution(row) {
  const d = rowDetail(row);
  const parts = [
    histogramCanvas('relative error, elements per power of two',
      d.relHistogram, (b) => (b === 0 ? '<' : b === 63 ? '≥' : '') +
        power(b - 64 + (b === 0 ? 1 : 0))),
    histogramCanvas('ulp apart, elements up to', d.ulpHistogram,
      (b) => b < 10 ? String(2 ** b) : power(b)),
    blockView(32, d.block32, d.elements),
    blockView(128, d.block128, d.elements)].filter(Boolean);
  if (parts.length === 0) return null;
  return el('div', {class: 'block'}, el('h3', {}, 'Where the error is'), parts);
}

function showDetail(row) {
  while (histogramCharts.length) histogramCharts.pop().destroy();
  const pane = byId('detail');
  if (row < 0) {
    pane.replaceChildren(el('p', {class: 'hint empty-pane'},
      'Select a row to see its figures, both sides and the command that ' +
      'compares it alone.'));
    return;
  }
  const [op, leaf] = nameParts(row);
  const group = groupOf(row);
  const opIndex = rows.op[row];
  const stack = page.ops.stack[opIndex];
  const cause = rowDetail(row).cause, again = reproduce(row);
  const where = WORDS.flows || page.groups.length > 1
    ? 'step ' + group.step + ', rank ' + group.rank + ' · ' : '';
  const what = WORDS.flows ? ROLES[rows.role[row]] + ' · evidence: ' +
    EVIDENCE[rows.evidence[row]] : WORDS.record;
  pane.replaceChildren(...[
    el('div', {class: 'detail-head'}, rowBadge(row),
      el('span', {class: 'hint'}, where + what)),
    el('h3', {class: 'detail-name'}, op, el('b', {}, op ? '.' + leaf : leaf)),
    reasonList(row), cause && el('p', {class: 'cause'}, cause),
    again && command(again),
    el('div', {class: 'block'}, el('h3', {}, 'Both sides'), factTable(row)),
    figureTable(row), distribution(row),
    WORDS.flows && el('div', {class: 'block'}, el('h3', {}, 'Operator'),
      breadcrumb(callPath(opIndex).map(opName), opName(opIndex)),
      neighbourhood(opIndex, row)),
    stack >= 0 && stackView(page.stacks[stack].map((s) => strings[s])),
  ].filter(Boolean));
  pane.scrollTop = 0;
}
