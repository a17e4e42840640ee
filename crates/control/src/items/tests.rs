use super::*;

/// Returns what the pieces of a body hold: a number and a text, or a fault.
fn items_of(shape: Shape, bytes_max: usize, pieces: &[&[u8]]) -> Vec<(u64, Result<String, Fault>)> {
    let mut items = Items::new(shape, bytes_max);
    let mut found = Vec::new();
    for piece in pieces.iter().map(Some).chain([None]) {
        match piece {
            Some(piece) => items.feed(Bytes::copy_from_slice(piece)),
            None => {
                items.end();
            }
        }
        while let Some(item) = items.next() {
            found.push(match item {
                Ok(item) => {
                    assert_eq!(item.share(item.text), item.text);
                    (
                        item.number,
                        Ok(String::from_utf8(item.text.to_vec()).unwrap()),
                    )
                }
                Err((number, fault)) => (number, Err(fault)),
            });
        }
    }
    assert_eq!(items.next().map(|item| item.is_ok()), None);
    found
}

fn texts(found: &[(u64, Result<String, Fault>)]) -> Vec<(u64, &str)> {
    found
        .iter()
        .map(|(number, text)| (*number, &**text.as_ref().unwrap()))
        .collect()
}

#[test]
fn items_are_the_same_at_every_split() {
    let bodies: &[&str] = &[
        "{\"a\":1}\n\n  {\"b\":\"x\"} \r\nlast",
        "\n \n one\ntwo\n",
        "",
        "\n\n",
        " \n [ {\"a\":[1,2,{\"b\":\"],[\\\"\\\\\"}]} , 2,[3] ] \n",
        "[]",
        " [ ] ",
        "[1,,2]",
        "[1,]",
        "[1} , 2]",
        "[1,[2]",
        "[1] 2",
        "[\"\\\\\",\"]\"]",
        "a line that is too long to be taken\nshort\n",
        // As long as is allowed, but for the white space before it.
        " \n 123456789012345678901234567890\n1",
        "[\"an element that is too long to be taken\", 2]",
    ];
    for body in bodies {
        for shape in [Shape::Lines, Shape::Array, Shape::Either] {
            let body = body.as_bytes();
            let whole = items_of(shape, 30, &[body]);
            let bytes: Vec<&[u8]> = body.chunks(1).collect();
            assert_eq!(
                items_of(shape, 30, &bytes),
                whole,
                "{body:?} {shape:?} by bytes"
            );
            for at in 0..=body.len() {
                let (left, right) = body.split_at(at);
                let found = items_of(shape, 30, &[left, right]);
                assert_eq!(
                    found,
                    whole,
                    "{:?} {shape:?} at {at}",
                    body.escape_ascii().to_string()
                );
            }
        }
    }
}

#[test]
fn lines_are_numbered_with_the_blank_ones() {
    let found = items_of(Shape::Either, 100, &[b"\n \none\r\n\n two\nthree"]);
    assert_eq!(texts(&found), [(3, "one"), (5, "two"), (6, "three")]);
}

#[test]
fn elements_are_found_whatever_is_inside_them() {
    let body = br#" [ {"a":[1,2,{"b":"],[\"\\"}]} , 2,[3],"," ] "#;
    let found = items_of(Shape::Either, 100, &[body]);
    let expected = [
        (1, r#"{"a":[1,2,{"b":"],[\"\\"}]}"#),
        (2, "2"),
        (3, "[3]"),
        (4, "\",\""),
    ];
    assert_eq!(texts(&found), expected);
    assert_eq!(items_of(Shape::Array, 100, &[b" [ ] \n"]), []);
    // An element that is missing is an item without text, and not valid as JSON.
    assert_eq!(
        texts(&items_of(Shape::Array, 9, &[b"[1,,2]"])),
        [(1, "1"), (2, ""), (3, "2")]
    );
}

#[test]
fn what_is_too_long_is_skipped_and_the_rest_goes_on() {
    let too_long = Fault::TooLong { bytes_max: 5 };
    let body = b"12345\n123456\n1\n".as_slice();
    let expected = [
        (1, Ok("12345".into())),
        (2, Err(too_long)),
        (3, Ok("1".into())),
    ];
    assert_eq!(items_of(Shape::Lines, 5, &[body]), expected);
    let pieces: Vec<&[u8]> = body.chunks(4).collect();
    assert_eq!(items_of(Shape::Lines, 5, &pieces), expected);
}

#[test]
fn an_array_that_is_none_or_does_not_end_is_said_once() {
    assert_eq!(
        items_of(Shape::Array, 9, &[b"{}", b"\n{}"]),
        [(1, Err(Fault::NotAnArray))]
    );
    assert_eq!(
        items_of(Shape::Array, 9, &[b" "]),
        [(1, Err(Fault::NotAnArray))]
    );
    let unclosed = [(1, Ok("1".into())), (2, Err(Fault::Unclosed))];
    assert_eq!(items_of(Shape::Array, 9, &[b"[1,2"]), unclosed);
    let after = [(1, Ok("1".into())), (2, Err(Fault::AfterArray))];
    assert_eq!(items_of(Shape::Array, 9, &[b"[1] [2]", b"[3]"]), after);
}

#[test]
fn a_partial_item_is_not_kept_beyond_its_limit() {
    let mut items = Items::new(Shape::Lines, 1000);
    for _ in 0..100 {
        items.feed(Bytes::from(vec![b'x'; 999]));
        assert!(items.next().is_none());
        assert!(items.partial.capacity() <= 2000);
    }
    items.end();
    assert!(matches!(
        items.next(),
        Some(Err((1, Fault::TooLong { .. })))
    ));
}
