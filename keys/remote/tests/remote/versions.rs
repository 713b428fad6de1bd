//! Gateways and key servers of other versions: each side names the other in its log.

use super::losses::{MESSAGE, RSA};
use super::site::MAX_WAIT;
use super::site::{Site, User, pkcs1};
use super::wire;
use futures_util::StreamExt;
use sidecore::core::session::Op;
use sidecore::keys::Acl;
use sidecore_testing::nats::Server;
use tokio::time::timeout;

/// Subscribes to one subject, and publishes `answer` on another whenever `is_asked` by a message. Ends with that message.
async fn answered(url: &str, [from, to]: [&str; 2], first: &[u8], is_asked: impl Fn(&[u8]) -> bool, answer: &[u8]) {
    let client = async_nats::connect(url).await.unwrap();
    let mut heard = client.subscribe(from.to_owned()).await.unwrap();
    if !first.is_empty() {
        client.publish(to.to_owned(), first.to_vec().into()).await.unwrap();
    }
    while !is_asked(&timeout(MAX_WAIT, heard.next()).await.unwrap().unwrap().payload) {}
    client.publish(to.to_owned(), answer.to_vec().into()).await.unwrap();
    client.flush().await.unwrap();
}

fn run(doing: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(doing);
}

#[test]
fn a_key_server_of_the_first_version_is_named() {
    let Some(nats) = Server::start() else { return };
    let near = Site::near();
    let gateway = near.gateway(&nats.url());
    let subjects = ["farm.keys.gateway.near", "farm.keys.up.near.old"];
    // Its join: a slot, and no keys.
    run(answered(&nats.url(), subjects, &[], wire::is_first_presence, &[1, 1, 2, 0, 1, 0]));
    let own = wire::VERSION;
    let said = gateway.says(&format!("the key server old speaks version 1 of the protocol, this program {own}"));
    assert!(said.contains("install the same version of sidecore on both machines"), "{said}");
}

#[test]
fn a_gateway_of_another_version_is_named_and_learns_this_one_and_others_are_served() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = (Site::near(), Site::far());
    near.knows("www", &far.import("www", RSA, Acl::default()));
    let (_gateway, key_server) = (near.gateway(&nats.url()), far.key_server(&nats.url(), "one"));
    let mut user = User::new(&near, "www", pkcs1());
    user.call_soon(Op::Sign, MESSAGE);
    let subjects = ["farm.keys.up.new.one", "farm.keys.gateway.new"];
    let is_notice = |bytes: &[u8]| *bytes == *wire::version_notice();
    run(answered(&nats.url(), subjects, &[wire::VERSION + 1, 7], is_notice, &[]));
    let (other, own) = (wire::VERSION + 1, wire::VERSION);
    key_server.says(&format!("the gateway new speaks version {other} of the protocol, this program {own}"));
    user.call_soon(Op::Sign, MESSAGE);
}
