#include "egraph/match.h"

#include <algorithm>
#include <atomic>

#include "base/parallel.h"

namespace emend {
namespace {

using Step = QueryPlan::Step;

uint32_t kind_of(const QueryAtom& a) {
  return EGraph::kind_of(a.op, a.children.size());
}

// The slots of an atom as the columns of its table have them.
std::vector<QueryPlan::Bind> columns_of(const QueryAtom& a) {
  std::vector<QueryPlan::Bind> columns = {{kClassColumn, a.result}};
  for (size_t i = 0; i < a.children.size(); ++i) {
    columns.push_back({static_cast<uint32_t>(kChildColumn + i), a.children[i]});
  }
  return columns;
}

Step make_step(const Query& q, uint32_t atom, bool only_old, std::vector<bool>& known) {
  Step step{.atom = atom, .only_old = only_old};
  const auto columns = columns_of(q.atoms[atom]);
  for (const auto& [column, slot] : columns) {
    if (!known[slot]) continue;
    step.columns.push_back(column);
    step.key_slots.push_back(slot);
  }
  for (const auto& [column, slot] : columns) {
    if (std::find(step.columns.begin(), step.columns.end(), column) != step.columns.end()) continue;
    (known[slot] ? step.checks : step.binds).push_back({column, slot});
    known[slot] = true;
  }
  const QueryAtom& a = q.atoms[atom];
  step.picky = !step.checks.empty() || a.attr || a.attr_filter || !q.slot_filters.empty();
  return step;
}

// Whoever binds the slot by which a later atom is looked up can see whether there is one at all,
// before the atoms between are gone through.
void add_probes(std::vector<Step>& steps) {
  for (uint32_t later = 2; later < steps.size(); ++later) {
    if (steps[later].key_slots.empty()) continue;
    const uint32_t slot = steps[later].key_slots[0];
    for (uint32_t k = 0; k + 1 < later; ++k) {
      for (const auto& bind : steps[k].binds) {
        if (bind.slot != slot) continue;
        steps[k].probes.push_back({later, slot});
        steps[k].picky = true;
      }
    }
  }
}

// How many columns of an atom are known, as a share: an atom of which everything is known only
// filters, and comes first.
double knowledge(const QueryAtom& a, const std::vector<bool>& known) {
  const auto columns = columns_of(a);
  const auto count =
      std::count_if(columns.begin(), columns.end(), [&](const auto& c) { return known[c.slot]; });
  return static_cast<double>(count) / static_cast<double>(columns.size());
}

// A table and an index as one search sees them.
struct Source {
  const Table* table;
  const TableIndex* index;  // none: the table itself
};

// Beyond these a join is given up.
struct Most {
  size_t words = SIZE_MAX;  // of what it finds
  size_t looks = SIZE_MAX;  // at rows of tables
};

// One variant of a join over a part of the rows of its first atom.
class Join {
 public:
  Join(const EGraph& g, const Query& q, const std::vector<Step>& steps,
       const std::vector<Source>& sources, uint32_t since, Most limit, Column<ClassId>& out)
      : g_(g),
        query_(q),
        steps_(steps),
        sources_(sources),
        since_(since),
        limit_(limit),
        out_(out) {
    found_.resize(q.slots + q.atoms.size(), 0);
    size_t most = 0;
    for (const Step& step : steps) most = std::max(most, step.key_slots.size());
    keys_.resize(most);
  }

  // Gives up beyond the looks that it may take and the words that it may find; returns how many
  // looks it took.
  size_t run(size_t begin, size_t end) {
    go_through(0, sources_[0].table->row(begin), end - begin);
    return looks_;
  }

 private:
  // Goes on with each of these rows for the atom of step k that fits.
  void go_through(size_t k, const uint32_t* row, size_t count) {
    if (looks_ > limit_.looks || out_.size() > limit_.words) return;
    looks_ += count;
    const Step& step = steps_[k];
    const size_t stride = sources_[k].table->stride;
    const bool last = k + 1 == steps_.size();
    uint32_t& node = found_[query_.slots + step.atom];
    for (; count > 0; --count, row += stride) {
      if (step.only_old && row[kTimeColumn] >= since_) continue;
      for (const auto& [column, slot] : step.binds) found_[slot] = row[column];
      if (step.picky && !fits(step, row)) continue;
      node = row[kNodeColumn];
      if (last) {
        ClassId* to = out_.extend(found_.size());  // too few words for a call of memcpy
        for (uint32_t word : found_) (to++)->value = word;
      } else {
        next(k + 1);
      }
    }
  }

  bool fits(const Step& step, const uint32_t* row) const {
    for (const auto& [column, slot] : step.checks) {
      if (found_[slot] != row[column]) return false;
    }
    for (const auto& [later, slot] : step.probes) {
      const Source& s = sources_[later];
      if (!s.table->has(*s.index, found_[slot])) return false;
    }
    const QueryAtom& atom = query_.atoms[step.atom];
    if (atom.attr || atom.attr_filter) {
      const uint32_t attr = g_.node(ENodeId(size_t{row[kNodeColumn]})).attr;
      if (atom.attr && *atom.attr != attr) return false;
      if (atom.attr_filter && !atom.attr_filter(attr)) return false;
    }
    return std::all_of(step.binds.begin(), step.binds.end(), [&](const auto& b) {
      return b.slot >= query_.slot_filters.size() || !query_.slot_filters[b.slot] ||
             query_.slot_filters[b.slot](ClassId(size_t{found_[b.slot]}));
    });
  }

