/**
 * Client of an Encke server: events about ids, in order, without a hole that is not announced.
 *
 * It reads Server-Sent Events by `fetch`. If the network holds them back, it tries WebSocket, then long polling. One
 * cursor serves all three. The types and the documentation of each option are in encke.d.ts.
 */

/** Longest silence of a healthy stream, in milliseconds: two heartbeats of 20 s, each 10 % late, and a margin. */
const SILENCE = 50000;
/** Longest wait for the first byte of a stream, in milliseconds. After it, the next transport is tried. */
const FIRST_BYTE = 10000;
/** Time over which attempts are spread after a break, in milliseconds. It doubles with each failure. */
const SPREAD = 2000;
/** Longest time over which attempts are spread, in milliseconds. */
const SPREAD_MAX = 30000;
/** Most ids that are remembered to drop events that arrive again after a reconnect. */
const SEEN_MAX = 1024;
/** Seconds that a poll waits for an event. */
const POLL_WAIT = 25;
/** Field of an answer to a poll that has the cursor of the next one. */
const NEXT = 'Encke-Cursor';
/** Notices that callbacks get. */
const NOTICES = /^(reset|gap|expired|presence|online|offline)$/;

export function connect(options) {
  const { share = true, token, ticket, url, ids, presence } = options;
  // Tabs with tokens may belong to different users. A tab with a cursor wants what the others have had.
  const name = share === true ? !(token || ticket) && [url, ids, presence] : share;
  // Browsers that have locks have BroadcastChannel.
  const mayShare = name && !options.cursor && globalThis.document && navigator.locks;
  if (mayShare) return shared(options, 'encke:' + name);
  const client = newClient(options);
  client.run();
  return client.facade;
}

/** Lets one tab hold the connection and pass what it receives to the others. */
function shared(options, name) {
  const channel = new BroadcastChannel(name);
  const leaving = new AbortController();
  let isLeader = false;
  const client = newClient(options, {
    tell: (...heard) => channel.postMessage(heard),
    leave() {
      leaving.abort();
      channel.close();
    },
  });
  channel.onmessage = ({ data: [kind, value, detail] }) => {
    if (kind !== 'joined') client.hear(kind, value, detail);
    else if (isLeader) channel.postMessage(['welcome', ...client.known()]);
  };
  channel.postMessage(['joined']);
  navigator.locks.request(name, { signal: leaving.signal }, () => {
    isLeader = true;
    return client.run();
  }).catch(() => {});
  return client.facade;
}

