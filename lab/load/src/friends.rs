//! Random graphs of friends with a skewed degree distribution: most users have few friends, some
//! have very many.
//!
//! `generate` makes the graph, `degrees` computes its degree distribution, `picture` draws that,
//! and `neighbourhood` draws one user's friends. The graph is written as an edge list.

pub mod generate;
pub mod degrees;
pub mod picture;
pub mod neighbourhood;

use std::fmt;
use std::io::{self, BufRead, Write};
use std::time::Instant;

use serde::Serialize;

use degrees::Distribution;
use generate::Generator;
pub use generate::Options;
use machine::failure::{Context, Failure, Outcome};
use neighbourhood::Neighbourhood;

/// Largest id that needs no dictionary entry in the server.
pub const USERS_MAX: u32 = (1 << 31) - 1;

/// Bytes of the edge list written at a time.
const WRITE_BYTES: usize = 256 * 1024;

/// Users between two progress reports.
const USERS_A_STEP: u32 = 4096;

/// Report on a generated graph.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Options of the graph.
    #[serde(flatten)]
    pub options: Options,
    /// Users generated: all, unless it was stopped.
    pub made: u32,
    /// Number of friendships, that is, lines of the list.
    pub edges: u64,
    /// Size of the list in bytes.
    pub bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Degree distribution.
    pub degrees: Distribution,
    /// Neighbourhood of one user, if asked for.
    #[serde(skip)]
    pub neighbourhood: Option<Box<Neighbourhood>>,
}

/// Result of [`write()`].
#[derive(Debug)]
pub enum End {
    /// The list is written, up to where `observe` stopped it.
    Written(Report),
    /// The reader closed the pipe.
    Unread,
}

/// Writes the friendships of a generated graph to `out`, one line `a b` for each with `a` the newer
/// user. Calls `observe` from time to time with the number of users made; it returns whether to go
/// on. The report has the neighbourhood of user `around`, if that user was made.
///
/// # Errors
///
/// When the options are invalid, there is no such user, there is not enough memory for the edges,
/// or `out` cannot be written. A reader that closes the pipe is [`End::Unread`], and no error.
pub fn write(
    options: Options,
    around: Option<u32>,
    out: &mut impl Write,
    mut observe: impl FnMut(u32) -> bool,
) -> Outcome<End> {
    options.check(around)?;
    let begun = Instant::now();
    let mut generator = Generator::new(options)?;
    let mut lines = Lines::default();
    while let Some((user, friends)) = generator.next_user() {
        lines.add(user, friends);
        if lines.bytes.len() >= WRITE_BYTES && !lines.flush_lines(out)? {
            return Ok(End::Unread);
        }
        if user % USERS_A_STEP == 0 && !observe(user) {
            break;
        }
    }
    if !lines.flush_lines(out)? {
        return Ok(End::Unread);
    }
    let degrees = generator.degrees();
    let degree = |id: u32| degrees.get(id as usize - 1).copied().unwrap_or(0);
    let around = around.filter(|&user| user <= generator.made());
    let around = around
        .map(|user| Neighbourhood::of(user, || generator.friendships(), degree))
        .map(Box::new);
    Ok(End::Written(Report {
        options,
        made: generator.made(),
        edges: generator.edges(),
        bytes: lines.written,
        seconds: begun.elapsed().as_secs_f64(),
        degrees: Distribution::of(&degrees, degrees::tail_from(options.degree)),
        neighbourhood: around,
    }))
}

impl Options {
    /// Checks the options, and that there is a user `around`.
    ///
    /// # Errors
    ///
    /// When the degree is zero, there are too few users for it or too many, or there is no such
    /// user.
    pub fn check(&self, around: Option<u32>) -> Outcome<()> {
        let Self { users, degree, .. } = *self;
        if degree == 0 {
            return Err(Failure::new(
                "a degree of 0 gives no friendships: give 1 or more, for instance --degree 15",
            ));
        }
        if users <= degree {
            return Err(Failure::new(format!(
                "{users} users cannot make {degree} friends each: give at least {} users, or a \
                 smaller degree",
                u64::from(degree) + 1
            )));
        }
        if users > USERS_MAX {
            return Err(Failure::new(format!(
                "{users} users are too many: give at most {USERS_MAX}"
            )));
        }
        if let Some(user) = around
            && !(1..=users).contains(&user)
        {
            return Err(Failure::new(format!(
                "there is no user {user}: ids are 1 to {users}"
            )));
        }
        Ok(())
    }
}

