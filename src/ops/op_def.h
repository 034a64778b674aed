// The record of an operator: the single place that says what it is. Mandatory are name, arity,
// kind, infer, and one of body, means, expand or eval; type inference, evaluation, text, ONNX in
// and out, documentation and tests follow from the record.
//
// Four ways to give the meaning, from best to last resort:
//   body    elementwise: a Scalar; operands broadcast against each other (numpy's rule)
//   means   index notation (meaning.h)
//   expand  a composite: a graph of other operators; the node itself is kept
//   eval    a function of values, for what has no such form (sorting, strings, host control flow)
#pragma once

#include <climits>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/graph.h"
#include "ops/meaning.h"
#include "ops/onnx_row.h"

namespace emend {

class GraphBuilder;
struct EvalContext;  // evaluate.h
Attrs eval_attrs(const EvalContext& c);
using Types = std::span<const Type>;
using Args = std::span<const NodeId>;

enum class Kind : uint8_t {
  structure,    // input, constant, get
  elementwise,  // one scalar body, broadcasting
  movement,     // elements change place: reshape, transpose, slice, pad, concat ...
  contraction,  // sums of products
  reduction,    // along axes or windows
  index,        // places depend on data: gather, scatter, sort
  composite,    // a graph of others
  scan,         // a loop over a body graph with static trip count
  random,       // counter-based random numbers
  host,         // evaluated on the host between compiled parts: data-dependent shapes, sequences
  opaque,       // an ONNX node that was not (or cannot be) lowered
};
std::string_view to_text(Kind k);

// How an elementwise operator's result type follows from its operands'.
enum class ResultType : uint8_t {
  same,       // all operands have one dtype, the result too
  boolean,    // comparisons and predicates: one dtype in, bool out
  first,      // the dtype of the first operand (pow, shifts)
  condition,  // the first operand is bool, the others agree: the result is theirs
  attribute,  // the dtype that the attribute `to` names (cast)
};

enum Trait : uint32_t {
  commutative = 1,  // operands may be swapped (binary) or permuted (variadic)
  associative = 2,
  idempotent = 4,    // f(f(x)) = f(x) for unary, f(x, x) = x for binary
  zero_to_zero = 8,  // f(0) = 0: a zero halo survives
  multilinear = 16,  // linear in each operand: its derivative follows from the meaning
  raw_moves = 32,    // a hand-written eval that only moves elements: right in every arithmetic
};

struct AttrSpec {
  std::string name;
  AttrValue fallback;  // the value where none is given; its type is the attribute's type
  bool required = false;
};

struct OpDef {
  std::string name;
  int min_args = 1, max_args = 1;  // max_args < 0: any number
  Kind kind = Kind::elementwise;
  std::vector<AttrSpec> attrs;
  uint32_t traits = 0;
  std::function<Result<Type>(Attrs, Types)> infer;

  Scalar body;  // empty if not elementwise
  ResultType result = ResultType::same;
  std::function<Meaning(Attrs, Types)> means;
  // Builds the graph that it stands for; the result (a tuple for several) is the node returned.
  std::function<NodeId(GraphBuilder&, Attrs, Args)> expand;
  std::function<Value(const EvalContext&, std::span<const Value>)> eval;

  std::vector<OnnxRow> onnx;
  std::string doc;  // one line, for docs/operators.md; elementwise ones print their body

  bool has(Trait t) const { return (traits & t) != 0; }
};

// Attribute specifications from a plain struct's fields and default values.
template <class Struct>
std::vector<AttrSpec> attr_specs() {
  std::vector<AttrSpec> specs;
  Struct defaults{};
  for_each_field(defaults, [&](std::string_view name, auto& member) {
    specs.push_back({std::string(name), AttrValue(member)});
  });
  return specs;
}

// A record whose functions take the attributes as a plain struct:
//   define<Softmax>({.name = "softmax", ...}, infer, expand)
template <class Struct>
struct Typed {
  std::string name;
  int min_args = 1, max_args = 1;
  Kind kind = Kind::composite;
  uint32_t traits = 0;
  std::function<Result<Type>(const Struct&, Types)> infer;
  std::function<Meaning(const Struct&, Types)> means;
  std::function<NodeId(GraphBuilder&, const Struct&, Args)> expand;
  std::function<Value(const EvalContext&, const Struct&, std::span<const Value>)> eval;
  std::vector<OnnxRow> onnx;
  std::string doc;
};

template <class Struct>
OpDef define(Typed<Struct> t) {
  OpDef d;
  d.name = std::move(t.name);
  d.min_args = t.min_args;
  d.max_args = t.max_args;
  d.kind = t.kind;
  d.attrs = attr_specs<Struct>();
  d.traits = t.traits;
  if (t.infer) d.infer = [f = t.infer](Attrs a, Types in) { return f(a.as<Struct>(), in); };
  if (t.means) d.means = [f = t.means](Attrs a, Types in) { return f(a.as<Struct>(), in); };
  if (t.expand) {
    d.expand = [f = t.expand](GraphBuilder& b, Attrs a, Args args) {
      return f(b, a.as<Struct>(), args);
    };
  }
  if (t.eval) {
    d.eval = [f = t.eval](const EvalContext& c, std::span<const Value> v) {
      return f(c, eval_attrs(c).as<Struct>(), v);
    };
  }
  d.onnx = std::move(t.onnx);
  d.doc = std::move(t.doc);
  return d;
}

struct NoAttrs {
  auto field_members() const { return std::tie(); }
  auto field_members() { return std::tie(); }
  static constexpr std::string_view kFieldNames = "";
};

}  // namespace emend
