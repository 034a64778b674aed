#include "pipeline/verify.h"

#include "simplify/simplify.h"

namespace emend {

Verdict verify(const Model& a, const Model& b, const CompareOptions& options) {
  Verdict as_they_are = compare(a.graph, b.graph, options);
  if (as_they_are.kind != Verdict::Kind::unknown) return as_they_are;
  Verdict cleaned = compare(simplify(a.graph), simplify(b.graph), options);
  // A difference between cleaned programs may be one that folding made: only equality counts.
  if (cleaned.kind != Verdict::Kind::equal) return as_they_are;
  cleaned.reason = "after both were cleaned by the rules, " + cleaned.reason;
  return cleaned;
}

}  // namespace emend
