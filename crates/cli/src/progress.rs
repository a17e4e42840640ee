//! Progress of a command: a bar on standard error if that is a terminal.

use indicatif::ProgressStyle;

/// Redraws a second at most.
const REDRAWS: u8 = 10;

/// A progress bar that is removed at the end.
#[derive(Debug)]
pub struct ProgressBar(indicatif::ProgressBar);

impl ProgressBar {
    /// Returns a bar for `length` units of `what`.
    pub fn of(length: u64, what: &str) -> Self {
        let bar = indicatif::ProgressBar::new(length);
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(REDRAWS));
        bar.set_style(
            ProgressStyle::with_template(
                "{wide_bar} {human_pos} of {human_len} {prefix}, {eta} left",
            )
            .expect("the template is valid"),
        );
        bar.set_prefix(what.to_owned());
        Self(bar)
    }

    /// Sets the number of units that are done.
    pub fn reach(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Sets the number of units in all.
    pub fn length(&self, length: u64) {
        self.0.set_length(length);
    }

    /// Prints a line to standard error, above the bar.
    pub fn say(&self, line: impl std::fmt::Display) {
        self.0.suspend(|| eprintln!("{line}"));
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
