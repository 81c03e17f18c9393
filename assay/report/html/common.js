// Verdicts, numbers as text, and elements built without any markup from the
// data: what every report's page stands on.
'use strict';

const VERDICTS = ['match', 'mismatch', 'incomplete', 'empty'];
const SYMBOLS = ['✓', '✕', '?', '∅'];
const MATCH = 0, MISMATCH = 1, INCOMPLETE = 2, EMPTY = 3;

// null -> NaN, "inf" and "-inf" -> infinities.
function toNumber(value) {
  if (value === null || value === undefined || value === 'nan') return NaN;
  if (value === 'inf') return Infinity;
  return value === '-inf' ? -Infinity : value;
}

// Three significant digits; "0" exactly zero, "–" unknown.
function figure(value, digits = 3) {
  if (Number.isNaN(value)) return '–';
  if (value === 0) return '0';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  const text = size >= 1e-3 && size < 1e6
    ? String(Number(value.toPrecision(digits)))
    : value.toExponential(digits - 1).replace('e+', 'e');
  return text.replace(/^-/, '−');
}

const integer = (value) => value.toLocaleString('en-US');

function plural(count, word) {
  return integer(count) + ' ' + word + (count === 1 ? '' : 's');
}

function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    ++unit;
  }
  return (unit ? value.toPrecision(2 + (value >= 100)) : value) + ' ' +
    units[unit];
}

// el('p', {class: 'x', onclick: f}, 'text', child, ...). Text is never markup.
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'class') node.className = value;
    else node.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat())
    if (child !== null && child !== undefined && child !== false)
      node.append(child);
  return node;
}

const byId = (id) => document.getElementById(id);

// Symbol and word: never colour alone.
const badge = (verdict, word = VERDICTS[verdict], kind = '') =>
  el('span', {class: 'badge ' + VERDICTS[verdict] + kind},
    el('i', {'aria-hidden': 'true'}, SYMBOLS[verdict]), word);

function copyButton(text) {
  const button = el('button', {type: 'button', class: 'quiet copy',
    title: 'Copy the command'}, 'copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'copied';
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.previousElementSibling);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = document.execCommand('copy') ? 'copied' : 'selected';
    }
    setTimeout(() => { button.textContent = 'copy'; }, 1500);
  });
  return button;
}

const command = (text) =>
  el('div', {class: 'command'}, el('code', {}, text), copyButton(text));

const shellQuote = (text) =>
  /^[\w.,:=@%+/-]+$/.test(text) ? text
                                : "'" + text.replaceAll("'", "'\\''") + "'";

const cssColor = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
