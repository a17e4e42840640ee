//! The table of requests: each head gets the verdict that the RFCs demand, at every split.

use wire::head::{Body, parse};

use crate::head_splits::assert_same_at_every_split;
use crate::table;

/// Returns the verdict as the table writes it.
fn verdict(input: &[u8]) -> String {
    match parse(input) {
        Ok(None) => "more".to_owned(),
        Ok(Some(request)) => match request.body {
            Body::None => "none".to_owned(),
            Body::Sized(bytes) => format!("sized {bytes}"),
            Body::Chunked => "chunked".to_owned(),
        },
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn each_head_of_the_table_gets_its_verdict_at_every_split() {
    let mut wrong = Vec::new();
    for row in table::rows() {
        let found = verdict(&row.bytes);
        if found != row.head {
            wrong.push(format!("{}: {found}, not {}", row.name, row.head));
        }
        assert_same_at_every_split(&row.bytes);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A head that is refused by the first bytes of it is refused for the same reason whatever follows.
#[test]
fn what_follows_a_request_of_the_table_does_not_change_its_verdict() {
    for row in table::rows().iter().filter(|row| row.head != "more") {
        for follower in [table::MARKER, b"\r\n", b"\n", b"\0", b"0\r\n\r\n"] {
            let input = [&row.bytes, follower].concat();
            assert_eq!(verdict(&input), row.head, "{}", row.name);
        }
    }
}
