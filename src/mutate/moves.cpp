#include "mutate/moves.h"

#include <algorithm>

#include "base/text.h"
#include "ops/view_compose.h"

namespace emend {
namespace {

// A digit of the result: where it is read.
struct Part {
  size_t dim;
  int64_t radix, weight;
};
using Parts = std::vector<std::vector<Part>>;  // per dimension of the result, the slowest first

View view_of(const Parts& parts, size_t rank) {
  View v;
  v.index.resize(rank);
  int digit = 0;
  for (const std::vector<Part>& dim : parts) {
    View::Dim d{1, {}};
    for (const Part& p : dim) {
      d.radices.push_back(p.radix);
      d.extent *= p.radix;
      v.index[p.dim].terms.emplace_back(digit++, p.weight);
    }
    v.out.push_back(std::move(d));
  }
  return normalised(v);
}

Parts parts_of(const Dims& shape) {
  Parts parts;
  for (size_t d = 0; d < shape.size(); ++d) parts.push_back({{d, shape[d], 1}});
  return parts;
}

}  // namespace

std::string to_text(const Move& m) {
  auto side = [](bool slow) { return slow ? "slow" : "fast"; };
  if (m.kind == Move::Kind::swap) return str(m.from, "<->", m.to);
  if (m.kind == Move::Kind::merge) return str("merge ", m.from, "..");
  return str(m.from, ":", side(m.from_slow), "/", m.radix, "->", m.to, ":", side(m.to_slow));
}

Move inverse(const Move& m) {
  Move back = m;
  std::swap(back.from, back.to);
  std::swap(back.from_slow, back.to_slow);
  return back;
}

std::optional<Dims> shape_after(const Move& m, const Dims& shape) {
  const size_t rank = shape.size();
  if (m.from >= rank || m.to >= rank) return std::nullopt;
  Dims out = shape;
  switch (m.kind) {
    case Move::Kind::digit:
      if (shape[m.from] % m.radix != 0) return std::nullopt;
      out[m.from] /= m.radix;
      out[m.to] *= m.radix;
      break;
    case Move::Kind::swap:
      std::swap(out[m.from], out[m.to]);
      break;
    case Move::Kind::merge:
      for (; out.size() > m.from + 1; out.pop_back()) out[m.from] *= out.back();
      break;
  }
  return out;
}

View view_of(const Move& m, const Dims& shape) {
  Parts parts = parts_of(shape);
  switch (m.kind) {
    case Move::Kind::digit: {
      int64_t rest = shape[m.from] / m.radix;
      parts[m.from] = {{m.from, rest, m.from_slow ? 1 : m.radix}};
      Part digit{m.from, m.radix, m.from_slow ? rest : 1};
      std::vector<Part>& to = parts[m.to];
      to.insert(m.to_slow ? to.begin() : to.end(), digit);
      break;
    }
    case Move::Kind::swap:
      std::swap(parts[m.from], parts[m.to]);
      break;
    case Move::Kind::merge:
      for (size_t d = m.from + 1; d < shape.size(); ++d) parts[m.from].push_back(parts[d][0]);
      parts.resize(m.from + 1);
      break;
  }
  return view_of(parts, shape.size());
}

std::optional<View> refined_to(const Dims& shape, const Dims& result) {
  Parts parts;
  size_t next = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    const size_t first = next;
    int64_t product = 1;
    while (next < result.size() && (product < shape[d] || next == first)) product *= result[next++];
    if (d + 1 == shape.size())
      while (next < result.size()) product *= result[next++];
    if (product != shape[d]) return std::nullopt;
    int64_t weight = product;
    for (size_t r = first; r < next; ++r) parts.push_back({{d, result[r], weight /= result[r]}});
  }
  return next == result.size() ? std::optional(view_of(parts, shape.size())) : std::nullopt;
}

void MoveChain::add(const Move& m) {
  View next = view_of(m, shape);
  auto both = views.empty() ? std::nullopt : composed(next, views.back(), reads.back());
  if (both && !both->mask) {
    views.back() = std::move(both->view);
  } else {
    views.push_back(std::move(next));
    reads.push_back(shape);
  }
  shape = *shape_after(m, shape);
  if (is_identity(views.back(), reads.back())) {
    views.pop_back();
    reads.pop_back();
  }
}

MoveChain chain_of(const std::vector<Move>& moves, const Dims& shape) {
  MoveChain chain{.shape = shape};
  for (const Move& m : moves) chain.add(m);
  return chain;
}

}  // namespace emend
