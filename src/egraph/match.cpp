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
  return step;
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

// One variant of a join over a part of the rows of its first atom.
class Join {
 public:
  Join(const EGraph& g, const Query& q, const std::vector<Step>& steps,
       const std::vector<Source>& sources, uint32_t since, size_t most_looks, Column<ClassId>& out)
      : g_(g),
        query_(q),
        steps_(steps),
        sources_(sources),
        since_(since),
        most_looks_(most_looks),
        out_(out) {
    found_.resize(q.slots + q.atoms.size(), 0);
    keys_.resize(q.slots + 1);
  }

  // Gives up beyond the looks that it may take; returns how many it took.
  size_t run(size_t begin, size_t end) {
    const Table& table = *sources_[0].table;
    for (size_t i = begin; i < end; ++i) take(0, table.row(i));
    return looks_;
  }

 private:
  // Goes on with a row for the atom of step k, if it fits.
  void take(size_t k, const uint32_t* row) {
    if (++looks_ > most_looks_) return;
    const Step& step = steps_[k];
    if (step.only_old && row[kTimeColumn] >= since_) return;
    for (const auto& [column, slot] : step.binds) found_[slot] = row[column];
    for (const auto& [column, slot] : step.checks) {
      if (found_[slot] != row[column]) return;
    }
    const QueryAtom& atom = query_.atoms[step.atom];
    if (atom.attr || atom.attr_filter) {
      const uint32_t attr = g_.node(ENodeId(size_t{row[kNodeColumn]})).attr;
      if (atom.attr && *atom.attr != attr) return;
      if (atom.attr_filter && !atom.attr_filter(attr)) return;
    }
    if (!query_.slot_filters.empty() && !filters_take(step)) return;
    found_[query_.slots + step.atom] = row[kNodeColumn];
    if (k + 1 == steps_.size()) {
      std::memcpy(static_cast<void*>(out_.extend(found_.size())), found_.data(),
                  found_.size() * sizeof(uint32_t));
      return;
    }
    next(k + 1);
  }

  bool filters_take(const Step& step) const {
    return std::all_of(step.binds.begin(), step.binds.end(), [&](const auto& b) {
      return b.slot >= query_.slot_filters.size() || !query_.slot_filters[b.slot] ||
             query_.slot_filters[b.slot](ClassId(size_t{found_[b.slot]}));
    });
  }

  void next(size_t k) {
    const Step& step = steps_[k];
    const auto& [table, index] = sources_[k];
    if (!index) {
      for (size_t i = 0; i < table->size(); ++i) take(k, table->row(i));
      return;
    }
    for (size_t i = 0; i < step.key_slots.size(); ++i) keys_[i] = found_[step.key_slots[i]];
    const auto [begin, end] = table->range(*index, {keys_.data(), step.key_slots.size()});
    const size_t stride = table->stride;
    const uint32_t* row = index->rows.data() + begin * stride;
    for (size_t i = begin; i < end; ++i, row += stride) take(k, row);
  }

  const EGraph& g_;
  const Query& query_;
  const std::vector<Step>& steps_;
  const std::vector<Source>& sources_;
  const uint32_t since_;
  const size_t most_looks_;
  size_t looks_ = 0;  // at rows of tables
  Column<ClassId>& out_;
  std::vector<uint32_t> found_, keys_;  // slots, then the nodes of atoms
};

// A part of the work that does not depend on how many threads there are.
struct Task {
  const std::vector<Step>* steps;
  const std::vector<Source>* sources;
  size_t begin, end;
};
constexpr size_t kTaskRows = 512;

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
    variants_.push_back(std::move(steps));
  }
}

namespace {

// Joins that look at many rows of tables for each match they find are given up as well.
constexpr size_t kLooksPerRow = 64;

size_t times(size_t a, size_t b) {
  return a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

}  // namespace

bool search(EGraph& g, const QueryPlan& plan, uint32_t since, Rows& rows, size_t most) {
  const Query& q = plan.query();
  rows.reset(q.slots, static_cast<uint32_t>(q.atoms.size()));
  const auto& variants = plan.variants();
  std::vector<std::vector<Source>> sources(variants.size());
  std::vector<Task> tasks;
  for (size_t v = 0; v < variants.size(); ++v) {
    const uint32_t kind = kind_of(q.atoms[v]);
    const Table* table = g.tables().find(kind);
    if (!table) continue;
    const size_t first = table->first_since(since), end = table->size();
    if (first == end) continue;
    sources[v] = sources_of(g, q, variants[v]);
    if (sources[v].empty()) continue;
    for (size_t begin = first; begin < end; begin += kTaskRows) {
      tasks.push_back({&variants[v], &sources[v], begin, std::min(end, begin + kTaskRows)});
    }
    // With everything new, the first variant finds it all: the others want older rows.
    if (first == 0) break;
  }
  const size_t limit = times(most, rows.width()), most_looks = times(most, kLooksPerRow);
  if (thread_count() == 1 || tasks.size() <= 1) {
    size_t looks = 0;
    for (const Task& t : tasks) {
      looks +=
          Join(g, q, *t.steps, *t.sources, since, most_looks, rows.words()).run(t.begin, t.end);
      if (rows.words().size() > limit || looks > most_looks) return false;
    }
    return true;
  }
  std::vector<Column<ClassId>> parts(tasks.size());
  std::atomic<size_t> total{0}, looks{0};
  parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (total.load(std::memory_order_relaxed) > limit) return;
      if (looks.load(std::memory_order_relaxed) > most_looks) return;
      const Task& t = tasks[i];
      looks.fetch_add(
          Join(g, q, *t.steps, *t.sources, since, most_looks, parts[i]).run(t.begin, t.end),
          std::memory_order_relaxed);
      total.fetch_add(parts[i].size(), std::memory_order_relaxed);
    }
  });
  if (total > limit || looks > most_looks) return false;
  for (const auto& part : parts) rows.words().append(part.span());
  return true;
}

Rows search(EGraph& g, const Query& query, uint32_t since) {
  Rows rows;
  search(g, QueryPlan(query), since, rows);
  return rows;
}

}  // namespace emend
