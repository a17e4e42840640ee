//! Findings about memory: what the connections need, and what is available.

use super::readings::Readings;
use super::{Finding, Remedy, Severity, Workload};
use crate::humanize::{count, size};
use crate::measured::{CLIENT_BYTES, KERNEL_END_BYTES, SESSION_BYTES};

/// Part of the available memory that connections may take. Beyond it, little is left for traffic.
const COMFORT: (u64, u64) = (4, 5);

/// Percentage of clients that do not read, in a bad case.
const NOT_READING_PERCENT: u64 = 1;

/// Send buffer that is large enough: some hundred events.
const SEND_BUFFER_ENOUGH: u64 = 262_144;

/// Send buffer that the server requests, unless `--backlog-bytes` is larger.
const SEND_BUFFER_ASKED: u64 = 262_144;

/// Default limit of the kernel for requested receive buffers. The server requests none.
const RECEIVE_BUFFER_ASKED: u64 = 212_992;

/// Free memory to reserve for each connection, for packets that arrive in a burst.
const RESERVE_BYTES_EACH: u64 = 128;

/// Reserve that is enough for any number of connections: one burst of a fast network.
const RESERVE_ENOUGH: u64 = 128 << 20;

/// At most one part in this many of a machine's memory is reserved.
const RESERVE_PART: u64 = 50;

/// Swappiness up to which the kernel evicts file pages first.
const SWAPPINESS_ENOUGH: u64 = 10;

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

