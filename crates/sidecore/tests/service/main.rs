//! Clients and a service in one test process or several, over real lanes.

mod balance;
mod common;
mod devices;
mod embed;
mod lane;
mod load;
mod losses;
mod policies;
mod stages;
