// Named tensors and a few facts to one safetensors file and back, so that a
// training run goes on as if never interrupted.
//
// The tensors are whatever Module::state_dict(), Optimizer::state_dict() and
// LossScaler::state_dict() give, FP8 scales and histories among them; recipe,
// step and states of random numbers go into the file's metadata. A content hash
// of every tensor (128 bit, over name, dtype, shape and bytes) and of the
// metadata is written and checked: any bit that changed on the way is an error
// that names its tensor, not a NaN three steps later. The file appears
// complete, under its name, or not at all.
//
// Writing throws Error{kUsage} for what cannot be written (a name twice, not
// UTF-8, or metadata under "assay."); reading throws Error{kUnreadable} or
// {kRefused}, one line with the file's name. Thread-safe for distinct files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "assay/te/modules/named_tensor.h"
#include "assay/te/modules/random.h"

namespace assay::te {

// UTF-8 keys and values. Keys that begin with "assay." are the format's own.
using CheckpointMetadata = std::map<std::string, std::string>;

struct Checkpoint {
  std::vector<NamedTensor> tensors;  // in the order they were written, in
                                     // memory of their own, on the CPU
  CheckpointMetadata metadata;       // without the format's own
};

// Strided tensors are written row-major. Replaces a file that is there.
void save_checkpoint(const std::filesystem::path& path,
                     std::span<const NamedTensor> tensors,
                     const CheckpointMetadata& metadata = {});

// Reads a file that save_checkpoint() wrote, and checks every hash on the
// bytes that are handed out.
Checkpoint load_checkpoint(const std::filesystem::path& path);

// Copies the tensors into `targets`, which must have the same names, shapes and
// dtypes, each once: a missing, an unexpected or a different one is
// Error{kUsage} that names it, and nothing is changed.
void restore(const Checkpoint& checkpoint, std::span<NamedTensor> targets);

// "model", {"weight"}: {"model.weight"}. What keeps the lists of several
// objects apart in one file.
std::vector<NamedTensor> with_prefix(const std::string& prefix,
                                     std::vector<NamedTensor> tensors);
// All of it in one list: {"model", {"weight"}} gives "model.weight".
std::vector<NamedTensor> join_sections(
    std::map<std::string, std::vector<NamedTensor>> by_prefix);
// The reverse: the tensors of each prefix, without it. Throws Error{kUsage} for
// a prefix of which there is none, or a tensor of another prefix: nothing that
// was saved is dropped unnoticed. Shares the checkpoint's memory.
std::map<std::string, std::vector<NamedTensor>> sections(
    const Checkpoint& checkpoint, const std::vector<std::string>& prefixes);

// What training needs besides tensors.
struct TrainingState {
  std::int64_t step = 0;
  std::string recipe;  // recipe_name(), "" for none
  RandomStates random;
};
// "step", "recipe", "random.<name>"; numbers in a fixed width, so that the
// file of step 1000 is as large as that of step 1.
CheckpointMetadata to_metadata(const TrainingState& state);
// The reverse; other keys are ignored. Throws Error{kUsage} naming a key that
// is missing or malformed.
TrainingState training_state(const CheckpointMetadata& metadata);

}  // namespace assay::te
