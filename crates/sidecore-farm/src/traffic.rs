//! What passes between a dispatcher and its nodes, for programs that measure a farm from outside. A dispatcher publishes
//! to `farm.FARM.down.NODE.INCARNATION`, and all nodes to `farm.FARM.up`.

use crate::wire::{DispatcherMessage, NodeMessage};

/// A message to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToNode<'a> {
    /// The dispatcher takes the node in.
    Welcome,
    /// The node is given these events.
    Events(Vec<Handed<'a>>),
}

/// An event that a node is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed<'a> {
    /// Names the attempt: the node's answer bears it.
    pub ticket: u64,
    /// The event's id.
    pub id: &'a str,
}

/// Reads a message to a node. `None`: it is about something else, or no dispatcher sends it.
pub fn to_node(payload: &[u8]) -> Option<ToNode<'_>> {
    match DispatcherMessage::decode(payload)? {
        DispatcherMessage::Welcome { .. } => Some(ToNode::Welcome),
        DispatcherMessage::Events(list) | DispatcherMessage::ReportStart(list) => {
            Some(ToNode::Events(list.iter().map(|event| Handed { ticket: event.ticket, id: event.id }).collect()))
        }
        DispatcherMessage::JoinAgain | DispatcherMessage::Full { .. } | DispatcherMessage::Gone => None,
    }
}

/// Reads a node's answers: the node's incarnation, and the tickets of the attempts that it answers. `None`: it is about
/// something else, or no node sends it.
pub fn answered(payload: &[u8]) -> Option<(u64, Vec<u64>)> {
    match NodeMessage::decode(payload)? {
        NodeMessage::Answers(answers) => {
            Some((answers.incarnation, answers.list.iter().map(|answer| answer.ticket).collect()))
        }
        _ => None,
    }
}
