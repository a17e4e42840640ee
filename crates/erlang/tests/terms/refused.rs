//! Refused terms: false sizes, excessive nesting, compressed terms, and terms that a BEAM refuses.

use erlang::term::{BIG_BYTES_MAX, DEPTH_MAX, Raw, TermError, write};

fn error(bytes: &[u8]) -> TermError {
    Raw::parse(bytes).expect_err("it must be refused")
}

#[test]
fn false_sizes_are_detected_before_anything_is_allocated() {
    for tag in [105, 108, 109, 116] {
        assert_eq!(
            error(&[tag, 0xff, 0xff, 0xff, 0xff]),
            TermError::Truncated,
            "tag {tag}"
        );
        assert_eq!(
            error(&[tag, 0xff, 0xff, 0xff, 0xff, 97, 1]),
            TermError::Truncated,
            "tag {tag}"
        );
    }
    assert_eq!(error(&[112, 0, 0, 0, 3]), TermError::Malformed);
    assert_eq!(error(&[111, 0xff, 0xff, 0xff, 0xff, 0]), TermError::TooBig);
}

#[test]
fn nesting_is_limited_to_the_maximum_depth() {
    let nested = |depth: usize| {
        let mut bytes = Vec::new();
        (0..depth).for_each(|_| write::tuple(&mut bytes, 1));
        write::nil(&mut bytes);
        bytes
    };
    assert!(Raw::parse(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(error(&nested(DEPTH_MAX + 1)), TermError::TooDeep);
    assert_eq!(error(&nested(1_000_000)), TermError::TooDeep);
}

#[test]
fn a_tail_of_a_tail_counts_as_nesting_and_a_long_list_does_not() {
    let mut tails = Vec::new();
    for _ in 0..1000 {
        write::list(&mut tails, 1);
        write::nil(&mut tails);
    }
    write::nil(&mut tails);
    assert_eq!(error(&tails), TermError::TooDeep);
    let mut long = Vec::new();
    write::list(&mut long, 100_000);
    (0..100_001).for_each(|_| write::nil(&mut long));
    assert!(Raw::parse(&long).is_ok());
}

#[test]
fn compressed_terms_and_cached_atoms_are_refused() {
    assert_eq!(error(&[80, 0, 0xff, 0xff, 0xff]), TermError::Tag(80));
    assert_eq!(error(&[82, 0]), TermError::Tag(82));
    assert_eq!(Raw::external(&[130, 106]), Err(TermError::Version(130)));
    assert_eq!(
        Raw::external(&[131, 106, 106]),
        Err(TermError::TrailingBytes)
    );
}

#[test]
fn atoms_are_utf8_of_at_most_255_characters() {
    let atom = |tag: u8, text: &[u8]| {
        let mut bytes = vec![tag];
        bytes.extend((text.len() as u16).to_be_bytes());
        bytes.extend(text);
        bytes
    };
    assert!(Raw::parse(&atom(118, "п".repeat(255).as_bytes())).is_ok());
    assert_eq!(
        error(&atom(118, "п".repeat(256).as_bytes())),
        TermError::Atom
    );
    assert_eq!(error(&atom(118, b"\xff")), TermError::Atom);
    assert!(Raw::parse(&atom(100, &[0xff; 255])).is_ok());
    assert_eq!(error(&atom(100, &[b'a'; 256])), TermError::Atom);
    assert_eq!(error(&atom(118, &[b'a'; 65_535])), TermError::Atom);
}

#[test]
fn floats_are_finite_and_bit_strings_have_bits() {
    for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut bytes = vec![70];
        bytes.extend(float.to_bits().to_be_bytes());
        assert_eq!(error(&bytes), TermError::Float);
    }
    let mut old = b"\x631.50000000000000000000e+00".to_vec();
    old.resize(32, 0);
    assert!(Raw::parse(&old).is_ok());
    old[1] = b'x';
    assert_eq!(error(&old), TermError::Float);
    assert_eq!(error(&[77, 0, 0, 0, 0, 1]), TermError::Malformed);
    assert_eq!(error(&[77, 0, 0, 0, 1, 9, 0]), TermError::Malformed);
    assert_eq!(error(&[77, 0, 0, 0, 1, 0, 0]), TermError::Malformed);
}

#[test]
fn integers_are_limited_to_the_maximum_size() {
    let big = |size: usize| {
        let mut bytes = vec![111];
        bytes.extend((size as u32).to_be_bytes());
        bytes.resize(bytes.len() + size + 1, 1);
        bytes
    };
    assert!(Raw::parse(&big(BIG_BYTES_MAX)).is_ok());
    assert_eq!(error(&big(BIG_BYTES_MAX + 1)), TermError::TooBig);
}

#[test]
fn a_function_must_have_the_size_that_it_announces() {
    let fun = |size: u32, pid_tag: u8| {
        let mut bytes = vec![112];
        bytes.extend(size.to_be_bytes());
        bytes.push(0);
        bytes.extend([7; 16]);
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 1]);
        write::atom(&mut bytes, "m");
        write::integer(&mut bytes, 1);
        write::integer(&mut bytes, 70_000);
        bytes.push(pid_tag);
        write::atom(&mut bytes, "a@b");
        bytes.extend([0; 12]);
        write::nil(&mut bytes);
        bytes
    };
    let size = fun(0, 88).len() as u32 - 1;
    assert_eq!(
        Raw::parse(&fun(size, 88)).unwrap().0.bytes().len() as u32,
        size + 1
    );
    assert!(Raw::parse(&fun(size - 1, 88)).is_err());
    assert_eq!(error(&fun(size + 1, 88)), TermError::Truncated);
    assert_eq!(error(&fun(size, 89)), TermError::Malformed);
    let mut longer = fun(size + 1, 88);
    longer.push(106);
    assert_eq!(error(&longer), TermError::Malformed);
}
