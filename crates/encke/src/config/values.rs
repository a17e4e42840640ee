//! Parsers of the values of settings.
//!
//! Owns their bounds. The error of each function says what is expected.

use std::ops::{RangeBounds, RangeInclusive};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use cli::units;
use cli::values::{self, LogFormat, TIME_MAX, TIMEOUT_MIN};
use router::WORKERS_MAX;
use server::{HostPattern, SlowPolicy};
use tracing_subscriber::filter::LevelFilter;

use super::fields::{Shape, Unit};

pub(super) const SWITCH: Unit<bool> = Unit {
    shape: Shape::Switch,
    parse: switch,
    show: bool::to_string,
};

pub(super) const TIME: Unit<Duration> = Unit {
    shape: Shape::Text("TIME"),
    parse: time,
    show: time_text,
};

/// A time limit, which is not too short for a network.
pub(super) const TIMEOUT: Unit<Duration> = Unit {
    parse: timeout,
    ..TIME
};

pub(super) const HEARTBEAT: Unit<Duration> = Unit {
    parse: heartbeat,
    ..TIME
};

pub(super) const USER_TIMEOUT: Unit<Duration> = Unit {
    parse: user_timeout,
    ..TIME
};

pub(super) const SIZE: Unit<usize> = Unit {
    shape: Shape::Text("SIZE"),
    parse: units::size,
    show: size_text,
};

pub(super) const SLOW_POLICY: Unit<SlowPolicy> = Unit {
    shape: Shape::Text("POLICY"),
    parse: slow_policy,
    show: |policy| policy.name().to_owned(),
};

/// A number of connections; no limit is the greatest one.
pub(super) const CONNECTIONS: Unit<usize> = Unit {
    shape: Shape::Number,
    parse: count,
    show: usize::to_string,
};

/// A number of connections; no limit is `None`.
pub(super) const CONNECTIONS_PER_ADDRESS: Unit<Option<u32>> = Unit {
    shape: Shape::Number,
    parse: |text| count(text).map(Some),
    show: |count| count.map_or_else(String::new, |count| count.to_string()),
};

/// The smallest and the largest bound on the size of an event: a line of text, and what a worker's
/// buffers and a browser can handle.
const EVENT_BYTES: RangeInclusive<usize> = 64..=64 << 20;

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("expected a directory; use `memory` to store nothing".to_owned()),
        _ => Ok(text.into()),
    }
}

pub(super) fn workers(text: &str) -> Result<u16, String> {
    number(
        1..=WORKERS_MAX,
        text,
        &format!("a number from 1 to {WORKERS_MAX}"),
    )
}

pub(super) fn count<T: FromStr + From<u8> + PartialOrd>(text: &str) -> Result<T, String> {
    number(T::from(1).., text, "a whole number of at least 1")
}

pub(super) fn event_bytes(text: &str) -> Result<usize, String> {
    size_within(EVENT_BYTES, text, "a size from 64 bytes to 64 MiB")
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    time_within(..=TIME_MAX, text, "at most a day")
}

pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    time_within(TIMEOUT_MIN..=TIME_MAX, text, "a time from 100ms to a day")
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    match time(text)? {
        time if time.is_zero() || time >= TIMEOUT_MIN => Ok(time),
        _ => Err("expected at least 100ms, or 0 for no heartbeats".to_owned()),
    }
}

/// Parses the tick time of Erlang nodes. They send a tick each quarter of it, in whole seconds.
pub(super) fn tick_time(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(1)..=TIME_MAX;
    time_within(range, text, "a time from 1s to a day")
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    number(1.., text, "a number from 1 to 65535")
}

fn user_timeout(text: &str) -> Result<Duration, String> {
    time_within(values::USER_TIMEOUT, text, "a time from 1s to 9h")
}

/// Returns a time in whole seconds, or else in milliseconds.
fn time_text(time: &Duration) -> String {
    match time.subsec_nanos() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

/// Returns a size in the greatest unit in which it is whole.
fn size_text(bytes: &usize) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units
        .into_iter()
        .find(|(shift, _)| *bytes != 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(
        || bytes.to_string(),
        |(shift, unit)| format!("{}{unit}", bytes >> shift),
    )
}

/// Parses a time that is in a range. The error says what is expected.
pub(super) fn time_within(
    range: impl RangeBounds<Duration>,
    text: &str,
    expected: &str,
) -> Result<Duration, String> {
    within(range, units::duration(text)?, expected)
}

/// Parses a size that is in a range. The error says what is expected.
pub(super) fn size_within(
    range: impl RangeBounds<usize>,
    text: &str,
    expected: &str,
) -> Result<usize, String> {
    within(range, units::size(text)?, expected)
}

/// Returns a value that is in a range. The error says what is expected.
fn within<T: PartialOrd>(
    range: impl RangeBounds<T>,
    value: T,
    expected: &str,
) -> Result<T, String> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(format!("expected {expected}")),
    }
}

/// Parses a number that is in a range. The error says what is expected.
pub(super) fn number<T: FromStr + PartialOrd>(
    range: impl RangeBounds<T>,
    text: &str,
    expected: &str,
) -> Result<T, String> {
    let wrong = |_| format!("expected {expected}");
    within(range, text.parse().map_err(wrong)?, expected)
}

/// Parses a policy for clients that read too slowly.
fn slow_policy(text: &str) -> Result<SlowPolicy, String> {
    SlowPolicy::find(text).ok_or_else(|| {
        let names = SlowPolicy::ALL.map(SlowPolicy::name).join(", ");
        format!("expected one of {names}")
    })
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("expected text or json".to_owned()),
    }
}

pub(super) fn log_level(text: &str) -> Result<LevelFilter, String> {
    // The parser would also accept numbers, which are not documented.
    let level = text
        .parse()
        .ok()
        .filter(|_| text.bytes().all(|byte| byte.is_ascii_alphabetic()));
    level.ok_or_else(|| "expected off, error, warn, info, debug or trace".to_owned())
}

/// Parses a host name of the public listener, or a pattern.
pub(super) fn host(text: &str) -> Result<HostPattern, String> {
    HostPattern::parse(text).map_err(|error| error.reason().to_owned())
}

/// Parses an origin in the form that browsers send (RFC 6454, section 6.2), because it is compared
/// as text.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let bare = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let well_formed = text == "*"
        || text == "null"
        || bare.is_some_and(|bare| {
            !bare.is_empty()
                && bare
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && byte != b'/')
        });
    if well_formed {
        return Ok(text.to_owned());
    }
    Err(
        "an origin is a scheme and a host without a slash at the end, like https://example.org; \
         `*` means all"
            .to_owned(),
    )
}

/// Returns the default number of workers: one for each core that this process may use.
pub(super) fn default_workers() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(cores).unwrap_or(WORKERS_MAX).min(WORKERS_MAX)
}

/// Parses a text of at least one character.
pub(super) fn nonempty(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("expected at least one character".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Parses the name of a header field or of a cookie: a token (RFC 9110, section 5.6.2; RFC 6265,
/// section 4.1.1).
pub(super) fn token(text: &str) -> Result<String, String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_token) {
        return Err("expected a name of letters, digits and hyphens, without spaces".to_owned());
    }
    Ok(text.to_owned())
}
