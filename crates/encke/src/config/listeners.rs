//! Addresses of the listeners, and checks of who can reach them.

use std::net::SocketAddr;

use cli::values::{address, check_control};

use super::Config;
use super::reader::Reader;

/// Addresses of the listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// Public listeners without TLS, for clients.
    pub(crate) public: Vec<SocketAddr>,
    /// Public listeners with TLS.
    pub(crate) tls: Vec<SocketAddr>,
    /// The control listener, for publishers and operators.
    pub(crate) control: SocketAddr,
}

impl Reader<'_> {
    /// Returns the configured addresses, of which no two are equal.
    pub(super) fn addresses(&mut self) -> Addresses {
        let problems = self.problems.len();
        let public = self.list("listen", address);
        let tls = self.list("tls-listen", address);
        if public.is_empty() && tls.is_empty() && self.problems.len() == problems {
            self.problem("there is no public listener; set an address with --listen");
        }
        let control = self.get("control", address);
        let named = public.iter().map(|&address| (address, "--listen"));
        let named = named.chain(tls.iter().map(|&address| (address, "--tls-listen")));
        let named: Vec<_> = named.chain([(control, "--control")]).collect();
        for (number, &(address, name)) in named.iter().enumerate() {
            let earlier = named[..number].iter().find(|(other, _)| *other == address);
            if let Some((_, other)) = earlier.filter(|_| address.port() != 0) {
                self.problem(format!(
                    "two listeners have the address {address}, by {other} and {name}; change the \
                     port of one of them"
                ));
            }
        }
        Addresses {
            public,
            tls,
            control,
        }
    }
}

impl Addresses {
    /// Refuses listeners that other machines could use without authorization.
    ///
    /// # Errors
    ///
    /// When there is one. The error has a sentence for each of them.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Vec<String>> {
        let public = self.public.iter().chain(&self.tls);
        let is_guarded = config.allow_anonymous || config.settings.live.policy.requires_identity();
        let mut checks: Vec<_> = public
            .map(|&address| check_public(address, is_guarded))
            .collect();
        for address in [Some(self.control), config.metrics_listen] {
            checks.extend(address.map(|address| check_control(address, !config.tokens.is_empty())));
        }
        if let (Some(address), None) = (self.tls.first(), &config.tls) {
            checks.push(Err(format!(
                "the TLS listener at {address} has no certificate; set --tls-cert and --tls-key"
            )));
        }
        if config.control_tls && config.tls.is_none() {
            checks.push(Err(format!(
                "the control listener at {} is to speak TLS (--control-tls) and has no \
                 certificate; set --tls-cert and --tls-key",
                self.control
            )));
        }
        let problems: Vec<String> = checks.into_iter().filter_map(Result::err).collect();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
    }

    /// Returns warnings about secrets that cross a network without TLS.
    pub(crate) fn warnings(&self, config: &Config) -> Vec<String> {
        let policy = &config.settings.live.policy;
        let has_secrets = policy.accepts_tokens() || policy.settings().tickets;
        let public = self.public.iter().filter(|_| has_secrets);
        let public = public.map(|address| (address, "clients", "--tls-listen"));
        let control = [(&self.control, "publishers", "--control-tls")];
        let is_exposed = !config.tokens.is_empty() && !config.control_tls;
        let control = control.into_iter().filter(|_| is_exposed);
        let exposed = public
            .chain(control)
            .filter(|(address, ..)| !address.ip().is_loopback());
        let warning = |(address, who, remedy)| {
            format!(
                "{who} send their tokens to {address} without encryption; use {remedy}, or let \
                 only a TLS proxy in a private network reach this address"
            )
        };
        exposed.map(warning).collect()
    }

    /// Returns whether all listeners can be reached from this machine only.
    pub(crate) fn are_private(&self) -> bool {
        let mut all = self.public.iter().chain(&self.tls).chain([&self.control]);
        all.all(|address| address.ip().is_loopback())
    }
}

/// Refuses a public listener on which every client of a network could read every id.
fn check_public(address: SocketAddr, is_guarded: bool) -> Result<(), String> {
    if is_guarded || address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "clients on other machines could connect to {address} and read every id, because no \
         identity is asked for; set --jwt-key-file, --jwt-secret-file, --jwks-url, --tickets or \
         --identity-header, or listen on 127.0.0.1, or set --allow-anonymous if every client may \
         read everything"
    ))
}
