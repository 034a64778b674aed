// What was proven of mutants, kept: in memory for a search, and as text between starts. Two things
// are known by heart:
//   verdicts   is this mutant its original everywhere? Kept under the form of the pair
//              (equiv/natural_form.h), which is the same for all shapes that differ only in extents
//              on which the answer cannot depend. What a mutation is called does not enter.
//   solutions  which value of its open parameter a mutation needed, at shapes known up to such
//              extents. Only where to begin: the verdicts decide, on the mutant itself.
// So a proof at one shape serves all the others, and whatever stands here, nothing that differs is
// called equal; see docs/decisions/0035.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "equiv/natural_form.h"
#include "ir/graph.h"
#include "mutate/restrict.h"

namespace emend {

class MutationManager {
 public:
  struct Verdict {
    bool equal = false;
    double share = 0;                 // of positions that agree, as far as that was looked at
    std::string method;               // by which that was shown
    std::string reason;               // why nothing could be shown; empty otherwise
    std::vector<PositionBox> differ;  // all positions that may differ, if they were asked for,
    std::string scattered;            //   or why they are not said
  };
  using Free = std::vector<std::vector<bool>>;  // per input and dimension: it does not matter
  struct Judged {
    Verdict verdict;
    Free free;
    bool known = false;  // without a proof
  };
  // Are they equal everywhere? If not, and up to so many boxes are asked for: where do they differ?
  Judged judge(const Graph& original, const Graph& mutant, size_t boxes);
  // The same by a proof, whatever is known.
  static Verdict proven(const Graph& original, const Graph& mutant, size_t boxes);

  // A mutation with its choices made, at operands of these types.
  struct Question {
    uint64_t about = 0;  // the mutation as text, the operator, its attributes, the choices
    std::vector<Dims> shapes;
  };
  static constexpr int64_t kNoSolution = -1;
  std::optional<int64_t> solution(const Question& q) const;
  void solved(const Question& q, int64_t value, const Free& free);

  // Everything as text, and back. What was damaged, makes no sense or was made under another
  // version is not taken, not even in part.
  std::string text(std::string_view version) const;
  bool read(std::string_view text, std::string_view version);

  size_t proofs() const { return proofs_; }  // made here
  size_t size() const { return verdicts_.size() + solutions_.size(); }
  bool grown() const { return grown_; }

 private:
  using Key = NaturalForm::Key;
  static Key key_of(const Question& q, const std::string& mask);
  std::optional<Verdict> known(const NaturalForm& form, size_t boxes, const Dims& shape) const;
  void keep(const NaturalForm& form, size_t boxes, const Dims& shape, const Verdict& v);
  void add_mask(uint64_t about, const std::string& mask);
  bool take_line(std::istream& words);

  std::map<Key, Verdict> verdicts_;
  std::map<Key, int64_t> solutions_;
  std::map<uint64_t, std::vector<std::string>> masks_;  // which dimensions were free, by `about`
  size_t proofs_ = 0;
  bool grown_ = false;
};

}  // namespace emend
