#include "egraph/explain.h"

#include <algorithm>

namespace emend {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Items 0 .. count-1 by key; items without one (kNone) are left out.
template <class KeyOf>
void group(size_t count, size_t keys, const KeyOf& key_of, std::vector<uint32_t>& begins,
           std::vector<uint32_t>& items) {
  begins.assign(keys + 1, 0);
  for (size_t i = 0; i < count; ++i) {
    if (key_of(i) != kNone) ++begins[key_of(i) + 1];
  }
  for (size_t k = 0; k < keys; ++k) begins[k + 1] += begins[k];
  items.resize(begins[keys]);
  auto at = begins;
  for (size_t i = 0; i < count; ++i) {
    if (key_of(i) != kNone) items[at[key_of(i)]++] = static_cast<uint32_t>(i);
  }
}

}  // namespace

Explainer::Explainer(const EGraph& g) : g_(g), provenance_(g.provenance()) {
  EMEND_ASSERT(g.keeps_provenance() && g.clean(), "an e-graph without reasons, or in the making");
  const size_t ids = g.ids(), firings = provenance_.firings();
  const auto unions = provenance_.unions();

  renamed_at_.assign(ids, kNone);
  const auto renamed = provenance_.renamed();
  for (size_t at = 0; at < renamed.size();) {
    const ENodeId n = renamed[at];
    renamed_at_[n.value] = static_cast<uint32_t>(at + 1);
    at += 1 + g.node(n).children.size();
  }
  group(
      ids, firings, [&](size_t n) { return provenance_.maker(ENodeId(n)).value; }, made_begins_,
      made_);
  group(
      unions.size(), firings, [&](size_t u) { return unions[u].firing().value; }, united_begins_,
      united_);

  // The forest, each tree rooted at the smallest id.
  std::vector<uint32_t> begins, ends;
  group(
      unions.size() * 2, ids,
      [&](size_t i) { return i % 2 ? unions[i / 2].b.value : unions[i / 2].a.value; }, begins,
      ends);
  up_.assign(ids, kNone);
  up_union_.assign(ids, kNone);
  depth_.assign(ids, kNone);
  std::vector<uint32_t> queue;
  for (uint32_t root = 0; root < ids; ++root) {
    if (depth_[root] != kNone) continue;
    depth_[root] = 0;
    queue.assign(1, root);
    for (size_t i = 0; i < queue.size(); ++i) {
      const uint32_t n = queue[i];
      for (uint32_t e = begins[n]; e < begins[n + 1]; ++e) {
        const Union& u = unions[ends[e] / 2];
        const uint32_t other = ends[e] % 2 ? u.a.value : u.b.value;
        if (depth_[other] != kNone) continue;
        depth_[other] = depth_[n] + 1;
        up_[other] = n;
        up_union_[other] = ends[e] / 2;
        queue.push_back(other);
      }
    }
  }
}

ENode Explainer::term(ENodeId n) const {
  ENode node = g_.node(n);
  if (const uint32_t at = renamed_at_[n.value]; at != kNone) {
    node.children = provenance_.renamed().subspan(at, node.children.size());
  }
  return node;
}

template <class See>
bool Explainer::walk(ENodeId a, ENodeId b, const See& see) const {
  uint32_t x = a.value, y = b.value;
  while (x != y) {
    uint32_t& deeper = depth_[x] >= depth_[y] ? x : y;
    if (up_[deeper] == kNone || !see(up_union_[deeper])) return false;
    deeper = up_[deeper];
  }
  return true;
}

void Explainer::need_node(ENodeId n) {
  if (node_needed_[n.value]) return;
  node_needed_[n.value] = true;
  nodes_.push_back(n);
}

void Explainer::need_firing(FiringId f) {
  if (firing_needed_[f.value]) return;
  firing_needed_[f.value] = true;
  firings_.push_back(f);
  all_.push_back(f);
}

