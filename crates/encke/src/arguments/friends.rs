//! What `encke friends` can be told.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{PlaceArguments, Report};

pub(super) const HELP: &str = "\
Examples:
  encke friends generate --users 1000000 --degree 15 --seed 1 -o friends.txt
  encke friends generate --users 1000 --degree 3 | head
  encke friends load friends.txt --mutual";

const GENERATE_HELP: &str = "\
Each new user makes --degree friends among those before, more likely those who have many (Barabasi
and Albert). Friendship is mutual: a million users of degree 15 are 15 million lines, and 30 on
average. Nobody is his own friend or a friend twice.

The report goes to standard error; as JSON to standard output, unless the list goes there.

Examples:
  encke friends generate --users 1000000 --degree 15 --seed 1 -o friends.txt
  encke friends generate --users 1000 --degree 3 | head
  encke friends generate --users 100000 -o friends.txt --plot friends.svg";

const LOAD_HELP: &str = "\
A line is a subscriber and a subject, set apart by blanks. Blank lines and those that begin with #
are passed over; a subscription that is there already is no harm.

Without --online the server must not run. The list then takes effect as a whole or, if something
goes wrong or the load is broken off, not at all. With --online each line takes effect as it comes.

Examples:
  encke friends load friends.txt --mutual
  encke friends generate --users 100000 | encke friends load - --mutual --online";

#[derive(Debug, Args)]
pub(crate) struct FriendsArguments {
    #[command(subcommand)]
    pub(crate) verb: FriendsVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FriendsVerb {
    /// Generate a graph of friends: an edge list, `a b` a line
    #[command(after_help = GENERATE_HELP)]
    Generate(GenerateArguments),
    /// Load an edge list into a data directory, or into a running server
    #[command(after_help = LOAD_HELP)]
    Load(LoadArguments),
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    /// How many users; their ids count from 1
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) users: u32,
    /// Friends that each new user makes; all have twice as many on average
    #[arg(long, value_name = "D", default_value_t = 15)]
    pub(crate) degree: u32,
    /// Another seed is another graph; the same one is the same graph on every machine
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where the list goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Draw how many friends users have, on logarithmic scales, as an SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    /// The list; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) list: PathBuf,
    /// Each line is a friendship: both subscribe to each other
    #[arg(long)]
    pub(crate) mutual: bool,
    /// Leave bad lines out and say which, instead of ending at the first
    #[arg(long)]
    pub(crate) skip_bad: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}
