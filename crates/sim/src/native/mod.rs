// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own classes, native to the simulated kernel.

use crate::class::Class;
use crate::kernel::Kernel;

/// Linux's class as of today: EEVDF.
pub(crate) fn default(_k: &mut Kernel) -> Result<Box<dyn Class>, String> {
    Err("the default class (EEVDF) is not modelled".into())
}

/// Linux's class as of 2.6: CFS.
pub(crate) fn cfs(_k: &mut Kernel) -> Result<Box<dyn Class>, String> {
    Err("the 2.6 class (CFS) is not modelled".into())
}
