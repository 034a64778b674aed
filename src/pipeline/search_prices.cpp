#include "pipeline/search_prices.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>

#include "fuse/fuse.h"
#include "pipeline/planning.h"
#include "pipeline/weights_ahead.h"
#include "run/onednn.h"
#include "select/select.h"

namespace emend {
namespace {

// Seconds of one run, as fuse and select estimate them.
double price_of_program(const Graph& g, const Target& target, const SelectOptions& one,
                        const std::shared_ptr<KnownIslands>& known) {
  const double held = constant_bytes(g);
  const double room = std::max(one.memory * held, one.memory_bytes) - held;
  Graph plain = computed_ahead(decomposed(g), {.room = room, .stand_ins = true});
  const Catalogue& catalogue = catalogue_here();
  GroupSeconds seconds = [&](const Graph& group, const std::vector<bool>& constant) {
    return cheapest(group, constant, catalogue, target, one);
  };
  Partition partition =
      fuse(plain, {.target = target, .catalogue = &catalogue, .seconds = seconds, .known = known});
  size_t steps = partition.groups.size();
  SelectOptions choose = one;
  choose.error = share_of_errors(one.errors, steps);
  Plan plan = select(plain, std::move(partition), catalogue, target, choose);
  return plan.estimate_s + static_cast<double>(steps) * target.launch_s;
}

// Estimates of whole programs are so far off, one against another: inception_v3 with merged
// convolutions was thought to gain 0.6 % and lost 4 %.
constexpr double kWorthwhile = 0.98;

// What kernels offer for a group is asked once and serves nodes and programs alike.
struct BackEnd {
  BackEnd(const Target& t, double accuracy)
      : target(t),
        one{.memory = kUsualMemory,
            .memory_bytes = kSmallMemory,
            .error = kShareOfOne * accuracy,
            .errors = accuracy,
            .bound = accuracy,
            .known = &known},
        nodes(catalogue_here(), target, one) {}
  Target target;
  KnownPrices known;
  std::shared_ptr<KnownIslands> islands = no_known_islands();
  SelectOptions one;  // of a kernel by itself
  NodePrices nodes;
  // The given program is asked about again and again.
  struct Priced {
    Graph program;
    double seconds;
  };
  std::optional<Priced> given;

  double of_given(const Graph& g) {
    if (!given || !(given->program == g)) given = {g, seconds_of(g)};
    return given->seconds;
  }
  double seconds_of(const Graph& g) const { return price_of_program(g, target, one, islands); }
};

std::string key_of(const Target& t, double accuracy) {
  std::ostringstream out;
  out.precision(17);
  out << "back end " << t.vector_bytes << ' ' << t.threads << ' ' << t.peak_flops << ' '
      << t.bandwidth << ' ' << t.launch_s << ' ' << t.byte_dots << ' ' << t.bf16_dots << ' '
      << t.cached << ' ' << accuracy << ' ' << kWorthwhile << ' ' << onednn_state().text;
  return out.str();
}

}  // namespace

SearchPrices back_end_prices(const Target& target, double accuracy) {
  auto own = std::make_shared<BackEnd>(target, accuracy);
  return {.quick = [own](const PricedNode& n) { return own->nodes.quick(n); },
          .exact = [own](const PricedNode& n) { return own->nodes.exact(n); },
          .programs =
              [own](std::span<const Graph> programs, const Monitor& monitor) {
                std::vector<double> seconds;
                for (const Graph& g : programs) {
                  if (!seconds.empty() && monitor.stop_requested()) break;
                  seconds.push_back(seconds.empty() ? own->of_given(g) : own->seconds_of(g));
                }
                return seconds;
              },
          .worthwhile = kWorthwhile,
          .key = key_of(target, accuracy)};
}

}  // namespace emend
