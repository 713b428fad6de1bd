//! The example for `BoringSSL` and AWS-LC, with the AWS-LC of the service, which its tests build anyway.

use crate::site::{Site, include, run};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// The libraries for C, and where their headers are.
struct AwsLc {
    source: PathBuf,
    crypto: PathBuf,
    ssl: PathBuf,
    prefix: String,
}

impl AwsLc {
    /// The service's own, and `libssl` of the same sources, built once.
    fn built() -> Self {
        // Packages of other systems may not be on this machine.
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let metadata = run(Command::new(env!("CARGO"))
            .args(["metadata", "--offline", "--format-version", "1", "--filter-platform", &platform])
            .current_dir(env!("CARGO_MANIFEST_DIR")));
        let metadata = String::from_utf8(metadata.stdout).unwrap();
        let manifest = metadata.split('"').find(|text| text.contains("/aws-lc-sys-") && text.ends_with("/Cargo.toml"));
        let source = Path::new(manifest.expect("aws-lc-sys")).parent().unwrap().to_owned();
        let target = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
        let outputs = fs::read_dir(target.join("build")).unwrap().map(|entry| entry.unwrap().path().join("out"));
        let files = outputs.filter_map(|output| fs::read_dir(output).ok()).flatten().map(|file| file.unwrap().path());
        let is_crypto = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("libaws_lc_") && name.ends_with("_crypto.a")
        };
        let crypto = files.filter(is_crypto).max().expect("the library that aws-lc-sys built");
        let name = crypto.file_name().unwrap().to_string_lossy().into_owned();
        let prefix = name.trim_start_matches("lib").trim_end_matches("_crypto.a").to_owned();
        let ssl = target.join(format!("{prefix}_ssl"));
        let built = Self { source, crypto, ssl, prefix };
        built.build_ssl();
        built
    }

    fn build_ssl(&self) {
        fs::create_dir_all(&self.ssl).unwrap();
        let lock = File::create(self.ssl.join("lock")).unwrap();
        lock.lock().unwrap();
        let library = self.ssl.join("libssl.a");
        if library.exists() {
            return;
        }
        let list = fs::read_to_string(self.source.join("aws-lc/ssl/CMakeLists.txt")).unwrap();
        let list = list.split("add_library(").nth(1).unwrap().split(')').next().unwrap();
        let names: Vec<&str> = list.split_whitespace().filter(|word| !kind(word).is_empty()).collect();
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for names in names.chunks(names.len().div_ceil(workers)) {
                scope.spawn(|| names.iter().for_each(|name| self.compile(name)));
            }
        });
        let mut archive = Command::new("ar");
        archive.arg("rcs").arg(self.ssl.join("part.a"));
        run(archive.args(names.iter().map(|name| self.object(name))));
        fs::rename(self.ssl.join("part.a"), library).unwrap();
    }

    fn object(&self, name: &str) -> PathBuf {
        self.ssl.join(name).with_extension("o")
    }

    fn compile(&self, name: &str) {
        let mut command = if kind(name) == "c" { Command::new("cc") } else { Command::new("c++") };
        if kind(name) == "cc" {
            command.args(["-std=c++17", "-fno-exceptions", "-fno-rtti"]);
        }
        command.args(["-O0", "-DBORINGSSL_IMPLEMENTATION=1"]).args(self.settings());
        run(command.arg("-c").arg(self.source.join("aws-lc/ssl").join(name)).arg("-o").arg(self.object(name)));
    }

    fn settings(&self) -> Vec<String> {
        let include = |part: &str| format!("-I{}", self.source.join(part).display());
        let prefix = format!("-DBORINGSSL_PREFIX={}", self.prefix);
        vec![prefix, include("generated-include"), include("include"), include("aws-lc/include")]
    }

    /// Builds the example.
    fn server(&self, site: &Site) -> PathBuf {
        let program = site.path("server");
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(include()).args(self.settings());
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/boringssl.c"));
        command.arg(self.ssl.join("libssl.a")).arg(&self.crypto).arg("-L").arg(site.path(""));
        run(command.args(["-lsidecore", "-lstdc++", "-lpthread", "-o"]).arg(&program));
        program
    }
}

/// `c`, `cc` or nothing.
fn kind(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, kind)| kind)
}

/// It ends with the test, also where that fails.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(site: &Site, program: &Path, key: &str) -> Self {
        let log = File::options().create(true).append(true).open(site.path("server.log")).unwrap();
        let mut command = Command::new(program);
        command.args([key, &format!("{key}.crt"), "0"]).current_dir(site.path("")).stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", site.path("")).env("SIDECORE_SOCKET", site.path("socket"));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("it listens").to_owned();
        Self { child, address }
    }

    fn handshake(&self, site: &Site, key: &str, options: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["60", "openssl", "s_client", "-connect", &self.address, "-CAfile", &format!("{key}.crt")]);
        command.args(["-verify_return_error", "-brief"]).args(options).current_dir(site.path("")).stdin(Stdio::null());
        command.output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a key with its certificate, and stores it.
fn certified(site: &Site, name: &str, options: &[&str]) {
    use sidecore::keys::{Acl, KeyCommand};
    let [key, der, certificate] = ["key", "p8", "crt"].map(|kind| format!("{name}.{kind}"));
    let openssl = |arguments: &[&str]| run(Command::new("openssl").args(arguments).current_dir(site.path("")));
    openssl(&[&["genpkey", "-out", &key][..], options].concat());
    openssl(&["pkcs8", "-topk8", "-nocrypt", "-in", &key, "-outform", "DER", "-out", &der]);
    openssl(&["req", "-x509", "-new", "-key", &key, "-subj", "/CN=localhost", "-out", &certificate]);
    let pkcs8 = sidecore::spec::Secret::new(fs::read(site.path(&der)).unwrap());
    site.keys(KeyCommand::Import { name: name.to_owned(), pkcs8, acl: Acl::default() });
}

#[test]
fn the_server_makes_handshakes_by_each_kind_of_key_and_goes_on_when_the_service_starts_again() {
    let mut site = Site::with(&[]);
    let program = AwsLc::built().server(&site);
    for (key, options) in [
        ("rsa", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"][..]),
        ("p256", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
        ("p384", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"]),
        ("ed25519", &["-algorithm", "ED25519"]),
    ] {
        certified(&site, key, options);
        let server = Server::start(&site, &program, key);
        let fine = |site: &Site, options: &[&str]| {
            let output = server.handshake(site, key, options);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && told.contains("Verification: OK"), "{key} {options:?}: {told}");
        };
        for version in ["-tls1_2", "-tls1_3"] {
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| fine(&site, &[version]));
                }
            });
        }
        // There is no raw RSA: such a handshake fails, and the server goes on.
        if key == "rsa" {
            assert!(!server.handshake(&site, key, &["-tls1_2", "-cipher", "AES128-GCM-SHA256"]).status.success());
        }
        site.service = None;
        assert!(!server.handshake(&site, key, &[]).status.success());
        site.start();
        // The server looks for a service each 100 ms.
        let again = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(100));
            server.handshake(&site, key, &[]).status.success()
        });
        assert!(again, "{key}");
        fine(&site, &["-tls1_3"]);
    }
}