void Explainer::need_equality(ENodeId a, ENodeId b) {
  const bool equal = walk(a, b, [&](uint32_t which) {
    if (union_needed_[which]) return true;
    union_needed_[which] = true;
    const Union& u = provenance_.unions()[which];
    if (u.by_congruence()) {
      congruences_.push_back(which);
    } else if (u.firing().valid()) {
      need_firing(u.firing());
    }
    return true;
  });
  EMEND_ASSERT(equal, "nodes ", a.value, " and ", b.value, " are not equal");
}

bool Explainer::equal_before(ENodeId a, ENodeId b, uint32_t which) const {
  return g_.same(a, b) && walk(a, b, [&](uint32_t u) { return u < which; });
}

// What it matched must be there, and the ids it dealt with must be equal where they were.
void Explainer::settle_firing(FiringId f) {
  const Firing firing = provenance_.firing(f);
  std::vector<ENodeId> dealt_with;
  const auto with_children = [&](ENodeId n) {
    dealt_with.push_back(n);
    for (ClassId c : term(n).children) {
      dealt_with.push_back(c);
      need_node(c);
    }
  };
  for (ENodeId n : firing.matched) {
    need_node(n);
    with_children(n);
  }
  for (ENodeId n : firing.found) with_children(n);
  for (uint32_t i = made_begins_[f.value]; i < made_begins_[f.value + 1]; ++i) {
    with_children(ENodeId(size_t{made_[i]}));
  }
  for (uint32_t i = united_begins_[f.value]; i < united_begins_[f.value + 1]; ++i) {
    const Union& u = provenance_.unions()[united_[i]];
    dealt_with.push_back(u.a);
    dealt_with.push_back(u.b);
  }
  std::sort(dealt_with.begin(), dealt_with.end());
  dealt_with.erase(std::unique(dealt_with.begin(), dealt_with.end()), dealt_with.end());
  const auto equal_then = [&](ENodeId a, ENodeId b) {
    return walk(a, b, [&](uint32_t which) { return provenance_.unions()[which].before(f); });
  };
  std::vector<ENodeId> different;
  for (ENodeId n : dealt_with) {
    const auto same = std::find_if(different.begin(), different.end(),
                                   [&](ENodeId other) { return equal_then(n, other); });
    if (same == different.end()) {
      different.push_back(n);
    } else {
      need_equality(n, *same);
    }
  }
}

std::vector<FiringId> Explainer::answer() {
  while (!nodes_.empty() || !firings_.empty() || !congruences_.empty()) {
    if (!nodes_.empty()) {
      const ENodeId n = nodes_.back();
      nodes_.pop_back();
      for (ClassId c : term(n).children) need_node(c);
      if (const FiringId f = provenance_.maker(n); f.valid()) need_firing(f);
    } else if (!firings_.empty()) {
      const FiringId f = firings_.back();
      firings_.pop_back();
      settle_firing(f);
    } else {
      const uint32_t which = congruences_.back();
      congruences_.pop_back();
      const Union& u = provenance_.unions()[which];
      const auto a = term(u.a).children, b = term(u.b).children;
      // Children without an order may have met crosswise.
      const bool straight =
          a.size() != 2 || (equal_before(a[0], b[0], which) && equal_before(a[1], b[1], which));
      for (size_t i = 0; i < a.size(); ++i) need_equality(a[i], b[straight ? i : 1 - i]);
    }
  }
  std::sort(all_.begin(), all_.end());
  return std::move(all_);
}

std::vector<FiringId> Explainer::of_node(ENodeId n) {
  return of_equality(n, n);
}

std::vector<FiringId> Explainer::of_equality(ClassId a, ClassId b) {
  all_.clear();
  node_needed_.assign(g_.ids(), false);
  union_needed_.assign(provenance_.unions().size(), false);
  firing_needed_.assign(provenance_.firings(), false);
  need_node(a);
  need_node(b);
  need_equality(a, b);
  return answer();
}

}  // namespace emend
