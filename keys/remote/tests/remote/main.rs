//! A service whose keys are in services on other machines: two or three real services, a NATS server, gateways and key
//! servers as processes.

mod distant;
mod liars;
mod losses;
mod measured;
mod permissions;
mod sealed;
mod serves;
mod site;
mod tenants;
mod versions;
#[path = "../../src/wire.rs"]
mod wire;
