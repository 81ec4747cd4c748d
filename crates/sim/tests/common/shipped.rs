// SPDX-License-Identifier: GPL-2.0-only
//! All policies that are shipped, but those that break a promise on purpose.

use policy::Policy;

pub const SHIPPED: &[&Policy] = &[
    &flsched::FLSCHED,
    &cas::CAS,
    &cas::O1,
    &uneven::MAX_FAIR,
    &uneven::MIN_FAIR,
    &uneven::GUARANTEED_FAIR,
    &avx::AVX_FAIR,
    &dino::DINO,
    &dino::DI_MIGRATE,
    &baseline::FIFO,
    &baseline::RR,
];
