//! What must be so in the end, when the faults have stopped, and when everybody has gone.

use std::collections::BTreeMap;
use std::time::Duration;

use reactor::Handler as _;
use simulated::Dice;

use super::{AGE_SECONDS, Life, Owed, State};
use crate::sim::parts::assert_nothing_shared_is_left;
use crate::sim::texts::payloads;
use crate::slow_policy::SlowPolicy;
use crate::stage::Stage as _;
use crate::stats::Metric;

impl Life {
    /// Checks what everybody has in the end.
    pub(in super::super) fn judge(&mut self, dice: &mut Dice) {
        for (nth, client) in self.clients.iter().enumerate() {
            let is_served = client.state == State::Online;
            assert!(
                is_served || !client.is_faithful || self.is_draining,
                "client {nth} waits for an answer"
            );
        }
        match self.has_history {
            true => self.judge_readers(dice),
            false => self.judge_clients(),
        }
        self.judge_receipts();
    }

    /// Checks what clients have on a server without a history.
    fn judge_clients(&self) {
        for (nth, client) in self.clients.iter().enumerate() {
            let net = self.stations[client.station].net.borrow();
            let text = String::from_utf8_lossy(&net.peers[client.number].outbound);
            let is_served = client.state == State::Online;
            let told: u64 = told_losses(&text).iter().sum();
            let mut got = BTreeMap::<_, Vec<_>>::new();
            for payload in payloads(&text)
                .into_iter()
                .filter(|it| !it.starts_with('{'))
            {
                let subject = payload.trim_end_matches(';').split_once(':');
                let (_, subject) = subject.expect("a payload as published");
                got.entry(subject.to_owned()).or_default().push(payload);
            }
            let mut missing = 0;
            for (subject, owed) in &client.owed {
                let got = got.remove(*subject).unwrap_or_default();
                let mut got = got.iter().peekable();
                for &Owed {
                    ref published,
                    is_optional,
                } in owed
                {
                    let has = got.next_if(|it| **it == published.text).is_some();
                    let is_refused = published.refused_by == Some(client.station);
                    assert!(
                        !(has && is_refused),
                        "{} came to client {nth}",
                        published.text
                    );
                    let is_excused = is_refused || is_optional || !client.is_faithful;
                    assert!(has || is_excused, "client {nth} has no {}", published.text);
                    missing += u64::from(!has && !is_optional);
                }
                let left: Vec<_> = got.collect();
                assert!(
                    left.is_empty(),
                    "client {nth} got {left:?} twice, or out of order"
                );
            }
            assert!(got.is_empty(), "{got:?} was not for client {nth}");
            // The 2008 wire has no notices, and who wants the latest is not told what it replaced.
            let slow = self.parts.handle.live_settings().slow;
            let tells = !text.contains("text/html") && slow != SlowPolicy::Latest;
            assert!(
                !is_served || !tells || told >= missing,
                "client {nth} misses {missing} events and was told of {told}"
            );
        }
    }

    /// Checks what publishers were told.
    fn judge_receipts(&self) {
        let mut counted = 0;
        for published in &self.published {
            let counts = published.tally.counts();
            let text = &published.text;
            assert_eq!(published.tally.pending(), 0, "the receipt of {text}");
            let sum = counts.written + counts.queued + counts.shed;
            let sessions = published.sessions.map(|it| it as u64);
            assert!(
                sessions.is_none_or(|it| it == sum),
                "{text}: {counts:?} of {sessions:?}"
            );
            counted += sum;
        }
        let metric = |it| self.parts.handle.stats().total(it);
        let outcomes = [
            Metric::Deliveries,
            Metric::DeliveriesQueued,
            Metric::DeliveriesShed,
        ];
        let by_workers: u64 = outcomes.map(metric).iter().sum();
        // What is left in the mailbox of a worker that has ended is counted by nobody else.
        assert!(
            by_workers == counted || self.is_draining,
            "outcomes of all receipts: {counted}, {by_workers} by the workers"
        );
    }

    /// Everybody goes, and nothing is left of anybody.
    pub(in super::super) fn end(&mut self) {
        for station in &self.stations {
            station.net.borrow_mut().end_all();
        }
        for client in &mut self.clients {
            client.is_faithful = false;
            if client.state == State::Online {
                client.state = State::Leaving;
            }
        }
        self.run(Duration::from_secs(20));
        self.stations.iter().for_each(|it| it.mailbox.ring());
        self.rest();
        for station in &self.stations {
            station.assert_nothing_is_left();
            let table = &station.worker.table;
            let deadline = table.next_in(table.clock.now, table.len());
            assert!(
                station.is_over || deadline.is_none(),
                "a deadline in {deadline:?}"
            );
        }
        assert_nothing_shared_is_left(&self.parts.shared, &self.parts.handle);
        while let Some((&edge, _)) = self.edges.first_key_value() {
            self.take_back(edge);
        }
        let router = self.parts.handle.router();
        router.tick(self.seconds + AGE_SECONDS + 1);
        let stored = router
            .recorder()
            .map_or(0, |it| it.read(|history| history.events()));
        assert_eq!(stored, 0, "events in the history");
        assert!(router.is_without_sessions(), "the directory");
        let counts = self.parts.handle.graph().counts();
        assert_eq!(counts, graph::Counts::default(), "ids and edges");
        self.parts.handle.drain();
        self.run(Duration::from_secs(1));
        assert!(
            self.stations.iter().all(|it| it.worker.is_over()),
            "the drain"
        );
    }
}

/// The numbers of lost events that a client was told.
fn told_losses(text: &str) -> Vec<u64> {
    let numbers = text.split("\"lost\":").skip(1);
    let digits = |rest: &str| {
        rest.split(|it: char| !it.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    numbers.filter_map(digits).collect()
}
