// The chart of one figure along the execution order.

const MAX_POINTS = 5000;

// Chart classes: match, inherited mismatch, other mismatch, not compared.
const CLASSES = [
  {label: 'match', verdict: MATCH, color: '--match', radius: 1.8,
    style: 'circle'},
  {label: 'inherited mismatch', verdict: MISMATCH, color: '--inherited',
    radius: 3, style: 'rectRot'},
  {label: 'mismatch', verdict: MISMATCH, color: '--mismatch', radius: 5,
    style: 'crossRot'},
  {label: 'incomplete', verdict: INCOMPLETE, color: '--incomplete', radius: 4,
    style: 'triangle'},
];

function chartClass(row) {
  if (rows.verdict[row] === INCOMPLETE) return 3;
  if (rows.verdict[row] !== MISMATCH) return 0;
  return rows.origin[row] === INHERITED ? 1 : 2;
}

// Keeps the largest value of each class in each of equally wide buckets, so
// that no peak disappears.
function downsample(list, values) {
  const points = CLASSES.map(() => new Map());
  const buckets = Math.floor(MAX_POINTS / CLASSES.length);
  const width = Math.max(1, rows.count / buckets);
  const thin = list.length > MAX_POINTS;
  for (const row of list) {
    const value = values[row];
    const kind = chartClass(row);
    if (Number.isNaN(value) && kind < 2) continue;
    const key = thin ? Math.floor(row / width) : row;
    const kept = points[kind].get(key);
    if (kept === undefined || value > values[kept] ||
        Number.isNaN(values[kept]))
      points[kind].set(key, row);
  }
  return points.map((map) => [...map.values()]);
}

class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.key = 'error';
    this.list = [];
    this.selected = -1;
  }

  // Exact zeros sit on a floor below the smallest figure, what is not finite
  // or not known on a ceiling above the largest: nothing is left out.
  scale(values) {
    let low = Infinity, high = -Infinity;
    for (const row of this.list) {
      const value = values[row];
      if (!(value > 0) || !Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (low > high) [low, high] = [1e-8, 1];
    this.floor = Math.floor(Math.log10(low)) - 1;
    this.ceiling = Math.ceil(Math.log10(high)) + 1;
  }

  height(value) {
    if (value === 0) return this.floor;
    return Number.isFinite(value) ? Math.log10(value) : this.ceiling;
  }

  draw(list) {
    this.list = list;
    const values = rows[this.key];
    this.scale(values);
    const points = downsample(list, values);
    const datasets = CLASSES.map((c, i) => ({
      data: points[i].map((row) => ({x: row, y: this.height(values[row]), row})),
      pointStyle: c.style, pointHoverRadius: 6, clip: 8,
      pointRadius: list.length < 500 ? Math.max(3.5, c.radius) : c.radius,
      borderColor: cssColor(c.color), backgroundColor: cssColor(c.color),
      borderWidth: c.style === 'crossRot' ? 2 : 0, order: 4 - i,
    }));
    datasets.push(this.marker());
    if (this.chart) {
      this.chart.destroy();
    }
    this.chart = new Chart(this.canvas, {
      type: 'scatter', data: {datasets}, options: this.options(),
    });
    const drawn = points.reduce((sum, p) => sum + p.length, 0);
    byId('timeline-hint').textContent = list.length > MAX_POINTS
      ? integer(drawn) + ' of ' + plural(list.length, 'row') +
        ' drawn, peaks kept' : plural(list.length, 'row');
  }

  marker() {
    const shown = this.selected >= 0;
    const value = shown ? rows[this.key][this.selected] : 0;
    return {data: shown ? [{x: this.selected, y: this.height(value),
      row: this.selected}] : [],
    pointStyle: 'circle', pointRadius: 9, pointHoverRadius: 9, order: 0,
    backgroundColor: 'transparent', borderColor: cssColor('--ink'),
    borderWidth: 1.5};
  }

  mark(row) {
    this.selected = row;
    if (!this.chart) return;
    this.chart.data.datasets[CLASSES.length] = this.marker();
    this.chart.update('none');
  }

  tick(value) {
    if (value === this.floor) return 'equal';
    if (value === this.ceiling) return '∞ / n.a.';
    return '1e' + value;
  }

  // The floor, the ceiling and whole powers of ten between them.
  ticks() {
    const step = Math.max(1, Math.ceil((this.ceiling - this.floor) / 7));
    const values = [this.floor];
    for (let v = this.floor + 1; v < this.ceiling; ++v)
      if (v % step === 0) values.push(v);
    return [...values, this.ceiling].map((value) => ({value}));
  }

  options() {
    const grid = {color: cssColor('--line'), drawTicks: false,
      borderColor: cssColor('--line')};
    const ticks = {color: cssColor('--muted'), padding: 8,
      font: {size: 11}, maxRotation: 0};
    return {
      animation: false, maintainAspectRatio: false, parsing: false,
      normalized: true,
      interaction: {mode: 'nearest', intersect: false},
      onClick: (event, hits) => {
        if (hits.length === 0) return;
        const {datasetIndex, index} = hits[0];
        choose(this.chart.data.datasets[datasetIndex].data[index].row, true);
      },
      scales: {
        x: {type: 'linear', min: 0, max: Math.max(1, rows.count - 1), grid,
          ticks: {...ticks, callback: (v) => opLabel(v), maxTicksLimit: 7}},
        y: {min: this.floor - 0.35, max: this.ceiling + 0.35, grid,
          afterBuildTicks: (axis) => { axis.ticks = this.ticks(); },
          ticks: {...ticks, callback: (v) => this.tick(v)}},
      },
      plugins: {legend: {display: false}, tooltip: this.tooltip()},
    };
  }

  tooltip() {
    return {
      displayColors: false, filter: (item) => item.datasetIndex < CLASSES.length,
      callbacks: {
        label: (item) => {
          const row = item.raw.row;
          return [rowName(row).slice(-80), VERDICTS[rows.verdict[row]] + ', ' +
            figure(rows[this.key][row])];
        },
      },
    };
  }
}

// The row number, as an axis label.
const opLabel = (value) =>
  Number.isInteger(value) ? integer(value) : '';

function drawLegend() {
  const marks = ['●', '◆', '✕', '▲'];
  byId('timeline-legend').append(...CLASSES.map((c, i) => {
    if (!WORDS.flows && c.color === '--inherited') return '';
    const mark = el('i', {'aria-hidden': 'true'}, marks[i]);
    mark.style.color = 'var(' + c.color + ')';
    return el('span', {}, mark, c.label);
  }), el('span', {class: 'hint'}, 'click a point to select its row'));
}
