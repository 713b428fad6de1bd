//! Connections of the farm's roles.

use async_nats::{Client, Event};
use sidecore_nats::Farm;
pub(crate) use sidecore_nats::{ConnectError, denials, denied};

/// The part of a farm that connects. Each has inboxes of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Feeder,
    Dispatcher,
    Node,
    Operator,
}

impl Role {
    fn inboxes(self) -> &'static str {
        match self {
            Self::Feeder => "_INBOX.feeder",
            Self::Dispatcher => "_INBOX.dispatcher",
            Self::Node => "_INBOX.node",
            Self::Operator => "_INBOX.operator",
        }
    }
}

pub(crate) async fn connect(farm: &Farm, role: Role) -> Result<Client, ConnectError> {
    sidecore_nats::connect(farm, role.inboxes()).await
}

pub(crate) async fn connect_and_hear<F: Fn(&Event) + Send + Sync + 'static>(
    farm: &Farm,
    role: Role,
    heard: F,
) -> Result<Client, ConnectError> {
    sidecore_nats::connect_and_hear(farm, role.inboxes(), heard).await
}
