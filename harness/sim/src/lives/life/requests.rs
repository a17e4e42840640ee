//! Requests of publishers, and their answers.

use std::collections::BTreeSet;

use server::sim::Posted;
use simulated::Dice;

use super::session::Bounds;
use super::{Happened, Life, NAMES, PUBLISHERS, Published, all_edges, name};
use crate::lives::publisher::{Answer, Asked, Edge, Publisher, What};

impl Life {
    pub(super) fn connect_publishers(&mut self) {
        let publisher = |_| Publisher::new(self.process.connect());
        self.publishers = (0..PUBLISHERS).map(publisher).collect();
    }

    /// Returns a publisher that waits for no answer.
    fn idle(&self, dice: &mut Dice) -> Option<usize> {
        let idle: Vec<_> = (0..PUBLISHERS)
            .filter(|&it| self.publishers[it].asked.is_none())
            .collect();
        (!idle.is_empty()).then(|| idle[dice.roll(idle.len())])
    }

    /// A publisher asks for something: at once, or in parts.
    fn ask(&mut self, nth: usize, (method, path): (&str, &str), body: &str, what: What) {
        let begun = self.tick();
        let asked = Asked { begun, what };
        self.note(|| format!("publisher {nth}: {method} {path} {}", body.escape_debug()));
        self.publishers[nth].ask(method, path, body, asked);
    }

    fn say_first(&mut self, nth: usize, dice: &mut Dice) {
        let publisher = &mut self.publishers[nth];
        let said = match dice.roll(3) {
            0 => dice.roll(publisher.unsaid()),
            _ => usize::MAX,
        };
        publisher.say(said);
    }

    /// Publishers say more of their requests.
    pub(super) fn say(&mut self, dice: &mut Dice) {
        for nth in 0..PUBLISHERS {
            let publisher = &mut self.publishers[nth];
            if publisher.unsaid() > 0 {
                let bytes = 1 + dice.roll(publisher.unsaid());
                publisher.say(bytes);
                self.note(|| format!("publisher {nth} says {bytes} bytes more"));
            }
        }
    }

    /// A publisher breaks off, often in the middle of a request, and another one comes.
    pub(super) fn break_off(&mut self, dice: &mut Dice) {
        let nth = dice.roll(PUBLISHERS);
        self.note(|| format!("publisher {nth} breaks off"));
        let next = Publisher::new(self.process.connect());
        let gone = std::mem::replace(&mut self.publishers[nth], next);
        gone.break_off();
        let now = self.tick();
        if let Some(asked) = gone.asked {
            self.abandon(asked.what, now);
        }
    }

    /// Whoever has asked for something has gone: it may be done.
    pub(super) fn abandon(&mut self, what: What, now: u64) {
        match what {
            What::Publish(number) => self.settle_readers(number),
            What::Change { edges, .. } => {
                edges.into_iter().for_each(|it| self.edges.abandon(it, now));
            }
            What::List(_) | What::Subscribers(_) | What::Login(_) | What::Logout(_) => {}
        }
    }

    /// Nobody else will be sent an event than those whom it may be for now.
    pub(super) fn settle_readers(&mut self, number: usize) {
        let [_, possible] = self.readers_of(number);
        let published = &mut self.published[number];
        (published.posted.readers, published.is_settled) = (possible, true);
    }

    pub(super) fn say_all(&mut self) {
        self.publishers.iter_mut().for_each(|it| it.say(usize::MAX));
    }

    pub(super) fn publish(&mut self, dice: &mut Dice) {
        let subject = name(dice);
        let is_sent = dice.roll(4) == 0;
        if let Some(nth) = self.idle(dice) {
            self.publish_about(nth, subject, is_sent);
            self.say_first(nth, dice);
        }
    }

    pub(super) fn publish_about(&mut self, nth: usize, subject: &'static str, is_sent: bool) {
        let number = self.compose(subject, is_sent);
        let text = self.published[number].text.clone();
        let verb = if is_sent { "send" } else { "publish" };
        let path = format!("/v1/{verb}/{subject}");
        self.ask(nth, ("POST", &path), &text, What::Publish(number));
        self.published[number].begun = self.clock;
    }

    /// Makes an event that is published now, and returns its number.
    pub(super) fn compose(&mut self, subject: &'static str, is_sent: bool) -> usize {
        let number = self.published.len();
        self.published.push(Published {
            text: format!("{number}:{subject};"),
            posted: Posted {
                position: 0,
                subject,
                readers: BTreeSet::new(),
                is_sent,
                is_stored: true,
            },
            begun: self.clock,
            second: Some(self.seconds),
            is_settled: false,
            is_on_disk: false,
            run: self.runs - 1,
        });
        number
    }

