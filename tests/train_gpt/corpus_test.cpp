#include "examples/train_gpt/corpus.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "assay/base/error.h"

namespace assay::train_gpt {
namespace {

const std::filesystem::path kText = std::filesystem::path(ASSAY_SOURCE_DIR) /
                                    "examples/data/northanger_abbey.txt";

std::string whole_text() {
  std::ifstream file(kText, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Sequence i of a batch, with the byte that follows it.
std::string window(const Batch& batch, std::int64_t i) {
  const std::int64_t count = batch.tokens.shape()[0];
  const std::int64_t seq = batch.tokens.shape()[1];
  std::string text;
  for (std::int64_t s = 0; s < seq; ++s)
    text += static_cast<char>(batch.tokens.data<std::int64_t>()[i * seq + s]);
  for (std::int64_t s = 0; s < seq; ++s) {
    const auto next =
        static_cast<char>(batch.targets.data<std::int64_t>()[s * count + i]);
    if (s + 1 < seq)
      EXPECT_EQ(next, text[static_cast<std::size_t>(s + 1)]);
    else
      text += next;
  }
  return text;
}

TEST(TrainGptCorpus, WindowsAreOfTheTextAndTargetsTheNextBytes) {
  const Corpus corpus(kText, 100);
  const std::string text = whole_text();
  EXPECT_EQ(corpus.size(), static_cast<std::int64_t>(text.size()));
  const Batch batch = corpus.windows(1, 1, 0, 8);
  EXPECT_EQ(batch.tokens.shape(), (Shape{8, 100}));
  EXPECT_EQ(batch.targets.shape(), (Shape{100, 8}));
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_NE(text.find(window(batch, i)), std::string::npos) << i;
}

TEST(TrainGptCorpus, WindowsDependOnSeedStepAndNumberAlone) {
  const Corpus corpus(kText, 64);
  const Batch whole = corpus.windows(7, 3, 0, 4);
  const Batch part = corpus.windows(7, 3, 2, 2);
  EXPECT_EQ(window(part, 0), window(whole, 2));
  EXPECT_EQ(window(part, 1), window(whole, 3));
  EXPECT_NE(window(whole, 0), window(whole, 1));
  EXPECT_NE(window(corpus.windows(7, 4, 0, 1), 0), window(whole, 0));
  EXPECT_NE(window(corpus.windows(8, 3, 0, 1), 0), window(whole, 0));
}

TEST(TrainGptCorpus, WindowsReachTheWholeText) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / "train_gpt_corpus_test.txt";
  std::ofstream(path) << "abcdef";
  const Corpus corpus(path, 4);  // begins at 0 or 1
  const Batch batch = corpus.windows(1, 1, 0, 64);
  int first = 0, second = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const std::string text = window(batch, i);
    first += text == "abcde";
    second += text == "bcdef";
  }
  EXPECT_EQ(first + second, 64);
  EXPECT_GT(first, 16);
  EXPECT_GT(second, 16);
  EXPECT_NO_THROW(Corpus(path, 5));
  try {
    Corpus(path, 6);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              path.string() + ": 6 bytes, expected more than --seq (6)");
  }
  std::filesystem::remove(path);
}

TEST(TrainGptCorpus, ReadsFilesOnly) {
  for (const char* path : {"/nowhere/text", "/"}) {
    try {
      Corpus(path, 6);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnreadable);
    }
  }
}

}  // namespace
}  // namespace assay::train_gpt
