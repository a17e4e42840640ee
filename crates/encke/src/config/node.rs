//! Settings of the Erlang node.
//!
//! Owns the check that only its owner can read the cookie file. Must never show a cookie.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::values::address;
use erlang::{Cookie, LoginCheck, NodeName, Settings, epmd};

use super::reader::Reader;
use super::values::{port, switch, tick_time, time};

impl Reader<'_> {
    /// Returns the settings of the node, if it is configured.
    pub(super) fn erlang(
        &mut self,
        event_bytes_max: usize,
        data: Option<PathBuf>,
    ) -> Option<Settings> {
        let listen = self.get("erlang-listen", address);
        let connect = self.list("erlang-connect", str::parse::<NodeName>);
        let epmd_port = self.find("erlang-epmd-port", port);
        let start_epmd = self.get("erlang-start-epmd", switch);
        let tick_time = self.get("erlang-tick-time", tick_time);
        let cookie_file = self.find("erlang-cookie-file", |text| Ok(PathBuf::from(text)));
        let login_check = self.login_check();
        let Some(name) = self.find("erlang-name", |text| text.parse::<NodeName>()) else {
            if !connect.is_empty() {
                self.problem("--erlang-connect needs a name for this node; set --erlang-name");
            }
            if login_check.is_some() {
                self.problem("--erlang-login-check needs a name for this node; set --erlang-name");
            }
            return None;
        };
        let cookie = match cookie(cookie_file) {
            Ok(cookie) => cookie,
            Err(problem) => {
                self.problem(problem);
                return None;
            }
        };
        Some(Settings {
            name,
            cookie,
            listen,
            connect,
            login_check,
            epmd_port: epmd_port.or_else(usual_epmd_port).unwrap_or(epmd::PORT),
            start_epmd,
            tick_time,
            event_bytes_max,
            data,
        })
    }

    /// Returns the settings of the process that decides on logins, if one is configured.
    fn login_check(&mut self) -> Option<LoginCheck> {
        let timeout = self.get("erlang-login-timeout", login_timeout);
        let accepts_unanswered = self.get("erlang-login-default", |text| match text {
            "refuse" => Ok(false),
            "accept" => Ok(true),
            _ => Err("it must be refuse or accept".to_owned()),
        });
        let process = self.find("erlang-login-check", str::parse)?;
        Some(LoginCheck {
            process,
            timeout,
            accepts_unanswered,
        })
    }
}

/// Parses the time limit of a decision. It must be less than 5 s, for which a request waits.
fn login_timeout(text: &str) -> Result<Duration, String> {
    let timeout = time(text)?;
    match (Duration::from_millis(50)..=Duration::from_secs(4)).contains(&timeout) {
        true => Ok(timeout),
        false => Err("it must be 50ms to 4s".to_owned()),
    }
}

/// Returns the port of epmd in `ERL_EPMD_PORT`, the environment variable that Erlang programs use.
fn usual_epmd_port() -> Option<u16> {
    env::var("ERL_EPMD_PORT").ok()?.parse().ok()
}

/// Reads the cookie from a file that only its owner can read, as Erlang itself requires.
///
/// # Errors
///
/// When the file cannot be read, is not private, or has no valid cookie. The error is a sentence.
fn cookie(file: Option<PathBuf>) -> Result<Cookie, String> {
    let path = match (file, env::var_os("HOME")) {
        (Some(path), _) => path,
        (None, Some(home)) => Path::new(&home).join(".erlang.cookie"),
        (None, None) => {
            return Err(
                "HOME is not set, so .erlang.cookie cannot be found; set --erlang-cookie-file"
                    .to_owned(),
            );
        }
    };
    let shown = path.display();
    let unreadable = |error| {
        format!(
            "the cookie file {shown} cannot be read: {error}; name the cookie file of your \
             cluster with --erlang-cookie-file"
        )
    };
    let mode = fs::metadata(&path)
        .map_err(unreadable)?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(format!(
            "others may read the cookie file {shown} (mode {:03o}), and the cookie gives full \
             control of the cluster; run `chmod 400 {shown}`",
            mode & 0o777
        ));
    }
    let content = fs::read_to_string(&path).map_err(unreadable)?;
    Cookie::parse(&content)
        .map_err(|needed| format!("the cookie file {shown} is not valid: {needed}"))
}
