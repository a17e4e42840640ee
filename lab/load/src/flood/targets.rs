//! URLs that clients request: one with a placeholder for the client's number, or a list.
//!
//! Writes the bytes of requests. The paths of a list are kept in one string, shared by all threads.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use super::credentials::Credentials;
use client::decode::{Transport, websocket};
use client::http::Url;
use client::tls::{Authorities, Resumption, TlsClient};
use machine::failure::{Failure, Outcome};

/// Placeholder for the client's number.
const PLACEHOLDER: &str = "{n}";

/// URLs of all clients.
#[derive(Debug, Clone)]
pub struct Targets {
    servers: Vec<Server>,
    /// All paths, concatenated.
    paths: String,
    /// One entry for each URL. Client `i` uses entry `i` modulo their number.
    entries: Vec<Entry>,
    /// Whether the servers are nodes of one service, so that a client may reconnect to any of them.
    are_nodes: bool,
}

/// Server that clients connect to.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) url: Url,
    /// TLS settings, set by [`Targets::secure`] if the URL is secure.
    pub(super) tls: Option<TlsClient>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    server: u32,
    /// End of its path in `paths`; it starts at the end of the path before.
    end: u32,
}

impl Targets {
    /// Creates targets with one URL; `{n}` in its path becomes the client's number.
    ///
    /// # Errors
    ///
    /// When the URL is invalid, or its host does not resolve.
    pub fn one(url: &str) -> Outcome<Self> {
        Self::list([url])
    }

