use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use futures_util::FutureExt;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn client(number: u32) -> ClientId {
    ClientId::address(IpAddr::V4(Ipv4Addr::from_bits(number)))
}

/// Caps of so many misses and half as many adds in so much time, and the clock they go by.
fn callers(count: u32, per: Duration) -> (Arc<Callers>, Clock) {
    let clock = Clock::by_hand();
    let adds = Limit::new(count.div_ceil(2), per).unwrap();
    (Arc::new(Callers::with_clock(Some(Limit::new(count, per).unwrap()), Some(adds), clock.clone())), clock)
}

#[test]
fn the_limit_may_come_at_once_and_comes_back_one_by_one() {
    let (callers, clock) = callers(10, 1000 * MS);
    for _ in 0..10 {
        callers.check(&client(1)).unwrap();
        callers.try_reserve(client(1)).unwrap().unwrap().missed();
    }
    let too_many = callers.check(&client(1)).unwrap_err();
    assert_eq!((too_many.cap, too_many.retry_after, too_many.is_news), (Cap::Misses, 100 * MS, true));
    let words = "the client 0.0.0.1 is over its cap: 10 of its lookups in 1s may reach the source and find nothing; try again in 1 s";
    assert_eq!(too_many.to_string(), words);
    assert!(!callers.try_reserve(client(1)).unwrap_err().is_news, "told of already");
    assert_eq!(callers.capped(), (1, vec![(client(1), Cap::Misses, 100 * MS)]));
    callers.check(&client(2)).unwrap();
    callers.added(&client(1), 5).unwrap();
    // Exactly then, and one only.
    clock.advance(100 * MS - Duration::from_nanos(1));
    assert_eq!(callers.check(&client(1)).unwrap_err().retry_after, Duration::from_nanos(1));
    clock.advance(Duration::from_nanos(1));
    callers.try_reserve(client(1)).unwrap().unwrap().missed();
    assert_eq!(callers.try_reserve(client(1)).unwrap_err().retry_after, 100 * MS);
    // Nobody pays for longer than the time, whatever is reported.
    callers.missed(&client(1), u64::MAX);
    clock.advance(1000 * MS);
    let places: Vec<_> = (0..10).map(|_| callers.try_reserve(client(1)).unwrap().unwrap()).collect();
    assert!(callers.try_reserve(client(1)).unwrap().is_none(), "not refused, but it waits");
    drop(places);
    assert!(callers.is_empty(), "nothing is left to remember");
}

#[test]
fn adds_have_a_cap_of_their_own() {
    let (callers, clock) = callers(10, 1000 * MS);
    callers.added(&client(1), 3).unwrap();
    let too_many = callers.added(&client(1), 3).unwrap_err();
    assert_eq!((too_many.cap, too_many.retry_after), (Cap::Adds, 200 * MS), "all or none");
    callers.added(&client(1), 2).unwrap();
    callers.added(&client(2), 5).unwrap();
    assert!(callers.added(&client(3), 6).is_err());
    callers.check(&client(1)).unwrap();
    clock.advance(200 * MS);
    callers.added(&client(1), 1).unwrap();
    assert_eq!(callers.len(), 2);
    assert_eq!(callers.capped().0, 1);
}

