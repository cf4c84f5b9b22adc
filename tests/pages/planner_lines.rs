// The lines of Rust that the planner tells: pure.test.js writes them, lines_tests.rs of the server runs them.

pub(super) const TOLD: &[Told] = &[
    ("blocked, as usual", |keys, secret| {
        let mut filter = bloomgate::Blocked::builder().items(1_000_000).rate(0.01).build()?;
        takes!(filter)
    }),
    ("blocked, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let mut filter = bloomgate::Blocked::builder().items(2_000).rate(0.0001).headroom(1.5).secret(&secret).build()?;
        takes!(filter)
    }),
    ("blocked, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let mut filter = bloomgate::Blocked::builder().items(50_000).rate(1e-7).headroom(3.0).build()?;
        takes!(filter)
    }),
    ("classic, as usual", |keys, secret| {
        let mut filter = bloomgate::Classic::builder().items(1_000_000).rate(0.01).build()?;
        takes!(filter)
    }),
    ("classic, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let mut filter = bloomgate::Classic::builder().items(2_000).rate(0.0001).headroom(1.5).secret(&secret).build()?;
        takes!(filter)
    }),
    ("classic, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let mut filter = bloomgate::Classic::builder().items(50_000).rate(1e-7).headroom(3.0).build()?;
        takes!(filter)
    }),
    ("partitioned, as usual", |keys, secret| {
        let mut filter = bloomgate::Partitioned::builder().items(1_000_000).rate(0.01).build()?;
        takes!(filter)
    }),
    ("partitioned, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let mut filter = bloomgate::Partitioned::builder().items(2_000).rate(0.0001).headroom(1.5).secret(&secret).build()?;
        takes!(filter)
    }),
    ("partitioned, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let mut filter = bloomgate::Partitioned::builder().items(50_000).rate(1e-7).headroom(3.0).build()?;
        takes!(filter)
    }),
    ("counting, as usual", |keys, secret| {
        let mut filter = bloomgate::Counting::builder().items(1_000_000).rate(0.01).build()?;
        takes!(filter)
    }),
    ("counting, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let mut filter = bloomgate::Counting::builder().items(2_000).rate(0.0001).headroom(1.5).secret(&secret).build()?;
        takes!(filter)
    }),
    ("counting, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let mut filter = bloomgate::Counting::builder().items(50_000).rate(1e-7).headroom(3.0).build()?;
        takes!(filter)
    }),
    ("scalable, as usual", |keys, secret| {
        let mut filter = bloomgate::Scalable::builder().items(1_000_000).rate(0.01).build()?;
        takes!(filter)
    }),
    ("scalable, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let mut filter = bloomgate::Scalable::builder().items(2_000).rate(0.0001).headroom(1.5).secret(&secret).build()?;
        takes!(filter)
    }),
    ("scalable, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let mut filter = bloomgate::Scalable::builder().items(50_000).rate(1e-7).headroom(3.0).build()?;
        takes!(filter)
    }),
    ("rotating, as usual", |keys, secret| {
        let mut filter = bloomgate::Rotating::builder().window(std::time::Duration::from_secs(3600)).items(1_000_000).rate(0.01).build()?;
        takes!(filter)
    }),
    ("rotating, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let mut filter = bloomgate::Rotating::builder().window(std::time::Duration::from_secs(3600)).items(2_000).rate(0.0001).headroom(1.5).secret(&secret).build()?;
        takes!(filter)
    }),
    ("rotating, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let mut filter = bloomgate::Rotating::builder().window(std::time::Duration::from_secs(90)).items(50_000).rate(1e-7).headroom(3.0).build()?;
        takes!(filter)
    }),
    ("cuckoo, as usual", |keys, secret| {
        let mut filter = bloomgate::Cuckoo::builder().items(1_000_000).rate(0.01).build()?;
        takes!(filter)
    }),
    ("cuckoo, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let mut filter = bloomgate::Cuckoo::builder().items(2_000).rate(0.0001).headroom(1.5).secret(&secret).build()?;
        takes!(filter)
    }),
    ("cuckoo, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let mut filter = bloomgate::Cuckoo::builder().items(50_000).rate(1e-7).headroom(3.0).build()?;
        takes!(filter)
    }),
    ("growing-cuckoo, as usual", |keys, secret| {
        let mut filter = bloomgate::GrowingCuckoo::builder().items(1_000_000).rate(0.01).build()?;
        takes!(filter)
    }),
    ("growing-cuckoo, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let mut filter = bloomgate::GrowingCuckoo::builder().items(2_000).rate(0.0001).headroom(1.5).secret(&secret).build()?;
        takes!(filter)
    }),
    ("growing-cuckoo, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let mut filter = bloomgate::GrowingCuckoo::builder().items(50_000).rate(1e-7).headroom(3.0).build()?;
        takes!(filter)
    }),
    ("quotient, as usual", |keys, secret| {
        let mut filter = bloomgate::Quotient::builder().items(1_000_000).rate(0.01).build()?;
        takes!(filter)
    }),
    ("quotient, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let mut filter = bloomgate::Quotient::builder().items(2_000).rate(0.0001).headroom(1.5).secret(&secret).build()?;
        takes!(filter)
    }),
    ("quotient, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let mut filter = bloomgate::Quotient::builder().items(50_000).rate(1e-7).headroom(3.0).build()?;
        takes!(filter)
    }),
    ("fuse, as usual", |keys, secret| {
        let filter = bloomgate::Fuse::builder().rate(0.01).build_from(keys)?;
        holds!(filter)
    }),
    ("fuse, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let filter = bloomgate::Fuse::builder().rate(0.0001).secret(&secret).build_from(keys)?;
        holds!(filter)
    }),
    ("fuse, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let filter = bloomgate::Fuse::builder().rate(1e-7).build_from(keys)?;
        holds!(filter)
    }),
    ("ribbon, as usual", |keys, secret| {
        let filter = bloomgate::Ribbon::builder().rate(0.01).build_from(keys)?;
        holds!(filter)
    }),
    ("ribbon, items=2000&rate=0.0001&growth=1.5&untrusted=1", |keys, secret| {
        let filter = bloomgate::Ribbon::builder().rate(0.0001).secret(&secret).build_from(keys)?;
        holds!(filter)
    }),
    ("ribbon, items=50000&rate=1e-7&growth=unknown&window=90", |keys, secret| {
        let filter = bloomgate::Ribbon::builder().rate(1e-7).build_from(keys)?;
        holds!(filter)
    }),
];
