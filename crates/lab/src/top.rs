//! What a running server is at: its counters read twice, and what happened in between.
//!
//! Must never ask a server for more than a scrape of its metrics would, but for its slowest readers, and
//! for those only when it has some.

/// What the server counts, as it says so.
pub mod reading;
/// What happened between two readings, by the second.
pub mod view;

use std::time::Duration;

use serde_json::Value;

use crate::control_client::Control;
use crate::failure::Outcome;

use reading::Reading;
use view::View;

/// How long a server may take to answer before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Slow readers that are asked for.
const SLOWEST_MAX: usize = 10;

/// Looks at one server again and again.
#[derive(Debug)]
pub struct Watch {
    control: Control,
    before: Option<Reading>,
}

/// What a look has shown.
#[derive(Debug)]
pub enum Look {
    /// What happened since the look before.
    View(Box<View>),
    /// The server is another than at the look before, or this was the first: the next will tell.
    First,
}

impl Watch {
    /// Nothing is looked at yet.
    pub fn new(mut control: Control) -> Self {
        control.set_patience(PATIENCE);
        Self {
            control,
            before: None,
        }
    }

    /// Reads the server's counters.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, refuses, or does not count what this program shows. The
    /// next look that succeeds is a first one again.
    pub fn look(&mut self) -> Outcome<Look> {
        let before = self.before.take();
        let now = Reading::parse(self.control.stats()?)?;
        let view = before.and_then(|before| View::between(&before, &now));
        self.before = Some(now);
        let Some(mut view) = view else {
            return Ok(Look::First);
        };
        if view.totals.backlog_sessions > 0 {
            view.slowest = self.slowest()?;
        }
        Ok(Look::View(Box::new(view)))
    }

    fn slowest(&mut self) -> Outcome<Vec<Value>> {
        match self.control.slowest(SLOWEST_MAX)?["sessions"].take() {
            Value::Array(sessions) => Ok(sessions),
            _ => Ok(Vec::new()),
        }
    }
}
