//! Decoders, tested on recorded bytes of real servers, which are split at every byte.
//!
//! `recorded/record.py` made the recordings, from nginx 1.22.1, the WebSocket server of PyPI's
//! `websockets` 16.0, and Encke. Each server sent three events with the stamps below. The output of
//! curl 7.88.1 for the same streams is the oracle for framing.

use client::decode::count::{Counter, Noticed};
use client::decode::event_id::EventId;
use client::decode::framing::{self, Framing};
use client::decode::head::Head;
use client::decode::websocket::{self, Reader};
use client::decode::{Transport, websocket::check};
use client::stamp::Stamp;

/// The key with which the WebSocket was asked for.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// Content of a recording, as a client of `encke-lab flood` decodes it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    status: u16,
    stamps: Vec<Stamp>,
    ids: Vec<u64>,
    events: u32,
    heartbeats: u32,
    ended: bool,
    /// Payloads of pings, and the code of a close.
    control: Vec<String>,
}

impl Seen {
    fn notice(&mut self, what: Noticed) {
        let Noticed::Event { stamp, id } = what else {
            self.heartbeats += 1;
            return;
        };
        self.events += 1;
        self.stamps.extend(stamp);
        self.ids.extend(id.map(|EventId { position, .. }| position));
    }
}

enum Wire {
    Http(Framing),
    WebSocket(Reader),
}

/// A client: the head until it is complete, and then the decoders of the body.
struct Client {
    transport: Transport,
    kept: Vec<u8>,
    wire: Option<Wire>,
    counter: Counter,
    seen: Seen,
}

