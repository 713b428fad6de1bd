//! A real nginx on the loopback interface, its certificate, its CPU time, and handshakes with it.

use crate::bench::BenchError;
use crate::bench::programs::{Server, counted, cpu, free_port, on_core};
use std::fmt::Write;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

/// A running nginx.
pub(in crate::bench) struct Nginx {
    _master: Server,
    workers: Vec<u32>,
    /// Where it listens.
    pub(in crate::bench) port: u16,
}

impl Nginx {
    /// With so many workers, this certificate and key, the configuration of OpenSSL if one is given, tied to a core if one is
    /// given.
    pub(in crate::bench) fn start(
        directory: &Path,
        workers: usize,
        (certificate, key): (&Path, &Path),
        openssl: Option<&Path>,
        cpu: Option<usize>,
    ) -> Result<Self, BenchError> {
        fs::create_dir_all(directory)?;
        let (port, configuration) = (free_port()?, directory.join("nginx.conf"));
        fs::write(&configuration, text(directory, workers, port, (certificate, key)))?;
        let mut command = on_core(cpu, "nginx");
        command.arg("-c").arg(&configuration).arg("-e").arg(directory.join("errors"));
        if let Some(openssl) = openssl {
            command.env("OPENSSL_CONF", openssl);
        }
        let mut master = Server::start(&mut command, "nginx")?;
        let (mut started, pid) = (Vec::new(), master.0.id());
        // The socket is there before the workers are.
        let listens = master.wait_until(|| {
            started = children_of(pid)?;
            Ok(started.len() >= workers && TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        if !listens {
            let errors = fs::read_to_string(directory.join("errors")).unwrap_or_default();
            return Err(format!("nginx does not listen: {}", errors.lines().last().unwrap_or("it says nothing")).into());
        }
        Ok(Self { _master: master, workers: started, port })
    }

    /// The first process that makes handshakes.
    pub(in crate::bench) fn worker(&self) -> u32 {
        self.workers[0]
    }

    /// CPU time that the workers used so far, ns.
    pub(in crate::bench) fn cpu(&self) -> Result<u64, BenchError> {
        self.workers.iter().map(|worker| cpu(*worker, *worker)).sum()
    }
}

fn text(directory: &Path, workers: usize, port: u16, (certificate, key): (&Path, &Path)) -> String {
    let mut text = format!("daemon off;\nworker_processes {workers};\n");
    // The worker of a nginx started by root must reach the files of this run, which are root's.
    text.push_str("user root;\n");
    let _ = write!(
        text,
        "pid {0}/pid;\nerror_log {0}/errors;\nevents {{ worker_connections 512; }}\nhttp {{\n  access_log off;\n  \
         client_body_temp_path {0}/body;\n  proxy_temp_path {0}/proxy;\n  fastcgi_temp_path {0}/fastcgi;\n  \
         uwsgi_temp_path {0}/uwsgi;\n  scgi_temp_path {0}/scgi;\n  server {{\n    listen 127.0.0.1:{port} ssl;\n    \
         ssl_certificate {1};\n    ssl_certificate_key {2};\n    ssl_protocols TLSv1.3;\n    ssl_session_cache off;\n    \
         ssl_session_tickets off;\n    return 200;\n  }}\n}}\n",
        directory.display(),
        certificate.display(),
        key.display()
    );
    text
}

fn children_of(master: u32) -> Result<Vec<u32>, BenchError> {
    let path = format!("/proc/{master}/task/{master}/children");
    let children = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// Full handshakes with that port for so many seconds, made by so many processes on that core if one is given; how many there
/// were.
pub(in crate::bench) fn handshakes(
    port: u16,
    loaders: usize,
    seconds: u64,
    cpu: Option<usize>,
) -> Result<u64, BenchError> {
    let start = || {
        let mut command = on_core(cpu, "openssl");
        command.args(["s_time", "-new", "-tls1_3", "-connect", &format!("127.0.0.1:{port}")]);
        command.args(["-time", &seconds.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::null()).spawn()
    };
    let loaders = (0..loaders).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
    let mut count = 0;
    for loader in loaders {
        let output = loader.wait_with_output()?;
        count += counted(&String::from_utf8_lossy(&output.stdout)).ok_or("openssl s_time made no handshake")?;
    }
    Ok(count)
}
