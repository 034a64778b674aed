// What checks of results said, kept between starts: a program that was compared once with what it
// was made of, by this build of Emend on this machine, is not compared again. One small file each,
// under a key of both programs with every weight, and of how they are compared.
#pragma once

#include "pipeline/kept_files.h"
#include "pipeline/result_check.h"

namespace emend {

KeptFiles kept_checks(const std::filesystem::path& folder);

// The comparison, or what it said before. Kept is what was right, unless somebody asked to stop.
Checked compare_results(const Graph& before, const Graph& after, const ResultCheckOptions& options,
                        const Keeping& keeping);

}  // namespace emend
