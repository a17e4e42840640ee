//! The model: every step is one that a thread can be interrupted after.

use std::collections::VecDeque;

use simulated::Dice;

use crate::client::{Client, Fault, Frame};

/// A mistake in the splice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// A session goes live without waiting for the plans that were under way at its login.
    NoPeriod,
    /// A session goes live after one period, when only one of the two counters was zero.
    OnePeriodEarly,
    /// The period of a login is read before the login.
    PeriodBeforeLogin,
    /// The head is read before the period.
    HeadBeforePeriod,
    /// A publisher looks at the directory before it counts itself in.
    LateCount,
    /// A publisher counts itself out before it posts.
    EarlyOut,
    /// A worker gets an event before the history has it.
    LateHistory,
    /// The history is filled before the mailbox, and both without a common lock.
    LateMailbox,
    /// An event that overtakes an older one has a cursor without the third part.
    TwoParts,
    /// Events that wait for the sweep do not count as pending.
    WaitingForgotten,
    /// Live events that were replayed are sent again.
    NotDropped,
    /// The session is forgotten before the mailbox was taken once more.
    ForgottenEarly,
    /// Live events are sent while the session is fed.
    LiveWhileFed,
    /// The session goes live at the position that it was fed up to, not at the head.
    LiveBehindHead,
    /// The cursor of a heartbeat is read after the mail was taken.
    HeartbeatAfterMail,
    /// A heartbeat has a cursor while older events are swept.
    HeartbeatInSweep,
    /// A heartbeat has a cursor while the session is fed.
    HeartbeatWhileFed,
    /// The cursor of the welcome is read after the login.
    WelcomeAfterLogin,
    /// A gap is looked for at the resume only, not while the session is fed.
    GapOnce,
    /// A replay begins after the position of the cursor, not after its complete part.
    AfterPosition,
    /// A deferred session goes live without waiting for the plans that were under way when events
    /// were planned for it again.
    NoPeriodAfterDeferral,
    /// A deferred session is fed on before events are planned for it again.
    FedWhileDeferred,
}

impl Bug {
    pub(super) const ALL: [Self; 22] = [
        Self::NoPeriod,
        Self::OnePeriodEarly,
        Self::PeriodBeforeLogin,
        Self::HeadBeforePeriod,
        Self::LateCount,
        Self::EarlyOut,
        Self::LateHistory,
        Self::LateMailbox,
        Self::TwoParts,
        Self::WaitingForgotten,
        Self::NotDropped,
        Self::ForgottenEarly,
        Self::LiveWhileFed,
        Self::LiveBehindHead,
        Self::HeartbeatAfterMail,
        Self::HeartbeatInSweep,
        Self::HeartbeatWhileFed,
        Self::WelcomeAfterLogin,
        Self::GapOnce,
        Self::AfterPosition,
        Self::NoPeriodAfterDeferral,
        Self::FedWhileDeferred,
    ];
}

/// Delivery to the session of one connection, if it was logged in when it was planned, and not
/// deferred.
#[derive(Debug, Clone, Copy)]
struct Delivery {
    position: u64,
    /// Number of the connection.
    to: Option<u32>,
    is_large: bool,
}

/// What the directory says of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Online {
    connection: u32,
    is_deferred: bool,
}

/// Publisher, by its next step.
#[derive(Debug, Clone, Copy)]
enum Publisher {
    Idle,
    ReadPeriod,
    CountIn(u64),
    Plan(u64),
    /// Counts itself in too late.
    CountLate(Option<Online>),
    Post(u64, Option<Online>),
    /// The second half of a post without a common lock.
    Finish(u64, Delivery),
    CountOut(u64),
}

