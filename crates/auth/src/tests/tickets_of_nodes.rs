//! Tickets of two nodes that read the same announcements in the same order.

use std::sync::Arc;

use proptest::prelude::*;

use crate::tickets::{ELSEWHERE_SECONDS, Hash, Holder, RECONNECT_SECONDS, hash, text};
use crate::{TicketError, Tickets, UnixSeconds};

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
const TTL: u64 = 30;
const SECRET: [u8; 16] = [7; 16];
const HOLDER: Holder = Holder {
    node: 9,
    session: 1,
};

fn ids() -> Arc<[Box<str>]> {
    [Box::from("alice")].into()
}

/// Returns a node with the ticket.
fn node() -> Tickets {
    let mut tickets = Tickets::default();
    let until = NOW.plus(TTL);
    tickets
        .accept(hash(&SECRET), ids(), NOW, until, NOW)
        .unwrap();
    tickets
}

#[test]
fn a_ticket_of_one_node_opens_a_session_on_another() {
    let mut tickets = node();
    let redeemed = tickets.redeem(&text(&SECRET), 1, NOW).unwrap();
    assert_eq!(&*redeemed.ids, &*ids());
    assert_eq!(redeemed.hash, hash(&SECRET));
}

#[test]
fn what_nodes_share_of_a_ticket_cannot_log_in() {
    let mut tickets = node();
    let shared: [u8; 16] = hash(&SECRET)[..16].try_into().unwrap();
    let refused = tickets.redeem(&text(&shared), 1, NOW);
    assert_eq!(refused, Err(TicketError::Unknown));
}

#[test]
fn a_ticket_that_came_too_late_is_not_accepted() {
    let mut tickets = Tickets::default();
    let (hash, until) = (hash(&SECRET), NOW.plus(TTL));
    tickets.accept(hash, ids(), NOW, until, until).unwrap();
    assert!(tickets.is_empty());
}

#[test]
fn a_ticket_used_elsewhere_is_good_for_two_minutes_after_its_session() {
    let mut tickets = node();
    let hash = hash(&SECRET);
    let used = tickets.used_elsewhere(hash, ids(), NOW, HOLDER, NOW);
    assert_eq!(used, Ok(None));
    let later = NOW.plus(1000);
    assert!(tickets.look_up(&text(&SECRET), later).is_ok());
    // Another session than the one that has it says nothing about it.
    let other = Holder {
        session: 2,
        ..HOLDER
    };
    tickets.released_elsewhere(&hash, other, later);
    tickets.released_elsewhere(&hash, HOLDER, later.plus(1));
    let end = later.plus(1 + RECONNECT_SECONDS);
    assert!(
        tickets
            .look_up(&text(&SECRET), UnixSeconds(end.0 - 1))
            .is_ok()
    );
    assert!(tickets.look_up(&text(&SECRET), end).is_err());
}

#[test]
fn a_ticket_of_a_node_that_is_gone_is_good_for_two_minutes_more() {
    let mut tickets = node();
    let used = tickets.used_elsewhere(hash(&SECRET), ids(), NOW, HOLDER, NOW);
    assert_eq!(used, Ok(None));
    tickets.node_gone(8, NOW);
    let end = NOW.plus(RECONNECT_SECONDS);
    assert!(tickets.look_up(&text(&SECRET), end).is_ok());
    tickets.node_gone(9, NOW);
    assert!(tickets.look_up(&text(&SECRET), end).is_err());
    tickets.forget_until(NOW.plus(ELSEWHERE_SECONDS));
    assert!(tickets.is_empty());
}

#[test]
fn tickets_of_other_nodes_are_bounded_and_forgotten() {
    let mut tickets = Tickets::with_max(2);
    for number in 0..3 {
        let used = tickets.used_elsewhere([number; 32], ids(), NOW, HOLDER, NOW);
        let expected = if number < 2 {
            Ok(None)
        } else {
            Err(TicketError::Full)
        };
        assert_eq!(used, expected);
    }
    tickets.forget_until(NOW.plus(ELSEWHERE_SECONDS));
    assert!(tickets.is_empty());
}

