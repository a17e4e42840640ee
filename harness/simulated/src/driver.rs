//! Driver over the simulated network. Answers as the kernel would, and asserts that the worker
//! makes only sensible calls.

use std::cell::RefCell;
use std::collections::VecDeque;
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

use crate::network::{Behaviour, Listener, Peer, Pipe, SharedNetwork, Socket};

/// Driver of a simulated worker.
#[derive(Debug)]
pub struct SimDriver(pub SharedNetwork);

/// Fails if the poller has no room for what it is asked, as often as `times` says.
fn refuse(times: &mut usize, peer: &mut Peer, error: Errno) -> io::Result<()> {
    match times.checked_sub(1) {
        None => Ok(()),
        Some(left) => {
            *times = left;
            peer.watch_refused = true;
            Err(error.into())
        }
    }
}

impl Driver for SimDriver {
    type Socket = Socket;
    type Listener = usize;

    fn elapsed(&self) -> Duration {
        self.0.borrow().now.since(Tick::default())
    }

    fn left_out(&self) -> Duration {
        self.0.borrow().left_out
    }

    fn unix_seconds(&self) -> u64 {
        let network = self.0.borrow();
        (784_111_777 + network.now.0 / 1000).saturating_add_signed(network.set_forward)
    }

    fn wait(&mut self, timeout: Option<Duration>, signals: &mut Vec<Signal>) -> io::Result<()> {
        let network = &mut *self.0.borrow_mut();
        network.report(signals);
        if let Some(wakes) = &network.wakes
            && signals.is_empty()
            && !wakes()
        {
            let timeout = timeout.expect("without a deadline nothing ends this wait");
            network.pass(timeout);
        }
        Ok(())
    }

    fn listen(&mut self, _: SocketAddr, _: &ListenerOptions, token: Token) -> io::Result<usize> {
        let listeners = &mut self.0.borrow_mut().listeners;
        assert!(
            listeners.iter().all(|listener| listener.token != token),
            "a listener's token is not used again"
        );
        listeners.push(Listener {
            token,
            arriving: VecDeque::new(),
            paused: false,
            closed: false,
        });
        Ok(listeners.len() - 1)
    }

    fn accept(&mut self, &listener: &usize) -> Accepted<Socket> {
        let network = &mut *self.0.borrow_mut();
        let arriving = &mut network.listeners[listener].arriving;
        if network.descriptors == 0 && !arriving.is_empty() {
            return Accepted::Exhausted(Errno::MFILE);
        }
        let Some(number) = arriving.pop_front() else {
            return Accepted::Nobody;
        };
        network.open_socket();
        network.note(1, number, 0);
        let source = network.source(number);
        let network = Rc::clone(&self.0);
        Accepted::Connection(Socket { network, number }, source)
    }

    fn pause_listener(&mut self, &listener: &usize, token: Token, paused: bool) {
        let listener = &mut self.0.borrow_mut().listeners[listener];
        assert_eq!(listener.token, token);
        let before = mem::replace(&mut listener.paused, paused);
        assert_ne!(before, paused, "pauses and resumes take turns");
    }

    fn close_listener(&mut self, listener: usize) {
        let network = &mut *self.0.borrow_mut();
        network.listeners[listener].closed = true;
        // The kernel resets those that nobody has accepted.
        for client in network.listeners[listener].arriving.drain(..) {
            network.peers[client].closed = true;
        }
    }

    fn watch(&mut self, socket: &Socket, token: Token, interest: Interest) -> io::Result<()> {
        let network = &mut *self.0.borrow_mut();
        let peer = &mut network.peers[socket.number];
        refuse(&mut network.refused_watches, peer, Errno::NOSPC)?;
        let before = peer.token.replace(token);
        assert!(before.is_none(), "a socket is watched once");
        peer.room_watched = interest == Interest::ReadableAndWritable;
        (peer.readable, peer.writable) = (false, false);
        peer.report_again();
        Ok(())
    }

