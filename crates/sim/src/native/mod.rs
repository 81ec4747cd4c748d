// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own classes, native to the simulated kernel.
