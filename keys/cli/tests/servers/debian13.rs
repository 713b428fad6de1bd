//! Debian 13 with its OpenSSL 3.5: the package, and Debian's programs with keys in the service.

use crate::debian::Debian;
use crate::guides::project;
use crate::programs::package_of;
use crate::table::PROGRAMS;
use std::path::Path;

#[test]
fn on_debian_13_the_programs_do_with_openssl_3_5_as_the_page_says() {
    let debian = Debian::new();
    debian.packages("first", "0.1.0-2");
    let mut packages = vec!["openssl"];
    packages.extend(PROGRAMS.iter().flat_map(|program| package_of(program.command[0]).split(' ')));
    debian.write("packages", &packages.join(" "));
    let tests = std::env::current_exe().unwrap();
    let home = env!("CARGO_MANIFEST_DIR");
    debian.write("tables", &format!("cd '{home}' && '{}' table:: settings::\n", tests.display()));
    let told = [("SUITE", "trixie"), ("SHOWN", &shown(&tests))];
    debian.follow(include_str!("debian13-steps.sh"), &packages, &told);
}

/// Paths of the project and of the build, which the container mounts: the same tests run there and compare the page.
fn shown(tests: &Path) -> String {
    let (project, built) = (project(), tests.ancestors().nth(3).unwrap());
    if built.starts_with(&project) {
        project.display().to_string()
    } else {
        format!("{}\n{}", project.display(), built.display())
    }
}
