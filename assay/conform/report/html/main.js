// Columns, filters, selection: what ties the parts of the page together.

// Worst first: mismatch, incomplete, empty, match.
const RANK = [0, 3, 2, 1];

const COLUMNS = [
  {key: 'row', title: '#', number: true, value: (i) => i,
    text: (i) => integer(i)},
  {key: 'verdict', title: 'verdict', value: (i) => RANK[cases[i].code],
    draw: (i, attributes) => el('div', attributes, caseBadge(cases[i]))},
  {key: 'module', title: 'module', collate: true,
    value: (i) => cases[i].module},
  {key: 'name', title: 'case', collate: true, value: (i) => cases[i].case},
  {key: 'parameters', title: 'parameters', collate: true,
    value: (i) => parameterText(cases[i])},
  {key: 'error', title: 'rel. L2', number: true, value: (i) => errors[i]},
  {key: 'ulpMax', title: 'max ulp', number: true, value: (i) => ulps[i]},
  {key: 'time', title: 'time', number: true,
    value: (i) => toNumber(cases[i].seconds),
    text: (i) => seconds(toNumber(cases[i].seconds))},
  {key: 'ratio', title: '/ golden', number: true,
    value: (i) => ratio(toNumber(cases[i].seconds),
      toNumber(cases[i].golden_seconds)),
    text: (i) => times(ratio(toNumber(cases[i].seconds),
      toNumber(cases[i].golden_seconds)))},
];

// A case that was not compared is called by how it ended.
const caseBadge = (c) => badge(c.code, c.code === INCOMPLETE &&
  c.ending !== 'compared' ? ENDING_TEXT[c.ending] : VERDICTS[c.code]);

const filters = {words: [], verdicts: new Set(), module: '', ending: ''};
let filtered = [];
const table = new Grid({columns: COLUMNS, order: 'row',
  verdict: (i) => cases[i].code, onSelect: (i) => choose(i, false)});

function matches(i, texts) {
  const c = cases[i];
  return (filters.verdicts.size === 0 || filters.verdicts.has(c.code)) &&
    (filters.module === '' || c.moduleIndex === Number(filters.module)) &&
    (filters.ending === '' || c.ending === filters.ending) &&
    filters.words.every((word) => texts[i].includes(word));
}

function applyFilters() {
  const texts = filters.words.length ? searchText() : null;
  filtered = [...cases.keys()].filter((i) => matches(i, texts));
  table.show(filtered);
  const all = filtered.length === cases.length;
  byId('rows-hint').textContent = all ? plural(cases.length, 'case')
    : integer(filtered.length) + ' of ' + plural(cases.length, 'case');
  byId('clear').hidden = all;
  pressChips(filters.verdicts);
}

function clearFilters() {
  filters.words = [];
  filters.verdicts.clear();
  filters.module = filters.ending = '';
  for (const id of ['search', 'module', 'ending']) byId(id).value = '';
  applyFilters();
}

function showRows() {
  applyFilters();
  byId('rows-title').scrollIntoView({block: 'start'});
}

function showOnly(verdict) {
  clearFilters();
  filters.verdicts.add(verdict);
  showRows();
}

function showModule(index) {
  clearFilters();
  byId('module').value = filters.module = String(index);
  showRows();
}

// Shows a case everywhere; `reveal` makes sure that the table has it in view.
function select(i, reveal) {
  if (i >= 0 && reveal && !filtered.includes(i)) clearFilters();
  table.select(i, reveal);
  showDetail(i);
}

// A case chosen by the reader also goes into the address, to be shared.
function choose(i, reveal) {
  select(i, reveal);
  history.replaceState(null, '', '#' + encodeURIComponent(caseName(i)));
}

function findCase(name) {
  return name === '' ? -1 : [...cases.keys()].findIndex((i) =>
    caseName(i) === name);
}

function chooseNamed(name) {
  const i = findCase(name);
  if (i < 0) return;
  choose(i, true);
  byId('rows-title').scrollIntoView({block: 'start'});
}

function setUpFilters() {
  fillChips(filters.verdicts, applyFilters);
  byId('search').addEventListener('input', debounce(() => {
    filters.words = byId('search').value.toLowerCase().split(/\s+/)
      .filter(Boolean);
    applyFilters();
  }, 120));
  byId('clear').addEventListener('click', clearFilters);
  for (const id of ['module', 'ending'])
    byId(id).addEventListener('change', (event) => {
      filters[id] = event.target.value;
      applyFilters();
    });
  byId('module').append(...page.modules.map((m, i) =>
    el('option', {value: i}, m.tier === 'real' ? m.module + ' (real)'
      : m.module)));
  byId('ending').append(...Object.keys(page.endings).map((ending) =>
    el('option', {value: ending}, ENDING_TEXT[ending])));
}

// The first mismatch, else the first case that was not compared.
function firstOfNote() {
  for (const verdict of [MISMATCH, INCOMPLETE]) {
    const i = cases.findIndex((c) => c.code === verdict);
    if (i >= 0) return i;
  }
  return -1;
}

document.title = 'Assay: ' + page.verdict + ', ' +
  page.target.implementation;
drawSides();
drawBanner();
drawModules();
drawStale();
drawApi();
drawWhat();
setUpFilters();
setUpTheme(() => {});
setUpKeys(clearFilters);
setUpPrinting(table);
if (page.verdict !== 'match') table.sort = {key: 'verdict', down: true};
applyFilters();
const addressed = findCase(nameInAddress());
select(addressed >= 0 ? addressed : firstOfNote(), true);
document.documentElement.dataset.ready = 'true';
