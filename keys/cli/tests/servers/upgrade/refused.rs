//! A version with another lane layout: each refusal names both layouts, and programs go on once the service is back.

use super::faces::FACES;
use super::version::{Version, planted, versions};
use crate::programs::{BOUND, Done, run, wait_for};
use crate::secrets::directory;
use crate::service::Service;
use crate::table::{House, PROGRAMS, row};
use sidecore::core::layout::ABI;
use std::process::Command;

/// The first shows details, the second only the reason.
const SHOWN: [&str; 2] = ["nginx", "stunnel"];
const REASON: &str = "this program's library and the sidecore service are of different versions";

/// Required numbers of failed and of good handshakes.
const HANDSHAKES: usize = 5;

pub(super) fn programs_and_services_of_another_layout_say_so() {
    let [theirs, ours] = versions();
    let other = planted().unwrap();
    for (library, service, [program_layout, service_layout]) in
        [(&theirs, &ours, [other, ABI]), (&ours, &theirs, [ABI, other])]
    {
        let older =
            if program_layout < service_layout { "the program's library is older" } else { "the service is older" };
        let words = format!(
            "lane layout {program_layout}, the service (sidecore {}) {service_layout}; {older}",
            env!("CARGO_PKG_VERSION")
        );
        println!("{words}");
        through_the_provider(library, service, &words);
        through_other_faces(library, service, &words);
    }
}

fn through_the_provider(library: &Version, other: &Version, words: &str) {
    for program in PROGRAMS.iter().filter(|program| SHOWN.contains(&program.name)) {
        let (row, directory) = (row(program.name), directory());
        let own = library.file("sidecore");
        let service = Service::managed_by(directory.path(), &own);
        let mut house = House::with(program, &row, directory, service, &library.file("libsidecore_openssl.so"));
        let running = house.start_patient();
        let (service, shake) = house.parts(&running);
        let expected = if program.name == SHOWN[0] { words } else { REASON };
        there_and_back(service, [library, other], &shake, words, |_| running.log().contains(expected));
        println!("{}: refused with its reason, and works again", program.name);
    }
}

fn through_other_faces(library: &Version, other: &Version, words: &str) {
    for face in &FACES {
        let directory = directory();
        let mut service = Service::managed_by(directory.path(), &library.file("sidecore"));
        let running = face.start(directory.path(), &service, library);
        // gnutls-serv shows no error of a module: it is in the system's log.
        let is_silent = face.name == "gnutls-serv";
        let says = |done: &Done| is_silent || running.log().contains(words) || done.stderr.contains(words);
        there_and_back(&mut service, [library, other], &|| running.shake(), words, says);
        println!("{}: refused with its reason, and works again", face.name);
    }
}

fn there_and_back(
    service: &mut Service,
    [library, other]: [&Version; 2],
    shake: &(impl Fn() -> Done + Sync),
    words: &str,
    says: impl Fn(&Done) -> bool,
) {
    let good = || {
        for _ in 0..HANDSHAKES {
            let done = shake();
            assert!(done.ok(), "{done:?}");
        }
    };
    good();
    service.replace_by(&other.file("sidecore"));
    for _ in 0..HANDSHAKES {
        let done = shake();
        assert!(!done.ok(), "not refused: {done:?}");
        assert!(wait_for(BOUND, || says(&done)), "no reason: {done:?}");
    }
    assert!(service.log().contains(words), "{}", service.log());
    // The commands need no lane.
    for version in [library, other] {
        let mut list = Command::new(version.file("sidecore"));
        let listed = run(list.args(["keys", "list", "--socket"]).arg(service.socket())).expect("keys list");
        assert!(listed.contains("p-256"), "{listed}");
    }
    service.replace_by(&library.file("sidecore"));
    good();
}
