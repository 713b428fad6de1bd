//! `sidecore try`: the main use in half a minute, without setup or root. A key moves out of an unmodified TLS server
//! into a service. Real programs show the effects.

mod fixture;
mod secret;

use crate::error::TryError;
use fixture::{Fixture, Server};
use secret::{Numbers, Seen};
use sidecore::core::stage::Stage;
use sidecore_counters::KeyCounter;
use sidecore_measure::experiment::{By, Case, Run, Turn, Variant, measure_all};
use sidecore_measure::export::export;
use sidecore_measure::figures::section;
use sidecore_measure::files::Files;
use sidecore_measure::programs::need;
use sidecore_measure::progress::Progress;
use sidecore_report::{Outcome, Section, column};
use std::process::Command;
use std::thread;
use std::time::Duration;

static SECTION: Section = section("try", "TLS servers", "Full handshakes a second, by one process after the other.");

/// Seconds of handshakes in each turn, and number of turns.
const SECONDS: u64 = 1;
const TURNS: usize = 3;
/// Seconds of handshakes during restarts of the service, and number of restarts.
const RESTART_SECONDS: u64 = 4;
const RESTARTS: usize = 2;
const BASELINE: &str = "key in a file";
const STORED: &str = "key in sidecore";
const NGINX_BASELINE: &str = "nginx, key in a file";
const NGINX_STORED: &str = "nginx, key in sidecore";

/// Measures, and writes the files.
///
/// # Errors
/// OpenSSL is missing, or a part failed.
pub(crate) fn run(files: &Files) -> Result<(), TryError> {
    openssl()?;
    let mut progress = Progress::new(6);
    let outcome = keys(&mut progress)?;
    drop(progress);
    Ok(export("sidecore try", files, outcome, [&SECTION])?)
}

fn openssl() -> Result<(), TryError> {
    need(&["openssl"], "apt-get install openssl")?;
    let said = Command::new("openssl").arg("version").output()?;
    let version = String::from_utf8_lossy(&said.stdout);
    let major = version.strip_prefix("OpenSSL ").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    if major.is_some_and(|major| major >= 3) { Ok(()) } else { Err(TryError::OldOpenSsl(version.trim().to_owned())) }
}

fn keys(progress: &mut Progress) -> Result<Outcome, TryError> {
    progress.scenario("try");
    progress.begin("a key, a certificate, two servers");
    let mut fixture = Fixture::build()?;
    let numbers = Numbers::of(&fixture.key)?;
    let own = fixture.server_with_file()?;
    let stored = fixture.server_with_service()?;
    progress.advance();
    progress.begin("handshakes, and a search of the servers' memory");
    let mut notes = Vec::new();
    for (name, server) in [(BASELINE, &own), (STORED, &stored)] {
        fixture.handshake(server.port())?;
        notes.push(searched(name, &numbers.in_process(server.id())?));
    }
    progress.advance();
    let mut outcome = rates(&mut fixture, [(BASELINE, own.port()), (STORED, stored.port())], progress)?;
    progress.begin("the same with nginx");
    let with_nginx = nginx(&mut fixture, &numbers, &mut outcome, progress);
    notes.push(with_nginx.unwrap_or_else(|why| format!("try: nginx is left out: {why}")));
    progress.advance();
    progress.begin("a server is killed");
    notes.push(killed(&mut fixture, &stored)?);
    progress.advance();
    progress.begin("the service restarts under load");
    notes.push(restarted(&mut fixture, &stored)?);
    notes.push(numbers_again(&numbers, &stored)?);
    progress.advance();
    notes.extend(stages(&fixture)?);
    notes.push(
        "try: both servers are openssl s_server where no other is named, with a P-256 key and TLS 1.3; handshakes are full ones, by one process openssl s_time. \
         To move a server's key yourself: docs/guide/nginx.md."
            .to_owned(),
    );
    for note in notes {
        outcome.note(note);
    }
    Ok(outcome)
}

fn searched(name: &str, seen: &Seen) -> String {
    let Seen { found, of, bytes } = seen;
    let mib = bytes >> 20;
    let verdict = if *found == 0 { "the private key is not there" } else { "the private key can be read there" };
    format!(
        "try: {name}: a handshake was verified; {found} of {of} pieces of the private key are in the server's {mib} MiB of memory: {verdict}."
    )
}

