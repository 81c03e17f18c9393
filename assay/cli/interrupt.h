// Ctrl-C: the first asks the work to stop and report what it has, the second
// ends the process without leaving half-written files.
#pragma once

#include <atomic>

namespace assay {

// Installs the handlers of SIGINT and SIGTERM and returns the flag that they
// set. Call once, from the main thread.
const std::atomic<bool>* install_interrupt_handler();

}  // namespace assay
