// The page of training runs: verdict, charts, where they part, what ran.

const page = JSON.parse(byId('data').textContent);
const charts = [];

const judgedCurves = () => page.pairs.flatMap((pair, i) =>
  pair.curves.filter((c) => c.judged).map((c) => ({...c, run: i + 1})));

function drawSides() {
  const side = (label, run) => el('div', {}, el('dt', {}, label),
    el('dd', {title: run.path}, run.path,
      el('small', {}, plural(run.steps, 'step'))));
  byId('sides').append(side('reference', page.runs[0]));
  if (page.runs.length === 2) byId('sides').append(side('target', page.runs[1]));
  else byId('sides').append(el('div', {}, el('dt', {}, 'targets'),
    el('dd', {}, String(page.runs.length - 1))));
}

function verdictSentence() {
  const curves = judgedCurves();
  const first = curves.find((c) => c.verdict === page.verdict);
  if (!first) return 'No figure that is judged is in the logs';
  const name = figureTitle(first.figure) +
    (page.runs.length > 2 ? ' of ' + runName(first.run) : '');
  if (page.verdict === 'match')
    return 'Every judged figure agrees with the reference';
  return name + (page.verdict === 'mismatch' ? ' ' : ': ') + first.reason;
}

function ruleText() {
  const band = page.band;
  if (!band.there)
    return 'no band: ' + plural(band.runs, 'reference run') + ', ' +
      band.needs + ' are needed';
  return 'band of ' + plural(band.runs, 'reference run') +
    ': their extremes, and mean ± ' + figure(band.deviations) + ' sd over ' +
    plural(band.over_steps, 'step') + '; agrees with as many steps outside as ' +
    'chance puts there, and not the last ' + band.last_steps;
}

function drawBanner() {
  const counts = Object.fromEntries(VERDICTS.map((v) => [v, 0]));
  for (const curve of judgedCurves()) ++counts[curve.verdict];
  const smooth = page.options.smooth;
  fillBanner({verdict: VERDICTS.indexOf(page.verdict), counts,
    sentence: verdictSentence(), what: 'figures',
    hint: plural(judgedCurves().length, 'judged figure') +
      (smooth > 1 ? ', means of ' + smooth + ' steps' : ''),
    onCount: () => byId('rows-title').scrollIntoView({block: 'start'}),
    notices: page.warnings});
  byId('rule').textContent = ruleText();
}

function addChart(panel, canvas, kind) {
  const chart = new RunChart(panel, canvas, kind);
  charts.push(chart);
  return chart;
}

function canvasBox(label, low) {
  const canvas = el('canvas', {role: 'img', 'aria-label': label});
  return [canvas, el('div', {class: low ? 'chart low' : 'chart'}, canvas)];
}

// A button that turns a property of the charts on and off.
function toggle(text, property, list) {
  const button = el('button', {type: 'button', class: 'quiet ' + property,
    'aria-pressed': 'false'}, text);
  button.addEventListener('click', () => {
    const on = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', on);
    for (const chart of list) {
      chart[property] = on;
      chart.draw();
    }
  });
  return button;
}

function legend(panel) {
  const key = (run) => {
    const mark = el('i', {'aria-hidden': 'true'});
    mark.style.background = 'var(--run-' + (run === 0 ? 0
      : 1 + (run - 1) % 5) + ')';
    return el('span', {}, mark, run === 0 ? 'reference ' : '',
      el('code', {}, page.runs[run].path));
  };
  return el('div', {class: 'legend'}, page.runs.map((_, run) => key(run)),
    panel.low && el('span', {}, el('i', {class: 'band',
      'aria-hidden': 'true'}), 'band of ' + page.band.runs + ' reference runs'));
}

const drawnText = (panel) => panel.steps.length < panel.logged
  ? integer(panel.steps.length) + ' of ' + plural(panel.logged, 'step') +
    ' drawn, extremes kept' : plural(panel.logged, 'step');

// One judged figure: its curves and how far they are apart.
function judgedCard(panel) {
  const title = figureTitle(panel.figure);
  const [canvas, box] = canvasBox(title + ' of every run; the table below ' +
    'says where they part', false);
  const chart = addChart(panel, canvas, 'runs');
  const both = [chart];
  const card = el('section', {class: 'card', id: 'figure-' + panel.figure,
    'aria-label': title},
  el('div', {class: 'card-head'}, el('h2', {}, title),
    el('p', {class: 'hint'}, drawnText(panel)),
    el('div', {class: 'tools'}, toggle('second half', 'late', both),
      toggle('log scale', 'log', [chart]))), box);
  if (panel.differences.some((d) => d.some((v) => v > 0))) {
    const [below, lowBox] = canvasBox('Distance of every run from the ' +
      'reference', true);
    both.push(addChart(panel, below, 'differences'));
    card.append(el('h4', {}, 'distance from the reference'), lowBox);
  }
  card.append(legend(panel));
  byId('charts').append(card);
}

