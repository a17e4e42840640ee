//! Events as tests publish them, and what their clients read.

use graph::Id;
use router::{Event, Payload};

/// The payloads that a client was sent, in order.
pub(super) fn payloads(text: &str) -> Vec<String> {
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Vec::new();
    };
    let body = if head.contains("chunked") {
        unchunked(body)
    } else {
        body.to_owned()
    };
    let field = |line: &str| {
        let json = line
            .split_once("\"data\":\"")
            .map(|(_, rest)| rest.trim_end_matches("\"}"));
        line.strip_prefix("data: ").or(json).map(str::to_owned)
    };
    if head.contains("text/html") {
        return body
            .split_inclusive(';')
            .filter(|part| part.ends_with(';'))
            .map(last_word)
            .collect();
    }
    // A last line without its end is still on its way.
    body.split_inclusive('\n')
        .filter_map(|line| field(line.strip_suffix('\n')?))
        .collect()
}

/// The 2008 wire has no frame: payloads end in a semicolon here, and the welcome in a line break.
fn last_word(part: &str) -> String {
    part.rsplit('\n').next().unwrap_or(part).to_owned()
}

pub(super) fn id(text: &str) -> Id {
    Id::parse(text).expect("a valid id")
}

pub(super) fn event(subject: &str, text: &str) -> Event {
    Event {
        subject: id(subject),
        event_type: None,
        payload: Payload::text(text.to_owned().into()),
    }
}

/// Chunks put together, up to the first that is not whole.
pub(super) fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        let (Some(chunk), true) = (
            rest.get(..size),
            rest[size.min(rest.len())..].starts_with("\r\n"),
        ) else {
            break;
        };
        whole.push_str(chunk);
        body = &rest[size + 2..];
    }
    whole
}
