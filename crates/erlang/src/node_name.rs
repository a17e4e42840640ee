//! Node names.

use std::fmt;
use std::str::FromStr;

/// Longest name in bytes, as in every Erlang system.
const NAME_BYTES_MAX: usize = 255;

/// Name of an Erlang node: a name on its host, `@`, and the host.
///
/// ```
/// let name: erlang::NodeName = "encke@127.0.0.1".parse().unwrap();
/// assert_eq!((name.alive(), name.host()), ("encke", "127.0.0.1"));
/// assert!("encke".parse::<erlang::NodeName>().is_err(), "without a host");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName {
    whole: Box<str>,
    at: usize,
}

impl NodeName {
    /// Returns the whole name, as in pids: `encke@127.0.0.1`.
    pub fn as_str(&self) -> &str {
        &self.whole
    }

    /// Returns the part before the `@`, under which epmd knows the node.
    pub fn alive(&self) -> &str {
        &self.whole[..self.at]
    }

    /// Returns the part after the `@`: the host.
    pub fn host(&self) -> &str {
        &self.whole[self.at + 1..]
    }
}

impl FromStr for NodeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let needed = || {
            format!(
                "a node name has the form name@host, like encke@127.0.0.1, and at most \
                 {NAME_BYTES_MAX} bytes"
            )
        };
        let (alive, host) = text.split_once('@').ok_or_else(needed)?;
        let is_name = |part: &str| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'))
        };
        if !is_name(alive) || !is_name(host) || text.len() > NAME_BYTES_MAX {
            return Err(needed());
        }
        Ok(Self {
            whole: text.into(),
            at: alive.len(),
        })
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whole)
    }
}
