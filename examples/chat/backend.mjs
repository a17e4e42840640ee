#!/usr/bin/env node
// Backend of a chat: log-in, rooms, messages, and a ticket for each stream.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';

const CONTROL = process.env.ENCKE_CONTROL ?? 'http://127.0.0.1:8001';
// Where streams are, as browsers see it.
const PUBLIC = process.env.ENCKE_PUBLIC ?? 'http://localhost:8000/';
const PORT = Number(process.env.PORT ?? 3000);
const BODY_MAX = 10_000;
const FILES = {
  '/': [new URL('index.html', import.meta.url), 'text/html; charset=utf-8'],
  '/encke.js': [new URL('../../clients/js/encke.js', import.meta.url), 'text/javascript'],
};

/** Users by their sessions. */
const users = new Map();

const failed = (status, message) => Object.assign(Error(message), { status });
const room = (name) => 'room:' + encodeURIComponent(name);
const member = (user) => 'user:' + encodeURIComponent(user);

/** Asks the control listener. */
async function control(method, path, value) {
  const headers = value && { 'Content-Type': 'application/json' };
  const answer = await fetch(CONTROL + path, { method, headers, body: value && JSON.stringify(value) });
  const said = await answer.json();
  if (!answer.ok) throw failed(answer.status, said.detail);
  return said;
}

const segment = encodeURIComponent;

const CALLS = {
  async '/ticket'(user) {
    return control('POST', '/v1/tickets', { ids: [member(user)] });
  },
  async '/join'(user, said) {
    await control('PUT', `/v1/subscriptions/${segment(member(user))}/${segment(room(said.room))}`);
    const events = [];
    let page = { more: true };
    while (page.more) {
      const after = page.cursor ? `&after=${segment(page.cursor)}` : '';
      page = await control('GET', `/v1/history/${segment(room(said.room))}?limit=500${after}`);
      events.push(...page.events);
    }
    return { messages: events.map(({ data }) => data), cursor: page.cursor };
  },
  async '/say'(user, said) {
    const message = { from: user, text: said.text };
    return control('POST', `/v1/publish/${segment(room(said.room))}?type=message`, message);
  },
};

function login({ user }) {
  const session = randomUUID();
  users.set(session, user);
  return { user, cookie: `session=${session}; HttpOnly; SameSite=Strict` };
}

async function read(request) {
  // A page of another origin cannot send this type without asking.
  if (request.headers['content-type'] !== 'application/json') throw failed(400, 'send JSON');
  let text = '';
  for await (const piece of request) {
    text += piece;
    if (text.length > BODY_MAX) throw failed(413, 'too long');
  }
  return JSON.parse(text);
}

async function answer(request, response) {
  const path = request.url;
  const send = (kind, body, more) => response.writeHead(200, { 'Content-Type': kind, ...more }).end(body);
  if (request.method === 'GET' && FILES[path]) {
    const [file, kind] = FILES[path];
    return send(kind, await readFile(file));
  }
  const json = (value, more) => send('application/json', JSON.stringify(value), { 'Cache-Control': 'no-store', ...more });
  if (request.method === 'GET' && path === '/config') return json({ encke: PUBLIC });
  if (request.method !== 'POST') throw failed(404, 'there is nothing here');
  const said = await read(request);
  if (path === '/login') {
    const { user, cookie } = login(said);
    return json({ user }, { 'Set-Cookie': cookie });
  }
  const session = /(?:^|; )session=([^;]*)/.exec(request.headers.cookie ?? '')?.[1];
  const user = users.get(session);
  if (!user) throw failed(401, 'log in first');
  if (!CALLS[path]) throw failed(404, 'there is nothing here');
  return json(await CALLS[path](user, said));
}

const server = createServer((request, response) => {
  answer(request, response).catch(({ status = 500, message }) => {
    response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8' }).end(message);
  });
});
server.listen(PORT, '127.0.0.1', () => console.log(`http://localhost:${server.address().port}/`));
