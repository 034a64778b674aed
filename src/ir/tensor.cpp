#include "ir/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "ir/memory_budget.h"

namespace emend {

namespace {

// Large blocks come from the system, already zero, and go back to it at once: an allocator may keep
// what was freed, and weights that were let go would still count.
std::shared_ptr<void> zeroed(size_t size) {
  constexpr size_t kLarge = size_t{1} << 17;
  std::shared_ptr<void> owner;
  if (size < kLarge) {
    owner.reset(std::calloc(size ? size : 1, 1), std::free);
  } else {
    // With a margin that may be read, see run/pages.h.
    constexpr size_t kMargin = 4096;
    size_t room = size + 2 * kMargin;
    void* p = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) {
      owner.reset(static_cast<std::byte*>(p) + kMargin,
                  [room](void* data) { ::munmap(static_cast<std::byte*>(data) - kMargin, room); });
    }
  }
  if (!owner) throw Error(str("no memory for a tensor of ", bytes_text(static_cast<double>(size))));
  return owner;
}

}  // namespace

Tensor::Tensor(DType dtype, Dims shape, std::shared_ptr<const void> owner,
               std::span<const std::byte> bytes)
    : dtype_(dtype), shape_(std::move(shape)), owner_(std::move(owner)), bytes_(bytes) {
  auto n = checked_count(shape_);
  if (!n) throw Error(str("shape ", shape_text(shape_), " is not a tensor's"));
  if (dtype_ != DType::string) {
    size_t needed = storage_bytes(dtype_, static_cast<uint64_t>(*n)).value();
    if (bytes_.size() != needed) {
      throw Error(
          str("a tensor ", to_text(type()), " needs ", needed, " bytes, got ", bytes_.size()));
    }
  }
}

Tensor Tensor::zeros(DType dtype, Dims shape) {
  auto n = checked_count(shape);
  if (!n) throw Error(str("shape ", shape_text(shape), " is not a tensor's"));
  if (dtype == DType::string) {
    spend_memory(static_cast<uint64_t>(*n) * sizeof(std::string), "a tensor");
    return of_strings(std::move(shape), std::vector<std::string>(static_cast<size_t>(*n)));
  }
  size_t size = storage_bytes(dtype, static_cast<uint64_t>(*n)).value();
  constexpr size_t kHandle = 128;  // even an empty one takes some memory and work
  spend_memory(size + kHandle, "a tensor");
  std::shared_ptr<void> owner = zeroed(size);
  auto* data = static_cast<const std::byte*>(owner.get());
  return Tensor(dtype, std::move(shape), std::move(owner), {data, size});
}

Tensor Tensor::of_ints(Dims values) {
  Dims shape = {static_cast<int64_t>(values.size())};
  return make(DType::i64, shape, [&](std::byte* out) {
    if (!values.empty()) std::memcpy(out, values.data(), values.size() * sizeof(int64_t));
  });
}

Tensor Tensor::of_int(int64_t value, DType dtype) {
  return make(dtype, {}, [&](std::byte* out) { store_int(dtype, out, 0, value); });
}

Tensor Tensor::of_real(double value, DType dtype) {
  return make(dtype, {}, [&](std::byte* out) { store_real(dtype, out, 0, value); });
}

Tensor Tensor::of_reals(DType dtype, Dims shape, std::span<const double> values) {
  EMEND_ASSERT(emend::count(shape) == static_cast<int64_t>(values.size()), shape_text(shape));
  return make(dtype, std::move(shape), [&](std::byte* out) {
    for (size_t i = 0; i < values.size(); ++i) store_real(dtype, out, i, values[i]);
  });
}

Tensor Tensor::of_strings(Dims shape, std::vector<std::string> values) {
  EMEND_ASSERT(emend::count(shape) == static_cast<int64_t>(values.size()), shape_text(shape));
  auto owner = std::make_shared<const std::vector<std::string>>(std::move(values));
  return Tensor(DType::string, std::move(shape), owner, {});
}

const std::vector<std::string>& Tensor::strings() const {
  static const std::vector<std::string> kNone;
  EMEND_ASSERT(dtype_ == DType::string, to_text(type()));
  return owner_ ? *static_cast<const std::vector<std::string>*>(owner_.get()) : kNone;
}

Dims Tensor::ints() const {
  Dims values(static_cast<size_t>(count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = load_int(dtype_, data(), i);
  return values;
}

std::vector<double> Tensor::reals() const {
  std::vector<double> values(static_cast<size_t>(count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = load_real(dtype_, data(), i);
  return values;
}

Tensor Tensor::reshaped(Dims shape) const {
  EMEND_ASSERT(emend::count(shape) == count(), shape_text(shape), " from ", shape_text(shape_));
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

void Tensor::drop_pages() const {
  emend::drop_pages(owner_, bytes_);
}

bool operator==(const Tensor& a, const Tensor& b) {
  if (a.dtype_ != b.dtype_ || a.shape_ != b.shape_) return false;
  if (a.dtype_ == DType::string) return a.strings() == b.strings();
  return a.bytes_.data() == b.bytes_.data() || a.bytes_.empty() ||
         std::memcmp(a.bytes_.data(), b.bytes_.data(), a.bytes_.size()) == 0;
}

uint64_t hash(const Tensor& t) {
  uint64_t h = hash_bytes(t.shape().data(), t.shape().size() * sizeof(int64_t),
                          static_cast<uint64_t>(t.dtype()));
  if (t.dtype() == DType::string) {
    for (const auto& s : t.strings()) h = hash_mix(h, hash_text(s));
    return h;
  }
  return hash_bytes(t.data(), t.bytes().size(), h);
}

Type Value::type() const {
  switch (kind) {
    case Type::Kind::tensor:
      return tensor.type();
    case Type::Kind::tuple: {
      std::vector<Type> types;
      for (const Value& v : items) types.push_back(v.type());
      return Type::tuple(std::move(types));
    }
    case Type::Kind::sequence: {
      // Items may differ in shape: their type is one that all of them have.
      Type item = items.empty() ? Type::any() : items[0].type();
      for (const Value& v : items)
        if (v.type() != item) item = Type::any();
      return Type::sequence(std::move(item));
    }
    case Type::Kind::optional:
      return Type::optional(items.empty() ? Type::any() : items[0].type());
    case Type::Kind::any:
      break;
  }
  return Type::any();
}

}  // namespace emend
