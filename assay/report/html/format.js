// Words and the command of a row.

// A mismatch is called by its origin.
const rowBadge = (row) => {
  const verdict = rows.verdict[row], origin = rows.origin[row];
  return badge(verdict, verdict === MISMATCH && origin > 0 ? ORIGINS[origin]
    : VERDICTS[verdict], origin === INHERITED ? ' inherited' : '');
};

const reproduce = (row) =>
  page.meta.command + ' --only ' + shellQuote(rowName(row));
