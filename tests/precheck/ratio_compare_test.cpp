// Two files of details: pairing, what has no counterpart, the calls' verdicts.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "assay/base/parallel.h"
#include "assay/precheck/ratio/compare.h"
#include "assay/precheck/ratio/csv.h"
#include "ratio_rows.h"

namespace assay::precheck {
namespace {

std::vector<Detail> named(std::initializer_list<const char*> names) {
  std::vector<Detail> rows;
  for (const char* name : names) {
    rows.push_back(benchmark_row(0.25));
    rows.back().name = name;
  }
  return rows;
}

TEST(RatioCompare, PairsByNameAndKeepsWhatHasNoCounterpart) {
  const auto device =
      named({"Torch.add.1.backward.output.0", "Torch.add.1.forward.output.0",
             "Torch.mul.2.forward.output.0", "nonsense",
             "Torch.sub.4.forward.output.0", "Torch.sub.4.forward.output.0"});
  auto reference =
      named({"Torch.sub.4.forward.output.0", "Torch.add.1.forward.output.0",
             "Torch.add.1.backward.output.0", "nonsense",
             "Torch.div.3.forward.output.0"});
  reference[2].max_rel = 0.01;  // of the backward pass of add
  const RatioResult result = compare_devices(device, reference);
  const Comparison& c = result.comparison;
  ASSERT_EQ(c.groups.size(), 1u);
  ASSERT_EQ(c.groups[0].ops.size(), 5u);
  const auto op = [&](std::size_t i) { return c.groups[0].ops[i]; };
  EXPECT_EQ(op(0).name, "Torch.add.1");
  EXPECT_EQ(op(0).row_count, 2u);
  EXPECT_EQ(op(0).verdict, Verdict::kMismatch);
  EXPECT_EQ(c.rows[0].name(), "Torch.add.1.forward.output.0");
  EXPECT_EQ(c.rows[0].verdict, Verdict::kMatch);
  EXPECT_EQ(c.rows[1].verdict, Verdict::kMismatch);
  EXPECT_EQ(op(1).name, "Torch.mul.2");
  EXPECT_EQ(op(1).verdict, Verdict::kIncomplete);  // the device alone
  EXPECT_FALSE(c.rows[2].golden.present);
  EXPECT_EQ(op(2).name, "nonsense");
  EXPECT_EQ(op(2).verdict, Verdict::kIncomplete);
  EXPECT_EQ(op(3).row_count, 2u);
  EXPECT_EQ(op(3).verdict, Verdict::kIncomplete);  // twice
  EXPECT_EQ(op(4).name, "Torch.div.3");
  EXPECT_EQ(op(4).verdict, Verdict::kIncomplete);
  EXPECT_EQ(c.verdict, Verdict::kMismatch);
  EXPECT_EQ(c.counts.match, 1);
  EXPECT_EQ(c.counts.incomplete, 5);
  ASSERT_TRUE(c.first_divergence);
  EXPECT_EQ(c.first_divergence->name, "Torch.add.1");
}

TEST(RatioCompare, NothingIsNoMatch) {
  EXPECT_EQ(compare_devices({}, {}).comparison.verdict, Verdict::kIncomplete);
  const auto rows = named({"Torch.add.1.forward.output.0"});
  EXPECT_EQ(compare_devices(rows, {}).comparison.verdict, Verdict::kIncomplete);
  EXPECT_EQ(compare_devices({}, rows).comparison.verdict, Verdict::kIncomplete);
  EXPECT_EQ(compare_devices(rows, rows).comparison.verdict, Verdict::kMatch);
  auto empty = rows;
  empty[0].shape = "(0,)";
  EXPECT_EQ(compare_devices(empty, empty).comparison.verdict,
            Verdict::kIncomplete);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RatioCompare, IsTheSameForAnyThreads) {
  std::vector<Detail> device, reference;
  for (int i = 0; i < 5000; ++i) {
    const std::string name =
        "Torch.add." + std::to_string(i) + ".forward.output.0";
    device.push_back(benchmark_row(0.1 + i % 7));
    reference.push_back(benchmark_row(0.1 + i % 5));
    device.back().name = reference.back().name = name;
  }
  const auto path =
      std::filesystem::temp_directory_path() / "assay_ratio_test.csv";
  std::string texts[2];
  for (const int threads : {1, 4}) {
    set_thread_count(threads);
    write_ratio_details(path, compare_devices(device, reference));
    texts[threads == 4] = text_of(path);
  }
  set_thread_count(0);
  std::filesystem::remove(path);
  EXPECT_GT(texts[0].size(), 100'000u);
  EXPECT_EQ(texts[0], texts[1]);
}

}  // namespace
}  // namespace assay::precheck
