//! The node of a simulated server, with the driver that a real one has, and peers that connect to
//! it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Driver as _, Handler as _, Token};
use server::Post;
use server::sim::{LISTENER, SimDriver, SimExternal, SimServer};

use super::peer::{
    Peer, atom, binary, hear_packet, integer, list, message, nil, pid, reference, short, tuple,
};
use super::{COOKIE, CREATION, EVENT_BYTES_MAX, NAME};
use crate::cookie::Cookie;
use crate::driver::turn::Driver;
use crate::handshake::LocalNode;
use crate::node::{Config, Node};

/// Where a challenge is in its message: behind the kind and the flags.
const CHALLENGE_AT: std::ops::Range<usize> = 9..13;

/// The address where the node listens, which only the simulated network sees.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// Time after which a silent peer is disconnected.
const SILENCE: Duration = Duration::from_secs(4);

/// Number of the router, and the operation that tells of the end of a monitored process.
const ROUTER: u32 = 2;
const MONITOR_P_EXIT: i64 = 21;

/// The node of a simulated server, which takes a turn when it is told, if it has a reason to. Dials
/// nobody. Owned by the test.
pub struct SimNode(SimExternal<Driver<Post, SimDriver>>);

impl fmt::Debug for SimNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimNode").finish_non_exhaustive()
    }
}

impl SimNode {
    /// Makes the node of a server, which is its only external worker.
    ///
    /// # Panics
    ///
    /// If the server has no external workers.
    pub fn new(server: &SimServer) -> Self {
        let handle = server.handle();
        Self(SimExternal::new(server, |worker, kernel| {
            let me = LocalNode {
                name: NAME.parse().expect("a name"),
                cookie: Cookie::parse(COOKIE).expect("a cookie"),
                creation: CREATION,
            };
            let config = Config {
                me,
                worker: worker.id(),
                event_bytes_max: EVENT_BYTES_MAX,
                tick_time: SILENCE,
                connect: Vec::new(),
                log: None,
                is_paused: Box::new(|| false),
                presence: worker.presence().cloned(),
                observer: None,
            };
            let ring = {
                let worker = Arc::clone(&worker);
                Box::new(move || worker.ring())
            };
            let node = Node::new(config, handle.router_shared(), None, Arc::default(), ring);
            let listen =
                |kernel: &mut SimDriver, token: Token| kernel.listen(LISTEN, &LISTENER, token);
            let nobody = Box::new(|_, _| panic!("the node dials"));
            let driver = Driver::new(node, worker, kernel, listen, (nobody, Arc::default()), None);
            driver.expect("the simulated listener opens")
        }))
    }

    /// Lets the node take a turn, if it has a reason to.
    pub fn turn(&mut self) {
        self.0.turn();
    }

    /// Turns until there is no reason to take one. No time passes.
    pub fn rest(&mut self) {
        self.0.rest();
    }

    /// Time passes, without a turn.
    pub fn pass(&mut self, time: Duration) {
        self.0.pass(time);
    }

    /// Returns a number for all that the node has asked of its network so far.
    pub fn digest(&self) -> u64 {
        self.0.digest()
    }

    /// Checks that no peer has left anything.
    ///
    /// # Panics
    ///
    /// If one has.
    pub fn assert_nothing_is_left(&self) {
        self.0.assert_nothing_is_left();
        let node = &self.0.handler.node;
        assert_eq!(node.connections.len(), 0, "connections of nodes");
        assert_eq!(node.sessions.len(), 0, "sessions of processes");
        assert!(node.calls.is_empty(), "calls");
    }
}

