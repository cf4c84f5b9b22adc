//! Which interleavings a model is run through.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bloomgate_server::sync::{Fault, break_step};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Schedules of each scheduler, unless `BLOOMGATE_SCHEDULES` says otherwise.
const SCHEDULES: usize = 1_000;
/// Another one gives other schedules; this one, always the same.
const SEED: u64 = 0x00b1_0036_a7e5_eed5;

fn schedules() -> usize {
    match std::env::var("BLOOMGATE_SCHEDULES") {
        Ok(number) => number.parse().unwrap_or_else(|_| panic!("BLOOMGATE_SCHEDULES is no number: '{number}'")),
        Err(_) => SCHEDULES,
    }
}

fn run(scheduler: impl Scheduler + 'static, model: Arc<impl Fn() + Send + Sync + 'static>) {
    let mut config = Config::new();
    // A conversation with a client needs more than the 32 kB of before.
    config.stack_size = 512 << 10;
    config.silence_warnings = true;
    // The message has the schedule, for `shuttle::replay`.
    config.failure_persistence = FailurePersistence::Print;
    Runner::new(scheduler, config).run(move || model());
}

/// Runs a model: threads that change at random, and threads by priorities that change at few places (PCT finds whatever
/// needs that few changes of threads with a known probability: Burckhardt and others, ASPLOS 2010).
pub fn explore(model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    run(RandomScheduler::new_from_seed(SEED, schedules()), model.clone());
    for depth in [2, 3] {
        run(PctScheduler::new_from_seed(SEED, depth, schedules() / 2), model.clone());
    }
}

/// Runs a model with a step broken: it must fail, and say so in one of these ways.
pub fn notices(fault: Fault, ways: &[&str], model: impl Fn() + Send + Sync + 'static) {
    break_step(Some(fault));
    let outcome = catch_unwind(AssertUnwindSafe(|| explore(model)));
    break_step(None);
    let panic = outcome.expect_err("the model did not notice what was broken");
    let message = panic.downcast_ref::<String>().cloned();
    let message = message.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default();
    assert!(ways.iter().any(|way| message.contains(way)), "it failed, but not because of {fault:?}: {message}");
}
