//! Logs to standard error. Nothing is logged for each connection or event.

use std::io::{self, IsTerminal};

use tracing::{Level, Metadata};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload::{Handle, Layer};
use tracing_subscriber::util::SubscriberInitExt;

use crate::values::LogFormat;

/// Handle to change the log level of the process.
#[derive(Debug, Clone)]
pub struct LogLevel(Handle<LevelFilter, Registry>);

impl LogLevel {
    /// Sets the level.
    pub fn set(&self, level: LevelFilter) {
        if let Err(error) = self.0.reload(level) {
            tracing::error!("the log level could not be changed to {level}: {error}");
        }
    }
}

/// Starts logging for the whole process. Must be called once.
pub fn start(format: LogFormat, level: LevelFilter) -> LogLevel {
    let (filter, handle) = Layer::new(level);
    // Events of the NATS client library are left out: this program logs those that matter.
    let is_news = |event: &Metadata<'_>| {
        !event.target().starts_with("async_nats") || *event.level() <= Level::WARN
    };
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    match format {
        LogFormat::Text => {
            let is_coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let lines = lines.with_target(false).with_ansi(is_coloured);
            registry.with(lines.with_filter(filter_fn(is_news))).init();
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            registry.with(lines.with_filter(filter_fn(is_news))).init();
        }
    }
    LogLevel(handle)
}
