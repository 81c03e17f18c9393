// A text as bytes, and the windows of it that a step is trained on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "assay/base/mapped_file.h"
#include "assay/core/tensor.h"

namespace assay::train_gpt {

inline constexpr std::int64_t kVocabulary = 256;  // bytes

struct Batch {
  Tensor tokens;   // i64 [sequences, seq]
  Tensor targets;  // i64 [seq, sequences]: the byte after each, as logits lie
};

class Corpus {
 public:
  // Throws Error{kUnreadable} where there is no such file, Error{kUsage} where
  // it has no window of seq + 1 bytes.
  Corpus(const std::filesystem::path& path, std::int64_t seq);

  std::int64_t size() const { return static_cast<std::int64_t>(file_->size()); }
  // Sequences [first, first + count) of a step: where each begins is a function
  // of seed, step and its number alone, so that a resumed run, or one that cuts
  // its steps into other microbatches, reads the same.
  Batch windows(std::uint64_t seed, std::int64_t step, std::int64_t first,
                std::int64_t count) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  std::int64_t seq_;
};

}  // namespace assay::train_gpt
