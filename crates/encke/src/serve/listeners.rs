//! The listeners of the server: those from a service manager (systemd socket activation), and the
//! configured ones.

use std::env;
use std::net::{SocketAddr, TcpListener};

use cli::failure::Failure;
use listenfd::ListenFd;
use server::Listener;

use crate::config::{Addresses, Config};

/// Listeners to open: addresses, or sockets from a service manager.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) public: Vec<Listener>,
    pub(super) control: control::Listen,
    /// Addresses of all listeners.
    pub(super) addresses: Addresses,
}

impl Listeners {
    /// Collects the listeners, and checks that none gives access without authorization. Sockets
    /// of a role from a service manager replace the configured addresses of that role. Must be
    /// called while there is one thread, because it changes the environment.
    pub(super) fn new(config: &Config) -> Result<Self, Failure> {
        let inherited = Inherited::take()?;
        let mut addresses = config.addresses.clone();
        let mut public = collect(&mut addresses.public, inherited.public)?;
        let tls = collect(&mut addresses.tls, inherited.tls)?;
        public.extend(tls.into_iter().map(Listener::with_tls));
        let control = match inherited.control {
            Some(listener) => {
                addresses.control = address_of(&listener)?;
                control::Listen::Inherited(listener)
            }
            None => control::Listen::Address(addresses.control),
        };
        addresses.check(config).map_err(Failure::Misused)?;
        Ok(Self {
            public,
            control,
            addresses,
        })
    }

    /// Returns whether the page may publish (`--demo`). It may only if other machines reach no
    /// listener, because the page's requests have no token.
    pub(super) fn allow_demo(&self, config: &Config) -> bool {
        let is_private = self.addresses.are_private() && config.tokens.is_empty();
        if config.demo && !is_private {
            tracing::warn!(
                "the page cannot publish: --demo needs all listeners on loopback and no control \
                 token"
            );
        }
        config.demo && is_private
    }
}

/// Returns the public listeners of a role: the sockets from a service manager, whose addresses
/// replace the configured ones, or else the latter.
fn collect(
    addresses: &mut Vec<SocketAddr>,
    inherited: Vec<TcpListener>,
) -> Result<Vec<Listener>, Failure> {
    if inherited.is_empty() {
        return Ok(addresses.iter().copied().map(Listener::bind).collect());
    }
    let bound = inherited.iter().map(address_of);
    *addresses = bound.collect::<Result<_, _>>()?;
    Ok(inherited.into_iter().map(Listener::inherited).collect())
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(Failure::failed)
}

/// The listeners that were passed to this process.
#[derive(Debug, Default)]
struct Inherited {
    public: Vec<TcpListener>,
    tls: Vec<TcpListener>,
    control: Option<TcpListener>,
}

impl Inherited {
    /// Takes the listeners. `FileDescriptorName=` says what each is for: there may be several
    /// public and TLS listeners and one control listener. Without names, the first is public and
    /// the second is control. Must be called while there is one thread, because it changes the
    /// environment.
    fn take() -> Result<Self, Failure> {
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut sockets = ListenFd::from_env();
        let mut taken = Self::default();
        for (index, role) in roles(&names, sockets.len())?.into_iter().enumerate() {
            let listener = sockets.take_tcp_listener(index).map_err(|error| {
                Failure::misused(format_args!(
                    "socket {index} from the service manager cannot be used: {error}; it must be a \
                     TCP listener, like ListenStream=127.0.0.1:8000"
                ))
            })?;
            match role {
                Role::Public => taken.public.extend(listener),
                Role::Tls => taken.tls.extend(listener),
                Role::Control => taken.control = listener,
            }
        }
        Ok(taken)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Public,
    Tls,
    Control,
}

/// Returns the role of each of `count` sockets.
fn roles(names: &str, count: usize) -> Result<Vec<Role>, Failure> {
    let names: Vec<&str> = names.split(':').filter(|_| count > 0).take(count).collect();
    let named = |role: &str| names.contains(&role);
    let roles: Vec<Role> = if ["public", "tls", "control"].into_iter().any(named) {
        let role = |name: &&str| match *name {
            "public" => Ok(Role::Public),
            "tls" => Ok(Role::Tls),
            "control" => Ok(Role::Control),
            other => Err(Failure::misused(format_args!(
                "a socket from the service manager has the name `{other}`; set FileDescriptorName= \
                 to public, tls or control"
            ))),
        };
        names.iter().map(role).collect::<Result<_, _>>()?
    } else {
        [Role::Public, Role::Control]
            .into_iter()
            .take(count)
            .collect()
    };
    let controls = roles.iter().filter(|&&role| role == Role::Control);
    if roles.len() < count || controls.count() > 1 {
        return Err(Failure::misused(format_args!(
            "the service manager passed {count} sockets; several public and TLS listeners and one \
             control listener are possible, each with FileDescriptorName=public, tls or control"
        )));
    }
    Ok(roles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Role::{Control, Public, Tls};

    #[test]
    fn the_role_of_a_socket_is_by_name_or_else_by_position() {
        assert_eq!(roles("", 0).unwrap(), []);
        assert_eq!(roles("stale:names", 0).unwrap(), []);
        assert_eq!(roles("", 1).unwrap(), [Public]);
        assert_eq!(
            roles("encke.socket:encke.socket", 2).unwrap(),
            [Public, Control]
        );
        assert_eq!(roles("control", 1).unwrap(), [Control]);
        assert_eq!(roles("control:public", 2).unwrap(), [Control, Public]);
        assert_eq!(
            roles("public:control:tls:public", 4).unwrap(),
            [Public, Control, Tls, Public]
        );
        for (names, count) in [
            ("", 3),
            ("control:public:control", 3),
            ("public:encke.socket", 2),
            ("public", 2),
        ] {
            assert!(roles(names, count).is_err(), "{names}");
        }
    }
}