impl Client {
    fn new(transport: Transport) -> Self {
        Self {
            transport,
            kept: Vec::new(),
            wire: None,
            counter: Counter::default(),
            seen: Seen::default(),
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        if self.wire.is_some() {
            return self.body(bytes);
        }
        self.kept.extend_from_slice(bytes);
        let kept = std::mem::take(&mut self.kept);
        let Some((head, used)) = Head::parse(&kept).expect("a real server sends a head") else {
            self.kept = kept;
            return;
        };
        self.seen.status = head.status;
        self.wire = Some(if self.transport == Transport::WebSocket {
            check(&head, KEY).expect("a real server opens a WebSocket");
            Wire::WebSocket(Reader::default())
        } else {
            Wire::Http(head.framing().expect("a real server frames its body"))
        });
        self.body(&kept[used..]);
    }

    fn body(&mut self, mut input: &[u8]) {
        let (transport, counter, seen) = (self.transport, &mut self.counter, &mut self.seen);
        match self.wire.as_mut().expect("the head was read") {
            Wire::Http(framing) => {
                while let Some(piece) = framing
                    .next(&mut input)
                    .expect("a real server sends chunks")
                {
                    match piece {
                        framing::Piece::Bytes(bytes) => {
                            counter.bytes(transport, bytes, |what| seen.notice(what));
                        }
                        framing::Piece::ChunkEnd => {
                            counter.chunk_end(transport, |what| seen.notice(what));
                        }
                        framing::Piece::End => {
                            seen.ended = true;
                            return;
                        }
                    }
                }
            }
            Wire::WebSocket(reader) => {
                while let Some(piece) = reader.next(&mut input).expect("a real server sends frames")
                {
                    match piece {
                        websocket::Piece::Bytes(bytes) => {
                            counter.bytes(transport, bytes, |what| seen.notice(what));
                        }
                        websocket::Piece::MessageEnd => {
                            counter.message_end(|what| seen.notice(what));
                        }
                        websocket::Piece::Ping => {
                            let payload = reader.take_control();
                            let text = String::from_utf8_lossy(&payload).into_owned();
                            seen.control.push(text);
                        }
                        websocket::Piece::Pong => {}
                        websocket::Piece::Close(code) => {
                            seen.control.push(code.to_string());
                            seen.ended = true;
                        }
                    }
                }
            }
        }
    }
}

fn read(transport: Transport, pieces: &[&[u8]]) -> Seen {
    let mut client = Client::new(transport);
    pieces.iter().for_each(|piece| client.read(piece));
    client.seen
}

/// Reads the recording whole, at every split and byte by byte, and checks that all results are
/// equal.
fn read_at_every_split(transport: Transport, recording: &[u8]) -> Seen {
    let whole = read(transport, &[recording]);
    for at in 1..recording.len() {
        let (left, right) = recording.split_at(at);
        assert_eq!(read(transport, &[left, right]), whole, "split at byte {at}");
    }
    let bytes: Vec<&[u8]> = recording.chunks(1).collect();
    assert_eq!(read(transport, &bytes), whole);
    whole
}

fn stamps() -> Vec<Stamp> {
    let stamp = |number| Stamp {
        due: 1_763_769_600_000_000_000 + number,
        number,
    };
    [1, 2, 3].map(stamp).to_vec()
}

fn three_events(heartbeats: u32, ended: bool) -> Seen {
    Seen {
        status: 200,
        stamps: stamps(),
        ids: vec![1, 2, 3],
        events: 3,
        heartbeats,
        ended,
        control: Vec::new(),
    }
}

#[test]
fn nginx_with_a_length() {
    let recording = include_bytes!("recorded/nginx-length.bin");
    assert_eq!(
        read_at_every_split(Transport::Ndjson, recording),
        three_events(0, true)
    );
}

#[test]
fn nginx_in_chunks() {
    let recording = include_bytes!("recorded/nginx-chunked.bin");
    assert_eq!(
        read_at_every_split(Transport::Ndjson, recording),
        three_events(0, true)
    );
}

#[test]
fn encke_as_server_sent_events() {
    let recording = include_bytes!("recorded/encke-sse.bin");
    assert_eq!(
        read_at_every_split(Transport::Sse, recording),
        three_events(1, false)
    );
}

#[test]
fn nginx_before_encke() {
    let recording = include_bytes!("recorded/nginx-before-encke.bin");
    assert_eq!(
        read_at_every_split(Transport::Sse, recording),
        three_events(1, false)
    );
}

#[test]
fn encke_as_json_lines() {
    let recording = include_bytes!("recorded/encke-ndjson.bin");
    assert_eq!(
        read_at_every_split(Transport::Ndjson, recording),
        three_events(1, false)
    );
}

#[test]
fn encke_in_the_chunks_of_2008() {
    let recording = include_bytes!("recorded/encke-chunked.bin");
    let expected = Seen {
        ids: Vec::new(),
        ..three_events(1, false)
    };
    assert_eq!(read_at_every_split(Transport::Chunks, recording), expected);
}

#[test]
fn a_websocket_that_pings_splits_and_closes() {
    let recording = include_bytes!("recorded/websockets.bin");
    let expected = Seen {
        status: 101,
        stamps: stamps(),
        ids: Vec::new(),
        // Three stamped events and a long one. An empty object is a heartbeat.
        events: 4,
        heartbeats: 1,
        ended: true,
        control: vec!["there?".to_owned(), "1001".to_owned()],
    };
    assert_eq!(
        read_at_every_split(Transport::WebSocket, recording),
        expected
    );
}

/// Returns the body of a recording that arrives in `pieces`, without its framing.
fn unframed(pieces: &[&[u8]]) -> Vec<u8> {
    let (mut kept, mut framing, mut body) = (Vec::new(), None, Vec::new());
    for piece in pieces {
        kept.extend_from_slice(piece);
        if framing.is_none()
            && let Some((head, used)) = Head::parse(&kept).expect("a real server sends a head")
        {
            framing = Some(head.framing().expect("a real server frames its body"));
            kept.drain(..used);
        }
        let Some(framing) = &mut framing else {
            continue;
        };
        let mut input = &kept[..];
        while let Some(piece) = framing
            .next(&mut input)
            .expect("a real server sends chunks")
        {
            match piece {
                framing::Piece::Bytes(bytes) => body.extend_from_slice(bytes),
                framing::Piece::ChunkEnd => {}
                framing::Piece::End => return body,
            }
        }
        kept.clear();
    }
    body
}

#[test]
fn bodies_without_framing_are_those_that_curl_shows() {
    let recordings: [(&[u8], &[u8]); 4] = [
        (
            include_bytes!("recorded/encke-sse.bin"),
            include_bytes!("recorded/encke-sse.curl"),
        ),
        (
            include_bytes!("recorded/encke-ndjson.bin"),
            include_bytes!("recorded/encke-ndjson.curl"),
        ),
        (
            include_bytes!("recorded/encke-chunked.bin"),
            include_bytes!("recorded/encke-chunked.curl"),
        ),
        (
            include_bytes!("recorded/nginx-before-encke.bin"),
            include_bytes!("recorded/nginx-before-encke.curl"),
        ),
    ];
    for (recording, shown) in recordings {
        assert!(shown.len() > 200);
        for at in 0..recording.len() {
            let (left, right) = recording.split_at(at);
            assert_eq!(unframed(&[left, right]), shown, "split at byte {at}");
        }
    }
}
