#include "assay/base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

#include "assay/base/parallel.h"

namespace assay {
namespace {

constexpr std::uintptr_t kHugePage = 2 << 20;

struct HugePages {
  std::uintptr_t begin = 0;
  std::int64_t count = 0;

  void* page(std::int64_t i) const {
    return reinterpret_cast<void*>(begin +
                                   static_cast<std::uintptr_t>(i) * kHugePage);
  }
};

HugePages pages_inside(void* data, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (first + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (first + bytes) / kHugePage * kHugePage;
  if (begin >= end) return {};
  return {begin, static_cast<std::int64_t>((end - begin) / kHugePage)};
}

HugePages prefer(void* data, std::size_t bytes) {
  const HugePages pages = pages_inside(data, bytes);
  if (pages.count > 0) {
    ::madvise(pages.page(0), static_cast<std::size_t>(pages.count) * kHugePage,
              MADV_HUGEPAGE);
  }
  return pages;
}

}  // namespace

void prefer_huge_pages(void* data, std::size_t bytes) { prefer(data, bytes); }

void populate_huge_pages(void* data, std::size_t bytes) {
  const HugePages pages = prefer(data, bytes);
  parallel_for(pages.count, [&](std::int64_t i) {
    ::madvise(pages.page(i), kHugePage, MADV_POPULATE_WRITE);
  });
}

}  // namespace assay
