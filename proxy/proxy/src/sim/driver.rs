//! Driver over the simulated network. Answers as the kernel would, and asserts that the worker
//! makes only sensible calls.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use reactor::{
    Accepted, ConnectOptions, Driver, Interest, ListenerOptions, Received, RelayDriver, Sent,
    Signal, TcpInfo, Tick, Token,
};
use rustix::io::Errno;

use super::network::{Behaviour, Listener, Peer, Pipe, SharedNetwork, Socket};

/// Driver of the worker under test.
pub(crate) struct SimDriver(pub(crate) SharedNetwork);

impl Driver for SimDriver {
    type Socket = Socket;
    type Listener = Listener;

    fn elapsed(&self) -> Duration {
        self.0.borrow().now.since(Tick::default())
    }

    fn unix_seconds(&self) -> u64 {
        784_111_777 + self.0.borrow().now.0 / 1000
    }

    fn wait(&mut self, _: Option<Duration>, signals: &mut Vec<Signal>) -> io::Result<()> {
        // It cannot block: `SimulatedLoop` calls it only when a real poller would return.
        self.0.borrow_mut().report(signals);
        Ok(())
    }

    fn listen(&mut self, _: SocketAddr, _: &ListenerOptions, token: Token) -> io::Result<Listener> {
        let before = self.0.borrow_mut().listener.replace(token);
        assert_eq!(before, None, "this network has one listener");
        Ok(Listener(Rc::clone(&self.0)))
    }

    fn accept(&mut self, _: &Listener) -> Accepted<Socket> {
        let mut network = self.0.borrow_mut();
        if network.descriptors_exhausted && !network.arriving.is_empty() {
            return Accepted::Exhausted(Errno::MFILE);
        }
        let Some(number) = network.arriving.pop_front() else {
            return Accepted::Nobody;
        };
        network.sockets += 1;
        let source = network.source(number);
        let network = Rc::clone(&self.0);
        Accepted::Connection(Socket { network, number }, source)
    }

    fn pause_listener(&mut self, _: &Listener, _: Token, paused: bool) {
        let before = mem::replace(&mut self.0.borrow_mut().accepting_paused, paused);
        assert_ne!(before, paused, "pauses and resumes take turns");
    }

    fn close_listener(&mut self, listener: Listener) {
        drop(listener);
    }

    fn watch(&mut self, socket: &Socket, token: Token, interest: Interest) -> io::Result<()> {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        assert!(
            peer.token.replace(token).is_none(),
            "a socket is watched once"
        );
        peer.readable = !peer.inbound.is_empty() || peer.ended || peer.broken;
        peer.room_watched = interest == Interest::ReadableAndWritable;
        peer.writable = peer.room_watched && peer.room > 0;
        Ok(())
    }

    fn watch_writable(&mut self, socket: &Socket, token: Token) -> io::Result<()> {
        let network = &mut *self.0.borrow_mut();
        let peer = &mut network.peers[socket.number];
        assert_eq!(peer.token, Some(token), "a socket keeps its token");
        if let Some(left) = network.refused_changes.checked_sub(1) {
            network.refused_changes = left;
            peer.change_refused = true;
            return Err(Errno::NOMEM.into());
        }
        assert!(!mem::replace(&mut peer.room_watched, true), "once");
        peer.input_paused = false;
        peer.readable |= !peer.inbound.is_empty() || peer.ended || peer.broken;
        peer.writable = peer.room > 0;
        Ok(())
    }

    fn recv(&mut self, socket: &Socket, block: &mut [u8]) -> Received {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        assert!(
            !peer.connecting,
            "nothing is received before there is a connection"
        );
        let count = block.len().min(peer.inbound.len());
        for byte in &mut block[..count] {
            *byte = peer.inbound.pop_front().expect("counted above");
        }
        peer.received(count)
    }

    fn send(&mut self, socket: &Socket, slices: &[&[u8]]) -> Sent {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        assert!(!peer.heard_end, "nothing is sent after the end");
        assert!(
            !peer.connecting,
            "nothing is sent before there is a connection"
        );
        if peer.broken {
            peer.told = true;
            return Sent::Failed(Errno::PIPE);
        }
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        assert!(offered > 0, "a system call for nothing");
        let taken = peer.take(offered);
        let bytes = slices.iter().flat_map(|slice| slice.iter()).take(taken);
        peer.heard.extend(bytes);
        match taken {
            0 => Sent::Blocked,
            _ => Sent::Bytes(taken),
        }
    }

    fn shutdown_write(&mut self, socket: &Socket) {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        assert!(!mem::replace(&mut peer.heard_end, true), "a side ends once");
    }

    fn reset_on_close(&mut self, socket: &Socket) {
        self.0.borrow_mut().peers[socket.number].reset = true;
    }

