#include "assay/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "assay/base/atomic_file.h"
#include "assay/conform/process.h"

namespace assay {
namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  if (!stop_requested.exchange(true) && signal == SIGINT) {
    constexpr char kNote[] =
        "\nassay: stopping; press Ctrl-C again to end at once\n";
    [[maybe_unused]] const auto n = ::write(2, kNote, sizeof kNote - 1);
    return;
  }
  discard_open_atomic_files();
  conform::kill_running_processes();
  ::_exit(128 + signal);
}

}  // namespace

const std::atomic<bool>* install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return &stop_requested;
}

}  // namespace assay
