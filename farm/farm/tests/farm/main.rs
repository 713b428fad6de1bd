//! The farm on a private NATS server.

mod accounts;
mod batches;
mod chaos;
mod cluster;
mod crew;
mod dead;
mod feed;
mod feed_bad;
mod feed_tcp;
mod large;
mod luck;
mod others;
mod pipeline;
mod program;
mod queue;
mod relay;
mod results;
mod streams;
mod terms;
mod waiting;
mod watch;
mod work;
