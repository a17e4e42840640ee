//! The configuration of `encke-proxy tcp`: one listener from flags, or any number from a file.
//!
//! Owns the defaults, the resolution of names, and which values exclude each other. All problems
//! are reported at once.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use cli::secret::Secret;
use cli::values::{TIME_MAX, TIMEOUT_MIN, USER_TIMEOUT, WORKERS_MAX, address};
use proxy::tcp::{BACKENDS_MAX, BackendAddress, Check, ListenerSettings, Settings, StartError};
use serde::Deserialize;

use super::arguments::{ConfigSources, ListenerOptions, Time};
use crate::admin::AdminEndpoints;

/// Configuration of the proxy.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) settings: Settings,
    /// File of the access log.
    pub(super) access_log: Option<PathBuf>,
    /// The admin endpoints, if they are configured.
    pub(super) admin: Option<AdminEndpoints>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    workers: Option<u16>,
    private_fds: Option<bool>,
    drain_timeout: Option<Time>,
    access_log: Option<PathBuf>,
    control: Option<String>,
    control_token: Option<String>,
    control_token_file: Option<PathBuf>,
    listener: Vec<ListenerOptions>,
}

impl ConfigSources {
    /// Reads the whole configuration.
    pub(super) fn read(&self) -> Result<Configuration, Vec<String>> {
        let file = match &self.config {
            Some(path) => {
                let shown = path.display();
                let text = fs::read_to_string(path)
                    .map_err(|error| vec![format!("{shown} cannot be read: {error}")])?;
                toml::from_str(&text).map_err(|error| vec![format!("{shown}: {error}")])?
            }
            None => File {
                listener: vec![self.listener.clone()],
                ..File::default()
            },
        };
        let mut problems = Vec::new();
        if self.config.is_some() && self.listener != ListenerOptions::default() {
            problems.push(
                "both flags and --config (ENCKE_PROXY_CONFIG) describe listeners; move the flags \
                 into the file, or do not use a file"
                    .to_owned(),
            );
        }
        if file.listener.is_empty() {
            problems.push(
                "there is no listener; add a [[listener]] with the keys `listen` and `to`"
                    .to_owned(),
            );
        }
        let process = &self.process;
        let access_log = process.access_log.as_ref().or(file.access_log.as_ref());
        let cores = thread::available_parallelism()
            .map_or(1, usize::from)
            .min(usize::from(WORKERS_MAX));
        let workers = process.workers.or(file.workers).unwrap_or(cores as u16);
        if !(1..=WORKERS_MAX).contains(&workers) {
            problems.push(format!(
                "workers is {workers}: expected a number from 1 to {WORKERS_MAX}"
            ));
        }
        let mut listeners = Vec::new();
        for options in &file.listener {
            let mut parser = ListenerParser {
                options,
                problems: &mut problems,
            };
            if let Some(mut settings) = parser.listener() {
                let is_same = |other: &ListenerSettings| other.listen == settings.listen;
                if listeners.iter().any(is_same) {
                    problems.push(StartError::Twice(settings.listen).to_string());
                }
                settings.access_log = access_log.is_some();
                listeners.push(settings);
            }
        }
        let private_fds = process.private_fds.or(file.private_fds).unwrap_or(false);
        if self.shared_poller && private_fds {
            problems.push(
                "workers with private descriptor tables cannot share a poller; remove \
                 --shared-poller or private-fds"
                    .to_owned(),
            );
        }
        let admin = self.admin(&file).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        let drain_timeout = process.drain_timeout.or(file.drain_timeout);
        let settings = Settings {
            workers,
            private_fds,
            shared_poller: self.shared_poller,
            drain_timeout: drain_timeout.map_or(Duration::from_secs(10), |time| time.0),
            listeners,
        };
        Ok(Configuration {
            settings,
            access_log: access_log.cloned(),
            admin,
        })
    }

