// Many clients of clients/js in one process. Prints ["live"] when all of them are; closes them when standard input ends.
// node herd.mjs COUNT OPTIONS, as JSON; the ids are herd-0, herd-1 and so on
import { connect } from '../../../clients/js/encke.js';

const [count, options] = [+process.argv[2], JSON.parse(process.argv[3])];
let live = 0;
const clients = Array.from({ length: count }, (_, number) => connect({
  ...options,
  ids: `herd-${number}`,
  onstate(state) {
    live += state === 'live';
    if (state === 'live' && live === count) console.log('["live"]');
  },
}));
process.stdin.on('end', () => clients.forEach((client) => client.close())).resume();
