//! Identity: who a client is, and which ids it may read.
//!
//! Owns the verification of tokens and tickets, revocations and bans. Text, key material, the time
//! and random bytes are arguments. Must never touch a socket, a file, a thread or a clock.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Points in time: seconds since 1970.
pub mod time;
/// Networks of addresses, such as those of trusted proxies.
pub mod network;
/// Reasons to refuse a token, with the answer for the client (RFC 6750).
pub mod error;
/// Algorithms of signatures.
mod algorithm;
/// Keys that tokens are checked with, from secrets, PEM and JWKS documents.
pub mod keys;
/// JSON objects from untrusted input.
mod json;
/// JSON Web Tokens as text: parts, header, bounds.
mod token;
/// Settings of a policy.
mod policy_settings;
/// Claims of a token.
mod claims;
/// Ids that a client may read: exact ids and prefixes.
pub mod scope;
/// Identity of a client.
pub mod identity;
/// Policy of a listener: keys, issuers, audiences, and where tokens may be.
pub mod policy;
/// Tickets: secrets that log in as given ids.
pub mod tickets;
/// Revocations of tokens and tickets, by id or by `jti`.
pub mod revocations;
/// Bans: ids that may not log in until a time.
pub mod bans;
/// A bounded map whose entries expire.
mod expiring;

pub use bans::Bans;
pub use error::{ErrorCode, TokenError};
pub use identity::Identity;
pub use keys::{KeyError, KeySet};
pub use network::Network;
pub use policy::{Policy, PolicySettings};
pub use revocations::Revocations;
pub use scope::Scope;
pub use tickets::{TicketError, Tickets};
pub use time::UnixSeconds;

#[cfg(test)]
mod tests;
