//! The world's events.

#[derive(Clone, Copy, Debug)]
pub(super) enum OcfEvent {
    Cpu(u32),
    Bus,
    Memory,
    Engine(u32),
    /// A request arrives for this client; without an arrival process, its first one.
    Arrival(u32),
    Due(u32),
}
