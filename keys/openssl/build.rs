//! Linker arguments of the module.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // OpenSSL's wait contexts belong to programs and call this module at their end, also after the provider was
    // unloaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
