//! Random Server-Sent Events with hostile payloads, encoded as the server does, and what every
//! client must find in them: decoders that share no code with Encke are compared with it.
//!
//! `cargo run -p wire --example event_stream -- SEED EVENTS STREAM EXPECTED` writes two files.
//! STREAM is the body of an answer. EXPECTED has a line for each event: the first 16 digits of the
//! SHA-1 of its id, its type and its data, with a NUL between. The decoder of the crate's tests
//! reads the stream as well, and the program fails if that finds something else.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};

use wire::encoding::Encoding;
use wire::event::{Event, Payload, Subject};
use wire::frame::{self, Position};
use wire::notice::{Notice, ResetReason};
use wire::transport::{Framing, Transport};

#[path = "../tests/laws/oracle_sse.rs"]
mod oracle_sse;

/// Events that are encoded into one buffer and checked together.
const EVENTS_PER_BLOCK: usize = 1000;

/// Name of the simulated run of a server.
const EPOCH: &str = "x9";

/// Pieces of text that encoders and decoders get wrong.
const PIECES: &[&str] = &[
    "\r",
    "\n",
    "\r\n",
    "\n\r",
    "\n\n",
    "\r\r",
    "\0",
    "\u{1}",
    "\u{b}",
    "\u{c}",
    "\u{1c}",
    "\u{1f}",
    "\t",
    " ",
    "  ",
    ":",
    ": ",
    "data: forged",
    "\ndata: forged\n\n",
    "\nid: forged\n",
    "\revent: forged\r",
    "\r\nretry: 1\r\n\r\n",
    "id",
    "event",
    "{}",
    "\"",
    "\\",
    "</script>",
    // The first and the last character of each length in UTF-8, and those beside the surrogates.
    "\u{7f}",
    "\u{80}",
    "\u{7ff}",
    "\u{800}",
    "\u{d7ff}",
    "\u{e000}",
    "\u{ffff}",
    "\u{10000}",
    "\u{10ffff}",
    // What some programs take for the end of a line, and marks of byte order.
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{fffe}",
    "\u{fffd}",
    "é",
    "e\u{301}",
    "漢字",
    "😀",
    "👩\u{200d}🚀",
    "text",
];

/// Types that a publisher may name: one line without control characters.
const TYPES: &[&str] = &[
    "message",
    "error",
    "open",
    "a",
    " leading space",
    ": colon",
    "data: x",
    "id",
    "\u{feff}mark",
    "é漢😀",
    "\u{2028}",
];

/// A generator of random numbers (SplitMix64).
struct Dice(u64);

/// Content of a published event.
enum Content {
    Text(String),
    Json(String),
    Binary(Vec<u8>),
}

/// What a client must find.
struct Expected {
    id: String,
    kind: String,
    data: String,
}

#[expect(
    clippy::disallowed_types,
    reason = "the example is the program around the crate, which itself has no files"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [seed, events, stream, expected] = &arguments[..] else {
        return Err("event_stream SEED EVENTS STREAM EXPECTED".into());
    };
    let mut dice = Dice(seed.parse()?);
    let mut stream = BufWriter::new(std::fs::File::create(stream)?);
    let mut digests = BufWriter::new(std::fs::File::create(expected)?);
    let position = Position {
        epoch: EPOCH,
        position: 1,
    };
    let mut out = Vec::new();
    let opening = frame::welcome(Transport::Sse, ["x"], 3000, Some(position), &mut out);
    stream.write_all(&out[opening.body])?;
    let mut last_id = format!("{EPOCH}-1");
    let mut left: usize = events.parse()?;
    while left > 0 {
        let count = left.min(EVENTS_PER_BLOCK);
        left -= count;
        let (bytes, events) = block(&mut dice, count, &mut last_id);
        check(&bytes, &events)?;
        stream.write_all(&bytes)?;
        for event in &events {
            writeln!(digests, "{}", event.digest())?;
        }
    }
    stream.flush()?;
    digests.flush()?;
    Ok(())
}

