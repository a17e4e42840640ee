//! Metrics of the machine from `/proc`. The files read are small at any number of connections.

use std::fs;

use super::row::MachineMetrics;
use ::machine::host::number_after;

/// Reads all metrics. What cannot be read is `None`.
pub(super) fn read() -> MachineMetrics {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let page = rustix::param::page_size() as u64;
    let (sockstat, meminfo) = (text("/proc/net/sockstat"), text("/proc/meminfo"));
    let (slabinfo, interfaces) = (text("/proc/slabinfo"), text("/proc/net/dev"));
    let kilobytes = |name| Some(number_after(&meminfo, name)? * 1024);
    let network = network(&interfaces);
    MachineMetrics {
        tcp_sockets: tcp(&sockstat, "inuse"),
        socket_memory: tcp(&sockstat, "mem").map(|pages| pages * page),
        slab: kilobytes("Slab:"),
        slab_unreclaimable: kilobytes("SUnreclaim:"),
        slab_tcp: slab(&slabinfo, "TCP", page),
        slab_sock_inode: slab(&slabinfo, "sock_inode_cache", page),
        available: kilobytes("MemAvailable:"),
        network_received: network.map(|(received, _)| received),
        network_sent: network.map(|(_, sent)| sent),
    }
}

/// Parses the number after `name` in the line `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 1`.
fn tcp(sockstat: &str, name: &str) -> Option<u64> {
    let line = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_whitespace();
    words.find(|&word| word == name)?;
    words.next()?.parse().ok()
}

/// Returns the bytes of the slabs of one kind of object, from the line `name active objects size
/// per-slab pages-per-slab : tunables … : slabdata active-slabs slabs …`.
fn slab(slabinfo: &str, name: &str, page: u64) -> Option<u64> {
    let mut words = slabinfo.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then_some(words)
    })?;
    let pages_per_slab: u64 = words.nth(4)?.parse().ok()?;
    words.find(|&word| word == "slabdata")?;
    let slabs: u64 = words.nth(1)?.parse().ok()?;
    Some(slabs * pages_per_slab * page)
}

/// Returns the bytes received and sent, summed over all interfaces.
fn network(interfaces: &str) -> Option<(u64, u64)> {
    let of_interface = |line: &str| {
        let (_, numbers) = line.split_once(':')?;
        let mut words = numbers.split_whitespace();
        let received: u64 = words.next()?.parse().ok()?;
        let sent: u64 = words.nth(7)?.parse().ok()?;
        Some((received, sent))
    };
    interfaces.lines().filter_map(of_interface).reduce(
        |(received, sent), (more_received, more_sent)| (received + more_received, sent + more_sent),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_parsed() {
        let sockstat = "sockets: used 31\nTCP: inuse 4 orphan 0 tw 1 alloc 5 mem 212\nUDP: mem 9\n";
        assert_eq!(tcp(sockstat, "inuse"), Some(4));
        assert_eq!(tcp(sockstat, "mem"), Some(212));
        assert_eq!(tcp("UDP: mem 9\n", "mem"), None);
        let slabinfo = "slabinfo - version: 2.1\n\
            request_sock_TCP 0 0 304 13 1 : tunables 0 0 0 : slabdata 9 9 0\n\
            TCP 24 26 2368 13 8 : tunables 0 0 0 : slabdata 1 2 0\n";
        assert_eq!(slab(slabinfo, "TCP", 4096), Some(2 * 8 * 4096));
        assert_eq!(slab(slabinfo, "UDP", 4096), None);
        let interfaces = "Inter-| Receive | Transmit\n face |bytes packets\n\
            \x20 lo: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\neth0:1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n";
        assert_eq!(network(interfaces), Some((11, 22)));
        assert_eq!(number_after("Slab:   12 kB\n", "Slab:"), Some(12));
    }

    #[test]
    fn this_machine_can_be_read() {
        let figures = read();
        assert!(figures.tcp_sockets.is_some() && figures.socket_memory.is_some());
        assert!(figures.slab > figures.slab_unreclaimable && figures.available > Some(0));
        assert!(figures.network_received.is_some());
    }
}
