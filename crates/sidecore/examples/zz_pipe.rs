//! x
use sidecore::client::*; use sidecore::config::*; use sidecore::service::Service; use sidecore::core::session::*; use sidecore::core::policy::notify::Notify; use sidecore::engine::crypto::sample::sample; use sidecore::sys::*;
use sidecore::core::wire::Extent;
fn main(){
 let a: Vec<String> = std::env::args().collect();
 let op = a.get(1).map_or("noop", |s| s.as_str()); let size: usize = a.get(2).map_or(0, |s| s.parse().unwrap()); let depth: u32 = a.get(3).map_or(128, |s| s.parse().unwrap());
 let copy = a.get(4).is_none_or(|s| s=="copy");
 let cfg = Config{ socket: format!("/tmp/zz{}",std::process::id()).into(), sidecores: Sidecores{cpus: vec![1], owned:true}, notify: NotifyConfig::all(Notify::Spin), sample_every: 100003, ..Config::default()};
 let s = Service::start(cfg).unwrap(); cpu::pin(0).unwrap();
 let mut c = Client::connect(&Options{ socket: s.socket().to_owned(), notify: Some(Notify::Spin), arena_bytes: 16<<20, ..Options::default()}).unwrap();
 let sm = sample(Class::from_name(op).unwrap(), size, 1);
 let ses = c.open_session(&sm.spec).unwrap();
 let bufs: Vec<_> = (0..depth).map(|_| c.alloc((sm.input.len()+32) as u32).unwrap()).collect();
 let mut out = vec![0u8; sm.output_len];
 let off = sm.payload_offset() as u32;
 let mut sub = |c: &mut Client, i: u32| { let b=&bufs[i as usize]; if copy && size>0 { c.write(b,0,&sm.input).unwrap(); } let e=b.extent();
   let (i1,o1)=([Extent::new(e.offset, sm.input.len() as u32)],[Extent::new(e.offset+off, e.len-off)]);
   let j= if size>0 { Job{session:ses, op:sm.op, head_len:0, inputs:&i1, outputs:&o1, urgent:false} } else { Job{session:ses, op:sm.op, head_len:0, inputs:&[], outputs:&[], urgent:false} }; c.submit(i,&j).unwrap(); };
 for r in 0..3 { let _ = r;
 for i in 0..depth { sub(&mut c,i); } c.ring();
 let t=clock::now(); let mut n=0u64; let mut waits=0u64; let mut unr=0;
 let mut batch=[0u32;8];
 while clock::now()-t < 1_000_000_000 { for _ in 0..32 {
   let mut k=0; while k<8 { match c.poll() { Some(x)=>{ batch[k]=x.tag; if copy&&size>0 {c.prefetch(&bufs[x.tag as usize]);} k+=1; }, None=>{ if k>0 {break;} c.ring(); unr=0; waits+=1; batch[0]=c.wait().unwrap().tag; k=1; } } }
   for &tag in &batch[..k] { if copy && size>0 { let b=&bufs[tag as usize]; c.read(b,off,&mut out).unwrap(); }
   sub(&mut c, tag); unr+=1; if unr==32 { c.ring(); unr=0; } n+=1; } } }
 let dt=clock::now()-t; println!("{op} {size} depth {depth}: {:.2} M/s {:.1} ns/op waits {:.3}/op", n as f64*1e3/dt as f64, dt as f64/n as f64, waits as f64/n as f64);
 while c.in_flight()>0 { c.wait().unwrap(); } }
}