    pub(super) fn change(&mut self, dice: &mut Dice) {
        let (one, other, target) = (name(dice), name(dice), dice.roll(5) < 3);
        let Some(nth) = self.idle(dice) else { return };
        let mut edges: Vec<(Edge, bool)> = Vec::new();
        let mut is_whole = true;
        let (method, path, mut body) = match dice.roll(8) {
            0..=3 if one != other => {
                edges.push(((one, other), target));
                let path = format!("/v1/subscriptions/{one}/{other}");
                (if target { "PUT" } else { "DELETE" }, path, String::new())
            }
            0..=4 => {
                // What one id follows from now on.
                let followed: BTreeSet<_> = (0..dice.roll(4)).map(|_| name(dice)).collect();
                let own = all_edges().filter(|edge| edge.0 == one);
                edges.extend(own.map(|edge| (edge, followed.contains(edge.1))));
                let body = followed.iter().map(|it| format!("{it}\n")).collect();
                ("PUT", format!("/v1/subscriptions/{one}"), body)
            }
            5 if dice.roll(2) == 0 => {
                let own = all_edges().filter(|edge| edge.0 == one || edge.1 == one);
                edges.extend(own.map(|edge| (edge, false)));
                ("DELETE", format!("/v1/ids/{one}"), String::new())
            }
            _ => {
                let picked: BTreeSet<Edge> = (0..1 + dice.roll(8))
                    .map(|_| (name(dice), name(dice)))
                    .filter(|(one, other)| one != other)
                    .collect();
                edges.extend(picked.into_iter().map(|edge| (edge, target)));
                is_whole = false;
                let path = match target {
                    true => "/v1/subscriptions",
                    false => "/v1/subscriptions/remove",
                };
                ("POST", path.to_owned(), String::new())
            }
        };
        if !is_whole {
            let lines = edges
                .iter()
                .map(|((one, other), _)| format!("{one} {other}\n"));
            body = lines.collect();
        }
        let what = What::Change {
            edges: edges.clone(),
            is_whole,
        };
        self.ask(nth, (method, &path), &body, what);
        for (edge, target) in edges {
            self.edges.begin(edge, target, self.clock);
        }
        self.say_first(nth, dice);
    }

    pub(super) fn list(&mut self, dice: &mut Dice) {
        let subscriber = name(dice);
        if let Some(nth) = self.idle(dice) {
            self.list_of(nth, subscriber);
            self.say_first(nth, dice);
        }
    }

    pub(super) fn list_of(&mut self, nth: usize, subscriber: &'static str) {
        let path = format!("/v1/subscriptions/{subscriber}");
        self.ask(nth, ("GET", &path), "", What::List(subscriber));
    }

    /// Changes one subscription.
    pub(super) fn change_one(&mut self, nth: usize, edge: Edge, target: bool) {
        let path = format!("/v1/subscriptions/{}/{}", edge.0, edge.1);
        let method = if target { "PUT" } else { "DELETE" };
        let what = What::Change {
            edges: vec![(edge, target)],
            is_whole: true,
        };
        self.ask(nth, (method, &path), "", what);
        self.edges.begin(edge, target, self.clock);
    }

    /// Removes all subscriptions of an id.
    pub(super) fn remove(&mut self, nth: usize, removed: &'static str) {
        let own = all_edges().filter(|edge| edge.0 == removed || edge.1 == removed);
        let edges: Vec<_> = own.map(|edge| (edge, false)).collect();
        let what = What::Change {
            edges: edges.clone(),
            is_whole: true,
        };
        self.ask(nth, ("DELETE", &format!("/v1/ids/{removed}")), "", what);
        for (edge, target) in edges {
            self.edges.begin(edge, target, self.clock);
        }
    }

    /// Publishers read what there is.
    pub(super) fn read_answers(&mut self) {
        for nth in 0..PUBLISHERS {
            while let Some((asked, answer)) = self.publishers[nth].answer() {
                self.note(|| format!("publisher {nth} is told {} {}", answer.status, answer.body));
                self.digest_answer(&answer.body.to_string());
                self.answered(asked, &answer);
                if answer.closes {
                    // Of a body that was not read to its end.
                    assert_ne!(answer.status, 200, "{answer:?}");
                    self.publishers[nth] = Publisher::new(self.process.connect());
                }
            }
            let is_closed = self.publishers[nth].is_closed();
            assert!(!is_closed, "publisher {nth} was cut off");
        }
    }

