//! The content of the terminal, and the actions of keys.
//!
//! Draws on any backend and reads no terminal, so that it can be tested without one.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::top::view::View;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

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

    /// Draws everything.
    pub(super) fn render(&mut self, frame: &mut Frame<'_>) {
        let [top, body, bottom] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let title = self.title();
        let lines = self.body(usize::from(body.height));
        frame.render_widget(Line::from(title.clone()).reversed(), top);
        let styled = lines.iter().map(|line| {
            let style = match picture::is_title(line) {
                true => Style::new().bold(),
                false => Style::new(),
            };
            Line::styled(line.clone(), style)
        });
        frame.render_widget(Paragraph::new(styled.collect::<Vec<_>>()), body);
        frame.render_widget(Line::from(HINT).dim(), bottom);
        self.last = lines;
        self.last.insert(0, title);
        if self.help {
            render_help(frame);
        }
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

/// Draws the help over the middle of the picture.
fn render_help(frame: &mut Frame<'_>) {
    let width = HELP.iter().map(|line| line.len()).max().unwrap_or(0) + 4;
    let size = Rect::new(0, 0, width as u16, HELP.len() as u16 + 2);
    let area = frame.area();
    let (x, y) = (
        area.width.saturating_sub(size.width) / 2,
        area.height.saturating_sub(size.height) / 2,
    );
    let place = Rect::new(x, y, size.width, size.height).intersection(area);
    let lines = HELP.map(|line| Line::from(format!(" {line}")));
    frame.render_widget(Clear, place);
    let help = Paragraph::new(lines.to_vec()).block(Block::bordered().title(" keys "));
    frame.render_widget(help, place);
}