  void next(size_t k) {
    const Step& step = steps_[k];
    const auto& [table, index] = sources_[k];
    if (!index) return go_through(k, table->rows.data(), table->size());
    for (size_t i = 0; i < step.key_slots.size(); ++i) keys_[i] = found_[step.key_slots[i]];
    const auto [begin, end] = table->range(*index, {keys_.data(), step.key_slots.size()});
    if (begin < end) go_through(k, index->rows.data() + begin * table->stride, end - begin);
  }

  const EGraph& g_;
  const Query& query_;
  const std::vector<Step>& steps_;
  const std::vector<Source>& sources_;
  const uint32_t since_;
  const Most limit_;
  size_t looks_ = 0;
  Column<ClassId>& out_;
  std::vector<uint32_t> found_, keys_;  // slots, then the nodes of atoms
};

// A part of the work that does not depend on how many threads there are.
struct Task {
  const std::vector<Step>* steps;
  const std::vector<Source>* sources;
  size_t begin, end;

  size_t run(const EGraph& g, const Query& q, uint32_t since, Most most,
             Column<ClassId>& out) const {
    return Join(g, q, *steps, *sources, since, most, out).run(begin, end);
  }
};
constexpr size_t kTaskRows = 256;
// Fewer are done before other threads have begun.
constexpr size_t kFewTasks = 8;

// Joins that look at many rows of tables for each match they find are given up as well.
constexpr size_t kLooksPerRow = 16;

size_t times(size_t a, size_t b) {
  return a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

// The sources of a variant, or nothing if it cannot match.
std::vector<Source> sources_of(EGraph& g, const Query& q, const std::vector<Step>& steps) {
  std::vector<Source> sources;
  for (const Step& step : steps) {
    const Table* table = g.tables().find(kind_of(q.atoms[step.atom]));
    if (!table || table->rows.empty()) return {};
  }
  for (size_t k = 0; k < steps.size(); ++k) {
    const uint32_t kind = kind_of(q.atoms[steps[k].atom]);
    Source source{g.tables().find(kind), nullptr};
    if (k > 0 && !steps[k].columns.empty()) {
      source.index = &g.tables().prepare(kind, steps[k].columns);
    }
    sources.push_back(source);
  }
  return sources;
}

}  // namespace

QueryPlan::QueryPlan(Query query) : query_(std::move(query)) {
  const auto count = static_cast<uint32_t>(query_.atoms.size());
  EMEND_ASSERT(count > 0, "a query without atoms");
  for (uint32_t first = 0; first < count; ++first) {
    std::vector<bool> known(query_.slots, false), done(count, false);
    std::vector<Step> steps = {make_step(query_, first, false, known)};
    done[first] = true;
    while (steps.size() < count) {
      uint32_t best = count;
      for (uint32_t a = 0; a < count; ++a) {
        if (done[a]) continue;
        if (best == count ||
            knowledge(query_.atoms[a], known) > knowledge(query_.atoms[best], known)) {
          best = a;
        }
      }
      steps.push_back(make_step(query_, best, best < first, known));
      done[best] = true;
    }
    EMEND_ASSERT(std::find(known.begin(), known.end(), false) == known.end(),
                 "a slot that occurs in no atom");
    add_probes(steps);
    variants_.push_back(std::move(steps));
  }
}

bool search(EGraph& g, const QueryPlan& plan, uint32_t since, Rows& rows, size_t most) {
  const Query& q = plan.query();
  rows.reset(q.slots, static_cast<uint32_t>(q.atoms.size()));
  const auto& variants = plan.variants();
  std::vector<std::vector<Source>> sources;
  std::vector<Task> tasks;
  for (size_t v = 0; v < variants.size(); ++v) {
    const Table* table = g.tables().find(kind_of(q.atoms[v]));
    if (!table) return true;
    const size_t first = table->first_since(since), end = table->size();
    if (first == end) continue;
    auto found = sources_of(g, q, variants[v]);
    if (found.empty()) return true;
    if (sources.empty()) sources.reserve(variants.size());  // tasks point into it
    sources.push_back(std::move(found));
    for (size_t begin = first; begin < end; begin += kTaskRows) {
      tasks.push_back({&variants[v], &sources.back(), begin, std::min(end, begin + kTaskRows)});
    }
    // With everything new, this variant finds the rest: the others want older rows of this atom.
    if (first == 0) break;
  }
  const Most limit{times(most, rows.width()), times(most, kLooksPerRow)};
  if (tasks.size() < kFewTasks || thread_count() == 1) {
    size_t looks = 0;
    for (const Task& t : tasks) {
      looks += t.run(g, q, since, limit, rows.words());
      if (rows.words().size() > limit.words || looks > limit.looks) return false;
    }
    return true;
  }
  std::vector<Column<ClassId>> parts(tasks.size());
  std::atomic<size_t> total{0}, looks{0};
  parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (total.load(std::memory_order_relaxed) > limit.words) return;
      if (looks.load(std::memory_order_relaxed) > limit.looks) return;
      looks.fetch_add(tasks[i].run(g, q, since, limit, parts[i]), std::memory_order_relaxed);
      total.fetch_add(parts[i].size(), std::memory_order_relaxed);
    }
  });
  if (total > limit.words || looks > limit.looks) return false;
  for (const auto& part : parts) rows.words().append(part.span());
  return true;
}

Rows search(EGraph& g, const Query& query, uint32_t since) {
  Rows rows;
  search(g, QueryPlan(query), since, rows);
  return rows;
}

}  // namespace emend
