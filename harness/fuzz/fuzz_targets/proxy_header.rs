//! Any bytes as a PROXY header, in any two pieces: no panic, one verdict, and what was understood
//! is understood again when it is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::proxy_header::{HEADER_BYTES_MAX, parse, write_v1, write_v2};

fuzz_target!(|data: &[u8]| {
    let whole = parse(data);
    for at in 0..data.len() {
        match parse(&data[..at]) {
            Ok(None) => {}
            verdict => {
                assert_eq!(verdict, whole, "at {at} bytes");
                break;
            }
        }
    }
    let Ok(Some((header, consumed))) = whole else {
        return;
    };
    assert!(consumed <= data.len().min(HEADER_BYTES_MAX));
    for write in [write_v1, write_v2] {
        let mut written = Vec::new();
        write(&header, &mut written);
        assert_eq!(parse(&written), Ok(Some((header, written.len()))));
    }
});
