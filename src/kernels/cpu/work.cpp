#include "kernels/cpu/work.h"

namespace emend {
namespace {

// Which compilers multiply.
bool is_square(const Scalar& body, const Instr& pow) {
  const Instr& exponent = body.code[static_cast<size_t>(pow.b)];
  return exponent.fn == Fn::constant && exponent.value == 2;
}

}  // namespace

double Work::steps(const Costs& c) const {
  return plain * c.work_plain + divisions * c.work_division + exps * c.work_exp +
         functions * c.work_function + calls * c.work_call + loads * c.work_load;
}

void Work::add(const NestValue& v, double times) {
  if (v.kind == NestValue::Kind::load) loads += times;
  if (v.kind != NestValue::Kind::compute) return;
  for (const Instr& i : v.body.code) {
    switch (i.fn) {
      case Fn::constant:
      case Fn::arg:
      case Fn::iter:
      case Fn::attr:
        break;
      case Fn::div:
      case Fn::sqrt:
        divisions += times;
        break;
      case Fn::exp:
        exps += times;
        break;
      case Fn::log:
      case Fn::tanh:
      case Fn::erf:
        functions += times;
        break;
      case Fn::pow:
        (is_square(v.body, i) ? plain : calls) += times;
        break;
      default: {
        const bool call = (i.fn > Fn::log && i.fn <= Fn::atanh && i.fn != Fn::tanh) ||
                          i.fn == Fn::mod || i.fn == Fn::fmod;
        (call ? calls : plain) += times;
      }
    }
  }
}

Work work_behind(const Nest& nest, int sum) {
  std::vector<bool> needed(nest.values.size());
  for (const NestStore& s : nest.stores) needed[static_cast<size_t>(s.value)] = true;
  const auto free = free_atoms(nest);
  Work work;
  for (size_t v = nest.values.size(); v-- > 0;) {
    if (!needed[v] || static_cast<int>(v) == sum) continue;
    const NestValue& u = nest.values[v];
    for (int a : u.args) needed[static_cast<size_t>(a)] = true;
    double share = 1;
    for (int a : nest.space) {
      if (!free[v][static_cast<size_t>(a)]) share /= static_cast<double>(nest.math.extent(a));
    }
    work.add(u, share);
  }
  return work;
}

}  // namespace emend