/** Makes a client. `hooks` tell other tabs what this one receives. */
function newClient(options, hooks = {}) {
  const transports = options.transports ?? ['sse', 'websocket', 'poll'];
  const seen = new Set();
  let state = 'connecting';
  let cursor = options.cursor ?? '';
  let online = new Set();
  /** Ids of a snapshot of which pieces are still to come. */
  let snapshot;
  let transport = 0;
  /** Transports that may fail as the server is away: those that were live, and WebSocket, which does not say why. */
  const doubtful = new Set(['websocket']);
  /** One of them that has failed, until another one is heard. */
  let doubted;
  let isClosed = false;
  /** Sends a message on the current stream, if it is a WebSocket. */
  let send;
  /** Functions that settle the promises of events that are not answered, by their numbers. */
  const unanswered = new Map();
  let published = 0;
  /** Ends the current stream, or, if it has been silent for too long, replaces it. */
  let end = () => {};
  let check = () => {};
  /** Ends the current delay within some milliseconds. */
  let wake = () => {};

  /** An error in a callback is reported and does not end the stream. */
  function call(callback, ...values) {
    try {
      options[callback]?.(...values);
    } catch (error) {
      (globalThis.reportError ?? console.error)(error);
    }
  }

  function hear(kind, value, detail) {
    if (kind === 'cursor') {
      cursor = value;
    } else if (kind === 'welcome') {
      cursor ||= detail.cursor;
      hear('presence', { online: detail.online, first: true });
      hear('state', value);
    } else if (kind === 'presence') {
      if (value.first) snapshot = new Set();
      value.online.forEach((id) => snapshot?.add(id));
      if (!snapshot || value.more) return;
      online = snapshot;
      snapshot = 0;
      call('onpresence', online);
    } else if (/line$/.test(kind)) {
      value.online = kind === 'online';
      const ids = snapshot || online;
      if (ids.has(value.id) === value.online) return;
      ids[value.online ? 'add' : 'delete'](value.id);
      // Within a snapshot the whole of it is told when it is complete.
      if (!snapshot) call('onpresence', online, value);
    } else if (kind === 'state') {
      if (state === value) return;
      state = value;
      call('onstate', state, detail);
    } else {
      cursor = value.id ?? cursor;
      call('on' + kind, value);
    }
  }

  /** Tells this tab and the others. */
  function tell(...heard) {
    if (isClosed) return;
    hooks.tell?.(...heard);
    hear(...heard);
  }

  function publish({ data, ...event }) {
    return new Promise((resolve, reject) => {
      if (!send) throw failed('it needs a WebSocket');
      if (data instanceof Uint8Array) {
        // A message has 64 KiB at most, which is not too many arguments.
        data = btoa(String.fromCharCode(...data));
        event.encoding = 'base64';
      }
      const ref = `${(published += 1)}`;
      send(JSON.stringify({ publish: { ...event, data, ref } }));
      unanswered.set(ref, ({ id, reason }) => (id ? resolve(id) : reject(failed(reason))));
    });
  }

  /** Settles the promise of an event. */
  function answer({ ref, ...answer }) {
    unanswered.get(ref)?.(answer);
    unanswered.delete(ref);
  }

  function close() {
    if (isClosed) return;
    hear('state', 'closed');
    isClosed = true;
    end();
    wake(0, 0);
    hooks.leave?.();
  }

  /** Connects again and again, until the client is closed or refused. */
  async function run() {
    const soon = () => {
      check();
      // Many clients wake at once when a network comes back.
      wake(Math.random() * SPREAD);
    };
    const listen = (act) => {
      globalThis[act + 'EventListener']?.('online', soon);
      globalThis.document?.[act + 'EventListener']('visibilitychange', soon);
    };
    listen('add');
    let failures = 0;
    let isRenewed = false;
    while (!isClosed) {
      const attempt = newAttempt();
      let failure;
      try {
        await TRANSPORTS[transports[transport]](attempt);
      } catch (error) {
        failure = attempt.signal.aborted ? attempt.signal.reason : error;
      }
      end();
      if (isClosed) break;
      const canRenew = !isRenewed && (options.token?.call || options.ticket?.call);
      if (failure?.isFinal && !(failure.status === 401 && canRenew)) {
        // Of this tab: others may have other tokens, and try for themselves.
        hear('state', 'refused', failure);
        hooks.leave?.();
        break;
      }
      if (failure?.isHeld) {
        if (doubtful.has(transports[transport])) doubted ??= transport;
        transport = (transport + 1) % transports.length;
      }
      isRenewed = failure?.status === 401;
      if (attempt.isLive) failures = 0;
      tell('state', 'reconnecting', failure);
      // Not before the server says. All are spread from then on: a server that dies says the same to all, or nothing.
      const told = +attempt.delay || 0;
      await delay(told + Math.random() * Math.min(SPREAD_MAX, SPREAD * 2 ** failures), told);
      failures += 1;
    }
    listen('remove');
  }

  /** Waits, at least as long as the server has told. */
  function delay(time, told) {
    return new Promise((resolve) => {
      let timer = setTimeout(resolve, time);
      const begun = Date.now();
      wake = (soon, least = told) => {
        const passed = Date.now() - begun;
        clearTimeout(timer);
        timer = setTimeout(resolve, Math.min(time - passed, Math.max(soon, least - passed)));
      };
    });
  }

  /** Makes what a transport needs for one stream. */
  function newAttempt() {
    const ending = new AbortController();
    const begun = Date.now();
    let heard = begun;
    let patience = options.firstByte ?? FIRST_BYTE;
    let timer;
    end = (error) => {
      clearTimeout(timer);
      ending.abort(error);
    };
    const arm = () => {
      clearTimeout(timer);
      // Timers of a machine that sleeps stand still; its clock does not.
      check = () => {
        const late = Date.now() - heard > patience;
        if (late) end(failed('no sign of life', { isHeld: !attempt.isLive }));
      };
      timer = setTimeout(check, patience + 1);
    };
    const attempt = {
      options,
      signal: ending.signal,
      get cursor() {
        return cursor;
      },
      /** Notes that the server has said something, and will again within `more` milliseconds beyond the usual. */
      heard(more = 0) {
        attempt.isLive = true;
        if ((doubted ?? transport) !== transport) {
          // The server is there: now it turns out whether the network holds the other transport back.
          transport = doubted;
          doubted = undefined;
          doubtful.delete(transports[transport]);
          return end();
        }
        doubted = undefined;
        doubtful.add(transports[transport]);
        heard = Date.now();
        patience = (options.silence ?? SILENCE) + more;
        arm();
        tell('state', 'live', transports[transport]);
      },
      set send(sender) {
        send = sender;
        const reason = 'cut off: it may be published or not';
        if (!send) [...unanswered.keys()].forEach((ref) => answer({ ref, reason }));
      },
      /** Takes an object: an event, a notice about the stream, which has no id, or a cursor, which has nothing else. */
      take(object) {
        const { id, type, data } = object;
        if (id === undefined) {
          // A new token is asked for soon, but not again and again.
          if (type === 'expired' && Date.now() - begun > attempt.delay) attempt.delay = 0;
          if (['published', 'error'].includes(type)) answer(data);
          if (NOTICES.test(type)) tell(type, data ?? {});
          return;
        }
        const position = id.split('-', 2).join('-');
        if (data === undefined || seen.has(position)) return tell('cursor', id);
        seen.add(position);
        if (seen.size > SEEN_MAX) seen.delete(seen.values().next().value);
        if (object.encoding) object.data = Uint8Array.from(atob(data), (byte) => byte.charCodeAt());
        tell('event', object);
      },
    };
    arm();
    return attempt;
  }

  const facade = {
    get state() {
      return state;
    },
    get cursor() {
      return cursor;
    },
    get online() {
      return online;
    },
    publish,
    close,
  };
  return { facade, hear, run, known: () => [state, { cursor, online }] };
}

