//! `encke-lab friends`: graphs of friends.

/// Arguments of the command.
pub(crate) mod arguments;
mod generate;
mod load;

use cli::failure::Failure;

use arguments::{FriendsArguments, FriendsVerb};

/// Runs a subcommand.
pub(crate) fn run(arguments: &FriendsArguments) -> Result<(), Failure> {
    match &arguments.verb {
        FriendsVerb::Generate(arguments) => generate::run(arguments),
        FriendsVerb::Load(arguments) => load::run(arguments),
    }
}
