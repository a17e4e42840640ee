/* Start. */

function submit(form, work) {
  $(form).onsubmit = async (event) => {
    event.preventDefault();
    const button = event.submitter || $(form).querySelector('button');
    button.disabled = true;
    await work();
    button.disabled = false;
  };
}

function lock() {
  if (locked && $('token').hidden === false && !token) return;
  const refused = Boolean(token);
  keepToken('');
  locked = true;
  live('needs a token', '');
  $('forget').hidden = true;
  $('token').hidden = false;
  say($('token-said'), refused ? 'The server does not know this token.' : '', 'bad');
  $('token-field').focus();
}

function useToken() {
  const given = $('token-field').value.trim();
  $('token-field').value = '';
  if (!/^[\x21-\x7e]{16,1024}$/.test(given)) {
    return say($('token-said'), 'A token has 16 to 1,024 printable ASCII characters.', 'bad');
  }
  keepToken(given);
  locked = false;
  $('token').hidden = true;
  $('forget').hidden = false;
  live('connecting', '');
  begin();
}

async function begin() {
  await wake();
  if (!locked) lookUpAddress();
}

function forgetToken() {
  keepToken('');
  /* What was shown with the token goes with it. */
  location.reload();
}

onunauthorized = lock;
$('forget').hidden = !token;
$('forget').onclick = forgetToken;
submit('token-form', useToken);
submit('lookup-form', () => lookUp($('lookup-id').value));
submit('explain-form', explain);
submit('publish-form', publish);
$('refresh').onclick = () => shownId !== null && find(shownId);
$('close-sessions').onclick = closeSessions;
$('latency-span').onchange = showLatency;
$('pause').onclick = () => {
  paused = !paused;
  $('pause').ariaPressed = String(paused);
  $('pause').textContent = paused ? 'Go on' : 'Pause';
  if (paused) live('paused', '');
  else wake();
};
document.addEventListener('visibilitychange', () => { if (!document.hidden) wake(); });
window.addEventListener('hashchange', lookUpAddress);
for (const input of document.querySelectorAll('input, textarea')) {
  Object.assign(input, { autocomplete: 'off', autocapitalize: 'off', spellcheck: false });
}
begin();
