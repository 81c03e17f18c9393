// Filters, selection, theme: what ties the parts of the page together.

const filters = {words: [], op: '', verdicts: new Set(), role: -1, group: -1};
const timeline = new Timeline(byId('timeline'));
const table = new Grid({columns: COLUMNS, order: 'row',
  verdict: (row) => rows.verdict[row], onSelect: (row) => choose(row, false)});
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
  pressChips(filters.verdicts);
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
  fillChips(filters.verdicts, applyFilters);
  byId('role').append(...ROLES.map((role, i) => [role, i])
    .filter(([, i]) => rows.role.includes(i))
    .map(([role, i]) => el('option', {value: i}, role)));
  byId('role').hidden = new Set(rows.role).size < 2;
  byId('group').hidden = page.groups.length < 2;
  byId('group').append(...page.groups.map((g, i) =>
    el('option', {value: i}, 'step ' + g.step + ', rank ' + g.rank)));
}

document.title = 'Assay: ' + page.meta.verdict +
  (page.divergence ? ', ' + page.divergence.name : '');
drawSides();
drawBanner();
drawDivergence();
drawLegend();
byId('timeline-card').hidden = !HAS_FIGURES;
byId('rows').classList.toggle('texts', !HAS_FIGURES);
if (!WORDS.flows)
  byId('timeline-title').textContent = 'Error of every ' + WORDS.record;
setUpFilters();
setUpTheme(() => {
  timeline.draw(filtered);
  showDetail(table.selected);
});
setUpKeys(clearFilters);
setUpPrinting(table);
byId('timeline-figure').addEventListener('change', (event) => {
  timeline.key = event.target.value;
  timeline.draw(filtered);
});
applyFilters();
if (!selectByName(nameInAddress()))
  select(page.divergence ? page.divergence.row : -1, true);
document.documentElement.dataset.ready = 'true';
