// Einstein sums: an equation of letters is a meaning already. The importer spells ellipses out as
// letters of their own and contracts more than two operands pair by pair.
#include <algorithm>
#include <set>

#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

struct Equation {
  std::vector<std::string> terms;  // one letter per dimension of each operand
  std::string out;
};

struct Einsum {
  std::string equation;  // "ij,jk->ik": letters only, the result explicit
  EMEND_FIELDS(equation)
};

Equation parse(const std::string& text) {
  size_t arrow = text.find("->");
  return {split(std::string_view(text).substr(0, arrow), ','),
          arrow == std::string::npos ? "" : text.substr(arrow + 2)};
}

std::string to_text(const Equation& e) {
  return join(e.terms, ",") + "->" + e.out;
}

// Extent of every letter, or why the operands do not fit.
Result<std::vector<std::pair<char, int64_t>>> extents(const Equation& e, Types in) {
  if (e.terms.size() != in.size())
    return fail("einsum: ", e.terms.size(), " terms for ", in.size(), " operands");
  std::vector<std::pair<char, int64_t>> known;
  auto extent = [&](char letter) {
    return std::ranges::find(known, letter, &std::pair<char, int64_t>::first);
  };
  for (size_t i = 0; i < in.size(); ++i) {
    if (e.terms[i].size() != in[i].shape.size())
      return fail("einsum: ", e.terms[i], " does not index ", to_text(in[i]));
    if (in[i].dtype != in[0].dtype)
      return fail("einsum: operands are ", to_text(in[0]), " and ", to_text(in[i]));
    for (size_t d = 0; d < e.terms[i].size(); ++d) {
      char letter = e.terms[i][d];
      if (!std::isalpha(static_cast<unsigned char>(letter)))
        return fail("einsum: ", std::string(1, letter), " is no letter");
      auto it = extent(letter);
      if (it == known.end())
        known.emplace_back(letter, in[i].shape[d]);
      else if (it->second != in[i].shape[d])
        return fail("einsum: ", std::string(1, letter), " is ", it->second, " and ",
                    in[i].shape[d]);
    }
  }
  for (size_t i = 0; i < e.out.size(); ++i) {
    if (extent(e.out[i]) == known.end() || e.out.find(e.out[i]) != i)
      return fail("einsum: the result's ", std::string(1, e.out[i]), " is unknown or repeated");
  }
  return known;
}

Result<Type> einsum_infer(const Einsum& a, Types in) {
  Equation e = parse(a.equation);
  auto known = extents(e, in);
  if (!known) return Failure{known.error()};
  Dims shape;
  for (char letter : e.out)
    shape.push_back(std::ranges::find(*known, letter, &std::pair<char, int64_t>::first)->second);
  return Type::tensor(in[0].dtype, shape);
}

Meaning einsum_means(const Einsum& a, Types in) {
  Equation e = parse(a.equation);
  auto known = extents(e, in).value_or_throw();
  Meaning m;
  m.out = einsum_infer(a, in).value_or_throw().shape;
  m.reduce = Reduce::sum;
  std::string iterators = e.out;
  for (auto [letter, extent] : known) {
    if (iterators.find(letter) != std::string::npos) continue;
    iterators += letter;
    m.reduced.push_back(extent);
  }
  for (size_t i = 0; i < in.size(); ++i) {
    Read r{.operand = static_cast<int>(i)};
    for (char letter : e.terms[i])
      r.index.push_back(index_of(static_cast<int>(iterators.find(letter))));
    m.reads.push_back(r);
    m.body = i == 0 ? arg(0) : m.body * arg(static_cast<int>(i));
  }
  return m;
}

// --- ONNX ---

// Gives the dimensions under "..." letters that the equation does not use, aligned at their end.
class Ellipsis {
 public:
  explicit Ellipsis(const std::string& used) {
    for (char c = 'a'; c <= 'z'; ++c)
      for (char letter : {c, static_cast<char>(c - 'a' + 'A')})
        if (used.find(letter) == std::string::npos) free_ += letter;
  }
  // The letters for n dimensions.
  std::string letters(size_t n) {
    if (n > free_.size()) throw Error("Einsum: too many dimensions for the alphabet");
    size_ = std::max(size_, n);
    std::string last(free_.begin(), free_.begin() + static_cast<int64_t>(n));
    std::reverse(last.begin(), last.end());
    return last;
  }
  std::string all() { return letters(size_); }

