//! The content of the terminal, and the actions of keys.
//!
//! Returns lines and reads no terminal, so that it can be tested without one.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::top::view::View;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use crossterm::style::Attribute;

use super::picture::{self, Workers};

/// The shortest interval. The server reports its time in milliseconds.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The longest interval that `+` sets.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The last line.
const HINT: &str = "q quit  ? help  arrows scroll  space pause  + - interval";

/// The help that `?` shows.
const HELP: [&str; 8] = [
    "q, Esc, Ctrl-C   quit",
    "Up, Down         scroll the workers by one",
    "PgUp, PgDn       scroll the workers by a page",
    "Home             show the busiest workers again",
    "Space            pause, go on",
    "+                twice the interval",
    "-                half the interval",
    "?                show or hide this help",
];

/// The time between samples, shared with the thread that takes them.
#[derive(Debug, Clone)]
pub(super) struct Interval(Arc<AtomicU64>);

impl Interval {
    pub(super) fn new(interval: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(millis(interval))))
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, interval: Duration) {
        self.0.store(millis(interval), Ordering::Relaxed);
    }
}

fn millis(interval: Duration) -> u64 {
    u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)
}

/// The state of the display.
#[derive(Debug)]
pub(super) struct Display {
    url: String,
    interval: Interval,
    /// The view that is shown.
    view: Option<Box<View>>,
    /// A sentence that takes the place of the address until the next view.
    notice: Option<String>,
    /// The first worker shown; `None` to show the busiest ones.
    first: Option<usize>,
    /// Rows of workers at the last rendering.
    rows: usize,
    paused: bool,
    help: bool,
    /// Lines shown last.
    last: Vec<String>,
}

impl Display {
    /// Returns a display of the server at `url` without a view.
    pub(super) fn new(url: &str, interval: Interval) -> Self {
        Self {
            url: url.to_owned(),
            interval,
            view: None,
            notice: Some("waiting for a second sample".to_owned()),
            first: None,
            rows: 1,
            paused: false,
            help: false,
            last: Vec::new(),
        }
    }

    /// Sets the view, unless paused.
    pub(super) fn set_view(&mut self, view: Box<View>) {
        self.notice = None;
        if !self.paused {
            self.view = Some(view);
        }
    }

    /// Shows a sentence until the next view.
    pub(super) fn set_notice(&mut self, sentence: String) {
        self.notice = Some(sentence);
    }

    /// Handles a key. Breaks if it ends the command.
    pub(super) fn press(&mut self, key: KeyEvent) -> ControlFlow<()> {
        let page = self.rows.max(1);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return ControlFlow::Break(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return ControlFlow::Break(());
            }
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('+') => {
                let interval = self.interval.get();
                self.interval
                    .set((interval * 2).min(INTERVAL_MAX.max(interval)));
            }
            KeyCode::Char('-') => self
                .interval
                .set((self.interval.get() / 2).max(INTERVAL_MIN)),
            KeyCode::Home => self.first = None,
            KeyCode::Up => self.scroll(|first| first.saturating_sub(1)),
            KeyCode::Down => self.scroll(|first| first + 1),
            KeyCode::PageUp => self.scroll(|first| first.saturating_sub(page)),
            KeyCode::PageDown => self.scroll(|first| first + page),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// Moves the window of workers. The first call leads from the busiest workers to the first
    /// ones.
    fn scroll(&mut self, to: impl FnOnce(usize) -> usize) {
        let workers = self.view.as_ref().map_or(0, |view| view.workers.len());
        let last = workers.saturating_sub(self.rows);
        self.first = match self.first {
            None => Some(0),
            Some(first) => Some(to(first).min(last)),
        };
    }

    /// Returns the lines of a terminal of this size, each with how it is drawn.
    pub(super) fn render(&mut self, width: usize, height: usize) -> Vec<(String, Attribute)> {
        let title = self.title();
        let body = self.body(height.saturating_sub(2));
        let mut lines = vec![(title.clone(), Attribute::Reverse)];
        lines.extend(body.iter().map(|line| {
            let style = match picture::is_title(line) {
                true => Attribute::Bold,
                false => Attribute::Reset,
            };
            (line.clone(), style)
        }));
        lines.truncate(height.saturating_sub(1).max(1));
        lines.resize(
            height.saturating_sub(1).max(1),
            (String::new(), Attribute::Reset),
        );
        lines.push((HINT.to_owned(), Attribute::Dim));
        lines.truncate(height);
        self.last = body;
        self.last.insert(0, title);
        if self.help {
            cover_with_help(&mut lines, width);
        }
        for (text, _) in &mut lines {
            *text = fitted(text, width);
        }
        lines
    }

    /// Returns the lines that were shown last, without the hint.
    pub(super) fn last_lines(&self) -> &[String] {
        &self.last
    }

    fn title(&self) -> String {
        if let Some(notice) = &self.notice {
            return notice.clone();
        }
        let paused = if self.paused { ", paused" } else { "" };
        let every = self.interval.get().as_secs_f64();
        format!("{}, sampled every {every:.1} s{paused}", self.url)
    }

    fn body(&mut self, height: usize) -> Vec<String> {
        let Some(view) = &self.view else {
            return Vec::new();
        };
        self.rows = picture::rows_that_fit(height, view);
        let rows = self.rows;
        let workers = match self.first {
            None => Workers::Busiest(rows),
            // In a larger window the last worker stays at its end.
            Some(first) => Workers::From {
                first: first.min(view.workers.len().saturating_sub(rows)),
                rows,
            },
        };
        picture::lines(view, workers)
    }
}

/// Returns `text` without what a terminal would act upon, in exactly `width` columns.
fn fitted(text: &str, width: usize) -> String {
    let shown: String = text
        .chars()
        .filter(|it| !it.is_control())
        .take(width)
        .collect();
    let missing = width - shown.chars().count();
    shown + &" ".repeat(missing)
}

/// Lays the help over the middle of the picture.
fn cover_with_help(lines: &mut [(String, Attribute)], width: usize) {
    let inner = HELP.iter().map(|line| line.len()).max().unwrap_or(0) + 2;
    let top = format!("┌{:─<inner$}┐", " keys ");
    let bottom = format!("└{:─<inner$}┘", "");
    let rows = HELP.iter().map(|line| format!("│ {line:<0$}│", inner - 1));
    let box_lines: Vec<String> = [top].into_iter().chain(rows).chain([bottom]).collect();
    let left = width.saturating_sub(inner + 2) / 2;
    let above = lines.len().saturating_sub(box_lines.len()) / 2;
    for ((text, style), cover) in lines[above..].iter_mut().zip(box_lines) {
        let before = fitted(text, left);
        let after: String = text.chars().skip(left + inner + 2).collect();
        (*text, *style) = (format!("{before}{cover}{after}"), Attribute::Reset);
    }
}
