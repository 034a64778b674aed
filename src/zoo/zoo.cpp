#include "zoo/zoo.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

const ZooEntry& entry_named(std::string_view name) {
  std::vector<std::string> names;
  for (const ZooEntry& e : zoo()) {
    if (e.name == name) return e;
    names.push_back(e.name);
  }
  throw Error(str("the zoo has no model ", quoted(name), "; it has ", join(names, ", ")));
}

// The model's own value wherever none is given.
ZooOptions completed(const ZooEntry& entry, const ZooOptions& given) {
  ZooOptions all = given;
  auto choose = [&](const char* name, int64_t& value, int64_t own) {
    if (value < 0) throw Error(str("--", name, " ", value, ": not a size"));
    if (value != 0 && own == 0) throw Error(str(entry.name, " has no option --", name));
    if (value == 0) value = own;
  };
  choose("size", all.size, entry.defaults.size);
  choose("seq", all.seq, entry.defaults.seq);
  choose("steps", all.steps, entry.defaults.steps);
  choose("layers", all.layers, entry.defaults.layers);
  if (all.batch < 1) throw Error(str("--batch ", all.batch, ": not a size"));
  return all;
}

}  // namespace

const std::vector<ZooEntry>& zoo() {
  static const std::vector<ZooEntry> all = [] {
    std::vector<ZooEntry> list;
    for (auto family : {resnet_models(), vgg_models(), squeezenet_models(), inception_models(),
                        mobilenet_models(), nasnet_models(), nasrnn_models(), bert_models(),
                        vit_models(), llama_models(), tour_models()}) {
      list.insert(list.end(), family.begin(), family.end());
    }
    return list;
  }();
  return all;
}

Model build_zoo(std::string_view name, const ZooOptions& options) {
  const ZooEntry& entry = entry_named(name);
  ZooOptions all = completed(entry, options);
  Net net(static_cast<uint64_t>(all.seed), all.weights);
  with_note([&] { return str("building ", entry.name); }, [&] { entry.build(net, all); });
  Model model;
  model.graph = std::move(net).build();
  model.info.producer = "emend";
  model.info.graph_name = entry.name;
  model.info.doc = str(entry.doc, "; random weights of seed ", all.seed);
  for (const auto& i : model.graph.inputs) {
    size_t rank = model.graph.type(i.node).shape.size();
    model.info.inputs.push_back({.name = i.name, .symbols = std::vector<std::string>(rank)});
  }
  for (const auto& o : model.graph.outputs) {
    size_t rank = model.graph.type(o.node).shape.size();
    model.info.outputs.push_back({.name = o.name, .symbols = std::vector<std::string>(rank)});
  }
  return model;
}

}  // namespace emend
