// What searches found, kept between starts: a program that was searched once is not searched again,
// whether something better was found or not. One small file each, under a key of everything that
// the search depends on: the program and what rules see of its weights, the options, the machine,
// and the very build of Emend. The program that was found is kept as text over the weights of the
// one that was given; weights themselves are not stored.
#pragma once

#include <filesystem>
#include <optional>

#include "pipeline/improve.h"
#include "run/kernel_cache.h"

namespace emend {

// Where a user's searches are kept (EMEND_CACHE_DIR, XDG_CACHE_HOME).
std::filesystem::path default_search_folder();

// This very build of Emend: another one may have other rules, operators and kernels. Empty where it
// cannot be told.
std::string build_text();
// Makes the folder where there is none. False if others may enter it.
bool made_private(const std::filesystem::path& folder);

class KeptSearches {
 public:
  explicit KeptSearches(std::filesystem::path folder, size_t most = 256)
      : folder_(std::move(folder)), most_(most) {}

  struct Found {
    Graph graph;
    ImproveReport report;  // of the search, when it was made
  };
  // Nothing where it was not made before, or what is there cannot be read.
  std::optional<Found> find(const Graph& given, const ImproveOptions& options) const;
  // At most so many as were asked for stay, the latest. Not kept is what no key can tell apart.
  // Where nothing can be written, nothing is kept.
  void keep(const Graph& given, const ImproveOptions& options, const Found& found) const;

  FileUse use() const;
  FileUse clear() const;

 private:
  std::filesystem::path folder_;
  size_t most_;
};

struct Keeping {
  std::optional<std::filesystem::path> folder;  // none: nothing is kept
  bool search_again = false;                    // what is kept is made anew
};

// The search, or what it found before. One that was interrupted is not kept.
Graph improved(const Graph& g, const ImproveOptions& options, const Keeping& keeping,
               ImproveReport* report = nullptr);

}  // namespace emend
