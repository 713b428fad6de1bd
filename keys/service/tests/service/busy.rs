//! A client that keeps its lane full with requests of one kind and only counts.

use sidecore::client::{Buffer, Client, Error, Options, Request, Session};
use sidecore::core::session::{Class, Op};
use sidecore::core::wire::Status;
use sidecore::engine::crypto::sample::sample;

pub(crate) struct Busy {
    client: Client,
    session: Session,
    op: Op,
    input: Buffer,
    output: Buffer,
    next_tag: u32,
    pub(crate) done: u64,
}

impl Busy {
    pub(crate) fn new(options: &Options, op: &str, size: usize) -> Result<Self, Error> {
        let mut client = Client::connect(options).map_err(Error::Connect)?;
        let sample = sample(Class::from_name(op).expect("a known class"), size, 1);
        let session = client.open_session(&sample.spec)?;
        let input = client.alloc(sample.input.len() as u32)?;
        // All requests write to the same place, since no result is read.
        let output = client.alloc(sample.output_len as u32)?;
        client.write(&input, 0, &sample.input)?;
        Ok(Self { client, session, op: sample.op, input, output, next_tag: 0, done: 0 })
    }

    pub(crate) fn step(&mut self) -> Result<(), Error> {
        self.fill();
        match self.client.wait()?.status {
            Status::Done { .. } => self.done += 1,
            other => panic!("a good request: {other:?}"),
        }
        Ok(())
    }

    pub(crate) fn fill(&mut self) {
        let (inputs, outputs) = ([self.input.extent()], [self.output.extent()]);
        let (session, op) = (self.session, self.op);
        let request = Request { session, op, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: false };
        while self.client.submit(self.next_tag, &request).is_ok() {
            self.next_tag += 1;
        }
        self.client.ring();
    }
}
