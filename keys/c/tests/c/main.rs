//! Programs in C with the library, against a service in this process.

mod boringssl;
mod examples;
mod header;
mod hostile;
mod site;
mod tree;
