//! Messages on their way to the servers: the deciding task never waits for the network.

use async_nats::{Client, HeaderMap, Subject};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Most messages that wait for the network. Further ones are dropped, as on a network: each kind is repeated.
const MAX_WAITING_MESSAGES: usize = 65_536;

#[derive(Debug)]
struct Message {
    subject: Subject,
    reply: Option<Subject>,
    headers: Option<HeaderMap>,
    body: Bytes,
}

#[derive(Debug)]
pub(super) struct Outbox {
    messages: mpsc::Sender<Message>,
    sending: JoinHandle<()>,
}

impl Outbox {
    pub(super) fn new(client: Client) -> Self {
        let (messages, waiting) = mpsc::channel(MAX_WAITING_MESSAGES);
        Self { messages, sending: tokio::spawn(send_all(client, waiting)) }
    }

    pub(super) fn send(&self, subject: Subject, body: Bytes) {
        self.put(Message { subject, reply: None, headers: None, body });
    }

    pub(super) fn ask(&self, subject: Subject, reply: Subject, headers: Option<HeaderMap>, body: Bytes) {
        self.put(Message { subject, reply: Some(reply), headers, body });
    }

    /// True while the network is behind: the caller must not begin work that sends more.
    pub(super) fn is_crowded(&self) -> bool {
        self.messages.capacity() < MAX_WAITING_MESSAGES / 2
    }

    pub(super) async fn close(self) {
        drop(self.messages);
        // A task that ended early has nothing more to send.
        let _ = self.sending.await;
    }

    fn put(&self, message: Message) {
        let _ = self.messages.try_send(message);
    }
}

async fn send_all(client: Client, mut waiting: mpsc::Receiver<Message>) {
    while let Some(Message { subject, reply, headers, body }) = waiting.recv().await {
        // A message that is too large, or has no client, is dropped as on a network.
        let _ = match (reply, headers) {
            (None, _) => client.publish(subject, body).await,
            (Some(reply), None) => client.publish_with_reply(subject, reply, body).await,
            (Some(reply), Some(headers)) => client.publish_with_reply_and_headers(subject, reply, headers, body).await,
        };
    }
    let _ = client.flush().await;
}
