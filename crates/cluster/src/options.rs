//! Options: servers, names, credentials, limits of the log.
//!
//! Owns the syntax of addresses and names. Must never show a secret.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use async_nats::ServerAddr;
pub use async_nats::jetstream::stream::StorageType as Storage;

/// Maximum length of the name of a cluster or node, in bytes: it is part of subjects and columns of
/// tables.
const NAME_BYTES_MAX: usize = 64;

/// Options of a node in a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Servers of the engine. The client discovers further ones by itself.
    pub servers: Vec<ServerAddress>,
    /// Name of the cluster, part of the names of its stream and subjects.
    pub cluster: Name,
    /// Name of this node.
    pub node: Name,
    /// Credentials of the node for the engine.
    pub credentials: Credentials,
    /// TLS to the engine.
    pub tls: TlsFiles,
    /// Limits of the log, if this node creates it.
    pub log: LogOptions,
    /// Largest event, in bytes. The engine must accept a message of this size.
    pub event_bytes_max: usize,
    /// Time without the engine after which clients are told to go to another node.
    pub patience: Duration,
}

/// Address of a server of the engine, without a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress(ServerAddr);

/// Name of a cluster or a node: 1 to 64 letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<str>);

/// Credentials of a node for the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// No credentials.
    #[default]
    None,
    /// A user's name and password.
    Password {
        /// Name of the user.
        user: String,
        /// Password.
        password: SecretText,
    },
    /// A token.
    Token(SecretText),
    /// The seed of an nkey.
    Nkey(SecretText),
    /// The text of a credentials file: a JSON Web Token and the seed of an nkey.
    File(SecretText),
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

/// Files for TLS to the engine. With any of them, or a `tls://` address, TLS is required.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of authorities to trust instead of those of the system.
    pub authorities: Option<PathBuf>,
    /// Certificate and private key of this node.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Limits of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// Number of servers of the engine that store the log, 1 to 5.
    pub replicas: usize,
    /// Maximum size of the log, in bytes. The oldest entries beyond it are removed.
    pub bytes: u64,
    /// Storage of the log in the servers of the engine. In memory it is lost when a majority of
    /// them ends.
    pub storage: Storage,
}

impl ServerAddress {
    /// Returns the address for the client library.
    pub(crate) fn to_addr(&self) -> ServerAddr {
        self.0.clone()
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected the address of a NATS server, like nats://127.0.0.1:4222 or \
                        tls://nats.example:4222";
        let address: ServerAddr = text.parse().map_err(|_| expected.to_owned())?;
        if address.has_user_pass() || address.password().is_some() {
            return Err(
                "other users of the machine could read a password there; use \
                        --cluster-user and --cluster-password-file"
                    .to_owned(),
            );
        }
        if address.is_websocket() || address.host().is_empty() {
            return Err(expected.to_owned());
        }
        Ok(Self(address))
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (self.0.host(), self.0.port());
        let scheme = self.0.scheme();
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{port}"),
            false => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

impl Name {
    /// Returns the text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        match (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits) {
            true => Ok(Self(text.into())),
            false => Err(format!(
                "a name has 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"
            )),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SecretText {
    /// Creates a secret from `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl TlsFiles {
    /// Returns whether TLS is required because a file is set.
    pub(crate) const fn is_required(&self) -> bool {
        self.authorities.is_some() || self.identity.is_some()
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            replicas: 3,
            bytes: 8 << 30,
            storage: Storage::File,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_password_is_refused() {
        for text in ["nats://user:secret@host", "nats://user@host", "tls://:x@h"] {
            let refused = text.parse::<ServerAddress>().expect_err(text);
            assert!(refused.contains("--cluster-password-file"), "{refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
        for text in ["ws://host", "http://host", "nats://", ""] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
        let shown = |text: &str| text.parse::<ServerAddress>().unwrap().to_string();
        assert_eq!(shown("localhost"), "nats://localhost:4222");
        assert_eq!(shown("tls://[::1]:1"), "tls://[::1]:1");
    }

    #[test]
    fn names_have_no_special_characters_of_subjects() {
        for text in ["", "a.b", "a*", ">", "a b", "ü", &"x".repeat(65)] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
        assert!("eu-west_1".parse::<Name>().is_ok());
    }

    #[test]
    fn secrets_are_not_shown() {
        let credentials = Credentials::Password {
            user: "encke".to_owned(),
            password: SecretText::new("hunter2"),
        };
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
