// The flags that tell what a file cannot: --dtype, --shape, --big-endian.
#pragma once

#include <string>

#include "assay/cli/args.h"
#include "assay/trace/trace.h"

namespace assay {

struct ReadFlags {
  std::string dtype, shape;
  bool big_endian = false;

  void declare(Args& args);
  TraceReadOptions options() const;  // throws Error{kUsage}
};

}  // namespace assay
