// Words and the command of a row.

// A mismatch is called by its origin.
const rowBadge = (row) => {
  const verdict = rows.verdict[row], origin = rows.origin[row];
  return badge(verdict, WORDS.flows && verdict === MISMATCH && origin > 0 ? ORIGINS[origin]
    : VERDICTS[verdict], origin === INHERITED ? ' inherited' : '');
};

// '' where the command has no --only.
function reproduce(row) {
  if (WORDS.only === '') return '';
  const name = WORDS.only === 'row' ? rowName(row)
    : opName(rows.op[row]).replace(/\.(forward|backward)$/, '');
  return page.meta.command + ' --only ' + shellQuote(name);
}
