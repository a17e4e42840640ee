/* Figures, sparklines, bars and histograms. */

const SVG = 'http://www.w3.org/2000/svg';
/* Samples of a sparkline: three minutes. */
const SAMPLES = 90;

/* A figure with its course. Made once, and changed in place. */
class Figure {
  constructor(name, format, isBad) {
    Object.assign(this, { format, isBad, course: [] });
    this.value = make('dd', '–');
    this.line = document.createElementNS(SVG, 'polyline');
    const svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('viewBox', '0 0 100 24');
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('aria-hidden', 'true');
    svg.append(this.line);
    this.box = make('div', [make('dt', name), this.value, svg]);
    $('figures').append(this.box);
  }

  show(value) {
    this.course.push(value);
    if (this.course.length > SAMPLES) this.course.shift();
    this.value.textContent = this.format(value);
    this.box.classList.toggle('bad', Boolean(this.isBad && value > 0));
    const most = Math.max(...this.course, Number.EPSILON);
    /* The newest is at the right end. A short course takes a third of the width. */
    const places = Math.max(this.course.length, SAMPLES / 3);
    const step = 100 / (places - 1);
    const first = places - this.course.length;
    const points = this.course.map((at, index) => ((first + index) * step).toFixed(1) + ',' + (23 - 22 * at / most).toFixed(1));
    this.line.setAttribute('points', points.join(' '));
  }

  clear() {
    this.course = [];
    this.value.textContent = '–';
    this.line.setAttribute('points', '');
  }
}

/* Names with bars and values, the largest as wide as there is room. */
function measures(pairs, format) {
  const most = Math.max(...pairs.map(([, value]) => value), 1);
  return make('dl', pairs.flatMap(([name, value, text]) => {
    const bar = make('i');
    bar.style.width = (100 * value / most).toFixed(1) + '%';
    const track = make('div', bar, 'track');
    track.ariaHidden = 'true';
    return [make('dt', name), track, make('dd', text || format(value))];
  }), 'measure');
}

/* The histograms of a text of /metrics: for each name, upper bounds and counts at or below them. Labels are summed. */
function histograms(text, names) {
  const found = new Map();
  for (const line of text.split('\n')) {
    for (const name of names) {
      if (!line.startsWith(name + '_bucket{')) continue;
      const bound = /[{,]le="([^"]+)"/.exec(line);
      const value = Number(line.slice(line.indexOf('}') + 1).trim().split(' ')[0]);
      if (!bound || !Number.isFinite(value)) continue;
      const le = bound[1] === '+Inf' ? Infinity : Number(bound[1]);
      const buckets = found.get(name) || found.set(name, new Map()).get(name);
      buckets.set(le, (buckets.get(le) || 0) + value);
    }
  }
  return found;
}

/* The values of a text of /metrics, of these names: those that have no labels. */
function values(text, names) {
  const found = new Map();
  for (const line of text.split('\n')) {
    const [name, value] = line.split(' ');
    if (names.includes(name)) found.set(name, Number(value));
  }
  return found;
}

/* Buckets as [upper bound, count in this bucket alone], without those that `before` had. */
function spread(buckets, before) {
  const bounds = [...buckets.keys()].sort((a, b) => a - b);
  let below = 0;
  return bounds.map((le) => {
    const upTo = Math.max(buckets.get(le) - (before && before.get(le) || 0), below);
    const alone = upTo - below;
    below = upTo;
    return [le, alone];
  });
}

/* The upper bound of the bucket in which this part of all lies. */
function quantile(bars, part) {
  const all = bars.reduce((sum, [, many]) => sum + many, 0);
  let sum = 0;
  for (const [le, many] of bars) {
    sum += many;
    if (all > 0 && sum >= part * all) return le;
  }
  return NaN;
}

function histogram(title, all) {
  const total = all.reduce((sum, [, many]) => sum + many, 0);
  const caption = make('figcaption', make('b', title));
  const figure = make('figure', caption, 'chart');
  if (total === 0) {
    caption.append(make('span', 'nothing in this time', 'none'));
    return figure;
  }
  const parts = [[.5, 'half'], [.99, '99%'], [.999, '99.9%']];
  const words = parts.map(([part, name]) => name + ' ≤ ' + span(quantile(all, part)));
  caption.append(...words.map((word) => make('span', word)), make('span', count(total, 'event')));
  /* Empty buckets at both ends tell nothing. */
  const used = all.map(([, many]) => many > 0);
  const bars = all.slice(used.indexOf(true), used.lastIndexOf(true) + 1);
  const p99 = quantile(all, .99);
  const most = Math.max(...bars.map(([, many]) => many));
  const drawn = make('div', bars.map(([le, many]) => {
    const bar = make('i', null, le >= p99 ? 'p99' : '');
    /* By the square root: the few late ones are what is looked for. */
    bar.style.height = (many ? Math.max(100 * Math.sqrt(many / most), 2) : 0).toFixed(1) + '%';
    bar.title = 'up to ' + span(le) + ': ' + number(many);
    return bar;
  }), 'bars');
  drawn.role = 'img';
  drawn.ariaLabel = title + ': ' + words.join(', ');
  const axis = [bars[0][0], bars[Math.floor((bars.length - 1) / 2)][0], bars[bars.length - 1][0]];
  const ticks = make('div', [...new Set(axis)].map((le) => make('span', '≤ ' + span(le))), 'axis');
  figure.append(drawn, ticks);
  return figure;
}
