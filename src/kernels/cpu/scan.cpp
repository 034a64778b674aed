// Running sums and products: carried along the axis, many lanes beside it at once, floats in double
// precision. Tasks share what stands outside of the axis and beside it.
#include <algorithm>

#include "base/text.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/sequential.h"

namespace emend {
namespace {

std::optional<Scan> scan_in(const Graph& group) {
  NodeId n = only_node(group);
  return n.valid() ? scan_of(group, n) : std::nullopt;
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  auto scan = wanted.layouts.plain() ? scan_in(wanted.group) : std::nullopt;
  if (!scan) return {};
  auto elements = static_cast<double>(scan->outer * scan->extent * scan->inner);
  double each = info(wanted.group.type(wanted.group.outputs[0].node).dtype).bits / 8.0;
  return {{.kernel = "scan",
           .config = {},
           .layouts = wanted.layouts,
           .estimate_s = target.launch_s + 2 * each * elements / target.bandwidth,
           .packing = {}}};
}

KernelCode emit(const Graph& group, const Candidate&, const Target& target) {
  Scan s = scan_in(group).value();
  DType dtype = group.type(group.outputs[0].node).dtype;
  DType work = is_float(dtype) ? DType::f64 : dtype == DType::u64 ? DType::u64 : DType::i64;
  constexpr int64_t kFewest = 16, kMost = 512;  // lanes
  int64_t wanted = std::max<int64_t>(1, 4 * target.threads / s.outer);
  int64_t chunk = std::clamp((s.inner + wanted - 1) / wanted, std::min(kFewest, s.inner), kMost);
  int64_t pieces = (s.inner + chunk - 1) / chunk;
  std::string add = str(
      "acc[i - lo] = ", c_combined(s.reduce, work, "acc[i - lo]", c_load(dtype, work, "from[i]")),
      ";\n");
  std::string store = str("to[i] = ", c_store(dtype, work, "acc[i - lo]"), ";\n");
  std::string text = str(
      "void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n",
      declare_buffers(group), "for (int64_t task = first; task < last; ++task) {\n",
      "const int64_t lo = task % ", pieces, " * ", chunk, ", hi = lo + ", chunk, " < ", s.inner,
      " ? lo + ", chunk, " : ", s.inner, ";\n", c_work(work), " acc[", chunk, "];\n",
      "for (int64_t i = lo; i < hi; ++i) acc[i - lo] = ", c_neutral(s.reduce, dtype, work), ";\n",
      "for (int64_t step = 0; step < ", s.extent, "; ++step) {\n", "const int64_t at = (task / ",
      pieces, " * ", s.extent, " + ", s.from_end ? str(s.extent - 1, " - step") : "step", ") * ",
      s.inner, ";\n", "const ", c_storage(dtype), "* const from = x0 + at;\n", c_storage(dtype),
      "* const to = y0 + at;\n", "#pragma GCC ivdep\n", "for (int64_t i = lo; i < hi; ++i) {\n",
      s.exclusive ? store + add : add + store, "}\n}\n}\n}\n");
  return named_kernel(std::move(text), s.outer * pieces);
}

}  // namespace

Kernel scan_kernel() {
  return {.name = "scan", .candidates = candidates, .emit = emit};
}

}  // namespace emend
