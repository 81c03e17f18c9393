// Ctrl-C: the first SIGINT or SIGTERM asks for an end after the step, the
// second ends the process without leaving half a file.
#pragma once

namespace assay::train_gpt {

void install_interrupt_handler();
bool interrupted();

}  // namespace assay::train_gpt
