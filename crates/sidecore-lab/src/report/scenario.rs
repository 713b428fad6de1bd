//! What people must know about each scenario: its title, and how to read its figures.

/// The words for a scenario.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// Heading.
    pub(crate) title: &'static str,
    /// What was measured and what is good.
    pub(crate) reading: &'static str,
}

const KNOWN: [(&str, Words); 12] = [
    (
        "lane",
        Words {
            title: "Lane: queues in shared memory",
            reading: "Messages between two processes without any work on them: what the path itself costs.",
        },
    ),
    (
        "crypto",
        Words {
            title: "Crypto: operations through a lane",
            reading: "Operations a second, against the same library called in the client's own process. \
                      Up is better; a dashed line is a baseline.",
        },
    ),
    (
        "ocf",
        Words {
            title: "OCF: clients and message sizes",
            reading: "3DES payload as messages grow, with more and more clients that each wait for one request. \
                      With accelerators a balancer that loses nothing reaches their rated sum.",
        },
    ),
    (
        "notify",
        Words {
            title: "Notify: how to wait",
            reading: "What each waiting policy costs in latency and in CPU time as the load grows. Spinning is the \
                      yardstick for latency, parking the one for CPU.",
        },
    ),
    (
        "balance",
        Words {
            title: "Balance: which device gets the next request",
            reading: "The highest stable load divided by what the devices could carry at best: 1.00 x loses nothing.",
        },
    ),
    (
        "scaling",
        Words {
            title: "Scaling: more clients, more devices",
            reading: "Operations a second as clients or devices are added. A straight line through the origin is ideal.",
        },
    ),
    (
        "keys-reach",
        Words {
            title: "Keys: what signing through the provider is to reach",
            reading: "Signatures a second of one process with its key in the service, divided by those of OpenSSL's \
                      own code in the process, beside what the ratio is to be.",
        },
    ),
    (
        "keys",
        Words {
            title: "Keys: processes and asynchronous jobs",
            reading: "Signatures a second through the OpenSSL provider, against OpenSSL's own code in the same \
                      processes. Up is better.",
        },
    ),
    (
        "keys-waiting",
        Words {
            title: "Keys: how to wait",
            reading: "One client of two emulated cards, as service and client look now and then, or are woken.",
        },
    ),
    (
        "keys-interrupts",
        Words {
            title: "Keys: interrupts against timers",
            reading: "What waking changes, in percent of what the timer took, beside z/VM's published changes. Where \
                      the client's own timer gates, waking the service gains little.",
        },
    ),
    (
        "keys-packaged",
        Words {
            title: "Keys: against what is packaged today",
            reading: "One process that signs with a key that it does not have: through the provider, and through \
                      PKCS#11 with SoftHSM 2 behind p11-kit's remoting.",
        },
    ),
    (
        "nginx",
        Words {
            title: "nginx: what a handshake costs",
            reading: "Full TLS 1.3 handshakes a second of CPU time of server and service together, against the same \
                      server with its key in a file.",
        },
    ),
];

/// The words for the scenario of that name, or general ones for a plan's own.
pub(crate) fn words(scenario: &str) -> Words {
    let known = KNOWN.iter().find(|(name, _)| *name == scenario);
    known.map_or(Words { title: "", reading: "" }, |(_, words)| *words)
}

/// The heading for the scenario of that name.
pub(crate) fn title(scenario: &str) -> &str {
    Some(words(scenario).title).filter(|title| !title.is_empty()).unwrap_or(scenario)
}
