//! `attack replay`: the keys that a filter lets through, found by trying, then sent again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bloomgate_gate::{Key, Outcome as Ended};
use tokio::task::JoinSet;

use super::args::ReplayArgs;
use super::fronts::{Front, KEEP, Kind};
use super::mix::{Mix, Step, Subject};
use super::report::{bar, plain_percent};
use super::stage::{GateWish, Scene, Stage, told};
use super::{catalogue, mix_of, print};
use crate::failure::{DONE, Failure, NONE, Outcome};
use crate::json::Object;
use crate::number;
use crate::progress::Progress;
use crate::screen::{self, DIM, ERROR, HEAD, INK, STRONG, paint, wrapped};

/// Requests to the gate that does not remember: each is a query, and a few say as much as many.
const WITHOUT_MEMORY: u64 = 50_000;

/// Keys that are tried at once, the most in all, and for how long.
const AT_ONCE: usize = 256;
const MOST_TRIES: u64 = 20_000_000;
const MOST_TIME: Duration = Duration::from_secs(60);

/// What a gate did when its false positives came back.
struct Finding {
    /// False positives found, and keys that were tried for them.
    found: u64,
    tried: u64,
    replays: u64,
    reached_database: u64,
}

/// Runs `attack replay`.
pub fn run(args: &ReplayArgs) -> Outcome {
    let mix = mix_of(&args.shop, 1.0);
    let mut stage = Stage::build(&args.shop, mix, args.printing.quiet)?;
    let kind = if args.shop.resp.is_some() { Kind::GateResp } else { Kind::Gate };
    let without_times = args.times.min((WITHOUT_MEMORY / args.found).max(1));
    let with = replay(args, &mut stage, kind, true, args.times)?;
    let without = replay(args, &mut stage, kind, false, without_times)?;
    let good = with.reached_database <= with.found;
    print(if args.printing.json {
        in_json(args, &with, &without, good) + "\n"
    } else {
        on_screen(args, &with, &without, good)
    })?;
    Ok(if good { DONE } else { NONE })
}

fn replay(args: &ReplayArgs, stage: &mut Stage, kind: Kind, remembers: bool, times: u64) -> Result<Finding, Failure> {
    let scene = stage.front(kind, GateWish { rate: args.rate, remembers, lives: false })?;
    let mix = mix_of(&args.shop, 1.0);
    is_worth_trying(&scene, args.found)?;
    let progress = Progress::steps("looking for keys that get through", args.found, args.printing.quiet);
    let (keys, tried) = stage.run(find(&scene, mix, args.found, &progress))?;
    drop(progress);
    let before = scene.source.reads();
    let doing = if remembers { "sending them again" } else { "and to a gate that forgets" };
    let progress = Progress::steps(doing, args.found * times, args.printing.quiet);
    let keys = Arc::new(keys);
    stage.run(send(&scene, &keys, args.shop.workers, times, &progress))?;
    let reached_database = scene.source.reads() - before;
    stage.end(scene)?;
    Ok(Finding { found: keys.len() as u64, tried, replays: keys.len() as u64 * times, reached_database })
}

/// Refuses to look for what will not be found: a filter with room to spare lets next to nothing through.
fn is_worth_trying(scene: &Scene, many: u64) -> Result<(), Failure> {
    let Front::Gate(gate) = &*scene.front else { return Ok(()) };
    let Some((filter, rate)) = gate.stats().filter.and_then(|filter| Some((filter.clone(), filter.estimated_rate?)))
    else {
        return Ok(());
    };
    if rate * MOST_TRIES as f64 >= many as f64 {
        return Ok(());
    }
    Err(Failure::Message(format!(
        "there is next to nothing to replay: the filter has room for {} keys and holds {}, so {} of the absent keys get \
         through, and {} would not be found in {} tries. Ask for more --products, a higher --rate, or fewer by --found",
        number::grouped(filter.capacity),
        number::grouped(filter.items),
        number::percent(rate),
        number::grouped(many),
        number::grouped(MOST_TRIES),
    )))
}

