//! Host names that a listener answers to.
//!
//! A web page whose author owns a name in DNS can make that name lead to a server on the visitor's
//! machine or network (DNS rebinding); the browser then takes the server for the page's own. The
//! `Host` field still has the page's name, so a listener that answers only to names it knows is not
//! deceived. Owns the forms of a listed name. Must never resolve one.

use super::{Host, split_port};

/// Most bytes of a host name (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Host names that a listener answers to. `localhost`, names below it and IP addresses are always
/// among them: no entry in DNS can make them lead elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedHosts {
    patterns: Vec<HostPattern>,
}

/// Name, or set of names, in a list of allowed hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// `*`: every name.
    Any,
    /// `*.example.com`: every name below this one, which begins with a dot here.
    Below(Box<str>),
    /// This name only.
    Exactly(Box<str>),
}

/// Reason why a text is not a [`HostPattern`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPatternError {
    /// It has a scheme or a path.
    Url,
    /// It has a port.
    Port,
    /// It has a star other than at its beginning, before a dot.
    Star,
    /// It is not a host name.
    Name,
}

impl HostPatternError {
    /// Returns what a pattern has to be.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Url => "expected a host name without scheme and path, like example.com",
            Self::Port => "expected a host name without a port: a name is allowed on every port",
            Self::Star => "expected * only at the beginning: *.example.com, or * for every name",
            Self::Name => {
                "expected a host name, like example.com, *.example.com, or * for every name"
            }
        }
    }
}

impl HostPattern {
    /// Parses a pattern: a host name, `*.` and a host name, or `*`.
    ///
    /// # Errors
    ///
    /// When the text is none of these.
    pub fn parse(text: &str) -> Result<Self, HostPatternError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.contains('/') {
            return Err(HostPatternError::Url);
        }
        if text.contains(':') {
            return Err(HostPatternError::Port);
        }
        let (name, is_below) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        if name.contains('*') {
            return Err(HostPatternError::Star);
        }
        let name = without_root(name);
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_label_byte);
        if name.len() > NAME_BYTES_MAX || !name.split('.').all(is_label) {
            return Err(HostPatternError::Name);
        }
        let name = name.to_ascii_lowercase();
        Ok(if is_below {
            Self::Below(format!(".{name}").into())
        } else {
            Self::Exactly(name.into())
        })
    }

    /// Returns whether `name` is of the pattern. It has no port and no dot at its end.
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(known) => name.eq_ignore_ascii_case(known),
            Self::Below(suffix) => name
                .len()
                .checked_sub(suffix.len())
                .filter(|&at| at > 0)
                .and_then(|at| name.get(at..))
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix)),
        }
    }
}

impl AllowedHosts {
    /// Allows the names of `patterns` beside those that are always allowed.
    pub const fn new(patterns: Vec<HostPattern>) -> Self {
        Self { patterns }
    }

    /// Returns whether only local names and addresses are allowed.
    pub const fn is_local(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns whether a request with this `Host` field may be answered. A request without a host
    /// comes from a program: browsers always name one.
    ///
    /// ```
    /// use wire::host::{AllowedHosts, HostPattern};
    ///
    /// let hosts = AllowedHosts::new(vec![HostPattern::parse("push.example.com").unwrap()]);
    /// assert!(hosts.allows(Some("push.example.com:8000")));
    /// assert!(hosts.allows(Some("127.0.0.1:8000")));
    /// assert!(!hosts.allows(Some("rebinding.example.org")));
    /// ```
    pub fn allows(&self, host: Option<&str>) -> bool {
        let Some(host) = host.filter(|host| !host.is_empty()) else {
            return true;
        };
        if Host::of(host).is_fixed() {
            return true;
        }
        let (name, _) = split_port(host);
        let name = without_root(name);
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// Returns a name without the dot of the root zone: `example.com.` is `example.com`.
fn without_root(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// Letters, digits, hyphens, and underscores, which names of containers have. A name in another
/// script stands in `Host` as Punycode (RFC 5891, section 5.5).
const fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(patterns: &[&str]) -> AllowedHosts {
        let parse = |text: &&str| HostPattern::parse(text).expect("a pattern");
        AllowedHosts::new(patterns.iter().map(parse).collect())
    }

    #[test]
    fn local_names_addresses_and_no_host_are_always_allowed() {
        for list in [&[][..], &["example.com"]] {
            let hosts = hosts(list);
            for host in [
                "",
                "localhost",
                "a.LOCALHOST:80",
                "127.0.0.1:8000",
                "192.0.2.1",
                "[::1]:8000",
                "[2001:db8::1]",
            ] {
                assert!(hosts.allows(Some(host)), "{host}");
            }
            assert!(hosts.allows(None));
        }
    }

    #[test]
    fn other_names_are_refused_unless_they_are_listed() {
        let listed = hosts(&["example.com", "Push.Example.net."]);
        for host in [
            "example.com",
            "EXAMPLE.com:8000",
            "example.com.",
            "example.com.:80",
            "push.example.net",
        ] {
            assert!(listed.allows(Some(host)), "{host}");
            assert!(!hosts(&[]).allows(Some(host)), "{host}");
        }
        for host in [
            "evil.example",
            "example.com.evil.example",
            "evil-example.com",
            "a.example.com",
            "example.com..",
            "example",
            ".example.com",
            ":80",
            ".",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "0x7f.1",
            "2130706433",
            "example.com:80:80",
        ] {
            assert!(!listed.allows(Some(host)), "{host}");
        }
    }

    #[test]
    fn a_star_stands_for_what_is_below_a_name_and_not_for_the_name() {
        let below = hosts(&["*.example.com"]);
        assert!(below.allows(Some("a.example.com")) && below.allows(Some("A.b.EXAMPLE.com.:1")));
        for host in [
            "example.com",
            ".example.com",
            "aexample.com",
            "a.example.com.evil",
            "é.com",
        ] {
            assert!(!below.allows(Some(host)), "{host}");
        }
        assert!(hosts(&["*"]).allows(Some("any.thing")));
    }

    #[test]
    fn a_pattern_that_could_never_match_is_refused() {
        use HostPatternError::{Name, Port, Star, Url};
        for (text, error) in [
            ("http://example.com", Url),
            ("example.com/", Url),
            ("example.com:8000", Port),
            ("a.*.com", Star),
            ("*example.com", Star),
            ("**", Star),
            ("", Name),
            ("*.", Name),
            (".example.com", Name),
            ("a..b", Name),
            ("exämple.com", Name),
            ("a b", Name),
            (&"a.".repeat(200), Name),
        ] {
            assert_eq!(HostPattern::parse(text), Err(error), "{text}");
            assert!(error.reason().starts_with("expected"));
        }
    }
}
