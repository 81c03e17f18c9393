// The run as its JSON report has it (docs/json-output.md), and its cases in
// one list.

const page = JSON.parse(document.getElementById('data').textContent);

const ENDING_TEXT = {
  compared: 'compared', refused: 'refused', failed: 'failed',
  unsupported: 'unsupported', crashed: 'crashed', timeout: 'timed out',
  memory: 'out of memory', garbage: 'answered garbage',
  stale: 'stale golden', missing: 'without golden', not_run: 'not run',
};

const cases = page.modules.flatMap((module, moduleIndex) =>
  module.cases.map((c) => ({...c, module: module.module, tier: module.tier,
    moduleIndex, code: VERDICTS.indexOf(c.verdict)})));

const caseName = (i) => cases[i].module + '/' + cases[i].case;
const valueText = (value) =>
  typeof value === 'string' ? value : JSON.stringify(value);
const parameterText = (c) => Object.entries(c.parameters)
  .map(([name, value]) => name + '=' + valueText(value)).join(' ');

// A check of elements has figures; one of the contract has none.
const hasFigures = (check) => check.norm_l2 !== undefined;
const isContract = (check) => !hasFigures(check) &&
  check.name.startsWith('contract.');
const rankText = (rank) => rank < 0 ? 'all ranks' : 'rank ' + rank;

// The check a case is remembered by: mismatches first, then the largest error.
function worstCheck(c) {
  let worst = null;
  for (const check of c.checks) {
    if (!hasFigures(check)) continue;
    const differs = check.verdict === 'mismatch';
    const before = worst?.verdict === 'mismatch';
    if (!worst || (differs !== before ? differs
      : toNumber(check.norm_l2) > toNumber(worst.norm_l2)))
      worst = check;
  }
  return worst;
}

const errors = Float64Array.from(cases,
  (c) => toNumber(worstCheck(c)?.norm_l2));
const ulps = Float64Array.from(cases, (c) => toNumber(worstCheck(c)?.ulp_max));

// Why a case is no match: its message, or the first check that decided.
function why(c) {
  if (c.message) return c.message;
  const check = c.checks.find((k) => k.verdict === 'mismatch') ??
    c.checks.find((k) => k.verdict === 'incomplete');
  return check ? check.name + (check.text ? ': ' + check.text : '') : '';
}

const ratio = (a, b) => a > 0 && b > 0 ? a / b : NaN;

// "0.12 s", "3.4 ms"; "–" where nothing ran.
function seconds(value) {
  if (!(value > 0)) return '–';
  if (value >= 0.1) return figure(value) + ' s';
  return value >= 1e-4 ? figure(value * 1e3) + ' ms'
    : figure(value * 1e6) + ' µs';
}

const times = (value) => Number.isNaN(value) ? '–' : figure(value, 2) + '×';

// Lower-case text that the search looks in, made on first use.
const searchText = (() => {
  let texts = null;
  return () => texts ??= cases.map((c, i) => [caseName(i), parameterText(c),
    ENDING_TEXT[c.ending], why(c)].join(' ').toLowerCase());
})();
