//! The views of a made-up counter file.

use super::live::{Pages, latest};
use super::rows::{SORTS, View, clients, header, keys};
use super::{print, render};
use crate::error::WatchError;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sidecore_core::dispatch::DeviceState;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::{Audit, Notify, ThreadCore};
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use sidecore_core::wire::Fault;
use sidecore_counters::{Counters, DeviceCounter, KeyCounter, LaneCounter, Shape, SidecoreCounter, Snapshot, Start};
use sidecore_ipc::sys::clock;
use sidecore_terminal::error::TerminalError;
use sidecore_terminal::screen::{Screen, Shown};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The age of the service in each view that is tested, however long the test takes.
const AGE: u64 = 10_000_000_000;

struct Service {
    folder: PathBuf,
    counters: Arc<Counters>,
    started: u64,
}

impl Service {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("sidecore-top-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let started = clock::now().saturating_sub(AGE);
        let start = Start { pid: 4242, sample_every: 64, now: started };
        let shape = Shape { sidecores: 1, lanes: 8, devices: 24, keys: 4 };
        let counters = Counters::create(&folder.join("counters"), shape, start).unwrap();
        let service = Self { folder, counters, started };
        service.fill();
        service
    }

    fn fill(&self) {
        self.counters.heartbeat(self.started + AGE);
        let notify = [Notify::BreakEven, Notify::Spin, Notify::Park, Notify::Coalesce { count: 8, delay: 50_000 }];
        self.counters.set_policies(notify, Balance::Eft);
        self.sidecore();
        self.devices();
        self.lane(0, 900, "nginx", 50_000);
        self.lane(1, 900, "nginx", 25_000);
        self.lane(2, 31, "curl", 10);
        self.key(0, "idle.example.org", 0);
        self.key(2, "www.example.org", 40_000);
        self.counters.lane(2).set(LaneCounter::Fault, Fault::ReservedBits as u64 + 1);
    }

    fn sidecore(&self) {
        let sidecore = self.counters.sidecore(0);
        let gcm = Class::from_name("aes-256-gcm").unwrap();
        sidecore.open(ThreadCore::new(Some(3), false));
        sidecore.set(SidecoreCounter::Requests, 75_010);
        sidecore.set(SidecoreCounter::CpuNs, 5_000_000_000);
        sidecore.set(SidecoreCounter::Lanes, 3);
        sidecore.audit(&Audit { waits: 10, cost_ns: 300, optimum_ns: 200, parks: 4, ..Audit::default() });
        sidecore.class(gcm, 1, 16_384);
        sidecore.record(gcm, Stage::Host, 15_000);
    }

    fn devices(&self) {
        let (inline, card) = (self.counters.device(0), self.counters.device(1));
        inline.open("inline", 0, "inline", None);
        inline.add(DeviceCounter::Requests, 75_010);
        inline.record(2_000);
        card.open("card", 0, "emulated", None);
        card.set_state(DeviceState::Gone);
        card.set(DeviceCounter::BacklogNs, 1_500_000);
    }

    fn lane(&self, index: usize, pid: u32, name: &str, requests: u64) {
        let lane = self.counters.lane(index);
        lane.open(pid, 0, 0, name).unwrap();
        lane.add(LaneCounter::Submitted, requests);
        lane.add(LaneCounter::Done, requests);
        lane.set(LaneCounter::InFlight, 7);
        lane.record(Stage::Queue, 1_000 + requests);
        lane.record(Stage::Total, 100_000 - requests);
    }

    fn key(&self, place: usize, name: &str, requests: u64) {
        self.counters.open_key(place, name).unwrap();
        let key = self.counters.key(0, place);
        key.add(KeyCounter::Submitted, requests);
        key.add(KeyCounter::Done, requests);
        key.add(KeyCounter::Sign, requests);
        key.add(KeyCounter::InFlight, 3);
        key.record(Stage::Host, 2_000_000);
    }

    fn path(&self) -> PathBuf {
        self.folder.join("counters")
    }

