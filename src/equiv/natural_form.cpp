#include "equiv/natural_form.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "equiv/carried.h"

namespace emend {
namespace {

class Writer {
 public:
  void add(int64_t v) {
    a_ = hash_mix(a_, static_cast<uint64_t>(v));
    b_ = hash_mix(b_ ^ 0x5851F42D4C957F2D, static_cast<uint64_t>(v) * 0x14057B7EF767814F);
  }
  void add(double v) {
    int64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    add(bits);
  }
  void add(const Linear& e) {
    add(e.constant);
    add(static_cast<int64_t>(e.terms.size()));
    for (auto [k, coef] : e.terms) {
      add(int64_t{k});
      add(coef);
    }
  }
  void add(const IndexExpr& e) {
    add(e.affine);
    add(static_cast<int64_t>(e.digits.size()));
    for (const Digit& d : e.digits) {
      add(d.coef);
      add(d.of);
      add(d.div);
      add(d.mod);
    }
    add(int64_t{e.read});
    add(e.wrap);
  }
  void add(const Scalar& s) {
    add(static_cast<int64_t>(s.code.size()));
    for (const Instr& i : s.code) {
      for (int64_t v : {static_cast<int64_t>(i.fn), int64_t{i.a}, int64_t{i.b}, int64_t{i.c}})
        add(v);
      add(i.value);
    }
  }
  NaturalForm::Key key() const { return {a_, b_}; }

 private:
  uint64_t a_ = 1, b_ = 2;
};

class FormWriter {
 public:
  // `number`: which free extent a symbol is, by what stands for it.
  FormWriter(const ExtentSymbols& symbols, const std::vector<int>& number)
      : symbols_(symbols), number_(number) {}

  void add(const BareProgram& program, const Carrier& carrier, const InputSymbols& inputs) {
    const Graph& g = *program.graph;
    out.add(static_cast<int64_t>(g.size()));
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId id(i);
      const Node& node = g.nodes[id];
      const Dims& shape = g.type(id).shape;
      out.add(static_cast<int64_t>(g.type(id).dtype));
      out.add(static_cast<int64_t>(shape.size()));
      if (node.op == kInputOp) {
        auto which = static_cast<size_t>(node.attrs.get<int64_t>("index"));
        out.add(static_cast<int64_t>(which));
        for (size_t d = 0; d < shape.size(); ++d) extent(shape[d], inputs[which][d]);
      } else if (g.is_constant(id)) {
        out.add(static_cast<int64_t>(hash(g.constant(id))));
      } else {
        out.add(static_cast<int64_t>(node.args.size()));
        for (NodeId a : node.args) out.add(static_cast<int64_t>(a.value));
        nest(program.nodes[i], carrier.marks(id));
      }
    }
    out.add(static_cast<int64_t>(g.outputs[0].node.value));
  }

  Writer out;

 private:
  void extent(int64_t n, int symbol) {
    int free = symbol < 0 ? -1 : number_[static_cast<size_t>(symbols_.find(symbol))];
    out.add(int64_t{free});
    if (free < 0) out.add(n);
  }
  void nest(const BareMeaning& n, const std::vector<int>& marks) {
    out.add(static_cast<int64_t>(n.extents.size()));
    out.add(static_cast<int64_t>(n.outputs));
    for (size_t k = 0; k < n.extents.size(); ++k) extent(n.extents[k], marks[k]);
    for (const auto& d : n.dims) out.add(static_cast<int64_t>(d.size()));
    out.add(static_cast<int64_t>(n.means.reduce));
    out.add(static_cast<int64_t>(n.means.reads.size()));
    for (const Read& r : n.means.reads) {
      out.add(int64_t{r.operand});
      out.add(int64_t{r.outside.has_value()});
      out.add(r.outside.value_or(0));
      out.add(static_cast<int64_t>(r.index.size()));
      for (const IndexExpr& e : r.index) out.add(e);
    }
    out.add(n.means.body);
    out.add(n.means.finish);
  }
  const ExtentSymbols& symbols_;
  const std::vector<int>& number_;
};

// Both must end alike: slices at one place, or sums of slices.
void refuse_differences(ExtentSymbols& symbols, const Carried& a, const Carried& b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    bool both = a.dims[d] >= 0 && b.dims[d] >= 0;
    if (both && symbols.find(a.dims[d]) == symbols.find(b.dims[d])) continue;
    for (int s : {a.dims[d], b.dims[d]})
      if (s >= 0) symbols.refuse(s);
  }
  auto missing_in = [&](const Carried& other, int s) {
    return std::none_of(other.summed.begin(), other.summed.end(),
                        [&](int t) { return symbols.find(t) == symbols.find(s); });
  };
  for (int s : a.summed)
    if (missing_in(b, s)) symbols.refuse(s);
  for (int s : b.summed)
    if (missing_in(a, s)) symbols.refuse(s);
}

Result<NaturalForm> form_of(const Graph& a, const Graph& b) {
  ExtentSymbols symbols;
  InputSymbols inputs;
  for (const GraphInput& i : a.inputs) {
    auto& mine = inputs.emplace_back();
    for (int64_t n : a.type(i.node).shape) mine.push_back(n > 1 ? symbols.add(n, true) : -1);
  }
  auto one = bare_program(a, symbols), other = bare_program(b, symbols);
  if (!one || !other) return Failure{(one ? other : one).error()};
  while (true) {
    Carrier first(symbols, *one, inputs), second(symbols, *other, inputs);
    refuse_differences(symbols, first.output(), second.output());
    if (symbols.settle()) continue;
    NaturalForm form;
    std::vector<int> number(symbols.size(), -1);
    for (const auto& mine : inputs) {
      auto& of_input = form.free.emplace_back();
      for (int s : mine) {
        of_input.push_back(-1);
        if (s < 0 || symbols.bad(s)) continue;
        int& n = number[static_cast<size_t>(symbols.find(s))];
        if (n < 0) {
          n = static_cast<int>(form.extents.size());
          form.extents.push_back(symbols.extent(s));
        }
        of_input.back() = n;
      }
    }
    for (int s : first.output().dims)
      form.free_out.push_back(s < 0 ? -1 : number[static_cast<size_t>(symbols.find(s))]);
    FormWriter writer(symbols, number);
    writer.add(*one, first, inputs);
    writer.add(*other, second, inputs);
    form.any = writer.out.key();
    for (int64_t n : form.extents) writer.out.add(n);
    form.exact = writer.out.key();
    return form;
  }
}

}  // namespace

Result<NaturalForm> natural_form(const Graph& a, const Graph& b) {
  EMEND_ASSERT(a.outputs.size() == 1 && b.outputs.size() == 1);
  if (a.inputs.size() != b.inputs.size()) return fail("other inputs");
  for (size_t i = 0; i < a.inputs.size(); ++i)
    if (a.type(a.inputs[i].node) != b.type(b.inputs[i].node)) return fail("other inputs");
  if (a.type(a.outputs[0].node) != b.type(b.outputs[0].node)) return fail("another output");
  return form_of(a, b);
}

}  // namespace emend