pub(super) fn findings(readings: &Readings, wanted: &Workload) -> Vec<Finding> {
    [
        idle(readings, wanted),
        Some(control_group(readings, wanted)),
        queues(readings, wanted),
        send_buffers(readings, wanted),
        asked_buffers(readings),
        reserve(readings, wanted),
        swap(readings),
        huge_pages(readings),
        overcommit(readings, wanted),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Predicted memory of idle connections.
struct Prediction {
    kernel: u64,
    ours: u64,
}

impl Prediction {
    fn of(wanted: &Workload) -> Self {
        let clients = if wanted.both_ends {
            wanted.connections * CLIENT_BYTES
        } else {
            0
        };
        Self {
            kernel: wanted.ends() * KERNEL_END_BYTES,
            ours: wanted.connections * SESSION_BYTES + clients,
        }
    }

    fn whole(&self) -> u64 {
        self.kernel + self.ours
    }

    fn describe(&self) -> String {
        let (whole, kernel, ours) = (size(self.whole()), size(self.kernel), size(self.ours));
        format!("{whole}: {kernel} for the kernel's sockets, {ours} for the processes")
    }
}

/// Rates the finding if `needed` bytes must come out of `left`.
fn rate(finding: Finding, needed: u64, left: u64) -> Finding {
    let (part, whole) = COMFORT;
    finding
        .when(needed > left / whole * part, Severity::Advice)
        .when(needed > left, Severity::Blocker)
}

fn idle(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let available = readings.memory_available?;
    let needed = Prediction::of(wanted);
    let finding = Finding::new(
        "memory",
        "predicted for idle connections, without data in queues; when memory runs out, the kernel \
         kills processes",
    )
    .found(match readings.memory_total {
        Some(total) => format!("{} available of {}", size(available), size(total)),
        None => format!("{} available", size(available)),
    })
    .needed(needed.describe());
    Some(
        rate(finding, needed.whole(), available)
            .remedy(|| Remedy::advice("more memory, or fewer connections")),
    )
}

fn control_group(readings: &Readings, wanted: &Workload) -> Finding {
    let finding = Finding::new(
        "control group",
        "the kernel's sockets count against the limit of a container or unit, and beyond the \
         limit its processes are killed",
    );
    let needed = Prediction::of(wanted);
    let Some(control_group) = &readings.group else {
        return finding.found("no limit on memory").needed("none");
    };
    let finding = finding
        .found(format!(
            "{} left of {} ({})",
            size(control_group.left),
            size(control_group.limit),
            control_group.file.display()
        ))
        .needed(size(needed.whole()));
    rate(finding, needed.whole(), control_group.left).remedy(|| {
        Remedy::advice(format!(
            "MemoryMax={0} in the unit, or docker run --memory {0}",
            (control_group.limit - control_group.left) + needed.whole() / COMFORT.0 * COMFORT.1
        ))
    })
}

/// Limit on all TCP queues together.
fn queues(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let [_, pressure, most] = readings.tcp_memory?;
    // An event to all clients is in every queue at once, and a queue takes whole pages.
    let needed = wanted.ends();
    let bytes = |pages: u64| size(pages.saturating_mul(readings.page_bytes));
    Some(
        Finding::new(
            "TCP memory",
            "an event to all clients is in every socket's queue at once; under pressure the kernel \
             shrinks windows, and beyond the limit it drops connections",
        )
        .found(format!(
            "pressure from {}, at most {}",
            bytes(pressure),
            bytes(most)
        ))
        .needed(format!("{}: a page for each socket", bytes(needed)))
        .when(pressure < needed, Severity::Advice)
        .when(most < needed, Severity::Blocker)
        .remedy(|| {
            let three = format!("{needed} {} {}", needed + needed / 2, needed * 2);
            Remedy::setting("net.ipv4.tcp_mem", three)
        }),
    )
}

/// Memory that clients which do not read can pin.
fn send_buffers(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let [least, first, most] = readings.send_buffer?;
    let (left, _) = readings.memory_left()?;
    let not_reading = wanted.connections * NOT_READING_PERCENT / 100;
    let pinned = not_reading.saturating_mul(most);
    let received = match readings.receive_buffer {
        Some([_, _, received]) => format!("; received: {} each at most", size(received)),
        None => String::new(),
    };
    Some(
        Finding::new(
            "socket buffers",
            "a client that does not read fills its whole send buffer in the kernel before the \
             server notices",
        )
        .found(format!("sent: {} each at most{received}", size(most)))
        .needed(format!(
            "less than {}, where {} clients ({NOT_READING_PERCENT} in 100) do not read: now {}",
            size(left),
            count(not_reading),
            size(pinned)
        ))
        .when(pinned > left && most > SEND_BUFFER_ENOUGH, Severity::Advice)
        .remedy(|| {
            let three = format!(
                "{least} {} {SEND_BUFFER_ENOUGH}",
                first.min(SEND_BUFFER_ENOUGH)
            );
            Remedy::setting("net.ipv4.tcp_wmem", three)
        }),
    )
}

/// Limits on the buffers that a program may request: the kernel silently reduces larger requests.
fn asked_buffers(readings: &Readings) -> Option<Finding> {
    let (received, sent) = (readings.receive_buffer_asked?, readings.send_buffer_asked?);
    let (too_little_received, too_little_sent) =
        (received < RECEIVE_BUFFER_ASKED, sent < SEND_BUFFER_ASKED);
    Some(
        Finding::new(
            "buffers asked for",
            "the server requests send buffers of --backlog-bytes, and the kernel grants no more \
             than this: sockets are full sooner, and events wait in the server; the server \
             requests no receive buffers, but other programs may",
        )
        .found(format!(
            "sent: {} at most, received: {}",
            size(sent),
            size(received)
        ))
        .needed(format!(
            "{} and {}",
            size(SEND_BUFFER_ASKED),
            size(RECEIVE_BUFFER_ASKED)
        ))
        .when(too_little_received || too_little_sent, Severity::Advice)
        .remedy_if(too_little_sent, || {
            Remedy::setting("net.core.wmem_max", SEND_BUFFER_ASKED)
        })
        .remedy_if(too_little_received, || {
            Remedy::setting("net.core.rmem_max", RECEIVE_BUFFER_ASKED)
        }),
    )
}

/// Memory that the kernel keeps free for arriving packets.
fn reserve(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let (reserve, total) = (readings.memory_reserve?, readings.memory_total?);
    let needed = (wanted.ends() * RESERVE_BYTES_EACH)
        .min(RESERVE_ENOUGH)
        .min(total / RESERVE_PART);
    Some(
        Finding::new(
            "free memory",
            "a packet that finds no free memory is dropped, and sent again after 200 ms; when \
             cached files fill the memory, only this much is free for a burst",
        )
        .found(format!("the kernel keeps {} free", size(reserve)))
        .needed(size(needed))
        .when(reserve < needed, Severity::Advice)
        .remedy(|| Remedy::setting("vm.min_free_kbytes", needed.div_ceil(1024))),
    )
}

/// Swap: idle sessions look unused to the kernel.
fn swap(readings: &Readings) -> Option<Finding> {
    let (swap, swappiness) = (readings.swap_total?, readings.swappiness?);
    let finding = Finding::new(
        "swap",
        "memory of idle sessions looks unused and is swapped out, and an event to all clients \
         then reads every page of it from disk; with a low swappiness the kernel drops file pages \
         first",
    );
    if swap == 0 {
        return Some(finding.found("none").needed("nothing"));
    }
    Some(
        finding
            .found(format!("{} of swap, swappiness {swappiness}", size(swap)))
            .needed(format!("swappiness {SWAPPINESS_ENOUGH} or less"))
            .when(swappiness > SWAPPINESS_ENOUGH, Severity::Advice)
            .remedy(|| Remedy::setting("vm.swappiness", SWAPPINESS_ENOUGH)),
    )
}

fn huge_pages(readings: &Readings) -> Option<Finding> {
    let mode = readings.huge_pages.as_deref()?;
    Some(
        Finding::new(
            "huge pages",
            "with `always` a sparsely used heap is resident in steps of 2 MiB",
        )
        .found(format!("transparent huge pages: {mode}"))
        .needed("madvise or never")
        .when(mode == "always", Severity::Advice)
        .remedy(|| Remedy::Switch {
            path: HUGE_PAGES,
            word: "madvise",
        }),
    )
}

fn overcommit(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    const STRICT: u64 = 2;
    let mode = readings.overcommit?;
    let needed = Prediction::of(wanted).ours;
    let left = readings.commit_left.unwrap_or(u64::MAX);
    let finding = Finding::new(
        "overcommit",
        "if it is strict, thread stacks count in full, and a thread or an allocation may be \
         refused while memory is free",
    )
    .needed("not strict, or enough left to commit");
    Some(if mode == STRICT {
        finding
            .found(format!("strict, {} left to commit", size(left)))
            .when(true, Severity::Advice)
            .when(left < needed, Severity::Blocker)
            .remedy(|| Remedy::setting("vm.overcommit_memory", 0))
    } else {
        finding.found("not strict")
    })
}