const failed = (message, more) => Object.assign(Error(message), more);

/** A value, or what a function says that it is now. */
const valueOf = (source) => (source?.call ? source() : source);

async function urlOf({ options, cursor }, path, query) {
  const url = new URL(options.url ?? '', globalThis.location?.href);
  const ids = [].concat(options.ids ?? []).map(encodeURIComponent).join();
  // Browsers take a dot alone out of a path.
  const isDots = /^\.\.?$/.test(ids);
  url.pathname = url.pathname.replace(/\/[^/]*$/, '') + path + (ids && !isDots ? '/' + ids : '');
  const ticket = await valueOf(options.ticket);
  url.search = new URLSearchParams({
    ...query,
    ...(isDots && { id: ids }),
    ...(cursor && { cursor }),
    ...(options.presence && { presence: 1 }),
    ...(ticket && { ticket }),
  });
  url.hash = '';
  return url;
}

/** Sends a request, and throws for an answer other than the one that is wanted. */
async function request(attempt, path, query) {
  const { options, signal } = attempt;
  const url = await urlOf(attempt, path, query);
  const token = await valueOf(options.token);
  const answer = await fetch(url, {
    ...(token && { headers: { Authorization: 'Bearer ' + token } }),
    signal,
    cache: 'no-store',
    credentials: options.credentials,
  });
  const { status } = answer;
  // A page may come from a network that wants a login first.
  const isPage = /html/.test(answer.headers.get('Content-Type'));
  // 204 tells a poll that there is nothing yet, if it has a cursor, and otherwise a client not to come back.
  if ((status === 200 && !isPage) || (status === 204 && answer.headers.get(NEXT))) return answer;
  const after = +answer.headers.get('Retry-After');
  if (after) attempt.delay = after * 1000 * (1 + Math.random());
  const message = (await answer.text().catch(() => '')).slice(0, 500) || 'status ' + status;
  throw failed(message, { status, isFinal: !/^(200|408|429|5(?!01))/.test(status) });
}

/** Transports. Each returns when its stream ends, and throws when it fails. */
const TRANSPORTS = {
  /** Server-Sent Events (WHATWG HTML, section 9.2), by fetch: it can send a token, and tells the status. */
  async sse(attempt) {
    const { body } = await request(attempt, '/events', { format: 'json' });
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let text = '';
    let block = {};
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      attempt.heard();
      const lines = (text + decoder.decode(value, { stream: true })).split('\n');
      text = lines.pop();
      for (const line of lines) {
        const [, name, value] = /^([^:]*):? ?(.*)/.exec(line);
        if (name === 'retry') attempt.delay = value;
        else if (name) block[name] = value;
        if (line) continue;
        const { id, data } = block;
        block = {};
        if (data || id) attempt.take(data ? JSON.parse(data) : { id });
      }
    }
  },

  /** WebSocket. Browsers send no header with it: a token goes into the query, if the options allow that. */
  async websocket(attempt) {
    const { options, signal } = attempt;
    const token = await valueOf(options.token);
    const unavailable = failed('no WebSocket', { isHeld: true });
    if (token && !options.tokenInQuery) throw unavailable;
    const url = await urlOf(attempt, '/ws', token && { access_token: token });
    url.protocol = url.protocol.replace('http', 'ws');
    const socket = new WebSocket(url);
    try {
      await new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        socket.onopen = () => {
          attempt.send = (text) => socket.send(text);
          attempt.heard();
        };
        socket.onmessage = ({ data }) => {
          attempt.heard();
          attempt.take(JSON.parse(data));
        };
        socket.onclose = ({ code, reason }) => {
          // A server that shuts down gives each client a delay of its own.
          attempt.delay = /"retry":(\d+)/.exec(reason)?.[1];
          if (!attempt.isLive) reject(unavailable);
          else if (code === 1008) reject(failed(reason, { status: 401, isFinal: true }));
          else resolve();
        };
      });
    } finally {
      attempt.send = 0;
      socket.close();
    }
  },

  /** Long polling. */
  async poll(attempt) {
    for (;;) {
      const answer = await request(attempt, '/poll', { wait: attempt.isLive ? POLL_WAIT : 0 });
      attempt.heard(POLL_WAIT * 1000);
      const objects = answer.status === 204 ? [] : await answer.json();
      objects.forEach(attempt.take);
      // A client that follows very many ids gets the snapshot of some of them, and no last piece.
      attempt.take({ type: 'presence', data: { online: [] } });
      attempt.take({ id: answer.headers.get(NEXT) ?? attempt.cursor });
    }
  },
};
