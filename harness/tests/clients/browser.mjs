// Drives Chromium by commands from standard input, one JSON array a line; answers each with a line.
// node browser.mjs EXECUTABLE USER_DATA_DIRECTORY [FLAG ...]
import readline from 'node:readline';
import { chromium } from 'playwright-core';

const [executablePath, directory, ...flags] = process.argv.slice(2);
const context = await chromium.launchPersistentContext(directory, {
  executablePath,
  headless: true,
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    // Names of pages; a name in DNS may lead here as well.
    '--host-resolver-rules=MAP *.example 127.0.0.1',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
    ...flags,
  ],
});
const page = context.pages()[0] ?? await context.newPage();
page.setDefaultTimeout(60000);
let complaints = [];
let dialogs = 0;
page.on('pageerror', (error) => complaints.push(error.message));
page.on('console', (message) => {
  if (message.type() === 'error') complaints.push(message.text());
});
page.on('dialog', (dialog) => { dialogs += 1; dialog.dismiss(); });

const commands = {
  goto: (url) => page.goto(url).then(() => null),
  // For a page that never ends.
  begin: (url) => page.goto(url, { waitUntil: 'commit' }).then(() => null),
  reload: () => page.reload().then(() => null),
  size: (width, height) => page.setViewportSize({ width, height }).then(() => null),
  scheme: (colorScheme) => page.emulateMedia({ colorScheme }).then(() => null),
  fill: (selector, text) => page.fill(selector, text).then(() => null),
  click: (selector) => page.click(selector).then(() => null),
  press: (key) => page.keyboard.press(key).then(() => null),
  texts: (selector) => page.locator(selector).allTextContents(),
  visible: (selector) => page.locator(selector).first().isVisible(),
  offline: (isOffline) => context.setOffline(isOffline).then(() => null),
  evaluate: (script) => page.evaluate(script),
  screenshot: (path) => page.screenshot({ path, fullPage: true }).then(() => null),
  complaints: () => { const all = complaints; complaints = []; return all; },
  dialogs: () => dialogs,
};

process.stdout.write('"ready"\n');
for await (const line of readline.createInterface({ input: process.stdin })) {
  const [name, ...parameters] = JSON.parse(line);
  let answer;
  try {
    answer = { result: await commands[name](...parameters) ?? null };
  } catch (error) {
    answer = { error: error.message };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
await context.close();
