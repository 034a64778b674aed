// Models that are bad on purpose, in the ways that blind damage (mutate_bytes.h) seldom finds: cut
// off, with references that lead out of the folder or past the end of a file, cyclic, doubled, and
// with absurd numbers where sizes belong. Each starts from a well-formed model of the corpus.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/mutate_bytes.h"
#include "onnx/read.h"
#include "onnx/write.h"
#include "support/onnx_models.h"
#include "support/onnx_samples.h"

namespace emend::fuzz {

using Corpus = std::vector<std::string>;

inline onnx::Model any_model(ByteMutator& r, const Corpus& corpus) {
  return onnx::read_model(SharedBytes::adopt(std::string(corpus[r.below(corpus.size())])),
                          "corpus");
}

template <class T>
T& any_of(ByteMutator& r, std::vector<T>& items) {
  return items[r.below(items.size())];
}

inline std::string any_of(ByteMutator& r, std::initializer_list<const char*> texts) {
  return texts.begin()[r.below(texts.size())];
}

// --- cut off ---

inline std::string truncated(ByteMutator& r, const Corpus& corpus) {
  std::string text = corpus[r.below(corpus.size())];
  // Near the end everything but one message is whole.
  const size_t last = r.below(2) ? std::min<size_t>(text.size(), 40) : text.size();
  text.resize(text.size() - 1 - r.below(std::max<size_t>(last, 1)) % text.size());
  return text;
}

// --- references to other files ---

inline std::string any_location(ByteMutator& r) {
  switch (r.below(3)) {
    case 0:
      return "w.bin";
    case 1:
      return any_of(r, {"../w.bin", "/etc/passwd", "sub/../w.bin", "sub/../../../etc/passwd", "out",
                        "loop", "pipe", "sub", "", ".", "..", "./w.bin", "sub//../w.bin", "/",
                        "missing.bin", "empty.bin", "model.onnx", "~/w.bin", "file:///etc/passwd"});
    default:
      return std::string(r.below(6000), 'a') + any_of(r, {"", "/w.bin", "\n", "/../w.bin"});
  }
}

inline std::string any_byte_count(ByteMutator& r) {
  switch (r.below(4)) {
    case 0:
      return std::to_string(r.below(8300));
    case 1:
      return std::to_string(r.telling_number());
    case 2:
      return any_of(r, {"8192", "8191", "8193", "9223372036854775807", "18446744073709551615",
                        "18446744073709551600", "18446744073709551616"});
    default:
      return any_of(r, {"", "-1", "+4", " 4", "4 ", "0x10", "1e3", "four", "0004"});
  }
}

inline void make_external(ByteMutator& r, onnx::Tensor& t) {
  t.data_location = onnx::DataLocation::kExternal;
  if (r.below(4) != 0) t.raw_data.reset();  // some have both
  t.external_data = {{"location", any_location(r)}};
  if (r.below(4) != 0) t.external_data.push_back({"offset", any_byte_count(r)});
  if (r.below(4) != 0) t.external_data.push_back({"length", any_byte_count(r)});
  if (r.below(8) == 0) t.external_data.push_back(any_of(r, t.external_data));
}

// One tensor with a bad reference, or many whose ranges overlap.
inline std::string external_tricks(ByteMutator& r, const Corpus& corpus) {
  onnx::Model m = any_model(r, corpus);
  std::vector<onnx::Tensor>& tensors = m.graph.initializer;
  if (tensors.empty() || r.below(4) == 0) {
    const bool feeds = !m.graph.input.empty() && r.below(2);  // else nobody reads it
    tensors.push_back(
        onnx::float_tensor(feeds ? any_of(r, m.graph.input).name : "unread", r.below(3000), 1));
  }
  if (r.below(3) != 0) {
    make_external(r, any_of(r, tensors));
  } else {
    const onnx::Tensor first = any_of(r, tensors);
    for (uint64_t k = r.below(r.below(8) == 0 ? 500 : 8); k > 0; --k) {
      onnx::Tensor t = first;
      t.name += "/" + std::to_string(k);
      t.data_type = onnx::DataType::kUint8;
      const uint64_t offset = r.below(8192), length = r.below(8193 - offset);
      t.dims = {static_cast<int64_t>(length)};
      t.raw_data.reset();
      t.data_location = onnx::DataLocation::kExternal;
      t.external_data = {{"location", "w.bin"},
                         {"offset", std::to_string(offset)},
                         {"length", std::to_string(length)}};
      tensors.push_back(std::move(t));
    }
  }
  return onnx::serialize(m);
}

// --- cycles ---

inline onnx::Function calling(const std::string& name, const std::vector<std::string>& callees) {
  onnx::Function f;
  f.name = name;
  f.domain = "cycle";
  f.input = {"x0"};
  f.opset_import = {{"", 17}, {"cycle", 1}};
  for (const std::string& callee : callees) {
    const size_t k = f.node.size();
    f.node.push_back(onnx_node(callee, {"x" + std::to_string(k)}, {"x" + std::to_string(k + 1)}));
    f.node.back().domain = callee == "Neg" ? "" : "cycle";
  }
  f.output = {"x" + std::to_string(f.node.size())};
  return f;
}

inline void call(onnx::Model& m, const std::string& function) {
  onnx::Node node = onnx_node(function, {"called_with"}, {"called"});
  node.domain = "cycle";
  m.opset_import.push_back({"cycle", 1});
  m.graph.input.push_back(value_info("called_with", {2}));
  m.graph.output.push_back(value_info("called", {2}));
  m.graph.node.push_back(node);
}

inline onnx::Node conditional(const std::string& output, const onnx::Graph& then_branch,
                              const onnx::Graph& else_branch) {
  return onnx_node(
      "If", {"condition"}, {output},
      {graph_attribute("then_branch", then_branch), graph_attribute("else_branch", else_branch)});
}

inline void add_condition(onnx::Model& m) {
  onnx::ValueInfo condition = value_info("condition", {});
  std::get<onnx::TensorType>(condition.type->value).elem_type = onnx::DataType::kBool;
  m.graph.input.push_back(condition);
}

inline std::string cyclic(ByteMutator& r, const Corpus& corpus) {
  onnx::Model m = any_model(r, corpus);
  std::vector<onnx::Node>& nodes = m.graph.node;
  if (nodes.empty()) nodes.push_back(onnx_node("Neg", {"a"}, {"a"}));
  switch (r.below(4)) {
    case 0: {  // a node feeds itself or one before it
      const size_t from = r.below(nodes.size()), to = r.below(from + 1);
      if (nodes[to].input.empty()) nodes[to].input.push_back("");
      if (nodes[from].output.empty()) nodes[from].output.push_back("result");
      any_of(r, nodes[to].input) = any_of(r, nodes[from].output);
      break;
    }
    case 1: {  // a ring
      const size_t n = 1 + r.below(r.below(8) == 0 ? 2000 : 5);
      for (size_t k = 0; k < n; ++k)
        nodes.push_back(
            onnx_node("Neg", {"ring" + std::to_string(k)}, {"ring" + std::to_string((k + 1) % n)}));
      break;
    }
    case 2: {  // functions that call one another
      const size_t n = 1 + r.below(r.below(8) == 0 ? 100 : 4);
      for (size_t k = 0; k < n; ++k)
        m.functions.push_back(
            calling("f" + std::to_string(k), {"f" + std::to_string((k + 1) % n)}));
      call(m, "f0");
      break;
    }
    default: {  // a branch that needs the result it is part of
      onnx::Graph branch;
      branch.node = {onnx_node("Neg", {r.below(2) ? "outcome" : "inner"}, {"inner"})};
      branch.output = {value_info("inner", {2})};
      add_condition(m);
      nodes.push_back(conditional("outcome", branch, branch));
      m.graph.output.push_back(value_info("outcome", {2}));
    }
  }
  return onnx::serialize(m);
}

// --- things that are there twice, or that unfold to many ---

template <class T>
bool repeat_one(ByteMutator& r, std::vector<T>& items) {
  if (items.empty()) return false;
  const T copy = any_of(r, items);
  items.insert(items.end(), 1 + r.below(r.below(16) == 0 ? 1000 : 2), copy);
  return true;
}

// Each function calls the one before it twice or more often: 2^k nodes in a few hundred bytes. Few
// of them are large, since it takes long to find out.
inline void add_doubling_functions(ByteMutator& r, onnx::Model& m) {
  const size_t levels = 1 + r.below(r.below(16) == 0 ? 60 : 6), times = 1 + r.below(4);
  std::string callee = "Neg";
  for (size_t k = 0; k < levels; ++k) {
    const std::string name = "f" + std::to_string(k);
    m.functions.push_back(calling(name, std::vector<std::string>(times, callee)));
    callee = name;
  }
  call(m, callee);
}

inline void nest_graph(ByteMutator& r, onnx::Model& m) {
  add_condition(m);
  onnx::Graph graph = m.graph;
  graph.input.clear();
  for (uint64_t depth = 1 + r.below(r.below(8) == 0 ? 120 : 4); depth > 0; --depth) {
    onnx::Graph around;
    around.name = "around";
    around.node = {conditional("outcome", graph, r.below(4) == 0 && depth < 4 ? graph : around)};
    around.output = {value_info("outcome", {2})};
    graph = around;
  }
  m.graph.node.push_back(graph.node[0]);
}

// Loops of known length inside one another: each may be unrolled.
inline void nest_loops(ByteMutator& r, onnx::Model& m) {
  onnx::Graph body;
  // Some states change their shape, which loops as such cannot have.
  body.node = {r.below(2) ? onnx_node("Neg", {"state"}, {"next"})
                          : onnx_node("Concat", {"state", "state"}, {"next"},
                                      {onnx::int_attribute("axis", 0)})};
  const auto scalar = [](const std::string& name, onnx::DataType type) {
    onnx::ValueInfo v = value_info(name, {});
    std::get<onnx::TensorType>(v.type->value).elem_type = type;
    return v;
  };
  onnx::Tensor trips = int_tensor("trips", {1});
  trips.dims = {};
  for (uint64_t depth = 1 + r.below(6); depth > 0; --depth) {
    body.input = {scalar("i", onnx::DataType::kInt64), scalar("go", onnx::DataType::kBool),
                  value_info("state", {2})};
    body.output = {scalar("go", onnx::DataType::kBool), value_info("next", {2})};
    trips.int64_data = {static_cast<int64_t>(r.below(2) ? r.below(2000) : r.telling_number())};
    onnx::Graph around;
    around.initializer = {trips};
    around.node = {
        onnx_node("Loop", {"trips", "", "state"}, {"next"}, {graph_attribute("body", body)})};
    body = around;
  }
  m.graph.initializer.push_back(trips);
  m.graph.input.push_back(value_info("state", {2}));
  m.graph.output.push_back(value_info("next", {2}));
  m.graph.node.push_back(body.node[0]);
}

inline std::string duplicated(ByteMutator& r, const Corpus& corpus) {
  onnx::Model m = any_model(r, corpus);
  onnx::Graph& g = m.graph;
  switch (r.below(10)) {
    case 0:
      repeat_one(r, g.initializer) || repeat_one(r, g.node);
      break;
    case 1:
      repeat_one(r, g.input);
      break;
    case 2:
      repeat_one(r, g.output);
      break;
    case 3:
      repeat_one(r, g.value_info) || repeat_one(r, m.opset_import);
      break;
    case 4:
      if (!g.node.empty()) repeat_one(r, any_of(r, g.node).attribute);
      break;
    case 5:
      if (!g.node.empty()) repeat_one(r, any_of(r, g.node).input);
      break;
    case 6:  // a value of two producers, one of which may be the graph's input
      if (!g.node.empty() && !g.input.empty() && !any_of(r, g.node).output.empty())
        any_of(r, g.input).name = g.node[0].output.empty() ? "y" : g.node[0].output[0];
      break;
    case 7:
      add_doubling_functions(r, m);
      if (r.below(4) == 0) repeat_one(r, m.functions);
      break;
    case 8:
      nest_graph(r, m);
      break;
    default:
      nest_loops(r, m);
  }
  if (r.below(4) == 0) repeat_one(r, g.node);
  return onnx::serialize(m);
}

// --- absurd sizes ---

inline int64_t absurd_size(ByteMutator& r) {
  constexpr int64_t kSizes[] = {0,
                                -1,
                                -2,
                                65536,
                                3037000500,
                                int64_t{1} << 31,
                                int64_t{1} << 32,
                                int64_t{1} << 62,
                                std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min()};
  if (r.below(2)) return static_cast<int64_t>(r.telling_number());
  return kSizes[r.below(std::size(kSizes))];
}

// Every number that is a size or may be one: dimensions, integers of attributes, and of tensors
// with few elements, which are shapes, axes, bounds.
class Sizes {
 public:
  explicit Sizes(std::function<void(int64_t&)> change) : change_(std::move(change)) {}

