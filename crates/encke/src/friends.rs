//! `encke friends`: graphs of friends.

mod generate;
mod load;

use crate::arguments::{FriendsArguments, FriendsVerb};
use crate::failure::Failure;

/// Does what the second word asks for.
pub(crate) fn run(arguments: &FriendsArguments) -> Result<(), Failure> {
    match &arguments.verb {
        FriendsVerb::Generate(arguments) => generate::run(arguments),
        FriendsVerb::Load(arguments) => load::run(arguments),
    }
}