/// What happens on two nodes.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A client opens a session on a node.
    Use(usize),
    /// The newest session of a node ends.
    End(usize),
    /// A node reads the next announcement.
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..2_usize).prop_map(Step::Use),
        (0..2_usize).prop_map(Step::End),
        (0..2_usize).prop_map(Step::Read),
        (0..2_usize).prop_map(Step::Read),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Announcement {
    Used { node: usize, session: u64 },
    Released { node: usize, session: u64 },
}

/// Two nodes, what they announced in one order, and how far each has read.
struct Pair {
    nodes: [Tickets; 2],
    log: Vec<Announcement>,
    read: [usize; 2],
    /// The open sessions of each node.
    sessions: [Vec<(u64, crate::tickets::Hash)>; 2],
    last: u64,
    /// Sessions that ended by themselves.
    ended: Vec<u64>,
}

impl Pair {
    fn run(&mut self, step: Step) {
        let hash: Hash = hash(&SECRET);
        match step {
            Step::Use(node) => {
                self.last += 1;
                let session = self.last;
                let Ok(redeemed) = self.nodes[node].redeem(&text(&SECRET), session, NOW) else {
                    return;
                };
                if let Some(before) = redeemed.superseded {
                    self.sessions[node].retain(|(session, _)| *session != before);
                }
                self.sessions[node].push((session, redeemed.hash));
                self.log.push(Announcement::Used { node, session });
            }
            Step::End(node) => {
                let Some((session, ticket)) = self.sessions[node].pop() else {
                    return;
                };
                self.ended.push(session);
                if self.nodes[node].release(&ticket, session, NOW) {
                    self.log.push(Announcement::Released { node, session });
                }
            }
            Step::Read(reader) => {
                let Some(&read) = self.log.get(self.read[reader]) else {
                    return;
                };
                self.read[reader] += 1;
                match read {
                    Announcement::Used { node, session } if node == reader => {
                        self.nodes[reader].announced(&hash, session);
                    }
                    Announcement::Used { node, session } => {
                        let tickets = &mut self.nodes[reader];
                        let holder = Holder {
                            node: node as u64,
                            session,
                        };
                        let used = tickets.used_elsewhere(hash, ids(), NOW, holder, NOW);
                        if let Some(before) = used.unwrap() {
                            self.sessions[reader].retain(|(session, _)| *session != before);
                        }
                    }
                    Announcement::Released { node, .. } if node == reader => {}
                    Announcement::Released { node, session } => {
                        let holder = Holder {
                            node: node as u64,
                            session,
                        };
                        self.nodes[reader].released_elsewhere(&hash, holder, NOW);
                    }
                }
            }
        }
    }
}

proptest! {
    /// The law of tickets over several nodes: when both have read all, the session that was
    /// announced last has the ticket unless it has ended, and no other one is left.
    #[test]
    fn a_ticket_has_one_session_when_all_is_read(steps in prop::collection::vec(step(), 0..40)) {
        let mut pair = Pair {
            nodes: [node(), node()],
            log: Vec::new(),
            read: [0; 2],
            sessions: [Vec::new(), Vec::new()],
            last: 0,
            ended: Vec::new(),
        };
        for step in steps {
            pair.run(step);
        }
        while pair.read.iter().any(|read| *read < pair.log.len()) {
            pair.run(Step::Read(0));
            pair.run(Step::Read(1));
        }
        let open: Vec<u64> = pair.sessions.iter().flatten().map(|(session, _)| *session).collect();
        let last = pair.log.iter().rev().find_map(|one| match one {
            Announcement::Used { session, .. } => Some(*session),
            Announcement::Released { .. } => None,
        });
        let left = last.filter(|session| !pair.ended.contains(session));
        prop_assert_eq!(open, left.into_iter().collect::<Vec<_>>(), "after {:?}", pair.log);
        // It is good on both nodes, whatever has happened.
        for tickets in &pair.nodes {
            prop_assert!(tickets.look_up(&text(&SECRET), NOW).is_ok());
        }
    }
}
