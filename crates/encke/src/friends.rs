//! `encke friends`: graphs of friends.

mod generate;
mod load;

use crate::arguments::{FriendsArguments, FriendsVerb};
use crate::failure::Failure;

/// Runs a subcommand.
pub(crate) fn run(arguments: &FriendsArguments) -> Result<(), Failure> {
    match &arguments.verb {
        FriendsVerb::Generate(arguments) => generate::run(arguments),
        FriendsVerb::Load(arguments) => load::run(arguments),
    }
}
