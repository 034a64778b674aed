// What this processor is, as far as code generation asks.
#pragma once

namespace emend {

// Bytes of the widest vector register that its instructions have.
int vector_bytes();

}  // namespace emend
