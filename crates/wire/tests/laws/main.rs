//! The laws of the wire: what holds for every head, target, answer and frame.

// A chunk decoder written from RFC 9112, to decode frames back without the encoder's help.
mod oracle_chunks;
// An event stream parser written from the WHATWG specification, for the same end.
mod oracle_sse;
// tungstenite, another implementation of WebSocket.
mod oracle_tungstenite;
// The table of requests that all listeners are tested with.
#[allow(dead_code, reason = "tests of other crates read other columns")]
#[path = "../../../../harness/tests/conformance/table.rs"]
mod table;

mod answers;
mod conformance;
mod frames;
mod frames_decoded;
mod head_accepted;
mod head_refused;
mod head_splits;
mod head_values;
mod targets;
mod websocket_frames;
mod websocket_handshakes;
