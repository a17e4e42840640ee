use std::collections::BTreeMap;

use client::top::view::{PushView, Row, SessionsRow};

use super::*;

fn row(connections: u64) -> Row {
    Row {
        polls_per_second: 10.0,
        events_per_poll: Some(1.0),
        polls_by_events_per_second: BTreeMap::from([("1".to_owned(), 10.0)]),
        busy: 0.5,
        waiting: 0.5,
        stages: BTreeMap::from([("accept".to_owned(), 0.5)]),
        system_calls_per_second: BTreeMap::from([("recv".to_owned(), 9.0)]),
        connections,
        accepts_per_second: 0.0,
        refusals_per_second: BTreeMap::new(),
        closes_per_second: None,
        bytes_in_per_second: 0.0,
        bytes_out_per_second: 0.0,
        mailbox_messages: 0,
        sessions: Some(SessionsRow {
            sessions: connections,
            deliveries_per_second: BTreeMap::new(),
            mailbox_bytes: 0,
            backlog_sessions: 0,
            backlog_bytes: 0,
        }),
        relay: None,
        requests: None,
    }
}

/// A server whose worker `n` has `1000 + n` connections.
fn view(workers: u64, online: u64) -> Box<View> {
    Box::new(View {
        seconds: 1.0,
        program: "serve".to_owned(),
        epoch: "e".to_owned(),
        version: "0.1.0".to_owned(),
        uptime_seconds: 60.0,
        draining: false,
        push: Some(PushView {
            online,
            publishes_per_second: BTreeMap::new(),
            publishes_pending: 0,
            slowest: Some(Vec::new()),
            slow: Vec::new(),
        }),
        totals: row(9999),
        workers: (0..workers).map(|number| row(1000 + number)).collect(),
        backends: None,
        nodes: None,
    })
}

struct Bench {
    size: (usize, usize),
    display: Display,
    interval: Interval,
}

impl Bench {
    fn new(width: usize, height: usize) -> Self {
        let interval = Interval::new(Duration::from_secs(1));
        Self {
            size: (width, height),
            display: Display::new("http://server", interval.clone()),
            interval,
        }
    }

    fn with(mut self, view: Box<View>) -> Self {
        self.display.set_view(view);
        self
    }

    fn press(&mut self, code: KeyCode) {
        let pressed = self.display.press(KeyEvent::from(code));
        assert!(pressed.is_continue(), "{code:?} ends it");
    }

    /// Returns the lines of the terminal.
    fn lines(&mut self) -> Vec<String> {
        let (width, height) = self.size;
        let lines = self.display.render(width, height);
        assert_eq!(lines.len(), height);
        for (line, _) in &lines {
            assert_eq!(line.chars().count(), width, "{line}");
        }
        let lines = lines.iter().map(|(line, _)| line.trim_end().to_owned());
        lines.collect()
    }

    /// Returns the numbers of the workers in the first table.
    fn workers(&mut self) -> Vec<usize> {
        let lines = self.lines();
        let table = lines.iter().skip_while(|line| !line.starts_with("worker"));
        let rows = table.skip(1).take_while(|line| !line.starts_with("all"));
        rows.map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
            .collect()
    }
}

#[test]
fn every_table_and_the_hint_fit_a_terminal_of_24_lines() {
    let lines = Bench::new(80, 24).with(view(2, 7)).lines();
    assert!(lines[0].starts_with("http://server"), "{lines:#?}");
    assert!(lines[1].contains("ids online: 7"), "{lines:#?}");
    for title in ["worker", "time", "calls/s", "polls of"] {
        assert!(lines.iter().any(|line| line.starts_with(title)), "{title}");
    }
    assert!(lines[23].starts_with("q quit"), "{lines:#?}");
}

#[test]
fn titles_stand_out() {
    let mut bench = Bench::new(80, 24).with(view(1, 7));
    let lines = bench.display.render(80, 24);
    let title = lines
        .iter()
        .position(|(line, _)| line.starts_with("worker"));
    let title = title.unwrap();
    let styles = [0, title, title + 1, 23].map(|line| lines[line].1);
    assert_eq!(
        styles,
        [
            Attribute::Reverse,
            Attribute::Bold,
            Attribute::Reset,
            Attribute::Dim
        ]
    );
}

#[test]
fn what_a_terminal_would_act_upon_is_not_shown() {
    let mut bench = Bench::new(80, 24).with(view(1, 7));
    bench
        .display
        .set_notice("gone\u{1b}[2J\u{9b}5m: \r\n".to_owned());
    assert_eq!(bench.lines()[0], "gone[2J5m:");
}

