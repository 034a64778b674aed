#include "mutate/manager.h"

#include <algorithm>
#include <sstream>

#include "base/hash.h"
#include "base/text.h"
#include "equiv/agreement.h"
#include "mutate/correct.h"

namespace emend {
namespace {

constexpr std::string_view kFormat = "emend mutants 1";
constexpr size_t kMost = 1 << 15;  // entries; then all is forgotten

// Per dimension of each operand '*' where the extent is free, '.' elsewhere.
std::string mask_of(const MutationManager::Free& free) {
  std::string mask;
  for (const auto& operand : free)
    for (bool f : operand) mask += f ? '*' : '.';
  return mask;
}

std::string head_of(std::string_view version, std::string_view body) {
  return str(kFormat, " ", hash_text(version), " ", hash_text(body), " ", hash_text(body, 1), "\n");
}

// Also where they differ, in up to so many boxes.
NaturalForm::Key with(NaturalForm::Key key, size_t boxes) {
  return {hash_mix(key.a, boxes), hash_mix(key.b, boxes + 1)};
}

// The rest of a line may hold spaces, but no ends of lines.
std::string one_line(std::string s) {
  std::replace(s.begin(), s.end(), '\n', ' ');
  return s;
}

// Nothing went wrong, and nothing is left.
bool at_end(std::istream& words) {
  return words && (words.eof() || (words >> std::ws).eof());
}

std::string word_or_nothing(std::istream& words) {
  std::string word;
  if (words && !at_end(words)) words >> word;
  return word;
}

std::optional<PositionBox> read_box(std::istream& words) {
  PositionBox box;
  size_t rank = 0;
  words >> rank;
  for (Dims* side : {&box.low, &box.high})
    for (size_t d = 0; d < rank && words; ++d) words >> side->emplace_back();
  for (size_t d = 0; d < rank && words; ++d)
    if (box.low[d] < 0 || box.high[d] <= box.low[d]) return std::nullopt;
  return words ? std::optional(box) : std::nullopt;
}

// As it is written, or nothing.
std::optional<MutationManager::Verdict> read_verdict(std::istream& words) {
  MutationManager::Verdict v;
  size_t boxes = 0;
  bool scattered = false;
  words >> v.equal >> v.share >> v.method >> boxes;
  if (v.method == "-") v.method.clear();
  for (size_t i = 0; i < boxes; ++i) {
    auto box = read_box(words);
    if (!box || (i > 0 && box->low.size() != v.differ[0].low.size())) return std::nullopt;
    v.differ.push_back(*std::move(box));
  }
  words >> scattered;
  if (!words || !(v.share >= 0 && v.share <= 1) || (v.equal && boxes > 0)) return std::nullopt;
  words.get();
  std::getline(words, scattered ? v.scattered : v.reason);
  return v;
}

bool is_in(const PositionBox& box, const Dims& shape) {
  bool in = box.low.size() == shape.size();
  for (size_t d = 0; d < shape.size() && in; ++d)
    in = box.low[d] >= 0 && box.low[d] < box.high[d] && box.high[d] <= shape[d];
  return in;
}

}  // namespace

MutationManager::Verdict MutationManager::proven(const Graph& original, const Graph& mutant,
                                                 size_t boxes) {
  auto shown = agreement(original, mutant, {.only_everywhere = boxes == 0});
  if (!shown) return {.reason = shown.error()};
  Verdict v{.equal = shown->everywhere(), .share = shown->share(), .method = shown->method};
  if (boxes == 0 || v.equal) return v;
  auto differ = disagreement(*shown, original.type(original.outputs[0].node).shape, boxes);
  if (differ) {
    v.differ = std::move(*differ);
  } else {
    v.scattered = differ.error();
  }
  return v;
}

MutationManager::Judged MutationManager::judge(const Graph& original, const Graph& mutant,
                                               size_t boxes) {
  const Graph a = without_composites(original), b = without_composites(mutant);
  const Dims& shape = a.type(a.outputs[0].node).shape;
  auto form = natural_form(a, b);
  Judged answer;
  if (form) {
    for (const auto& operand : form->free) {
      auto& mine = answer.free.emplace_back();
      for (int f : operand) mine.push_back(f >= 0);
    }
    if (auto v = known(*form, boxes, shape)) {
      answer.verdict = std::move(*v);
      answer.known = true;
      return answer;
    }
  }
  ++proofs_;
  answer.verdict = proven(a, b, boxes);
  if (form) keep(*form, boxes, shape, answer.verdict);
  return answer;
}

std::optional<MutationManager::Verdict> MutationManager::known(const NaturalForm& form,
                                                               size_t boxes,
                                                               const Dims& shape) const {
  for (Key key : {form.any, form.exact}) {
    auto it = verdicts_.find(key);
    if (it == verdicts_.end()) continue;
    const bool enough = boxes == 0 || it->second.equal || !it->second.reason.empty();
    if (!enough && (it = verdicts_.find(with(key, boxes))) == verdicts_.end()) continue;
    Verdict v = it->second;
    bool fits = true;  // what is kept may have been made up
    for (PositionBox& box : v.differ) {
      for (size_t d = 0; d < std::min(shape.size(), box.high.size()); ++d) {
        if (form.free_out[d] < 0) continue;
        fits &= box.low[d] == 0;
        box.high[d] = shape[d];
      }
      fits &= is_in(box, shape);
    }
    if (fits) return v;
  }
  return std::nullopt;
}

void MutationManager::keep(const NaturalForm& form, size_t boxes, const Dims& shape,
                           const Verdict& v) {
  if (size() >= kMost) {
    verdicts_.clear();
    solutions_.clear();
    masks_.clear();
  }
  grown_ = true;
  // A proof that was too long may be shorter at other extents; slices differ alike or not at all.
  bool general = v.reason.empty();
  for (const PositionBox& box : v.differ)
    for (size_t d = 0; d < shape.size(); ++d)
      general &= form.free_out[d] < 0 || (box.low[d] == 0 && box.high[d] == shape[d]);
  const Key key = general ? form.any : form.exact;
  verdicts_.try_emplace(key, v);
  if (boxes > 0 && !v.equal && v.reason.empty()) verdicts_[with(key, boxes)] = v;
}

NaturalForm::Key MutationManager::key_of(const Question& q, const std::string& mask) {
  Key key{q.about, hash_text(mask, q.about)};
  size_t at = 0;
  for (const Dims& shape : q.shapes) {
    for (int64_t n : shape) {
      // One place is none: it is never free.
      bool free = at < mask.size() && mask[at] == '*' && n > 1;
      ++at;
      key.a = hash_mix(key.a, free ? 0 : static_cast<uint64_t>(n));
      key.b = hash_mix(key.b, free ? 7 : static_cast<uint64_t>(n) * 31);
    }
    key.a = hash_mix(key.a, shape.size());
  }
  return key;
}

std::optional<int64_t> MutationManager::solution(const Question& q) const {
  auto masks = masks_.find(q.about);
  if (masks == masks_.end()) return std::nullopt;
  for (const std::string& mask : masks->second) {
    auto it = solutions_.find(key_of(q, mask));
    if (it != solutions_.end()) return it->second;
  }
  return std::nullopt;
}

void MutationManager::solved(const Question& q, int64_t value, const MutationManager::Free& free) {
  std::string mask = mask_of(free);
  int64_t& known = solutions_.try_emplace(key_of(q, mask), value - 1).first->second;
  if (known == value) return;
  known = value;
  grown_ = true;
  add_mask(q.about, mask);
}

void MutationManager::add_mask(uint64_t about, const std::string& mask) {
  auto& masks = masks_[about];
  if (std::find(masks.begin(), masks.end(), mask) == masks.end()) masks.push_back(mask);
}

std::string MutationManager::text(std::string_view version) const {
  std::ostringstream out;
  out.precision(17);
  for (const auto& [key, v] : verdicts_) {
    out << "v " << key.a << ' ' << key.b << ' ' << v.equal << ' ' << v.share << ' '
        << (v.method.empty() ? "-" : v.method) << ' ' << v.differ.size();
    for (const PositionBox& box : v.differ) {
      out << ' ' << box.low.size();
      for (const Dims* side : {&box.low, &box.high})
        for (int64_t n : *side) out << ' ' << n;
    }
    out << ' ' << !v.scattered.empty() << ' ' << one_line(v.reason + v.scattered) << '\n';
  }
  for (const auto& [key, value] : solutions_)
    out << "s " << key.a << ' ' << key.b << ' ' << value << '\n';
  for (const auto& [about, masks] : masks_)
    for (const std::string& mask : masks) out << "m " << about << ' ' << mask << '\n';
  std::string body = out.str();
  return head_of(version, body) + body;
}

bool MutationManager::read(std::string_view text, std::string_view version) {
  size_t end = text.find('\n');
  if (end == std::string_view::npos) return false;
  std::string body(text.substr(end + 1));
  if (text.substr(0, end + 1) != head_of(version, body)) return false;
  MutationManager taken;
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    if (!taken.take_line(words)) return false;
  }
  verdicts_.merge(taken.verdicts_);
  solutions_.merge(taken.solutions_);
  for (const auto& [about, masks] : taken.masks_)
    for (const std::string& mask : masks) add_mask(about, mask);
  return true;
}

bool MutationManager::take_line(std::istream& words) {
  char kind = 0;
  Key key;
  words >> kind >> key.a;
  if (kind == 'm') {
    std::string mask = word_or_nothing(words);
    if (mask.find_first_not_of("*.") != std::string::npos) return false;
    add_mask(key.a, mask);
    return at_end(words);
  }
  words >> key.b;
  if (kind == 'v') {
    auto v = read_verdict(words);
    return v && verdicts_.try_emplace(key, *std::move(v)).second;
  }
  int64_t value = kNoSolution - 1;
  words >> value;
  return kind == 's' && value >= kNoSolution && at_end(words) &&
         solutions_.try_emplace(key, value).second;
}

}  // namespace emend
