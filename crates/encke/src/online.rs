//! `encke online`: says which ids are online.

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::failure::Failure;
use cli::output;
use serde_json::Value;

pub(crate) const HELP: &str = "\
An id is online while it has a session on the server, or on any node of its cluster, and for a
while after its last one.
The server must run with --presence, or --demo.

Examples:
  encke online alice bob
  encke online alice --json";

#[derive(Debug, Args)]
pub(crate) struct OnlineArguments {
    /// Ids to ask about
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Prints which of the ids are online.
pub(crate) fn run(arguments: &OnlineArguments) -> Result<(), Failure> {
    let mut client = arguments.control.client()?;
    let answer = client.which_online(&arguments.ids)?;
    if arguments.report.json {
        return output::json(&answer).map(drop);
    }
    output::foreign_line(text(&arguments.ids, &answer).trim_end()).map(drop)
}

/// Returns a line for each id, in the order of the arguments.
fn text(ids: &[String], answer: &Value) -> String {
    let online = answer["online"].as_array().map_or(&[][..], Vec::as_slice);
    let line = |id: &String| {
        let is_online = online.iter().any(|one| one.as_str() == Some(id));
        let state = if is_online { "online" } else { "offline" };
        format!("{state:<7}  {id}\n")
    };
    ids.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_id_has_a_line_in_the_order_of_the_arguments() {
        let ids = ["bob", "7", "alice"].map(str::to_owned);
        let answer = json!({"online": ["alice", "7"]});
        let expected = "offline  bob\nonline   7\nonline   alice\n";
        assert_eq!(text(&ids, &answer), expected);
    }
}
