//! An edge list that is sent to a server: each line is checked before it is sent, and a mutual
//! friendship becomes two edges.

use std::fmt::Display;
use std::io::{self, Read, Write};

use graph::{Line, Lines};

/// Invalid lines that are listed. Further ones are only counted.
const BAD_LINES_MAX: usize = 100;

/// Reader of an edge list for the server. It has one line for each line of the input, or two if
/// friendships are mutual, so that line numbers in the server's answer can be mapped to the input.
pub(super) struct Edges<R, F> {
    lines: Lines<R>,
    mutual: bool,
    skip_bad: bool,
    tell: F,
    ready: Vec<u8>,
    taken: usize,
    bad_count: u64,
    bad: Vec<(u64, String)>,
    stopped: Option<(u64, String)>,
}

impl<R: Read, F: FnMut(u64)> Edges<R, F> {
    /// Returns a reader of the edges in `input`. `tell` is called with the number of bytes read.
    pub(super) fn new(input: R, mutual: bool, skip_bad: bool, tell: F) -> Self {
        Self {
            lines: Lines::new(input),
            mutual,
            skip_bad,
            tell,
            ready: Vec::new(),
            taken: 0,
            bad_count: 0,
            bad: Vec::new(),
            stopped: None,
        }
    }

    /// Returns the number of invalid lines that were left out.
    pub(super) const fn bad_count(&self) -> u64 {
        self.bad_count
    }

    /// Returns the invalid line that ended the list, if one did.
    pub(super) fn stopped(&self) -> Option<&(u64, String)> {
        self.stopped.as_ref()
    }

    /// Returns the first invalid lines that were left out.
    pub(super) fn into_bad(self) -> Vec<(u64, String)> {
        self.bad
    }

    /// Prepares the next line. Returns false if there is none.
    fn next(&mut self) -> io::Result<bool> {
        if self.stopped.is_some() {
            return Ok(false);
        }
        let Some(line) = self.lines.next()? else {
            return Ok(false);
        };
        (self.tell)(self.lines.bytes());
        match line {
            Line::Keys(subscriber, subject) => self.push(subscriber, subject),
            Line::Ids(subscriber, subject) => self.push(subscriber, subject),
            Line::Nothing => self.leave_out(),
            Line::Bad(why) if self.skip_bad => {
                self.bad_count += 1;
                if self.bad.len() < BAD_LINES_MAX {
                    self.bad.push((self.lines.number(), why));
                }
                self.leave_out();
            }
            Line::Bad(why) => {
                self.stopped = Some((self.lines.number(), why));
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn push(&mut self, subscriber: impl Display, subject: impl Display) {
        let mut write = |from: &dyn Display, to: &dyn Display| {
            writeln!(self.ready, "{from} {to}").expect("memory takes any bytes");
        };
        write(&subscriber, &subject);
        if self.mutual {
            write(&subject, &subscriber);
        }
    }

    fn leave_out(&mut self) {
        self.ready
            .extend_from_slice(if self.mutual { b"\n\n" } else { b"\n" });
    }
}

impl<R: Read, F: FnMut(u64)> Read for Edges<R, F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.ready.len() {
            self.ready.clear();
            self.taken = 0;
            while self.ready.len() < out.len() && self.next()? {}
        }
        let count = out.len().min(self.ready.len() - self.taken);
        out[..count].copy_from_slice(&self.ready[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = b"# friends\n1 2\n\n  a\tb  \n7\n3 4";

    /// Returns what the server gets when it is read in pieces of this size.
    fn sent(mutual: bool, skip_bad: bool, piece: usize) -> (String, Vec<u64>, Option<u64>) {
        let mut edges = Edges::new(LIST, mutual, skip_bad, |_| ());
        let (mut all, mut out) = (Vec::new(), vec![0; piece]);
        loop {
            let count = edges.read(&mut out).unwrap();
            if count == 0 {
                break;
            }
            all.extend_from_slice(&out[..count]);
        }
        let stopped = edges.stopped().map(|(line, _)| *line);
        let bad = edges.into_bad().into_iter().map(|(line, _)| line).collect();
        (String::from_utf8(all).unwrap(), bad, stopped)
    }

    #[test]
    fn lines_keep_their_numbers_when_others_are_left_out() {
        for piece in 1..40 {
            let (text, bad, stopped) = sent(false, true, piece);
            assert_eq!(text, "\n1 2\n\na b\n\n3 4\n");
            assert_eq!((bad, stopped), (vec![5], None));
            let (text, ..) = sent(true, true, piece);
            assert_eq!(text, "\n\n1 2\n2 1\n\n\na b\nb a\n\n\n3 4\n4 3\n");
        }
    }

    #[test]
    fn a_line_without_end_is_a_bad_line() {
        let endless = io::repeat(b'x').take(50 << 20);
        let mut edges = Edges::new(endless.chain(&b"\n1 2\n"[..]), false, true, |_| ());
        let mut text = String::new();
        edges.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), edges.bad_count()), ("\n1 2\n", 1));
    }

    #[test]
    fn a_bad_line_ends_the_list_unless_it_is_skipped() {
        let (text, bad, stopped) = sent(false, false, 7);
        assert_eq!(text, "\n1 2\n\na b\n");
        assert_eq!((bad, stopped), (vec![], Some(5)));
    }
}
