// Keeps a huge mapped tensor from filling memory while it is read.
#pragma once

#include <cstddef>
#include <span>
#include <thread>

namespace assay {

// While it lives, gives the mapped pages of `bytes` back to the kernel
// whenever the process has grown by kGrowth since; whoever still reads them
// gets them from the page cache again. Starts nothing for less than kHuge.
class PageReaper {
 public:
  static constexpr std::size_t kHuge = 128u << 20;
  static constexpr std::size_t kGrowth = 320u << 20;

  explicit PageReaper(std::span<const std::byte> bytes);

 private:
  std::jthread thread_;
};

}  // namespace assay
