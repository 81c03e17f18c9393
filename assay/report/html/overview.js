// The top of the page: what was compared, the verdict, the first divergence.

function drawSides() {
  const meta = page.meta;
  const side = (label, path, size) =>
    el('div', {}, el('dt', {}, label),
      el('dd', {title: path}, path, size > 0 && el('small', {}, bytes(size))));
  byId('sides').append(side(WORDS.golden, meta.golden, meta.goldenBytes),
    side(WORDS.target, meta.target, meta.targetBytes));
  const standard = [meta.standard, meta.standardDate].filter(Boolean).join(' ');
  byId('foot').append(
    el('span', {}, 'standard ', el('b', {}, standard),
      meta.standardSource && ' · ' + meta.standardSource),
    el('span', {}, 'compared in ' + figure(toNumber(meta.seconds)) + ' s'));
}

// "1 step, 2 ranks" of the groups.
function scopeText() {
  const steps = new Set(page.groups.map((g) => g.step));
  const ranks = new Set(page.groups.map((g) => g.rank));
  const one = (set, word) =>
    set.size === 1 ? word + ' ' + [...set][0] : plural(set.size, word);
  const alone = !WORDS.flows && page.groups.length < 2;
  return page.groups.length === 0 || alone ? ''
    : one(steps, 'step') + ', ' + one(ranks, 'rank');
}

function verdictSentence(total) {
  const c = page.counts;
  if (c.mismatch > 0) {
    const origins = ['born', 'input', 'parameter', 'undetermined', 'inherited']
      .filter((key) => WORDS.flows && c[key] > 0).map((key) => integer(c[key]) + ' ' + key);
    return integer(c.mismatch) + ' of ' + plural(total, WORDS.record) +
      (total === 1 ? ' differs' : ' differ') + (origins.length ? ': ' + origins.join(', ') : '');
  }
  if (c.incomplete > 0)
    return integer(c.incomplete) + ' of ' + plural(total, WORDS.record) +
      ' could not be compared';
  if (page.meta.verdict === 'match')
    return 'All ' + plural(c.match, 'compared ' + WORDS.record) + ' agree';
  return 'Nothing was compared';
}

function drawBanner() {
  const total = VERDICTS.reduce((sum, v) => sum + page.counts[v], 0);
  fillBanner({verdict: VERDICTS.indexOf(page.meta.verdict),
    counts: page.counts, sentence: verdictSentence(total), hint: scopeText(),
    what: 'rows', onCount: showOnly, notices: noticeLines()});
}

function noticeLines() {
  const lines = [...page.meta.warnings];
  if (page.meta.interrupted)
    lines.unshift('Interrupted: rows that were not reached are incomplete.');
  if (page.meta.omitted > 0)
    lines.unshift(plural(page.meta.omitted, 'matching row') +
      ' left out of this page; the json and csv reports have them.');
  return lines;
}

const KIND_TEXT = {
  born: 'born here',
  input: 'an input that no compared operator produced differs',
  parameter: 'a parameter differs before it is used',
  inherited: 'inherited: an input already differs',
  undetermined: 'its output differs, its inputs were not compared',
};

function kindLine(d) {
  if (!WORDS.flows) return '';
  if (d.kind === 'input' && EVIDENCE[rows.evidence[d.row]] === 'value')
    return 'it is called otherwise';
  if (d.kind === 'input' && d.note) return 'an input differs: ' + d.note;
  const kind = KIND_TEXT[d.kind] ?? d.kind;
  if (d.kind === 'born')
    return kind + ': ' + (d.note || 'its inputs agree') +
      ', its output does not';
  return d.note ? kind + ': ' + d.note : kind;
}

function breadcrumb(names, last) {
  return el('nav', {class: 'crumbs', 'aria-label': 'Call path'},
    names.map((name) => el('span', {}, name)), el('b', {}, last));
}

// The figures of a row that explain it at a glance.
function keyFigures(row) {
  const d = rowDetail(row);
  const list = el('dl', {class: 'figures'});
  const add = (name, text) =>
    list.append(el('div', {}, el('dt', {}, name), el('dd', {}, text)));
  if (d.place !== undefined) {
    add('max abs', figure(rows.maxAbs[row]));
    add('at', d.place);
    add(WORDS.golden + ' there', figure(toNumber(d.goldenAt), 5));
    add(WORDS.target + ' there', figure(toNumber(d.targetAt), 5));
  }
  for (const side of HAS_FIGURES ? [] : ['golden', 'target'])
    add(WORDS[side], d[side].value ?? '–');
  const optional = [['rel. L2', rows.error[row], 3], ['bias', rows.bias[row], 3],
    ['alpha', rows.alpha[row], 6], ['max ulp', rows.ulpMax[row], 3],
    ['amplification', toNumber(d.amplification), 3]];
  for (const [name, value, digits] of optional)
    if (!Number.isNaN(value)) add(name, figure(value, digits));
  return list;
}

