/* Requests to the API, and the token. */

const TOKEN_KEY = 'encke-control-token';
/* How long an answer may take: the server waits two seconds for its workers, and thirty for a receipt. */
const PATIENCE = 35000;

/* The token of this tab. It is never in the address, and goes when the tab is closed. */
let token = '';
try { token = sessionStorage.getItem(TOKEN_KEY) || ''; } catch {}

function keepToken(value) {
  token = value;
  try {
    if (value) sessionStorage.setItem(TOKEN_KEY, value);
    else sessionStorage.removeItem(TOKEN_KEY);
  } catch {}
}

/* An answer that is an error. */
class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/* Sends a request; its answer as text. `onunauthorized` is told of 401. */
let onunauthorized = () => {};

async function request(method, path, body, contentType) {
  const headers = {};
  if (token) headers.Authorization = 'Bearer ' + token;
  if (contentType) headers['Content-Type'] = contentType;
  let answer;
  try {
    answer = await fetch(path, {
      method, headers, body,
      cache: 'no-store', credentials: 'omit', mode: 'same-origin', redirect: 'error', referrerPolicy: 'no-referrer',
      signal: AbortSignal.timeout(PATIENCE),
    });
  } catch (error) {
    throw new Refusal(0, error.name === 'TimeoutError' ? 'The server did not answer in time.' : 'The server cannot be reached.');
  }
  const text = await answer.text();
  if (answer.ok) return text;
  let detail = '';
  try { detail = JSON.parse(text).detail; } catch {}
  if (answer.status === 401) onunauthorized();
  throw new Refusal(answer.status, detail || 'The server answered ' + answer.status + '.');
}

async function ask(method, path, body, contentType) {
  return JSON.parse(await request(method, path, body, contentType));
}

/* An id in a path. Browsers take `.` and `..` out of paths, in every spelling. */
function segment(id) {
  if (id === '.' || id === '..') {
    throw new Refusal(0, 'A browser cannot send the id “' + id + '” in a path. Use the command encke for it.');
  }
  return encodeURIComponent(id);
}

/* Work that is repeated while somebody looks: not in a hidden tab, not while paused, not without a token. */
const pollers = [];
let paused = false;
let locked = false;

class Poller {
  constructor(interval, work, failed) {
    Object.assign(this, { interval, work, failed, failures: 0, timer: 0, busy: false, done: false });
    pollers.push(this);
  }

  async turn() {
    clearTimeout(this.timer);
    if (this.busy || this.done || paused || locked || document.hidden) return;
    this.busy = true;
    try {
      await this.work();
      this.failures = 0;
    } catch (error) {
      if (!(error instanceof Refusal)) console.error(error);
      this.failures += 1;
      this.failed(error);
    }
    this.busy = false;
    const wait = Math.min(this.interval * 2 ** Math.min(this.failures, 4), 30000);
    this.timer = setTimeout(() => this.turn(), wait);
  }
}

/* Begins again what was stopped: the first alone, which finds out whether a token is needed. */
async function wake() {
  for (const poller of pollers) poller.failures = 0;
  await pollers[0].turn();
  for (const poller of pollers.slice(1)) poller.turn();
}
