// Laws of the client, over a simulated server and clock. `node --test` runs them.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { connect } from './encke.js';

const WELCOME = 'id: e-1\n\n:\nretry: 500\n\n';
const event = (id, more) => {
  const object = { id, subject: 'rj', data: id, ...more };
  return `id: ${id}\ndata: ${JSON.stringify(object)}\n\n`;
};
const notice = (type, data) => `data: ${JSON.stringify({ type, data })}\n\n`;

/** Lets everything happen that needs no time. */
const settle = async () => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
};

/** Lets milliseconds pass. */
const pass = async (time) => {
  await settle();
  mock.timers.tick(time);
  await settle();
};

let requests;
let client;
let heard;

/** Answer that the simulated server leaves open. */
class Stream {
  constructor(request) {
    this.request = request;
    this.encoder = new TextEncoder();
    const body = new ReadableStream({ start: (controller) => { this.controller = controller; } });
    request.signal.addEventListener('abort', () => this.fail(request.signal.reason));
    request.answer(new Response(body));
  }
  say(text) {
    this.controller.enqueue(typeof text === 'string' ? this.encoder.encode(text) : text);
    return settle();
  }
  end() {
    this.controller.close();
    return settle();
  }
  fail(reason = new TypeError('terminated')) {
    try {
      this.controller.error(reason);
    } catch {}
    return settle();
  }
}

/** Opens the stream of the next request and greets. */
async function open(welcome = WELCOME) {
  await settle();
  assert.equal(requests.length, 1, 'one request is open');
  const stream = new Stream(requests.shift());
  await stream.say(welcome);
  return stream;
}

function start(options = {}) {
  const note = (kind) => (...values) => heard.push([kind, ...values]);
  client = connect({
    url: 'http://push.example/',
    ids: ['alice', 'a,b'],
    onevent: note('event'),
    onreset: note('reset'),
    ongap: note('gap'),
    onexpired: note('expired'),
    onstate: note('state'),
    onpresence: (online, change) => heard.push(['presence', [...online].sort(), change]),
    ...options,
  });
  return settle();
}

const events = () => heard.filter(([kind]) => kind === 'event').map(([, { id }]) => id);
const states = () => heard.filter(([kind]) => kind === 'state').map(([, state]) => state);

beforeEach(() => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  mock.method(Math, 'random', () => 0.999);
  requests = [];
  heard = [];
  globalThis.fetch = (url, { signal, headers }) => new Promise((answer, reject) => {
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
    requests.push({ url: new URL(url), signal, headers, answer });
  });
});

afterEach(async () => {
  client?.close();
  await settle();
  mock.timers.reset();
  mock.restoreAll();
});

test('events arrive whole at every split of the stream', async () => {
  const bytes = Buffer.from(WELCOME + event('e-2', { data: 'é\n', type: 'note' }) + ':\n\n' + 'id: e-5\n\n');
  for (let at = 0; at <= bytes.length; at += 1) {
    heard = [];
    requests = [];
    await start();
    const stream = await open(bytes.subarray(0, at));
    await stream.say(bytes.subarray(at));
    const [, got] = heard.find(([kind]) => kind === 'event');
    assert.deepEqual(got, { id: 'e-2', subject: 'rj', data: 'é\n', type: 'note' });
    assert.equal(client.cursor, 'e-5', `split at ${at}`);
    client.close();
  }
});

test('a request names the ids, the form and the credentials', async () => {
  await start({ token: async () => 'secret' });
  const { url, headers } = requests[0];
  assert.equal(url.href, 'http://push.example/events/alice,a%2Cb?format=json');
  assert.equal(headers.Authorization, 'Bearer secret');
  client.close();
  requests = [];
  await start({ url: 'https://example.com/push/', ids: '..', ticket: () => 't' });
  assert.equal(requests[0].url.href, 'https://example.com/push/events?format=json&id=..&ticket=t');
});

test('it comes back where it was, when the server says, and drops what it has had', async () => {
  await start();
  let stream = await open();
  await stream.say(event('e-4') + event('e-3-2'));
  mock.method(Math, 'random', () => 0);
  await stream.fail();
  await pass(499);
  assert.equal(requests.length, 0);
  await pass(1);
  assert.equal(requests[0].url.searchParams.get('cursor'), 'e-3-2');
  stream = await open(event('e-3') + event('e-4-2') + event('e-5'));
  assert.deepEqual(events(), ['e-4', 'e-3-2', 'e-5']);
  assert.deepEqual(states(), ['live', 'reconnecting', 'live']);
});

