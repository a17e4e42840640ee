/* What is shown all the time. */

const FIGURES = {
  sessions: new Figure('Sessions', number),
  online: new Figure('Ids online', number),
  publishes: new Figure('Publishes / s', rate),
  written: new Figure('Deliveries / s', rate),
  shed: new Figure('Shed or lost / s', rate, true),
  bytes: new Figure('Bytes sent / s', bytes),
  backlog: new Figure('Bytes waiting', bytes),
  busy: new Figure('Workers busy', (part) => (100 * part).toFixed(part < .1 ? 1 : 0) + '%'),
};

const TRANSPORTS = { sse: 'SSE', ndjson: 'NDJSON', websocket: 'WebSocket', poll: 'Polling', test: '/test', erlang: 'Erlang' };

let before = null;

function sum(values) {
  return Object.values(values || {}).reduce((all, one) => all + one, 0);
}

/* Counters whose differences are rates. */
function counters(stats) {
  const { deliveries = {}, bytes_written = 0, worker_seconds = {} } = stats.totals;
  return {
    publishes: sum(stats.published),
    written: deliveries.written || 0,
    shed: (deliveries.shed || 0) + (deliveries.lost || 0),
    bytes: bytes_written,
    busy: (worker_seconds.busy || 0) / Math.max(stats.workers.length, 1),
  };
}

async function pollStats() {
  const stats = await ask('GET', '/v1/stats');
  const now = { at: performance.now(), epoch: stats.epoch, uptime: stats.uptime_seconds, counters: counters(stats), refused: refused(stats) };
  if (before && (before.epoch !== now.epoch || before.uptime > now.uptime)) {
    before = null;
    for (const figure of Object.values(FIGURES)) figure.clear();
  }
  $('vitals-note').hidden = true;
  live(stats.draining ? 'draining' : 'live', stats.draining ? '' : 'good');
  $('run').textContent = 'version ' + stats.version + ' · run ' + stats.epoch + ' · up ' + age(stats.uptime_seconds) +
    ' · ' + count(stats.workers.length, 'worker');
  FIGURES.sessions.show(sum(stats.totals.sessions));
  FIGURES.online.show(stats.online);
  FIGURES.backlog.show(stats.totals.backlog_bytes || 0);
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  if (seconds > 0) {
    for (const [name, value] of Object.entries(now.counters)) {
      FIGURES[name].show(Math.max(value - before.counters[name], 0) / seconds);
    }
  }
  showTransports(stats);
  showRefusals(now.refused, before && before.refused);
  showHistory(stats);
  before = now;
}

function showTransports(stats) {
  const pairs = Object.entries(stats.totals.sessions || {}).map(([name, many]) => [TRANSPORTS[name] || name, many]);
  pairs.sort(([, a], [, b]) => b - a);
  const notes = [];
  if (stats.totals.tls_connections) notes.push(count(stats.totals.tls_connections, 'connection') + ' over TLS');
  if (stats.totals.sessions_replaying) notes.push(count(stats.totals.sessions_replaying, 'session') + ' fed from the history');
  if (stats.totals.backlog_sessions) notes.push(count(stats.totals.backlog_sessions, 'session') + ' with a full socket');
  $('transports').replaceChildren(measures(pairs, number), ...notes.length ? [make('p', notes.join(' · '), 'note')] : []);
}

/* Counters of refusals: what was refused, and the words for it. */
const REFUSALS = {
  logins_denied: 'login', connections_refused: 'connection', client_publishes: 'event of a client',
  tls_handshake_failures: 'TLS handshake', erlang_refused: 'Erlang', buffer_give_ways: 'gave way to the bound on buffers',
};
const SINGLE_REFUSALS = { requests_rejected: 'request answered with an error', proxy_headers_rejected: 'PROXY header missing' };

