#include "kernels/cpu/row_printer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu/c_code.h"

namespace emend {
namespace {

constexpr int64_t kRowBytes = 32 << 10;  // a kept row stays in the first-level cache

const char* omp_word(Reduce how) {
  return how == Reduce::sum       ? "+"
         : how == Reduce::product ? "*"
         : how == Reduce::max     ? "em_max"
                                  : "em_min";
}

}  // namespace

std::string declare_buffers(const Graph& group) {
  std::string text;
  for (size_t b = 0; b < group.inputs.size(); ++b) {
    text += str("const ", c_storage(group.type(group.inputs[b].node).dtype), "* const x", b,
                " = buffers[", b, "];\n");
  }
  for (size_t b = 0; b < group.outputs.size(); ++b) {
    text += str(c_storage(group.type(group.outputs[b].node).dtype), "* const y", b, " = buffers[",
                group.inputs.size() + b, "];\n");
  }
  return text;
}

std::optional<std::string> declare_inside(const Nest& nest, const std::vector<Bound>& bounds,
                                          int lane) {
  std::string text = "int64_t in0 = lo, in1 = hi;\n", outside;
  for (const Bound& b : bounds) {
    auto step = nest.math.stride(b.at, lane);
    bool computed = false;
    nest.math.visit(b.at, [&](int a) { computed |= nest.math.atom(a).kind == Atom::Kind::value; });
    if (!step || *step < 0 || computed) return std::nullopt;
    std::string rest = nest.math.text(b.at + term(lane, -*step), iterator_name);
    if (*step == 0) {
      outside += str(outside.empty() ? "" : " || ", "(uint64_t)(", rest, ") >= ", b.extent);
      continue;
    }
    text += str("{\nconst int64_t rest = ", rest, ", from = em_ceil_div(-rest, ", *step,
                "), to = em_ceil_div(", b.extent, " - rest, ", *step,
                ");\nif (in0 < from) in0 = from;\nif (in1 > to) in1 = to;\n}\n");
  }
  text += str("if (in0 > hi) in0 = hi;\nif (in1 < in0", outside.empty() ? "" : " || ", outside,
              ") in1 = in0;\n");
  return text;
}

std::string declare_digits(const Nest& nest, const std::vector<int>& iterators,
                           const std::string& number) {
  std::string text;
  int64_t step = 1;
  for (size_t k = iterators.size(); k-- > 0;) {
    int64_t extent = nest.math.extent(iterators[k]);
    std::string digit = step == 1 ? number : str("(", number, ") / ", step);
    text += str("const int64_t ", iterator_name(iterators[k]), " = ",
                k == 0 ? digit : str("(", digit, ") % ", extent), ";\n");
    step *= extent;
  }
  return text;
}

std::string print_runs(const Nest& nest, const std::vector<int>& iterators, const std::string& from,
                       const std::string& to, const std::string& body) {
  std::vector<int> outer(iterators.begin(), iterators.end() - 1);
  int64_t extent = nest.math.extent(iterators.back());
  return str("for (int64_t at = ", from, ", hi_; at < ", to, "; at += hi_) {\n",
             "const int64_t lo = at % ", extent, ", hi = lo + (", to, " - at) < ", extent,
             " ? lo + (", to, " - at) : ", extent, ";\nhi_ = hi - lo;\n",
             declare_digits(nest, outer, str("at / ", extent)), body, "}\n");
}

RowPrinter::RowPrinter(const Nest& nest, const Graph& group, int lane, int64_t longest)
    : nest_(nest),
      group_(group),
      lane_(lane),
      longest_(longest),
      free_(free_atoms(nest)),
      inner_(left_out(nest)),
      leaves_(leaf_reductions(nest)) {
  find_kept();
}

std::string RowPrinter::print() {
  std::vector<int> outer;
  for (int a : nest_.space) {
    if (a != lane_ && !is_inner(a)) outer.push_back(a);
  }
  loops_ = {{outer, {}, {}, ""}};
  if (lane_ < 0) {
    for (const NestStore& s : nest_.stores) store(s);
    return loops_[0].text;
  }
  prepare_rows(true);
  declare_leaves();
  for (int a : inner_) {
    if (a != lane_) open_loop({a});
  }
  prepare_rows(false);
  run_lanes();
  for (size_t k = inner_.size(); k-- > 0;) {
    if (inner_[k] != lane_) close_loop(loop_head(inner_[k]));
  }
  store_leaves();
  return loops_[0].text;
}

std::string RowPrinter::loop_head(int iterator) const {
  std::string i = iterator_name(iterator);
  return str("for (int64_t ", i, " = 0; ", i, " < ", nest_.math.extent(iterator), "; ++", i,
             ") {\n");
}

// --- leaf reductions ---

// The accumulator of a leaf: a number, or one for every lane.
std::string RowPrinter::leaf_name(int v) const {
  return depends(v, lane_) ? str("leaf", v, "[", iterator_name(lane_), " - lo]") : str("leaf", v);
}

void RowPrinter::declare_leaves() {
  for (int v : leaves_) {
    const NestValue& u = value(v);
    std::string neutral = str(leaf_name(v), " = ", c_neutral(u.reduce, u.dtype, u.work), ";\n");
    std::string& text = loops_[0].text;
    if (!depends(v, lane_)) {
      text += str(c_work(u.work), " ", neutral);
    } else {
      text += str(c_work(u.work), " leaf", v, "[", std::min(longest_, nest_.math.extent(lane_)),
                  "];\n", lane_head(), neutral, "}\n");
    }
  }
}

// Everything that has an element for every lane, and a step of all leaf reductions.
void RowPrinter::run_lanes() {
  auto is_main = [&](const NestStore& s) {
    return inner_.empty() || nest_.math.stride(s.at, inner_[0]) != 0;
  };
  for (const NestStore& s : nest_.stores) {
    if (is_main(s)) hoist(s.value, {lane_});
  }
  for (int v : leaves_) hoist(value(v).args[0], {lane_});
  open_loop({lane_});
  for (const NestStore& s : nest_.stores) {
    if (is_main(s)) store(s);
  }
  std::string sums;
  for (int v : leaves_) {
    const NestValue& u = value(v);
    std::string x = c_converted(value(u.args[0]).work, u.work, use(u.args[0]));
    loops_.back().text +=
        str(leaf_name(v), " = ", c_combined(u.reduce, u.work, leaf_name(v), x), ";\n");
    if (!depends(v, lane_))
      sums += str(" reduction(", omp_word(u.reduce), " : ", leaf_name(v), ")");
  }
  close_loop(str(sums.empty() ? "#pragma GCC ivdep" : "#pragma omp simd", sums, "\n", lane_head()));
}

void RowPrinter::store_leaves() {
  if (inner_.empty()) return;
  bool lanes = !is_inner(lane_);
  for (int v : leaves_) {
    const NestValue& u = value(v);
    std::string done = c_rounded(u.dtype, u.work, leaf_name(v));
    (depends(v, lane_) ? loops_[0].rows : loops_[0].names)[v] = done;
  }
  auto each = [&](const std::function<void(const NestStore&)>& see) {
    for (const NestStore& s : nest_.stores) {
      if (nest_.math.stride(s.at, inner_[0]) == 0) see(s);
    }
  };
  if (lanes) each([&](const NestStore& s) { hoist(s.value, {lane_}); });
  if (lanes) open_loop({lane_});
  each([&](const NestStore& s) { store(s); });
  if (lanes) close_loop(str("#pragma GCC ivdep\n", lane_head()));
}

std::string RowPrinter::lane_head() const {
  std::string i = iterator_name(lane_);
  if (fixed_ > 0) {
    return str("#pragma GCC unroll 1\nfor (int64_t lane_ = 0; lane_ < ", fixed_,
               "; ++lane_) {\nconst int64_t ", i, " = lo + lane_;\n");
  }
  return str("for (int64_t ", i, " = lo; ", i, " < hi; ++", i, ") {\n");
}

// Values worth a row of memory: dear, and needed by the lanes as well as by a reduction over
// them.
void RowPrinter::find_kept() {
  if (lane_ < 0 || nest_.math.extent(lane_) > longest_) return;
  std::map<int, std::set<int>> users;  // value -> loops over the row that need it
  for (size_t v = 0; v < nest_.values.size(); ++v) {
    const NestValue& r = value(static_cast<int>(v));
    if (is_leaf(static_cast<int>(v))) {
      note_users(r.args[0], -1, users);
    } else if (r.kind == NestValue::Kind::reduce && r.over == std::vector<int>{lane_} &&
               !depends(static_cast<int>(v), lane_)) {
      note_users(r.args[0], static_cast<int>(v), users);
    }
  }
  for (const NestStore& s : nest_.stores) note_users(s.value, -1, users);
  int64_t bytes = 0;
  for (const auto& [v, loops] : users) {
    const NestValue& u = value(v);
    bool dear = u.kind == NestValue::Kind::reduce;
    for (const Instr& i : u.body.code) {
      dear |= i.fn == Fn::div || (i.fn >= Fn::sqrt && i.fn <= Fn::erf) || i.fn == Fn::pow;
    }
    int64_t row = nest_.math.extent(lane_) * info(u.work).bits / 8;
    if (loops.size() < 2 || !dear || bytes + row > 2 * kRowBytes) continue;
    bytes += row;
    kept_.insert(v);
  }
}
void RowPrinter::note_users(int v, int loop, std::map<int, std::set<int>>& users) const {
  if (!depends(v, lane_)) return;
  if (!users[v].insert(loop).second) return;
  for (int a : value(v).args) note_users(a, loop, users);
}

// --- loops ---

void RowPrinter::close_loop(const std::string& head) {
  std::string body = std::move(loops_.back().text);
  loops_.pop_back();
  loops_.back().text += head + body + "}\n";
}

std::string RowPrinter::close_scope() {
  std::string text = std::move(loops_.back().text);
  loops_.pop_back();
  return text;
}

// The outermost loop that knows every iterator of the value: the last that changes one.
size_t RowPrinter::home(int v) const {
  for (size_t d = loops_.size(); d-- > 0;) {
    for (int a : loops_[d].open) {
      if (depends(v, a)) return d;
    }
  }
  return 0;
}

// --- values ---

// The row of a value where the code that is being written sees one: rows end with the loop that
// declares them, like every other name, and are of other points where a loop in between runs over
// an iterator again that tasks share.
const std::string* RowPrinter::row_of(int v) const {
  for (size_t d = loops_.size(); d-- > 0;) {
    if (auto row = loops_[d].rows.find(v); row != loops_[d].rows.end()) return &row->second;
    if (d > 0 && is_of_other_points(v, loops_[d].open)) return nullptr;
  }
  auto row = given_.find(v);
  return row == given_.end() ? nullptr : &row->second;
}

// Does a loop over these iterators change it, but for running along its row?
bool RowPrinter::is_of_other_points(int v, const std::vector<int>& iterators) const {
  return std::ranges::any_of(iterators, [&](int a) { return a != lane_ && depends(v, a); });
}

// What a loop over these iterators needs but does not change is computed before it is opened, so
// that loops over the row never begin inside one another.
void RowPrinter::hoist(int v, const std::vector<int>& iterators) {
  if (!std::any_of(iterators.begin(), iterators.end(), [&](int a) { return depends(v, a); })) {
    use(v);
    return;
  }
  if (row_of(v) && !is_of_other_points(v, iterators)) return;
  std::vector<int> inner = iterators;
  inner.insert(inner.end(), value(v).over.begin(), value(v).over.end());
  for (int a : value(v).args) hoist(a, inner);
}

std::string RowPrinter::use(int v) {
  size_t d = home(v);
  // Further out it may have been computed, too, for the task's own point.
  if (auto it = loops_[d].names.find(v); it != loops_[d].names.end()) return it->second;
  // Deeper loops wait while the value is computed outside of them.
  std::vector<Loop> deeper(std::make_move_iterator(loops_.begin() + static_cast<long>(d) + 1),
                           std::make_move_iterator(loops_.end()));
  loops_.resize(d + 1);
  std::string name = compute(v);
  loops_[d].names[v] = name;
  std::move(deeper.begin(), deeper.end(), std::back_inserter(loops_));
  return name;
}

bool RowPrinter::in_lane_loop() const {
  const auto& open = loops_.back().open;
  return lane_ >= 0 && open.size() == 1 && open[0] == lane_;
}

std::string RowPrinter::compute(int v) {
  // A row of one point has no loop of its own.
  if (const std::string* row = row_of(v); row && (lane_ < 0 || in_lane_loop())) return *row;
  const NestValue& u = value(v);
  std::string name = str("v", v);
  std::string expression;
  switch (u.kind) {
    case NestValue::Kind::load:
      expression = load(v);
      break;
    case NestValue::Kind::index:
      expression = index(u.at);
      break;
    case NestValue::Kind::compute:
      expression = is_exp_of_distance(nest_, u) ? exp_of_distance(u, name) : body(v, name);
      break;
    case NestValue::Kind::reduce:
      reduce(v, name);
      return name;
  }
  std::string& text = loops_.back().text;
  const std::string type = is_short(v) ? "int32_t" : c_work(u.work);
  text += str("const ", type, " ", name, " = ", expression, ";\n");
  if (kept_.count(v) && keeps_ && in_lane_loop()) {
    text += str("row", v, "[", iterator_name(lane_), " - lo] = ", name, ";\n");
    newly_kept_.push_back(v);
  }
  return name;
}

std::string RowPrinter::index(const Linear& e) {
  return nest_.math.text(e, [&](int a) {
    const Atom& at = nest_.math.atom(a);
    if (at.kind != Atom::Kind::value) return iterator_name(a);
    std::string number = use(at.value);
    if (at.by == 0) return number;
    return str("(", number, " < 0 ? ", number, " + ", at.by, " : ", number, ")");
  });
}

// Data may name any place, whatever range is expected of it.
bool RowPrinter::named_by_data(const Bound& b) const {
  bool named = false;
  nest_.math.visit(b.at, [&](int a) { named |= nest_.math.atom(a).kind == Atom::Kind::value; });
  return named;
}

std::string RowPrinter::load(int v) {
  const NestValue& u = value(v);
  std::string at = index(u.at), condition;
  for (const Bound& b : u.bounds) {
    std::string i = index(b.at);
    auto [low, high] = nest_.math.range(b.at);
    bool always = u.faults || named_by_data(b);
    if (low < 0 || always) condition += str(condition.empty() ? "" : " && ", i, " >= 0");
    if (high >= b.extent || always) {
      condition += str(condition.empty() ? "" : " && ", i, " < ", b.extent);
    }
  }
  std::string element = c_load(u.dtype, u.work, str("x", u.buffer, "[", at, "]"));
  if (condition.empty() || inside_.count(v)) return element;
  std::string outside = c_text(Scalar(u.outside), {}, {}, c_work(u.work)).result;
  if (u.faults) outside = "(*fault = 1, 0)";
  return str(condition, " ? ", element, " : ", outside);
}

// Never above one, and one somewhere in its row: nothing overflows, and what is no normal number is
// as good as zero beside that one in every sum over the row. So a factor of two to some power is
// put together in one step, not two.
std::string RowPrinter::exp_of_distance(const NestValue& u, const std::string& name) {
  std::string x = use(u.args[0]);
  loops_.back().text +=
      str("em_bits ", name, "_n;\nconst float ", name, "_p = em_exp_parts(", x, ", &", name,
          "_n);\n", name, "_n.i = (", name, "_n.i << 23) + 0x3f800000;\n");
  return c_rounded(u.dtype, u.work, str(x, " < -87.f ? 0.f : ", name, "_p * ", name, "_n.f"));
}

// Whole numbers of at most 16 bits, whatever they are computed in.
bool RowPrinter::is_narrow(int v) const {
  DType t = value(v).dtype;
  return is_integer(t) && info(t).bits <= 16;
}

// Whole numbers of at most 32 bits that need no more: sums and products of such wrap as they do in
// 64 bits, and vectors hold twice as many.
bool RowPrinter::is_short(int v) const {
  const NestValue& u = value(v);
  bool whole = u.work == DType::i64 && (is_narrow(v) || u.dtype == DType::i32);
  if (!whole || u.kind == NestValue::Kind::load) return whole;
  if (u.kind != NestValue::Kind::compute) return false;
  return std::ranges::all_of(u.body.code, [](const Instr& i) {
    bool number = i.fn == Fn::constant && std::abs(i.value) < 0x1p31;
    return number || i.fn == Fn::arg || i.fn == Fn::add || i.fn == Fn::sub || i.fn == Fn::mul;
  });
}

// A float that becomes a narrow number without leaving 32 bits on the way: as from 64 bits, what is
// no number gives 0.
bool RowPrinter::fits(int v) const {
  if (!is_narrow(v) || value(v).work != DType::f32) return false;
  auto [low, high] = body_range(nest_, value(v));
  return low > -0x1p31 && high < 0x1p31;
}

// One value as another one's working type.
std::string RowPrinter::converted(int from, int to) {
  const NestValue &a = value(from), &u = value(to);
  std::string x = use(from);
  bool from_float = is_float(a.work), to_float = is_float(u.work);
  if (from_float && !to_float && is_narrow(from)) return str("(int32_t)(", x, ")");
  if (is_short(to) && !from_float) return str("(int32_t)(", x, ")");
  return c_converted(a.work, u.work, x);
}

namespace {

// Arguments that are numbers become constants of the body: an extreme with a constant is one
// comparison, where others are branches that keep loops from being vectorised.
NestValue with_numbers(const Nest& nest, NestValue u) {
  if (u.work != DType::f32) return u;
  for (Instr& i : u.body.code) {
    if (i.fn != Fn::arg) continue;
    const NestValue& a = nest.values[static_cast<size_t>(u.args[static_cast<size_t>(i.a)])];
    bool number = a.kind == NestValue::Kind::compute && a.dtype == DType::f32 &&
                  a.body.code.size() == 1 && a.body.code[0].fn == Fn::constant;
    if (number) i = a.body.code[0];
  }
  return u;
}

}  // namespace

std::string RowPrinter::body(int v, const std::string& name) {
  const NestValue& u = value(v);
  std::vector<std::string> args;
  for (int a : u.args) args.push_back(converted(a, v));
  Scalar whole = with_whole_comparisons(with_numbers(nest_, u), args);
  CText c = c_text(whole, args, {}, is_short(v) ? "int32_t" : c_work(u.work), name + "_");
  for (const std::string& s : c.statements) loops_.back().text += s + "\n";
  if (fits(v)) return str("(float)(", c_storage(u.dtype), ")(int32_t)(", c.result, ")");
  return c_rounded(u.dtype, u.work, c.result);
}

// Comparisons of indices with numbers, which masks are made of, stay among integers: converted to
// floats they made loops several times slower. Each becomes an argument of its own.
Scalar RowPrinter::with_whole_comparisons(NestValue u, std::vector<std::string>& args) {
  Scalar body = u.body;
  if (!is_float(u.work)) return body;
  auto whole_text = [&](int32_t at) -> std::string {
    const Instr& i = u.body.code[static_cast<size_t>(at)];
    if (i.fn == Fn::constant && std::abs(i.value) < 1e15 && i.value == std::floor(i.value)) {
      return str(static_cast<int64_t>(i.value));
    }
    if (i.fn != Fn::arg) return "";
    int v = u.args[static_cast<size_t>(i.a)];
    return value(v).kind == NestValue::Kind::index ? use(v) : "";
  };
  for (Instr& i : body.code) {
    if (i.fn != Fn::lt && i.fn != Fn::le) continue;
    std::string left = whole_text(i.a), right = whole_text(i.b);
    if (left.empty() || right.empty()) continue;
    args.push_back(
        str("(", c_work(u.work), ")(", left, i.fn == Fn::lt ? " < " : " <= ", right, ")"));
    i = {.fn = Fn::arg, .a = static_cast<int32_t>(args.size() - 1)};
  }
  return body;
}

// A reduction as loops of its own, here; the innermost is the one that reads memory in order.
void RowPrinter::reduce(int v, const std::string& name) {
  const NestValue& u = value(v);
  std::string acc = name + "_acc", type = c_work(u.work);
  loops_.back().text += str(type, " ", acc, " = ", c_neutral(u.reduce, u.dtype, u.work), ";\n");
  std::vector<int> over = u.over;
  auto first = std::max_element(over.begin(), over.end(), [&](int a, int b) {
    return unit_strides(u.args[0], a) < unit_strides(u.args[0], b);
  });
  if (first != over.end()) std::rotate(first, first + 1, over.end());
  bool rows = over == std::vector<int>{lane_};
  hoist(u.args[0], over);
  for (int a : over) open_loop({a});
  bool outside = std::exchange(keeps_, rows);
  std::string x = use(u.args[0]);
  keeps_ = outside;
  x = c_converted(value(u.args[0]).work, u.work, x);
  loops_.back().text += str(acc, " = ", c_combined(u.reduce, u.work, acc, x), ";\n");
  for (size_t k = over.size(); k-- > 0;) {
    std::string head = loop_head(over[k]);
    if (k + 1 == over.size()) {
      head = str("#pragma omp simd reduction(", omp_word(u.reduce), " : ", acc, ")\n", head);
      if (rows) declare_kept();
    }
    close_loop(head);
  }
  loops_.back().text +=
      str("const ", type, " ", name, " = ", c_rounded(u.dtype, u.work, acc), ";\n");
}

// How many loads below a value step through memory one by one with an iterator.
int RowPrinter::unit_strides(int v, int iterator) const {
  const NestValue& u = value(v);
  int n = 0;
  if (u.kind == NestValue::Kind::load) n += nest_.math.stride(u.at, iterator) == 1;
  for (int a : u.args) n += unit_strides(a, iterator);
  return n;
}

// Rows filled by the loop that is being closed; the loop outside of it declares them.
void RowPrinter::declare_kept() {
  Loop& outside = loops_[loops_.size() - 2];
  for (int v : newly_kept_) {
    outside.text += str(c_work(value(v).work), " row", v, "[", nest_.math.extent(lane_), "];\n");
    outside.rows[v] = str("row", v, "[", iterator_name(lane_), " - lo]");
  }
  newly_kept_.clear();
}

// Terms beyond the borders that change nothing (zeros of a sum, minus infinity of a maximum) are
// left out: the lanes that are inside, as an interval; empty text if all must be visited.
std::string RowPrinter::clipped(const NestValue& reduction) {
  const NestValue& term = value(reduction.args[0]);
  bool product = reduction.reduce == Reduce::sum && term.kind == NestValue::Kind::compute &&
                 is_product(term.body);
  std::vector<int> loads = product ? term.args : reduction.args;
  double idle = reduction.reduce == Reduce::sum   ? 0
                : reduction.reduce == Reduce::max ? -INFINITY
                                                  : INFINITY;
  if (reduction.reduce == Reduce::product) return "";
  std::vector<Bound> bounds;
  std::set<int> inside;
  for (int v : loads) {
    const NestValue& u = value(v);
    if (u.kind != NestValue::Kind::load || u.bounds.empty()) continue;
    if (u.faults || u.outside != idle) return "";
    for (const Bound& b : u.bounds) {
      if (named_by_data(b)) return "";
    }
    bounds.insert(bounds.end(), u.bounds.begin(), u.bounds.end());
    // What is the same for all lanes is loaded before them, whether or not any is inside.
    if (depends(v, lane_)) inside.insert(v);
  }
  if (bounds.empty()) return "";
  auto text = declare_inside(nest_, bounds, lane_);
  if (!text) return "";
  inside_ = inside;
  return *text;
}

// Reductions that depend on the lanes become rows of accumulators before the lanes run.
void RowPrinter::prepare_rows(bool before_inner) {
  for (int v = 0; v < std::ssize(nest_.values); ++v) {
    bool is_row = value(v).kind == NestValue::Kind::reduce && depends(v, lane_) && stands_alone(v);
    if (!is_row || is_leaf(v) || row_of(v)) continue;
    bool inside = std::ranges::any_of(inner_, [&](int a) { return depends(v, a); });
    if (inside != before_inner) prepare_row(v);
  }
}

// The loads that a value is made of; false if a reduction is below it, or what data names.
bool RowPrinter::loads_below(int v, std::set<int>& loads) const {
  const NestValue& u = value(v);
  if (u.kind == NestValue::Kind::reduce || u.faults) return false;
  if (u.kind == NestValue::Kind::load) loads.insert(v);
  return std::ranges::none_of(u.bounds, [&](const Bound& b) { return named_by_data(b); }) &&
         std::ranges::all_of(u.args, [&](int a) { return loads_below(a, loads); });
}

// The condition, the same for all lanes, under which no term of a small window is beyond a border;
// its loads are then known to be inside. Nothing if that depends on the lanes or windows are large.
std::optional<std::string> RowPrinter::all_terms_inside(const NestValue& reduction) {
  constexpr int64_t kTerms = 25;
  int64_t terms = 1;
  for (int a : reduction.over) terms *= nest_.math.extent(a);
  std::set<int> loads;
  if (terms > kTerms || !loads_below(reduction.args[0], loads)) return std::nullopt;
  std::string condition;
  auto require = [&](const std::string& what) {
    condition += (condition.empty() ? "" : " && ") + what;
  };
  for (int v : loads) {
    for (const Bound& b : value(v).bounds) {
      if (nest_.math.stride(b.at, lane_) != 0) return std::nullopt;
      Linear least = b.at, most = b.at;
      for (int a : reduction.over) {
        auto step = nest_.math.stride(b.at, a);
        if (!step) return std::nullopt;
        int64_t end = *step * (nest_.math.extent(a) - 1);
        least = least + term(a, -*step) + whole(std::min<int64_t>(end, 0));
        most = most + term(a, -*step) + whole(std::max<int64_t>(end, 0));
      }
      if (nest_.math.range(least).first < 0) require(str(index(least), " >= 0"));
      if (nest_.math.range(most).second >= b.extent) require(str(index(most), " < ", b.extent));
    }
  }
  inside_ = std::move(loads);
  return condition;
}

// One loop over the lanes, in which all terms are written out: sums stay in registers. Extremes are
// those of processors, which forget what is no number; so that is asked for besides, of two terms
// at once.
std::string RowPrinter::terms_in_registers(int v, const std::string& at) {
  const NestValue& u = value(v);
  const std::string sum = str("sum", v), none = str("none", v), type = c_work(u.work);
  const bool extreme = is_float(u.work) && (u.reduce == Reduce::max || u.reduce == Reduce::min);
  int64_t terms = 1;
  for (int a : u.over) terms *= nest_.math.extent(a);
  open_loop({});
  open_loop({lane_});
  std::string& text = loops_.back().text;
  text += str(type, " ", sum, " = ", c_neutral(u.reduce, u.dtype, u.work), ";\n");
  if (extreme) text += str("int ", none, " = 0;\n", type, " ", sum, "_;\n");
  for (int64_t t = 0; t < terms; ++t) {
    open_loop(u.over);
    std::string x = c_converted(value(u.args[0]).work, u.work, use(u.args[0]));
    std::string& term = loops_.back().text;
    if (extreme) {
      const char* beats = u.reduce == Reduce::max ? " > " : " < ";
      term += str("const ", type, " term = ", x, ";\n", sum, " = term", beats, sum,
                  " ? term : ", sum, ";\n");
      bool second = t % 2 == 1;
      if (second || t + 1 == terms)
        term += str(none, " |= __builtin_isunordered(term, ", second ? sum + "_" : "term", ");\n");
      else
        term += str(sum, "_ = term;\n");
    } else {
      term += str(sum, " = ", c_combined(u.reduce, u.work, sum, x), ";\n");
    }
    close_loop("{\n" + declare_digits(nest_, u.over, str(t)));
  }
  loops_.back().text += str(at, " = ", extreme ? str(none, " ? NAN : ", sum) : sum, ";\n");
  close_loop("#pragma GCC ivdep\n" + lane_head());
  inside_.clear();
  return close_scope();
}

void RowPrinter::prepare_row(int v) {
  const NestValue& u = value(v);
  std::string acc = str("row", v), type = c_work(u.work);
  std::string at = str(acc, "[", iterator_name(lane_), " - lo]");
  loops_.back().text +=
      str(type, " ", acc, "[", std::min(longest_, nest_.math.extent(lane_)), "];\n");
  auto inside = all_terms_inside(u);
  std::string written_out = inside ? terms_in_registers(v, at) : "";
  std::string one_by_one = inside && inside->empty() ? "" : terms_in_memory(v, at);
  loops_.back().text += written_out.empty()  ? one_by_one
                        : one_by_one.empty() ? written_out
                                             : str("if (", *inside, ") {\n", written_out,
                                                   "} else {\n", one_by_one, "}\n");
  if (u.dtype != u.work) {
    loops_.back().text += str(lane_head(), at, " = ", c_rounded(u.dtype, u.work, at), ";\n}\n");
  }
  loops_.back().rows[v] = at;
}

// The lanes once for every term, sums in memory.
std::string RowPrinter::terms_in_memory(int v, const std::string& at) {
  const NestValue& u = value(v);
  open_loop({});
  loops_.back().text += str(lane_head(), at, " = ", c_neutral(u.reduce, u.dtype, u.work), ";\n}\n");
  for (int a : u.over) open_loop({a});
  std::string range = clipped(u);
  open_loop({lane_});
  std::string x = c_converted(value(u.args[0]).work, u.work, use(u.args[0]));
  loops_.back().text += str(at, " = ", c_combined(u.reduce, u.work, at, x), ";\n");
  std::string lane = iterator_name(lane_);
  std::string head = range.empty() ? lane_head()
                                   : str(range, "for (int64_t ", lane, " = in0; ", lane,
                                         " < in1; ++", lane, ") {\n");
  size_t pragma = head.rfind("for (");
  close_loop(head.insert(pragma, "#pragma GCC ivdep\n"));
  inside_.clear();
  for (size_t k = u.over.size(); k-- > 0;) close_loop(loop_head(u.over[k]));
  return close_scope();
}

// Only the lanes and the tasks are free in it: it is not inside another reduction.
bool RowPrinter::stands_alone(int v) const {
  for (size_t a = 0; a < nest_.math.size(); ++a) {
    if (!depends(v, static_cast<int>(a))) continue;
    if (std::find(nest_.space.begin(), nest_.space.end(), static_cast<int>(a)) == nest_.space.end())
      return false;
  }
  return true;
}

void RowPrinter::store(const NestStore& s) {
  std::string x = use(s.value);
  DType stored = group_.type(group_.outputs[static_cast<size_t>(s.buffer)].node).dtype;
  const NestValue& u = value(s.value);
  // What was rounded to a narrow type is within 32 bits.
  bool narrow = is_float(u.work) && is_narrow(s.value) && u.dtype == stored;
  std::string element =
      narrow ? str("(", c_storage(stored), ")(int32_t)(", x, ")") : c_store(stored, u.work, x);
  loops_.back().text += str("y", s.buffer, "[", index(s.at), "] = ", element, ";\n");
}

}  // namespace emend
