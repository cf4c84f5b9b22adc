// The lines of Rust that the server tells of a plan and of a filter: lines_tests.rs writes and runs them.

pub(super) const TOLD: &[Told] = &[
    ("classic, 1000 at 0.01", |keys, secret| {
        let mut keys = bloomgate::Classic::builder().items(1000).rate(0.01).build()?;
        takes!(keys)
    }),
    ("classic, 50000 at 0.0000001", |keys, secret| {
        let mut keys = bloomgate::Classic::builder().items(50000).rate(1e-7).build()?;
        takes!(keys)
    }),
    ("blocked, 1000 at 0.01", |keys, secret| {
        let mut keys = bloomgate::Blocked::builder().items(1000).rate(0.01).build()?;
        takes!(keys)
    }),
    ("blocked, 50000 at 0.0000001", |keys, secret| {
        let mut keys = bloomgate::Blocked::builder().items(50000).rate(1e-7).build()?;
        takes!(keys)
    }),
    ("partitioned, 1000 at 0.01", |keys, secret| {
        let mut keys = bloomgate::Partitioned::builder().items(1000).rate(0.01).build()?;
        takes!(keys)
    }),
    ("partitioned, 50000 at 0.0000001", |keys, secret| {
        let mut keys = bloomgate::Partitioned::builder().items(50000).rate(1e-7).build()?;
        takes!(keys)
    }),
    ("counting, 1000 at 0.01", |keys, secret| {
        let mut keys = bloomgate::Counting::builder().items(1000).rate(0.01).build()?;
        takes!(keys)
    }),
    ("counting, 50000 at 0.0000001", |keys, secret| {
        let mut keys = bloomgate::Counting::builder().items(50000).rate(1e-7).build()?;
        takes!(keys)
    }),
    ("scalable, 1000 at 0.01", |keys, secret| {
        let mut keys = bloomgate::Scalable::builder().items(1000).rate(0.01).build()?;
        takes!(keys)
    }),
    ("scalable, 50000 at 0.0000001", |keys, secret| {
        let mut keys = bloomgate::Scalable::builder().items(50000).rate(1e-7).build()?;
        takes!(keys)
    }),
    ("rotating, 1000 at 0.01", |keys, secret| {
        let mut keys = bloomgate::Rotating::builder().window(std::time::Duration::from_secs(3600)).items(1000).rate(0.01).build()?;
        takes!(keys)
    }),
    ("rotating, 50000 at 0.0000001", |keys, secret| {
        let mut keys = bloomgate::Rotating::builder().window(std::time::Duration::from_millis(1500)).items(50000).rate(1e-7).build()?;
        takes!(keys)
    }),
    ("cuckoo, 1000 at 0.01", |keys, secret| {
        let mut keys = bloomgate::Cuckoo::builder().items(1000).rate(0.01).build()?;
        takes!(keys)
    }),
    ("cuckoo, 50000 at 0.0000001", |keys, secret| {
        let mut keys = bloomgate::Cuckoo::builder().items(50000).rate(1e-7).build()?;
        takes!(keys)
    }),
    ("growing-cuckoo, 1000 at 0.01", |keys, secret| {
        let mut keys = bloomgate::GrowingCuckoo::builder().items(1000).rate(0.01).build()?;
        takes!(keys)
    }),
    ("growing-cuckoo, 50000 at 0.0000001", |keys, secret| {
        let mut keys = bloomgate::GrowingCuckoo::builder().items(50000).rate(1e-7).build()?;
        takes!(keys)
    }),
    ("quotient, 1000 at 0.01", |keys, secret| {
        let mut keys = bloomgate::Quotient::builder().items(1000).rate(0.01).build()?;
        takes!(keys)
    }),
    ("quotient, 50000 at 0.0000001", |keys, secret| {
        let mut keys = bloomgate::Quotient::builder().items(50000).rate(1e-7).build()?;
        takes!(keys)
    }),
];
