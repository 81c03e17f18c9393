// `assay worker`: answers a runner's requests with the engine.
#pragma once

#include <iosfwd>
#include <string>

#include "assay/core/device.h"
#include "assay/te/parallel/communicator.h"

namespace assay::conform {

struct ServeOptions {
  Device device = Device::kCpu;  // kReference: fp64, plain loops
  std::string version;           // of the program
  // Of several ranks every one calls serve(); rank 0 reads and tells the
  // others. Null: one process.
  te::Communicator* group = nullptr;
};

// Reads lines from `in` until "bye" or its end and writes answers to `out`,
// flushed line by line. A case that throws is answered as an error; a line
// that is no request too, with id -1.
void serve(std::istream& in, std::ostream& out, const ServeOptions& options);

}  // namespace assay::conform