/// Session of the worker.
#[derive(Debug, Clone, Copy)]
enum Session {
    /// Between the parts of its login.
    Begins {
        cursor: Option<(u64, u64)>,
        period: u64,
        head: u64,
    },
    /// Fed up to `fed`. `checked` is the head if it was read too early.
    Fed {
        fed: u64,
        period: u64,
        head: Option<u64>,
    },
    /// Fed up to `fed`, and not fed on: its socket is full, and no events are planned for it.
    Deferred { fed: u64 },
    /// Events are planned for it again, and the period is not read yet.
    Undeferred { fed: u64 },
    /// Live; frames up to `fed` were replayed. `taken` tells whether mail was taken since.
    Live { fed: u64, taken: bool },
}

/// Worker, by the next stage of its turn.
#[derive(Debug, Clone, Copy)]
enum Stage {
    ReadHead,
    Take,
    Deliver,
    Feed,
    Heartbeat,
}

struct Model {
    dice: Dice,
    bug: Option<Bug>,
    period: u64,
    counters: [u32; 2],
    publishers: [Publisher; 3],
    left_to_publish: usize,
    sequence: u64,
    /// The history: positions after `lost` up to the head.
    stored: VecDeque<u64>,
    head: u64,
    lost: u64,
    mailbox: VecDeque<Delivery>,
    online: Option<Online>,
    stage: Stage,
    turn_head: u64,
    small: VecDeque<Delivery>,
    waiting: VecDeque<Delivery>,
    /// Large deliveries under way, each with whether it has been at the session.
    sweep: Vec<(Delivery, bool)>,
    connection: u32,
    /// Whether the connection began without a cursor.
    is_new: bool,
    session: Option<Session>,
    client: Client,
    /// Whether everything comes to rest.
    is_ending: bool,
}

/// Runs one schedule.
pub(super) fn run(seed: u64, bug: Option<Bug>) -> Result<(), Fault> {
    let mut model = Model {
        dice: Dice::new(seed),
        bug,
        period: 0,
        counters: [0; 2],
        publishers: [Publisher::Idle; 3],
        left_to_publish: 6,
        sequence: 0,
        stored: VecDeque::new(),
        head: 0,
        lost: 0,
        mailbox: VecDeque::new(),
        online: None,
        stage: Stage::ReadHead,
        turn_head: 0,
        small: VecDeque::new(),
        waiting: VecDeque::new(),
        sweep: Vec::new(),
        connection: 0,
        is_new: false,
        session: None,
        client: Client::default(),
        is_ending: false,
    };
    for _ in 0..150 {
        model.step()?;
    }
    model.end()
}

impl Model {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn step(&mut self) -> Result<(), Fault> {
        match self.dice.roll(32) {
            0..=11 => {
                let publisher = self.dice.roll(self.publishers.len());
                self.publish(publisher, true);
            }
            12..=21 => self.work(),
            22 => self.cut(),
            23 if self.session.is_none() => self.connect(),
            24 if self.dice.roll(6) == 0 => self.forget(),
            25..=26 => self.advance_period(),
            _ => self.client.read()?,
        }
        Ok(())
    }

    /// Lets everything come to rest, with a client that returns once more, and judges.
    fn end(&mut self) -> Result<(), Fault> {
        self.is_ending = true;
        for publisher in 0..self.publishers.len() {
            while !matches!(self.publishers[publisher], Publisher::Idle) {
                self.publish(publisher, false);
            }
        }
        for is_last in [false, true] {
            if is_last {
                self.cut();
            }
            for _ in 0..100 {
                if self.session.is_none() {
                    self.connect();
                }
                self.work();
                self.advance_period();
                self.client.read()?;
            }
        }
        while !self.client.wire.is_empty() {
            self.client.read()?;
        }
        self.client.judge(self.head)
    }

