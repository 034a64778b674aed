// A graph of `onnx` nodes as a graph of the file format: every value gets a name.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph.h"
#include "onnx/schema.h"
#include "ops/onnx_row.h"

namespace emend {

// Writes one model: names are unique in all its graphs, so that subgraphs shadow nothing. A value
// is called by its output, else as the model it came from called it, else after its operator.
class GraphWriter {
 public:
  // Nodes, initializers, and names of inputs and outputs. Types only of what unknown operators
  // give.
  onnx::Graph main_graph(const Graph& g);
  // The domains that nodes were written in, each with the lowest version that has them all.
  const std::map<std::string, int64_t>& domains() const { return domains_; }

 private:
  // One result of one node.
  struct Place {
    NodeId node;
    int64_t result = 0;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& p) const {
      return hash_mix(p.node.value, static_cast<uint64_t>(p.result));
    }
  };
  // The graph being written.
  struct Page {
    const Graph& g;
    onnx::Graph& out;
    std::unordered_map<Place, std::string, PlaceHash> names = {};
  };

  static Place place_of(const Graph& g, NodeId n);
  void write(Page& page, std::vector<std::string> output_names);
  void write_node(Page& page, NodeId id, bool keeps_name);
  static void describe_results(Page& page, const OnnxNode& node, const onnx::Node& written);
  onnx::Attribute subgraph(Page& page, const std::string& name, const Graph& body,
                           std::span<const NodeId> captured);
  std::string fresh(const std::string& wanted);

  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, size_t> counts_;  // of names that were taken already
  std::map<std::string, int64_t> domains_;
};

}  // namespace emend
