//! Upgrade and rollback: services of two versions replace each other under the load of programs with the library of
//! either version. `cargo xtask upgrade` names the other version. Without it both are this one.

mod faces;
mod refused;
mod vault;
mod version;

use crate::programs::{BOUND, Done, wait_for};
use crate::secrets::directory;
use crate::service::Service;
use crate::table::{House, PROGRAMS, Program, row};
use faces::{FACES, Face};
use scopeguard::defer;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use version::{Version, is_upgrade, planted, versions};

/// Clients of each program. One would never meet a replacement between its handshakes.
const CLIENTS: usize = 2;
/// Handshakes with each service before the next one replaces it.
const BETWEEN: usize = 12;
/// Services in turn, by their place in `versions`: an upgrade, a rollback, and both again.
const SERVICES: [usize; 4] = [0, 1, 0, 1];

#[derive(Debug, Default)]
struct Counts {
    /// With the service of each version.
    with: [usize; 2],
    /// Begun or ended during a replacement.
    during: usize,
    failed: Vec<String>,
}

impl Counts {
    fn all(&self) -> usize {
        self.with[0] + self.with[1] + self.during
    }

    /// Odd moments: the service of half the number serves. Even ones: it is being replaced.
    fn count(&mut self, moments: [usize; 2], done: &Done) {
        if moments[0] == moments[1] && moments[0] % 2 == 1 {
            self.with[SERVICES[moments[0] / 2]] += 1;
        } else {
            self.during += 1;
        }
        if !done.ok() {
            self.failed.push(format!("{moments:?} {done:?}"));
        }
    }
}

/// Counts handshakes while the services replace each other. The first one serves already.
fn replaced(service: &mut Service, versions: &[Version; 2], shake: &(impl Fn() -> Done + Sync)) -> Counts {
    let (stop, moment, counts) = (AtomicBool::new(false), AtomicUsize::new(1), Mutex::new(Counts::default()));
    let done = || counts.lock().unwrap().all();
    thread::scope(|scope| {
        defer!(stop.store(true, Ordering::Relaxed));
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let begun = moment.load(Ordering::SeqCst);
                    let done = shake();
                    counts.lock().unwrap().count([begun, moment.load(Ordering::SeqCst)], &done);
                }
            });
        }
        for (number, version) in SERVICES.into_iter().enumerate() {
            if number > 0 {
                moment.store(2 * number, Ordering::SeqCst);
                service.replace_by(&versions[version].file("sidecore"));
                moment.store(2 * number + 1, Ordering::SeqCst);
            }
            let before = done();
            assert!(wait_for(BOUND, || done() >= before + BETWEEN), "no {BETWEEN} handshakes with service {number}");
        }
    });
    counts.into_inner().unwrap()
}

/// Without Kamailio: that of Debian 12 frees memory twice after some dozens of handshakes at once, with a key of its own,
/// too (its issue 3791).
fn programs() -> Vec<&'static Program> {
    let of_each_test =
        |program: &&Program| if is_upgrade() { program.name != "Kamailio" } else { program.name == "nginx" };
    PROGRAMS.iter().filter(of_each_test).collect()
}

fn faces() -> &'static [Face] {
    if is_upgrade() { &FACES } else { &FACES[..1] }
}

#[derive(Default)]
struct Report {
    lines: String,
    failed: String,
}

impl Report {
    fn add(&mut self, name: &str, library: &Version, counts: &Counts, log: impl FnOnce() -> String) {
        let (Counts { with: [old, new], during, .. }, failed) = (counts, counts.failed.len());
        let line = format!("{name:<12} {:<8} {old:>12} {new:>12} {during:>8} {failed:>7}", library.name);
        println!("{line}");
        writeln!(self.lines, "{line}").unwrap();
        assert!(*old > 0 && *new > 0, "{name} has no handshake with one of the services");
        if failed > 0 {
            writeln!(self.failed, "{name}, library {}:\n{}\n{}", library.name, counts.failed.join("\n"), log())
                .unwrap();
        }
    }
}

#[test]
fn no_handshake_fails_while_services_of_two_versions_replace_each_other() {
    if planted().is_some() {
        return refused::programs_and_services_of_another_layout_say_so();
    }
    let versions = versions();
    let mut report = Report::default();
    println!(
        "{:<12} {:<8} {:>12} {:>12} {:>8} {:>7}",
        "program", "library", "old service", "new service", "between", "failed"
    );
    let libraries = if is_upgrade() { &versions[..] } else { &versions[..1] };
    for library in libraries {
        for program in programs() {
            let (row, directory) = (row(program.name), directory());
            let service = Service::managed_by(directory.path(), &versions[0].file("sidecore"));
            let mut house = House::with(program, &row, directory, service, &library.file("libsidecore_openssl.so"));
            let running = house.start_patient();
            let (service, shake) = house.parts(&running);
            let counts = replaced(service, &versions, &shake);
            report.add(program.name, library, &counts, || running.log());
        }
        // A service from before a face does not know its requests. `cargo xtask upgrade` says what is left out.
        let in_both = |face: &&Face| versions.iter().all(|version| version.has(face.by));
        for face in faces().iter().filter(in_both) {
            let directory = directory();
            let mut service = Service::managed_by(directory.path(), &versions[0].file("sidecore"));
            let running = face.start(directory.path(), &service, library);
            let counts = replaced(&mut service, &versions, &|| running.shake());
            report.add(face.name, library, &counts, || running.log());
        }
    }
    assert!(report.failed.is_empty(), "{}\n{}", report.lines, report.failed);
}
