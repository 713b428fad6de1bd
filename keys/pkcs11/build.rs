//! Linker arguments of the module.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Programs unload modules while other threads are in them, and load them again: sessions and lanes stay.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
