//! Logs to standard error. Nothing is logged for each connection or event.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::LevelFilter;

use crate::config::LogFormat;

/// Starts logging for the whole process. Once.
pub(crate) fn start(format: LogFormat, level: LevelFilter) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr);
    match format {
        LogFormat::Text => builder
            .with_target(false)
            .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
