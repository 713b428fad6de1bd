//! A program linked with `liburing` is served until it makes a ring of the kernel's.

use super::program::{command, compiled_with, started};
use super::{same, skipped};
use std::path::Path;
use std::process::Command;

#[test]
fn a_program_that_makes_a_ring_of_the_kernels_is_on_the_kernel_from_then_on() {
    if !Path::new("/usr/include/liburing.h").exists() {
        return skipped("no liburing here: apt-get install liburing-dev");
    }
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls/maker.c");
    let made = |name: &str, options: &[&str]| {
        let library = directory.path().join(name);
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).args(options);
        assert!(cc.status().unwrap().success(), "{name}");
        library.to_str().unwrap().to_owned()
    };
    let (linked, with_its_own) = (made("linked.so", &["-luring"]), made("own.so", &["-l:liburing.a"]));
    let socket = directory.path().join("socket");
    let _service = started(&socket);
    for (options, makers, threads) in [
        (&["-luring"][..], &["init", "params", "call", &linked, &with_its_own, "liburing.so.2"][..], 2),
        // Only the object that makes the ring contains these functions.
        (&["-l:liburing.a"], &[&linked, &with_its_own, "liburing.so.2"], 2),
        // The program itself contains them, and calls them without interception.
        (&["-l:liburing.a", "-rdynamic"], &["init"], 1),
    ] {
        let program = compiled_with(directory.path(), &["ring.c"], options);
        for maker in makers {
            let found = |service: Option<&Path>| {
                let output = command(&program, &[], service).env("MAKER", maker).output().unwrap();
                let said = String::from_utf8(output.stdout).unwrap();
                assert!(output.status.success(), "{maker} {options:?}: {said}");
                said
            };
            let plain = found(None);
            if plain.contains("no ring here") {
                return skipped("the kernel makes no io_uring here, also without the library");
            }
            assert_eq!(plain.matches("heard all, then -7").count(), 2, "{plain}");
            let expected = plain.replace("without a ring: 1", &format!("without a ring: {threads}"));
            same(&expected, &found(Some(&socket)));
        }
    }
}
