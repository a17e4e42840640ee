//! Read-only admin endpoints of `encke-proxy tcp` and `encke-proxy hello`.
//!
//! Owns what the endpoints export of each program, and the checks of their configuration. Without
//! `--control` there is no listener and no thread.

use std::net::SocketAddr;
use std::sync::Arc;

use cli::epoch;
use cli::failure::Failure;
use cli::secret::Secret;
use cli::values::check_control;
use control::{AdminConfig, AdminSource, BackendReport, Backends, Control};
use proxy::hello::Hello;
use proxy::tcp::{BackendState, Proxy};
use reactor::Snapshot;
use serde::Serialize;

/// The address and the token of the admin endpoints.
#[derive(Debug, Clone)]
pub(crate) struct AdminEndpoints {
    listen: SocketAddr,
    token: Option<Secret>,
}

impl AdminEndpoints {
    /// Checks an address and a token.
    ///
    /// # Errors
    ///
    /// A sentence, when programs on other machines could connect without a token.
    pub(crate) fn new(listen: SocketAddr, token: Option<Secret>) -> Result<Self, String> {
        check_control(listen, token.is_some())?;
        Ok(Self { listen, token })
    }

    /// Serves the endpoints until the returned handle is stopped or dropped.
    ///
    /// Must be called after the workers have started: a worker with its own descriptor table would
    /// otherwise get a copy of this listener, which would stay open after it is closed here.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound or threads cannot be started.
    pub(crate) fn serve(self, source: impl AdminSource) -> Result<Control, Failure> {
        let config = AdminConfig {
            listen: self.listen,
            token: self.token.map(|token| token.reveal().to_owned()),
            epoch: epoch::of_this_run(),
        };
        control::serve_admin(config, source).map_err(Failure::failed)
    }
}

/// Addresses and process id of a program that is ready, for `--ports-file`.
#[derive(Debug, Serialize)]
pub(crate) struct Ports<L> {
    pub(crate) listen: L,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) control: Option<SocketAddr>,
    pub(crate) pid: u32,
}

/// Source of the endpoints of `encke-proxy tcp`.
pub(crate) struct ProxyAdmin(pub(crate) Arc<Proxy>);

/// The names of all states of a backend.
const STATES: [&str; BackendState::ALL.len()] = {
    let mut names = [""; BackendState::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = BackendState::ALL[index].name();
        index += 1;
    }
    names
};

impl AdminSource for ProxyAdmin {
    fn program(&self) -> &'static str {
        "proxy"
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    fn is_draining(&self) -> bool {
        self.0.is_ending()
    }

    fn backends(&self) -> Option<Backends> {
        let reports = self.0.backends().into_iter().map(|report| BackendReport {
            listener: report.listener,
            backend: report.backend,
            address: report.address,
            state: report.state.name(),
            connections: report.connections,
            connects: report.connects,
            connects_failed: report.connects_failed,
        });
        Some(Backends {
            states: &STATES,
            reports: reports.collect(),
        })
    }
}

/// Source of the endpoints of `encke-proxy hello`.
pub(crate) struct HelloAdmin(pub(crate) Arc<Hello>);

impl AdminSource for HelloAdmin {
    fn program(&self) -> &'static str {
        "hello"
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    fn is_draining(&self) -> bool {
        self.0.is_ending()
    }

    fn backends(&self) -> Option<Backends> {
        None
    }
}
