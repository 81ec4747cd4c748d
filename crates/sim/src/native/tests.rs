// SPDX-License-Identifier: GPL-2.0-only
//! Both classes at work on whole machines.
