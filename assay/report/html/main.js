// Filters, selection, theme: what ties the parts of the page together.

const filters = {words: [], op: '', verdicts: new Set(), role: -1, group: -1};
const timeline = new Timeline(byId('timeline'));
const table = new Table((row) => choose(row, false));
let filtered = [];

function matches(row, texts) {
  if (filters.verdicts.size && !filters.verdicts.has(rows.verdict[row]))
    return false;
  if (filters.role >= 0 && rows.role[row] !== filters.role) return false;
  if (filters.group >= 0 && page.ops.group[rows.op[row]] !== filters.group)
    return false;
  if (filters.op && !opName(rows.op[row]).toLowerCase().includes(filters.op))
    return false;
  return filters.words.every((word) => texts[row].includes(word));
}

function applyFilters() {
  const texts = filters.words.length ? searchText() : null;
  const list = [];
  for (let row = 0; row < rows.count; ++row)
    if (matches(row, texts)) list.push(row);
  filtered = list;
  table.show(list);
  timeline.draw(list);
  byId('rows-hint').textContent = list.length === rows.count
    ? plural(rows.count, 'row')
    : integer(list.length) + ' of ' + plural(rows.count, 'row');
  byId('clear').hidden = list.length === rows.count;
  for (const chip of byId('chips').children)
    chip.setAttribute('aria-pressed',
      filters.verdicts.has(Number(chip.dataset.verdict)));
}

function debounce(action, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds);
  };
}

function clearFilters() {
  filters.words = [];
  filters.op = '';
  filters.verdicts.clear();
  filters.role = filters.group = -1;
  for (const id of ['search', 'op', 'role', 'group']) byId(id).value = '';
  applyFilters();
}

function showOnly(verdict) {
  clearFilters();
  filters.verdicts.add(verdict);
  applyFilters();
  byId('rows-title').scrollIntoView({block: 'start'});
}

// Shows a row everywhere; `reveal` makes sure that the table has it in view.
function select(row, reveal) {
  if (row >= 0 && reveal && filtered.length < rows.count && !filtered.includes(row))
    clearFilters();
  table.select(row, reveal);
  timeline.mark(row);
  showDetail(row);
}

// A row chosen by the reader also goes into the address, to be shared.
function choose(row, reveal) {
  select(row, reveal);
  history.replaceState(null, '', '#' + encodeURIComponent(rowName(row)));
}

function nameInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return '';  // a malformed escape
  }
}

function selectByName(name) {
  for (let row = 0; row < rows.count; ++row) {
    if (rowName(row) !== name) continue;
    select(row, true);
    return true;
  }
  return false;
}

function setUpFilters() {
  const search = () => {
    filters.words = byId('search').value.toLowerCase().split(/\s+/)
      .filter(Boolean);
    filters.op = byId('op').value.trim().toLowerCase();
    applyFilters();
  };
  const soon = debounce(search, 120);
  byId('search').addEventListener('input', soon);
  byId('op').addEventListener('input', soon);
  byId('clear').addEventListener('click', clearFilters);
  byId('role').addEventListener('change', (event) => {
    filters.role = event.target.value === '' ? -1 : Number(event.target.value);
    applyFilters();
  });
  byId('group').addEventListener('change', (event) => {
    filters.group = event.target.value === '' ? -1 : Number(event.target.value);
    applyFilters();
  });
  fillChoices();
}

function fillChoices() {
  byId('chips').append(...[MISMATCH, INCOMPLETE, EMPTY, MATCH].map((v) =>
    el('button', {type: 'button', class: 'chip ' + VERDICTS[v],
      'data-verdict': v, 'aria-pressed': 'false', onclick: () => {
        if (!filters.verdicts.delete(v)) filters.verdicts.add(v);
        applyFilters();
      }}, el('i', {'aria-hidden': 'true'}, SYMBOLS[v]), VERDICTS[v])));
  byId('role').append(...ROLES.map((role, i) => [role, i])
    .filter(([, i]) => rows.role.includes(i))
    .map(([role, i]) => el('option', {value: i}, role)));
  byId('group').hidden = page.groups.length < 2;
  byId('group').append(...page.groups.map((g, i) =>
    el('option', {value: i}, 'step ' + g.step + ', rank ' + g.rank)));
}

function setUpTheme() {
  const redraw = () => {
    timeline.draw(filtered);
    showDetail(table.selected);
  };
  byId('theme').addEventListener('click', () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === 'dark'
      : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    redraw();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
}

function setUpKeys() {
  document.addEventListener('keydown', (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === '/' && !typing) {
      event.preventDefault();
      byId('search').focus();
    } else if (event.key === 'Escape' && typing) {
      clearFilters();
      byId('grid-body').focus();
    }
  });
}

// Printing shows the filtered rows, not the few in view.
function setUpPrinting() {
  const most = 300;
  addEventListener('beforeprint', () => {
    const count = Math.min(most, table.order.length);
    byId('grid-body').style.height = count * ROW_HEIGHT + 'px';
    table.draw();
  });
  addEventListener('afterprint', () => {
    byId('grid-body').style.height = '';
    table.schedule();
  });
}

document.title = 'Assay: ' + page.meta.verdict +
  (page.divergence ? ', ' + page.divergence.name : '');
drawSides();
drawBanner();
drawDivergence();
drawLegend();
setUpFilters();
setUpTheme();
setUpKeys();
setUpPrinting();
byId('timeline-figure').addEventListener('change', (event) => {
  timeline.key = event.target.value;
  timeline.draw(filtered);
});
applyFilters();
if (!selectByName(nameInAddress()))
  select(page.divergence ? page.divergence.row : -1, true);
document.documentElement.dataset.ready = 'true';