    fn read(&self) -> Snapshot {
        let taken = self.started + AGE;
        Snapshot { taken, interval: AGE, ..Snapshot::read(&self.path()).unwrap() }
    }

    fn view(&self) -> View {
        View::new(self.read(), None, false)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn line<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    let found = text.lines().find(|line| line.starts_with(begin));
    found.unwrap_or_else(|| panic!("{begin} in\n{text}")).split_whitespace().collect()
}

#[test]
fn the_text_says_who_does_what() {
    let service = Service::new();
    let text = render(&service.view());
    assert!(text.contains("sidecore 4242, up 10s, heartbeat "), "{text}");
    assert!(text.contains("3 of 8 lanes, stage times of 1 request in 64"));
    assert!(text.contains("notify: service break-even (parks: core 3 is shared), to device spin, from device park, "));
    assert!(text.contains("client coalesce(8,50us); "));
    assert!(text.contains("balance: eft"));
    let sidecore = line(&text, "0 ");
    assert_eq!((sidecore[1], sidecore[3], sidecore[7], sidecore[9]), ("3", "50%", "1.50", "75010"));
    let card = line(&text, "card");
    assert_eq!((card[1], card[2], card[6], card[7]), ("emulated", "gone", "1.5ms", "-"));
    assert_eq!(line(&text, "inline")[3], "7.50k", "requests a second");
    let nginx = line(&text, "nginx");
    assert_eq!((nginx[1], nginx[2], nginx[11], nginx[6], nginx[19]), ("900", "root", "14", "75000", "2"));
    assert_eq!(line(&text, "curl")[1..4], ["(reserved-bits)", "31", "root"]);
    let key = line(&text, "www.example.org");
    assert_eq!((key[8], key[2], key[4]), ("3", "0", "40000"));
    assert_eq!((key[1], key[9]), ("4.00k", "4.00k"), "signatures a second");
    assert!(key[7].ends_with("ms"), "{key:?}");
    assert!(text.find("www.example.org") < text.find("idle.example.org"), "the most used key is first");
    assert_eq!(line(&text, "aes-256-gcm")[6], "1");
    assert!(text.contains("* as the client itself says"));
    assert!(!text.contains("not running"));
}

#[test]
fn keys_and_programs_come_first_and_failures_above_them() {
    let service = Service::new();
    let text = render(&service.view());
    let at = |heading: &str| text.find(heading).unwrap_or_else(|| panic!("{heading} in\n{text}"));
    let headings = ["KEY ", "CLIENT ", "DEVICE ", "SIDECORE ", "CLASS "].map(|heading| at(&format!("\n{heading}")));
    assert!(headings.is_sorted() && !text.contains("failures"), "{text}");
    let before = service.read();
    service.counters.sidecore(0).add(SidecoreCounter::Refused, 12);
    service.counters.device(1).add(DeviceCounter::Failed, 3);
    service.counters.key(0, 0).add(KeyCounter::Refused, 12);
    let view = View::new(service.read(), Some(&before), false);
    let told = "failures since the start: requests refused 12 (12 lately), requests lost with a device 3 (3 lately)";
    assert_eq!(header(&view)[2], told);
    assert_eq!(keys(&view).cells[0][0], "idle.example.org", "a key that fails is before one that is used");
    let later = View::new(service.read(), Some(&service.read()), false);
    assert_eq!(header(&later)[2], "failures since the start: requests refused 12, requests lost with a device 3");
    assert!(drawn(&mut Screen::new(Pages::new(service.read())), 120, 30).contains("failures since"));
}

#[test]
fn where_a_wake_up_takes_longer_than_it_costs_the_bound_of_learn_is_explained() {
    let service = Service::new();
    let sidecore = service.counters.sidecore(0);
    sidecore.set(SidecoreCounter::ParkCostNs, 10_000);
    sidecore.set(SidecoreCounter::WakeTimeNs, 50_000);
    assert!(!render(&service.view()).contains("learn:"), "nothing learns");
    service.counters.set_policies([Notify::Learn; 4], Balance::Eft);
    let text = render(&service.view());
    let line = "learn: a wake-up takes 50us and a park costs 10us; the bound of 3 x is kept in the former, and WAIT/OPT is too low";
    assert!(text.contains(line), "{text}");
    sidecore.set(SidecoreCounter::WakeTimeNs, 9_000);
    assert!(!render(&service.view()).contains("learn:"));
}

#[test]
fn columns_are_aligned() {
    let text = render(&Service::new().view());
    let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("CLIENT")).take(3).collect();
    let end = |line: &str, word: &str| line.find(word).unwrap() + word.len();
    assert_eq!(end(table[0], "PID"), end(table[1], " 900"));
    assert_eq!(end(table[0], "PID"), end(table[2], " 31"));
    assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
}

