#include "assay/conform/scratch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <system_error>

#include "assay/base/error.h"

namespace assay::conform {

Scratch::Scratch(const std::filesystem::path& parent) {
  static std::atomic<int> count{0};
  path_ = std::filesystem::absolute(
      parent / fmt::format("scratch-{}-{}", ::getpid(), count.fetch_add(1)));
  std::error_code error;
  std::filesystem::remove_all(path_, error);  // a process of this id before us
  std::filesystem::create_directories(path_, error);
  if (error)
    throw Error(
        Code::kUnreadable,
        fmt::format("{}: cannot be made: {}", path_.string(), error.message()));
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace assay::conform