    fn publish(&mut self, number: usize, begins: bool) {
        use Publisher::{CountIn, CountLate, CountOut, Finish, Idle, Plan, Post, ReadPeriod};
        let late = self.has(Bug::LateCount);
        self.publishers[number] = match self.publishers[number] {
            Idle if begins && self.left_to_publish > 0 => {
                self.left_to_publish -= 1;
                if late { Plan(0) } else { ReadPeriod }
            }
            Idle => Idle,
            ReadPeriod => CountIn(self.period),
            CountIn(period) => {
                self.counters[period as usize & 1] += 1;
                Plan(period)
            }
            Plan(_) if late => CountLate(self.online),
            Plan(period) => {
                if self.has(Bug::EarlyOut) {
                    self.counters[period as usize & 1] -= 1;
                }
                Post(period, self.online)
            }
            CountLate(to) => {
                self.counters[self.period as usize & 1] += 1;
                Post(self.period, to)
            }
            Post(period, online) => {
                self.sequence += 1;
                let to = online.filter(|online| !online.is_deferred);
                let to = to.map(|online| online.connection);
                let delivery = Delivery {
                    position: self.sequence,
                    to,
                    is_large: self.dice.roll(3) == 0,
                };
                if self.is_new && self.session.is_some() {
                    match online.is_some_and(|online| online.connection == self.connection) {
                        true => self.client.promise(delivery.position),
                        // It was published beside a login that asked for no past.
                        false => self.client.excuse(delivery.position),
                    }
                }
                // Posts are one after the other, as the sequencer's lock makes them.
                let is_split = self.has(Bug::LateHistory) || self.has(Bug::LateMailbox);
                if !self.has(Bug::LateMailbox) {
                    self.mailbox.push_back(delivery);
                }
                if !self.has(Bug::LateHistory) {
                    self.store(delivery.position);
                }
                if is_split {
                    Finish(period, delivery)
                } else {
                    CountOut(period)
                }
            }
            Finish(period, delivery) => {
                if self.has(Bug::LateMailbox) {
                    self.mailbox.push_back(delivery);
                } else {
                    self.store(delivery.position);
                }
                CountOut(period)
            }
            CountOut(period) => {
                if !self.has(Bug::EarlyOut) {
                    self.counters[period as usize & 1] -= 1;
                }
                Idle
            }
        };
    }

    fn store(&mut self, position: u64) {
        let at = self.stored.partition_point(|&stored| stored < position);
        self.stored.insert(at, position);
        self.head = self.head.max(position);
    }

    fn advance_period(&mut self) {
        if self.counters[(self.period as usize + 1) & 1] == 0 {
            self.period += 1;
        }
    }

    /// The oldest event leaves the history.
    fn forget(&mut self) {
        if let Some(position) = self.stored.pop_front() {
            self.lost = position;
        }
    }

    fn cut(&mut self) {
        if self.session.take().is_some() {
            self.online = None;
        }
    }

    /// The first part of a login: up to the directory.
    fn connect(&mut self) {
        self.client.reconnect();
        self.connection += 1;
        self.session = Some(Session::Begins {
            cursor: self.client.cursor,
            period: self.period,
            head: self.head,
        });
        self.is_new = self.client.cursor.is_none();
    }

    /// The last part of a login.
    fn open(&mut self, cursor: Option<(u64, u64)>, mut period: u64, mut head: u64) {
        if !self.has(Bug::PeriodBeforeLogin) {
            period = self.period;
        }
        if self.has(Bug::WelcomeAfterLogin) {
            head = self.head;
        }
        self.session = Some(match cursor {
            None => {
                self.client.wire.push_back(Frame::Cursor(head));
                let fed = 0;
                Session::Live { fed, taken: true }
            }
            Some((position, complete)) => {
                let after = if self.has(Bug::AfterPosition) {
                    position
                } else {
                    complete
                };
                let fed = self.reset_if_lost(after);
                let head = None;
                Session::Fed { fed, period, head }
            }
        });
    }

    fn reset_if_lost(&mut self, fed: u64) -> u64 {
        if fed < self.lost {
            self.client.wire.push_back(Frame::Reset(self.lost));
        }
        fed.max(self.lost)
    }