 private:
  std::string free_;
  size_t size_ = 0;
};

Equation explicit_equation(const std::string& text, Types in) {
  std::string clean;
  for (char c : text)
    if (c != ' ') clean += c;
  size_t arrow = clean.find("->");
  Equation e = parse(clean);
  Ellipsis ellipsis(clean);
  if (e.terms.size() != in.size())
    throw Error(
        str("Einsum: ", text, " has ", e.terms.size(), " terms for ", in.size(), " operands"));
  for (size_t i = 0; i < in.size(); ++i) {
    std::string& term = e.terms[i];
    size_t at = term.find("...");
    if (at == std::string::npos) continue;
    size_t named = term.size() - 3;
    if (named > in[i].shape.size())
      throw Error(str("Einsum: ", term, " does not index ", to_text(in[i])));
    term = term.substr(0, at) + ellipsis.letters(in[i].shape.size() - named) + term.substr(at + 3);
  }
  if (arrow != std::string::npos) {
    size_t at = e.out.find("...");
    if (at != std::string::npos)
      e.out = e.out.substr(0, at) + ellipsis.all() + e.out.substr(at + 3);
    return e;
  }
  // Implicit result: the ellipsis, then letters that stand once, in alphabetical order.
  std::string hidden = ellipsis.all(), all = join(e.terms, "");
  std::set<char> once;
  for (char c : all) {
    if (std::ranges::count(all, c) == 1 && hidden.find(c) == std::string::npos) once.insert(c);
  }
  e.out = hidden + std::string(once.begin(), once.end());
  return e;
}

// Dimensions of size 1 that only broadcast are dropped from their operand.
void drop_broadcast(OnnxCall& c, Equation& e, std::vector<NodeId>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const Dims from = c.b.shape(args[i]);
    if (e.terms[i].size() != from.size()) continue;
    std::string kept;
    Dims shape;
    for (size_t d = 0; d < from.size(); ++d) {
      bool larger_elsewhere = false;
      for (size_t j = 0; j < args.size() && from[d] == 1; ++j) {
        const Dims& other = c.b.shape(args[j]);
        size_t at = e.terms[j].find(e.terms[i][d]);
        larger_elsewhere |=
            at < other.size() && e.terms[j].size() == other.size() && other[at] != 1;
      }
      if (larger_elsewhere) continue;
      kept += e.terms[i][d];
      shape.push_back(from[d]);
    }
    if (shape.size() == from.size()) continue;
    args[i] = c.b.op("reshape", {args[i]}, Reshape{shape});
    e.terms[i] = kept;
  }
}

Result<std::vector<NodeId>> einsum_lower(OnnxCall& c) {
  std::vector<Type> types;
  for (size_t i = 0; i < c.inputs.size(); ++i) types.push_back(c.type(i));
  Equation e = explicit_equation(c.text_attr("equation", ""), types);
  std::vector<NodeId> args = c.inputs;
  drop_broadcast(c, e, args);
  // From the left: the first two become one that keeps what is still needed.
  while (args.size() > 2) {
    std::string later = e.out, kept;
    for (size_t i = 2; i < e.terms.size(); ++i) later += e.terms[i];
    for (char letter : e.terms[0] + e.terms[1]) {
      if (later.find(letter) != std::string::npos && kept.find(letter) == std::string::npos)
        kept += letter;
    }
    Equation pair{{e.terms[0], e.terms[1]}, kept};
    args[1] = c.b.op("einsum", {args[0], args[1]}, Einsum{to_text(pair)});
    e.terms[1] = kept;
    args.erase(args.begin());
    e.terms.erase(e.terms.begin());
  }
  return std::vector{c.b.op("einsum", args, to_attrs(Einsum{to_text(e)}))};
}

}  // namespace

std::vector<OpDef> einsum_ops() {
  return {define<Einsum>(
      {.name = "einsum",
       .min_args = 1,
       .max_args = -1,
       .kind = Kind::contraction,
       .traits = multilinear,
       .infer = einsum_infer,
       .means = einsum_means,
       .onnx =
           {{.type = "Einsum",
             .since = 12,
             .lower = einsum_lower,
             .raise =
                 [](OnnxWriter& w) {
                   return w.emit("Einsum", w.args, {{"equation", w.attrs.as<Einsum>().equation}});
                 }}},
       .doc = "sum of products by an equation of index letters, as ij,jk->ik"})};
}

}  // namespace emend
