// An EventSource of the registry. Prints what happens to it, one JSON object a line.
// Ends with its standard input. node eventsource.mjs URL [TYPE...]
import { EventSource } from 'eventsource';

const [url, ...types] = process.argv.slice(2);
const say = (what) => process.stdout.write(JSON.stringify(what) + '\n');
const source = new EventSource(url);
const arrived = (event) => say({ type: event.type, data: event.data, id: event.lastEventId });

source.onopen = () => say({ open: true });
source.onerror = (event) => say({ error: source.readyState, code: event.code ?? null });
process.stdin.on('end', () => process.exit(0)).resume();
for (const type of ['message', ...types]) source.addEventListener(type, arrived);
