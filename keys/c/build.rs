//! Linker arguments of the library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The name that programs look for: its number grows with a change of the header that breaks them.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsidecore.so.0");
    // Each symbol has that name as its version, so that a process with two versions of the library, one below a plugin,
    // calls the right one. rustc's list of symbols forbids a script with versions of our own, and its linker does not know
    // this option.
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--default-symver");
    // Threads of the program may end after it closed the library, and have text of failures here.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
