/* Text and elements. What strangers have chosen (ids, payloads, reasons) becomes text nodes, never markup. */

const $ = (name) => document.getElementById(name);

/* Characters that are not seen, or that change how others are shown: controls, directions, joiners, separators, halves of pairs. */
const ODD = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;

/* A text as nodes. Its odd characters are named, so that two ids that look alike are told apart. */
function nodes(text) {
  const found = [];
  let end = 0;
  for (const match of text.matchAll(ODD)) {
    if (match.index > end) found.push(text.slice(end, match.index));
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
    found.push(make('span', 'U+' + code, 'odd'));
    end = match.index + match[0].length;
  }
  if (end < text.length) found.push(text.slice(end));
  return found;
}

function make(tag, content, className) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (content instanceof Node) element.append(content);
  else if (Array.isArray(content)) element.append(...content);
  else if (content !== undefined && content !== null) element.textContent = content;
  return element;
}

/* A text of strangers. Its direction does not reach what stands beside it. */
function foreign(text, tag) {
  const element = make(tag || 'bdi', nodes(String(text)));
  element.dir = 'auto';
  return element;
}

function say(where, text, mood) {
  where.replaceChildren(...nodes(text || ''));
  where.className = 'said' + (mood ? ' ' + mood : '');
}

/* A row of cells: texts, numbers or elements. `kinds` are class names by column. */
function table(label, headings, rows, kinds) {
  const cell = (tag) => (content, column) => {
    const element = make(tag, content, kinds && kinds[column]);
    if (tag === 'th') element.scope = 'col';
    return element;
  };
  const head = make('thead', make('tr', headings.map(cell('th'))));
  const body = make('tbody', rows.map((row) => make('tr', row.map(cell('td')))));
  const scroll = make('div', make('table', [head, body]), 'scroll');
  scroll.tabIndex = 0;
  scroll.role = 'region';
  scroll.ariaLabel = label;
  return scroll;
}

/* Pairs of a name and a fact; a fact may be an element. */
function facts(pairs) {
  return make('dl', pairs.flatMap(([name, fact]) => [make('dt', name), make('dd', fact)]), 'facts');
}

const PLAIN = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat('en', { maximumSignificantDigits: 3, notation: 'compact' });

function number(value) {
  return PLAIN.format(value || 0);
}

function rate(value) {
  return value > 0 && value < 10 ? value.toFixed(1) : SHORT.format(value || 0);
}

function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let size = value || 0;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit += 1; }
  return (unit === 0 || size >= 100 ? size.toFixed(0) : size.toFixed(1)) + ' ' + units[unit];
}

/* A time of seconds and more. */
function age(seconds) {
  const whole = Math.floor(seconds || 0);
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([size]) => whole >= size);
  if (first < 0) return '0 s';
  const [size, name] = parts[first];
  const [next, nextName] = parts[first + 1] || [];
  const rest = next ? Math.floor((whole % size) / next) : 0;
  return Math.floor(whole / size) + ' ' + name + (rest ? ' ' + rest + ' ' + nextName : '');
}

/* A time below seconds. */
function span(seconds) {
  if (!Number.isFinite(seconds)) return '∞';
  const [size, name] = seconds < 1e-3 ? [1e6, 'µs'] : seconds < 1 ? [1e3, 'ms'] : [1, 's'];
  return Number((seconds * size).toPrecision(3)) + ' ' + name;
}

function count(many, one, plural) {
  return number(many) + ' ' + (many === 1 ? one : plural || one + 's');
}

/* What is wrong with an id; empty if nothing is. */
function fault(text) {
  const size = new TextEncoder().encode(text).length;
  if (size === 0) return 'An id needs at least one character.';
  if (size > 128) return 'An id can have at most 128 bytes; this one has ' + size + '.';
  if (/\p{Cc}/u.test(text)) return 'An id cannot contain control characters.';
  return '';
}
