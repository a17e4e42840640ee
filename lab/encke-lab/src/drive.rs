//! `encke-lab drive`: publishes events at a rate, and reports their receipts and latencies.

/// Arguments of the command.
pub(crate) mod arguments;

use std::time::Duration;

use cli::failure::Failure;
use cli::progress;
use cli::units::human_count;
use client::http::Url;
use load::drive::{
    Endpoint, LATE_NANOS, Options, Pace, Payload, Progress, Report, TargetDistribution, Template,
};
use load::latency::Latency;
use machine::interrupt::Interrupt;

use arguments::{DriveArguments, Targets};

/// Default of the largest id: the number of users of `encke-lab prove`.
const MAX_ID: u32 = 1_000_000;

/// Default of the duration.
const DURATION: Duration = Duration::from_secs(60);

/// Default of the connections, where each has one request in flight.
const CONNECTIONS: u32 = 64;

/// Publishes events and prints the report.
pub(crate) fn run(arguments: &DriveArguments) -> Result<(), Failure> {
    let options = options(arguments)?;
    options.check().map_err(Failure::misused)?;
    let interrupt = Interrupt::catch()?;
    let bar = progress::ProgressBar::of(0, "events");
    let report = load::drive::run(&options, &interrupt, |progress| {
        bar.length(progress.length);
        bar.reach(progress.events.sent);
        bar.say(live(progress));
    });
    bar.end();
    let report = report?;
    arguments.report.print(&report, || text(&report))?;
    for failure in &report.failures {
        eprintln!("error: {}", failure.sentence);
    }
    report
        .failure()
        .map_or(Ok(()), |sentence| Err(Failure::failed(sentence)))
}

fn options(arguments: &DriveArguments) -> Result<Options, Failure> {
    let (url, way) = way(arguments)?;
    let pace = match (arguments.rate, arguments.senders, arguments.interval) {
        (None, Some(senders), Some(interval)) => Pace::Senders { senders, interval },
        (rate, ..) => Pace::Rate(rate.unwrap_or_default()),
    };
    let payload = match (&arguments.template, arguments.size) {
        (Some(template), _) => Payload::template(template),
        (None, Some(size)) => Payload::sized(size).map_err(Failure::misused)?,
        (None, None) => Payload::stamp(),
    };
    let connections = match way {
        Endpoint::Batch => 1,
        Endpoint::Request | Endpoint::Url { .. } => CONNECTIONS,
    };
    Ok(Options {
        url,
        others: Vec::new(),
        authorities: arguments.control.authorities(),
        token: match arguments.url {
            // The token is for the control listener alone.
            Some(_) => None,
            None => arguments.control.token()?,
        },
        way,
        connections: arguments.connections.unwrap_or(connections),
        pace,
        duration: match (arguments.duration, arguments.count) {
            (None, None) => Some(DURATION),
            (duration, _) => duration,
        },
        count: arguments.count,
        draw: draw(arguments),
        seed: arguments.seed,
        payload,
        reconnects: arguments.reconnect,
        log: arguments.log.clone(),
    })
}

/// Returns the URL and the endpoint to which events are sent.
fn way(arguments: &DriveArguments) -> Result<(String, Endpoint), Failure> {
    let Some(template) = &arguments.url else {
        let way = match arguments.per_request {
            true => Endpoint::Request,
            false => Endpoint::Batch,
        };
        return Ok((arguments.control.control.clone(), way));
    };
    let url = Url::parse(template).map_err(Failure::misused)?;
    let way = Endpoint::Url {
        path: Template::new(url.path()),
        method: arguments.method.name(),
    };
    let scheme = if url.is_secure() { "https" } else { "http" };
    Ok((format!("{scheme}://{}", url.authority()), way))
}

fn draw(arguments: &DriveArguments) -> TargetDistribution {
    let max_id = arguments.max_id.unwrap_or(MAX_ID);
    match (arguments.targets, &arguments.graph) {
        (Targets::Degree, Some(graph)) => TargetDistribution::Degree {
            graph: graph.clone(),
            max_id: arguments.max_id.unwrap_or(load::friends::USERS_MAX),
        },
        (Targets::Zipf, _) => TargetDistribution::Zipf {
            max_id,
            exponent: arguments.exponent,
        },
        _ => TargetDistribution::Uniform { max_id },
    }
}

/// Returns the progress line of one second.
fn live(progress: &Progress) -> String {
    let Progress {
        seconds,
        events,
        late,
        recent,
        ..
    } = progress;
    let failed = events.refused + events.lost;
    format!(
        "{seconds:4.0} s: {}/s accepted, {} in all; {} late, {} waiting, {} failed; p50 {}, p99 {}",
        human_count(recent.count),
        human_count(events.accepted),
        human_count(*late),
        human_count(events.unsent),
        human_count(failed),
        millis(recent.p50_us),
        millis(recent.p99_us),
    )
}

/// Returns the report as text.
fn text(report: &Report) -> String {
    let Report {
        url,
        seconds,
        interrupted,
        events,
        reconnects,
        rate,
        receipts,
        latency,
        cpu_seconds,
        ..
    } = report;
    let stopped = if *interrupted { ", interrupted" } else { "" };
    let count = human_count;
    format!(
        "drove {url} for {seconds:.1} s{stopped}\n\
         events    {} due, {} sent, {} accepted, {} refused, {} lost, {} unsent\n\
         rate      asked {:.1}/s, reached {:.1}/s; {} sent more than {} ms late ({})\n\
         receipts  {} subscribers, {} online, {} written, {} queued, {} shed\n\
         latency   {}, from due to receipt\n\
         mean      {}\n\
         processor {cpu_seconds:.2} s{}",
        count(events.due),
        count(events.sent),
        count(events.accepted),
        count(events.refused),
        count(events.lost),
        count(events.unsent),
        rate.asked,
        rate.reached,
        count(rate.late),
        LATE_NANOS / 1_000_000,
        times(&rate.lateness),
        count(receipts.subscribers),
        count(receipts.online),
        count(receipts.written),
        count(receipts.queued),
        count(receipts.shed),
        times(latency),
        spread(latency),
        match reconnects {
            0 => String::new(),
            _ => format!("\nreconnects {}", count(*reconnects)),
        },
    )
}

fn times(times: &Latency) -> String {
    format!(
        "min {}, p50 {}, p95 {}, p99 {}, p99.9 {}, max {}",
        millis(times.min_us),
        millis(times.p50_us),
        millis(times.p95_us),
        millis(times.p99_us),
        millis(times.p999_us),
        millis(times.max_us),
    )
}

/// Returns the mean and the standard deviation of all times, and of those up to two percentiles.
fn spread(times: &Latency) -> String {
    format!(
        "{} (standard deviation {}); of the shortest 95 %: {} ({}), of 99 %: {} ({})",
        millis(times.mean_us),
        millis(times.stdev_us),
        millis(times.p95_mean_us),
        millis(times.p95_stdev_us),
        millis(times.p99_mean_us),
        millis(times.p99_stdev_us),
    )
}

/// Formats microseconds as milliseconds with about three digits.
fn millis(micros: f64) -> String {
    let millis = micros / 1000.0;
    match millis {
        millis if millis < 10.0 => format!("{millis:.2} ms"),
        millis if millis < 100.0 => format!("{millis:.1} ms"),
        millis => format!("{millis:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let texts = [350.4, 12_345.0, 1_234_567.0].map(millis);
        assert_eq!(texts, ["0.35 ms", "12.3 ms", "1235 ms"]);
    }
}
