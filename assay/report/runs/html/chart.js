// Charts of a figure: every run over the band, and the differences below.

const runColor = (run) => cssColor('--run-' + (run === 0 ? 0
  : 1 + (run - 1) % 5));

const FIGURE_TEXT = {
  loss: 'Loss', grad_norm: 'Gradient norm', lr: 'Learning rate',
  param_norm: 'Parameter norm', update_ratio: 'Update / weight',
  tokens_per_second: 'Tokens per second', seconds: 'Seconds a step',
  peak_rss_bytes: 'Peak memory of the process',
  device_peak_bytes: 'Peak memory of the device',
};
const figureTitle = (name) => FIGURE_TEXT[name] ?? name;

function figureText(name, value) {
  if (name.endsWith('_bytes') && Number.isFinite(value)) return bytes(value);
  return figure(value, 4).replace(/\.?0+e/, 'e');
}

// Speed and memory are read against nothing at all.
const fromZero = (name) => name.endsWith('_bytes') ||
  name === 'tokens_per_second' || name === 'seconds';

// A value that a logarithmic axis cannot show is a gap.
const onAxis = (value, log) =>
  value === null || (log && !(value > 0)) ? NaN : value;

const points = (steps, values, log) =>
  steps.map((step, i) => ({x: step, y: onAxis(values[i], log)}));

function lineSet(data, color, extra = {}) {
  return {data, borderColor: color, backgroundColor: color, borderWidth: 1.6,
    pointRadius: data.length < 40 ? 2.5 : 0, pointHoverRadius: 4, tension: 0,
    spanGaps: true, ...extra};
}

function bandSets(panel, log) {
  if (!panel.low) return [];
  const edge = {borderWidth: 0, pointRadius: 0, pointHoverRadius: 0,
    backgroundColor: cssColor('--band'), spanGaps: true};
  return [
    {...edge, data: points(panel.steps, panel.low, log), fill: false},
    {...edge, data: points(panel.steps, panel.high, log), fill: '-1'},
  ];
}

// A vertical line where a run leaves the band for good.
function leavingSets(panel) {
  const sets = [];
  page.pairs.forEach((pair, i) => {
    const curve = pair.curves.find((c) => c.figure === panel.figure);
    if (!curve?.leaves_for_good) return;
    const {step, value} = curve.leaves_for_good;
    sets.push({data: [{x: step, y: toNumber(value)}], showLine: false,
      pointStyle: 'circle', pointRadius: 7, pointHoverRadius: 7,
      borderWidth: 2, borderColor: runColor(i + 1),
      backgroundColor: 'transparent'});
  });
  return sets;
}

function chartOptions({panel, log, late}, names) {
  const grid = {color: cssColor('--line'), drawTicks: false,
    borderColor: cssColor('--line')};
  const ticks = {color: cssColor('--muted'), padding: 8, font: {size: 11},
    maxRotation: 0, autoSkip: true};
  const text = (value) => figureText(panel.figure, value);
  return {
    animation: false, maintainAspectRatio: false, parsing: false,
    normalized: true, interaction: {mode: 'index', intersect: false},
    scales: {
      x: {type: 'linear', min: late ? panel.steps[panel.steps.length >> 1]
        : panel.steps[0], max: panel.steps[panel.steps.length - 1], grid,
        ticks: {...ticks, maxTicksLimit: 9,
          callback: (v) => Number.isInteger(v) ? integer(v) : ''}},
      y: {type: log ? 'logarithmic' : 'linear', grid,
        beginAtZero: fromZero(panel.figure),
        afterFit: (axis) => { axis.width = 76; },
        ticks: {...ticks, maxTicksLimit: 6, callback: text}},
    },
    plugins: {
      legend: {display: false},
      tooltip: {
        filter: (item) => names[item.datasetIndex] !== undefined,
        callbacks: {
          title: (items) => items.length ? 'step ' + integer(items[0].raw.x)
            : '',
          label: (item) => names[item.datasetIndex] + ': ' + text(item.raw.y),
        },
      },
    },
  };
}

const runName = (run) => page.runs[run].path.split('/').pop();

// Draws again from its data when the theme or an axis changes.
class RunChart {
  constructor(panel, canvas, kind) {
    Object.assign(this, {panel, canvas, kind, late: false,
      log: kind === 'differences'});
  }

  draw() {
    this.chart?.destroy();
    const differences = this.kind === 'differences';
    const band = differences ? [] : bandSets(this.panel, this.log);
    const names = band.map(() => undefined);
    const curves = differences ? this.panel.differences : this.panel.runs;
    const sets = curves.map((values, i) => {
      const run = differences ? i + 1 : i;
      names.push(runName(run));
      return lineSet(points(this.panel.steps, values, this.log),
        runColor(run), {order: run === 0 ? 1 : 0});
    });
    const marks = differences ? [] : leavingSets(this.panel);
    this.chart = new Chart(this.canvas, {type: 'line',
      data: {datasets: [...band.map((set) => ({...set, order: 2})), ...sets,
        ...marks]},
      options: chartOptions(this, names)});
  }
}