function shownPanel(panel) {
  const title = figureTitle(panel.figure);
  const [canvas, box] = canvasBox(title + ' of every run', false);
  addChart(panel, canvas, 'runs');
  const ratios = page.pairs.map((pair) =>
    pair.curves.find((c) => c.figure === panel.figure)?.mean_ratio)
    .filter((r) => r !== undefined);
  byId('panels').append(el('section', {class: 'panel', 'aria-label': title},
    el('header', {}, el('h3', {}, title), ratios.length > 0 &&
      el('span', {class: 'hint'}, 'mean ' + ratios.map((r) =>
        figure(toNumber(r)) + '×').join(', ') + ' of the reference')), box));
}

function drawPanels() {
  for (const panel of page.panels)
    (panel.judged ? judgedCard : shownPanel)(panel);
  byId('shown-card').hidden = !page.panels.some((p) => !p.judged);
  for (const chart of charts) chart.draw();
}

function growthText(curve) {
  const d = curve.doubling_steps;
  if (d === undefined) return '';
  return d === 0 ? 'at once' : 'doubles in ' + figure(toNumber(d)) + ' steps';
}

function outsideText(curve) {
  if (!page.band.there || curve.steps === 0) return '–';
  return [integer(curve.outside) + ' of ' + integer(curve.steps),
    el('small', {}, figure(100 * curve.allowed) + ' % may be')];
}

const colorKey = (run) => {
  const mark = el('i', {class: 'key', 'aria-hidden': 'true'});
  mark.style.background = 'var(--run-' + (1 + (run - 1) % 5) + ')';
  return mark;
};

function partRow(curve) {
  const first = curve.first_difference, largest = curve.largest_difference;
  const step = (point, text) => el('td', {class: 'number'},
    point ? integer(point.step) : '–', point && el('small', {}, text));
  const gap = (point) => figure(toNumber(point.difference));
  return el('tr', {}, el('td', {}, badge(VERDICTS.indexOf(curve.verdict))),
    el('th', {scope: 'row'}, colorKey(curve.run), runName(curve.run)),
    el('td', {}, figureTitle(curve.figure)),
    step(first, first && 'by ' + gap(first)),
    step(curve.first_outside, curve.first_outside && 'by ' +
      figure(toNumber(curve.first_outside.excess))),
    step(curve.leaves_for_good, curve.leaves_for_good && 'by ' +
      figure(toNumber(curve.leaves_for_good.excess))),
    el('td', {class: 'number'}, outsideText(curve)),
    step(largest, largest && gap(largest)),
    el('td', {}, growthText(curve) || '–'),
    el('td', {class: 'why'}, curve.reason));
}

function drawParts() {
  const head = [['verdict'], ['run'], ['figure'], ['differs at', 'n'],
    ['first outside', 'n'], ['for good from', 'n'], ['outside', 'n'],
    ['largest at', 'n'], ['growth'], ['why']];
  byId('rows').append(el('thead', {}, el('tr', {}, head.map(([title, n]) =>
    el('th', {class: n ? 'number' : ''}, title)))),
  el('tbody', {}, judgedCurves().map(partRow)));
}

function drawWhat() {
  const runs = [...page.runs, ...page.seeds];
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.facts)))]
    .filter((name) => name !== 'format' && name !== 'version');
  const label = (run, i) => i === 0 ? 'reference'
    : i < page.runs.length ? 'target' : 'seed';
  const row = (title, texts, mark = true) => el('tr', {}, el('th', {scope: 'row'}, title),
    texts.map((text, i) => el('td', {class: 'text' + (mark && i > 0 &&
      i < page.runs.length && text !== texts[0] ? ' differs' : '')},
    text || '–')));
  byId('what').append(
    el('thead', {}, el('tr', {}, el('th'),
      runs.map((run, i) => el('th', {}, label(run, i))))),
    el('tbody', {}, row('log', runs.map((run) => run.path), false),
      row('steps', runs.map((run) => integer(run.steps) + ', ' +
        integer(run.first_step) + ' to ' + integer(run.last_step))),
      names.map((name) => row(name, runs.map((run) =>
        run.facts[name] ?? '')))));
  byId('again').append(command(page.command));
}

document.title = 'Assay: ' + page.verdict + ', training runs';
drawSides();
drawBanner();
drawPanels();
drawParts();
drawWhat();
setUpTheme(() => charts.forEach((chart) => chart.draw()));
document.documentElement.dataset.ready = 'true';