    fn watch_writable(&mut self, socket: &Socket, token: Token) -> io::Result<()> {
        let network = &mut *self.0.borrow_mut();
        let peer = &mut network.peers[socket.number];
        assert_eq!(peer.token, Some(token), "a socket keeps its token");
        refuse(&mut network.refused_changes, peer, Errno::NOSPC)?;
        assert!(!mem::replace(&mut peer.room_watched, true), "once");
        peer.input_paused = false;
        peer.writable = false;
        peer.report_again();
        Ok(())
    }

    fn recv(&mut self, socket: &Socket, block: &mut [u8]) -> Received {
        let network = &mut *self.0.borrow_mut();
        let peer = &mut network.peers[socket.number];
        let mut count = 0;
        let received = peer.receive(block.len(), |byte| {
            block[count] = byte;
            count += 1;
        });
        network.note(3, socket.number, count);
        received
    }

    fn send(&mut self, socket: &Socket, slices: &[&[u8]]) -> Sent {
        let meanwhile = self.0.borrow_mut().meanwhile.take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let network = &mut *self.0.borrow_mut();
        network.sends += 1;
        let peer = &mut network.peers[socket.number];
        let offered = slices.iter().map(|slice| slice.len()).sum();
        let taken = match peer.accept(offered) {
            Ok(taken) => taken,
            Err(error) => return Sent::Failed(error),
        };
        let bytes = slices.iter().flat_map(|slice| slice.iter()).take(taken);
        peer.outbound.extend(bytes);
        network.note(4, socket.number, taken);
        sent(taken)
    }

    fn shutdown_write(&mut self, socket: &Socket) {
        let ended = &mut self.0.borrow_mut().peers[socket.number].worker_ended;
        assert!(!mem::replace(ended, true), "a side ends once");
    }

    fn reset_on_close(&mut self, socket: &Socket) {
        self.0.borrow_mut().peers[socket.number].reset = true;
    }

    fn peer(&self, socket: &Socket) -> Option<SocketAddr> {
        Some(self.0.borrow().source(socket.number))
    }

    fn tcp_info(&mut self, socket: &Socket) -> Option<TcpInfo> {
        let peer = &self.0.borrow().peers[socket.number];
        let sent = peer.outbound.len() as u64;
        // The kernel knows nothing of a connection that is gone.
        (!peer.broken).then_some(TcpInfo {
            acknowledged: peer.acknowledged.unwrap_or(sent),
            unacknowledged: peer.unacknowledged,
        })
    }
}

const fn sent(taken: usize) -> Sent {
    match taken {
        0 => Sent::Blocked,
        _ => Sent::Bytes(taken),
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
        if network.descriptors == 0 {
            return Err(Errno::MFILE.into());
        }
        let number = network.peers.len();
        network.connects.push((to, number));
        network.open_socket();
        let accepts = behaviour == Behaviour::Accepts;
        network.peers.push(Peer {
            connecting: true,
            refused: behaviour == Behaviour::Refuses,
            token: Some(token),
            room_watched: true,
            writable: accepts,
            readable: behaviour == Behaviour::Refuses,
            ..Peer::with(if accepts { 100 } else { 0 }, usize::MAX)
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
        let refused_before = peer.watch_refused;
        let changed = refuse(&mut network.refused_changes, peer, Errno::NOMEM);
        if changed.is_err() {
            // Without a pause, nothing is lost.
            peer.watch_refused = refused_before || !paused;
            return changed;
        }
        peer.input_paused = paused;
        peer.report_again();
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
        network.peers[from.number].receive(room, |byte| bytes.push_back(byte))
    }

    fn pour(&mut self, pipe: &Pipe, to: &Socket, count: usize) -> Sent {
        let peer = &mut self.0.borrow_mut().peers[to.number];
        let mut bytes = pipe.bytes.borrow_mut();
        let held = bytes.len();
        assert_eq!(count, held, "the worker knows how much is in the pipe");
        match peer.accept(count) {
            Ok(taken) => {
                peer.outbound.extend(bytes.drain(..taken));
                sent(taken)
            }
            Err(error) => Sent::Failed(error),
        }
    }
}
