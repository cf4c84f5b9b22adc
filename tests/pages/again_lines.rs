// The lines of Rust that the server tells of a filter that is there: inside.rs writes and runs them.

pub(super) const TOLD: &[Told] = &[
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Classic::builder().items(1000).rate(0.001).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Blocked::builder().items(1000).rate(0.001).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Partitioned::builder().items(1000).rate(0.001).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Counting::builder().items(1000).rate(0.001).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Scalable::builder().items(1000).rate(0.001).when_full(bloomgate::WhenFull::Grow).growth(2.0).tightening(bloomgate::math::scalable::Tightening::Geometric(0.5)).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Rotating::builder().window(std::time::Duration::from_secs(60)).items(1000).rate(0.001).when_full(bloomgate::WhenFull::GoOn).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Stable::builder().items(1000).rate(0.001).when_full(bloomgate::WhenFull::GoOn).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Cuckoo::builder().copies(bloomgate::cuckoo::CopyRule::Exact).items(1000).rate(0.001).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::GrowingCuckoo::builder().copies(bloomgate::cuckoo::CopyRule::Exact).items(1000).rate(0.001).when_full(bloomgate::WhenFull::Grow).growth(2.0).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Quotient::builder().items(1000).rate(0.001).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Blocked::builder().contract(bloomgate::Contract::xxh3_seeded(7)).items(1000).rate(0.001).when_full(bloomgate::WhenFull::GoOn).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Classic::builder().secret(&secret).rate(0.001).bytes(65536).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Partitioned::builder().contract(bloomgate::Contract::siphash24(&secret)).items(1000).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Counting::builder().contract(bloomgate::Contract::blake2b(&secret)).items(1000).rate(0.001).counter_bits(bloomgate::bloom::CounterBits::Eight).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Counting::builder().contract(bloomgate::Contract::murmur3(5)).items(1000).rate(0.001).counter_bits(bloomgate::bloom::CounterBits::Sixteen).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Scalable::builder().items(1000).rate(0.001).when_full(bloomgate::WhenFull::Grow).growth(4.0).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Scalable::builder().items(1000).rate(0.001).when_full(bloomgate::WhenFull::Refuse).growth(2.0).tightening(bloomgate::math::scalable::Tightening::Plateau { stages: 1, then: 0.0 }).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Cuckoo::builder().copies(bloomgate::cuckoo::CopyRule::Exact).items(1000).buckets(294).fingerprint_bits(12).when_full(bloomgate::WhenFull::Refuse).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::GrowingCuckoo::builder().copies(bloomgate::cuckoo::CopyRule::Exact).items(1000).rate(0.001).when_full(bloomgate::WhenFull::Grow).growth(4.0).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Rotating::builder().window(std::time::Duration::from_nanos(2500000000)).generations(3).items(1000).rate(0.001).when_full(bloomgate::WhenFull::GoOn).build()?;
        Ok(keys.into())
    },
    |secret| {
        #[allow(unused_mut)]
        let mut keys = bloomgate::Stable::builder().rate(0.001).bytes(65536).when_full(bloomgate::WhenFull::GoOn).build()?;
        Ok(keys.into())
    },
];
