/* Publish, and explain why an event does or does not arrive. */

async function publish() {
  const subject = $('publish-subject').value;
  const type = $('publish-type').value;
  const isSend = $('publish-send').checked;
  const said = (text, mood) => {
    const line = make('p');
    say(line, text, mood);
    $('receipt').replaceChildren(line);
    return line;
  };
  const wrong = fault(subject);
  if (wrong) return said(wrong, 'bad');
  try {
    const path = '/v1/' + (isSend ? 'send/' : 'publish/') + segment(subject) + (type && '?type=' + encodeURIComponent(type));
    const contentType = $('publish-json').checked ? 'application/json' : 'text/plain; charset=utf-8';
    const receipt = await ask('POST', path, $('publish-data').value, contentType);
    said(receiptWords(receipt), receipt.shed ? 'wait' : '');
    $('receipt').append(make('pre', nodes(JSON.stringify(receipt))));
  } catch (error) {
    said(error.message, 'bad');
  }
}

function receiptWords({ id, subscribers, online, written, queued, shed, missing, unstored }) {
  const words = [count(subscribers, 'subscriber') + ', ' + number(online) + ' online', 'written to ' + count(written, 'session')];
  if (queued) words.push('queued for ' + number(queued));
  if (shed) words.push('shed for ' + number(shed));
  if (unstored) words.push('not stored on disk');
  if (missing && missing.length) words.push('no answer from ' + missing.join(', '));
  return words.join('; ') + '. Event ' + id + '.';
}

const MARKS = { delivers: '✓', prevents: '✗', delays: '…', informs: 'i' };
const MOODS = { yes: '', late: 'wait', no: 'bad', unknown: 'wait' };

async function explain() {
  const subject = $('explain-subject').value;
  const subscriber = $('explain-subscriber').value;
  const wrong = fault(subject) || fault(subscriber);
  if (wrong) return explainFailed(wrong);
  try {
    const query = '?subject=' + encodeURIComponent(subject) + '&subscriber=' + encodeURIComponent(subscriber);
    showExplanation(await ask('GET', '/v1/explain' + query));
  } catch (error) {
    explainFailed(error.message);
  }
}

function explainFailed(text) {
  const line = make('p');
  say(line, text, 'bad');
  $('explained').replaceChildren(line);
}

function showExplanation(answer) {
  const verdict = make('p');
  say(verdict, answer.summary, MOODS[answer.verdict]);
  verdict.classList.add('verdict');
  verdict.dataset.verdict = answer.verdict;
  const reasons = answer.reasons.map(({ reason, effect, detail }) => {
    const mark = make('span', MARKS[effect] || '·', 'mark');
    mark.title = effect;
    mark.role = 'img';
    mark.ariaLabel = effect;
    return make('li', [mark, make('span', [...nodes(detail), ' ', make('code', reason)])], effect);
  });
  const rows = answer.sessions.map((one) => [TRANSPORTS[one.transport] || one.transport, String(one.worker),
    one.via === null ? 'would not get it' : one.behind ? 'reads on from the history' : one.backlog_frames ? bytes(one.backlog_bytes) + ' wait' : 'live',
    one.via === null ? '–' : foreign(one.via)]);
  const sessions = rows.length ? [table('Sessions of the subscriber', ['Transport', 'Worker', 'State', 'Gets it as'], rows, ['', 'number', '', ''])] : [];
  $('explained').replaceChildren(verdict, make('ul', reasons, 'reasons'), ...sessions);
}