/// Encodes random events. `last_id` is the id of the last one before them.
fn block(dice: &mut Dice, count: usize, last_id: &mut String) -> (Vec<u8>, Vec<Expected>) {
    let (mut stream, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..count {
        match dice.below(40) {
            0 => {
                let beat = frame::heartbeat(Transport::Sse).expect("an event stream has one");
                stream.extend_from_slice(beat.bytes(Framing::Close));
            }
            1 => {
                let mut out = Vec::new();
                let farewell = frame::farewell(Transport::Sse, dice.below(100_000), &mut out);
                stream.extend_from_slice(&out[farewell.body]);
            }
            _ => {}
        }
        let event = match dice.below(20) {
            // The decoder of this block begins without an id.
            0 if !expected.is_empty() => notice(dice, last_id, &mut stream),
            _ => event(dice, &mut stream),
        };
        last_id.clone_from(&event.id);
        expected.push(event);
    }
    (stream, expected)
}

/// Encodes a random event.
fn event(dice: &mut Dice, stream: &mut Vec<u8>) -> Expected {
    let encoding = match dice.below(8) {
        0 => Encoding::SseJson,
        1 => Encoding::SseCloudEvents,
        _ => Encoding::SsePlain,
    };
    let content = dice.content();
    let subject = dice.text(4);
    let kind = (dice.below(3) == 0).then(|| dice.one_of(TYPES));
    let position = match dice.below(10) {
        0 => u64::MAX,
        _ => dice.next() >> dice.below(64),
    };
    // Most clients have everything before an event.
    let complete = match dice.below(4) {
        0 => dice.below(position.max(1)),
        _ => position,
    };
    let event = Event {
        epoch: EPOCH,
        position,
        complete,
        subject: match dice.below(2) {
            0 => Subject::Integer(position >> 11),
            _ => Subject::Text(&subject),
        },
        kind,
        payload: match &content {
            Content::Text(text) => Payload::Text(text.as_bytes()),
            Content::Json(text) => Payload::Json(text.as_bytes()),
            Content::Binary(bytes) => Payload::Binary(bytes),
        },
    };
    let body = |encoding| {
        let mut out = Vec::new();
        let frame = frame::encode(encoding, &event, &mut out);
        out.drain(..frame.body.start);
        out.truncate(frame.body.len());
        out
    };
    stream.extend_from_slice(&body(encoding));
    // On other transports the same object is a line.
    let line = |encoding| {
        let line = String::from_utf8(body(encoding)).expect("a line of JSON is UTF-8");
        line.strip_suffix('\n').expect("it has an end").to_owned()
    };
    let data = match encoding {
        Encoding::SseJson => line(Encoding::NdjsonJson),
        Encoding::SseCloudEvents => line(Encoding::NdjsonCloudEvents),
        _ => match &content {
            // Each end of a line becomes LF (WHATWG HTML, section 9.2.6).
            Content::Text(text) | Content::Json(text) => {
                text.replace("\r\n", "\n").replace('\r', "\n")
            }
            Content::Binary(bytes) => base64(bytes),
        },
    };
    let is_plain = matches!(encoding, Encoding::SsePlain);
    let third = match complete < position {
        true => format!("-{complete}"),
        false => String::new(),
    };
    Expected {
        id: format!("{EPOCH}-{position}{third}"),
        kind: kind.filter(|_| is_plain).unwrap_or("message").to_owned(),
        data,
    }
}

/// Encodes a random notice, which has no id of its own.
fn notice(dice: &mut Dice, last_id: &str, stream: &mut Vec<u8>) -> Expected {
    let text = dice.text(8);
    let notice = match dice.below(3) {
        0 => Notice::Gap { lost: dice.next() },
        1 => Notice::Reset {
            reason: ResetReason::Unknown,
            from: &text,
        },
        _ => Notice::Online {
            id: Subject::Text(&text),
        },
    };
    let mut out = Vec::new();
    let frame = frame::notice(Encoding::SsePlain, &notice, &mut out);
    stream.extend_from_slice(&out[frame.body]);
    let mut data = Vec::new();
    notice.push_data(&mut data);
    Expected {
        id: last_id.to_owned(),
        kind: notice.name().to_owned(),
        data: String::from_utf8(data).expect("a line of JSON is UTF-8"),
    }
}

/// Compares what the decoder of the crate's tests finds.
fn check(stream: &[u8], expected: &[Expected]) -> Result<(), Box<dyn Error>> {
    let client = oracle_sse::interpret(stream);
    let messages = client.messages.iter().map(|message| {
        let oracle_sse::Message {
            kind,
            data,
            last_event_id,
        } = message;
        [last_event_id, kind, data]
    });
    let events = expected
        .iter()
        .map(|event| [&event.id, &event.kind, &event.data]);
    let differs = |(found, event): &([&String; 3], [&String; 3])| found != event;
    if let Some((found, event)) = messages.zip(events).find(differs) {
        return Err(format!("published {event:?}, decoded {found:?}").into());
    }
    let (found, published) = (client.messages.len(), expected.len());
    match found == published {
        true => Ok(()),
        false => Err(format!("published {published} events, decoded {found}").into()),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| {
            bits << 8 | usize::from(three.get(at).copied().unwrap_or_default())
        });
        for digit in 0..4 {
            text.push(match digit <= three.len() {
                true => DIGITS[bits >> (18 - 6 * digit) & 63].into(),
                false => '=',
            });
        }
    }
    text
}

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    fn one_of(&mut self, choices: &[&'static str]) -> &'static str {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn text(&mut self, pieces_max: u64) -> String {
        let pieces = self.below(pieces_max + 1);
        (0..pieces).map(|_| self.one_of(PIECES)).collect()
    }

    fn content(&mut self) -> Content {
        match self.below(10) {
            0 => {
                let bytes = self.below(60);
                Content::Binary((0..bytes).map(|_| self.next() as u8).collect())
            }
            1 => {
                let (text, number) = (self.text(8), self.next());
                let value = serde_json::json!({ "text": text, "list": [number, null, true] });
                // Over several lines.
                Content::Json(format!("{value:#}"))
            }
            2 => {
                let characters = self.below(20);
                let any = (0..characters).filter_map(|_| {
                    let bits = self.next();
                    char::from_u32((bits % 0x11_0000) as u32 >> (bits >> 60))
                });
                Content::Text(any.collect())
            }
            3 => Content::Text(String::new()),
            4 if self.below(100) == 0 => {
                // As large as an event may be, in one line or in many.
                let pieces = 1 << self.below(14);
                Content::Text(self.one_of(PIECES).repeat(pieces))
            }
            _ => Content::Text(self.text(12)),
        }
    }
}

impl Expected {
    fn digest(&self) -> String {
        let whole = format!("{}\0{}\0{}", self.id, self.kind, self.data);
        let digest = sha1_smol::Sha1::from(whole).digest().bytes();
        digest[..8].iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes all");
            text
        })
    }
}
