//! Gateways that die or fall silent with requests: each request still completes exactly once, and right.

use crate::common::{RSA, RSA_PUBLIC, Signer, config, expected, import, import_public, remote, share, start, until};
use crate::far::{Far, Line, Manner};
use crate::serves::WWW;
use sidecore::client::Error;
use sidecore::config::{Config, DeviceConfig};
use sidecore::core::session::Refusal;
use sidecore::gateway::{Answer, Outcome, Tell};
use sidecore::service::Service;
use sidecore_counters::{SidecoreCounter, Snapshot};
use std::thread;

fn count(service: &Service, counter: SidecoreCounter) -> u64 {
    Snapshot::read(service.counters()).unwrap().sidecores[0].get(counter)
}

fn with_two() -> crate::common::Running {
    let devices =
        vec![DeviceConfig::inline("here"), DeviceConfig::remote("far", "keys"), DeviceConfig::remote("other", "keys")];
    start(Config { devices, ..config(20_000) })
}

#[test]
fn what_a_dead_gateway_had_is_done_by_another_one() {
    let service = with_two();
    import_public(&service, "www", RSA_PUBLIC);
    crate::common::administer(&service).set("balance=round-robin").unwrap();
    let other = Far::start_as(&service, "other", &[WWW], Manner::Honest);
    let mut signers: Vec<Signer> = (0..4).map(|_| Signer::new(&service, "www")).collect();
    assert_eq!(signers[0].sign_soon(), expected());
    let mut dies = Line::to(&service);
    dies.offer(&WWW);
    thread::scope(|scope| {
        let signing: Vec<_> = signers
            .iter_mut()
            .map(|signer| scope.spawn(|| (0..20).for_each(|_| assert_eq!(signer.sign().unwrap(), expected()))))
            .collect();
        dies.request();
        drop(dies);
        for thread in signing {
            thread.join().unwrap();
        }
    });
    assert!(other.asked() > 80 && count(&service, SidecoreCounter::Replayed) > 0);
}

#[test]
fn what_a_dead_gateway_had_is_done_here_where_the_key_is_here_too() {
    let service = remote();
    import(&service, "www", RSA);
    share(&service, "www", true);
    crate::common::administer(&service).set("balance=round-robin").unwrap();
    for _ in 0..5 {
        let dies = Far::start(&service, &[WWW], Manner::DiesAfter(1));
        let mut signer = Signer::new(&service, "www");
        until("it is asked", || {
            assert_eq!(signer.sign().unwrap(), expected());
            dies.asked() > 0
        });
        drop(dies);
        drop(Line::to(&service));
    }
    until("it is counted", || count(&service, SidecoreCounter::Replayed) >= 5);
}

#[test]
fn what_nobody_behind_a_gateway_does_is_done_here_or_refused_by_name() {
    let service = remote();
    import(&service, "www", RSA);
    import_public(&service, "only", RSA_PUBLIC);
    share(&service, "www", true);
    crate::common::administer(&service).set("balance=round-robin").unwrap();
    let only = crate::far::OwnKey { name: "only", ..WWW };
    let far = Far::start(&service, &[WWW, only], Manner::Elsewhere);
    let mut both = Signer::new(&service, "www");
    until("it is asked", || {
        assert_eq!(both.sign().unwrap(), expected());
        far.asked() > 3
    });
    let refused = Signer::new(&service, "only").sign().unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::KeyElsewhere)), "{refused}");
}

#[test]
fn a_gateway_that_answers_nothing_loses_its_device_after_the_time_that_is_configured() {
    let service = start(config(100));
    import(&service, "www", RSA);
    share(&service, "www", true);
    crate::common::administer(&service).set("balance=round-robin").unwrap();
    let mute = Far::start(&service, &[WWW], Manner::Mute);
    let mut signer = Signer::new(&service, "www");
    until("it is asked", || {
        assert_eq!(signer.sign().unwrap(), expected());
        mute.asked() > 0
    });
    drop(mute);
    drop(Line::to(&service));
}

#[test]
fn a_gateway_that_says_nothing_at_all_loses_its_device() {
    let service = remote();
    import_public(&service, "www", RSA_PUBLIC);
    let mut silent = Line::to(&service);
    silent.offer(&WWW);
    // It reads, and does not beat.
    assert!(silent.is_ended());
    drop(Line::to(&service));
}

#[test]
fn a_gateway_that_withdraws_a_key_is_not_asked_for_it_until_it_offers_it_again() {
    let service = remote();
    import_public(&service, "www", RSA_PUBLIC);
    let mut line = Line::to(&service);
    line.offer(&WWW);
    let mut signer = Signer::new(&service, "www");
    thread::scope(|scope| {
        let signing = scope.spawn(|| signer.sign_soon());
        let (ticket, _) = line.request();
        // The answer points to others, but there is no other gateway. This one repeats it until it has the key again.
        line.tell(&Tell::Withdraw("www")).unwrap();
        line.tell(&Tell::Answer(Answer { ticket, outcome: Outcome::Elsewhere })).unwrap();
        line.offer(&WWW);
        let (ticket, digest) = line.request();
        let signature = crate::common::sign_digest(&digest);
        line.tell(&Tell::Answer(Answer { ticket, outcome: Outcome::Done(&signature) })).unwrap();
        while !signing.is_finished() {
            let _ = line.tell(&Tell::Beat);
            let _ = line.hear(|_| ());
        }
        assert_eq!(signing.join().unwrap(), expected());
    });
}