/// Asks for absent keys until so many got through. They are the same in every run only as far as the filter is, whose
/// secret is not.
async fn find(scene: &Scene, mix: Mix, many: u64, progress: &Progress) -> Result<(Vec<Key>, u64), Failure> {
    let mut stream = mix.stream(0);
    let (mut found, mut tried, begun) = (Vec::new(), 0, Instant::now());
    while (found.len() as u64) < many {
        // Many at a time: a filter behind a network answers them together.
        let keys: Vec<Key> = std::iter::repeat_with(|| stream.step())
            .filter_map(|step| match step {
                Step::Get(subject @ Subject::Absent(_)) => Some(catalogue::key(mix.number(subject))),
                _ => None,
            })
            .map(|text| Key::from(text.as_str()))
            .take(AT_ONCE)
            .collect();
        let answers = futures_util::future::try_join_all(keys.iter().map(|key| scene.front.get(key)));
        for (key, seen) in keys.iter().zip(answers.await.map_err(told)?) {
            tried += 1;
            if seen.outcome == Ended::NotFound && (found.len() as u64) < many {
                found.push(key.clone());
                progress.advance(1);
            }
        }
        // A filter that lets nothing through leaves nothing to replay.
        if tried > MOST_TRIES || begun.elapsed() > MOST_TIME {
            let message = format!(
                "{} of {} got through in {} tries and {}: ask for fewer by --found, or for a higher --rate",
                number::grouped(found.len() as u64),
                number::counted(many, "key"),
                number::grouped(tried),
                number::duration(begun.elapsed()),
            );
            return Err(Failure::Message(message));
        }
        tokio::task::yield_now().await;
    }
    Ok((found, tried))
}

async fn send(
    scene: &Scene,
    keys: &Arc<Vec<Key>>,
    workers: u64,
    times: u64,
    progress: &Progress,
) -> Result<(), Failure> {
    let sent = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for worker in 0..workers {
        let (front, keys, sent) = (scene.front.clone(), keys.clone(), sent.clone());
        tasks.spawn(again(front, keys, worker as usize, workers as usize, times, sent));
    }
    let mut glance = tokio::time::interval(Duration::from_millis(100));
    let mut told_so_far = 0;
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(Ok(outcome)) => outcome?,
                Some(Err(error)) => return Err(Failure::Message(format!("a worker ended early: {error}"))),
                None => return Ok(()),
            },
            _ = glance.tick() => {
                let now = sent.load(Ordering::Relaxed);
                progress.advance(now - told_so_far);
                told_so_far = now;
            }
        }
    }
}

/// One worker: all keys, as often as asked, each worker its share of the rounds.
async fn again(
    front: Arc<Front>,
    keys: Arc<Vec<Key>>,
    worker: usize,
    workers: usize,
    times: u64,
    sent: Arc<AtomicU64>,
) -> Result<(), Failure> {
    // Request r is for key r mod keys: spread over the workers, each key is asked for by all of them.
    let all = keys.len() * usize::try_from(times).unwrap_or(usize::MAX);
    for request in (worker..all).step_by(workers) {
        tokio::task::yield_now().await;
        let seen = front.get(&keys[request % keys.len()]).await.map_err(told)?;
        if seen.row.is_some() {
            return Err(Failure::Message("a key that does not exist was found".into()));
        }
        sent.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn on_screen(args: &ReplayArgs, with: &Finding, without: &Finding, good: bool) -> String {
    let unicode = screen::unicode(args.printing.ascii);
    let mut out = wrapped(
        "",
        &format!(
            "{} that get through a filter at {}, found by trying {}",
            number::counted(with.found, "absent key"),
            plain_percent(args.rate),
            number::grouped(with.tried),
        ),
    );
    out.push_str(&format!("\n{}\n", paint(HEAD, "Replays that reached the database")));
    for (name, finding, style) in [("a gate that forgets", without, INK), ("bloomgate", with, STRONG)] {
        let share = finding.reached_database as f64 / finding.replays.max(1) as f64;
        out.push_str(&format!(
            "  {name:<20} {} {:>9} of {}\n",
            paint(style, bar(share, 26, unicode)),
            number::grouped(finding.reached_database),
            number::grouped(finding.replays),
        ));
    }
    let words = if good {
        format!(
            "Each key reaches the database at most once in the time that its \"no\" is remembered ({} here).",
            number::duration(KEEP)
        )
    } else {
        format!(
            "{} reads for {}: some reached the database more than once.",
            number::grouped(with.reached_database),
            number::counted(with.found, "key")
        )
    };
    out.push('\n');
    out.push_str(&paint(if good { STRONG } else { ERROR }, wrapped("", &words).trim_end()));
    out.push('\n');
    out.push_str(&paint(DIM, "A key that is added later is found at once: the put removes what was remembered.\n"));
    out
}

fn in_json(args: &ReplayArgs, with: &Finding, without: &Finding, good: bool) -> String {
    let gate = |finding: &Finding| {
        Object::default()
            .whole("found", finding.found)
            .whole("tried", finding.tried)
            .whole("replays", finding.replays)
            .whole("reached_database", finding.reached_database)
            .close()
    };
    Object::default()
        .whole("products", args.shop.products)
        .number("rate", args.rate)
        .whole("times", args.times)
        .raw("gate", &gate(with))
        .raw("forgetful_gate", &gate(without))
        .flag("good", good)
        .close()
}