test('notices about the stream are no events', async () => {
  await start();
  const stream = await open(notice('reset', { reason: 'restart', from: 'd-1' }) + WELCOME);
  await stream.say(notice('gap', { lost: 3 }) + event('e-9', { type: 'reset', data: 'an event' }));
  const said = heard.filter(([kind]) => kind !== 'state');
  assert.deepEqual(said.slice(0, 2), [['reset', { reason: 'restart', from: 'd-1' }], ['gap', { lost: 3 }]]);
  assert.deepEqual(events(), ['e-9']);
});

test('bytes arrive as bytes', async () => {
  await start();
  await open(event('e-2', { data: 'AP8=', encoding: 'base64' }));
  assert.deepEqual(heard.at(-1)[1].data, new Uint8Array([0, 255]));
});

test('failures are spread over a time that doubles up to a bound', async () => {
  await start();
  for (const bound of [2000, 4000, 8000, 16000, 30000, 30000]) {
    requests.shift().answer(new Response('busy', { status: 503 }));
    await pass(Math.floor(bound * 0.999) - 1);
    assert.equal(requests.length, 0, `before ${bound}`);
    await pass(2);
    assert.equal(requests.length, 1, `after ${bound}`);
  }
  assert.deepEqual(states(), ['reconnecting']);
});

test('Retry-After is the least delay', async () => {
  await start();
  requests.shift().answer(new Response('busy', { status: 429, headers: { 'Retry-After': '7' } }));
  await pass(7000);
  assert.equal(requests.length, 0);
  await pass(9000);
  assert.equal(requests.length, 1);
});

test('an answer that will not change ends the client, with its words', async () => {
  for (const status of [204, 400, 403, 404, 421]) {
    heard = [];
    await start();
    const body = status === 204 ? null : 'the ids are wrong';
    requests.shift().answer(new Response(body, { status }));
    await pass(60000);
    assert.equal(requests.length, 0);
    assert.equal(client.state, 'refused');
    assert.equal(heard.at(-1)[2].message, status === 204 ? 'status 204' : 'the ids are wrong');
  }
});

test('a page in place of an answer is none, and passes', async () => {
  for (const transport of ['sse', 'poll']) {
    heard = [];
    await start({ transports: [transport] });
    for (let times = 0; times < 3; times += 1) {
      const headers = { 'Content-Type': 'text/html; charset=utf-8' };
      requests.shift().answer(new Response('<title>Log in to this network</title>', { headers }));
      await pass(30000);
    }
    assert.deepEqual(states(), ['reconnecting'], 'it was never live');
    assert.equal(requests.length, 1);
    client.close();
    requests.length = 0;
  }
});

test('a refused token is renewed once', async () => {
  let number = 0;
  await start({ token: () => `token ${(number += 1)}` });
  requests.shift().answer(new Response('expired', { status: 401 }));
  await pass(2000);
  assert.equal(requests[0].headers.Authorization, 'Bearer token 2');
  requests.shift().answer(new Response('expired', { status: 401 }));
  await pass(60000);
  assert.equal(requests.length, 0);
  assert.equal(client.state, 'refused');
  await start({ token: 'fixed' });
  requests.shift().answer(new Response('expired', { status: 401 }));
  await pass(60000);
  assert.equal(requests.length, 0, 'a fixed token stays wrong');
});

test('an expired token is renewed soon, but not in a loop', async () => {
  mock.method(Math, 'random', () => 0);
  await start({ token: () => 'token' });
  let stream = await open();
  await pass(10000);
  await stream.say(notice('expired', { reason: 'expired' }));
  await stream.end();
  await pass(0);
  stream = await open();
  await stream.say(notice('expired', { reason: 'expired' }));
  await stream.end();
  await pass(0);
  assert.equal(requests.length, 0);
  await pass(500);
  assert.equal(requests.length, 1);
  assert.deepEqual(heard.filter(([kind]) => kind === 'expired').length, 2);
});

