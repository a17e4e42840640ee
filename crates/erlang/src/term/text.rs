//! The text of a term, as `io_lib:format("~0tp", [Term])` prints it in a node started with `+pc
//! unicode`.
//!
//! Printable lists and binaries are shown as text, so `{song,"Sky"}` stays readable. Pids, ports
//! and references contain the name of their node, because node numbers mean nothing outside one
//! BEAM. The same text is the id of a term that is used as an id.

mod atom;
mod float;
mod string;

use std::fmt::Write;

use super::names::{Fun, Pid};
use super::view::{Elements, List, Raw, Term};

/// The error for a text that is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Returns the text of `term`.
///
/// # Errors
///
/// When it needs more than `bytes_max` bytes: a term of few bytes can have a long text.
pub fn of(term: Raw<'_>, bytes_max: usize) -> Result<String, TooLong> {
    let mut printer = Printer {
        out: String::new(),
        bytes_max,
    };
    printer.term(term)?;
    Ok(printer.out)
}

/// Returns the text of a printable list, which Erlang calls a string. `None` for the empty list.
pub fn string(term: Raw<'_>) -> Option<String> {
    let text: String = match term.view() {
        Term::String(bytes) => bytes.iter().map(|&byte| char::from(byte)).collect(),
        Term::List(list) => string::characters(list)?,
        _ => return None,
    };
    text.chars().all(string::is_printable).then_some(text)
}

struct Printer {
    out: String,
    bytes_max: usize,
}

impl Printer {
    fn term(&mut self, term: Raw<'_>) -> Result<(), TooLong> {
        // The length is checked before and after each write, and one write is at most a few times
        // as long as the term.
        self.check(0)?;
        match term.view() {
            Term::Integer(integer) => self.display(integer),
            Term::Big(big) => {
                self.check(big.magnitude.len() * 2)?;
                big.push_digits(&mut self.out);
            }
            Term::Float(float) => float::push(float, &mut self.out),
            Term::Atom(atom) => atom::push(&atom.text(), &mut self.out),
            Term::Pid(pid) => self.pid(pid),
            Term::Port(port) => {
                self.display(format_args!("#Port<{}.{}>", port.node.text(), port.id));
            }
            Term::Reference(reference) => {
                self.display(format_args!("#Ref<{}", reference.node.text()));
                for number in reference.numbers().rev() {
                    self.display(format_args!(".{number}"));
                }
                self.out.push('>');
            }
            Term::Binary(bytes) => self.binary(bytes)?,
            Term::Bits(bytes, in_last) => self.bits(bytes, in_last)?,
            Term::Nil => self.out.push_str("[]"),
            Term::String(bytes) => self.bytes(bytes)?,
            Term::List(list) => self.list(list)?,
            Term::Tuple(elements) => {
                self.out.push('{');
                self.elements(elements)?;
                self.out.push('}');
            }
            Term::Map(pairs) => self.map(pairs)?,
            Term::Export(module, function, arity) => {
                self.out.push_str("fun ");
                atom::push_of_fun(&module.text(), &mut self.out);
                self.out.push(':');
                atom::push_of_fun(&function.text(), &mut self.out);
                self.display(format_args!("/{arity}"));
            }
            Term::Fun(fun) => self.fun(fun),
        }
        self.check(0)
    }

    /// Fails if the text with `more` bytes would be too long.
    const fn check(&self, more: usize) -> Result<(), TooLong> {
        if self.out.len() + more > self.bytes_max {
            Err(TooLong)
        } else {
            Ok(())
        }
    }

    fn display(&mut self, shown: impl std::fmt::Display) {
        let _ = write!(self.out, "{shown}");
    }

    fn pid(&mut self, pid: Pid<'_>) {
        let node = pid.node.text();
        self.display(format_args!("<{node}.{}.{}>", pid.id, pid.serial));
    }

    fn fun(&mut self, fun: Fun<'_>) {
        self.out.push_str("#Fun<");
        self.out.push_str(&fun.module.text());
        self.display(format_args!(".{}>", fun.index));
    }

    fn elements(&mut self, elements: Elements<'_>) -> Result<(), TooLong> {
        for (at, element) in elements.enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            self.term(element)?;
        }
        Ok(())
    }

    fn map(&mut self, pairs: Elements<'_>) -> Result<(), TooLong> {
        self.out.push_str("#{");
        for (at, term) in pairs.enumerate() {
            self.out.push_str(match at {
                0 => "",
                _ if at % 2 == 1 => " => ",
                _ => ",",
            });
            self.term(term)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn list(&mut self, list: List<'_>) -> Result<(), TooLong> {
        // A long list need not be examined twice, because its text will not fit.
        self.check(list.elements().len())?;
        if let Some(text) =
            string::characters(list).filter(|text| text.chars().all(string::is_printable))
        {
            string::push_quoted(&text, '"', &mut self.out);
            return Ok(());
        }
        self.out.push('[');
        self.elements(list.elements())?;
        let tail = list.tail();
        if !matches!(tail.view(), Term::Nil) {
            self.out.push('|');
            self.term(tail)?;
        }
        self.out.push(']');
        Ok(())
    }

    /// Appends a list of bytes.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.check(bytes.len())?;
        if bytes.iter().all(|&byte| string::is_printable(byte.into())) {
            let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
            string::push_quoted(&text, '"', &mut self.out);
            return Ok(());
        }
        self.out.push('[');
        self.numbers(bytes)?;
        self.out.push(']');
        Ok(())
    }

    fn binary(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.check(bytes.len())?;
        self.out.push_str("<<");
        match string::of_binary(bytes) {
            Some(text) => {
                string::push_quoted(&text, '"', &mut self.out);
                // The type is only written for text that is not Latin-1.
                if text.len() == bytes.len() && !text.is_ascii() {
                    self.out.push_str("/utf8");
                }
            }
            None => self.numbers(bytes)?,
        }
        self.out.push_str(">>");
        Ok(())
    }

    fn bits(&mut self, bytes: &[u8], in_last: u8) -> Result<(), TooLong> {
        let (last, whole) = bytes.split_last().expect("measured");
        self.out.push_str("<<");
        self.numbers(whole)?;
        if !whole.is_empty() {
            self.out.push(',');
        }
        self.display(format_args!("{}:{in_last}>>", last >> (8 - in_last)));
        Ok(())
    }

    fn numbers(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.check(2 * bytes.len())?;
        for (at, byte) in bytes.iter().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            self.display(byte);
        }
        Ok(())
    }
}
