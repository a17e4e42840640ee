//! `encke-lab friends`: graphs of friends.

mod generate;
mod load;

use std::path::PathBuf;

use ::load::friends::Options;
use clap::{Args, Subcommand};
use cli::arguments::{PlaceArguments, Report};
use cli::failure::Failure;

pub(crate) const HELP: &str = "\
Examples:
  encke-lab friends generate --users 1000000 --degree 15 --seed 1 -o friends.txt
  encke-lab friends generate --users 1000 --degree 3 | head
  encke-lab friends load friends.txt --mutual";

const GENERATE_HELP: &str = "\
Each new user becomes a friend of --degree earlier users, and is more likely to choose users with
many friends (Barabasi and Albert). Friendship is mutual: a million users of degree 15 are
15 million lines, and each user has 30 friends on average. No user is its own friend, and no
friendship is repeated.

The report goes to standard error. With --json it goes to standard output, unless the list goes
there.

Examples:
  encke-lab friends generate --users 1000000 --degree 15 --seed 1 -o friends.txt
  encke-lab friends generate --users 1000 --degree 3 | head
  encke-lab friends generate --users 100000 -o friends.txt --plot friends.svg
  encke-lab friends generate --users 1000 --degree 3 -o friends.txt --plot user.svg --around 500";

const LOAD_HELP: &str = "\
Each line has a subscriber and a subject, separated by spaces or tabs. Blank lines and lines that
begin with # are skipped. A subscription that exists already is left unchanged.

Without --online the server must not be running. Then either the whole list is loaded or, after an
error or an interrupt, none of it. With --online each line takes effect as it arrives.

Examples:
  encke-lab friends load friends.txt --mutual
  encke-lab friends generate --users 100000 | encke-lab friends load - --mutual --online";

#[derive(Debug, Args)]
pub(crate) struct FriendsArguments {
    #[command(subcommand)]
    verb: FriendsVerb,
}

#[derive(Debug, Subcommand)]
enum FriendsVerb {
    /// Generate a graph of friends, as an edge list with lines `a b`
    #[command(after_help = GENERATE_HELP)]
    Generate(GenerateArguments),
    /// Load an edge list into a data directory, or into a running server
    #[command(after_help = LOAD_HELP)]
    Load(LoadArguments),
}

#[derive(Debug, Args)]
struct GenerateArguments {
    #[command(flatten)]
    graph: Options,
    /// File for the list; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Plot the number of friends of users, on logarithmic scales, as SVG
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Draw this user, its friends and theirs with --plot, in place of the number of friends
    #[arg(
        long,
        value_name = "ID",
        requires = "plot",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    around: Option<u32>,
    #[command(flatten)]
    report: Report,
}

#[derive(Debug, Args)]
struct LoadArguments {
    /// File with the list; `-` is standard input
    #[arg(value_name = "FILE")]
    list: PathBuf,
    /// Treat each line as a friendship: both users subscribe to each other
    #[arg(long)]
    mutual: bool,
    /// Skip invalid lines and list them, instead of stopping at the first
    #[arg(long)]
    skip_bad: bool,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    report: Report,
}

/// Runs a subcommand.
pub(crate) fn run(arguments: &FriendsArguments) -> Result<(), Failure> {
    match &arguments.verb {
        FriendsVerb::Generate(arguments) => generate::run(arguments),
        FriendsVerb::Load(arguments) => load::run(arguments),
    }
}