    /// Creates targets with a URL for each client; a list that is shorter than the clients repeats.
    ///
    /// # Errors
    ///
    /// When there is no URL, or any of them is invalid or has a host that does not resolve. One
    /// error gives their number and the first of them.
    pub fn list<'a>(urls: impl IntoIterator<Item = &'a str>) -> Outcome<Self> {
        let mut targets = Self {
            servers: Vec::new(),
            paths: String::new(),
            entries: Vec::new(),
            are_nodes: false,
        };
        let mut known = HashMap::new();
        let mut wrong: Option<(usize, Failure)> = None;
        for url in urls {
            match targets.push(url, &mut known) {
                Ok(()) => {}
                Err(failure) => wrong.get_or_insert((0, failure)).0 += 1,
            }
        }
        let good = targets.entries.len();
        match wrong {
            Some((1, failure)) if good == 0 => Err(failure),
            Some((count, failure)) => Err(Failure::new(format!(
                "{count} of {} URLs cannot be used; the first: {failure}",
                count + good
            ))),
            None if good == 0 => Err(Failure::new("there is no URL: write one in each line")),
            None => Ok(targets),
        }
    }

    /// Creates targets that are nodes of one service: a client whose stream has ended reconnects to
    /// another node.
    ///
    /// # Errors
    ///
    /// Those of [`list`](Self::list).
    pub fn nodes<'a>(urls: impl IntoIterator<Item = &'a str>) -> Outcome<Self> {
        let mut targets = Self::list(urls)?;
        targets.are_nodes = true;
        Ok(targets)
    }

    fn push(&mut self, text: &str, known: &mut HashMap<(bool, String), u32>) -> Outcome<()> {
        let url = Url::parse(&as_http(text))?;
        let key = (url.is_secure(), url.authority().to_owned());
        let server = match known.get(&key) {
            Some(&server) => server,
            None => {
                let server = self.servers.len() as u32;
                self.servers.push(Server {
                    address: url.resolve()?,
                    url: url.clone(),
                    tls: None,
                });
                known.insert(key, server);
                server
            }
        };
        self.paths.push_str(url.path());
        let end = u32::try_from(self.paths.len())
            .map_err(|_| Failure::new("the URLs are longer than 4 GiB: use a placeholder {n}"))?;
        self.entries.push(Entry { server, end });
        Ok(())
    }

    /// Sets up TLS for the secure URLs.
    ///
    /// # Errors
    ///
    /// When the certificate authorities cannot be used, or a host is neither a name nor an address.
    pub(super) fn secure(
        &mut self,
        authorities: &Authorities,
        resumption: Resumption,
    ) -> Outcome<()> {
        for server in &mut self.servers {
            if server.url.is_secure() {
                let host = server.url.host();
                server.tls = Some(TlsClient::new(authorities, host, resumption)?);
            }
        }
        Ok(())
    }

    /// Returns the number of URLs.
    pub fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Returns the first server's address, for which source addresses are planned.
    pub fn server(&self) -> SocketAddr {
        self.servers[0].address
    }

    /// Returns the server of client `ordinal` after `moves` moves: its own or, if the servers are
    /// nodes, another one after each move. The clients of one node spread evenly over the others,
    /// and each returns to its own node only after all others.
    pub(super) fn server_of(&self, (ordinal, moves): (u32, u8)) -> &Server {
        let (entry, _) = self.entry(ordinal);
        let (own, count) = (entry.server as usize, self.servers.len());
        let round = usize::from(moves) % count;
        if !self.are_nodes || round == 0 {
            return &self.servers[own];
        }
        let turn = ordinal as usize / self.entries.len() + round - 1;
        &self.servers[(own + 1 + turn % (count - 1)) % count]
    }

    fn entry(&self, ordinal: u32) -> (Entry, &str) {
        let place = ordinal as usize % self.entries.len();
        let start = place
            .checked_sub(1)
            .map_or(0, |before| self.entries[before].end as usize);
        let entry = self.entries[place];
        (entry, &self.paths[start..entry.end as usize])
    }

    /// Writes the request of client `ordinal` after `moves` moves; `number` is the client's number.
    pub(super) fn write_request(
        &self,
        position: (u32, u8),
        number: u32,
        options: &RequestOptions,
        out: &mut Vec<u8>,
    ) {
        let (ordinal, _) = position;
        let (_, path) = self.entry(ordinal);
        out.clear();
        out.extend_from_slice(b"GET ");
        for (place, part) in path.split(PLACEHOLDER).enumerate() {
            if place > 0 {
                write!(out, "{number}").expect("a Vec takes every byte");
            }
            out.extend_from_slice(part.as_bytes());
        }
        let authority = self.server_of(position).url.authority();
        write!(out, " HTTP/1.1\r\nHost: {authority}\r\n").expect("a Vec takes every byte");
        match options.transport {
            Transport::Sse => out.extend_from_slice(b"Accept: text/event-stream\r\n"),
            Transport::Ndjson => out.extend_from_slice(b"Accept: application/x-ndjson\r\n"),
            Transport::WebSocket => {
                let key = websocket::key(options.seed, ordinal);
                out.extend_from_slice(
                    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
                );
                write!(out, "Sec-WebSocket-Key: {key}\r\n").expect("a Vec takes every byte");
            }
            _ => {}
        }
        out.extend_from_slice(options.fields.as_bytes());
        options.credentials.write_field(ordinal, number, out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Parts that all requests have in common.
#[derive(Debug, Clone)]
pub(super) struct RequestOptions {
    pub(super) transport: Transport,
    /// More header lines, each with its line end.
    pub(super) fields: String,
    /// Credentials of the clients.
    pub(super) credentials: Arc<Credentials>,
    /// Seed of the WebSocket keys.
    pub(super) seed: u64,
}

/// Converts `ws://` and `wss://` URLs to `http://` and `https://`.
fn as_http(url: &str) -> String {
    match url.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(transport: Transport) -> RequestOptions {
        RequestOptions {
            transport,
            fields: "X-Test: 1\r\n".to_owned(),
            credentials: Arc::default(),
            seed: 1,
        }
    }

    fn request(targets: &Targets, ordinal: u32, number: u32, transport: Transport) -> String {
        let mut out = Vec::new();
        targets.write_request((ordinal, 0), number, &options(transport), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_placeholder_becomes_the_number() {
        let targets = Targets::one("http://127.0.0.1:80/events/{n}?id={n}").unwrap();
        assert_eq!(
            request(&targets, 0, 42, Transport::Raw),
            "GET /events/42?id=42 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-Test: 1\r\n\r\n"
        );
        assert!(request(&targets, 0, 42, Transport::Sse).contains("\r\nAccept: text/event-stream"));
        let websocket = request(&targets, 3, 42, Transport::WebSocket);
        let key = websocket::key(1, 3);
        assert!(websocket.contains(&format!("\r\nSec-WebSocket-Key: {key}\r\n")));
    }

    #[test]
    fn a_short_list_repeats() {
        let urls = [
            "http://127.0.0.1:1/a",
            "http://127.0.0.2:2/b{n}",
            "ws://127.0.0.1:1",
        ];
        let targets = Targets::list(urls).unwrap();
        assert_eq!((targets.count(), targets.servers.len()), (3, 2));
        let path = |ordinal| {
            let request = request(&targets, ordinal, ordinal, Transport::Raw);
            request.split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!([0, 1, 2, 3, 4].map(path), ["/a", "/b1", "/", "/a", "/b4"]);
        assert_eq!(targets.server_of((4, 0)).address.port(), 2);
        // The servers of a list are not nodes of one service.
        assert_eq!(targets.server_of((4, 1)).address.port(), 2);
    }

    #[test]
    fn clients_of_a_node_spread_evenly_over_the_others_and_return_to_it_last() {
        let urls = [1, 2, 3, 4].map(|port| format!("http://127.0.0.1:{port}/events/{{n}}"));
        let targets = Targets::nodes(urls.iter().map(String::as_str)).unwrap();
        let ports =
            |ordinal: u32| [0, 1, 2, 3, 4].map(|n| targets.server_of((ordinal, n)).address.port());
        assert_eq!(ports(0), [1, 2, 3, 4, 1]);
        assert_eq!(ports(4), [1, 3, 4, 2, 1]);
        assert_eq!(ports(8), [1, 4, 2, 3, 1]);
        assert_eq!(ports(3), [4, 1, 2, 3, 4]);
        let mut out = Vec::new();
        targets.write_request((0, 1), 7, &options(Transport::Raw), &mut out);
        let request = String::from_utf8(out).unwrap();
        assert!(request.starts_with("GET /events/7 HTTP/1.1\r\nHost: 127.0.0.1:2\r\n"));
        let alone = Targets::nodes(["http://127.0.0.1:1/"]).unwrap();
        assert_eq!(alone.server_of((5, 3)).address.port(), 1);
    }

    #[test]
    fn servers_with_and_without_tls_are_distinct() {
        let urls = [
            "http://127.0.0.1:1/",
            "https://127.0.0.1:1/",
            "wss://127.0.0.1:1/",
        ];
        let mut targets = Targets::list(urls).unwrap();
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../harness/tests/support/tls/authority.pem"
        );
        let authorities = Authorities::File(file.into());
        targets.secure(&authorities, Resumption::Never).unwrap();
        let secure = [0, 1, 2].map(|ordinal| targets.server_of((ordinal, 0)).tls.is_some());
        assert_eq!((secure, targets.servers.len()), ([false, true, true], 2));
    }

    #[test]
    fn one_error_counts_all_invalid_urls() {
        let error = |urls: &[&str]| Targets::list(urls.iter().copied()).unwrap_err().to_string();
        assert!(error(&["ftp://127.0.0.1/"]).starts_with("`ftp://127.0.0.1/` is a ftp address"));
        let several = error(&["http://127.0.0.1/", "ftp://a/", "file://b/", "http://:1"]);
        assert!(
            several.starts_with("3 of 4 URLs cannot be used; the first: `ftp://a/` is a ftp"),
            "{several}"
        );
        assert!(error(&[]).contains("no URL"));
    }
}
