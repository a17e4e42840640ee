// The client of clients/js in Node. Prints what its callbacks get, one JSON array a line; closes when standard input ends.
// node encke.mjs OPTIONS, as JSON
import { connect } from '../../../clients/js/encke.js';

const say = (kind) => (...values) => {
  const [value, detail] = values.map((value) => (value instanceof Error ? value.message : value));
  console.log(JSON.stringify([kind, value, detail ?? null]));
};
const client = connect({
  ...JSON.parse(process.argv[2]),
  onevent: say('event'),
  onreset: say('reset'),
  ongap: say('gap'),
  onexpired: say('expired'),
  onstate: say('state'),
});
process.stdin.on('end', () => client.close()).resume();
