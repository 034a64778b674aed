// The default extraction: a local search by ejection chains (decision 0025).
//
// A merged product pays only once *all* its users have moved to it, which moves of single classes
// never see. So one move lets a class pick another node, builds what that needs at the lowest
// marginal cost, and then offers what is newly there to everybody above: whoever gets cheaper by it
// moves too, and what nobody uses any longer goes. A chain that does not lower the total is taken
// back. Where no class has a chain left that pays, a few moves are forced (a kick) and the search
// goes on around them, from the better of before and after.
//
// Anytime: every state is a solution. Limits count moves; time is a safety net. The same seed gives
// the same answer for any number of threads, as long as neither clock nor monitor ends the search.
#pragma once

#include <limits>

#include "base/progress.h"
#include "extract/problem.h"

namespace emend {

struct SearchOptions {
  uint64_t seed = 0;
  int starts = 2;           // independent searches, spread over threads; their best is the answer
  int64_t moves = 100'000;  // tried by each, at most
  int patience = 20;        // kicks without a gain after which a search ends
  double seconds = std::numeric_limits<double>::infinity();
  // Choices to begin from, as an earlier answer; none: the cheapest terms.
  std::vector<uint32_t> start;
  // How many different solutions to hand back, the best first.
  int keep = 1;
  // The classes by whose picks solutions count as different; none: all of them.
  std::vector<uint32_t> tell_apart_by;
  Monitor monitor = {};
};

struct SearchReport {
  int64_t moves = 0, kicks = 0;
  bool interrupted = false;  // by the clock or the monitor: another run may end elsewhere
};

struct FoundSolution {
  std::vector<uint32_t> choice;  // of needed classes
  double cost = 0;
};

// Of a validated problem: at least one solution and at most options.keep, the best first.
std::vector<FoundSolution> search(const ExtractionProblem& p, const SearchOptions& options,
                                  SearchReport* report = nullptr);

// Two searches, each on a thread of its own: from options.start, if there is one, and from the
// cheapest terms. What the first found stands first.
std::vector<FoundSolution> search_from_both(const ExtractionProblem& p,
                                            const SearchOptions& options);

}  // namespace emend
