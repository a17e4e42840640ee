//! Look-up of fields that the parser does not read itself.

use wire::head::{HeadError, parse};

/// Returns the values of `name` in a head with these field lines.
fn values(lines: &[u8], name: &str) -> Vec<Result<String, HeadError>> {
    let head = [b"GET / HTTP/1.1\r\nHost: h\r\n", lines, b"\r\n"].concat();
    let Ok(Some(request)) = parse(&head) else {
        panic!("a head that is accepted: {}", head.escape_ascii());
    };
    let values = request.values(name);
    values.map(|value| value.map(str::to_owned)).collect()
}

fn texts(lines: &str, name: &str) -> Vec<String> {
    let values = values(lines.as_bytes(), name).into_iter();
    values.map(|value| value.expect("UTF-8")).collect()
}

#[test]
fn a_field_that_is_not_there_has_no_values() {
    assert_eq!(texts("", "cookie"), [""; 0]);
    assert_eq!(texts("Accept: a\r\n", "cookie"), [""; 0]);
}

#[test]
fn repeated_lines_give_their_values_in_order() {
    let lines = "Cookie: a=1\r\nAccept: x\r\ncookie: b=2; c=3\r\nCOOKIE:\r\n";
    assert_eq!(texts(lines, "Cookie"), ["a=1", "b=2; c=3", ""]);
    assert_eq!(texts(lines, "accept"), ["x"]);
    assert_eq!(texts(lines, "host"), ["h"]);
}

#[test]
fn a_value_loses_the_white_space_around_it_and_keeps_all_else() {
    let lines = "Authorization:\t  Bearer  a:b:c \t\r\nX:a\r\n";
    assert_eq!(texts(lines, "authorization"), ["Bearer  a:b:c"]);
    assert_eq!(texts(lines, "x"), ["a"]);
}

#[test]
fn a_name_is_the_whole_of_what_stands_before_the_first_colon() {
    let lines = "X-User-Id: 1\r\nUser: 2\r\nX-User: 3\r\nY: X-User: 4\r\n";
    assert_eq!(texts(lines, "x-user"), ["3"]);
    assert_eq!(texts(lines, "user"), ["2"]);
    assert_eq!(texts(lines, "x-user: 3"), [""; 0]);
    assert_eq!(texts(lines, ""), [""; 0]);
}

#[test]
fn values_end_with_the_head() {
    let input = b"GET / HTTP/1.1\r\nHost: h\r\n\r\nCookie: body\r\n\r\n";
    let request = parse(input).unwrap().unwrap();
    assert_eq!(request.values("cookie").count(), 0);
}

#[test]
fn a_value_that_is_not_utf_8_is_an_error_in_its_place() {
    let lines = b"X-User: a\r\nX-User: \xff\r\nOther: \xff\r\n";
    let expected = [Ok("a".to_owned()), Err(HeadError::FieldValue)];
    assert_eq!(values(lines, "x-user"), expected);
}

#[test]
fn a_folded_field_is_refused_before_it_can_be_looked_up() {
    for fold in [" b", "\tb", " \r\n b"] {
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\nX-User: a\r\n{fold}\r\n\r\n");
        assert_eq!(parse(head.as_bytes()), Err(HeadError::Folded), "{fold:?}");
    }
}

#[test]
fn debug_text_of_a_request_shows_no_field_that_may_be_a_secret() {
    let head = b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer s3cret\r\n\r\n";
    let request = parse(head).unwrap().unwrap();
    let shown = format!("{request:?} {:?}", request.lines);
    assert!(
        !shown.contains("s3cret") && shown.contains("bytes"),
        "{shown}"
    );
    assert!(!shown.contains("115"), "also not as numbers: {shown}");
}
