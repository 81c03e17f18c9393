#include "assay/cli/color_flag.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay {

void ColorFlag::declare(Args& args) {
  args.option("--color", "WHEN", "auto, always or never", &when);
}

bool ColorFlag::wanted() const {
  if (when == "always") return true;
  if (when == "never") return false;
  if (when != "auto")
    throw Error(Code::kUsage, "--color: '" + printable(when) +
                                  "' is not auto, always or never");
  return ::isatty(1) != 0 && std::getenv("NO_COLOR") == nullptr;
}

void print_text(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0)
    throw Error(Code::kUnreadable, "cannot write to the standard output");
}

}  // namespace assay