    fn peer(&self, _: &Socket) -> Option<SocketAddr> {
        None
    }

    fn tcp_info(&mut self, socket: &Socket) -> Option<TcpInfo> {
        let peer = &self.0.borrow().peers[socket.number];
        // The kernel knows nothing of a connection that is gone.
        (!peer.broken).then_some(TcpInfo {
            acknowledged: peer.heard.len() as u64,
            unacknowledged: peer.unacknowledged,
        })
    }
}

impl RelayDriver for SimDriver {
    type Pipe = Pipe;

    fn micros(&self) -> u64 {
        self.0.borrow().now.0 * 1000
    }

    fn connect(&mut self, to: SocketAddr, _: &ConnectOptions, token: Token) -> io::Result<Socket> {
        let network = &mut *self.0.borrow_mut();
        let behaviour = network.behaviours.get(&to).copied();
        let behaviour = behaviour.unwrap_or(Behaviour::Refuses);
        match behaviour {
            Behaviour::Unreachable => return Err(Errno::NETUNREACH.into()),
            Behaviour::Unaffordable => return Err(Errno::MFILE.into()),
            Behaviour::Accepts | Behaviour::Refuses | Behaviour::Silent => {}
        }
        let number = network.peers.len();
        network.connects.push((to, number));
        network.sockets += 1;
        network.peers.push(Peer {
            connecting: true,
            refused: behaviour == Behaviour::Refuses,
            room: if behaviour == Behaviour::Accepts {
                100
            } else {
                0
            },
            bite: usize::MAX,
            token: Some(token),
            room_watched: true,
            writable: behaviour == Behaviour::Accepts,
            readable: behaviour == Behaviour::Refuses,
            ..Peer::default()
        });
        let network = Rc::clone(&self.0);
        Ok(Socket { network, number })
    }

    fn connected(&mut self, socket: &Socket) -> Result<(), Errno> {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        peer.connecting = false;
        if peer.refused {
            return Err(Errno::CONNREFUSED);
        }
        if peer.broken && !mem::replace(&mut peer.told, true) {
            return Err(Errno::CONNRESET);
        }
        Ok(())
    }

    fn local(&self, _: &Socket) -> Option<SocketAddr> {
        Some(SocketAddr::from(([127, 0, 0, 1], 9000)))
    }

    fn pause_input(
        &mut self,
        socket: &Socket,
        token: Token,
        writable_watched: bool,
        paused: bool,
    ) -> io::Result<()> {
        let network = &mut *self.0.borrow_mut();
        let peer = &mut network.peers[socket.number];
        assert_eq!(peer.token, Some(token), "a socket keeps its token");
        assert_eq!(peer.room_watched, writable_watched, "this does not change");
        if let Some(left) = network.refused_changes.checked_sub(1) {
            network.refused_changes = left;
            // Without a pause, nothing is lost.
            peer.change_refused |= !paused;
            return Err(Errno::NOMEM.into());
        }
        peer.input_paused = paused;
        // Like the kernel, it reports anew all that holds.
        peer.readable |= !peer.inbound.is_empty() || peer.ended || peer.broken;
        peer.writable |= peer.room > 0;
        Ok(())
    }

    fn pipe(&mut self) -> io::Result<Pipe> {
        let mut network = self.0.borrow_mut();
        if network.pipes >= network.pipes_max {
            return Err(Errno::MFILE.into());
        }
        network.pipes += 1;
        network.pipes_made += 1;
        Ok(Pipe {
            network: Rc::clone(&self.0),
            bytes: RefCell::default(),
        })
    }

    fn fill(&mut self, pipe: &Pipe, from: &Socket) -> Received {
        let mut network = self.0.borrow_mut();
        let mut bytes = pipe.bytes.borrow_mut();
        assert!(bytes.is_empty(), "a pipe is filled when it is empty");
        let room = network.pipe_room;
        let peer = &mut network.peers[from.number];
        let count = room.min(peer.inbound.len());
        bytes.extend(peer.inbound.drain(..count));
        peer.received(count)
    }

    fn pour(&mut self, pipe: &Pipe, to: &Socket, count: usize) -> Sent {
        let peer = &mut self.0.borrow_mut().peers[to.number];
        assert!(!peer.heard_end, "nothing is sent after the end");
        let mut bytes = pipe.bytes.borrow_mut();
        assert_eq!(
            count,
            bytes.len(),
            "the worker knows how much is in the pipe"
        );
        if peer.broken {
            peer.told = true;
            return Sent::Failed(Errno::PIPE);
        }
        let taken = peer.take(count);
        peer.heard.extend(bytes.drain(..taken));
        match taken {
            0 => Sent::Blocked,
            _ => Sent::Bytes(taken),
        }
    }
}