function refused(stats) {
  const all = {};
  for (const [name, words] of Object.entries(REFUSALS)) {
    for (const [reason, many] of Object.entries(stats.totals[name] || {})) {
      if (reason !== 'accepted') all[words + ': ' + reason.replaceAll('_', ' ')] = many;
    }
  }
  for (const [name, words] of Object.entries(SINGLE_REFUSALS)) all[words] = stats.totals[name] || 0;
  for (const reason of ['slow', 'timeout', 'revoked', 'expired']) all['session closed: ' + reason] = (stats.totals.connections_closed || {})[reason] || 0;
  all['control connection: refused'] = stats.control.refused;
  return all;
}

function showRefusals(now, earlier) {
  const found = Object.entries(now).filter(([, many]) => many > 0).sort(([, a], [, b]) => b - a);
  if (found.length === 0) {
    $('refusals').replaceChildren(make('p', 'Nothing was refused since the start.', 'none'));
    return;
  }
  const rows = found.map(([reason, many]) => [reason, number(many), number(earlier ? many - (earlier[reason] || 0) : 0)]);
  $('refusals').replaceChildren(table('Refusals by reason', ['Reason', 'Since the start', 'Now'], rows, ['', 'number', 'number']));
}

function showHistory(stats) {
  const { history, graph } = stats;
  const pairs = [['Graph', count(graph.edges, 'subscription') + ' of ' + count(graph.ids, 'id')]];
  if (!history) pairs.push(['History', 'none: events reach only those who are online']);
  else {
    pairs.push(['History', count(history.events, 'event') + ', ' + bytes(history.bytes)]);
    pairs.push(['Reaches back', history.events ? age(history.age_seconds) : 'no event yet']);
    pairs.push(['Stored, kept out', number(history.appended) + ', ' + number(history.skipped)]);
    if (history.lost) pairs.push(['Could not be stored', make('span', number(history.lost), 'bad')]);
    const { disk } = history;
    pairs.push(['Kept on disk', disk ? bytes(disk.bytes) + ' in ' + count(disk.segments, 'segment') : 'no: it is in memory only']);
    if (disk && (disk.has_failed || disk.unstored || disk.failures)) {
      const words = (disk.has_failed ? 'The disk has failed. ' : '') + number(disk.unstored) + ' not stored, ' + count(disk.failures, 'failure');
      pairs.push(['Disk', make('span', words, 'bad')]);
    }
  }
  if (stats.publishes_pending) pairs.push(['Receipts awaited', number(stats.publishes_pending)]);
  $('history').replaceChildren(facts(pairs));
}

/* Latency. The samples of the last minute, so that a difference is that of a minute. */
const LATENCIES = {
  encke_delivery_latency_seconds: 'Publish to delivery',
  encke_publish_latency_seconds: 'Publish to receipt',
};
/* What is written to a disk: how often, the time that took, and failures where nothing else says them. */
const DISKS = [
  ['Graph on disk', 'commit', 'encke_store_commits_total', 'encke_store_commit_seconds_total', 'encke_store_commit_failures_total'],
  ['History on disk', 'sync', 'encke_history_disk_syncs_total', 'encke_history_disk_sync_seconds_total'],
];
const WAITING = 'encke_store_waiting_changes';
const MINUTE = 60000;
let samples = [];

async function pollMetrics() {
  const text = await request('GET', '/metrics');
  /* A node of a cluster says so in its metrics. */
  if (clusterPoller.done && text.includes('\nencke_log_ready')) {
    clusterPoller.done = false;
    clusterPoller.turn();
  }
  const found = histograms(text, Object.keys(LATENCIES));
  const disks = values(text, [WAITING, ...DISKS.flatMap(([, , ...names]) => names)]);
  samples.push({ at: performance.now(), epoch: before && before.epoch, found, disks });
  while (samples.length > 1 && (samples[1].at <= performance.now() - MINUTE || samples[0].epoch !== samples[samples.length - 1].epoch)) samples.shift();
  showLatency();
  showDisks();
}

