#include "examples/train_gpt/corpus.h"

#include "assay/base/error.h"
#include "assay/core/philox.h"

namespace assay::train_gpt {

Corpus::Corpus(const std::filesystem::path& path, std::int64_t seq)
    : file_(MappedFile::open(path)), seq_(seq) {
  if (size() < seq + 1)
    throw Error(Code::kUsage, path.string() + ": " + std::to_string(size()) +
                                  " bytes, expected more than --seq (" +
                                  std::to_string(seq) + ")");
}

Batch Corpus::windows(std::uint64_t seed, std::int64_t step, std::int64_t first,
                      std::int64_t count) const {
  Batch batch{Tensor::empty(DType::kI64, {count, seq_}),
              Tensor::empty(DType::kI64, {seq_, count})};
  auto* tokens = batch.tokens.mutable_data<std::int64_t>();
  auto* targets = batch.targets.mutable_data<std::int64_t>();
  const std::span<const std::byte> text = file_->bytes();
  const auto places = static_cast<double>(size() - seq_);
  for (std::int64_t i = 0; i < count; ++i) {
    PhiloxStream random(seed, static_cast<std::uint64_t>(step));
    random.seek(static_cast<std::uint64_t>(first + i));
    const auto begin = static_cast<std::size_t>(random.next_uniform() * places);
    for (std::int64_t s = 0; s < seq_; ++s) {
      const std::size_t at = begin + static_cast<std::size_t>(s);
      tokens[i * seq_ + s] = static_cast<std::int64_t>(text[at]);
      targets[s * count + i] = static_cast<std::int64_t>(text[at + 1]);
    }
  }
  file_->check_intact();
  return batch;
}

}  // namespace assay::train_gpt
