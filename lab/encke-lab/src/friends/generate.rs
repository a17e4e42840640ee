//! `encke-lab friends generate`: generates a social graph. The edge list goes to a file or to
//! standard output, its statistics to standard error.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use cli::failure::Failure;
use cli::output;
use cli::progress::ProgressBar;
use cli::units::human_count;
use load::friends::{End, Options, Report};
use machine::interrupt::Interrupt;

use super::GenerateArguments;
use crate::output_file::unwritable;

/// Width of the longest bar of the histogram, in characters.
const BAR_COLUMNS: f64 = 40.0;

/// Generates a graph.
pub(super) fn run(arguments: &GenerateArguments) -> Result<(), Failure> {
    let options = arguments.graph;
    let checked = options.check(arguments.around);
    checked.map_err(Failure::misused)?;
    let path = &arguments.output;
    let to_standard_output = path == Path::new("-");
    let end = if to_standard_output {
        write(arguments.around, options, &mut io::stdout().lock())?
    } else {
        let mut file = File::create(path).map_err(|error| unwritable(path, &error))?;
        write(arguments.around, options, &mut file)?
    };
    let End::Written(report) = end else {
        return Ok(());
    };
    match (arguments.report.json, to_standard_output) {
        (false, _) => eprint!("{}", text(&report)),
        (true, true) => eprintln!("{}", output::as_json(&report)?),
        (true, false) => drop(output::json(&report)?),
    }
    if let Some(path) = &arguments.plot {
        draw(&report, path)?;
    }
    if report.made < options.users {
        return Err(Failure::failed(format_args!(
            "interrupted after {} of {} users: the list is incomplete",
            human_count(report.made.into()),
            human_count(options.users.into())
        )));
    }
    Ok(())
}

fn draw(report: &Report, path: &Path) -> Result<(), Failure> {
    let picture = match &report.neighbourhood {
        Some(neighbourhood) => load::friends::neighbourhood::svg(neighbourhood)?,
        None => load::friends::picture::svg(report)?,
    };
    fs::write(path, picture).map_err(|error| unwritable(path, &error))
}

fn write(around: Option<u32>, options: Options, out: &mut impl Write) -> Result<End, Failure> {
    let interrupt = Interrupt::catch()?;
    let progress = ProgressBar::of(options.users.into(), "users");
    let end = load::friends::write(options, around, out, |users| {
        progress.reach(users.into());
        !interrupt.asked()
    })?;
    progress.end();
    Ok(end)
}

/// Returns the report as text.
fn text(report: &Report) -> String {
    let degrees = &report.degrees;
    let mut text = format!(
        "{} users, {} friendships, {} of text in {:.1} s\n\
         friends of a user: min {}, median {}, mean {:.2}, p99 {}, max {}\n",
        human_count(report.made.into()),
        human_count(report.edges),
        cli::units::human_size(report.bytes),
        report.seconds,
        degrees.min,
        degrees.median,
        degrees.mean,
        degrees.p99,
        degrees.max,
    );
    let most = degrees.histogram.iter().map(|bin| bin.users).max();
    for bin in &degrees.histogram {
        let range = format!("{}-{}", bin.from, bin.to);
        let share = bin.users as f64 / most.unwrap_or(1).max(1) as f64;
        // Rounded up: a bin with a single user is visible beside one with a million.
        let columns = (share * BAR_COLUMNS).ceil() as usize;
        let bar = "#".repeat(columns);
        let users = human_count(bin.users);
        text += &format!("  {range:>15}  {users:>11}  {bar}\n");
    }
    text += &match &degrees.power_law {
        Some(law) => format!(
            "power law: exponent {:.3} +- {:.3}, fitted to the {} users with {} friends or more; \
             theory predicts 3\n",
            law.exponent,
            law.error,
            human_count(law.users),
            law.from,
        ),
        None => "power law: not fitted, because too few users have many friends\n".to_owned(),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_the_statistics_of_the_graph() {
        let options = Options {
            users: 2000,
            degree: 5,
            seed: 1,
        };
        let Ok(End::Written(report)) =
            load::friends::write(options, None, &mut io::sink(), |_| true)
        else {
            panic!("a sink takes all");
        };
        let text = text(&report);
        assert!(
            text.starts_with("2,000 users, 9,985 friendships, "),
            "{text}"
        );
        assert!(
            text.contains("friends of a user: min 5, median 7, mean 9.98"),
            "{text}"
        );
        assert!(text.contains("\n              4-7 "), "{text}");
        assert!(text.contains("theory predicts 3\n"), "{text}");
    }
}