/* Of the last minute, or since the start where nothing was written in it. */
function showDisks() {
  const { disks } = samples[samples.length - 1];
  const pairs = [];
  for (const [title, one, times, seconds, failures] of DISKS) {
    if (!disks.has(times)) continue;
    const grown = (name) => disks.get(name) - samples[0].disks.get(name);
    const mean = (time, many) => (many > 0 ? ', ' + span(time / many) + ' each' : '');
    const words = grown(times) > 0
      ? count(grown(times), one) + ' in the last minute' + mean(grown(seconds), grown(times))
      : count(disks.get(times), one) + ' since the start' + mean(disks.get(seconds), disks.get(times));
    pairs.push([title, words]);
    if (times === DISKS[0][2]) pairs.push(['Changes that wait', number(disks.get(WAITING))]);
    if (disks.get(failures)) pairs.push(['Failed commits', make('span', number(disks.get(failures)), 'bad')]);
  }
  if (!disks.has(WAITING)) pairs.unshift(['Graph on disk', 'no: it is in memory only']);
  $('disks').replaceChildren(facts(pairs));
}

function showLatency() {
  const last = samples[samples.length - 1];
  const first = samples.length > 1 && $('latency-span').value === 'minute' ? samples[0] : null;
  $('latency').hidden = !last || last.found.size === 0;
  if ($('latency').hidden) return;
  const charts = Object.entries(LATENCIES).filter(([name]) => last.found.has(name)).map(([name, title]) =>
    histogram(title, spread(last.found.get(name), first && first.found.get(name))));
  $('latencies').replaceChildren(...charts);
}

async function pollSlowest() {
  const { sessions } = await ask('GET', '/v1/slowest?limit=10');
  if (sessions.length === 0) {
    $('slowest').replaceChildren(make('p', 'No session has events that wait for its socket.', 'none'));
    return;
  }
  const rows = sessions.map((one) => [idButtons(one.ids), TRANSPORTS[one.transport] || one.transport, bytes(one.backlog_bytes),
    number(one.backlog_frames), age(one.age_seconds), String(one.worker), one.peer || '–']);
  const headings = ['Ids', 'Transport', 'Waiting', 'Events', 'Age', 'Worker', 'Peer'];
  $('slowest').replaceChildren(table('Slowest readers', headings, rows, ['', '', 'number', 'number', 'number', 'number', 'peer']));
}

async function pollCluster() {
  const cluster = await ask('GET', '/v1/cluster');
  $('cluster').hidden = false;
  const words = ['This is ' + cluster.node];
  words.push(cluster.connected ? 'connected to the log' : 'not connected to the log');
  if (cluster.lag_seconds >= .1) words.push(span(cluster.lag_seconds) + ' behind');
  if (!cluster.ready) words.push('not ready: ' + (cluster.not_ready || 'see /readyz'));
  $('cluster-note').replaceChildren(...nodes(words.join(' · ')));
  const rows = cluster.nodes.map((node) => [foreign(node.name), foreign(node.version), number(node.sessions), number(node.behind), span(node.silent_seconds)]);
  $('nodes').replaceChildren(table('Nodes', ['Node', 'Version', 'Sessions', 'Entries behind', 'Silent for'], rows, ['', '', 'number', 'number', 'number']));
}

function live(word, mood) {
  if ($('state').textContent === word) return;
  $('state').textContent = word;
  $('state').className = 'state ' + mood;
}

function statsFailed(error) {
  if (error.status === 401) return;
  if (error.status === 403) {
    live('limited rights', '');
    say($('vitals-note'), error.message);
    $('vitals-note').hidden = false;
  } else {
    live('no answer', 'bad');
  }
}

/* What a panel says of its own failure. */
function panelFailed(name) {
  return (error) => {
    if (error.status !== 401 && error.status !== 0) $(name).replaceChildren(make('p', nodes(error.message), 'none'));
  };
}

new Poller(2000, pollStats, statsFailed);
new Poller(5000, pollMetrics, () => {});
new Poller(4000, pollSlowest, panelFailed('slowest'));
const clusterPoller = new Poller(4000, pollCluster, () => {});
clusterPoller.done = true;