test('a silent stream is replaced', async () => {
  await start();
  const stream = await open();
  await pass(45000);
  await stream.say(':\n\n');
  await pass(45000);
  assert.equal(requests.length, 0, 'a heartbeat keeps it');
  await pass(6000);
  await pass(2500);
  assert.equal(requests.length, 1);
  assert.ok(stream.request.signal.aborted);
});

test('a machine that slept, or a network that came back, connects soon', async () => {
  const online = [];
  globalThis.addEventListener = (name, call) => name === 'online' && online.push(call);
  try {
    await start();
    await open();
    mock.timers.setTime(Date.now() + 3600000);
    online.forEach((call) => call());
    await pass(2500);
    assert.equal(requests.length, 1);
    for (const delay of [4000, 8000, 16000]) {
      requests.shift().answer(new Response('', { status: 503 }));
      await pass(delay);
    }
    requests.shift().answer(new Response('', { status: 503 }));
    await settle();
    online.forEach((call) => call());
    await pass(2000);
    assert.equal(requests.length, 1, 'not after 30 seconds');
    requests.shift().answer(new Response('', { status: 503, headers: { 'Retry-After': '20' } }));
    await settle();
    online.forEach((call) => call());
    await pass(19000);
    assert.equal(requests.length, 0, 'the server has said when');
  } finally {
    delete globalThis.addEventListener;
  }
});

/** Puts simulated WebSockets in place of real ones. Returns the list of those that are opened. */
function simulateWebSockets() {
  const sockets = [];
  globalThis.WebSocket = class {
    constructor(url) {
      this.url = new URL(url);
      sockets.push(this);
    }
    close() {}
  };
  return sockets;
}

