//! Any bytes as a request head, in any two pieces: no panic, one verdict, and a verdict on a prefix
//! is the verdict on the whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::head::{HEAD_BYTES_MAX, parse, parse_from};

fuzz_target!(|data: &[u8]| {
    let Some((split, input)) = data.split_first_chunk::<2>() else {
        return;
    };
    let input = &expand(input);
    let at = usize::from(u16::from_le_bytes(*split)) % (input.len() + 1);
    let whole = parse(input);
    // The limits lie near the end of what was expanded: count from there, too.
    for at in [
        at,
        input.len() - at,
        input.len().saturating_sub(usize::from(split[0] % 16)),
    ] {
        match parse(&input[..at]) {
            Ok(None) => assert_eq!(parse_from(input, at), whole, "after {at} bytes"),
            verdict => assert_eq!(verdict, whole, "at {at} bytes"),
        }
    }
    match whole {
        Ok(None) => assert!(input.len() < HEAD_BYTES_MAX),
        Ok(Some(request)) => {
            assert!(request.consumed <= input.len().min(HEAD_BYTES_MAX));
            assert!(input[..request.consumed].ends_with(b"\r\n\r\n"));
            assert!(!request.path.is_empty());
            // The look-up of a field agrees with the parser that has read it.
            let host: Vec<_> = request.values("host").collect();
            assert_eq!(host, request.host.map(Ok).into_iter().collect::<Vec<_>>());
        }
        Err(error) => assert!((400..600).contains(&error.status().code())),
    }
});

/// Turns three bytes that no head needs into runs, so that short inputs reach the limits.
fn expand(input: &[u8]) -> Vec<u8> {
    let mut expanded = Vec::new();
    for &byte in input {
        let count = match byte {
            0xff => 1000,
            0xfe => 100,
            0xfd => 10,
            _ => 1,
        };
        expanded.resize(expanded.len() + count, if count == 1 { byte } else { b'x' });
    }
    expanded.truncate(2 * HEAD_BYTES_MAX);
    expanded
}
