//! Any bytes as the requests of a client of `encke-proxy hello`, in any two pieces: the answers are
//! those that the heads and lengths ask for, and nothing behind the last one is answered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proxy::hello::conversation::hear;
use wire::head::{Body, Method, parse};

fuzz_target!(|data: &[u8]| {
    let Some((split, input)) = data.split_first_chunk::<2>() else {
        return;
    };
    let (expected, ends) = expected(input);
    for at in [0, usize::from(u16::from_le_bytes(*split)) % (input.len() + 1)] {
        let (left, right) = input.split_at(at);
        let (heard, has_ended) = hear(&[left, right]);
        let text = String::from_utf8(heard).expect("answers are text");
        let statuses = text.split("HTTP/1.1 ").skip(1);
        // A reason may name the version as well.
        let statuses = statuses.filter_map(|it| it.get(..3)?.parse().ok());
        let statuses: Vec<u16> = statuses.collect();
        assert_eq!(statuses, expected, "split at {at}");
        assert_eq!(has_ended, ends, "split at {at}");
    }
});

/// The statuses of the answers, and whether the connection ends, found request by request.
fn expected(mut input: &[u8]) -> (Vec<u16>, bool) {
    let mut statuses = Vec::new();
    loop {
        let request = match parse(input) {
            Ok(Some(request)) => request,
            Ok(None) => return (statuses, false),
            Err(error) => {
                statuses.push(error.status().code());
                return (statuses, true);
            }
        };
        if request.method == Method::Connect {
            statuses.push(501);
            return (statuses, true);
        }
        let ends = !request.keep_alive || request.body == Body::Chunked;
        if request.expects_continue && !ends && request.body != Body::None {
            statuses.push(100);
        }
        statuses.push(200);
        if ends {
            return (statuses, true);
        }
        input = &input[request.consumed..];
        if let Body::Sized(bytes) = request.body {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            input = &input[bytes.min(input.len())..];
        }
    }
}
