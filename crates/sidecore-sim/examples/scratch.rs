use sidecore_sim::bakeoff::random_pool;
use sidecore_sim::world::pool::*;
use sidecore_core::policy::balance::Balance;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[1].parse().unwrap();
    let loads: Vec<f64> = a[2].split(',').map(|x| x.parse().unwrap()).collect();
    let verbose = a.len() > 3;
    let reg = Run { cards: vec![Card::new(350.,0.589),Card::new(350.,0.589),Card::new(1250.,0.595),Card::new(1250.,0.595)],
        sizes: Sizes::Mix(vec![(0.95,256),(0.05,16384)]), traffic: Traffic::Open(0.8), requests: 200_000, balance: Balance::Eft, change: None };
    for balance in Balance::ALL { for t in [Traffic::Open(0.8), Traffic::Open(0.9), Traffic::Open(0.95), Traffic::Closed(64)] {
        let r = Run { balance, traffic: t, ..reg.clone() }.go(1);
        println!("reg {balance} {t:?} stable {} growth {:.4} mean {:.0} p99 {:.0} carried {:.3}", r.stable, r.growth, r.mean, r.p99, r.carried);
    }}
    let start = std::time::Instant::now();
    let mut events = 0;
    for load in loads {
        let mut stable = [0; 5]; let mut best = [0; 5]; let mut near = [0; 5]; let mut bestm = [0;5]; let mut ratios = vec![vec![]; 5];
        let mut growths: Vec<(f64, bool, Balance, u64)> = vec![];
        for seed in 0..n {
            let (cards, sizes) = random_pool(seed);
            let rs: Vec<Result> = Balance::ALL.iter().map(|&balance| {
                Run { cards: cards.clone(), sizes: sizes.clone(), traffic: Traffic::Open(load), requests: 200_000, balance, change: None }.go(seed)
            }).collect();
            let b = rs.iter().filter(|r| r.stable).map(|r| r.p99).fold(f64::MAX, f64::min);
            let bm = rs.iter().filter(|r| r.stable).map(|r| r.mean).fold(f64::MAX, f64::min);
            for (i, r) in rs.iter().enumerate() {
                events += r.events;
                stable[i] += r.stable as u32;
                growths.push((r.growth, r.stable, Balance::ALL[i], seed));
                if r.stable { best[i] += (r.p99 == b) as u32; near[i] += (r.p99 <= 1.1 * b) as u32; bestm[i] += (r.mean <= 1.1*bm) as u32; ratios[i].push(r.p99 / b); }
            }
            if verbose { println!("{seed} {load} {}", rs.iter().map(|r| format!("{}{:.0}/{:.2} ", if r.stable {' '} else {'!'}, r.mean, r.p99/b)).collect::<String>()); }
        }
        for i in 0..5 { ratios[i].sort_by(f64::total_cmp); let l=ratios[i].len();
            println!("{load} {:12} stable {} best {} near1.1 {} near mean {} median ratio {:.2} worst {:.2}", Balance::ALL[i].name(), stable[i], best[i], near[i], bestm[i], ratios[i].get(l/2).unwrap_or(&0.), ratios[i].last().unwrap_or(&0.)); }
        growths.sort_by(|a,b| a.0.total_cmp(&b.0));
        let st: Vec<_> = growths.iter().filter(|g| g.0.abs() > 0.001 && g.0 < 0.02).map(|g| format!("{:.4} {} {}", g.0, g.2, g.3)).collect();
        if verbose { println!("{st:?}"); }
    }
    println!("{:?} {:.1} M events/s", start.elapsed(), events as f64 / start.elapsed().as_secs_f64() / 1e6);
}
