// SPDX-License-Identifier: GPL-2.0-only
//! Small linear programs, solved by a library.

use rustplex::prelude::*;

use crate::Error;

/// A variable, by its place in the solution.
pub(crate) type Var = usize;

/// Terms of a row.
type Terms<'a> = &'a [(Var, f64)];

/// A linear program to maximize, with non-negative variables.
pub(crate) struct Program {
    model: Model,
    vars: Vec<VariableKey>,
    goal: Vec<(VariableKey, f64)>,
}

impl Program {
    pub fn new() -> Self {
        let config = SolverConfig { tolerance: 1e-12, ..SolverConfig::default() };
        Program { model: Model::new().with_config(config), vars: Vec::new(), goal: Vec::new() }
    }

    /// Adds a variable with its coefficient in the objective.
    pub fn var(&mut self, value: f64) -> Var {
        let var = self.model.add_variable().non_negative().real();
        self.vars.push(var);
        self.goal.push((var, value));
        self.vars.len() - 1
    }

    pub fn exactly(&mut self, total: f64, terms: Terms) {
        let sum = self.sum(terms);
        self.model.add_constraint(sum).eq(total);
    }

    pub fn at_least(&mut self, total: f64, terms: Terms) {
        let sum = self.sum(terms);
        self.model.add_constraint(sum).ge(total);
    }

    pub fn at_most(&mut self, total: f64, terms: Terms) {
        let sum = self.sum(terms);
        self.model.add_constraint(sum).le(total);
    }

    fn sum(&self, terms: Terms) -> LinearExpr<VariableKey> {
        LinearExpr::with_terms(
            terms.iter().map(|(var, factor)| (self.vars[*var], *factor)).collect(),
        )
    }

    /// The values of all variables. Errors: there is no solution.
    pub fn maximize(mut self) -> Result<Vec<f64>, Error> {
        let unsolved = |status: String| Error::Unsolved { status };
        self.model.set_objective(Maximize, LinearExpr::with_terms(self.goal));
        let solution = self.model.solve().map_err(|error| unsolved(error.to_string()))?;
        match solution.status().is_optimal() {
            true => Ok(self.vars.iter().map(|var| solution.value(*var)).collect()),
            false => Err(unsolved(solution.status().to_string())),
        }
    }
}
