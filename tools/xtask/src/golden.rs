//! Committed pages that programs make: a change of policy, or of a message, is a changed table in review.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::Artifact;

use crate::{Result, built};

const DOCS: &str = "docs/results/simulated";

type Page = (&'static str, &'static [&'static str]);

const PAGES: [Page; 12] = [
    (
        "what-would-have-helped.md",
        &[OCF_HIFN, OCF_BCM, ZVM, ZVM_ONE, "--seeds", "1", "--title", "What would have helped"],
    ),
    ("bakeoff.md", &["bakeoff", "--seeds", "60"]),
    ("pool-batch.md", &["plans/pool-batch.toml", "--seeds", "1", "--title", "A batch device"]),
    ("ocf-hifn7751x4.md", &[OCF_HIFN, "--compare", "docs/published/ocf_hifn7751x4.csv"]),
    ("ocf-bcm5820x4.md", &[OCF_BCM, "--compare", "docs/published/ocf_bcm5820x4.csv"]),
    ("ocf-bcm5820x4-many.md", &[OCF_BCM, "--compare", "docs/published/ocf_bcm5820x4_many.csv"]),
    ("zvm-ten-threads.md", &[ZVM, "--compare", "docs/published/zvm_table1.csv"]),
    ("zvm-one-thread.md", &[ZVM, "--compare", "docs/published/zvm_table3.csv"]),
    ("zvm-one-thread-50us.md", &[ZVM, "--compare", "docs/published/zvm_table4.csv"]),
    ("lhcb.md", &[LHCB, "--seeds", "1", "--compare", "docs/published/lhcb.csv"]),
    ("lhcb-latency.md", &[LHCB, "--seeds", "1", "--title", "Two PCs: what the slides leave out"]),
    ("farm.md", &[FARM, "--seeds", "1", "--title", "A farm: credit, policies and pull consumers"]),
];

const OCF_HIFN: &str = "plans/ocf-hifn7751x4.toml";
const OCF_BCM: &str = "plans/ocf-bcm5820x4.toml";
const ZVM: &str = "plans/zvm.toml";
const ZVM_ONE: &str = "plans/zvm-one-thread.toml";
const LHCB: &str = "plans/lhcb.toml";
const FARM: &str = "plans/farm.toml";

/// Tests that compare pages, and write them if the variable is set: the program, and the name of its test.
const COMPARED: [(&str, &str); 2] = [("wrong_inputs", ""), ("openssl", "cases::each_case_has_the_result")];
const WRITES: &str = "SIDECORE_WRITE_PAGES";

/// Makes every page of the simulator again. With `write`, the committed pages are replaced, and also the pages that tests
/// compare. Otherwise each one that differs is named.
pub(crate) fn run(root: &Path, write: bool) -> Result<bool> {
    let built = built::everything(root)?;
    let program = built::program(&built, "sidecore-lab")?;
    let mut same = true;
    for test in COMPARED.iter().filter(|_| write) {
        same &= write_page(&built, *test)?;
    }
    for (page, how) in PAGES {
        let folder = root.join("target/golden").join(page).with_extension("");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let beside = root.join(DOCS).join(page);
        if !make(Command::new(&program).current_dir(root), how, &folder.join(beside.file_name().unwrap_or_default()))? {
            println!("{page}: `sidecore sim {}` failed", how.join(" "));
            same = false;
            continue;
        }
        for made in files(&folder)? {
            let committed = beside.with_file_name(made.file_name().unwrap_or_default());
            if write {
                fs::copy(&made, &committed)?;
            } else if let Some(difference) = difference(&made, &committed)? {
                println!("{difference}");
                same = false;
            }
        }
    }
    if !same {
        println!("if the change is meant: cargo xtask golden --write, and commit the pages");
    }
    Ok(same)
}

fn write_page(built: &[Artifact], (name, filter): (&str, &str)) -> Result<bool> {
    let is_it = |artifact: &&Artifact| artifact.target.name == name;
    let test = built.iter().find(is_it).and_then(|artifact| Some((artifact.executable.as_ref()?, artifact)));
    let (program, artifact) = test.ok_or_else(|| format!("the test {name} was not built"))?;
    let package = artifact.manifest_path.parent().ok_or("a package has no directory")?;
    Ok(Command::new(program).arg(filter).current_dir(package).env(WRITES, "1").status()?.success())
}

fn make(program: &mut Command, how: &[&str], page: &Path) -> Result<bool> {
    let done = program.arg("sim").args(how).arg("--markdown").arg(page).output()?;
    if !done.status.success() {
        println!("{}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(done.status.success())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

fn difference(made: &Path, committed: &Path) -> Result<Option<String>> {
    let name = committed.display();
    let Ok(old) = fs::read_to_string(committed) else { return Ok(Some(format!("{name}: is not there"))) };
    let new = fs::read_to_string(made)?;
    if old == new {
        return Ok(None);
    }
    let lines = || old.lines().zip(new.lines());
    let at = lines().position(|(old, new)| old != new).unwrap_or_else(|| lines().count());
    let line = |text: &str| text.lines().nth(at).unwrap_or("(end)").to_owned();
    Ok(Some(format!("{name}:{}: committed {:?}, now {:?}", at + 1, line(&old), line(&new))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("sidecore-golden-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let write = |name: &str, text: &str| fs::write(folder.join(name), text);
        write("a", "1\n2\n3\n")?;
        write("b", "1\n5\n3\n")?;
        write("c", "1\n2\n")?;
        let found = |to: &str| difference(&folder.join("a"), &folder.join(to));
        assert_eq!(found("a")?, None);
        assert!(found("b")?.is_some_and(|text| text.ends_with("b:2: committed \"5\", now \"2\"")));
        assert!(found("c")?.is_some_and(|text| text.ends_with("c:3: committed \"(end)\", now \"3\"")));
        assert!(found("d")?.is_some_and(|text| text.ends_with("d: is not there")));
        fs::remove_dir_all(&folder)?;
        Ok(())
    }
}