    /// Returns the settings of the admin endpoints. Flags and the environment override the file.
    fn admin(&self, file: &File) -> Result<Option<AdminEndpoints>, String> {
        let listen = match (self.process.control, &file.control) {
            (Some(address), _) => address,
            (None, Some(text)) => {
                address(text).map_err(|needed| format!("control is `{text}`: {needed}"))?
            }
            (None, None) => return Ok(None),
        };
        let token = match self.process.token.secret()? {
            Some(token) => Some(token),
            None => file.token()?,
        };
        AdminEndpoints::new(listen, token).map(Some)
    }
}

impl File {
    fn token(&self) -> Result<Option<Secret>, String> {
        let token = match (&self.control_token, &self.control_token_file) {
            (Some(_), Some(_)) => {
                return Err(
                    "control-token and control-token-file are both set; one of them is enough"
                        .to_owned(),
                );
            }
            (Some(token), None) => Secret::parse(token).map(Some),
            (None, Some(path)) => Secret::read_private(path).map(Some),
            (None, None) => Ok(None),
        };
        token.map_err(|needed| format!("the control token is not valid: {needed}"))
    }
}

/// Parser of one listener's settings that collects problems.
struct ListenerParser<'a> {
    options: &'a ListenerOptions,
    problems: &'a mut Vec<String>,
}

impl ListenerParser<'_> {
    fn listener(&mut self) -> Option<ListenerSettings> {
        let options = self.options;
        let backends = self.backends();
        let Some(listen) = options.listen else {
            self.problems
                .push("a listener has no address; set it with `listen` (--listen)".to_owned());
            return None;
        };
        let default = ListenerSettings::new(listen, backends);
        let settings = ListenerSettings {
            balance: options.balance.unwrap_or(default.balance),
            connect_timeout: self.timeout(
                "connect-timeout",
                options.connect_timeout,
                default.connect_timeout,
            ),
            retries: options.retries.unwrap_or(default.retries),
            idle_timeout: self.timeout("idle-timeout", options.idle_timeout, default.idle_timeout),
            user_timeout: self.seconds("user-timeout", options.user_timeout, default.user_timeout),
            keepalive: self.seconds("keepalive", options.keepalive, default.keepalive),
            max_connections: self.limit("max-connections", options.max_connections),
            max_connections_per_source: self.limit(
                "max-connections-per-address",
                options.max_connections_per_address,
            ),
            proxy_in: self.proxy_in(),
            proxy_out: options.proxy_out,
            eject_after: options.eject_after.unwrap_or(default.eject_after),
            eject_time: self.timeout("eject-time", options.eject_time, default.eject_time),
            check: self.check(),
            request_latency: options.request_latency,
            ..default
        };
        Some(settings)
    }

    fn backends(&mut self) -> Vec<BackendAddress> {
        let names = &self.options.to;
        if names.is_empty() || names.len() > BACKENDS_MAX {
            self.problems.push(format!(
                "a listener has {} backends; set from 1 to {BACKENDS_MAX} backends with `to` \
                 (--to)",
                names.len()
            ));
        }
        let mut backends = Vec::new();
        for name in names {
            match resolve(name) {
                Ok(address) => backends.push(BackendAddress {
                    name: name.clone(),
                    address,
                }),
                Err(problem) => self.problems.push(problem),
            }
        }
        backends
    }

    fn proxy_in(&mut self) -> Option<Duration> {
        let options = self.options;
        if options.proxy_in_timeout.is_some() && !options.proxy_in {
            self.problems.push(
                "proxy-in-timeout is set, but proxy-in is not; set both or neither".to_owned(),
            );
        }
        let default = Duration::from_secs(3);
        let timeout = self.timeout("proxy-in-timeout", options.proxy_in_timeout, default);
        options.proxy_in.then_some(timeout)
    }

    fn check(&mut self) -> Option<Check> {
        let options = self.options;
        let seconds = Duration::from_secs;
        let check = Check {
            interval: self.timeout("check-interval", options.check_interval, seconds(2)),
            timeout: self.timeout("check-timeout", options.check_timeout, seconds(1)),
            rise: self.limit("check-rise", options.check_rise).unwrap_or(2),
            fall: self.limit("check-fall", options.check_fall).unwrap_or(3),
            send: self.bytes("check-send", options.check_send.as_deref()),
            expect: self.bytes("check-expect", options.check_expect.as_deref()),
        };
        let is_wanted = options.check
            || options.check_interval.is_some()
            || options.check_timeout.is_some()
            || options.check_rise.is_some()
            || options.check_fall.is_some()
            || options.check_send.is_some()
            || options.check_expect.is_some();
        is_wanted.then_some(check)
    }

    fn limit(&mut self, name: &str, limit: Option<u32>) -> Option<u32> {
        if limit == Some(0) {
            self.problems.push(format!(
                "{name} is 0: expected at least 1; remove it to use the default"
            ));
        }
        limit
    }

    fn timeout(&mut self, name: &str, time: Option<Time>, default: Duration) -> Duration {
        self.within(name, time, default, (TIMEOUT_MIN, TIME_MAX))
    }

    fn seconds(&mut self, name: &str, time: Option<Time>, default: Duration) -> Duration {
        self.within(name, time, default, USER_TIMEOUT.into_inner())
    }

    fn within(
        &mut self,
        name: &str,
        time: Option<Time>,
        default: Duration,
        (least, most): (Duration, Duration),
    ) -> Duration {
        let time = time.map_or(default, |time| time.0);
        if time < least || time > most {
            self.problems.push(format!(
                "{name} is {time:?}: expected a time from {least:?} to {most:?}"
            ));
        }
        time
    }

    fn bytes(&mut self, name: &str, text: Option<&str>) -> Vec<u8> {
        let text = text.unwrap_or_default();
        unescape(text).unwrap_or_else(|| {
            self.problems.push(format!(
                "{name} is `{text}`: after a backslash, expected r, n, t, 0, xHH or another \
                 backslash"
            ));
            Vec::new()
        })
    }
}