#[test]
fn arrows_and_pages_reach_every_worker_and_no_further() {
    // 2 lines for the address and the hint, 14 around the tables: 3 rows of 10 workers.
    let mut bench = Bench::new(80, 28).with(view(10, 0));
    assert_eq!(bench.workers().len(), 3);
    bench.press(KeyCode::Down);
    assert_eq!(bench.workers(), [0, 1, 2]);
    bench.press(KeyCode::Down);
    assert_eq!(bench.workers(), [1, 2, 3]);
    bench.press(KeyCode::PageDown);
    assert_eq!(bench.workers(), [4, 5, 6]);
    for _ in 0..3 {
        bench.press(KeyCode::PageDown);
    }
    assert_eq!(bench.workers(), [7, 8, 9]);
    bench.press(KeyCode::Up);
    assert_eq!(bench.workers(), [6, 7, 8]);
    for _ in 0..3 {
        bench.press(KeyCode::PageUp);
    }
    assert_eq!(bench.workers(), [0, 1, 2]);
}

#[test]
fn home_shows_the_busiest_again() {
    let mut busy = view(10, 0);
    busy.workers[8].busy = 1.0;
    let mut bench = Bench::new(80, 24).with(busy);
    assert!(bench.workers().contains(&8));
    bench.press(KeyCode::Down);
    assert!(!bench.workers().contains(&8));
    bench.press(KeyCode::Home);
    assert!(bench.workers().contains(&8));
}

#[test]
fn another_size_shows_as_many_workers_as_fit() {
    let mut bench = Bench::new(80, 28).with(view(10, 0));
    assert_eq!(bench.workers().len(), 3);
    bench.press(KeyCode::Down);
    for _ in 0..3 {
        bench.press(KeyCode::PageDown);
    }
    assert_eq!(bench.workers(), [7, 8, 9]);
    bench.size = (80, 60);
    assert_eq!(bench.workers(), (0..10).collect::<Vec<_>>());
    bench.size = (10, 3);
    assert_eq!(bench.lines().len(), 3);
    bench.size = (1, 1);
    assert_eq!(bench.lines().len(), 1);
}

#[test]
fn a_paused_display_stays_and_catches_up() {
    let mut bench = Bench::new(80, 24).with(view(1, 7));
    bench.press(KeyCode::Char(' '));
    bench.display.set_view(view(1, 8));
    let lines = bench.lines();
    assert!(
        lines[0].ends_with("paused") && lines[1].contains("ids online: 7"),
        "{lines:#?}"
    );
    bench.press(KeyCode::Char(' '));
    bench.display.set_view(view(1, 9));
    let lines = bench.lines();
    assert!(
        !lines[0].contains("paused") && lines[1].contains("ids online: 9"),
        "{lines:#?}"
    );
}

#[test]
fn the_interval_doubles_and_halves_within_its_limits() {
    let mut bench = Bench::new(80, 24);
    bench.press(KeyCode::Char('+'));
    assert_eq!(bench.interval.get(), Duration::from_secs(2));
    for _ in 0..20 {
        bench.press(KeyCode::Char('+'));
    }
    assert_eq!(bench.interval.get(), INTERVAL_MAX);
    for _ in 0..20 {
        bench.press(KeyCode::Char('-'));
    }
    assert_eq!(bench.interval.get(), INTERVAL_MIN);
    // What the command line asked for is not made shorter by a key that makes it longer.
    bench.interval.set(INTERVAL_MAX * 10);
    bench.press(KeyCode::Char('+'));
    assert_eq!(bench.interval.get(), INTERVAL_MAX * 10);
}

#[test]
fn help_lies_over_the_picture_until_it_is_asked_again() {
    let mut bench = Bench::new(80, 24).with(view(1, 7));
    let shown = |lines: &[String]| lines.iter().any(|line| line.contains("PgUp, PgDn"));
    bench.press(KeyCode::Char('?'));
    assert!(shown(&bench.lines()));
    bench.size = (20, 5);
    bench.lines();
    bench.size = (1, 1);
    bench.lines();
    bench.size = (80, 24);
    bench.press(KeyCode::Char('?'));
    assert!(!shown(&bench.lines()));
}

#[test]
fn a_notice_stands_above_the_last_view_until_the_next() {
    let mut bench = Bench::new(80, 24);
    assert!(bench.lines()[0].contains("waiting for a second sample"));
    bench.display.set_view(view(1, 7));
    bench
        .display
        .set_notice("no answer; trying again".to_owned());
    let lines = bench.lines();
    assert!(lines[0].starts_with("no answer") && lines[1].contains("ids online: 7"));
    bench.display.set_view(view(1, 8));
    assert!(bench.lines()[0].starts_with("http://server"));
}

#[test]
fn only_q_escape_and_control_c_end_it() {
    let mut display = Bench::new(80, 24).display;
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for key in [
        KeyEvent::from(KeyCode::Char('q')),
        KeyEvent::from(KeyCode::Esc),
        control_c,
    ] {
        assert!(display.press(key).is_break(), "{key:?}");
    }
    for code in [KeyCode::Char('c'), KeyCode::Enter, KeyCode::Char('x')] {
        assert!(
            display.press(KeyEvent::from(code)).is_continue(),
            "{code:?}"
        );
    }
}
