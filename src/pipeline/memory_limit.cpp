#include "pipeline/memory_limit.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/parallel.h"

namespace emend {
namespace {

constexpr uint64_t kTooMuch = UINT64_MAX;

uint64_t bytes_of(const Type& t) {
  if (!t.is_tensor() || t.dtype == DType::string) return 0;
  auto n = checked_count(t.shape);
  return n ? storage_bytes(t.dtype, static_cast<uint64_t>(*n)).value_or(kTooMuch) : kTooMuch;
}

// Sums that stay at the top once they are there.
class Need {
 public:
  explicit Need(uint64_t limit) : limit_(limit) {}
  void add(uint64_t bytes) { sum_ = bytes > kTooMuch - sum_ ? kTooMuch : sum_ + bytes; }
  void require(const char* what) const {
    if (sum_ <= limit_) return;
    throw Error(str(what, " ", bytes_text(static_cast<double>(sum_)),
                    " of memory at once; this machine has ",
                    bytes_text(static_cast<double>(limit_))));
  }

 private:
  uint64_t limit_, sum_ = 0;
};

}  // namespace

uint64_t machine_memory() {
  auto pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size)
                               : kTooMuch;
}

void require_memory(const Graph& g, uint64_t limit) {
  Need need(limit);
  for (const auto& i : g.inputs) need.add(bytes_of(g.type(i.node)));
  for (const auto& o : g.outputs) need.add(bytes_of(g.type(o.node)));
  need.require("the inputs and outputs take");
}

void require_memory_to_evaluate(const Graph& g, uint64_t limit) {
  require_memory(g, limit);
  for (size_t n = 0; n < g.size(); ++n) {
    with_note([&] { return str("node ", g.names[NodeId(n)]); },
              [&] {
                Need need(limit);
                need.add(bytes_of(g.types[NodeId(n)]));
                need.require("its value takes");
              });
  }
}

void require_memory(const Program& p, uint64_t limit) {
  Need all(limit);
  for (const Buffer& b : p.buffers) {
    // The plan of the arena was added up without care: no part of it alone may be too much.
    Need one(limit);
    one.add(b.bytes);
    one.require("a value of the program takes");
    if (b.place != Buffer::Place::arena) all.add(b.bytes);
  }
  all.add(p.arena_bytes);
  all.add(scratch_bytes(p) * static_cast<uint64_t>(thread_count()));
  all.add(shared_bytes(p));
  all.require("the program takes");
}

}  // namespace emend
