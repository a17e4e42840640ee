//! Any bytes as the body of a batch, in pieces of any size: no panic, and the items are those of
//! the whole body, of a plain reader of lines, and of another parser of JSON.
#![no_main]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/control/src/items.rs"]
mod items;

use bytes::Bytes;
use items::{Fault, Items, Shape};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

const BYTES_MAX: usize = 64;

type Found = Vec<(u64, Result<Vec<u8>, Fault>)>;

fuzz_target!(|data: &[u8]| {
    let [shape, size, body @ ..] = data else {
        return;
    };
    let shape = [Shape::Lines, Shape::Array, Shape::Either][usize::from(*shape) % 3];
    let whole = found(shape, body, body.len().max(1));
    assert_eq!(found(shape, body, usize::from(*size) % 16 + 1), whole);
    // White space before the first item counts for its length or not; no item is too long in these.
    let is_short = body.len() <= BYTES_MAX;
    let is_array = body.trim_ascii_start().starts_with(b"[");
    if shape == Shape::Lines || (shape == Shape::Either && !is_array && is_short) {
        assert_eq!(whole, lines(body));
    }
    if shape == Shape::Array
        && is_short
        && let Ok(elements) = serde_json::from_slice::<Vec<&RawValue>>(body)
    {
        let texts = elements.iter().map(|it| Ok(it.get().as_bytes().to_vec()));
        assert_eq!(whole, (1..).zip(texts).collect::<Found>());
    }
});

/// What there is in a body that comes in pieces of this size.
fn found(shape: Shape, body: &[u8], size: usize) -> Found {
    let mut items = Items::new(shape, BYTES_MAX);
    let mut found = Vec::new();
    for piece in body.chunks(size) {
        items.feed(Bytes::copy_from_slice(piece));
        drain(&mut items, &mut found);
    }
    items.end();
    drain(&mut items, &mut found);
    found
}

/// The lines of a body, by the plainest means.
fn lines(body: &[u8]) -> Found {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(body.split(|&byte| byte == b'\n')) {
        let text = line.trim_ascii();
        if line.len() > BYTES_MAX {
            let bytes_max = BYTES_MAX;
            lines.push((number, Err(Fault::TooLong { bytes_max })));
        } else if !text.is_empty() {
            lines.push((number, Ok(text.to_vec())));
        }
    }
    lines
}

fn drain(items: &mut Items, found: &mut Found) {
    while let Some(item) = items.next() {
        found.push(match item {
            Ok(item) => (item.number, Ok(item.text.to_vec())),
            Err((number, fault)) => (number, Err(fault)),
        });
    }
}