  void visit(onnx::Graph& g) {
    for (auto* list : {&g.input, &g.output, &g.value_info}) {
      for (onnx::ValueInfo& v : *list) visit(v);
    }
    for (onnx::Tensor& t : g.initializer) visit(t);
    for (onnx::SparseTensor& t : g.sparse_initializer) visit(t.dims);
    for (onnx::Node& n : g.node) visit(n);
  }

 private:
  void visit(std::vector<int64_t>& numbers) {
    for (int64_t& n : numbers) change_(n);
  }
  void visit(onnx::ValueInfo& v) {
    auto* tensor = v.type ? std::get_if<onnx::TensorType>(&v.type->value) : nullptr;
    if (!tensor || !tensor->shape) return;
    for (onnx::Dimension& d : tensor->shape->dim) {
      const auto* known = std::get_if<int64_t>(&d.value);
      const int64_t before = known ? *known : 1;
      int64_t size = before;
      change_(size);
      if (size != before) d.value = size;
    }
  }
  void visit(onnx::Tensor& t) {
    visit(t.dims);
    if (t.data_type != onnx::DataType::kInt64) return;
    visit(t.int64_data);
    if (!t.raw_data || t.raw_data->size() % 8 != 0 || t.raw_data->size() > 256) return;
    std::vector<int64_t> numbers(t.raw_data->size() / 8);
    if (numbers.empty()) return;
    std::memcpy(numbers.data(), t.raw_data->data(), t.raw_data->size());
    visit(numbers);
    t.raw_data = SharedBytes::adopt(std::move(numbers));
  }
  void visit(onnx::Node& n) {
    for (onnx::Attribute& a : n.attribute) {
      visit(a.ints);
      if (a.i) change_(*a.i);
      if (a.t) visit(*a.t);
      if (a.g) visit(*a.g);
    }
  }

  std::function<void(int64_t&)> change_;
};

inline std::string absurd_shapes(ByteMutator& r, const Corpus& corpus) {
  onnx::Model m = any_model(r, corpus);
  uint64_t places = 0;
  Sizes([&](int64_t&) { ++places; }).visit(m.graph);
  if (places > 0) {
    // One to a few sizes, one next to another, so that products overflow.
    const uint64_t first = r.below(places), last = first + (r.below(2) ? r.below(4) : 0);
    uint64_t at = 0;
    Sizes([&](int64_t& n) {
      if (at >= first && at <= last) n = absurd_size(r);
      ++at;
    }).visit(m.graph);
  }
  if (r.below(8) == 0 && !m.graph.input.empty()) {  // absurd ranks
    std::vector<std::variant<int64_t, std::string>> dims(r.below(400));
    for (auto& d : dims) d = static_cast<int64_t>(r.below(20) == 0 ? r.below(3) : 1);
    onnx::ValueInfo& v = any_of(r, m.graph.input);
    v = value_info(v.name, dims);
  }
  return onnx::serialize(m);
}

}  // namespace emend::fuzz
