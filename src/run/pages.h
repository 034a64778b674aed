// Memory straight from the system: zero until touched, given back when dropped, and in large pages
// where it is large, which makes its first use and every later walk over it cheaper. A page before
// and one behind may be read too: GCC turns masked loads whose mask it knows into loads of a whole
// register, of which some lanes may lie outside.
#pragma once

#include <cstddef>
#include <memory>

namespace emend {

// Aligned to a page at least. Throws Error naming `what` when there is none left.
std::shared_ptr<std::byte> pages(size_t bytes, const char* what);

}  // namespace emend
