//! The plan of a seed: clients, devices, policies, and faults with their times.

use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::{Algorithm, Class, Classes, Op};
use sidecore_core::sidecore::WaitPolicies;
use sidecore_core::time::{Nanos, Pretty};
use sidecore_sim::engine::Random;
use std::fmt;
use strum::{EnumDiscriminants, VariantArray, VariantNames};

/// Algorithms of the sessions, by handle from 1 on, with the operation that each can do.
pub(super) const SESSIONS: [(Algorithm, Op); 3] =
    [(Algorithm::Aes256Gcm, Op::Encrypt), (Algorithm::Sha256, Op::Digest), (Algorithm::Rsa2048, Op::Sign)];
/// Faults of a run happen before this instant, ns.
const FAULTS_UNTIL: u64 = 400_000;
/// A device with work that shows no progress for so long is taken away, ns.
pub(super) const DEVICE_TIMEOUT: Nanos = 2_000_000;

pub(super) fn class_of(session: u32, op: Op) -> Result<Class, sidecore_core::session::Refusal> {
    use sidecore_core::session::Refusal;
    let number = (session as usize).wrapping_sub(1);
    let (algorithm, can) = *SESSIONS.get(number).ok_or(Refusal::NoSession)?;
    Class::of(algorithm, op).filter(|_| op == can).ok_or(Refusal::Unsupported)
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    Closed(u32),
    /// One after the other at random, with this mean gap, ns.
    Open(Nanos),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LanePlan {
    pub(super) load: Load,
    pub(super) slots: u32,
    pub(super) requests: u32,
}

#[derive(Clone, Debug)]
pub(super) struct ClientPlan {
    pub(super) user: u8,
    /// Its user's.
    pub(super) weight: u32,
    pub(super) credit: u32,
    pub(super) owned: bool,
    pub(super) lanes: Vec<LanePlan>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Inline,
    Worker,
    Emulated,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DevicePlan {
    pub(super) kind: Kind,
    /// One bit for each of [`SESSIONS`].
    pub(super) can: u8,
    pub(super) depth: u32,
    pub(super) weight: u32,
    pub(super) owned: bool,
    pub(super) fixed: Nanos,
    pub(super) bytes_per_ns: u64,
}

impl DevicePlan {
    pub(super) fn time(&self, size: u32) -> Nanos {
        self.fixed + u64::from(size) / self.bytes_per_ns
    }

    pub(super) fn classes(&self) -> Classes {
        let class = |(i, (algorithm, op)): (usize, &(Algorithm, Op))| {
            Class::of(*algorithm, *op).filter(|_| self.can >> i & 1 != 0)
        };
        SESSIONS.iter().enumerate().filter_map(class).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub(super) enum Hostile {
    UnknownOp,
    ReservedBits,
    TooManyExtents,
    OutsideArena,
    HeadTooLong,
    Flood,
    Scribble,
}

/// A fault or a change. Numbers pick one of the clients, lanes or devices of that instant.
///
/// A death of a device is `told` by `sidecore set`, or its service finds out. A time of `None` is for ever; a device that stalls
/// so answers late all the same, if it is revoked meanwhile.
#[derive(Clone, Copy, Debug, EnumDiscriminants, VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[strum_discriminants(name(FaultKind), vis(pub(super)))]
pub(super) enum Fault {
    DeviceDeath {
        device: u8,
        told: bool,
    },
    DeviceStall {
        device: u8,
        time: Option<Nanos>,
    },
    DeviceSlow {
        device: u8,
        factor: u8,
        time: Nanos,
    },
    /// No client submits anything for so long; then the device does nothing any more.
    IdleThenHang {
        device: u8,
        idle: Nanos,
    },
    DeviceJoin(DevicePlan),
    DeviceDrain(u8),
    DeviceRemove(u8),
    ClientDeath {
        lane: u8,
        returns: bool,
    },
    ClientDeaf {
        lane: u8,
        time: Option<Nanos>,
    },
    ClientHostile {
        lane: u8,
        how: Hostile,
    },
    ServiceDeath {
        down: Nanos,
    },
    SetNotify(WaitPolicies),
    SetBalance(Balance),
}

pub(super) const FAULTS: &[&str] = Fault::VARIANTS;

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) clients: Vec<ClientPlan>,
    pub(super) devices: Vec<DevicePlan>,
    pub(super) hops: WaitPolicies,
    pub(super) balance: Balance,
    pub(super) in_flight: u32,
    pub(super) quantum: Nanos,
    pub(super) owned: bool,
    /// Of more lanes than these, the quiet ones go dormant.
    pub(super) watched_lanes: usize,
    pub(super) faults: Vec<(Nanos, Fault)>,
    /// Every client always has requests waiting: shares can be measured.
    pub(super) backlogged: bool,
}

/// Distinguishes the random numbers of the plan from those of the run.
const PLAN: u64 = 0x5ce2_a810_0000_0000;

impl Scenario {
    /// The scenario of that seed. Every eighth one measures shares, without faults.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ PLAN);
        if seed.is_multiple_of(8) { backlogged(seed, &mut random) } else { any(seed, &mut random) }
    }
}

fn from(random: &mut Random, low: u64, high: u64) -> u64 {
    low + random.below(high - low + 1)
}

fn one_in(random: &mut Random, n: u64) -> bool {
    random.below(n) == 0
}

fn notify(random: &mut Random) -> Notify {
    match random.below(10) {
        8 | 9 => Notify::Learn,
        0 => Notify::Spin,
        1..=3 => Notify::Park,
        4 => Notify::BreakEven,
        5 => Notify::Timer { period: from(random, 1_000, 20_000) },
        _ => Notify::Coalesce { count: from(random, 1, 6) as u32, delay: from(random, 1_000, 20_000) },
    }
}

fn hops(random: &mut Random) -> WaitPolicies {
    if one_in(random, 2) {
        let all = notify(random);
        return WaitPolicies { service: all, to_device: all, from_device: all, client: all };
    }
    WaitPolicies {
        service: notify(random),
        to_device: notify(random),
        from_device: notify(random),
        client: notify(random),
    }
}

fn one_of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

fn device(random: &mut Random) -> DevicePlan {
    let kind = match random.below(10) {
        0 => Kind::Inline,
        1..=6 => Kind::Worker,
        _ => Kind::Emulated,
    };
    DevicePlan {
        kind,
        can: if one_in(random, 2) { 7 } else { from(random, 1, 7) as u8 },
        depth: from(random, 1, 12) as u32,
        weight: from(random, 1, 20) as u32,
        owned: one_in(random, 2),
        fixed: from(random, 300, 9_000),
        bytes_per_ns: from(random, 1, 8),
    }
}

fn lane(random: &mut Random, requests: u64) -> LanePlan {
    let slots = 2_u32 << random.below(4);
    let load = if one_in(random, 3) {
        Load::Open(from(random, 500, 15_000))
    } else {
        Load::Closed(from(random, 1, u64::from(slots)) as u32)
    };
    LanePlan { load, slots, requests: from(random, 2, requests) as u32 }
}

fn client(random: &mut Random, requests: u64) -> ClientPlan {
    let lanes = if one_in(random, 4) { 2 } else { 1 };
    ClientPlan {
        user: random.below(3) as u8,
        weight: from(random, 1, 4) as u32,
        credit: from(random, 1, 16) as u32,
        owned: one_in(random, 2),
        lanes: (0..lanes).map(|_| lane(random, requests)).collect(),
    }
}

fn any(seed: u64, random: &mut Random) -> Scenario {
    let clients = from(random, 1, 4);
    let requests = 120 / clients;
    let clients = (0..clients).map(|_| client(random, requests)).collect();
    let devices = (0..from(random, 1, 4)).map(|_| device(random)).collect();
    let mut faults: Vec<(Nanos, Fault)> =
        (0..random.below(9)).map(|_| (random.below(FAULTS_UNTIL), fault(random))).collect();
    if seed % 8 == 4 {
        let idle = from(random, 2 * DEVICE_TIMEOUT, 4 * DEVICE_TIMEOUT);
        let device = random.below(8) as u8;
        // Early: later most runs are over.
        faults.push((random.below(FAULTS_UNTIL / 16), Fault::IdleThenHang { device, idle }));
    }
    faults.sort_by_key(|(at, _)| *at);
    Scenario {
        seed,
        clients,
        devices,
        hops: hops(random),
        balance: one_of(random, &Balance::ALL),
        in_flight: from(random, 1, 32) as u32,
        quantum: from(random, 1_000, 50_000),
        owned: one_in(random, 2),
        watched_lanes: random.below(5) as usize,
        faults,
        backlogged: false,
    }
}

fn fault(random: &mut Random) -> Fault {
    let number = random.below(8) as u8;
    let for_a_while = |random: &mut Random| (!one_in(random, 3)).then(|| from(random, 1_000, 300_000));
    match random.below(16) {
        0 | 1 => Fault::DeviceDeath { device: number, told: one_in(random, 2) },
        2 => Fault::DeviceStall { device: number, time: for_a_while(random) },
        3 => {
            let factor = from(random, 2, 100) as u8;
            Fault::DeviceSlow { device: number, factor, time: from(random, 1_000, 100_000) }
        }
        4 => Fault::DeviceJoin(device(random)),
        5 => Fault::DeviceDrain(number),
        6 => Fault::DeviceRemove(number),
        7 => Fault::ClientDeath { lane: number, returns: one_in(random, 2) },
        8 => Fault::ClientDeaf { lane: number, time: for_a_while(random) },
        9 | 10 => Fault::ClientHostile { lane: number, how: one_of(random, Hostile::VARIANTS) },
        11 => Fault::ServiceDeath { down: from(random, 1_000, 50_000) },
        12 | 13 => Fault::SetNotify(hops(random)),
        _ => Fault::SetBalance(one_of(random, &Balance::ALL)),
    }
}

/// Users that differ in weight, one of them with several clients of several lanes each, with one device as the bottleneck.
fn backlogged(seed: u64, random: &mut Random) -> Scenario {
    let mut clients: Vec<ClientPlan> = Vec::new();
    for user in 0..from(random, 2, 3) as u8 {
        let greedy = user == 0;
        // Each of its clients needs so many requests that a few more or less are no matter.
        let weight = from(random, if greedy { 2 } else { 1 }, 4) as u32;
        let (processes, lanes) = if greedy { (from(random, 1, 4), from(random, 1, 3)) } else { (1, 1) };
        // No lane of the greedy user is done long before the other users.
        let requests = if greedy { 40 + 150 * weight / (processes * lanes) as u32 } else { 100 * weight };
        let lanes = vec![LanePlan { load: Load::Closed(32), slots: 32, requests }; lanes as usize];
        let client = ClientPlan { user, weight, credit: 64, owned: one_in(random, 2), lanes };
        clients.extend((0..processes).map(|_| client.clone()));
    }
    let kind = if one_in(random, 2) { Kind::Worker } else { Kind::Emulated };
    let fixed = from(random, 6_000, 9_000);
    Scenario {
        seed,
        clients,
        devices: vec![DevicePlan { kind, can: 7, depth: 2, fixed, ..device(random) }],
        hops: hops(random),
        balance: one_of(random, &Balance::ALL),
        in_flight: 64,
        quantum: from(random, 5_000, 20_000),
        owned: one_in(random, 2),
        watched_lanes: random.below(5) as usize,
        faults: Vec::new(),
        backlogged: true,
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitPolicies { service, to_device, from_device, client } = self.hops;
        let (balance, in_flight) = (self.balance, self.in_flight);
        writeln!(f, "seed {}: {balance}, at most {in_flight} in flight, quantum {}", self.seed, Pretty(self.quantum))?;
        writeln!(
            f,
            "notify: service {service}, to_device {to_device}, from_device {from_device}, client {client}; sidecore {}, \
             watches {} lanes",
            owned(self.owned),
            self.watched_lanes
        )?;
        for (number, plan) in self.clients.iter().enumerate() {
            let ClientPlan { user, weight, credit, lanes, .. } = plan;
            writeln!(f, "client {number} of user {user}: weight {weight}, credit {credit}, {}", owned(plan.owned))?;
            for LanePlan { load, slots, requests } in lanes {
                writeln!(f, "  lane of {slots} slots, {requests} requests, {load:?}")?;
            }
        }
        for (number, plan) in self.devices.iter().enumerate() {
            writeln!(f, "device {number}: {plan}")?;
        }
        self.faults.iter().try_for_each(|(at, fault)| writeln!(f, "at {}: {fault:?}", Pretty(*at)))
    }
}

fn owned(owned: bool) -> &'static str {
    if owned { "on a core of its own" } else { "on a shared core" }
}

impl fmt::Display for DevicePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, can, depth, fixed, bytes_per_ns, .. } = self;
        write!(f, "{kind:?}, sessions {can:03b}, depth {depth}, {} and {bytes_per_ns} B/ns", Pretty(*fixed))
    }
}
