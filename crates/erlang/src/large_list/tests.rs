use super::*;
use crate::sim::peer::{atom, binary, integer, list, nil, reference, tuple};

/// Reads a list that arrives in these pieces. Returns its elements, or the error.
fn read(count: usize, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, ListError> {
    let mut reader = ListReader::new(count);
    let mut elements = Vec::new();
    for piece in pieces {
        reader.read(piece, |element| {
            elements.push(element.bytes().to_vec());
            true
        })?;
        assert!(reader.held.len() <= LIST_ELEMENT_BYTES_MAX);
    }
    assert_eq!(reader.has_ended(), elements.len() == count);
    Ok(elements)
}

fn elements() -> Vec<Vec<u8>> {
    // A function with one free variable, an external function, a float, bits.
    let pid = crate::sim::peer::pid("a@h", 5, 77);
    let mut fun = vec![112, 0, 0, 0, 0, 1];
    fun.extend([7; 16]);
    fun.extend([0, 0, 0, 2, 0, 0, 0, 1]);
    fun.extend([atom("m"), integer(3), integer(900), pid.clone(), nil()].concat());
    let size = (fun.len() as u32 - 1).to_be_bytes();
    fun[1..5].copy_from_slice(&size);
    vec![
        tuple(&[atom("subscription"), integer(1), integer(i64::MAX)]),
        tuple(&[binary(b"text"), list(&[integer(1), atom("x")], &integer(2))]),
        fun,
        [vec![113], atom("m"), atom("f"), integer(2)].concat(),
        b"F\x3f\xf8\0\0\0\0\0\0".to_vec(),
        b"M\0\0\0\x02\x05ab".to_vec(),
        b"k\0\x03abc".to_vec(),
        b"t\0\0\0\x01a\x01j".to_vec(),
        reference("a@h", 77, &[1, 2, 3]),
        pid,
        nil(),
    ]
}

#[test]
fn a_list_is_read_alike_at_every_split() {
    let elements = elements();
    let bytes = [elements.concat(), nil()].concat();
    for at in 0..=bytes.len() {
        let (left, right) = bytes.split_at(at);
        assert_eq!(
            read(elements.len(), &[left, right]),
            Ok(elements.clone()),
            "{at}"
        );
    }
    let each: Vec<_> = bytes.chunks(1).collect();
    assert_eq!(read(elements.len(), &each), Ok(elements));
}

#[test]
fn malformed_lists_are_refused_alike_at_every_split() {
    let large = binary(&vec![b'x'; LIST_ELEMENT_BYTES_MAX]);
    for (bytes, error) in [
        (
            [atom("a"), vec![255]].concat(),
            ListError::Term(TermError::Tag(255)),
        ),
        (
            [atom("a"), atom("b"), atom("tail")].concat(),
            ListError::Improper,
        ),
        (
            [atom("a"), atom("b"), nil(), nil()].concat(),
            ListError::Improper,
        ),
        (
            [atom("a"), large.clone(), nil()].concat(),
            ListError::ElementTooLarge,
        ),
        (
            [atom("a"), [104, 1].repeat(102)].concat(),
            ListError::Term(TermError::TooDeep),
        ),
    ] {
        for at in 0..=bytes.len().min(300) {
            let (left, right) = bytes.split_at(at);
            assert_eq!(read(2, &[left, right]), Err(error), "{bytes:?} at {at}");
        }
        let each: Vec<_> = bytes.chunks(7).collect();
        assert_eq!(read(2, &each), Err(error));
    }
}

#[test]
fn an_announced_size_takes_no_memory() {
    let mut reader = ListReader::new(usize::MAX);
    let mut result = reader.read(b"m\x7f\xff\xff\xff", |_| true);
    let mut pieces = 0;
    while result.is_ok() {
        assert!(reader.held.capacity() <= 2 * LIST_ELEMENT_BYTES_MAX);
        result = reader.read(&[0; 1000], |_| true);
        pieces += 1;
    }
    assert_eq!(result, Err(ListError::ElementTooLarge));
    assert!(pieces < 20, "{pieces}");
}

#[test]
fn only_long_lists_of_changes_are_read_piecewise() {
    let pid = crate::sim::peer::pid("a@h", 5, 77);
    let control = tuple(&[integer(6), pid, atom(""), atom("subsmanager")]);
    let head = |count: usize| [&[108][..], &(count as u32).to_be_bytes()].concat();
    let call = |verb: &str, list: Vec<u8>| {
        let from = tuple(&[crate::sim::peer::pid("a@h", 5, 77), integer(1)]);
        tuple(&[atom("$gen_call"), from, tuple(&[atom(verb), list])])
    };
    let long = head(SUBSCRIPTIONS_MAX + 1);
    let read = |fragments, payload: Vec<u8>| {
        let fragment = [control.clone(), payload].concat();
        LargeList::in_fragments(3, fragments, &fragment).map(|list| {
            (
                list.verb,
                list.from.is_some(),
                list.count,
                list.piece.to_vec(),
            )
        })
    };
    let add = (ListVerb::Add, true, SUBSCRIPTIONS_MAX + 1, Vec::new());
    assert_eq!(
        read(2, call("add_subscriptions", long.clone())),
        Some(add.clone())
    );
    assert_eq!(
        read(2, call("remove_subscriptions", long.clone())),
        Some((ListVerb::Remove, true, SUBSCRIPTIONS_MAX + 1, Vec::new()))
    );
    let cast = tuple(&[
        atom("$gen_cast"),
        tuple(&[atom("add_subscriptions"), [long.clone(), vec![1]].concat()]),
    ]);
    assert_eq!(
        read(2, cast),
        Some((ListVerb::Add, false, SUBSCRIPTIONS_MAX + 1, vec![1]))
    );
    // A short list of many bytes.
    assert!(read(1 << 40, call("add_subscriptions", head(2))).is_some());
    for (fragments, payload) in [
        (2, call("add_subscriptions", head(SUBSCRIPTIONS_MAX))),
        (2, call("get_subscribers", long.clone())),
        (2, call("add_subscriptions", nil())),
        (2, tuple(&[atom("add_subscriptions"), long.clone()])),
        (2, Vec::new()),
    ] {
        assert_eq!(read(fragments, payload.clone()), None, "{payload:?}");
    }
    let whole = call("add_subscriptions", long);
    for end in 0..whole.len() {
        assert_eq!(read(2, whole[..end].to_vec()), None, "cut at {end}");
    }
}
