// The virtual table: only the rows in view are in the document.

const ROW_HEIGHT = 30;
const OVERSCAN = 8;

const COLUMNS = [
  {key: 'row', title: '#', number: true, value: (r) => r,
    text: (r) => integer(r)},
  {key: 'verdict', title: 'verdict', value: (r) => verdictRank(r)},
  {key: 'name', title: 'name', value: null},
  {key: 'error', title: 'rel. L2', number: true, value: (r) => rows.error[r]},
  {key: 'maxAbs', title: 'max abs', number: true, value: (r) => rows.maxAbs[r]},
  {key: 'ulpMax', title: 'max ulp', number: true, value: (r) => rows.ulpMax[r]},
  {key: 'alpha', title: 'alpha − 1', number: true,
    value: (r) => rows.alpha[r] - 1, rank: Math.abs},
];

// Worst first: born and other causes, inherited, incomplete, empty, match.
function verdictRank(row) {
  switch (rows.verdict[row]) {
    case MISMATCH: return rows.origin[row] === INHERITED ? 3 : 4;
    case INCOMPLETE: return 2;
    case EMPTY: return 1;
    default: return 0;
  }
}

class Table {
  constructor(onSelect) {
    this.body = byId('grid-body');
    this.space = byId('grid-space');
    this.list = [];
    this.sort = {key: 'row', down: false};
    this.onSelect = onSelect;
    this.selected = -1;
    this.drawn = new Map();  // position -> element
    this.drawHead();
    this.body.addEventListener('scroll', () => this.schedule(),
      {passive: true});
    this.body.addEventListener('keydown', (event) => this.onKey(event));
    new ResizeObserver(() => this.schedule()).observe(this.body);
  }

  drawHead() {
    byId('grid-head').append(...COLUMNS.map((column) => {
      const button = el('button', {type: 'button',
        onclick: () => this.sortBy(column.key)}, column.title);
      return el('div', {role: 'columnheader', class: 'cell ' + column.key +
        (column.number ? ' number' : ''), 'data-key': column.key,
      'aria-sort': 'none'}, button);
    }));
  }

  sortBy(key) {
    const down = this.sort.key === key ? !this.sort.down : key !== 'row' && key !== 'name';
    this.sort = {key, down};
    this.show(this.list);
  }

  // `list`: row numbers in execution order.
  show(list) {
    this.list = list;
    this.order = this.sorted(list);
    for (const cell of byId('grid-head').children) {
      const own = cell.dataset.key === this.sort.key;
      cell.setAttribute('aria-sort',
        own ? (this.sort.down ? 'descending' : 'ascending') : 'none');
    }
    this.space.style.height = this.order.length * ROW_HEIGHT + 'px';
    byId('rows').setAttribute('aria-rowcount', this.order.length);
    this.forget();
    this.body.scrollTop = 0;
    this.schedule();
  }

  // Unknown figures go last whichever way the rest is sorted.
  sorted(list) {
    const {key, down} = this.sort;
    if (key === 'row') return down ? [...list].reverse() : list;
    const sign = down ? -1 : 1;
    if (key === 'name') {
      const names = new Map(list.map((r) => [r, rowName(r)]));
      const compare = new Intl.Collator('en', {numeric: true}).compare;
      return [...list].sort((a, b) =>
        sign * compare(names.get(a), names.get(b)) || a - b);
    }
    const column = COLUMNS.find((c) => c.key === key);
    const rank = column.rank ?? ((v) => v);
    const values = new Float64Array(rows.count);
    for (const r of list) values[r] = rank(column.value(r));
    return [...list].sort((a, b) => {
      const x = values[a], y = values[b];
      const nx = Number.isNaN(x), ny = Number.isNaN(y);
      if (nx || ny) return nx - ny || a - b;
      return x === y ? a - b : sign * (x < y ? -1 : 1);
    });
  }

  schedule() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  forget() {
    for (const node of this.drawn.values()) node.remove();
    this.drawn.clear();
  }

  draw() {
    const top = this.body.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - OVERSCAN);
    const last = Math.min(this.order.length,
      Math.ceil((top + this.body.clientHeight) / ROW_HEIGHT) + OVERSCAN);
    for (const [at, node] of this.drawn) {
      if (at >= first && at < last) continue;
      node.remove();
      this.drawn.delete(at);
    }
    for (let at = first; at < last; ++at) {
      if (this.drawn.has(at)) continue;
      const node = this.rowElement(this.order[at], at);
      this.space.append(node);
      this.drawn.set(at, node);
    }
  }

  rowElement(row, at) {
    const node = el('div', {role: 'row', 'aria-rowindex': at + 1,
      'data-row': row, 'aria-selected': row === this.selected,
      class: 'grid-row ' + VERDICTS[rows.verdict[row]],
      onclick: () => this.onSelect(row)},
    COLUMNS.map((column) => this.cell(column, row)));
    node.style.top = at * ROW_HEIGHT + 'px';
    return node;
  }

  cell(column, row) {
    const attributes = {role: 'gridcell', class: 'cell ' + column.key +
      (column.number ? ' number' : '')};
    if (column.key === 'verdict')
      return el('div', attributes, badge(rows.verdict[row], rows.origin[row]));
    if (column.key === 'name') {
      const [head, tail] = nameForColumn(row);
      return el('div', {...attributes, title: rowName(row)},
        el('span', {class: 'head-part'}, head),
        el('span', {class: 'tail-part'}, tail));
    }
    return el('div', attributes,
      column.text ? column.text(row) : figure(column.value(row)));
  }

  // Marks the selection; `reveal` scrolls to it where the filter lets it.
  select(row, reveal) {
    this.selected = row;
    for (const node of this.drawn.values())
      node.setAttribute('aria-selected', Number(node.dataset.row) === row);
    if (reveal) this.reveal(this.order.indexOf(row));
  }

  reveal(at) {
    if (at < 0) return;
    const top = at * ROW_HEIGHT, height = this.body.clientHeight;
    if (top < this.body.scrollTop)
      this.body.scrollTop = top;
    else if (top + ROW_HEIGHT > this.body.scrollTop + height)
      this.body.scrollTop = top - height / 2;
    this.schedule();
  }

  onKey(event) {
    const pageRows = Math.floor(this.body.clientHeight / ROW_HEIGHT) - 1;
    const at = this.order.indexOf(this.selected);
    const moves = {ArrowDown: at + 1, ArrowUp: at - 1,
      PageDown: at + pageRows, PageUp: at - pageRows,
      Home: 0, End: this.order.length - 1};
    if (!(event.key in moves) || this.order.length === 0) return;
    event.preventDefault();
    const next = Math.min(this.order.length - 1, Math.max(0, moves[event.key]));
    this.onSelect(this.order[next]);
    this.reveal(next);
  }
}
