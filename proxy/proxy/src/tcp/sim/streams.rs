//! Byte streams of random sizes, with half-closes, resets and stalls, compared byte for byte.

use simulated::network::Peer;
use simulated::{Dice, with_seed};

use super::world::{World, settings};

/// Streams compared in a normal run, which takes some seconds. `ENCKE_STREAMS=1000000` compares a
/// million.
const STREAMS: u64 = 40_000;

/// Simultaneous pairs in one world, with two streams each.
const PAIRS: usize = 8;

/// Returns a size of any magnitude: nothing, a message, about a block, bulk.
const fn size(dice: &mut Dice) -> usize {
    match dice.roll(6) {
        0 => 0,
        1 => 1 + dice.roll(8),
        2 => 60 + dice.roll(10),
        3 | 4 => dice.roll(300),
        _ => dice.roll(5_000),
    }
}

/// Plan of one side, and its progress.
struct Script {
    peer: usize,
    says: Vec<u8>,
    said: usize,
    /// Number of bytes after which it breaks the connection.
    breaks_at: Option<usize>,
    ended: bool,
    broken: bool,
}

impl Script {
    fn new(peer: usize, dice: &mut Dice) -> Self {
        let says: Vec<u8> = (0..size(dice)).map(|_| dice.roll(256) as u8).collect();
        let breaks_at = dice.once_in(6).then(|| dice.roll(says.len() + 1));
        Self {
            peer,
            says,
            said: 0,
            breaks_at,
            ended: false,
            broken: false,
        }
    }

    fn is_through(&self) -> bool {
        self.ended || self.broken
    }

    /// Takes a random step of the plan, or none.
    fn act(&mut self, world: &World, dice: &mut Dice) {
        let mut net = world.net.borrow_mut();
        if net.peers[self.peer].closed {
            return;
        }
        if dice.once_in(3) {
            let room = size(dice);
            net.make_room(self.peer, room);
        }
        if dice.once_in(20) {
            net.stir(self.peer);
        }
        if self.is_through() || dice.once_in(4) {
            return;
        }
        if self.breaks_at == Some(self.said) {
            self.broken = true;
            return net.break_off(self.peer);
        }
        if self.said == self.says.len() {
            self.ended = true;
            return net.end(self.peer);
        }
        let until = self.breaks_at.unwrap_or(self.says.len());
        let count = (1 + size(dice)).min(until - self.said);
        net.say(self.peer, &self.says[self.said..self.said + count]);
        self.said += count;
        // An end often arrives together with the last bytes.
        if self.said == self.says.len() && self.breaks_at.is_none() && dice.once_in(2) {
            self.ended = true;
            net.end(self.peer);
        }
    }
}

/// Runs some pairs and checks what was received. Returns whether any bytes went through a pipe.
fn live(seed: u64) -> bool {
    let mut dice = Dice::new(seed);
    let mut world = World::new(settings(1));
    world.net.borrow_mut().pipe_room = 1 + dice.roll(2_000);
    if dice.once_in(10) {
        world.net.borrow_mut().pipes_max = 1;
    }
    if dice.once_in(10) {
        world.net.borrow_mut().refused_changes = dice.roll(PAIRS);
    }
    let clients: Vec<usize> = (0..PAIRS)
        .map(|_| {
            let peer = Peer::with(size(&mut dice), 1 + size(&mut dice));
            world.net.borrow_mut().come(peer)
        })
        .collect();
    world.turn();
    let connects = world.connects();
    assert_eq!(connects.len(), PAIRS, "each client gets a backend");
    let mut scripts: Vec<Script> = clients
        .iter()
        .copied()
        .chain(connects.iter().map(|&(_, peer)| peer))
        .map(|peer| Script::new(peer, &mut dice))
        .collect();
    for script in &scripts[PAIRS..] {
        world.net.borrow_mut().peers[script.peer].bite = 1 + size(&mut dice);
    }
    for script in &scripts {
        world.net.borrow_mut().peers[script.peer].unacknowledged = dice.roll(2) as u64;
    }
    let mut turns = 0;
    // A side whose other side broke may be closed before the end of its plan; all others reach it.
    while scripts.iter().any(|script| {
        let closed = world.net.borrow().peers[script.peer].closed;
        !script.is_through() && !closed
    }) {
        turns += 1;
        assert!(turns < 100_000, "seed {seed}: it does not end");
        let actor = dice.roll(scripts.len());
        scripts[actor].act(&world, &mut dice);
        if dice.once_in(3) {
            world.turn();
        }
    }
    for script in &scripts {
        world.net.borrow_mut().make_room(script.peer, usize::MAX);
    }
    world.settle();
    let (ups, downs) = scripts.split_at(PAIRS);
    for (client, server) in ups.iter().zip(downs) {
        judge(&world, seed, client, server);
    }
    let piped = world.net.borrow().pipes_made > 0;
    // Sides whose other side broke are closed within a moment.
    world.assert_empty();
    piped
}

fn judge(world: &World, seed: u64, client: &Script, server: &Script) {
    let net = world.net.borrow();
    let refused = [client, server].map(|script| net.peers[script.peer].watch_refused);
    let refused = refused.contains(&true);
    if refused {
        for script in [client, server] {
            assert!(
                net.peers[script.peer].closed && net.peers[script.peer].reset,
                "seed {seed}: nobody waits for a signal that will not come"
            );
        }
    }
    for (source, sink) in [(client, server), (server, client)] {
        let heard = &net.peers[sink.peer].outbound;
        let given = &source.says[..source.said];
        if client.broken || server.broken || refused {
            assert!(
                given.starts_with(heard),
                "seed {seed}: only bytes that were sent are received"
            );
        } else {
            assert!(
                given == heard,
                "seed {seed}: all bytes that were sent are received"
            );
            assert!(
                net.peers[sink.peer].worker_ended,
                "seed {seed}: and its end"
            );
            assert!(!net.peers[sink.peer].reset, "seed {seed}: and no reset");
        }
    }
    let both_ended = client.ended && server.ended;
    if both_ended {
        assert!(
            net.peers[client.peer].closed,
            "seed {seed}: nothing is left"
        );
    }
}

#[test]
fn streams_arrive_byte_for_byte_whatever_happens() {
    let wanted = std::env::var("ENCKE_STREAMS").ok();
    let streams = wanted.map_or(STREAMS, |text| {
        text.parse().expect("ENCKE_STREAMS is a number")
    });
    let worlds = streams.div_ceil(2 * PAIRS as u64);
    let piped = (0..worlds)
        .filter(|&seed| with_seed(seed, || live(seed)))
        .count();
    assert!(piped > 0, "some bytes went through pipes");
}
