// Rows that went through a journal are those that did not; lines that no
// journal writes cost a row, never a crash or a match.
#include "assay/conform/row_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "assay/base/error.h"
#include "assay/compare/perturbation/probe.h"
#include "assay/conform/scratch.h"
#include "assay/report/json.h"
#include "assay/report/row_journal.h"

namespace assay::conform {
namespace {

using perturbation::Collection;
using perturbation::Mode;
using perturbation::Probe;

std::shared_ptr<const Standard> standard() {
  static const auto read = Standard::load("assay");
  return read;
}

Tensor tensor(DType dtype, Shape shape, const std::vector<float>& values) {
  Tensor made = Tensor::zeros(dtype, std::move(shape));
  std::memcpy(made.mutable_data(), values.data(), 4 * values.size());
  return made;
}

Probe judged(const Tensor& golden, const Tensor& target) {
  Probe probe(standard(), Mode::kImprovePrecision, OpClass::kGemm,
              "Torch.f.0.forward.output.0");
  probe.against(golden.view, target.view);
  return probe;
}

// The rows of the report; what is around them says where and when.
std::string rows_of(Collection& rows) {
  const std::string text = json_text(rows.result());
  return text.substr(text.find("\"rows\""));
}

std::string slurp(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class RowReader : public testing::Test {
 protected:
  Scratch scratch_{std::filesystem::temp_directory_path()};
  std::filesystem::path path_ = scratch_.path() / "journal";

  void journal(Collection& rows, Probe probe) {
    if (!journal_) journal_ = std::make_unique<RowJournal>(path_);
    const perturbation::Place place = {"Torch.f.0.forward", "Torch.f",
                                       "Module.a.A"};
    const Row& row = rows.add(probe.take(), place);
    journal_->row(rows.as_is(), row, place);
  }

  std::unique_ptr<RowJournal> journal_;
};

TEST_F(RowReader, RowsComeBackWhole) {
  const float inf = HUGE_VALF, nan = std::nanf("");
  Collection rows(*standard(), Mode::kImprovePrecision);
  const Tensor x = tensor(DType::kF32, {2, 3}, {1, 2, 3, -4, 5, inf});
  journal(rows, judged(x, x));
  journal(rows,
          judged(x, tensor(DType::kF32, {2, 3}, {1, 2, 3.5, -4, 5, inf})));
  journal(rows, judged(x, tensor(DType::kF32, {2, 3}, {1, 2, 3, -4, 5, nan})));
  journal(rows, judged(x, tensor(DType::kF32, {6}, {1, 2, 3, -4, 5, inf})));
  journal(rows, judged(tensor(DType::kC64, {2}, {1, 2, 3, 4}),
                       tensor(DType::kC64, {2}, {1, 2, 3, 9})));
  journal(rows,
          judged(tensor(DType::kI32, {1}, {1}), tensor(DType::kI32, {1}, {2})));
  Probe none(standard(), Mode::kRepeat, OpClass::kGemm, "y");
  none.incomplete("fault", "a \"text\"\nof two lines");
  journal(rows, std::move(none));
  rows.step(4);
  journal(rows, judged(x, x));
  rows.skip("Torch.empty", "undefined", Verdict::kEmpty, 3);
  rows.left_out(7);
  journal_->counts(rows);
  rows.skip("Torch.empty", "undefined", Verdict::kEmpty, 2);
  rows.skip("Torch.g", "no kernel", Verdict::kIncomplete);
  journal_->counts(rows);  // the whole again: the last holds

  Collection again(*standard(), Mode::kImprovePrecision);
  read_row_journal(path_, again);
  EXPECT_EQ(rows_of(again), rows_of(rows));
  EXPECT_EQ(again.result().counts.mismatch, rows.result().counts.mismatch);
  EXPECT_EQ(again.left_out(), 7);
  EXPECT_EQ(again.result().first_divergence->call_path.at(0), "Module.a.A");
}

TEST_F(RowReader, AJournalCutShortAtEveryByteIsReadAsFar) {
  Collection rows(*standard(), Mode::kImprovePrecision);
  const Tensor x = tensor(DType::kF32, {2}, {1, 2});
  journal(rows, judged(x, x));
  journal(rows, judged(x, tensor(DType::kF32, {2}, {1, 3})));
  const std::string whole = slurp(path_);
  const std::size_t first = whole.find('\n') + 1;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream(path_, std::ios::trunc) << whole.substr(0, size);
    Collection again(*standard(), Mode::kImprovePrecision);
    read_row_journal(path_, again);
    const std::size_t expected = size == whole.size() ? 2
                                 : size >= first      ? 1
                                                      : 0;
    EXPECT_EQ(again.result().rows.size(), expected) << size;
  }
}

TEST_F(RowReader, WhatNoJournalWritesIsIncomplete) {
  Collection rows(*standard(), Mode::kImprovePrecision);
  const Tensor x = tensor(DType::kF32, {2}, {1, 2});
  journal(rows, judged(x, tensor(DType::kF32, {2}, {1, 3})));
  std::string line = slurp(path_);
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = line;
    const std::size_t at = text.find(what);
    EXPECT_NE(at, text.npos) << what;
    return text.replace(at, what.size(), by);
  };
  for (const std::string& bad : std::vector<std::string>{
           "no JSON\n", "[]\n", "{}\n", "{\"row\":{}}\n",
           replaced("\"index\":[1]", "\"index\":[2]"),
           replaced("\"index\":[1]", "\"index\":[0,1]"),
           replaced("\"index\":[1]", "\"index\":[-1]"),
           replaced("\"shape\":[2]", "\"shape\":[-2]"),
           replaced("\"mismatch\"", "\"fine\""), replaced("\"float32\"", "7"),
           replaced("\"rel_histogram\":[[", "\"rel_histogram\":[[999,1],["),
           replaced("\"op\":", "\"of\":")}) {
    std::ofstream(path_, std::ios::trunc) << bad;
    Collection again(*standard(), Mode::kImprovePrecision);
    read_row_journal(path_, again);
    EXPECT_EQ(again.result().verdict, Verdict::kIncomplete) << bad;
    EXPECT_EQ(again.result().counts.incomplete, 1) << bad;
  }
  EXPECT_THROW(read_row_journal(scratch_.path() / "absent", rows), Error);
}

}  // namespace
}  // namespace assay::conform
