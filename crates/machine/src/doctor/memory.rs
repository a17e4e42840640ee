//! Memory: what so many connections take, and what may be taken.

use super::readings::Readings;
use super::{Finding, Remedy, Severity, Workload};
use crate::humanize::{count, size};
use crate::measured::{CLIENT_BYTES, KERNEL_END_BYTES, SESSION_BYTES};

/// Where connections take more than this share of what is left, there is little for traffic.
const COMFORT: (u64, u64) = (4, 5);

/// Clients of a hundred that do not read, in a bad hour.
const DEAF_OF_HUNDRED: u64 = 1;

/// A send buffer that holds some hundred events.
const SEND_BUFFER_ENOUGH: u64 = 262_144;

/// What the server asks for its send buffers, unless `--backlog-bytes` says more.
const SEND_BUFFER_ASKED: u64 = 262_144;

/// What the kernel gives a program that asks for a receive buffer, unless told otherwise. The
/// server asks for none.
const RECEIVE_BUFFER_ASKED: u64 = 212_992;

/// Free memory for each connection of which packets may arrive within an interrupt or two.
const RESERVE_BYTES_EACH: u64 = 128;

/// Enough for any number of connections: what one burst of a fast network brings.
const RESERVE_ENOUGH: u64 = 128 << 20;

/// More than one part in so many of a machine's memory is not kept free.
const RESERVE_PART: u64 = 50;

/// Swappiness with which the kernel takes pages of files first.
const SWAPPINESS_ENOUGH: u64 = 10;

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

pub(super) fn findings(readings: &Readings, wanted: &Workload) -> Vec<Finding> {
    [
        idle(readings, wanted),
        Some(group(readings, wanted)),
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

/// What idle connections take: of the kernel, and of server and clients.
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

    fn words(&self) -> String {
        format!(
            "{}: {} for the kernel's sockets, {} for {}",
            size(self.whole()),
            size(self.kernel),
            size(self.ours),
            "the processes"
        )
    }
}

/// How bad it is that `needed` is to come out of `left`.
fn squeeze(finding: Finding, needed: u64, left: u64) -> Finding {
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
        "predicted for idle connections; what waits in queues comes on top, and beyond it the \
         kernel ends processes",
    )
    .found(match readings.memory_total {
        Some(total) => format!("{} available of {}", size(available), size(total)),
        None => format!("{} available", size(available)),
    })
    .needed(needed.words());
    Some(
        squeeze(finding, needed.whole(), available)
            .remedy(|| Remedy::advice("more memory, or fewer connections")),
    )
}

fn group(readings: &Readings, wanted: &Workload) -> Finding {
    let finding = Finding::new(
        "control group",
        "the kernel's sockets count against the limit of a container or unit, and beyond it its \
         processes are ended",
    );
    let needed = Prediction::of(wanted);
    let Some(group) = &readings.group else {
        return finding.found("no limit on memory").needed("none");
    };
    let finding = finding
        .found(format!(
            "{} left of {} ({})",
            size(group.left),
            size(group.limit),
            group.file.display()
        ))
        .needed(size(needed.whole()));
    squeeze(finding, needed.whole(), group.left).remedy(|| {
        Remedy::advice(format!(
            "MemoryMax={0} in the unit, or docker run --memory {0}",
            (group.limit - group.left) + needed.whole() / COMFORT.0 * COMFORT.1
        ))
    })
}

/// What all TCP queues may hold together.
fn queues(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let [_, pressure, most] = readings.tcp_memory?;
    // An event to everyone is in every queue at once, and a queue takes whole pages.
    let needed = wanted.ends();
    let bytes = |pages: u64| size(pages.saturating_mul(readings.page_bytes));
    Some(
        Finding::new(
            "TCP memory",
            "an event to everyone is in every socket's queue at once; under pressure the kernel \
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

/// What clients that do not read can pin.
fn send_buffers(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let [least, first, most] = readings.send_buffer?;
    let (left, _) = readings.memory_left()?;
    let deaf = wanted.connections * DEAF_OF_HUNDRED / 100;
    let pinned = deaf.saturating_mul(most);
    let received = match readings.receive_buffer {
        Some([_, _, received]) => format!("; received: {} each at most", size(received)),
        None => String::new(),
    };
    Some(
        Finding::new(
            "socket buffers",
            "a client that does not read pins its whole send buffer in the kernel before the \
             server sees that its socket is full",
        )
        .found(format!("sent: {} each at most{received}", size(most)))
        .needed(format!(
            "less than {}, where {} clients ({DEAF_OF_HUNDRED} in 100) do not read: now {}",
            size(left),
            count(deaf),
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

/// What a program may ask for: the kernel cuts the rest without a word.
fn asked_buffers(readings: &Readings) -> Option<Finding> {
    let (received, sent) = (readings.receive_buffer_asked?, readings.send_buffer_asked?);
    let (too_little_received, too_little_sent) =
        (received < RECEIVE_BUFFER_ASKED, sent < SEND_BUFFER_ASKED);
    Some(
        Finding::new(
            "buffers asked for",
            "the server asks for send buffers of --backlog-bytes, and the kernel gives no more \
             than this: sockets are full sooner, and events wait in the server; receive buffers it \
             leaves to the kernel, but programs beside it may ask",
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

/// Memory for what cannot wait until some is freed: packets that arrive.
fn reserve(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let (reserve, total) = (readings.memory_reserve?, readings.memory_total?);
    let needed = (wanted.ends() * RESERVE_BYTES_EACH)
        .min(RESERVE_ENOUGH)
        .min(total / RESERVE_PART);
    Some(
        Finding::new(
            "free memory",
            "a packet that arrives gets memory at once or is dropped, and sent again after a fifth \
             of a second: where files fill the memory, only this much is free for a burst",
        )
        .found(format!("the kernel keeps {} free", size(reserve)))
        .needed(size(needed))
        .when(reserve < needed, Severity::Advice)
        .remedy(|| Remedy::setting("vm.min_free_kbytes", needed.div_ceil(1024))),
    )
}

/// Idle sessions look unused to the kernel.
fn swap(readings: &Readings) -> Option<Finding> {
    let (swap, swappiness) = (readings.swap_total?, readings.swappiness?);
    let finding = Finding::new(
        "swap",
        "records of idle sessions look unused, and an event to everyone then waits for the disk \
         once for every page of them; with a low swappiness pages of files go first",
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
            "with `always` a heap that uses a little here and there is resident in steps of 2 MiB",
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
        "where it is strict, the stacks of threads count in full and a thread or an allocation may \
         be refused while memory is free",
    )
    .needed("not strict, or enough left to promise");
    Some(if mode == STRICT {
        finding
            .found(format!("strict, {} left to promise", size(left)))
            .when(true, Severity::Advice)
            .when(left < needed, Severity::Blocker)
            .remedy(|| Remedy::setting("vm.overcommit_memory", 0))
    } else {
        finding.found("not strict")
    })
}
