// Random views of an operand, of the kinds that mutations make and some that nobody would.
#pragma once

#include <optional>

#include "base/rng.h"
#include "ir/view.h"

namespace emend {

View some_view(const Dims& shape, Rng& rng);
// The view of an operand of shape `from` for one of shape `to`, where they differ only in
// dimensions that pass.
std::optional<View> resized(const View& v, const Dims& from, const Dims& to);

}  // namespace emend