/// Resolves the name of a backend.
fn resolve(name: &str) -> Result<SocketAddr, String> {
    if name.ends_with(":0") {
        return Err(format!(
            "backend `{name}` has port 0, at which nobody can listen; write its port"
        ));
    }
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let (host, port) = name.rsplit_once(':').unwrap_or((name, ""));
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err(format!(
            "backend `{name}` is not a host and a port, like 127.0.0.1:8000 or db.example.org:5432"
        ));
    }
    let unresolved = |why: String| {
        format!(
            "backend `{name}` cannot be resolved: {why}; use an address, or a name that \
             `getent hosts {host}` can resolve"
        )
    };
    let mut addresses = name
        .to_socket_addrs()
        .map_err(|error| unresolved(error.to_string()))?;
    addresses
        .next()
        .ok_or_else(|| unresolved("it has no address".to_owned()))
}

/// Returns the bytes of a text with escape sequences.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'0' => 0,
            b'\\' => b'\\',
            b'x' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let high = digit(rest.next()?)?;
                (high * 16 + digit(rest.next()?)?) as u8
            }
            _ => return None,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proxy::tcp::{Balance, HeaderVersion};

    use super::*;

    fn from_file(text: &str) -> Result<Configuration, Vec<String>> {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("encke-proxy-config-{:?}", thread::current().id()));
        fs::write(&path, text).expect("a file");
        let sources = ConfigSources {
            config: Some(path.clone()),
            ..ConfigSources::default()
        };
        let read = sources.read();
        fs::remove_file(path).expect("the file is there");
        read
    }

    #[test]
    fn a_file_describes_any_number_of_listeners() {
        let settings = from_file(
            "workers = 3\nprivate-fds = true\n\
             [[listener]]\nlisten = '127.0.0.1:1'\nto = ['127.0.0.1:2', '127.0.0.1:3']\n\
             balance = 'round-robin'\nidle-timeout = '1m'\ncheck-send = 'PING\\r\\n'\n\
             [[listener]]\nlisten = '[::1]:1'\nto = ['[::1]:2']\nproxy-in = true\nproxy-out = \
             'v1'\n",
        )
        .expect("a sound file")
        .settings;
        assert_eq!((settings.workers, settings.private_fds), (3, true));
        let [first, second] = &settings.listeners[..] else {
            panic!("two listeners")
        };
        assert_eq!(first.balance, Balance::RoundRobin);
        assert_eq!(first.backends.len(), 2);
        assert_eq!(first.idle_timeout, Duration::from_secs(60));
        assert_eq!(first.check.as_ref().expect("asked for").send, b"PING\r\n");
        assert_eq!(second.proxy_in, Some(Duration::from_secs(3)));
        assert_eq!(second.proxy_out, Some(HeaderVersion::V1));
    }

    #[test]
    fn there_are_no_admin_endpoints_by_default() {
        let listener = "[[listener]]\nlisten = '127.0.0.1:1'\nto = ['127.0.0.1:2']\n";
        let admin = |text: &str| {
            let read = from_file(&format!("{text}\n{listener}"));
            read.expect("a sound file").admin
        };
        assert!(admin("").is_none());
        assert!(admin("control-token = 'a'").is_none());
        assert!(admin("control = '127.0.0.1:9001'").is_some());
        assert!(admin("control = '0.0.0.0:9001'\ncontrol-token = 'a'").is_some());
    }

    #[test]
    fn problems_name_the_setting() {
        for (text, said) in [
            ("", "no listener"),
            ("nonsense = 1", "nonsense"),
            (
                "[[listener]]\nlisten = '127.0.0.1:1'\nto = ['x']\n",
                "`x` is not a host and a port",
            ),
            ("[[listener]]\nlisten = '127.0.0.1:1'\ntoo = []\n", "too"),
            ("[[listener]]\nto = ['127.0.0.1:1']\n", "no address"),
            ("[[listener]]\nlisten = '127.0.0.1:1'\n", "0 backends"),
            (
                "[[listener]]\nlisten = '127.0.0.1:1'\nto = ['127.0.0.1:2']\nidle-timeout = '1ms'",
                "idle-timeout is 1ms",
            ),
            (
                "[[listener]]\nlisten = '127.0.0.1:1'\nto = ['127.0.0.1:2']\ncheck-send = 'a\\q'",
                "after a backslash",
            ),
            (
                "[[listener]]\nlisten = '127.0.0.1:1'\nto = ['127.0.0.1:2']\nmax-connections = 0",
                "max-connections is 0",
            ),
            (
                "[[listener]]\nlisten = '127.0.0.1:1'\nto = ['127.0.0.1:2']\ncheck-fall = 0",
                "check-fall is 0",
            ),
            (
                "[[listener]]\nlisten = '127.0.0.1:1'\nto = ['127.0.0.1:2']\n\
                 [[listener]]\nlisten = '127.0.0.1:1'\nto = ['127.0.0.1:3']\n",
                "two listeners have the address",
            ),
            ("control = 'here'", "control is `here`: an address"),
            ("control = '0.0.0.0:9001'", "set a token with"),
            ("control = '127.0.0.1:0'\ncontrol-token = ''", "it is empty"),
            (
                "control = '127.0.0.1:0'\ncontrol-token = 'a'\ncontrol-token-file = 'b'",
                "both set",
            ),
        ] {
            let problems = from_file(text).expect_err(text).join("; ");
            assert!(problems.contains(said), "{text}: {problems}");
        }
    }

    #[test]
    fn any_setting_of_health_checks_enables_them() {
        for key in [
            "check = true",
            "check-interval = '1s'",
            "check-timeout = '1s'",
            "check-rise = 1",
            "check-fall = 1",
            "check-send = 'a'",
            "check-expect = 'a'",
        ] {
            let text = format!("[[listener]]\nlisten = '127.0.0.1:1'\nto = ['127.0.0.1:2']\n{key}");
            let config = from_file(&text).expect(key);
            assert!(config.settings.listeners[0].check.is_some(), "{key}");
        }
    }

    #[test]
    fn bytes_can_be_written_as_text() {
        assert_eq!(unescape(r"a\r\n\0\\\x7f"), Some(b"a\r\n\0\\\x7f".to_vec()));
        for wrong in [r"\", r"\q", r"\x", r"\x1", r"\xgg"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }
}
