//! How far a command is: a bar on standard error where that is a terminal, nothing elsewhere.

use indicatif::ProgressStyle;

/// Redraws a second.
const REDRAWS: u8 = 10;

/// A bar that goes away in the end.
#[derive(Debug)]
pub(crate) struct ProgressBar(indicatif::ProgressBar);

impl ProgressBar {
    /// The bar of something that is done when `length` things, called `what`, are.
    pub(crate) fn of(length: u64, what: &str) -> Self {
        let bar = indicatif::ProgressBar::new(length);
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(REDRAWS));
        bar.set_style(
            ProgressStyle::with_template(
                "{wide_bar} {human_pos} of {human_len} {prefix}, {eta} left",
            )
            .expect("the template is right"),
        );
        bar.set_prefix(what.to_owned());
        Self(bar)
    }

    /// So many are done.
    pub(crate) fn reach(&self, done: u64) {
        self.0.set_position(done);
    }

    /// There are so many in all.
    pub(crate) fn length(&self, length: u64) {
        self.0.set_length(length);
    }

    /// Says a line on standard error, above the bar.
    pub(crate) fn say(&self, line: impl std::fmt::Display) {
        self.0.suspend(|| eprintln!("{line}"));
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