/// A request to the node.
#[derive(Debug, Clone, Copy)]
pub enum SimRequest<'a> {
    /// Log a process in as an id.
    Login(&'a str, u32),
    /// Log a process out; where the second is true, it has ended before.
    Logout(u32, bool),
    /// Publish this text about an id, as a binary or as a string.
    Publish(&'a str, &'a str, bool),
    /// Add these subscriptions, or remove them.
    Change(&'a [(&'static str, &'static str)], bool),
    /// List the subscribers of an id.
    Subscribers(&'a str),
}

/// What the node has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimSaid {
    /// The answer to the request of a number, as Erlang prints it.
    Answer(u32, String),
    /// An event for a process: the text of it.
    Event(u32, String),
}

/// A node that is connected with the node of a server, or connects. Lives as long as its
/// connection.
#[derive(Debug)]
pub struct SimPeer {
    number: usize,
    peer: Peer,
    /// What it has not said yet.
    unsaid: Vec<u8>,
    /// Bytes that it has read.
    read: usize,
    /// Messages of the handshake that it has read.
    handshake: usize,
    requests: u32,
    /// By process: the reference of the node's monitor.
    monitors: BTreeMap<u32, [u32; 3]>,
}

impl SimPeer {
    /// A peer connects. Its socket takes `room` bytes in all, and `bite` at a time. `creation`
    /// tells its runs apart.
    pub fn connect(
        node: &mut SimNode,
        (name, creation): (&'static str, u32),
        room: usize,
        bite: usize,
    ) -> Self {
        let peer = Peer {
            creation,
            ..Peer::new(name)
        };
        Self {
            number: node.0.connect(room, bite),
            unsaid: peer.name_6(),
            peer,
            read: 0,
            handshake: 0,
            requests: 0,
            monitors: BTreeMap::new(),
        }
    }

    /// Whether both nodes have proved that they know the cookie.
    pub const fn is_up(&self) -> bool {
        self.handshake == 3
    }

    /// Returns how much it has to say.
    pub const fn unsaid(&self) -> usize {
        self.unsaid.len()
    }

    /// Says so many bytes of what it has to say.
    pub fn say(&mut self, node: &mut SimNode, bytes: usize) {
        let said: Vec<_> = self.unsaid.drain(..bytes.min(self.unsaid.len())).collect();
        if !said.is_empty() {
            node.0.say(self.number, &said);
        }
    }

    /// Says that it is there, where it would say nothing otherwise.
    pub fn tick(&mut self) {
        if self.is_up() && self.unsaid.is_empty() {
            self.unsaid.extend([0; 4]);
        }
    }

    /// Has a request to say, and returns its number.
    pub fn ask(&mut self, request: &SimRequest<'_>) -> u32 {
        self.requests += 1;
        let (to, request) = match *request {
            SimRequest::Login(id, process) => {
                let parts = [atom("login"), term(id), self.peer.pid(process)];
                ("router", tuple(&parts))
            }
            SimRequest::Logout(process, has_ended) => {
                if let Some(words) = self.monitors.get(&process).filter(|_| has_ended) {
                    let router = pid(NAME, ROUTER, CREATION);
                    let monitor = reference(NAME, CREATION, words);
                    let parts = [self.peer.pid(process), router, monitor, atom("normal")];
                    let down = tuple(&[&[integer(MONITOR_P_EXIT)], &parts[..]].concat());
                    self.unsaid.extend(message(&down, None));
                }
                ("router", tuple(&[atom("logout"), self.peer.pid(process)]))
            }
            SimRequest::Publish(id, text, is_binary) => {
                let message = match is_binary {
                    true => binary(text.as_bytes()),
                    false => string(text),
                };
                ("router", tuple(&[atom("send"), term(id), message]))
            }
            SimRequest::Change(edges, adds) => {
                let verb = if adds {
                    "add_subscriptions"
                } else {
                    "remove_subscriptions"
                };
                let pairs = edges
                    .iter()
                    .map(|(one, other)| tuple(&[term(one), term(other)]));
                let pairs = list(&pairs.collect::<Vec<_>>(), &nil());
                ("subsmanager", tuple(&[atom(verb), pairs]))
            }
            SimRequest::Subscribers(id) => {
                ("subsmanager", tuple(&[atom("get_subscribers"), term(id)]))
            }
        };
        let call = self.peer.call_numbered(self.requests, to, &request);
        self.unsaid.extend(call);
        self.requests
    }

    /// Reads all that it was sent, and returns what is whole of it.
    pub fn read(&mut self, node: &SimNode) -> Vec<SimSaid> {
        let bytes = node.0.sent(self.number, self.read);
        let mut rest = &bytes[..];
        let mut said = Vec::new();
        while let Some(after) = self.read_one(rest, &mut said) {
            rest = after;
        }
        self.read += bytes.len() - rest.len();
        said
    }

    /// Reads a message, if it is whole, and returns what follows.
    fn read_one<'a>(&mut self, bytes: &'a [u8], said: &mut Vec<SimSaid>) -> Option<&'a [u8]> {
        if self.is_up() {
            let (size, rest) = bytes.split_first_chunk()?;
            let (packet, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
            said.extend(self.understand(&hear_packet(packet)));
            return Some(rest);
        }
        let (size, rest) = bytes.split_first_chunk()?;
        let (message, rest) = rest.split_at_checked(u16::from_be_bytes(*size).into())?;
        match (self.handshake, message) {
            (0, b"sok") => {}
            // The node does not know yet that an earlier connection has ended.
            (0, b"salive") => self.unsaid.extend(short(b's', &[b"true"])),
            (1, [b'N', ..]) => {
                let challenge = message[CHALLENGE_AT].try_into().expect("four bytes");
                let reply = self.peer.reply_to(u32::from_be_bytes(challenge));
                self.unsaid.extend(reply);
            }
            (2, [b'a', ..]) => {}
            _ => panic!("{message:?} in a handshake"),
        }
        self.handshake += 1;
        Some(rest)
    }

    fn understand(&mut self, text: &str) -> Option<SimSaid> {
        let name = self.peer.name;
        let Some((control, message)) = text.split_once(" ! ") else {
            self.monitored(text);
            return None;
        };
        let to = control.strip_prefix("{2,'',<")?.strip_prefix(name)?;
        let process = to.strip_prefix('.')?.strip_suffix(".0>}")?;
        let message = message.strip_prefix('{')?.strip_suffix('}')?;
        if let Some(event) = message.strip_prefix("router_msg,") {
            let text = event.trim_start_matches("<<").trim_end_matches(">>");
            let text = text.trim_matches('"').to_owned();
            return Some(SimSaid::Event(process.parse().ok()?, text));
        }
        let answer = message.strip_prefix("#Ref<")?.strip_prefix(name)?;
        let (reference, reply) = answer.split_once(">,")?;
        let number = reference.rsplit('.').next()?.parse().ok()?;
        Some(SimSaid::Answer(number, reply.to_owned()))
    }

    /// Keeps the reference of a monitor of a process.
    fn monitored(&mut self, control: &str) -> Option<()> {
        let rest = control.strip_prefix("{19,<")?.split_once(",<")?.1;
        let (process, reference) = rest.strip_prefix(self.peer.name)?.split_once(",#Ref<")?;
        let process = process.strip_prefix('.')?.strip_suffix(".0>")?;
        let words = reference.strip_prefix(NAME)?.strip_suffix(">}")?;
        // Erlang prints the last word first.
        let mut words = words.rsplit('.').map(|word| word.parse().expect("a word"));
        let words = [words.next()?, words.next()?, words.next()?];
        self.monitors.insert(process.parse().ok()?, words);
        Some(())
    }

    /// Its connection breaks, or it ends its side.
    pub fn leave(&self, node: &mut SimNode, breaks: bool) {
        match breaks {
            true => node.0.break_off(self.number),
            false => node.0.end(self.number),
        }
    }

    /// It has read so many bytes: its socket takes as many more.
    pub fn make_room(&self, node: &mut SimNode, bytes: usize) {
        node.0.make_room(self.number, bytes);
    }

    /// Whether the node has closed its connection and logged out its processes.
    pub fn is_forgotten(&self, node: &SimNode) -> bool {
        node.0.has_closed(self.number) && !node.0.handler.has_work()
    }
}

/// The term of an id: an integer, or an atom.
fn term(id: &str) -> Vec<u8> {
    id.parse().map_or_else(|_| atom(id), integer)
}

/// A string, which is a list of characters.
fn string(text: &str) -> Vec<u8> {
    let length = text.len() as u16;
    [&[107], &length.to_be_bytes()[..], text.as_bytes()].concat()
}