#[test]
fn a_service_that_ended_still_shows_its_last_numbers() {
    let service = Service::new();
    service.counters.heartbeat(service.started + AGE - 2_000_000_000);
    assert!(header(&service.view()).concat().contains("the service is not running: last heartbeat 2s ago"));
    let mut output = Vec::new();
    print(&service.path(), Duration::from_secs(60), &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("the service is not running: last heartbeat "), "{text}");
    assert!(text.contains("ran 8s") && text.contains("nginx"));
    service.counters.heartbeat(u64::MAX);
    assert!(header(&service.view())[2].contains("before this machine started"));
}

#[test]
fn rates_of_the_text_are_those_of_the_interval() {
    let service = Service::new();
    let mut output = Vec::new();
    print(&service.path(), Duration::from_millis(20), &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    let nginx = line(&text, "nginx");
    assert_eq!((nginx[3], nginx[6]), ("0", "75000"), "nothing came meanwhile");
    assert_ne!(nginx[7], "-", "times are those since the start");
}

#[test]
fn errors_are_one_line_with_what_to_do() {
    let error = print(&PathBuf::from("none.counters"), Duration::ZERO, &mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1);
    assert!(error.starts_with("none.counters: ") && error.contains("sidecore serve"), "{error}");
    assert!(TerminalError::View(std::io::ErrorKind::Other.into()).to_string().contains("use --once"));
}

#[test]
fn the_text_ends_quietly_when_nobody_reads_on() {
    struct Output(std::io::ErrorKind);
    impl std::io::Write for Output {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (service, once) = (Service::new(), Duration::ZERO);
    assert!(print(&service.path(), once, &mut Output(std::io::ErrorKind::BrokenPipe)).is_ok());
    let full = print(&service.path(), once, &mut Output(std::io::ErrorKind::StorageFull));
    assert!(full.is_err_and(|error| error.to_string().starts_with("cannot write to standard output: ")));
}

#[test]
fn a_policy_that_spins_is_shown_as_it_is_in_force() {
    let service = Service::new();
    service.counters.set_policies([Notify::Spin; 4], Balance::Eft);
    service.counters.device(1).open("w", 0, "worker", Some(ThreadCore::default()));
    let parks = "service spin (parks: core 3 is shared), to device spin (parks: tied to no core), from device spin (parks: \
                 core 3 is shared), client spin (parks: no core is left for clients); ";
    assert!(render(&service.view()).contains(parks), "{}", render(&service.view()));
    let live = drawn(&mut shown(&service), 240, 44);
    assert!(live.contains("to device spin (parks: tied to no core)"), "{live}");
    service.counters.sidecore(0).open(ThreadCore::new(Some(3), true));
    service.counters.set_clients_may_spin(true);
    // A removed device does not wait.
    service.counters.device(1).set_state(DeviceState::Gone);
    let spins = "notify: service spin, to device spin, from device spin, client spin; ";
    assert!(render(&service.view()).contains(spins), "{}", render(&service.view()));
}

#[test]
fn each_sort_puts_another_client_first() {
    let view = Service::new().view();
    let first = |sort| clients(&view, sort).cells[0][1].clone();
    assert_eq!(SORTS.map(|(column, _)| column)[4], "PID");
    assert_eq!([0, 1, 2, 3, 4].map(first), ["900", "900", "31", "31", "31"]);
    let columns = clients(&view, 0).columns;
    assert!(SORTS.iter().all(|(column, _)| columns.iter().any(|(name, _)| name == column)));
}

fn shown(service: &Service) -> Screen<Pages> {
    Screen::new(Pages::new(service.read()))
}

fn drawn(screen: &mut Screen<impl Shown>, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal.backend().to_string()
}

fn press(screen: &mut Screen<impl Shown>, key: char) {
    screen.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
}

#[test]
fn the_live_view_shows_all_tables() {
    let service = Service::new();
    let text = drawn(&mut shown(&service), 240, 44);
    for part in [
        "sidecore 4242",
        "balance: eft",
        "SIDECORE",
        "card",
        "nginx",
        "aes-256-gcm",
        "www.example.org",
        "q quit",
        "USER",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn a_small_terminal_shows_whole_columns_and_says_what_is_hidden() {
    let service = Service::new();
    (3..8).for_each(|index| service.lane(index, 100 + index as u32, "wget", 3));
    let text = drawn(&mut shown(&service), 80, 20);
    assert!(text.contains("QUEUE p50/p99") && !text.contains("LANES"), "{text}");
    assert!(text.contains("coalesce(8,50us)"), "long lines of the head are wrapped:\n{text}");
    assert!(text.contains("and ") && text.contains(" more"), "{text}");
    let text = drawn(&mut shown(&service), 80, 24);
    let client = text.lines().skip_while(|line| !line.contains("CLIENT")).nth(1);
    assert!(client.is_some_and(|line| line.contains("nginx")), "clients have room on any terminal:\n{text}");
    for size in [(1, 1), (20, 3), (80, 8), (300, 2)] {
        let _ = drawn(&mut shown(&service), size.0, size.1);
    }
}

#[test]
fn on_80_columns_and_24_lines_keys_and_what_was_done_and_failed_are_in_sight() {
    let service = Service::new();
    let mut screen = shown(&service);
    let text = drawn(&mut screen, 80, 24);
    let heading = |name: &str| {
        let line = text.lines().find(|line| line.trim_start_matches('"').starts_with(name));
        line.unwrap_or_else(|| panic!("no {name}\n{text}"))
    };
    for table in ["CLIENT", "KEY"] {
        let line = heading(table);
        assert!(line.contains("DONE") && line.contains("FAILED"), "{text}");
    }
    assert!(text.contains("www.example.org") && text.contains("? help"), "{text}");
    assert!(
        text.lines().take_while(|line| !line.trim_matches(['"', ' ']).is_empty()).count() <= 3,
        "lines of policies:\n{text}"
    );
    assert!(!text.contains("core 3 is shared") && !text.contains("arrows"), "{text}");
    press(&mut screen, '?');
    let help = drawn(&mut screen, 80, 24).replace("\"\n\"", " ");
    assert!(help.contains("arrows   bring") && help.contains("is shared") && !help.contains("nginx"), "{help}");
    press(&mut screen, '?');
    assert!(drawn(&mut screen, 80, 24).contains("nginx"));
}

#[test]
fn the_help_is_left_by_escape_scrolls_where_it_does_not_fit_and_takes_no_other_keys() {
    let service = Service::new();
    let mut screen = shown(&service);
    press(&mut screen, '?');
    let last = "as the client itself says";
    assert!(!drawn(&mut screen, 80, 12).contains(last));
    (0..99).for_each(|_| screen.key(KeyCode::Down.into()));
    let text = drawn(&mut screen, 80, 12);
    assert!(text.contains(last) && !text.contains("q, Esc"), "{text}");
    press(&mut screen, 'k');
    assert!(drawn(&mut screen, 80, 12).contains(last), "the page behind it stays");
    screen.key(KeyCode::Esc.into());
    assert!(!screen.quit() && drawn(&mut screen, 80, 24).contains("nginx"));
    screen.key(KeyCode::Esc.into());
    assert!(screen.quit());
}

#[test]
fn the_live_view_follows_until_it_is_paused() {
    let service = Service::new();
    let mut screen = shown(&service);
    service.counters.lane(0).add(LaneCounter::Done, 11);
    screen.refresh(|| Ok(service.read()));
    assert!(drawn(&mut screen, 240, 44).contains("75011"));
    press(&mut screen, 'p');
    service.counters.lane(0).add(LaneCounter::Done, 11);
    screen.refresh(|| Ok(service.read()));
    assert!(drawn(&mut screen, 240, 44).contains("75011") && drawn(&mut screen, 240, 44).contains("(paused)"));
    press(&mut screen, 'p');
    screen.refresh(|| Ok(service.read()));
    assert!(drawn(&mut screen, 240, 44).contains("75022"));
}

#[test]
fn the_live_view_survives_a_lost_file() {
    let service = Service::new();
    let mut screen = shown(&service);
    screen.refresh(|| Err(WatchError::library("the file is gone")));
    let text = drawn(&mut screen, 240, 44);
    assert!(text.contains("the file is gone") && text.contains("nginx"), "{text}");
    screen.refresh(|| Ok(service.read()));
    assert!(!drawn(&mut screen, 240, 44).contains("the file is gone"));
}

#[test]
fn keys_quit_and_sort() {
    let service = Service::new();
    let mut screen = shown(&service);
    let first = |screen: &mut Screen<Pages>| {
        drawn(screen, 190, 40).lines().skip_while(|line| !line.contains("CLIENT")).nth(1).map(str::to_owned)
    };
    assert!(first(&mut screen).unwrap().contains("nginx"));
    press(&mut screen, 's');
    press(&mut screen, 's');
    assert!(first(&mut screen).unwrap().contains("curl"));
    (0..3).for_each(|_| press(&mut screen, 's'));
    assert!(first(&mut screen).unwrap().contains("nginx"), "after the last one comes the first");
    press(&mut screen, 'x');
    assert!(!screen.quit());
    screen.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(screen.quit());
    let mut screen = shown(&service);
    press(&mut screen, 'c');
    assert!(!screen.quit());
    press(&mut screen, 'q');
    assert!(screen.quit());
}

#[test]
fn pages_are_turned_by_key_and_the_footer_says_so() {
    let service = Service::new();
    let mut screen = shown(&service);
    let text = drawn(&mut screen, 100, 30);
    assert!(text.contains("tab [overview] clients keys") && text.contains("SIDECORE"), "{text}");
    screen.key(KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE));
    let text = drawn(&mut screen, 100, 30);
    assert!(text.contains("[clients]") && text.contains("nginx") && !text.contains("SIDECORE"), "{text}");
    assert!(!text.contains("www.example.org") && text.contains("s sort (REQ/S)"));
    screen.key(KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE));
    let text = drawn(&mut screen, 100, 30);
    assert!(text.contains("[keys]") && text.contains("www.example.org") && !text.contains("nginx"), "{text}");
    assert!(!text.contains("s sort"));
    for (key, page) in [('c', "[clients]"), ('k', "[keys]"), ('o', "[overview]")] {
        press(&mut screen, key);
        assert!(drawn(&mut screen, 100, 30).contains(page));
    }
    screen.key(KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT));
    assert!(drawn(&mut screen, 100, 30).contains("[keys]"));
    service.counters.close_key(0);
    service.counters.close_key(2);
    screen.refresh(|| Ok(service.read()));
    assert!(drawn(&mut screen, 100, 30).contains("no key is stored"));
}

#[test]
fn arrows_bring_hidden_columns_and_rows_into_sight() {
    let service = Service::new();
    (3..8).for_each(|index| service.lane(index, 100 + index as u32, &format!("wget{index}"), 3));
    let mut screen = shown(&service);
    press(&mut screen, 'c');
    let text = drawn(&mut screen, 60, 12);
    assert!(text.contains("nginx") && text.contains("PID") && !text.contains("LANES"), "{text}");
    assert!(text.contains("and ") && !text.contains("wget7"));
    (0..100).for_each(|_| screen.key(KeyEvent::new(KeyCode::Right, KeyModifiers::NONE)));
    (0..100).for_each(|_| screen.key(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE)));
    let text = drawn(&mut screen, 60, 12);
    assert!(text.contains("CLIENT") && text.contains("LANES") && !text.contains("USER"), "{text}");
    let last = text.lines().find(|line| line.contains("wget7")).unwrap();
    assert!(text.contains("PID") && last.contains("107"), "whose row it is stays in sight:\n{text}");
    assert!(text.contains("and 0 more, ") && !text.contains("nginx"));
    screen.key(KeyEvent::new(KeyCode::Left, KeyModifiers::NONE));
    assert!(!drawn(&mut screen, 60, 12).contains("LANES"), "moving back begins where the end was");
    for (width, height) in [(1, 1), (12, 3), (30, 6), (300, 2)] {
        let _ = drawn(&mut screen, width, height);
    }
}

