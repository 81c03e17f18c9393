// The virtual table: only the rows in view are in the document.

const ROW_HEIGHT = 30;
const OVERSCAN = 8;

class Grid {
  // `columns`: {key, title, number, value(item), rank(value), text(item),
  // collate, draw(item, attributes)}; `value` is what it sorts by and shows, a
  // number or, with `collate`, a text. `order`: the key of the order that
  // items are in. `verdict(item)` gives a line its class.
  constructor({columns, order, verdict, onSelect}) {
    Object.assign(this, {columns, natural: order, verdict, onSelect});
    this.body = byId('grid-body');
    this.space = byId('grid-space');
    this.list = this.order = [];
    this.sort = {key: order, down: false};
    this.selected = -1;
    this.drawn = new Map();  // position -> element
    this.drawHead();
    this.body.addEventListener('scroll', () => this.schedule(),
      {passive: true});
    this.body.addEventListener('keydown', (event) => this.onKey(event));
    new ResizeObserver(() => this.schedule()).observe(this.body);
  }

  drawHead() {
    byId('grid-head').append(...this.columns.map((column) => {
      const button = el('button', {type: 'button',
        onclick: () => this.sortBy(column.key)}, column.title);
      return el('div', {role: 'columnheader', class: 'cell ' + column.key +
        (column.number ? ' number' : ''), 'data-key': column.key,
      'aria-sort': 'none'}, button);
    }));
  }

  sortBy(key) {
    const column = this.columns.find((c) => c.key === key);
    const down = this.sort.key === key ? !this.sort.down
      : key !== this.natural && !column.collate;
    this.sort = {key, down};
    this.show(this.list);
  }

  // `list`: item numbers, ascending.
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
    if (key === this.natural) return down ? [...list].reverse() : list;
    const sign = down ? -1 : 1;
    const column = this.columns.find((c) => c.key === key);
    const rank = column.rank ?? ((v) => v);
    const size = list.length === 0 ? 0 : list[list.length - 1] + 1;
    const values = column.collate ? new Array(size) : new Float64Array(size);
    for (const item of list) values[item] = rank(column.value(item));
    if (column.collate) {
      const compare = new Intl.Collator('en', {numeric: true}).compare;
      return [...list].sort((a, b) =>
        sign * compare(values[a], values[b]) || a - b);
    }
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

  rowElement(item, at) {
    const node = el('div', {role: 'row', 'aria-rowindex': at + 1,
      'data-row': item, 'aria-selected': item === this.selected,
      class: 'grid-row ' + VERDICTS[this.verdict(item)],
      onclick: () => this.onSelect(item)},
    this.columns.map((column) => this.cell(column, item)));
    node.style.top = at * ROW_HEIGHT + 'px';
    return node;
  }

  cell(column, item) {
    const attributes = {role: 'gridcell', class: 'cell ' + column.key +
      (column.number ? ' number' : '')};
    if (column.draw) return column.draw(item, attributes);
    const text = column.text ? column.text(item)
      : column.number ? figure(column.value(item)) : column.value(item);
    return el('div', column.number ? attributes
      : {...attributes, title: text}, text);
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