    fn work(&mut self) {
        if let Some(Session::Begins {
            cursor,
            period,
            head,
        }) = self.session
        {
            // Requests are handled before the stages of a turn, or in the turn before.
            if self.online.is_none() {
                self.online = Some(Online {
                    connection: self.connection,
                    is_deferred: false,
                });
                return;
            }
            if matches!(self.stage, Stage::ReadHead | Stage::Take) {
                return self.open(cursor, period, head);
            }
        }
        self.stage = match self.stage {
            Stage::ReadHead => {
                self.turn_head = self.head;
                Stage::Take
            }
            Stage::Take => {
                self.take();
                Stage::Deliver
            }
            Stage::Deliver => {
                if self.has(Bug::HeartbeatAfterMail) {
                    self.turn_head = self.head;
                }
                self.deliver();
                Stage::Feed
            }
            Stage::Feed => {
                match self.session {
                    Some(Session::Undeferred { .. }) => {
                        self.undefer();
                        return;
                    }
                    Some(Session::Deferred { .. }) if self.is_ending || self.dice.roll(3) == 0 => {
                        self.undefer();
                        return;
                    }
                    Some(Session::Fed { .. }) if !self.is_ending && self.dice.roll(6) == 0 => {
                        self.defer();
                    }
                    _ => self.feed(),
                }
                Stage::Heartbeat
            }
            Stage::Heartbeat => {
                if self.dice.roll(3) == 0 {
                    self.heartbeat();
                }
                Stage::ReadHead
            }
        };
    }

    fn take(&mut self) {
        for delivery in self.mailbox.drain(..) {
            match delivery.is_large {
                true => self.waiting.push_back(delivery),
                false => self.small.push_back(delivery),
            }
        }
        if let Some(Session::Live { taken, .. }) = &mut self.session {
            *taken = true;
        }
        self.settle();
    }

    /// Forgets the position up to which a live session was fed, when nothing that old is left.
    fn settle(&mut self) {
        let oldest = self.oldest(true);
        if let Some(Session::Live { fed, taken }) = &mut self.session
            && (*taken || self.bug == Some(Bug::ForgottenEarly))
            && oldest.is_none_or(|oldest| oldest > *fed)
        {
            *fed = 0;
        }
    }

    /// The position of the oldest delivery in flight, among the large ones or all.
    fn oldest(&self, with_small: bool) -> Option<u64> {
        let small = self.small.front().filter(|_| with_small);
        let waiting = self
            .waiting
            .front()
            .filter(|_| !self.has(Bug::WaitingForgotten));
        let swept = self.sweep.iter().map(|(delivery, _)| delivery.position);
        let deliveries = small.into_iter().chain(waiting);
        deliveries
            .map(|delivery| delivery.position)
            .chain(swept)
            .min()
    }

    fn deliver(&mut self) {
        let oldest = self.oldest(false);
        let complete = |position: u64| match oldest {
            Some(oldest) => position.min(oldest - 1),
            None => position,
        };
        for _ in 0..self.dice.roll(4) {
            if let Some(delivery) = self.small.pop_front() {
                let complete = match self.has(Bug::TwoParts) {
                    true => delivery.position,
                    false => complete(delivery.position),
                };
                self.send(delivery, complete);
            }
        }
        while self.sweep.len() < 2
            && let Some(first) = self.waiting.front()
            && self
                .small
                .front()
                .is_none_or(|small| first.position < small.position)
            && let Some(delivery) = self.waiting.pop_front()
        {
            self.sweep.push((delivery, false));
        }
        // The sweep comes past the session, or goes on elsewhere.
        if self.dice.roll(3) == 0 {
            let sweep = std::mem::take(&mut self.sweep);
            for &(delivery, is_sent) in &sweep {
                if !is_sent {
                    self.send(delivery, delivery.position);
                }
            }
            self.sweep = sweep
                .into_iter()
                .map(|(delivery, _)| (delivery, true))
                .collect();
        }
        let dice = &mut self.dice;
        self.sweep
            .retain(|(_, is_sent)| !is_sent || dice.roll(2) == 0);
    }

