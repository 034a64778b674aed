// How an operator appears in ONNX. A row is part of the operator's record; `lower` turns ONNX nodes
// into operators by it, `raise` turns them back (onnx_lower.h, onnx_raise.h). A plain operator
// needs only the name: attributes are matched by name, renamed ones are listed, and attributes that
// newer opsets feed by an input ("shape operands") say since when.
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

namespace emend {

class GraphBuilder;

// An ONNX node as plain data. In a graph it is a node of the operator `onnx` whose attributes are
// these fields; `present` says which inputs are given (ONNX allows gaps).
struct OnnxNode {
  std::string type, domain;
  int64_t version = 0;  // of the domain's operator set
  Attrs attributes;     // as in the file; subgraphs as GraphRef over `onnx` nodes
  int64_t outputs = 1;
  Dims present;   // per input 0 or 1
  Dims captures;  // per subgraph attribute (sorted by name): how many captured values follow
  Type result = Type::any();  // what the file says of the result, if it says it
  EMEND_FIELDS(type, domain, version, attributes, outputs, present, captures, result)
};

// The operands of a node, invalid where the file leaves one out. Files may leave out anything, so
// asking for an operand that is not there is the file's error.
class OnnxInputs {
 public:
  NodeId operator[](size_t i) const {
    if (!given(i)) throw Error(str("input ", i, " is missing"));
    return ids_[i];
  }
  NodeId at(size_t i) const { return (*this)[i]; }
  // The first n, all of which must be there.
  std::vector<NodeId> first(size_t n) const {
    std::vector<NodeId> some;
    for (size_t i = 0; i < n; ++i) some.push_back((*this)[i]);
    return some;
  }
  bool given(size_t i) const { return i < ids_.size() && ids_[i].valid(); }
  size_t size() const { return ids_.size(); }
  const NodeId* data() const { return ids_.data(); }
  const NodeId* begin() const { return ids_.data(); }
  const NodeId* end() const { return ids_.data() + ids_.size(); }
  void push_back(NodeId n) { ids_.push_back(n); }
  const std::vector<NodeId>& ids() const { return ids_; }
  operator const std::vector<NodeId>&() const { return ids_; }

 private:
  std::vector<NodeId> ids_;
};

// One ONNX node being lowered: its operands in the graph under construction, and their values where
// they are known. Asking for a value of an input that feeds from a graph input pins that input.
class OnnxCall {
 public:
  GraphBuilder& b;
  const OnnxNode& node;
  OnnxInputs inputs;
  std::vector<NodeId> captured;  // values that subgraphs refer to, in the order of `captures`
  std::function<std::optional<Tensor>(NodeId)> value_of;
  // Lowers the nodes of a subgraph in place (the branch of an If that is taken); args stand for its
  // inputs. What cannot be lowered is deferred node by node.
  std::function<std::vector<NodeId>(const Graph&, std::span<const NodeId>)> inline_graph;

  int64_t version() const { return node.version; }
  bool has(size_t i) const { return inputs.given(i); }
  const Type& type(size_t i) const;
  // The value of a shape operand; nullopt when it is not known before run time.
  std::optional<Tensor> value(size_t i) const;
  // The value of a shape operand as integers; a failure that defers the node when it is unknown.
  Result<Dims> ints(size_t i) const;

  bool has_attr(std::string_view name) const { return node.attributes.find(name) != nullptr; }
  int64_t int_attr(std::string_view name, int64_t otherwise) const {
    return node.attributes.get_or<int64_t>(name, otherwise);
  }
  // Defaults are floats, as given ones are.
  double real_attr(std::string_view name, double otherwise) const {
    return node.attributes.get_or<double>(name, static_cast<float>(otherwise));
  }
  std::string text_attr(std::string_view name, std::string otherwise) const {
    return node.attributes.get_or<std::string>(name, std::move(otherwise));
  }
  Dims ints_attr(std::string_view name, Dims otherwise = {}) const {
    return node.attributes.get_or<Dims>(name, std::move(otherwise));
  }
};

// One operator of ours being written as ONNX nodes. `emit` adds a node and returns its results.
class OnnxWriter {
 public:
  GraphBuilder& b;           // of the graph of `onnx` nodes being built
  const Graph& graph;        // the program being written
  NodeId id;                 // the node being written
  Attrs attrs;               // of that node
  std::vector<NodeId> args;  // its operands, already written
  std::vector<Type> types;   // the operands' types
  Type type;                 // the result's type
  int64_t opset;             // of the default domain

  // Inputs may be invalid ids for absent ones. Several outputs come back as several ids.
  std::vector<NodeId> emit(const std::string& type, std::vector<NodeId> inputs,
                           std::vector<Attrs::Entry> attributes = {}, int outputs = 1,
                           const std::string& domain = "");
  NodeId ints(const Dims& values);  // an i64 constant
  NodeId number(double v);          // of the first operand's type
};

// Attributes as ONNX has them, without those that say nothing: empty lists, texts and tensors.
std::vector<Attrs::Entry> given_attributes(Attrs attrs);

// An attribute that is an input of the ONNX node from version `since` on (until `before`).
struct ShapeOperand {
  std::string attr;
  int input;
  int since = 1, before = INT_MAX;
};

struct OnnxRow {
  std::string type;
  std::string domain = "";
  int since = 1, before = INT_MAX;  // versions of the domain that the row covers
  std::vector<std::pair<std::string, std::string>> rename = {};  // our attribute, ONNX attribute
  std::vector<ShapeOperand> operands = {};
  // Where the default is not enough. Lowering gives one id per ONNX output (a failure defers the
  // node); raising gives the ids that stand for the result (several for a tuple), or
  // none where this opset cannot say it: then the operator's expansion is written.
  std::function<Result<std::vector<NodeId>>(OnnxCall&)> lower = nullptr;
  std::function<std::vector<NodeId>(OnnxWriter&)> raise = nullptr;
  // Before version `since`: as exporters spell the operator out, in words that other runtimes know
  // it by; none where it is not what they spell out.
  std::function<std::vector<NodeId>(OnnxWriter&)> spell = nullptr;
  // The last resort on the host, where lowering fails even with all values at hand (a Loop whose
  // states change their types): operands are the present inputs, then captured values; the number
  // is the repetition (evaluate.h).
  std::function<std::vector<Value>(const OnnxNode&, std::span<const Value>, uint64_t)> run =
      nullptr;
  bool lower_only = false;  // another spelling: read, never written
};

}  // namespace emend
