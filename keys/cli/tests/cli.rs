//! The other commands as a user runs them: `serve`, `set` and `top` together, and their messages about mistakes.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecore"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

struct Service {
    child: Child,
    scratch: TempDir,
}

impl Service {
    fn start() -> Self {
        Self::with("")
    }

    fn with(more: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let config = scratch.path().join("sidecore.toml");
        fs::write(&config, format!("socket = '{}'\n{more}", scratch.path().join("socket").display())).unwrap();
        let mut serve = command();
        let child = serve.arg("serve").arg("--config").arg(config).stderr(Stdio::piped()).spawn().unwrap();
        let service = Self { child, scratch };
        service.wait_until_it_answers();
        service
    }

    /// The socket's file is there a moment before it can be connected to.
    fn wait_until_it_answers(&self) {
        for _ in 0..1000 {
            if self.run(&["get", "order"]).status.success() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no service answers at {}", self.socket().display());
    }

    fn socket(&self) -> std::path::PathBuf {
        self.scratch.path().join("socket")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        command().args(arguments).env("SIDECORE_SOCKET", self.socket()).output().unwrap()
    }

    fn terminate(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_service_is_changed_watched_and_ended() {
    let service = Service::start();
    let set = service.run(&["set", "notify=park", "balance=sed"]);
    assert!(set.status.success(), "{}", stderr(&set));
    let top = service.run(&["top", "--once"]);
    assert!(top.status.success(), "{}", stderr(&top));
    let text = String::from_utf8(top.stdout).unwrap();
    assert!(text.contains("park") && text.contains("sed"), "{text}");
    assert!(service.terminate().success());
}

#[test]
fn a_policy_that_will_not_spin_is_set_with_a_warning_and_shown_so() {
    let service = Service::start();
    let set = service.run(&["set", "notify=spin"]);
    let force = String::from_utf8_lossy(&set.stdout);
    let said =
        force.starts_with("notify: service spin (parks: tied to no core), ") && force.ends_with("; balance: eft\n");
    assert!(set.status.success() && said, "{force}");
    let parks = "notify.service, notify.from_device: spin (parks: tied to no core)";
    assert!(stderr(&set).starts_with(&format!("sidecore: warning: {parks}")), "{}", stderr(&set));
    assert!(stderr(&set).contains("sidecores.owned"), "{}", stderr(&set));
    let top = String::from_utf8(service.run(&["top", "--once"]).stdout).unwrap();
    assert!(top.contains("service spin (parks: tied to no core), to device spin, "), "{top}");
    let cpu = sidecore_daemon::sys::cpu::allowed()[0];
    let worker = format!("device={{name='w',kind='worker',cpu={cpu}}}");
    let worker = service.run(&["set", &worker, "notify.to_device=learn"]);
    let parks = format!("notify.to_device: learn (parks: core {cpu} is shared)");
    assert!(stderr(&worker).contains(&parks), "{}", stderr(&worker));
    let park = service.run(&["set", "notify=park"]);
    assert_eq!((park.status.code(), stderr(&park)), (Some(0), String::new()));
}

#[test]
fn a_policy_that_spins_on_a_core_of_its_own_is_set_without_a_word() {
    let cpu = sidecore_daemon::sys::cpu::allowed()[0];
    let service = Service::with(&format!("[sidecores]\ncpus = [{cpu}]\nowned = true\n"));
    let set = service.run(&["set", "notify.service=spin"]);
    assert_eq!((set.status.code(), stderr(&set)), (Some(0), String::new()));
    let top = String::from_utf8(service.run(&["top", "--once"]).stdout).unwrap();
    assert!(top.contains("service spin, to device break-even, from device break-even"), "{top}");
    let set = service.run(&["set", "notify.service=park", "notify.from_device=spin"]);
    assert!(stderr(&set).contains("notify.from_device: spin (waits as service: park)"), "{}", stderr(&set));
}

#[test]
fn a_setting_that_does_not_exist_is_refused_with_what_can_be_written() {
    let service = Service::start();
    let nonsense = service.run(&["set", "nonsense"]);
    assert_eq!(nonsense.status.code(), Some(2));
    assert!(stderr(&nonsense).contains("write key=value"));
    // One refused setting keeps all others from being set, in any order.
    for refused in ["device.nobody=drain", "device={name='w',kind='worker',cpu=900}"] {
        let set = service.run(&["set", "balance=priced", refused]);
        assert_eq!(set.status.code(), Some(2));
        assert!(stderr(&set).contains("nothing was changed"), "{}", stderr(&set));
    }
    let limit = service.run(&["set", "limits.clients_per_uid=301"]);
    assert!(String::from_utf8(limit.stdout).unwrap().starts_with("limits.clients_per_uid=301\nnotify: "));
    let top = String::from_utf8(service.run(&["top", "--once"]).stdout).unwrap();
    assert!(top.contains("balance: eft"), "{top}");
    let unknown = service.run(&["set", "notifi=park"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("did you mean \"notify\"?"), "{}", stderr(&unknown));
}

#[test]
fn what_is_in_force_is_printed_as_it_is_set() {
    let service = Service::with("balance = 'sed'\n[limits]\nclients_per_uid = 300\n");
    let get = |keys: &[&str]| service.run(&[&["get"], keys].concat());
    let all = String::from_utf8(get(&[]).stdout).unwrap();
    for line in ["balance=sed", "limits.clients_per_uid=300", "notify.client=break-even", "device.inline=active"] {
        assert!(all.lines().any(|other| other == line), "{line}: {all}");
    }
    assert_eq!(String::from_utf8(get(&["order"]).stdout).unwrap(), "order=fifo\n");
    let unknown = get(&["oder"]);
    assert_eq!((unknown.status.code(), unknown.stdout.len()), (Some(2), 0));
    assert!(stderr(&unknown).contains("no setting \"oder\""), "{}", stderr(&unknown));
}

#[test]
fn a_changed_configuration_is_loaded_into_a_running_service() {
    let mut service = Service::with("balance = 'sed'\n");
    let changed = service.scratch.path().join("changed.toml");
    let reload = |service: &Service, text: &str| {
        fs::write(&changed, text).unwrap();
        service.run(&["reload", "--config", changed.to_str().unwrap()])
    };
    let both = "order = 'fifo'\n[limits]\nlanes = 64\nclients_per_uid = 300\n[[device]]\nname = 'inline'\nkind = 'inline'\n\
                [[device]]\nname = 'w'\nkind = 'worker'\n";
    let done = reload(&service, both);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(stderr(&done).contains("limits.lanes=64 takes effect at the next start"), "{}", stderr(&done));
    let get = String::from_utf8(service.run(&["get"]).stdout).unwrap();
    for line in ["balance=eft", "order=fifo", "limits.clients_per_uid=300", "limits.lanes=2048", "device.w=active"] {
        assert!(get.lines().any(|other| other == line), "{line}: {get}");
    }
    let wrong = reload(&service, "balance = 'sedd'\n");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("line 1") && stderr(&wrong).contains("changed.toml"), "{}", stderr(&wrong));
    // The command line has priority over the file.
    fs::write(&changed, format!("socket = '/no/such'\n{both}")).unwrap();
    let socket = service.scratch.path().join("socket");
    let named = service.run(&["reload", "--config", changed.to_str().unwrap(), "--socket", socket.to_str().unwrap()]);
    assert!(named.status.success() && named.stdout == b"nothing was changed\n", "{}", stderr(&named));
    // SIGHUP does not end the service; its log says what to do instead.
    kill_process(Pid::from_child(&service.child), Signal::HUP).unwrap();
    assert_eq!(service.run(&["get", "order"]).stdout, b"order=fifo\n");
    kill_process(Pid::from_child(&service.child), Signal::TERM).unwrap();
    let mut said = String::new();
    service.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("run `sidecore reload"), "{said}");
}

#[test]
fn without_a_service_there_is_nothing_to_set_or_to_watch() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    for arguments in [&["set", "notify=park"][..], &["top", "--once"]] {
        let output = command().args(arguments).env("SIDECORE_SOCKET", &socket).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(&path_text(&socket)), "{}", stderr(&output));
    }
}

#[test]
fn a_configuration_is_refused_with_file_line_and_the_nearest_key() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("bad.toml");
    fs::write(&file, "sample_every = 8\nballance = \"eft\"\n").unwrap();
    let output = command().arg("serve").arg("--config").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains(&path_text(&file)) && said.contains("line 2") && said.contains("\"balance\""), "{said}");
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}