#[test]
fn a_long_name_leaves_room_for_numbers() {
    let service = Service::new();
    service.key(1, &"k".repeat(64), 1_000_000);
    let mut screen = shown(&service);
    press(&mut screen, 'k');
    let text = drawn(&mut screen, 80, 20);
    assert!(text.contains(&"k".repeat(26)) && text.contains("100k") && text.contains("QUEUE p50/p99"), "{text}");
}

fn rows_below(text: &str, heading: &str) -> usize {
    let lines = text.lines().map(|line| line.trim_matches(['"', ' ']));
    let table = lines.skip_while(|line| !line.starts_with(heading)).skip(1);
    table.take_while(|line| !line.is_empty() && !line.starts_with("q quit")).count()
}

#[test]
fn tables_share_the_room_of_any_terminal() {
    let service = Service::new();
    for number in 2..20 {
        service.counters.device(number).open(&format!("card{number}"), 0, "worker", Some(ThreadCore::default()));
    }
    Class::all().take(20).for_each(|class| service.counters.sidecore(0).class(class, 1, 64));
    (3..8).for_each(|index| service.lane(index, 100 + index as u32, "wget", 3));
    for (width, height, least) in [(80, 24, 2), (160, 50, 9)] {
        let text = drawn(&mut shown(&service), width, height);
        let [devices, classes] = ["DEVICE", "CLASS"].map(|heading| rows_below(&text, heading));
        assert!(devices.abs_diff(classes) <= 1 && devices >= least, "{devices} and {classes} of 20 each:\n{text}");
        assert!(rows_below(&text, "CLIENT") >= 2 && rows_below(&text, "SIDECORE") == 1, "{text}");
        assert!(text.contains("nginx") && text.contains("900"), "{text}");
    }
    let roomy = drawn(&mut shown(&service), 160, 80);
    assert_eq!(["DEVICE", "CLASS", "CLIENT"].map(|heading| rows_below(&roomy, heading)), [20, 20, 7], "{roomy}");
}

#[test]
fn waiting_is_never_cheaper_than_the_cheapest_way() {
    let service = Service::new();
    let ended_early = Audit { waits: 1, cost_ns: 10, optimum_ns: 90_000, ..Audit::default() };
    service.counters.sidecore(0).audit(&ended_early);
    assert_eq!(line(&render(&service.view()), "0 ")[7], "1.00");
}

#[test]
fn a_service_that_takes_its_counters_along_has_ended() {
    let service = Service::new();
    let mut screen = Screen::new(Pages::new(latest(&service.path()).unwrap()));
    assert!(!drawn(&mut screen, 80, 24).contains("ended"));
    std::fs::remove_file(service.path()).unwrap();
    screen.refresh(|| latest(&service.path()));
    for (width, height) in [(80, 24), (160, 50)] {
        let text = drawn(&mut screen, width, height);
        assert!(text.contains("the service ended: these are its last numbers") && text.contains("nginx"), "{text}");
    }
    std::fs::write(service.path(), "something else").unwrap();
    screen.refresh(|| latest(&service.path()));
    assert!(!drawn(&mut screen, 80, 24).contains("the service ended"));
}