    /// Adds an answer to the number for all of them.
    pub(super) fn digest_answer(&mut self, text: &str) {
        for byte in text.bytes() {
            // FNV-1a.
            self.answers = (self.answers ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn answered(&mut self, asked: Asked, answer: &Answer) {
        let now = self.tick();
        match asked.what {
            What::Publish(number) => self.receipt(number, answer),
            What::List(subscriber) => self.listed(subscriber, asked.begun, answer),
            What::Change { edges, is_whole } => {
                self.changed(&edges, is_whole, asked.begun, now, answer);
            }
            What::Subscribers(_) | What::Login(_) | What::Logout(_) => {
                unreachable!("nodes ask for these")
            }
        }
    }

    fn changed(
        &mut self,
        edges: &[(Edge, bool)],
        is_whole: bool,
        begun: u64,
        now: u64,
        answer: &Answer,
    ) {
        let done = answer.status == 200;
        match answer.status {
            200 => {}
            500 => self.happens(Happened::ChangeFailed),
            507 => self.happens(Happened::DiskFull),
            _ => panic!("a change is answered {answer:?}"),
        }
        let count = |field: &str| answer.body[field].as_u64().unwrap_or(0);
        if done && count("added") + count("removed") + count("unchanged") > 0 {
            self.edges.settle(begun);
        }
        let head = self.process.server.handle().router().head();
        let place = (now, head.unwrap_or_default());
        let mut before = Vec::new();
        for &(edge, target) in edges {
            before.push((
                target,
                self.edges.end((edge, target), done, is_whole, place),
            ));
        }
        if done && before.iter().all(|(_, before)| before.is_some()) {
            let became = |wanted: bool| {
                let changed = |(target, before): &&(bool, Option<bool>)| {
                    *target == wanted && *before == Some(!wanted)
                };
                before.iter().filter(changed).count() as u64
            };
            let counts = (count("added"), count("removed"));
            assert_eq!(counts, (became(true), became(false)), "{edges:?}");
        }
    }

    fn listed(&self, subscriber: &'static str, begun: u64, answer: &Answer) {
        assert_eq!(answer.status, 200, "{answer:?}");
        let listed = answer.body["subscriptions"].as_array().expect("a list");
        let text = |id: &serde_json::Value| id.to_string().trim_matches('"').to_owned();
        let listed: BTreeSet<_> = listed.iter().map(text).collect();
        for subject in NAMES.into_iter().filter(|it| *it != subscriber) {
            let known = self.edges.known_since((subscriber, subject), begun);
            let is_there = listed.contains(subject);
            assert!(
                known.is_none_or(|it| it == is_there),
                "{subscriber} to {subject}, as listed: {is_there}"
            );
        }
        assert!(!listed.contains(subscriber), "{listed:?}");
    }

    /// Checks a receipt, and notes who must have the event.
    fn receipt(&mut self, number: usize, answer: &Answer) {
        assert_eq!(answer.status, 200, "{answer:?}");
        let [sure, possible] = self.readers_of(number);
        let Bounds {
            sessions,
            written: sure_written,
            online,
        } = self.bounds(number);
        let processes = self.processes_with(number);
        let id = answer.body["id"].as_str().expect("an id");
        let (epoch, position) = id.split_once('-').expect("an epoch and a position");
        let position = position.parse().expect("a number");
        assert_eq!(epoch, self.process.epoch());
        let mut others = self.published.iter().map(|it| it.posted.position);
        assert!(others.all(|it| it != position), "{id} is given out twice");
        let Published {
            text,
            posted,
            is_settled,
            is_on_disk,
            ..
        } = &mut self.published[number];
        let count = |field: &str| answer.body[field].as_u64().expect("a count");
        let is_unstored = !answer.body["unstored"].is_null();
        assert!(
            self.has_log_failed || !is_unstored,
            "{text}: the disk of the history does not fail"
        );
        posted.position = position;
        *is_on_disk = !is_unstored;
        posted.readers = possible.clone();
        *is_settled = true;
        let between = |what: &str, value: u64, [least, most]: [u64; 2]| {
            assert!(
                (least..=most).contains(&value),
                "{text} {what}: {value}, not from {least} to {most}"
            );
        };
        let subscribers = [&sure, &possible].map(|it| it.len() as u64);
        between("subscribers", count("subscribers"), subscribers);
        between("online", count("online"), online);
        let (written, queued) = (count("written"), count("queued"));
        between("sessions", written + queued + count("shed"), sessions);
        // No mailbox was full: whoever stayed has it.
        between("shed", count("shed"), [0, sessions[1] - sessions[0]]);
        let server = &self.process.server;
        let has = |it: &&super::Client| {
            let sent = server.sent(it.at);
            sent.windows(text.len()).any(|it| it == text.as_bytes())
        };
        let have = self.clients.iter().filter(has).count() + processes;
        between("written", written, [sure_written, have as u64]);
        self.owe(number);
        if queued > 0 {
            self.happens(Happened::Queued);
        }
        if is_unstored {
            self.happens(Happened::Unstored);
        }
    }

    /// Ids that an event must be for, and those that it may be for, as far as is known now.
    pub(super) fn readers_of(&self, number: usize) -> [BTreeSet<&'static str>; 2] {
        let Published { posted, begun, .. } = &self.published[number];
        match posted.is_sent {
            true => [posted.subject; 2].map(|it| BTreeSet::from([it])),
            false => self.edges.subscribers(posted.subject, *begun),
        }
    }
}
