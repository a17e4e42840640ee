//! Values of settings: addresses, bounds of times, the format of the log.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use machine::doctor::capacity;

/// The largest number of worker threads.
pub const WORKERS_MAX: u16 = capacity::WORKERS_MAX as u16;

/// Range of the number of worker threads.
pub const WORKERS: RangeInclusive<i64> = 1..=WORKERS_MAX as i64;

/// The shortest timeout that can be configured.
pub const TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// The longest time that can be configured. It fits timers and socket options.
pub const TIME_MAX: Duration = Duration::from_secs(86_400);

/// The longest keepalive time: the kernel counts it in whole seconds, up to 32,767.
pub const USER_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(32_767);

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines of text.
    Text,
    /// One JSON object a line.
    Json,
}

/// Parses an address to listen on. It may begin with `http://`, so that one environment variable
/// serves the server and its clients.
///
/// # Errors
///
/// When the text is not an address. The error is a sentence.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix("http://").unwrap_or(text);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    if let Some(port) = bare.strip_prefix("localhost:")
        && let Ok(port) = port.parse()
    {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    bare.parse().map_err(|_| {
        "an address needs an IP address and a port, like 127.0.0.1:8000 or [::1]:8000".to_owned()
    })
}

/// Refuses a control listener that other machines could use without a token.
///
/// # Errors
///
/// When other machines reach the address, and there is no token. The error is a sentence.
pub fn check_control(address: SocketAddr, has_token: bool) -> Result<(), String> {
    if has_token || address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "programs on other machines could use the control listener at {address}; set a token with \
         --control-token-file or --control-tokens, or listen on 127.0.0.1"
    ))
}
