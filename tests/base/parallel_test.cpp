// Parallel loops: every index once, exceptions, nesting.
#include "assay/base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "assay/base/error.h"

namespace assay {
namespace {

TEST(Parallel, EveryIndexOnce) {
  for (const std::int64_t count : {-1, 0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> seen(
        static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    parallel_for(count, [&](std::int64_t i) {
      seen[static_cast<std::size_t>(i)].fetch_add(1);
    });
    for (const auto& s : seen) EXPECT_EQ(s.load(), 1);
  }
}

TEST(Parallel, RethrowsWhatABodyThrew) {
  for (const std::int64_t count : {1, 100}) {
    try {
      parallel_for(count, [](std::int64_t i) {
        if (i % 7 == 0) throw Error(Code::kRefused, "seven");
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kRefused);
      EXPECT_STREQ(error.what(), "seven");
    }
  }
}

TEST(Parallel, Nests) {
  std::atomic<int> calls{0};
  parallel_for(8, [&](std::int64_t) {
    parallel_for(8, [&](std::int64_t) { calls.fetch_add(1); });
  });
  EXPECT_EQ(calls.load(), 64);
}

TEST(Parallel, ExceptionLeavesNestedLoops) {
  EXPECT_THROW(parallel_for(4,
                            [](std::int64_t) {
                              parallel_for(4, [](std::int64_t) {
                                throw Error(Code::kInternal, "inner");
                              });
                            }),
               Error);
  std::atomic<int> calls{0};  // and the next loop works
  parallel_for(4, [&](std::int64_t) { calls.fetch_add(1); });
  EXPECT_EQ(calls.load(), 4);
}

TEST(Parallel, ThreadCount) {
  set_thread_count(1);
  EXPECT_EQ(thread_count(), 1);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> elsewhere{0};
  parallel_for(100, [&](std::int64_t) {
    if (std::this_thread::get_id() != caller) elsewhere.fetch_add(1);
  });
  EXPECT_EQ(elsewhere.load(), 0);
  set_thread_count(2);
  EXPECT_EQ(thread_count(), 2);
  set_thread_count(0);
  EXPECT_GE(thread_count(), 1);
}

}  // namespace
}  // namespace assay
