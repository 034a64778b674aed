#include "interruption.h"

#include <unistd.h>

#include <string_view>

namespace emend {
namespace {

constexpr int kHeard[] = {SIGINT, SIGTERM};
std::atomic<bool> g_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

// Only what is safe in a handler.
void on_interrupt(int signal_number) {
  if (g_requested.exchange(true)) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    return;
  }
  constexpr std::string_view kNote =
      "\nemend: interrupted; the best so far is checked against the input, which takes some runs "
      "of "
      "the model, and written (again to abort)\n";
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, kNote.data(), kNote.size());
}

}  // namespace

Interruption::Interruption() {
  g_requested = false;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  // Reading and writing go on; a second one is heard even while the note of the first is stuck.
  action.sa_flags = SA_RESTART | SA_NODEFER;
  for (size_t i = 0; i < before_.size(); ++i) sigaction(kHeard[i], &action, &before_[i]);
}

Interruption::~Interruption() {
  for (size_t i = 0; i < before_.size(); ++i) sigaction(kHeard[i], &before_[i], nullptr);
}

const std::atomic<bool>* Interruption::flag() const {
  return &g_requested;
}

}  // namespace emend