/// Repeats the search: errors and restarts must not leave the key in memory either.
fn numbers_again(numbers: &Numbers, server: &Server) -> Result<String, TryError> {
    let Seen { found, of, .. } = numbers.in_process(server.id())?;
    Ok(format!("try: {STORED}: after all of this, {found} of {of} pieces are in the server's memory."))
}

fn rates(fixture: &mut Fixture, servers: [(&'static str, u16); 2], progress: &Progress) -> Result<Outcome, TryError> {
    let [own, stored] = servers.map(|(name, port)| {
        Variant::new(name, move |fixture: &mut Fixture, _: &Turn<'_>| {
            Ok(Run::at(fixture.handshakes(port, SECONDS)?.ended()?.per_s(SECONDS)))
        })
    });
    let case = Case::new("try")
        .with(column::OP, "p-256-sign")
        .with(column::CLIENTS, 1)
        .variant(own)
        .variant(stored.against(By::Rate, servers[0].0));
    measure_all(fixture, vec![case], TURNS, progress)
}

fn nginx(
    fixture: &mut Fixture,
    numbers: &Numbers,
    outcome: &mut Outcome,
    progress: &Progress,
) -> Result<String, TryError> {
    if let Err(why) = need(&["nginx"], "apt-get install nginx-light, to see the same with it") {
        return Ok(format!("try: {why}."));
    }
    let (own, stored) = (fixture.nginx(false)?, fixture.nginx(true)?);
    let mut found = Vec::new();
    for server in [&own, &stored] {
        fixture.handshake(server.port)?;
        found.push(numbers.in_process(server.worker())?);
    }
    outcome.add(rates(fixture, [(NGINX_BASELINE, own.port), (NGINX_STORED, stored.port)], progress)?);
    Ok(format!(
        "try: nginx, one worker each: handshakes were verified; with its key in a file {} of {} pieces of it are in the worker's memory, with \
         its key in sidecore {} of {}.",
        found[0].found, found[0].of, found[1].found, found[1].of
    ))
}

fn killed(fixture: &mut Fixture, other: &Server) -> Result<String, TryError> {
    let mut victim = fixture.server_with_service()?;
    let load = fixture.handshakes(victim.port(), SECONDS)?;
    fixture.wait_for_lane(victim.id(), true, "a server under load did not ask the service: try again")?;
    let before = fixture.lanes()?;
    victim.kill()?;
    // The load ends because its server did.
    drop(load.ended());
    fixture.wait_for_lane(victim.id(), false, "the service kept the lane of a process that was killed")?;
    let after = fixture.lanes()?;
    fixture.handshake(other.port())?;
    Ok(format!(
        "try: a server was killed (SIGKILL) while it signed: the service gave its lane back ({before} lanes before, {after} after), and \
         the other server's handshake was verified."
    ))
}

fn restarted(fixture: &mut Fixture, server: &Server) -> Result<String, TryError> {
    let load = fixture.handshakes(server.port(), RESTART_SECONDS)?;
    for _ in 0..RESTARTS {
        thread::sleep(Duration::from_millis(500));
        fixture.restart()?;
    }
    let done = load.ended()?;
    let failed = if done.failed { "one failed, and the load ended there" } else { "none failed" };
    Ok(format!(
        "try: the service was restarted {RESTARTS} times under load: {} handshakes in {RESTART_SECONDS} s, {failed}; its keys were at rest, \
         sealed, meanwhile.",
        done.count
    ))
}

fn stages(fixture: &Fixture) -> Result<Option<String>, TryError> {
    let counters = fixture.counters()?;
    let Some(key) = counters.keys.iter().find(|key| key.name == fixture::NAME) else { return Ok(None) };
    if key.get(KeyCounter::Done) == 0 {
        return Ok(None);
    }
    let micros = |stage: Stage| format!("{:.1} us", key.stage(stage).summary().p50 / 1e3);
    Ok(Some(format!(
        "try: of {} signatures since the last restart, in the median: {} from submission to the sidecore, {} for the signature itself.",
        key.get(KeyCounter::Done),
        micros(Stage::Queue),
        micros(Stage::Device),
    )))
}
