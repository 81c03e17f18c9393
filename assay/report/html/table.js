// The columns of the table of rows.

// Worst first: born and other causes, inherited, incomplete, empty, match.
function verdictRank(row) {
  switch (rows.verdict[row]) {
    case MISMATCH: return rows.origin[row] === INHERITED ? 3 : 4;
    case INCOMPLETE: return 2;
    case EMPTY: return 1;
    default: return 0;
  }
}

function nameCell(row, attributes) {
  const [head, tail] = nameForColumn(row);
  return el('div', {...attributes, title: rowName(row)},
    el('span', {class: 'head-part'}, head),
    el('span', {class: 'tail-part'}, tail));
}

function textColumn(key, title, value) {
  return {key, title, collate: true, value,
    draw: (r, attributes) => el('div', {...attributes, title: value(r)},
      value(r))};
}

const sideValue = (side) => (r) => rowDetail(r)[side]?.value ?? '–';

// What rows without figures have: their values, or why they were judged so.
const TEXT_COLUMNS = ARE_VALUES
  ? [textColumn('golden', WORDS.golden, sideValue('golden')),
    textColumn('target', WORDS.target, sideValue('target'))]
  : [textColumn('reason', 'reason', rowReason)];

const COLUMNS = [
  {key: 'row', title: '#', number: true, value: (r) => r,
    text: (r) => integer(r)},
  {key: 'verdict', title: 'verdict', value: verdictRank,
    draw: (r, attributes) => el('div', attributes, rowBadge(r))},
  {key: 'name', title: 'name', collate: true, value: rowName, draw: nameCell},
  ...(HAS_FIGURES ? [{key: 'error', title: 'rel. L2', number: true, value: (r) => rows.error[r]},
  {key: 'maxAbs', title: 'max abs', number: true, value: (r) => rows.maxAbs[r]},
  {key: 'ulpMax', title: 'max ulp', number: true, value: (r) => rows.ulpMax[r]},
  {key: 'alpha', title: 'alpha − 1', number: true,
    value: (r) => rows.alpha[r] - 1, rank: Math.abs}] : TEXT_COLUMNS),
];