#[test]
fn without_a_limit_nothing_is_counted() {
    let callers = Arc::new(Callers::new(None, None));
    callers.missed(&client(1), 1_000_000);
    callers.added(&client(1), 1_000_000).unwrap();
    for _ in 0..1000 {
        callers.try_reserve(client(1)).unwrap().unwrap().missed();
    }
    assert!(callers.check(&client(1)).is_ok() && callers.is_empty());
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A client by the book: misses are jobs that are worked off one after the other, each in the same time.
struct Model {
    one: u64,
    count: u64,
    jobs: VecDeque<u64>,
    held: u64,
}

impl Model {
    fn pass(&mut self, mut time: u64) {
        while let Some(job) = self.jobs.front_mut() {
            let worked = time.min(*job);
            *job -= worked;
            time -= worked;
            if *job > 0 {
                return;
            }
            self.jobs.pop_front();
        }
    }

    /// How long until one more has room; nothing if it has.
    fn wait(&self, more: u64) -> Option<u64> {
        let work: u64 = self.jobs.iter().sum::<u64>() + self.one * more;
        (work > self.one * self.count).then(|| work - self.one * self.count)
    }
}

#[test]
fn a_client_is_refused_exactly_when_the_book_says_so() {
    let mut refused = [0; 21];
    for seed in 0..200 {
        let mut random = Random(seed);
        let count = 1 + random.below(20) as u32;
        let per = Duration::from_nanos(1_000_000 + random.below(3_000_000_000));
        let (callers, clock) = callers(count, per);
        let one = (per.as_nanos() as u64).div_ceil(u64::from(count));
        let make = || Model { one, count: u64::from(count), jobs: VecDeque::new(), held: 0 };
        let mut models = [make(), make(), make()];
        let mut places: [Vec<Place>; 3] = Default::default();
        let mut missed_at: [Vec<u64>; 3] = Default::default();
        let mut now = 0;
        for _ in 0..400 {
            let who = random.below(3) as usize;
            let (id, model, mine) = (client(who as u32), &mut models[who], &mut places[who]);
            match random.below(10) {
                0..2 => {
                    // In some worlds time passes fast, in others slowly.
                    let time = random.below(1 + ((per.as_nanos() as u64 / 8) >> (seed % 6)));
                    clock.advance(Duration::from_nanos(time));
                    now += time;
                    models.iter_mut().for_each(|model| model.pass(time));
                }
                2..6 => match (callers.try_reserve(id), model.wait(1)) {
                    (Err(too_many), Some(wait)) => {
                        assert_eq!(too_many.retry_after, Duration::from_nanos(wait), "seed {seed}");
                        refused[count as usize] += 1;
                    }
                    (Ok(None), None) => assert!(model.wait(model.held + 1).is_some(), "seed {seed}"),
                    (Ok(Some(place)), None) => {
                        assert!(model.wait(model.held + 1).is_none(), "seed {seed}");
                        model.held += 1;
                        mine.push(place);
                    }
                    other => panic!("seed {seed}: {other:?}"),
                },
                6..9 if !mine.is_empty() => {
                    let place = mine.swap_remove(random.below(mine.len() as u64) as usize);
                    model.held -= 1;
                    if random.below(3) == 0 {
                        drop(place);
                    } else {
                        place.missed();
                        model.jobs.push_back(one);
                        missed_at[who].push(now);
                    }
                }
                _ => assert_eq!(callers.check(&id).is_err(), model.wait(1).is_some(), "seed {seed}"),
            }
        }
        // And so no stretch of time has more misses than the limit and what comes back in it.
        for missed in &missed_at {
            for (from, begin) in missed.iter().enumerate() {
                for (to, end) in missed.iter().enumerate().skip(from) {
                    assert!((to - from) as u64 <= u64::from(count) + (end - begin) / one, "seed {seed}");
                }
            }
        }
    }
    // A test that refuses nobody proves nothing.
    assert!(refused[1..12].iter().all(|&times| times > 0), "{refused:?}");
}

#[tokio::test]
async fn lookups_at_once_never_miss_more_than_the_limit_and_never_refuse_what_is_there() {
    let (callers, _clock) = callers(10, 60_000 * MS);
    let ask = |found: bool| {
        let callers = callers.clone();
        tokio::spawn(async move {
            let Ok(place) = callers.reserve(client(7)).await else { return false };
            tokio::task::yield_now().await;
            if found {
                drop(place)
            } else {
                place.missed()
            }
            true
        })
    };
    let all = |found| futures_util::future::join_all((0..200).map(|_| ask(found)).collect::<Vec<_>>());
    let passed = all(true).await.into_iter().filter(|passed| *passed.as_ref().unwrap()).count();
    assert_eq!(passed, 200, "whatever is there is found");
    let passed = all(false).await.into_iter().filter(|passed| *passed.as_ref().unwrap()).count();
    assert_eq!(passed, 10, "of those that miss, the limit");
    assert_eq!(callers.waiting.load(Relaxed), 0);
    // The places of one client are none of another's.
    let _others: Vec<_> = (0..10).map(|_| callers.try_reserve(client(8)).unwrap().unwrap()).collect();
    assert!(callers.try_reserve(client(9)).unwrap().is_some());
    // Only so many wait, and who gives up leaves nothing behind.
    let mut waiting: Vec<_> = (0..WAITING_EACH).map(|_| Box::pin(callers.reserve(client(8)))).collect();
    waiting.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
    let beyond = callers.reserve(client(8)).now_or_never().unwrap().unwrap_err();
    assert_eq!((beyond.retry_after, beyond.is_news), (SHORTLY, false));
    assert_eq!(callers.waiting.load(Relaxed), WAITING_EACH as usize);
    drop(waiting);
    assert_eq!(callers.waiting.load(Relaxed), 0);
}

#[test]
fn a_million_clients_take_no_more_memory_and_free_nobody_who_is_capped() {
    let (callers, clock) = callers(100, 60_000 * MS);
    let capped: Vec<_> = (0..500).map(client).collect();
    capped.iter().for_each(|client| callers.missed(client, 100));
    let under_way: Vec<_> = (500..600).map(|number| callers.try_reserve(client(number)).unwrap().unwrap()).collect();
    for number in 0..1_000_000 {
        let other = client(1_000_000 + number);
        callers.check(&other).expect("nobody pays for another");
        callers.try_reserve(other).unwrap().unwrap().missed();
    }
    assert!(callers.len() <= MOST_CLIENTS && callers.len() > MOST_CLIENTS / 2, "{}", callers.len());
    assert!(capped.iter().all(|client| callers.check(client).is_err()), "those who are capped stay capped");
    assert_eq!(callers.capped().0, 500);
    let (places, room) = (callers.table.places(), std::mem::size_of::<(ClientId, Entry)>() + 1);
    assert!(places * room <= 8 << 20, "{places} places of {room} bytes");
    under_way.into_iter().for_each(Place::missed);
    clock.advance(60_000 * MS);
    assert!(capped.iter().all(|client| callers.check(client).is_ok()));
    // Debts that have ended make room for whoever comes.
    for number in 0..2 * MOST_CLIENTS as u32 {
        callers.missed(&client(number), 1);
        clock.advance(60_000 * MS);
    }
    assert!(callers.len() <= MOST_CLIENTS);
}

#[test]
fn where_every_client_is_under_way_the_next_is_let_through_uncounted() {
    let (callers, _clock) = callers(1, 60_000 * MS);
    let places: Vec<_> =
        (0..2 * MOST_CLIENTS as u32).map(|number| callers.try_reserve(client(number)).unwrap().unwrap()).collect();
    assert_eq!(callers.len(), MOST_CLIENTS, "no more are remembered");
    drop(places);
    assert!(callers.is_empty());
}
