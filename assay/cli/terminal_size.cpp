#include "assay/cli/terminal_size.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace assay {

std::size_t terminal_columns() {
  struct winsize size {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return 100;
  }
  return size.ws_col;
}

}  // namespace assay
