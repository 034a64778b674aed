// What this processor is, as far as code generation and estimates ask.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace emend {

std::string processor_name();  // empty where the system does not tell
// Bytes of the widest vector register that its instructions have, or of the narrower ones that
// EMEND_VECTOR_BYTES asks for (16 or 32), as if there were no wider.
int vector_bytes();
// Of the cache that all cores share; what most have where the system does not tell.
size_t shared_cache_bytes();
// Whether registers of that width have dot products of bytes, and of bf16.
bool has_byte_dots();
bool has_bf16_dots();

// How fast one thread is, measured in some milliseconds the first time and kept in `folder`: the
// estimates that choose kernels must not change from one start to the next. Rounded to steps of a
// fifth for the same reason.
struct MachineRates {
  double flops = 0;  // f32 multiply-adds in registers, two operations each, a second
  double bytes = 0;  // moved between a core and the shared cache, a second
  bool operator==(const MachineRates&) const = default;
};
MachineRates machine_rates(const std::filesystem::path& folder);
MachineRates measured_rates();

}  // namespace emend
