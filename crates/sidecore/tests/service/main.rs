//! Clients and a service in one test process or several, over real lanes.

mod common;
mod devices;
mod lane;
mod load;
mod losses;
mod policies;
