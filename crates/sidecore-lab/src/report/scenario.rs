//! Title of each scenario, and explanation of its figures.

const KNOWN: [(&str, &str, &str); 30] = [
    (
        "lane",
        "Lane: queues in shared memory",
        "Messages between two processes without any work on them: what the path itself costs.",
    ),
    (
        "crypto",
        "Crypto: operations through a lane",
        "Operations a second, against the same library called in the client's own process. \
         Up is better; a dashed line is a baseline.",
    ),
    (
        "ocf",
        "OCF: clients and message sizes",
        "3DES payload as messages grow, with more and more clients that each wait for one request. \
         With accelerators a balancer that loses nothing reaches their rated sum.",
    ),
    (
        "notify",
        "Notify: how to wait",
        "What each waiting policy costs in latency and in CPU time as the load grows. Spinning is the \
         yardstick for latency, parking the one for CPU.",
    ),
    (
        "balance",
        "Balance: which device gets the next request",
        "The highest stable load divided by what the devices could carry at best: 1.00 x loses nothing.",
    ),
    (
        "scaling",
        "Scaling: more clients, more devices",
        "Operations a second as clients or devices are added. A straight line through the origin is ideal.",
    ),
    (
        "keys-reach",
        "Keys: what signing through the provider is to reach",
        "Signatures a second of one process with its key in the service, divided by those of OpenSSL's \
         own code in the process, beside what the ratio is to be.",
    ),
    (
        "keys",
        "Keys: processes and asynchronous jobs",
        "Signatures a second through the OpenSSL provider, against OpenSSL's own code in the same \
         processes. Up is better.",
    ),
    (
        "keys-waiting",
        "Keys: how to wait",
        "One client of two emulated cards, as service and client look now and then, or are woken.",
    ),
    (
        "keys-interrupts",
        "Keys: interrupts against timers",
        "What waking changes, in percent of what the timer took, beside z/VM's published changes. Where \
         the client's own timer gates, waking the service gains little.",
    ),
    (
        "keys-packaged",
        "Keys: against what is packaged today",
        "One process that signs with a key that it does not have: through the provider, and through \
         PKCS#11 with SoftHSM 2 behind p11-kit's remoting.",
    ),
    (
        "nginx-crowd",
        "nginx with eight workers",
        "Full TLS handshakes a second of CPU time, of server and service together, as a batch device does the private operations of \
         eight workers side by side.",
    ),
    (
        "haproxy",
        "HAProxy: many handshakes in one process",
        "Full TLS 1.3 handshakes a second of CPU time of HAProxy and service together, against the same HAProxy with its key in \
         a file. With the key in the service it goes on with other handshakes while one is signed for.",
    ),
    (
        "batch",
        "Batch: private operations side by side",
        "Operations a second of client processes with one request in flight each, on one core that does them side by side, \
         against the same core with one after another.",
    ),
    (
        "batch-open",
        "Batch: random arrivals",
        "Latency of requests that come at random times, at a share of what the batch device does at most. Down is better.",
    ),
    (
        "sockets",
        "Sockets: small messages of an unmodified program",
        "Messages a second that arrive over TCP or UDP, against the same program on the kernel's own path without \
         delay. Of paced traffic the ratio is of the CPU time of program and service, of quiet connections of latencies: there less is better.",
    ),
    (
        "net",
        "Net: a path",
        "Messages a second over a path, by size and number of connections, and what they cost. Packets and CPU time are those of the \
         near machine, others' work included.",
    ),
    (
        "net-parts",
        "Net: where the CPU time of a packet goes",
        "CPU time for each packet of the near end by component, from samples: with both ends on this machine that of both.",
    ),
    (
        "net-tools",
        "Net: the laboratory against other tools",
        "Goodput and round trips of the same load over the same path, by this program and by others. Ratios to \
         another tool are of goodput, or of times; those to its CPU are of the CPU time of both ends, where less is better.",
    ),
    (
        "net-tools-line",
        "Net: the laboratory against other tools on a line",
        "The same over a line that is slower than all programs: what differs there is what they count, and not how fast they are.",
    ),
    (
        "link",
        "Link: a link with properties against how it is set",
        "What one TCP connection carries over a link without a rate, against what it is to carry and against veth. Of moderation: \
         packets that an interrupt announces and the time that it adds, against core's policy simulated on the same instants.",
    ),
    (
        "net-hoti",
        "HOTI 2009: two interfaces",
        "What two links of this machine carry and cost that differ in what an access to a register takes: nothing, as on the \
         processor's chip, or 1 us, as behind a bus.",
    ),
    (
        "net-hoti-where",
        "HOTI 2009: where the time of a packet goes",
        "CPU time for each packet of the near end, by component, of both ends and of the link, whose threads count as the driver. No \
         processor sleeps meanwhile, so the other columns are not those of the table before.",
    ),
    (
        "net-hoti-effects",
        "HOTI 2009: from the chip to the bus",
        "How much a figure changes from the integrated interface to the discrete one, beside the change in the paper. \
         Intervals are each for itself.",
    ),
    (
        "net-lhcb",
        "LHCb: frame size and interrupt coalescence",
        "What a line of 1 Gbit/s carries, and how long a question takes to be answered.",
    ),
    (
        "net-lhcb-effects",
        "LHCb: from small to large",
        "How much a figure changes with the frame size or the coalescence time, beside what the slides and their simulation say. \
         Intervals are each for itself.",
    ),
    (
        "nginx",
        "nginx: what a handshake costs",
        "Full TLS 1.3 handshakes a second of CPU time of server and service together, against the same \
         server with its key in a file.",
    ),
    (
        "net-where",
        "Where the time goes: a network path by component",
        "CPU time of all CPUs together, by what ran when it was sampled. Shares are of the work that is measured; idleness and \
         other programs stand apart. The ratio is the sum of the components by the CPU time that the kernel accounts.",
    ),
    (
        "net-tune",
        "Tuning: what each setting does",
        "How much better the goal is with a change, against how things were; from, to: at a confidence of 95 % for \
         all rows of a kind together. What is taken back is compared with all that is recommended.",
    ),
    (
        "net-tune-check",
        "Tuning: known problems",
        "Of each problem that was put into a path: what was recommended, how much better that is, how long it took to be found, and \
         how good it is against the best of all combinations of the settings that matter.",
    ),
];

/// Title and explanation of a scenario. For a plan's own scenario: its name and no explanation.
pub(crate) fn words(scenario: &str) -> (&str, &'static str) {
    let known = KNOWN.iter().find(|(name, ..)| *name == scenario);
    known.map_or((scenario, ""), |(_, title, reading)| (title, reading))
}
