// Forms of a program: the same function, written as they say, and in finitely many steps.
#include "rules/forms.h"

#include <gtest/gtest.h>

#include <map>

#include "equiv/compare.h"
#include "ops/table.h"
#include "simplify/simplify.h"
#include "text/text.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

const Form& form_named(const std::string& name) {
  for (const Form& f : forms()) {
    if (f.name == name) return f;
  }
  throw Error("no form is called " + name);
}

Graph formed(const Graph& g, const std::string& name) {
  SimplifyReport report;
  Graph out = simplify(g, {.finish = false, .form = &form_named(name).rules}, &report);
  EXPECT_EQ(report.stop_reason, "fixed point");
  return out;
}

int count_of(const Graph& g, std::string_view op) {
  int n = 0;
  for (const Node& node : g.nodes) n += op_def(node).name == op;
  return n;
}

TEST(Forms, RowsHaveNoReshapesBetweenThem) {
  Graph g = parse_graph(
      "graph(x: f32[2,5,8], w: f32[8,8], v: f32[8,8], b: f32[8], g: f32[8], c: f32[8]) {\n"
      "  %h = add(matmul(x, w), b)\n"
      "  %n = layer_norm[axis=-1](add(%h, x), g, c)\n"
      "  %o = add(gelu(matmul(%n, v)), %n)\n"
      "  return layer_norm[axis=2](%o, g, c)\n}\n");
  Graph rows = formed(g, "rows");
  EXPECT_EQ(compare(g, rows).kind, Verdict::Kind::equal);
  EXPECT_EQ(count_of(rows, "reshape"), 2);  // x once, and the result
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string_view op = op_def(rows.nodes[NodeId(i)]).name;
    if (op == "matmul" || op == "layer_norm" || op == "gelu") {
      EXPECT_EQ(rows.types[NodeId(i)].rank(), 2) << op;
    }
  }
}

TEST(Forms, RowsLeaveAloneWhatNeedsOtherDimensions) {
  Graph g = parse_graph(
      "graph(x: f32[2,5,8], w: f32[2,8,8], g: f32[5,8], c: f32[5,8]) {\n"
      "  return layer_norm[axis=1](matmul(x, w), g, c)\n}\n");
  EXPECT_EQ(print(formed(g, "rows")), print(g));
}

TEST(Forms, PartsAreNotPutTogether) {
  Graph g = parse_graph(
      "graph(x: f32[1,3,9,9], y: f32[1,4,9,9], z: f32[1,5,9,9], w: f32[6,12,3,3], b: f32[6,1,1]) "
      "{\n"
      "  %p = max_pool[kernel=[2,2], strides=[2,2], pads=[0,0,0,0], "
      "dilations=[1,1]](concat[axis=1](x, y, z))\n"
      "  return relu(add(conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1]](%p, w), b))\n}\n");
  Graph parts = formed(g, "parts");
  EXPECT_EQ(compare(g, parts).kind, Verdict::Kind::equal);
  EXPECT_EQ(count_of(parts, "concat"), 0);
  EXPECT_EQ(count_of(parts, "conv"), 3);
  EXPECT_EQ(count_of(parts, "max_pool"), 3);
}

TEST(Forms, EndOnRealModels) {
  for (const char* name : {"squeezenet", "inception_v3", "bert_tensat", "llama_block"}) {
    Graph g = build_zoo(name).graph;
    for (const Form& f : forms()) formed(g, f.name);
  }
}

}  // namespace
}  // namespace emend
