//! Events and subscriptions.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reactor::Driver as _;
use router::{Accepted, Tally};
use simulated::Dice;

use super::{Life, Published, State, name};
use crate::sim::readers::Posted;
use crate::sim::world::{World, event, id};

impl Published {
    /// Returns an event that was published to `readers`. The number of its sessions is not known.
    fn new(
        text: String,
        subject: &'static str,
        readers: &BTreeSet<&'static str>,
        accepted: &Accepted,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            text,
            posted: Posted {
                position: accepted.position,
                subject,
                readers: readers.clone(),
                is_sent: false,
                is_stored: true,
            },
            tally,
            sessions: None,
            refused_by: None,
        }
    }
}

impl Life {
    fn readers_of(&self, subject: &'static str) -> BTreeSet<&'static str> {
        let edges = self.edges.keys().filter(|edge| edge.1 == subject);
        edges.map(|edge| edge.0).chain([subject]).collect()
    }

    pub(super) fn publish(&mut self, nth: usize, dice: &mut Dice) {
        let subject = name(dice);
        let text = format!("{}:{subject};", self.published.len());
        let (is_sent, is_full) = (dice.roll(4) == 0, dice.roll(6) == 0);
        let readers = match is_sent {
            true => BTreeSet::from([subject]),
            false => self.readers_of(subject),
        };
        let now = self.stations[0].worker.table.driver.elapsed().as_nanos();
        self.parts.clock.store(now as u64, Ordering::Relaxed);
        let (router, tally) = (self.parts.handle.router(), Tally::new());
        let publish = || match is_sent {
            true => router.send(event(subject, &text), &tally),
            false => router.publish(event(subject, &text), &tally),
        };
        let accepted = match is_full {
            true => World::fill(&self.stations[nth].mailbox, publish),
            false => publish(),
        };
        let full = if is_full {
            "a full mailbox at"
        } else {
            "beside"
        };
        self.note(|| format!("{text} is for {readers:?}, {full} {nth}: {accepted:?}"));
        let is_draining = self.is_draining;
        let sessions: Vec<_> = self.sessions_of(&readers).collect();
        let online: BTreeSet<_> = sessions.iter().flat_map(|it| &it.ids).collect();
        let online = online
            .into_iter()
            .filter(|it| readers.contains(*it))
            .count();
        let mut published = Published::new(text, subject, &readers, &accepted, tally);
        published.posted.is_sent = is_sent;
        // The model does not know when a session ends that drains behind its backlog.
        published.sessions = (!is_draining).then_some(sessions.len());
        published.refused_by = is_full.then_some(nth);
        let published = Rc::new(published);
        for client in sessions {
            client.owe(subject, &published, is_draining);
        }
        assert_eq!(accepted.audience.subscribers, readers.len() as u64);
        assert!(
            is_draining || accepted.audience.online == online as u64,
            "{online} of {readers:?} are online: {accepted:?}"
        );
        self.published.push(published);
    }

    /// Publishes while a worker is in the middle of its turn. Who comes or goes in that turn may
    /// have the event or not.
    pub(super) fn publish_within_turn(&mut self, nth: usize, dice: &mut Dice) {
        let subject = name(dice);
        let text = format!("{}:{subject};", self.published.len());
        let (router, tally) = (self.parts.handle.router_shared(), Tally::new());
        let (event, given) = (event(subject, &text), Arc::clone(&tally));
        let accepted = Rc::new(RefCell::new(None::<Accepted>));
        let answer = Rc::clone(&accepted);
        self.stations[nth].net.borrow_mut().meanwhile = Some(Box::new(move || {
            *answer.borrow_mut() = Some(router.publish(event, &given));
        }));
        let readers = self.readers_of(subject);
        let before: Vec<_> = self.clients.iter().map(|it| it.state).collect();
        self.stations[nth].mailbox.ring();
        self.turn(nth);
        self.stations[nth].net.borrow_mut().meanwhile = None;
        let Some(accepted) = accepted.take() else {
            return;
        };
        self.note(|| format!("{text} came in a turn of {nth}, for {readers:?}: {accepted:?}"));
        let published = Published::new(text, subject, &readers, &accepted, tally);
        let published = Rc::new(published);
        for (client, before) in self.clients.iter_mut().zip(before) {
            let is_known = [State::Online, State::Leaving].contains(&before);
            let came = client.state == State::Online && client.station == nth;
            if (is_known || came) && !client.ids.is_disjoint(&readers) {
                client.owe(subject, &published, !is_known || self.is_draining);
            }
            // Who asks for no past is owed what comes after its login.
            if let Some(reader) = client.reader
                && before == State::Coming
            {
                self.readers[reader].excuse_without_cursor(accepted.position);
            }
        }
        self.published.push(published);
    }

    pub(super) fn subscribe(&mut self, dice: &mut Dice) {
        let (subscriber, subject) = (name(dice), name(dice));
        if subscriber != subject {
            let head = self.parts.handle.router().head().unwrap_or_default();
            self.edges.entry((subscriber, subject)).or_insert(head);
        }
        self.note(|| format!("{subscriber} subscribes to {subject}"));
        let graph = self.parts.handle.graph();
        graph
            .subscribe(&id(subscriber), &id(subject))
            .expect("room in the graph");
    }

    pub(super) fn unsubscribe(&mut self, dice: &mut Dice) {
        let edge = (name(dice), name(dice));
        self.note(|| format!("{} unsubscribes from {}", edge.0, edge.1));
        self.take_back(edge);
    }

    pub(super) fn take_back(&mut self, edge: (&'static str, &'static str)) {
        self.edges.remove(&edge);
        let graph = self.parts.handle.graph();
        graph
            .unsubscribe(&id(edge.0), &id(edge.1))
            .expect("the graph answers");
    }

    /// Time passes for the history, and what is too old leaves it.
    pub(super) fn forget(&mut self, dice: &mut Dice) {
        self.seconds += dice.roll(6) as u32;
        self.parts.handle.router().tick(self.seconds);
        self.note(|| format!("it is second {} for the history", self.seconds));
    }
}