    fn send(&mut self, delivery: Delivery, complete: u64) {
        let Delivery { position, to, .. } = delivery;
        if to != Some(self.connection) {
            return;
        }
        let is_sent = match self.session {
            None => false,
            Some(Session::Begins { .. }) => unreachable!("opened before the stages"),
            Some(Session::Fed { .. }) => self.has(Bug::LiveWhileFed),
            Some(Session::Deferred { .. } | Session::Undeferred { .. }) => false,
            Some(Session::Live { fed, .. }) => position > fed || self.has(Bug::NotDropped),
        };
        if is_sent {
            self.client
                .wire
                .push_back(Frame::Event { position, complete });
        }
    }

    /// Defers the session, if it is fed.
    fn defer(&mut self) {
        if let Some(Session::Fed { fed, .. }) = self.session
            && let Some(online) = &mut self.online
        {
            online.is_deferred = true;
            self.session = Some(Session::Deferred { fed });
        }
    }

    /// Takes one of the steps until the session is fed again.
    fn undefer(&mut self) {
        self.session = match self.session {
            Some(Session::Deferred { fed }) => {
                if let Some(online) = &mut self.online {
                    online.is_deferred = false;
                }
                Some(Session::Undeferred { fed })
            }
            Some(Session::Undeferred { fed }) => {
                let period = match self.has(Bug::NoPeriodAfterDeferral) {
                    true => 0,
                    false => self.period,
                };
                let head = None;
                Some(Session::Fed { fed, period, head })
            }
            other => other,
        };
    }

    fn feed(&mut self) {
        let deferred = match self.session {
            Some(Session::Deferred { fed }) if self.has(Bug::FedWhileDeferred) => Some(fed),
            _ => None,
        };
        if let Some(fed) = deferred {
            // It goes live by the period of long ago.
            let (period, head) = (0, None);
            self.session = Some(Session::Fed { fed, period, head });
        }
        let Some(Session::Fed {
            mut fed,
            period,
            head,
        }) = self.session
        else {
            return;
        };
        let periods = match self.bug {
            Some(Bug::NoPeriod) => 0,
            Some(Bug::OnePeriodEarly) => 1,
            _ => 2,
        };
        let may_go_live = self.period >= period + periods;
        // With the bug, the head is that of the step before.
        let goal = match head {
            Some(head) if self.has(Bug::HeadBeforePeriod) => head,
            _ => self.head,
        };
        if !self.has(Bug::GapOnce) {
            fed = self.reset_if_lost(fed);
        }
        let missed: Vec<_> = self.stored.iter().copied().collect();
        let missed = missed.into_iter().filter(|&at| at > fed && at <= goal);
        let room = self.dice.roll(3);
        let missed: Vec<_> = missed.take(room + 1).collect();
        let has_more = missed.len() > room;
        for &position in missed.iter().take(room) {
            let complete = position;
            self.client
                .wire
                .push_back(Frame::Event { position, complete });
            fed = position;
        }
        if !has_more {
            fed = fed.max(goal);
        }
        let is_live = match self.has(Bug::LiveBehindHead) {
            true => may_go_live,
            false => may_go_live && !has_more,
        };
        let head = Some(self.head);
        self.session = Some(match is_live {
            true => Session::Live { fed, taken: false },
            false => Session::Fed { fed, period, head },
        });
        if self.has(Bug::ForgottenEarly) {
            self.settle();
        }
    }

    fn heartbeat(&mut self) {
        let is_live = match self.session {
            Some(Session::Live { .. }) => true,
            Some(Session::Fed { .. }) => self.has(Bug::HeartbeatWhileFed),
            _ => false,
        };
        let is_pending = self
            .oldest(true)
            .is_some_and(|oldest| oldest <= self.turn_head);
        if is_live && (!is_pending || self.has(Bug::HeartbeatInSweep)) {
            self.client.wire.push_back(Frame::Cursor(self.turn_head));
        }
    }
}
