// Decisions that a clock took about plans, kept between starts: which of equal programs runs, cut
// how, and by which kernels. One small file each, under a key of the programs, of how they are
// compiled, of the machine and of the very build of Emend. No string of a model is in it: why a
// group is the host's is found out again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/kept_files.h"
#include "pipeline/race.h"

namespace emend {

struct KeptPlan {
  size_t program = 0;         // which of the equal ones
  std::vector<NodeId> ahead;  // as PlannedProgram has them
  std::string graph;          // a hash of what it was decided about, with these computed
  Partition partition;
  std::vector<std::string> choices;  // as select's text_of names them; of the host's groups empty
  std::vector<double> prices_s;      // of them
  std::vector<PlanTime> raced;
};

class KeptPlans {
 public:
  explicit KeptPlans(const std::filesystem::path& folder) : files_(folder, "plan-", 256) {}
  std::optional<KeptPlan> find(const std::string& key) const;
  void keep(const std::string& key, const KeptPlan& plan) const;
  const KeptFiles& files() const { return files_; }

 private:
  KeptFiles files_;
};

}  // namespace emend
