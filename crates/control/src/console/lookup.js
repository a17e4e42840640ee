/* One id: its sessions, whom it follows, who follows it. */

const LISTED = 50;
/* How the address of this page names the id. */
const ADDRESS = '#id=';
let shownId = null;
let lookedUp = 0;

/* Ids as buttons that look them up. */
function idButtons(ids) {
  const shown = ids.slice(0, LISTED).map((id) => {
    const button = foreign(id, 'button');
    button.type = 'button';
    button.className = 'id';
    button.onclick = () => lookUp(String(id));
    return button;
  });
  return make('span', shown);
}

/* Looks an id up, and names it in the address, so that the address can be shared and Back goes back. */
function lookUp(id) {
  const hash = ADDRESS + encodeURIComponent(id);
  $('lookup-id').value = id;
  if (location.hash === hash) find(id);
  else location.hash = hash;
}

function lookUpAddress() {
  if (!location.hash.startsWith(ADDRESS)) return;
  let id = location.hash.slice(ADDRESS.length);
  try { id = decodeURIComponent(id); } catch {}
  $('lookup-id').value = id;
  find(id);
}

async function find(id) {
  const turn = lookedUp += 1;
  const wrong = fault(id);
  shownId = null;
  if (wrong) {
    $('found').hidden = true;
    return say($('lookup-said'), wrong, 'bad');
  }
  try {
    const at = segment(id);
    /* A token may have the rights for some of these only. */
    const [sessions, subscriptions, subscribers] = await Promise.allSettled([
      ask('GET', '/v1/sessions/' + at),
      ask('GET', '/v1/subscriptions/' + at + '?limit=' + LISTED),
      ask('GET', '/v1/subscribers/' + at + '?limit=' + LISTED),
    ]);
    if (turn !== lookedUp) return;
    shownId = id;
    say($('lookup-said'), '');
    $('found').hidden = false;
    $('found-id').replaceChildren(foreign(id));
    showSessions(id, sessions);
    showIds($('found-subscriptions'), subscriptions, 'subscriptions', 'It is subscribed to no other id.');
    showIds($('found-subscribers'), subscribers, 'subscribers', 'No other id is subscribed to it.');
  } catch (error) {
    if (turn === lookedUp) say($('lookup-said'), error.message, 'bad');
  }
}

/* With presence an id may be online without a session here: on another node, or as it has just left. */
function onlineWords(total, online, on) {
  const where = on.length ? ' on ' + on.join(', ') : '';
  if (total) return 'online, ' + count(total, 'session') + (on.length ? ' here;' + where : '');
  return online ? 'online' + where + ', no session here' : 'not online';
}

function showSessions(id, { value, reason }) {
  $('close-sessions').hidden = true;
  if (reason) {
    $('found-online').textContent = 'unknown';
    $('found-online').className = 'state';
    $('found-sessions').replaceChildren(make('p', nodes(reason.message), 'none'));
    return;
  }
  const { total, sessions } = value;
  const { online, hidden, nodes: on = [] } = value.presence || {};
  $('found-online').replaceChildren(...nodes(onlineWords(total, online, on) + (hidden ? '; it hides' : '')));
  $('found-online').className = 'state' + (total || online ? ' good' : '');
  if (total === 0) return $('found-sessions').replaceChildren();
  const others = (one) => one.ids.filter((other) => String(other) !== id);
  const rows = sessions.slice(0, LISTED).map((one) => [TRANSPORTS[one.transport] || one.transport, age(one.age_seconds), String(one.worker),
    one.backlog_frames ? bytes(one.backlog_bytes) + ' in ' + count(one.backlog_frames, 'event') : 'nothing', others(one).length ? idButtons(others(one)) : '–', one.peer || '–']);
  const headings = ['Transport', 'Age', 'Worker', 'Waiting', 'Also as', 'Peer'];
  const shownAll = table('Sessions', headings, rows, ['', 'number', 'number', '', '', 'peer']);
  const more = rows.length < total ? [make('p', number(rows.length) + ' of ' + number(total) + ' are shown.', 'note')] : [];
  $('found-sessions').replaceChildren(shownAll, ...more);
  $('close-sessions').textContent = total === 1 ? 'Close its session' : 'Close its ' + count(total, 'session');
  $('close-sessions').hidden = false;
}

function showIds(where, { value, reason }, member, none) {
  if (reason) return where.replaceChildren(make('p', nodes(reason.message), 'none'));
  const ids = value[member];
  if (ids.length === 0) return where.replaceChildren(make('p', none, 'none'));
  const total = value.total === undefined ? '' : ' of ' + number(value.total);
  const more = value.next === null ? [] : [make('p', number(ids.length) + total + ' are shown.', 'note')];
  where.replaceChildren(idButtons(ids), ...more);
}

/* Sessions end a moment after the answer: looks again until they have, unless their clients have come back. */
async function findClosed(id) {
  for (const wait of [0, 100, 300, 600]) {
    await new Promise((done) => setTimeout(done, wait));
    if (shownId !== id) return;
    await find(id);
    if ($('close-sessions').hidden) return;
  }
}

async function closeSessions() {
  const id = shownId;
  if (id === null) return;
  const sure = await confirmed('Close the sessions?', 'All sessions of “' + id + '” end. Its clients may come back at once, unless the id is banned.', 'Close them');
  if (!sure) return;
  try {
    const { closed } = await ask('DELETE', '/v1/sessions/' + segment(id));
    await findClosed(id);
    say($('lookup-said'), count(closed, 'session') + ' of “' + id + '” ' + (closed === 1 ? 'was' : 'were') + ' closed.');
  } catch (error) {
    say($('lookup-said'), error.message, 'bad');
  }
}

/* Asks whether something is meant. Escape and Cancel mean no. */
function confirmed(title, text, yes) {
  const dialog = $('confirm');
  $('confirm-title').textContent = title;
  $('confirm-text').replaceChildren(...nodes(text));
  $('confirm-yes').textContent = yes;
  return new Promise((answer) => {
    $('confirm-yes').onclick = () => dialog.close('yes');
    $('confirm-no').onclick = () => dialog.close('no');
    dialog.onclose = () => answer(dialog.returnValue === 'yes');
    dialog.returnValue = '';
    dialog.showModal();
    $('confirm-no').focus();
  });
}
