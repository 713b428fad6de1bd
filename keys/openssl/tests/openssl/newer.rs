//! OpenSSL 3.5 of Debian 13, from packages that apt fetches. Its programs run next to those of this system, with a C
//! library of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const PACKAGES: [&str; 6] = ["openssl", "libssl3t64", "libc6", "libgcc-s1", "zlib1g", "libzstd1"];
const SOURCE: &str = "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: trixie\nComponents: main\n\
                      Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n";

static ROOT: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debian-13");
    let root = place.join("root");
    if !root.join("usr/bin/openssl").exists() {
        fetch(&place, &root)?;
    }
    Ok(root)
});

/// Runs a program of this system, or Debian 13's own `openssl`, with its libraries.
pub(crate) fn command(program: &str) -> Result<Command, String> {
    let root = ROOT.as_ref().map_err(Clone::clone)?;
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
    let own = root.join("usr/bin").join(program);
    command.arg("--library-path").arg(&libraries).arg(if own.exists() { own } else { program.into() });
    command.env("OPENSSL_MODULES", libraries.join("ossl-modules"));
    Ok(command)
}

/// By apt with settings of its own, so that this system's packages do not change.
fn fetch(place: &Path, root: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let _ = fs::remove_dir_all(place);
    for directory in ["state/lists/partial", "cache/archives/partial", "sources", "packages"] {
        fs::create_dir_all(place.join(directory)).map_err(failed)?;
    }
    fs::write(place.join("sources/trixie.sources"), SOURCE).map_err(failed)?;
    let settings = [
        format!("Dir::State={}", place.join("state").display()),
        format!("Dir::Cache={}", place.join("cache").display()),
        format!("Dir::Etc::SourceParts={}", place.join("sources").display()),
        "Dir::Etc::SourceList=/dev/null".to_owned(),
        "Dir::State::status=/dev/null".to_owned(),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.current_dir(place.join("packages")).arg("-qq").args(settings.iter().flat_map(|set| ["-o", set]));
        done(apt.args(arguments))
    };
    apt(&["update"])?;
    apt(&[&["download"][..], &PACKAGES].concat())?;
    let unpacked = place.join("unpacked");
    for package in fs::read_dir(place.join("packages")).map_err(failed)? {
        done(Command::new("dpkg-deb").arg("-x").arg(package.map_err(failed)?.path()).arg(&unpacked))?;
    }
    fs::rename(unpacked, root).map_err(failed)
}

fn done(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", said.trim())) }
}
