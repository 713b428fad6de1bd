//! The project's own tools. `cargo xtask tidy` checks the rules of the source, and `cargo xtask test` runs every
//! check of a change, or those of one part. `cargo xtask alone` tests a part in a tree without the others. `cargo
//! xtask count` counts instructions, and `cargo xtask lines` counts lines. `cargo xtask golden` makes the simulator's
//! pages again, `cargo xtask faults` checks core under faults, and `cargo xtask evp` imports OpenSSL's test vectors.

mod alone;
mod built;
mod count;
mod evp;
mod faults;
mod golden;
mod lines;
mod nightly;
mod parts;
mod release;
mod source;
mod steps;
mod tidy;
mod tools;
mod tree;
mod upgrade;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy             check that the source keeps its own rules
  test             format, lints, tidy, tests, golden pages, faults, instructions, models: all that a change must pass
  test PART        format, tidy, and lints, tests and models of the crates of base, keys, sockets, farm or lab
  alone PART       copy the tree without the parts that keys, sockets or farm may not know, build it, and run the tests of
                   this part and of base; lab, which may know all: build the tree without lab
  nightly [NAME]   checks that take long or need another compiler; NAME is deny, oldest, semver, miri, address, thread,
                   arm, sockets, alone or fuzz
  release [--sign KEY]
                   Debian packages, archives, dependencies, sums and origin of this commit; OpenSSH's KEY signs the sums
  count            count the instructions of an operation, and compare with the limits in docs/results/lane.md
  lines            count the lines of each crate, without tests and of tests
  golden           make the simulator's pages again and name those that differ from the committed ones
  golden --write   replace the committed ones, and write keys/cli/tests/wrong_inputs.md anew
  upgrade [--plant] [COMMIT]
                   services and libraries of COMMIT and of this tree replace each other under load; --plant: COMMIT gets
                   another lane layout, which must be refused with its reason
  faults           check core under random faults with 500 seeds, and that each deliberate defect is found
  faults --seeds N the same with that number of seeds
  evp DIRECTORY    take over OpenSSL's test vectors for what the provider does, from test/recipes/30-test_evp_data";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => root().and_then(|root| tidy::run(&root)),
        ["count"] => root().and_then(|root| count::run(&root)),
        ["lines"] => root().and_then(|root| lines::run(&root)),
        ["golden"] => root().and_then(|root| golden::run(&root, false)),
        ["golden", "--write"] => root().and_then(|root| golden::run(&root, true)),
        ["faults"] => root().and_then(|root| faults::run(&root, None)),
        ["faults", "--seeds", seeds] => root().and_then(|root| faults::run(&root, Some(seeds))),
        ["evp", directory] => root().and_then(|root| evp::run(&root, directory.as_ref())),
        ["nightly", ref names @ ..] => root().and_then(|root| nightly::run(&root, names)),
        ["release", ref arguments @ ..] => root().and_then(|root| release::run(&root, arguments)),
        ["upgrade", ref arguments @ ..] => root().and_then(|root| upgrade::run(&root, arguments)),
        ["alone", ref arguments @ ..] => root().and_then(|root| alone::run(&root, arguments)),
        ["test"] => root().and_then(|root| steps::run(&root, None)),
        ["test", part] => root().and_then(|root| steps::run(&root, Some(part))),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn root() -> Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    Ok(metadata.workspace_root.into_std_path_buf())
}
