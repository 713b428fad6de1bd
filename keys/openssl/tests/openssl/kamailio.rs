//! Kamailio with TLS: its processes share libcrypto's memory, and each uses keys that another one loaded.

use crate::common::Site;
use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const MAX_POLLS: u32 = 600;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

struct Kamailio(Child);

impl Drop for Kamailio {
    fn drop(&mut self) {
        // A process group of its own: the processes that it forks end with it.
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Two ports, each with a key of its own, and four workers.
fn configure(site: &Site, keys: [&str; 2]) -> [u16; 2] {
    let ports =
        [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap()).map(|it| it.local_addr().unwrap().port());
    let directory = site.path("");
    let directory = directory.display();
    let domain = |domain: &str, key: &str| {
        let files = format!("private_key = {directory}/{key}.pem\ncertificate = {directory}/{key}.crt\n");
        format!("[server:{domain}]\nmethod = TLSv1.2+\n{files}")
    };
    let domains = domain("default", keys[0]) + &domain(&format!("127.0.0.1:{}", ports[1]), keys[1]);
    fs::write(site.path("tls.cfg"), domains).unwrap();
    let [one, other] = ports;
    let main = format!(
        "#!KAMAILIO\nlog_stderror=yes\nchildren=1\ntcp_children=4\ndisable_sctp=yes\nauto_aliases=no\nenable_tls=yes\n\
         listen=tls:127.0.0.1:{one}\nlisten=tls:127.0.0.1:{other}\nloadmodule \"ctl.so\"\nloadmodule \"tls.so\"\n\
         modparam(\"ctl\", \"binrpc\", \"unix:{directory}/control\")\nmodparam(\"tls\", \"config\", \"{directory}/tls.cfg\")\n\
         modparam(\"tls\", \"tls_force_run\", 1)\nrequest_route {{ exit; }}\n"
    );
    fs::write(site.path("kamailio.cfg"), main).unwrap();
    ports
}

fn start(site: &Site) -> Kamailio {
    use std::os::unix::process::CommandExt;
    let log = fs::File::create(site.path("kamailio.log")).unwrap();
    let directory = site.path("");
    let child = Command::new("/usr/sbin/kamailio")
        .args(["-DD", "-E", "-m", "64", "-f", "kamailio.cfg", "-P", "pid", "-Y"])
        .arg(&directory)
        .current_dir(&directory)
        .env("OPENSSL_CONF", site.path("openssl.cnf"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("kamailio is missing; run: sudo apt-get install kamailio kamailio-tls-modules");
    Kamailio(child)
}

#[test]
fn workers_use_the_keys_that_another_process_loaded_also_after_it_loaded_them_anew() {
    let site = Site::with(&["rsa2048", "p256"]);
    let keys = ["rsa2048", "p256"];
    for key in keys {
        let (file, certificate) = (format!("{key}.pem"), format!("{key}.crt"));
        site.ok(&["req", "-x509", "-new", "-subj", "/CN=localhost", "-key", &file, "-out", &certificate]);
    }
    let ports = configure(&site, keys);
    let mut kamailio = start(&site);
    let log = || fs::read_to_string(site.path("kamailio.log")).unwrap();
    let control = format!("unix:{}", site.path("control").display());
    let reload = || Command::new("timeout").args(["60", "kamcmd", "-s", &control, "tls.reload"]).output().unwrap();
    let ready = (0..MAX_POLLS).any(|_| {
        sleep(POLL_INTERVAL);
        reload().status.success()
    });
    assert!(ready, "{}", log());
    for _ in 0..3 {
        for (port, key) in ports.into_iter().zip(keys) {
            let (address, certificate) = (format!("127.0.0.1:{port}"), format!("{key}.crt"));
            for _ in 0..8 {
                site.plain(&[
                    "s_client",
                    "-connect",
                    &address,
                    "-CAfile",
                    &certificate,
                    "-verify_return_error",
                    "-brief",
                ]);
            }
        }
        let reloaded = reload();
        let said = String::from_utf8_lossy(&reloaded.stdout).into_owned();
        assert!(reloaded.status.success() && said.contains("reloaded"), "{said}\n{}", log());
    }
    assert!(kamailio.0.try_wait().unwrap().is_none(), "{}", log());
    assert!(!log().contains("exited by a signal"), "{}", log());
}
