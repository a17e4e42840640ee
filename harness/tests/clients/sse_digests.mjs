// Decodes a file as an event stream with eventsource-parser, in pieces of 1 to SIZE bytes, and prints a digest of each event.
// With a number, prints the event of that number instead. node sse_digests.mjs FILE SIZE SEED [NUMBER]
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createParser } from 'eventsource-parser';

const [file, size, seed, wanted] = process.argv.slice(2);
let lines = [];
let lastId = '';
let count = 0;
const parser = createParser({
  onEvent({ id, event = 'message', data }) {
    lastId = id ?? lastId;
    if (wanted !== undefined) {
      if (count === Number(wanted)) console.log(JSON.stringify([lastId, event, data]));
    } else {
      lines.push(createHash('sha1').update(`${lastId}\0${event}\0${data}`).digest('hex').slice(0, 16));
    }
    count += 1;
  },
  onError(error) {
    throw error;
  },
});
let state = Number(seed) >>> 0;
const below = (bound) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 4294967296) * bound);
};
const decoder = new TextDecoder('utf-8', { fatal: true });
for await (const block of createReadStream(file)) {
  for (let at = 0; at < block.length; ) {
    const end = at + 1 + below(Number(size));
    const text = decoder.decode(block.subarray(at, end), { stream: true });
    if (text) parser.feed(text);
    at = end;
  }
  if (lines.length) process.stdout.write(lines.join('\n') + '\n');
  lines = [];
}
decoder.decode();
