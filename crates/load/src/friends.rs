//! A graph of friends as people have them: most have few, some have very many.
//!
//! `generate` makes it, `degrees` says how many friends users have, `picture` shows that,
//! `neighbourhood` shows one user's friends. Nothing here keeps the graph or loads it anywhere: it
//! goes to a writer, as an edge list.

pub mod generate;
pub mod degrees;
pub mod picture;
pub mod neighbourhood;

use std::io::{self, Write};
use std::time::Instant;

use serde::Serialize;

use degrees::Distribution;
use generate::Generator;
use machine::failure::{Context, Failure, Outcome};
use neighbourhood::Neighbourhood;

/// The largest id that needs no dictionary in the server.
pub const USERS_MAX: u32 = (1 << 31) - 1;

/// Bytes of the edge list that are written at a time.
const WRITE_BYTES: usize = 256 * 1024;

/// Users between two looks at the progress.
const USERS_A_STEP: u32 = 4096;

/// A graph to generate.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Options {
    /// Users, whose ids count from 1.
    pub users: u32,
    /// Friends that each new user makes. Friendship is mutual, so users have about twice as many
    /// on average.
    pub degree: u32,
    /// Another seed is another graph; the same one is the same graph everywhere.
    pub seed: u64,
}

/// What was generated.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was asked for.
    #[serde(flatten)]
    pub options: Options,
    /// Users whose friends are in the list: all, unless it was stopped.
    pub made: u32,
    /// Friendships, each of which is one line of the list.
    pub edges: u64,
    /// Bytes of the list.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// How many friends users have.
    pub degrees: Distribution,
    /// The friends of one user, if they were asked for.
    #[serde(skip)]
    pub neighbourhood: Option<Box<Neighbourhood>>,
}

/// How a generation ended.
#[derive(Debug)]
pub enum End {
    /// The list is written, up to where it was stopped.
    Written(Report),
    /// Whoever read the list went away.
    Unread,
}

/// Writes the friendships of a generated graph to `out`, a line `a b` for each, ids from 1, `a` the
/// newer user. Tells `observe` now and then how many users have made their friends; its answer says
/// whether to go on.
///
/// # Errors
///
/// When the options are invalid, there is not enough memory for the edges, or `out` cannot be
/// written. A reader that closes the pipe is [`End::Unread`], and no error.
pub fn write(
    options: Options,
    out: &mut impl Write,
    observe: impl FnMut(u32) -> bool,
) -> Outcome<End> {
    write_around(None, options, out, observe)
}

/// The same; the report has the friends of user `around` as well, if it was made.
///
/// # Errors
///
/// Those of [`write()`], and when there is no such user.
pub fn write_around(
    around: Option<u32>,
    options: Options,
    out: &mut impl Write,
    mut observe: impl FnMut(u32) -> bool,
) -> Outcome<End> {
    options.check()?;
    if let Some(user) = around
        && !(1..=options.users).contains(&user)
    {
        return Err(Failure::new(format!(
            "there is no user {user}: ids are 1 to {}",
            options.users
        )));
    }
    let begun = Instant::now();
    let mut generator = Generator::new(options)?;
    let mut lines = Lines::default();
    while let Some((user, friends)) = generator.next_user() {
        lines.add(user, friends);
        if lines.bytes.len() >= WRITE_BYTES && !lines.hand_over(out)? {
            return Ok(End::Unread);
        }
        if user % USERS_A_STEP == 0 && !observe(user) {
            break;
        }
    }
    if !lines.hand_over(out)? {
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
    /// Says what is wrong with them.
    ///
    /// # Errors
    ///
    /// When the degree is zero, or there are not enough users for it.
    pub fn check(&self) -> Outcome<()> {
        let Self { users, degree, .. } = *self;
        if degree == 0 {
            return Err(Failure::new(
                "a degree of 0 makes nobody friends: give 1 or more, for instance --degree 15",
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
                "{users} users are more than there are small ids: give at most {USERS_MAX}"
            )));
        }
        Ok(())
    }
}

/// Lines on their way to the writer.
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

    /// Writes the lines; whether anybody still reads.
    fn hand_over(&mut self, out: &mut impl Write) -> Outcome<bool> {
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
        match write(options, &mut out, |_| true).unwrap() {
            End::Written(report) => (String::from_utf8(out).unwrap(), report),
            End::Unread => panic!("a vector is never closed"),
        }
    }

    /// FNV-1a, written out here so that no library can change it.
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
    fn a_reader_that_went_away_ends_it_without_an_error() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(matches!(write(SMALL, &mut Gone, |_| true), Ok(End::Unread)));
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        let options = Options {
            users: 100_000,
            ..SMALL
        };
        let mut out = Vec::new();
        let end = write(options, &mut out, |users| users < 50_000).unwrap();
        let End::Written(report) = end else {
            panic!("a vector is never closed");
        };
        assert_eq!(report.made, 50_000u32.next_multiple_of(USERS_A_STEP));
        let lines = out.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(lines as u64, report.edges);
    }

    #[test]
    fn what_cannot_be_generated_is_said() {
        for (users, degree, said) in [
            (10, 0, "nobody friends"),
            (3, 3, "at least 4 users"),
            (u32::MAX, 3, "at most 2147483647"),
        ] {
            let options = Options {
                users,
                degree,
                seed: 1,
            };
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
