//! The contents of a farm's streams.

use crate::program::MAX_WAIT;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{Config, Info};
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, HeaderMap, ServerAddr};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn with<T, F: Future<Output = T>>(url: &str, task: impl FnOnce(Context) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server: ServerAddr = url.parse().unwrap();
    let options = match (server.username(), server.password()) {
        (Some(user), Some(password)) => ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned()),
        _ => ConnectOptions::new(),
    };
    runtime.block_on(async { task(jetstream::new(options.connect(server).await.unwrap())).await })
}

pub(crate) fn info(url: &str, stream: &str) -> Info {
    with(url, async |js| js.get_stream(stream).await.unwrap().get_info().await.unwrap())
}

pub(crate) fn count(url: &str, stream: &str) -> u64 {
    with(url, async |js| match js.get_stream(stream).await {
        Ok(stream) => stream.get_info().await.map_or(0, |info| info.state.messages),
        Err(_) => 0,
    })
}

pub(crate) fn make(url: &str, config: Config) {
    with(url, async |js| js.create_stream(config).await.map(drop).unwrap());
}

pub(crate) const COMMITTED: [(&str, &str); 1] = [("Farm-Kind", "default")];

pub(crate) fn publish(url: &str, subject: &str, headers: &[(&str, &str)], body: &str) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, *value);
    }
    let (subject, body) = (subject.to_owned(), body.to_owned());
    with(url, async |js| js.publish_with_headers(subject, map, body.into()).await.unwrap().await.map(drop).unwrap());
}

pub(crate) fn take(url: &str, farm: &str, most: usize) -> Vec<Event> {
    let name = format!("{farm}-events");
    with(url, async |js| {
        let config = pull::Config {
            durable_name: Some("test".into()),
            ack_policy: AckPolicy::Explicit,
            ..pull::Config::default()
        };
        let stream = js.get_stream(&name).await.unwrap();
        let consumer = stream.get_or_create_consumer("test", config).await.unwrap();
        let mut events = Vec::new();
        while events.len() < most {
            let wanted = (most - events.len()).min(256);
            let mut batch = consumer.fetch().max_messages(wanted).messages().await.unwrap();
            let before = events.len();
            while let Some(message) = tokio::time::timeout(MAX_WAIT, batch.next()).await.unwrap() {
                let message = message.unwrap();
                let headers = message.headers.clone().unwrap_or_default();
                let header = |name: &str| headers.get(name).map(|value| value.as_str().to_owned()).unwrap_or_default();
                events.push(Event {
                    id: header("Nats-Msg-Id").split('.').next().unwrap_or_default().to_owned(),
                    kind: header("Farm-Kind"),
                    body: message.payload.to_vec(),
                });
                message.ack().await.unwrap();
            }
            if events.len() == before {
                break;
            }
        }
        js.client().flush().await.unwrap();
        // The server removes acknowledged events a moment later.
        tokio::time::sleep(Duration::from_millis(20)).await;
        events
    })
}

#[track_caller]
pub(crate) fn by_id(events: Vec<Event>) -> BTreeMap<String, Vec<u8>> {
    let number = events.len();
    let map: BTreeMap<_, _> = events.into_iter().map(|event| (event.id, event.body)).collect();
    assert_eq!(map.len(), number, "an id is there twice");
    map
}

pub(crate) fn number(urls: &str, ca: &str, stream: &str) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = ConnectOptions::with_user_and_password("operator".into(), "oper".into());
        let urls: Vec<&str> = urls.split(',').collect();
        let client = options.add_root_certificates(ca.into()).connect(urls).await.unwrap();
        let asked = jetstream::new(client).get_stream(stream).await;
        // Its servers may be choosing a leader.
        asked.map_or(0, |stream| stream.cached_info().state.messages)
    })
}
