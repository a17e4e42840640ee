//! `encke subscribe` and `encke unsubscribe`.

use std::fmt;

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::failure::Failure;
use serde::Serialize;

pub(crate) const HELP: &str = "\
The subscriber receives events about the subjects from the next one on.

Example:
  encke subscribe alice rj news";

#[derive(Debug, Args)]
pub(crate) struct SubscribeArguments {
    /// Id that receives the events
    pub(crate) subscriber: String,
    /// Ids that the events are about
    #[arg(required = true, value_name = "SUBJECT")]
    pub(crate) subjects: Vec<String>,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Result of a change of one edge.
#[derive(Debug, Serialize)]
struct Edge<'a> {
    subscriber: &'a str,
    subject: &'a str,
    /// Whether the edge exists now.
    subscribed: bool,
    /// Whether that was changed.
    changed: bool,
}

impl fmt::Display for Edge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subscriber,
            subject,
            ..
        } = self;
        match (self.subscribed, self.changed) {
            (true, true) => write!(f, "{subscriber} is subscribed to {subject}"),
            (true, false) => write!(f, "{subscriber} was already subscribed to {subject}"),
            (false, true) => write!(f, "{subscriber} is no longer subscribed to {subject}"),
            (false, false) => write!(f, "{subscriber} was not subscribed to {subject}"),
        }
    }
}

/// Adds subscriptions.
pub(crate) fn subscribe(arguments: &SubscribeArguments) -> Result<(), Failure> {
    change(arguments, true)
}

/// Removes subscriptions.
pub(crate) fn unsubscribe(arguments: &SubscribeArguments) -> Result<(), Failure> {
    change(arguments, false)
}

fn change(arguments: &SubscribeArguments, subscribed: bool) -> Result<(), Failure> {
    let mut client = arguments.control.client()?;
    let subscriber = arguments.subscriber.as_str();
    for subject in &arguments.subjects {
        let changed = if subscribed {
            client.subscribe(subscriber, subject)?
        } else {
            client.unsubscribe(subscriber, subject)?
        };
        let edge = Edge {
            subscriber,
            subject,
            subscribed,
            changed,
        };
        arguments.report.print(&edge, || &edge)?;
    }
    Ok(())
}
