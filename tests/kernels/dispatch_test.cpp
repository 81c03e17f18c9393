// Which table is chosen, and what an unknown name does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "assay/base/error.h"
#include "assay/kernels/kernels.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::StrEq;

TEST(Dispatch, PlainKernelsAreAlwaysThereAndLast) {
  ASSERT_FALSE(all_kernels().empty());
  EXPECT_THAT(all_kernels().back()->isa, StrEq("scalar"));
}

TEST(Dispatch, EveryTableIsFoundByItsName) {
  for (const KernelTable* table : all_kernels())
    EXPECT_EQ(&kernels_for(table->isa), table);
}

TEST(Dispatch, UnknownNameIsAnErrorThatListsTheValidOnes) {
  try {
    kernels_for("avx1024");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    EXPECT_THAT(e.what(), HasSubstr("avx1024"));
    for (const KernelTable* table : all_kernels())
      EXPECT_THAT(e.what(), HasSubstr(table->isa));
  }
}

TEST(Dispatch, ForcedSetIsTheOneThatRuns) {
  const char* forced = std::getenv("ASSAY_ISA");
  const char* expected =
      forced != nullptr && *forced != '\0' ? forced : all_kernels()[0]->isa;
  EXPECT_THAT(kernels().isa, StrEq(expected));
}

}  // namespace
}  // namespace assay
