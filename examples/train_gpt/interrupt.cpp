#include "examples/train_gpt/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "assay/base/atomic_file.h"

namespace assay::train_gpt {
namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int) {
  if (!stop_requested.exchange(true)) return;
  discard_open_atomic_files();
  ::_exit(130);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return stop_requested; }

}  // namespace assay::train_gpt
