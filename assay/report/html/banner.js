// The verdict, the counts and the notices at the top of a page.

function countBar(counts) {
  const total = VERDICTS.reduce((sum, v) => sum + counts[v], 0);
  const bar = el('div', {class: 'bar', 'aria-hidden': 'true'});
  for (const verdict of [MISMATCH, INCOMPLETE, EMPTY, MATCH]) {
    const count = counts[VERDICTS[verdict]];
    if (count === 0) continue;
    const part = el('span', {class: VERDICTS[verdict]});
    part.style.flexGrow = Math.max(count / total, 0.006);
    bar.append(part);
  }
  return bar;
}

// `counts` by the verdict's word; `onCount(verdict)` shows only those `what`.
function fillBanner({verdict, counts, sentence, hint, what, onCount, notices}) {
  const kind = Math.max(0, verdict);
  const buttons = el('div', {class: 'counts'},
    [MATCH, MISMATCH, INCOMPLETE, EMPTY].map((v) =>
      el('button', {type: 'button', class: 'count ' + VERDICTS[v],
        title: 'Show only ' + VERDICTS[v] + ' ' + what,
        onclick: () => onCount(v)},
      el('b', {}, integer(counts[VERDICTS[v]])),
      el('span', {}, el('i', {'aria-hidden': 'true'}, SYMBOLS[v]),
        VERDICTS[v]))));
  byId('banner').classList.add(VERDICTS[kind]);
  byId('banner').append(
    el('div', {class: 'seal', 'aria-hidden': 'true'}, SYMBOLS[kind]),
    el('div', {class: 'verdict'}, el('h1', {}, VERDICTS[kind]),
      el('p', {}, sentence), el('p', {class: 'hint'}, hint)),
    el('div', {class: 'tally'}, countBar(counts), buttons),
    noticeBox(notices) ?? '');
}

function noticeBox(lines) {
  if (lines.length === 0) return null;
  const shown = 4;
  const items = (list) => el('ul', {}, list.map((line) => el('li', {}, line)));
  return el('div', {class: 'notices'}, items(lines.slice(0, shown)),
    lines.length > shown && el('details', {},
      el('summary', {}, integer(lines.length - shown) + ' more warnings'),
      items(lines.slice(shown))));
}
