//! Linker arguments of the library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The name that programs look for: its number grows with a change of the header that breaks them.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsidecore.so.0");
    // Threads of the program may end after it closed the library, and have text of failures here.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