/// Reads an edge list: calls `found` with the ids of each line. Empty lines and those that begin
/// with `#` are skipped.
///
/// # Errors
///
/// When `list`, which is called `name`, cannot be read, or a line is not two ids.
pub fn read(
    mut list: impl BufRead,
    name: impl fmt::Display,
    mut found: impl FnMut([u32; 2]),
) -> Outcome<()> {
    let (mut line, mut number) = (String::new(), 0u64);
    loop {
        line.clear();
        let read = list.read_line(&mut line);
        if read.context(format_args!("reading {name}"))? == 0 {
            return Ok(());
        }
        number += 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        found(ends(&line).ok_or_else(|| {
            Failure::new(format!(
                "line {number} of {name} is not an edge: it must be two ids from 1 to {USERS_MAX} \
                 with a space between, as `encke-lab friends generate` writes"
            ))
        })?);
    }
}

/// Parses the two ids of a line.
fn ends(line: &str) -> Option<[u32; 2]> {
    let mut ids = line.split_ascii_whitespace().map(|word| {
        let id = word.parse().ok();
        id.filter(|id| (1..=USERS_MAX).contains(id))
    });
    let ends = [ids.next()??, ids.next()??];
    ids.next().is_none().then_some(ends)
}

/// Buffer of lines for the writer.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    written: u64,
}

impl Lines {
    fn add(&mut self, user: u32, friends: &[u32]) {
        let mut newer = itoa::Buffer::new();
        let newer = newer.format(user);
        let mut older = itoa::Buffer::new();
        for &friend in friends {
            self.bytes.extend_from_slice(newer.as_bytes());
            self.bytes.push(b' ');
            self.bytes
                .extend_from_slice(older.format(friend).as_bytes());
            self.bytes.push(b'\n');
        }
    }

    /// Writes the lines. Returns false if the reader has closed the pipe.
    fn flush_lines(&mut self, out: &mut impl Write) -> Outcome<bool> {
        match out.write_all(&self.bytes).and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
            error => error.context("writing the edge list")?,
        }
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Options = Options {
        users: 1000,
        degree: 3,
        seed: 7,
    };

    fn list(options: Options) -> (String, Report) {
        let mut out = Vec::new();
        match write(options, None, &mut out, |_| true).unwrap() {
            End::Written(report) => (String::from_utf8(out).unwrap(), report),
            End::Unread => panic!("a vector is never closed"),
        }
    }

    /// FNV-1a, written out here so that no library update can change it.
    fn hash(text: &str) -> u64 {
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    #[test]
    fn a_seed_gives_the_same_graph_everywhere() {
        let (text, report) = list(SMALL);
        assert!(text.starts_with("2 1\n3 1\n3 2\n4 1\n4 2\n4 3\n5 "));
        assert_eq!(hash(&text), 0x9c4b_f31c_da45_2a41);
        assert_eq!(report.edges, 1000 * 3 - 3 * 4 / 2);
        assert_eq!(report.bytes, text.len() as u64);
        assert_ne!(text, list(Options { seed: 8, ..SMALL }).0);
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(matches!(
            write(SMALL, None, &mut Gone, |_| true),
            Ok(End::Unread)
        ));
    }

    #[test]
    fn it_stops_when_the_observer_says_so() {
        let options = Options {
            users: 100_000,
            ..SMALL
        };
        let mut out = Vec::new();
        let end = write(options, None, &mut out, |users| users < 50_000).unwrap();
        let End::Written(report) = end else {
            panic!("a vector is never closed");
        };
        assert_eq!(report.made, 50_000u32.next_multiple_of(USERS_A_STEP));
        let lines = out.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(lines as u64, report.edges);
    }

    #[test]
    fn the_error_names_a_line_that_is_not_an_edge() {
        for line in ["1", "1 2 3", "0 1", "a b", "1,2", "1 4294967296"] {
            assert_eq!(ends(line), None, "{line}");
        }
        assert_eq!(ends("3\t4\r\n"), Some([3, 4]));
        let error = read(&b"1 2\n1;2\n"[..], "a list", |_| ()).unwrap_err();
        assert!(error.to_string().starts_with("line 2 of a list"), "{error}");
    }

    #[test]
    fn impossible_options_are_refused() {
        for (users, degree, said) in [
            (10, 0, "no friendships"),
            (3, 3, "at least 4 users"),
            (u32::MAX, 3, "at most 2147483647"),
        ] {
            let options = Options {
                users,
                degree,
                seed: 1,
            };
            let error = options.check(None).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
