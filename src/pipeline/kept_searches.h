// What searches found, kept between starts: a program that was searched once is not searched again,
// whether something better was found or not. One small file each, under a key of everything that
// the search depends on: the program and what rules see of its weights, the options, the machine,
// and the very build of Emend. The program that was found is kept as text over the weights of the
// one that was given; weights themselves are not stored.
#pragma once

#include <filesystem>
#include <optional>

#include "pipeline/improve.h"
#include "pipeline/kept_files.h"

namespace emend {

// Where a user's searches are kept (EMEND_CACHE_DIR, XDG_CACHE_HOME).
std::filesystem::path default_search_folder();

class KeptSearches {
 public:
  // At most so many stay, the latest.
  explicit KeptSearches(std::filesystem::path folder, size_t most = 256)
      : files_(std::move(folder), "search-", most) {}

  struct Found {
    Graph graph;
    ImproveReport report;  // of the search, when it was made
  };
  // Nothing where it was not made before, or what is there cannot be read.
  std::optional<Found> find(const Graph& given, const ImproveOptions& options) const;
  // What no key can tell apart is not kept.
  void keep(const Graph& given, const ImproveOptions& options, const Found& found) const;

  const KeptFiles& files() const { return files_; }

 private:
  KeptFiles files_;
};

// The search, or what it found before. One that was interrupted is not kept.
Graph improved(const Graph& g, const ImproveOptions& options, const Keeping& keeping,
               ImproveReport* report = nullptr);

}  // namespace emend
