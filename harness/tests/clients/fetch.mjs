// Reads a stream with fetch. Prints the status and then each piece of the body, one JSON value a line.
// node fetch.mjs URL
const answer = await fetch(process.argv[2]);
console.log(JSON.stringify(answer.status));
const decoder = new TextDecoder();
for await (const piece of answer.body) console.log(JSON.stringify(decoder.decode(piece, { stream: true })));