function stackView(frames) {
  if (frames.length === 0) return null;
  const own = (f) => !/site-packages|dist-packages|\/torch\/|msprobe/.test(f);
  const line = (frame) => {
    const m = /File "?(.+?)"?, line (\d+), in ([^,\n]+),?\s*([\s\S]*)/
      .exec(frame);
    const cls = own(frame) ? 'frame' : 'frame library';
    if (!m) return el('li', {class: cls}, frame.trim());
    return el('li', {class: cls}, el('b', {}, m[1] + ':' + m[2]),
      ' in ' + m[3].trim(), m[4].trim() && el('code', {}, m[4].trim()));
  };
  return el('div', {class: 'block'}, el('h3', {}, 'Stack'),
    el('ol', {class: 'stack'}, foldLibraryFrames(frames, own, line)));
}

// Frames of libraries in a row fold into one line; the user's stay open.
function foldLibraryFrames(frames, own, line) {
  const items = [];
  for (let i = 0; i < frames.length;) {
    let end = i;
    while (end < frames.length && !own(frames[end])) ++end;
    if (end - i < 2) {
      items.push(line(frames[i++]));
      continue;
    }
    items.push(el('li', {class: 'library'}, el('details', {},
      el('summary', {}, (end - i) + ' library frames'),
      el('ol', {}, frames.slice(i, end).map(line)))));
    i = end;
  }
  return items;
}

// Inputs and parameters -> operator -> outputs, with each row's error.
function neighbourhood(op, selected) {
  const item = (row) => {
    const leaf = nameParts(row)[1];
    return el('button', {type: 'button', class: 'leaf ' +
      VERDICTS[rows.verdict[row]] + (row === selected ? ' current' : ''),
    title: rowName(row), onclick: () => choose(row, true)},
    el('i', {'aria-hidden': 'true'}, SYMBOLS[rows.verdict[row]]),
    el('span', {}, leaf),
    el('em', {}, rows.verdict[row] === MATCH && rows.error[row] === 0
      ? 'equal' : figure(rows.error[row])));
  };
  const all = rowsOfOp(op);
  const result = (row) => rows.role[row] === 1 || rows.role[row] === 3;
  const column = (title, list) => el('div', {class: 'leaves'},
    el('h4', {}, title), list.slice(0, 12).map(item),
    list.length === 0 && el('span', {class: 'hint'}, 'none recorded'),
    list.length > 12 && el('span', {class: 'hint'},
      'and ' + integer(list.length - 12) + ' more'));
  return el('div', {class: 'hood'},
    column('inputs, parameters', all.filter((row) => !result(row))),
    el('div', {class: 'node'}, neighbourOp(op, -1),
      el('strong', {}, opName(op)), neighbourOp(op, 1)),
    column('outputs', all.filter(result)));
}

// The operator before or after in execution order, of the same rank.
function neighbourOp(op, step) {
  const next = op + step;
  const there = next >= 0 && next < page.ops.name.length &&
    page.ops.group[next] === page.ops.group[op] && opRows.count[next] > 0;
  const label = step < 0 ? 'before: ' : 'after: ';
  if (!there) return el('span', {class: 'hint'}, label + '–');
  return el('button', {type: 'button', class: 'link', title: opName(next),
    onclick: () => choose(opRows.first[next], true)}, label + opName(next));
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

// Without a neighbourhood that marks it, the row is named.
const firstName = (d) => WORDS.flows || d.row < 0 || d.row >= rows.count
  ? d.name : rowName(d.row);

function drawDivergence() {
  const d = page.divergence;
  if (!d) return;
  const card = byId('divergence'), kind = kindLine(d);
  card.setAttribute('aria-label', capital(WORDS.first));
  card.hidden = false;
  const known = d.row >= 0 && d.row < rows.count;
  const group = known && page.groups.length > 1 ? groupOf(d.row) : null;
  const path = d.path.length || !known ? d.path
    : callPath(rows.op[d.row]).map(opName);
  card.append(
    el('div', {class: 'card-head'}, el('h2', {}, capital(WORDS.first)),
      el('p', {class: 'hint'}, group &&
        'step ' + group.step + ', rank ' + group.rank),
      known && el('button', {type: 'button', class: 'quiet',
        onclick: () => choose(d.row, true)}, 'show in the rows')),
    breadcrumb(path, d.name),
    el('div', {class: 'two'},
      el('div', {}, kind && el('p', {class: 'lead'}, kind),
        d.name !== firstName(d) && el('p', {class: 'lead'}, firstName(d)),
        d.reason && el('p', {class: 'reason'}, d.reason),
        d.cause && el('p', {class: 'cause'}, d.cause),
        known && keyFigures(d.row), d.again && command(d.again)),
      el('div', {}, known && WORDS.flows &&
        neighbourhood(rows.op[d.row], d.row),
        stackView(d.stack))));
}