/** Answers the next request, which is a poll, with no event. */
async function answerPoll(cursor = 'e-2') {
  assert.match(requests[0].url.pathname, /^\/poll\//);
  requests.shift().answer(new Response(null, { status: 204, headers: { 'Encke-Cursor': cursor } }));
  await settle();
}

test('a network that holds streams back gets WebSocket, then polls, with one cursor', async () => {
  const sockets = simulateWebSockets();
  await start({ cursor: 'e-7' });
  await settle();
  requests.shift();
  await pass(10001);
  await pass(2000);
  assert.equal(sockets[0].url.href, 'ws://push.example/ws/alice,a%2Cb?cursor=e-7');
  sockets[0].onopen();
  sockets[0].onmessage({ data: '{"id":"e-8","subject":"rj","data":1}' });
  sockets[0].onclose({ code: 1001, reason: 'the operator has closed the session' });
  await pass(2000);
  assert.equal(sockets.length, 2, 'what worked is tried again');
  assert.equal(sockets[1].url.searchParams.get('cursor'), 'e-8');
  sockets[1].onclose({ code: 1006 });
  await pass(4000);
  await answerPoll('e-8');
  await pass(2000);
  assert.equal(sockets.length, 3, 'the server is there, so it is tried once more');
  sockets[2].onclose({ code: 1006 });
  await pass(4000);
  assert.equal(requests[0].url.href, 'http://push.example/poll/alice,a%2Cb?wait=0&cursor=e-8');
  const body = '[{"id":"e-8","subject":"rj","data":1},{"id":"e-9","subject":"rj","data":2}]';
  requests.shift().answer(new Response(body, { headers: { 'Encke-Cursor': 'e-12' } }));
  await settle();
  assert.equal(requests[0].url.search, '?wait=25&cursor=e-12');
  await pass(65000);
  assert.ok(!requests[0].signal.aborted, 'a poll may be silent while it waits');
  requests.shift().answer(new Response(null, { status: 204, headers: { 'Encke-Cursor': 'e-13' } }));
  await settle();
  assert.equal(client.cursor, 'e-13');
  assert.deepEqual(events(), ['e-8', 'e-9']);
  assert.deepEqual(heard.filter(([, state]) => state === 'live').map(([, , name]) => name), ['websocket', 'poll']);
});

test('a WebSocket comes back when its close says, at the earliest', async () => {
  const sockets = simulateWebSockets();
  for (const [random, delay] of [[0, 4711], [0.5, 5711]]) {
    sockets.length = 0;
    await start({ transports: ['websocket'] });
    sockets[0].onopen();
    mock.method(Math, 'random', () => random);
    sockets[0].onclose({ code: 1001, reason: '{"retry":4711}' });
    await pass(delay - 1);
    assert.equal(sockets.length, 1, `before ${delay}`);
    await pass(1);
    assert.equal(sockets.length, 2, `after ${delay}`);
    client.close();
  }
});

test('clients that lose a server at one moment come back spread, over each transport', async () => {
  const sockets = simulateWebSockets();
  const breaks = {
    sse: async () => (await open()).fail(),
    websocket() {
      sockets[0].onopen();
      sockets[0].onclose({ code: 1006 });
    },
    async poll() {
      await answerPoll();
      requests.shift().answer(Promise.reject(new TypeError('terminated')));
    },
  };
  for (const [transport, breakStream] of Object.entries(breaks)) {
    const delays = [];
    for (let part = 0; part < 20; part += 1) {
      sockets.length = requests.length = 0;
      await start({ transports: [transport] });
      mock.method(Math, 'random', () => part / 20);
      await breakStream();
      sockets.length = requests.length = 0;
      let delay = 0;
      for (; !sockets.length && !requests.length; delay += 10) await pass(10);
      delays.push(delay);
      client.close();
    }
    const least = transport === 'sse' ? 500 : 0;
    assert.ok(delays[0] >= least && delays[0] <= least + 20, `${transport}: ${delays}`);
    delays.slice(1).forEach((delay, at) => {
      assert.ok(delay - delays[at] >= 50, `${transport}, apart from each other: ${delays}`);
    });
  }
});

test('a WebSocket that fails while the server is away stays one', async () => {
  const sockets = simulateWebSockets();
  await start({ transports: ['websocket', 'poll'] });
  sockets[0].onopen();
  sockets[0].onclose({ code: 1006 });
  await pass(2000);
  sockets[1].onclose({ code: 1006 });
  for (let times = 0; times < 3; times += 1) {
    await pass(30000);
    requests.shift().answer(Promise.reject(new TypeError('refused')));
  }
  await pass(30000);
  await answerPoll();
  await pass(2000);
  sockets[2].onopen();
  await settle();
  assert.equal(requests.length, 0, 'it does not poll');
  assert.deepEqual(heard.filter(([, state]) => state === 'live').map(([, , name]) => name), ['websocket', 'websocket']);
});

test('a stream that was silent while the network was away is tried again when something is heard', async () => {
  const sockets = simulateWebSockets();
  await start();
  const stream = await open();
  await stream.fail();
  await pass(3000);
  requests.shift();
  await pass(10001);
  await pass(4000);
  assert.equal(sockets.length, 1);
  sockets[0].onopen();
  await pass(2500);
  await open();
  assert.deepEqual(heard.filter(([, state]) => state === 'live').map(([, , name]) => name), ['sse', 'sse']);
});

test('an event is published over WebSocket alone, and its promise follows its answer', async () => {
  const sockets = [];
  globalThis.WebSocket = class {
    sent = [];
    constructor() {
      sockets.push(this);
    }
    send(text) {
      this.sent.push(JSON.parse(text).publish);
    }
    close() {}
  };
  await start({ transports: ['websocket'] });
  await assert.rejects(client.publish({ subject: 'rj', data: 1 }), /needs a WebSocket/);
  sockets[0].onopen();
  const say = (type, data) => sockets[0].onmessage({ data: JSON.stringify({ type, data }) });
  const first = client.publish({ subject: 'rj', type: 'note', data: { a: 1 } });
  const second = client.publish({ subject: 7, data: Uint8Array.of(0, 255) });
  const third = client.publish({ subject: 'rj', data: 'x' });
  assert.deepEqual(sockets[0].sent, [
    { subject: 'rj', type: 'note', data: { a: 1 }, ref: '1' },
    { subject: 7, encoding: 'base64', data: 'AP8=', ref: '2' },
    { subject: 'rj', data: 'x', ref: '3' },
  ]);
  say('error', { reason: 'no right', ref: '2' });
  say('error', { reason: 'about no event' });
  say('published', { id: 'e-9', ref: '1' });
  await assert.rejects(second, /no right/);
  assert.equal(await first, 'e-9');
  sockets[0].onclose({ code: 1001 });
  await assert.rejects(third, /may be published or not/);
  assert.equal(client.cursor, '', 'the id of an own event is no cursor');
});

test('a poll of a client that is to stay away ends it', async () => {
  for (const status of [204, 501]) {
    await start({ transports: ['poll'] });
    requests.shift().answer(new Response(null, { status }));
    await pass(60000);
    assert.equal(requests.length, 0);
    assert.equal(client.state, 'refused');
  }
});

test('an error in a callback ends nothing', async () => {
  mock.method(console, 'error', () => {});
  await start({ onevent: () => { throw new Error('a bug of the application'); } });
  const stream = await open();
  await stream.say(event('e-2'));
  await stream.say(event('e-3'));
  assert.equal(client.cursor, 'e-3');
  assert.equal(console.error.mock.callCount(), 2);
});

test('a closed client is silent and holds nothing', async () => {
  await start();
  const stream = await open();
  client.close();
  assert.ok(stream.request.signal.aborted);
  await pass(120000);
  assert.equal(requests.length, 0);
  assert.deepEqual(states(), ['live', 'closed']);
});

const piece = (online, more, first) => notice('presence', { online, first, more });
const presence = () => heard.filter(([kind]) => kind === 'presence').map(([, online, change]) => [online, change]);

test('a snapshot in pieces is told as one, and replaces what was known', async () => {
  await start({ presence: true });
  assert.equal(requests[0].url.searchParams.get('presence'), '1');
  const stream = await open();
  await stream.say(piece(['alice', 7], true, true));
  assert.deepEqual(presence(), [], 'a part is no answer');
  await stream.say(piece(['rj'], false, false));
  assert.deepEqual(presence(), [[[7, 'alice', 'rj'], undefined]]);
  await stream.say(piece(['bob'], false, true));
  assert.deepEqual(presence().at(-1), [['bob'], undefined]);
  assert.deepEqual([...client.online], ['bob']);
});

test('a change is told once, also where it comes between two pieces of a snapshot', async () => {
  await start({ presence: true });
  const stream = await open(WELCOME + piece(['alice'], false, true));
  await stream.say(notice('online', { id: 'rj' }) + notice('online', { id: 'rj' }) + notice('offline', { id: 'nobody' }));
  assert.deepEqual(presence().slice(1), [[['alice', 'rj'], { id: 'rj', online: true }]]);
  await stream.say(notice('offline', { id: 'alice' }));
  assert.deepEqual(presence().at(-1), [['rj'], { id: 'alice', online: false }]);
  await stream.say(piece(['a', 'b'], true, true) + notice('offline', { id: 'a' }) + notice('online', { id: 'd' }));
  assert.deepEqual([...client.online], ['rj'], 'a part is no answer');
  await stream.say(piece(['c'], false, false));
  assert.deepEqual(presence().at(-1), [['b', 'c', 'd'], undefined]);
  assert.deepEqual(events(), []);
});

test('a snapshot that was cut is forgotten, and the next stream tells all anew', async () => {
  await start({ presence: true });
  let stream = await open(WELCOME + piece(['alice'], false, true) + piece(['left'], true, true));
  await stream.fail();
  assert.deepEqual([...client.online], ['alice'], 'what was known is kept meanwhile');
  await pass(2500);
  assert.equal(requests[0].url.searchParams.get('presence'), '1');
  stream = await open(WELCOME + piece(['rj'], false, true));
  assert.deepEqual(presence().at(-1), [['rj'], undefined]);
});

test('each answer to a poll has a snapshot, of which the last piece may say that there is more', async () => {
  await start({ presence: true, transports: ['poll'] });
  assert.equal(requests[0].url.search, '?wait=0&presence=1');
  const object = (online, first, more) => ({ type: 'presence', data: { online, first, more } });
  const answer = (...objects) => requests.shift().answer(new Response(JSON.stringify(objects), { headers: { 'Encke-Cursor': 'e-2' } }));
  answer(object(['a'], true, true), object(['b'], false, true));
  await settle();
  assert.deepEqual(presence(), [[['a', 'b'], undefined]]);
  answer(object([], true, false), { id: 'e-3', subject: 'rj', data: 1 });
  await settle();
  assert.deepEqual(presence().at(-1), [[], undefined]);
  assert.deepEqual(events(), ['e-3']);
});

test('a client that does not ask is told nothing of presence', async () => {
  await start();
  assert.equal(requests[0].url.searchParams.get('presence'), null);
  assert.equal(client.online.size, 0);
});
