// The mutants of a unit, corrected where they are wrong, the fastest ones. The generator
// (mutate/generate.h) finds them with PET's menu, factors of two only. Of those that are wrong
// somewhere, the ones that a gap or a halo repairs are in the table (mutate/mutation.h): they are
// taken from there, where PET comes to them in as many rounds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pet/units.h"
#include "tensat/prices.h"

namespace emend {

struct PetOptions {
  size_t depth = 4, rounds = 4;  // of mutation
  size_t beam = 5;               // programs that are kept
  size_t fastest = 3;            // mutants of a unit that are kept
  bool equivalent = true;        // mutants that are equal without a repair
  bool others = true;            // and those that are not
  bool manager = true;           // units of one kind are mutated once
};

struct PetMutant {
  Graph program;
  bool equivalent = true;
  std::string how;
  double price = 0;
};

class Mutator {
 public:
  Mutator(const PetOptions& options, Prices& prices) : options_(options), prices_(prices) {}
  // Of both kinds, whatever the options say; each kind the fastest first, as many as are kept.
  const std::vector<PetMutant>& of(const Unit& unit);
  size_t searched() const { return searched_; }
  size_t found() const { return found_; }
  double seconds() const { return seconds_; }  // without pricing

 private:
  const PetOptions options_;
  Prices& prices_;
  std::map<uint64_t, std::vector<PetMutant>> known_;
  size_t searched_ = 0, found_ = 0;
  double seconds_ = 0;
};

// The sum of the operators' prices, where inputs may be weights.
double price_of(const Graph& g, const std::vector<bool>& weights, Prices& prices);

}  // namespace emend
