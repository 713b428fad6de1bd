//! Which commit the farm is made of, as for the laboratory.

#[path = "../sidecore-lab/build.rs"]
mod commit;

fn main() {
    commit::main();
}
