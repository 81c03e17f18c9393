// Filters, theme, keys and printing, as every page has them.

function debounce(action, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds);
  };
}

// A chip a verdict that puts it into the set or takes it out.
function fillChips(verdicts, apply) {
  byId('chips').append(...[MISMATCH, INCOMPLETE, EMPTY, MATCH].map((v) =>
    el('button', {type: 'button', class: 'chip ' + VERDICTS[v],
      'data-verdict': v, 'aria-pressed': 'false', onclick: () => {
        if (!verdicts.delete(v)) verdicts.add(v);
        apply();
      }}, el('i', {'aria-hidden': 'true'}, SYMBOLS[v]), VERDICTS[v])));
}

function pressChips(verdicts) {
  for (const chip of byId('chips').children)
    chip.setAttribute('aria-pressed',
      verdicts.has(Number(chip.dataset.verdict)));
}

function nameInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return '';  // a malformed escape
  }
}

// `redraw` draws again what holds colours of its own.
function setUpTheme(redraw) {
  byId('theme').addEventListener('click', () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === 'dark'
      : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    redraw();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
}

function setUpKeys(clear) {
  document.addEventListener('keydown', (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === '/' && !typing) {
      event.preventDefault();
      byId('search').focus();
    } else if (event.key === 'Escape' && typing) {
      clear();
      byId('grid-body').focus();
    }
  });
}

// Printing shows the filtered rows, not the few in view.
function setUpPrinting(grid) {
  const most = 300;
  addEventListener('beforeprint', () => {
    const count = Math.min(most, grid.order.length);
    byId('grid-body').style.height = count * ROW_HEIGHT + 'px';
    grid.draw();
  });
  addEventListener('afterprint', () => {
    byId('grid-body').style.height = '';
    grid.schedule();
  });
}
