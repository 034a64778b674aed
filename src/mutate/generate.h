// Mutants that no line of the table names: PET's generator. Small programs over the operands of an
// operator, or of parallel ones, are enumerated from a typed menu:
//   moves of the operands; joins of parallel operators' operands; one compute operator, whose
//   attributes may have changed; moves of what it computes, and parts of it.
// A program with the original's types that agrees at enough sampled positions, over the prime
// field, is a candidate; where it agrees is then proven (equiv/agreement.h).
//
// PET's prunings, exactly: programs that differ only in the order of independent steps are one (a);
// a chain of moves that another chain of no more moves equals is dropped, by composing views (b);
// one compute operator on a path (c), never first (e), always there (f), no step twice (d); nothing
// is added to a program that was accepted (g).
//
// Counts bound it, and equal inputs give equal answers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "equiv/agreement.h"
#include "ir/graph.h"
#include "mutate/moves.h"

namespace emend {

struct MutantMenu {
  std::vector<Move> first, second, results;  // of the operands, and of what is computed
  struct Compute {
    OpId op;
    Attrs attrs;
    bool swapped = false;  // the second operand comes first
  };
  std::vector<Compute> computes;
};

// Operators that compute side by side: one, or several of one kind, each of two inputs.
struct ParallelOps {
  OpId op;
  Attrs attrs;
  std::vector<size_t> operands[2];  // per operator: which input
  size_t count() const { return operands[0].size(); }
};
// Nothing if the program is something else.
std::optional<ParallelOps> parallel_ops(const Graph& subprogram);
// PET's menus, for convolutions and products; empty for others. Digits have these radices, and
// those that windows step by.
MutantMenu menu_for(const ParallelOps& ops, const Graph& subprogram, const Dims& radices);

struct GenerateOptions {
  size_t depth = 4;          // steps of a program
  size_t rounds = 1;         // the compute operator of what was found is mutated again
  Dims radices = {2, 3};     // see menu_for
  size_t samples = 12;       // positions that are looked at, corners among them
  double least_share = 0.6;  // of them must agree
  size_t programs = 20000;   // of the right types, that are looked at, at most
  size_t candidates = 64;    // at most
  // Is a program, which these steps make, worth a proof? None: all are.
  std::function<bool(const Graph&, const std::string& steps)> worthwhile = {};
  Monitor monitor = {};
};

struct GeneratedMutant {
  Graph program;
  std::string steps;
  std::vector<Agreement> where;  // per output
  bool equal() const;            // everywhere
  double share() const;          // the least of any output
};

struct GenerateReport {
  size_t programs = 0;  // of the right types
  size_t agreeing = 0;  // of these, at enough positions
  size_t unproven = 0;  // of these, nobody could say where
};

// Those that are equal everywhere first, then by the share of positions.
std::vector<GeneratedMutant> generate(const Graph& subprogram, const GenerateOptions& options = {},
                                      GenerateReport* report = nullptr);

}  // namespace emend
