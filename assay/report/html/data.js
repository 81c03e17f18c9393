// The embedded columns as typed arrays, and what can be asked about a row.
const ROLES = ['input', 'output', 'parameter', 'gradient', 'tensor'];
const ORIGINS = ['none', 'born', 'inherited', 'input', 'parameter',
  'undetermined'];
const EVIDENCE = ['tensor', 'statistics', 'digest', 'value', 'none'];
const INHERITED = 2;

function toCodes(digits) {
  const codes = new Uint8Array(digits.length);
  for (let i = 0; i < digits.length; ++i) codes[i] = digits.charCodeAt(i) - 48;
  return codes;
}

const page = JSON.parse(document.getElementById('data').textContent);
const strings = page.strings;
// What the sides and the rows are called, and whether errors pass from one row
// on to the next.
const WORDS = page.meta.words;
const rows = (() => {
  const r = page.rows;
  const out = {count: r.count};
  for (const key of ['role', 'verdict', 'origin', 'evidence', 'present',
    'sameStats'])
    out[key] = toCodes(r[key]);
  for (const key of ['op', 'name', 'goldenDtype', 'targetDtype',
    'goldenShape', 'targetShape'])
    out[key] = Int32Array.from(r[key]);
  for (const key of ['error', 'maxAbs', 'maxRel', 'ulpMax', 'cosine', 'bias',
    'alpha', 'goldenStats', 'targetStats'])
    out[key] = Float64Array.from(r[key], toNumber);
  return out;
})();

// Where each row's own target statistics start, -1 where they are the golden's.
const targetStatsAt = (() => {
  const at = new Int32Array(rows.count);
  for (let i = 0, next = 0; i < rows.count; ++i)
    at[i] = rows.sameStats[i] ? -1 : (next += 4) - 4;
  return at;
})();

// First row and row count of each operator.
const opRows = (() => {
  const first = new Int32Array(page.ops.name.length).fill(-1);
  const count = new Int32Array(page.ops.name.length);
  for (let i = 0; i < rows.count; ++i) {
    const op = rows.op[i];
    if (first[op] < 0) first[op] = i;
    ++count[op];
  }
  return {first, count};
})();

const opName = (op) => strings[page.ops.name[op]] ?? '';
const groupOf = (row) => page.groups[page.ops.group[rows.op[row]]];

// "operator" and "leaf"; the operator is empty where the name has no such form.
function nameParts(row) {
  const code = rows.name[row];
  return code < 0 ? ['', strings[-1 - code]]
                  : [opName(rows.op[row]), strings[code]];
}

function rowName(row) {
  const [op, leaf] = nameParts(row);
  return op === '' ? leaf : op + '.' + leaf;
}

// The name in two pieces, of which only the first may be shortened: what tells
// tensors apart is at the end.
function nameForColumn(row) {
  const name = rowName(row), leaf = nameParts(row)[1].length;
  const tail = Math.min(name.length, Math.min(leaf, 30) + 22);
  return [name.slice(0, name.length - tail), name.slice(name.length - tail)];
}

const NO_DETAIL = {reasons: [], golden: {}, target: {}};
const rowDetail = (row) => page.details[row] ?? NO_DETAIL;

// The first criterion that decided, as text.
function rowReason(row) {
  const reasons = rowDetail(row).reasons;
  return (reasons.find((r) => !r.note) ?? reasons[0])?.text ?? '';
}

// Rows of one operator, in order.
function rowsOfOp(op) {
  const list = [];
  for (let i = 0; i < opRows.count[op]; ++i) list.push(opRows.first[op] + i);
  return list;
}

// Modules around an operator, outermost first.
function callPath(op) {
  const path = [];
  for (let p = page.ops.parent[op]; p >= 0 && path.length < 64;
    p = page.ops.parent[p])
    path.unshift(p);
  return path;
}

// Whether any row has a figure of its error, or all are values of no dtype.
const HAS_FIGURES = rows.error.some((error) => !Number.isNaN(error));
const ARE_VALUES = !HAS_FIGURES && [rows.goldenDtype, rows.targetDtype].every(
  (dtypes) => dtypes.every((code) => !strings[code]));

// Lower-case text that the search looks in, made on first use.
const searchText = (() => {
  let texts = null;
  return () => {
    if (texts) return texts;
    texts = new Array(rows.count);
    for (let i = 0; i < rows.count; ++i) {
      texts[i] = (rowName(i) + ' ' + strings[rows.goldenDtype[i]] + ' ' +
        rowReason(i)).toLowerCase();
    }
    return texts;
  };
})();
