//! The processes of a farm, and the results of its events.

use async_nats::jetstream::{self, Context};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::Value;
use sidecore_testing::nats::Server;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::sleep;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sidecore-farm");
/// Longest wait, far longer than any step needs.
const MAX_WAIT: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(10);

pub(crate) struct Process {
    child: Child,
    said: PathBuf,
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) struct Crew {
    url: String,
    scratch: TempDir,
    pub(crate) client: Client,
    context: Context,
}

impl Crew {
    pub(crate) async fn new(server: &Server) -> Self {
        let client = async_nats::connect(server.url()).await.unwrap();
        let context = jetstream::new(client.clone());
        Self { url: server.url(), scratch: tempfile::tempdir().unwrap(), client, context }
    }

    pub(crate) fn start(&self, name: &str, arguments: &[&str]) -> Process {
        self.start_by(&self.url, name, arguments)
    }

    pub(crate) fn start_by(&self, url: &str, name: &str, arguments: &[&str]) -> Process {
        let said = self.scratch.path().join(name);
        let (command, rest) = arguments.split_first().unwrap();
        let mut process = Command::new(PROGRAM);
        process.args([command, "--farm", "f", "--server", url]).args(rest);
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&said).unwrap());
        Process { child: process.spawn().unwrap(), said }
    }

    pub(crate) async fn dispatcher(&self, further: &[&str]) -> Process {
        let process = self.start("dispatch", &[&["dispatch"], further].concat());
        self.until("the farm's streams", async |crew| crew.has_farm().await).await;
        process
    }

    pub(crate) async fn has_farm(&self) -> bool {
        self.context.get_stream("f-places").await.is_ok()
    }

    pub(crate) async fn consumers(&self) -> Vec<String> {
        let events = self.context.get_stream_no_info("f-events").await.unwrap();
        events.consumer_names().map(Result::unwrap).collect().await
    }

    pub(crate) fn node(&self, name: &str, jobs: &str) -> Process {
        self.start(name, &["work", "--name", name, "--jobs", jobs, "--sleep", "1ms"])
    }

    /// Feeds events with these numbers as their ids, of `ms` milliseconds each. Repeats each until it is stored.
    pub(crate) async fn feed(&self, numbers: std::ops::Range<u32>, ms: u32) {
        for number in numbers {
            self.until("room for an event", async |crew| crew.stored(number, ms).await).await;
        }
    }

    /// Events that fail wherever they are tried.
    pub(crate) async fn feed_bad(&self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            self.feed_text(number, "no number").await;
        }
    }

    pub(crate) async fn feed_text(&self, number: u32, text: &'static str) {
        self.until("room for an event", async |crew| crew.stored_text(number, text.into()).await).await;
    }

    async fn stored(&self, number: u32, ms: u32) -> bool {
        self.stored_text(number, ms.to_string().into()).await
    }

    async fn stored_text(&self, number: u32, text: Bytes) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("e-{number}"));
        let sent = self.context.publish_with_headers("farm.f.events.k", headers, text).await;
        sent.unwrap().await.is_ok()
    }

    pub(crate) async fn done(&self, count: u64) {
        self.until("results", async |crew| crew.messages("f-results").await == Some(count)).await;
        self.until("acknowledgements", async |crew| crew.messages("f-events").await == Some(0)).await;
    }

    pub(crate) async fn count(&self, stream: &str) -> u64 {
        self.messages(stream).await.unwrap_or(0)
    }

    pub(crate) async fn kept(&self, stream: &str, count: u64) {
        self.until(stream, async |crew| crew.messages(stream).await == Some(count)).await;
    }

    /// Last tokens of the subjects in a stream, and the number of messages that it ever took.
    pub(crate) async fn ids(&self, stream: &str) -> (BTreeSet<String>, u64) {
        let stream = self.context.get_stream(stream).await.unwrap();
        let info = stream.get_info().await.unwrap();
        let mut subjects = stream.info_with_subjects(">").await.unwrap();
        let mut ids = BTreeSet::new();
        while let Some(subject) = subjects.next().await {
            ids.insert(subject.unwrap().0.rsplit('.').next().unwrap().to_owned());
        }
        (ids, info.state.last_sequence)
    }

    pub(crate) async fn message(&self, stream: &str, subject: &str) -> jetstream::message::StreamMessage {
        let stream = self.context.get_stream(stream).await.unwrap();
        stream.get_last_raw_message_by_subject(subject).await.unwrap()
    }

    pub(crate) async fn shown(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut shown = self.client.subscribe("farm.f.status").await.unwrap();
        let begun = Instant::now();
        loop {
            let message = tokio::time::timeout(MAX_WAIT, shown.next()).await;
            let message = message.unwrap_or_else(|_| panic!("no status: {what}")).unwrap();
            let status: Value = serde_json::from_slice(&message.payload).unwrap();
            if is(&status) {
                return status;
            }
            assert!(begun.elapsed() < MAX_WAIT, "{what}: {status}");
        }
    }

    pub(crate) async fn empty(&self, stream: &str) {
        self.context.get_stream(stream).await.unwrap().purge().await.unwrap();
    }

    async fn messages(&self, stream: &str) -> Option<u64> {
        Some(self.context.get_stream(stream).await.ok()?.cached_info().state.messages)
    }

    pub(crate) async fn until(&self, what: &str, is: impl AsyncFn(&Self) -> bool) {
        let begun = Instant::now();
        while !is(self).await {
            assert!(begun.elapsed() < MAX_WAIT, "no {what}");
            sleep(MOMENT).await;
        }
    }
}

pub(crate) fn ids(numbers: std::ops::Range<u32>) -> BTreeSet<String> {
    numbers.map(|number| format!("e-{number}")).collect()
}
