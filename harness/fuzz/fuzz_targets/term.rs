//! Any bytes as a term: it is one or it is not, and one that is looked at, written again as its
//! kinds are written, and read again is the same term, with the same text.
#![no_main]

use erlang::term::{Elements, Fun, Raw, Term, text, write};
use libfuzzer_sys::fuzz_target;

/// Beyond it a text is not made: what is refused is short.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Bytes that a term may take more when it is written again: an atom of Latin-1 grows to UTF-8, old
/// names of processes have short numbers.
const GROWTH: usize = 8;

fuzz_target!(|data: &[u8]| {
    let Ok((term, rest)) = Raw::parse(data) else {
        return;
    };
    assert_eq!(term.bytes().len() + rest.len(), data.len());
    // A term is as long as it is, whatever follows it.
    assert_eq!(Raw::parse(term.bytes()), Ok((term, &[][..])));
    for end in 0..term.bytes().len() {
        assert!(Raw::parse(&data[..end]).is_err(), "{end} bytes are a term");
    }
    let again = written(term);
    assert!(again.len() <= GROWTH * term.bytes().len() + GROWTH);
    let (read, rest) = Raw::parse(&again).expect("what is written is a term");
    assert!(rest.is_empty());
    assert_eq!(written(read), again);
    let text = text::of(term, TEXT_BYTES_MAX);
    assert_eq!(text::of(read, TEXT_BYTES_MAX), text);
    if let Ok(text) = &text {
        assert!(text.len() <= TEXT_BYTES_MAX);
        assert_eq!(text::of(term, text.len().saturating_sub(1)).ok(), None);
    }
});

fn written(term: Raw<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    rewrite(term, &mut out);
    out
}

fn rewrite(term: Raw<'_>, out: &mut Vec<u8>) {
    match term.view() {
        Term::Integer(integer) => write::integer(out, integer),
        Term::Big(big) => {
            out.push(111);
            out.extend((big.magnitude.len() as u32).to_be_bytes());
            out.push(u8::from(big.negative));
            out.extend(big.magnitude);
        }
        Term::Float(float) => write::float(out, float),
        Term::Atom(atom) => write::atom(out, &atom.text()),
        Term::Pid(pid) => write::pid(out, pid),
        Term::Port(port) => {
            out.push(120);
            write::atom(out, &port.node.text());
            out.extend(port.id.to_be_bytes());
            out.extend(port.creation.to_be_bytes());
        }
        Term::Reference(reference) => {
            let words: Vec<_> = reference.numbers().collect();
            write::reference(out, reference.node, reference.creation, &words);
        }
        Term::Binary(bytes) => write::binary(out, bytes),
        Term::Bits(bytes, in_last) => {
            out.push(77);
            out.extend((bytes.len() as u32).to_be_bytes());
            out.push(in_last);
            out.extend(bytes);
        }
        Term::Nil => write::nil(out),
        Term::String(bytes) => {
            out.push(107);
            out.extend((bytes.len() as u16).to_be_bytes());
            out.extend(bytes);
        }
        Term::List(list) => {
            write::list(out, list.elements().len());
            rewrite_all(list.elements(), out);
            assert_eq!(list.is_proper(), matches!(list.tail().view(), Term::Nil));
            rewrite(list.tail(), out);
        }
        Term::Tuple(elements) => {
            write::tuple(out, elements.len());
            rewrite_all(elements, out);
        }
        Term::Map(pairs) => {
            write::map(out, pairs.len() / 2);
            rewrite_all(pairs, out);
        }
        Term::Export(module, function, arity) => {
            out.push(113);
            write::atom(out, &module.text());
            write::atom(out, &function.text());
            write::integer(out, arity.into());
        }
        Term::Fun(fun) => rewrite_fun(fun, out),
    }
}

fn rewrite_all(elements: Elements<'_>, out: &mut Vec<u8>) {
    for element in elements {
        rewrite(element, out);
    }
}

/// Its parts begin with two integers of at most four bytes, which are written as they came.
fn rewrite_fun(fun: Fun<'_>, out: &mut Vec<u8>) {
    out.push(112);
    let start = out.len();
    out.extend([0; 4]);
    out.push(fun.arity);
    out.extend(fun.unique);
    out.extend(fun.index.to_be_bytes());
    out.extend((fun.parts.len() as u32 - 3).to_be_bytes());
    write::atom(out, &fun.module.text());
    rewrite_all(fun.parts, out);
    let size = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}
