// The operators that the structure of a graph itself needs, in the order of ir/node.h.
#include "ops/evaluate.h"
#include "ops/table.h"

namespace emend {

struct Index {
  int64_t index = 0;
  EMEND_FIELDS(index)
};

std::vector<OpDef> structure_ops() {
  // Input and constant nodes are made by the builder, which knows their types.
  auto typed_by_builder = [](const Index&, Types) -> Result<Type> {
    return fail("inputs and constants are made by the builder");
  };
  return {
      define<Index>({.name = "input",
                     .min_args = 0,
                     .max_args = 0,
                     .kind = Kind::structure,
                     .infer = typed_by_builder,
                     .doc = "an input of the program"}),
      define<Index>({.name = "constant",
                     .min_args = 0,
                     .max_args = 0,
                     .kind = Kind::structure,
                     .infer = typed_by_builder,
                     .doc = "an entry of the constant pool"}),
      define<Index>({.name = "get",
                     .kind = Kind::structure,
                     .infer = [](const Index& a, Types in) -> Result<Type> {
                       if (in[0].kind == Type::Kind::any) return Type::any();
                       if (in[0].kind != Type::Kind::tuple)
                         return fail("get needs a tuple, not ", to_text(in[0]));
                       if (a.index < 0 || a.index >= static_cast<int64_t>(in[0].items.size())) {
                         return fail("no item ", a.index, " in ", to_text(in[0]));
                       }
                       return in[0].items[static_cast<size_t>(a.index)];
                     },
                     .eval =
                         [](const EvalContext&, const Index& a, std::span<const Value> v) {
                           return v[0].items.at(static_cast<size_t>(a.index));
                         },
                     .doc = "one item of a tuple"}),
      define<NoAttrs>(
          {.name = "tuple",
           .min_args = 0,
           .max_args = -1,
           .kind = Kind::structure,
           .infer = [](const NoAttrs&, Types in) -> Result<Type> {
             return Type::tuple({in.begin(), in.end()});
           },
           .eval =
               [](const EvalContext&, const NoAttrs&, std::span<const Value> v) {
                 return Value::tuple({v.begin(), v.end()});
               },
           .doc = "several values as one; what expansions with several results return"}),
  };
}

}  // namespace emend
